//! Sans-IO state machines: consumer groups, producer sequences, fetch sessions.
