//! From variables to a running facade, and from a signal to a clean stop.
