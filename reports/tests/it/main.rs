//! Renderings, from outside.
