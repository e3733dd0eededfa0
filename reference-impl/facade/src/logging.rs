//! What the process logs, and where: `LOG_LEVEL`, `RUST_LOG`, `QUEEN_LOG_JSON`.
