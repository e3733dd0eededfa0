//! Committed offsets: coalesced calls to the key/value store of Queen.
