//! `transaction`: KV conditions, pushes and acks, all or nothing (contract section 5).
