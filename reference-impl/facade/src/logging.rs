//! What the process logs, and where: `LOG_LEVEL`, `RUST_LOG`, `QUEEN_LOG_JSON`. Standard error.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::EnvFilter;

use crate::config::LogConfig;

/// Installs the logger of this process. A second call changes nothing.
pub fn install(config: &LogConfig) {
    // The filter was parsed when the configuration was.
    let filter = EnvFilter::try_new(&config.filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal());
    let _ = if config.json {
        builder.json().flatten_event(true).try_init()
    } else {
        builder.try_init()
    };
}
