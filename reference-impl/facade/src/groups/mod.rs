//! The registry of consumer groups: one task per group around the sans-IO core.
