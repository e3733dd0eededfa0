//! What the process logs, and where: `LOG_LEVEL`, `RUST_LOG`, `QUEEN_LOG_JSON`. Standard error.

use std::io::{self, IsTerminal, Write, stderr};

use host::text::visible;
use tracing_subscriber::EnvFilter;

use crate::config::LogConfig;

/// Loses what cannot be written. A log shipper that died or a full disk must not stop a task: the
/// subscriber would report the error on the same stream, and panic there.
struct Lossy<W>(W);

impl<W: Write> Write for Lossy<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // All or nothing: half a line helps nobody, and nobody hears of the error.
        let _ = self.0.write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

/// Characters of what a client said that a line of the log shows.
const MAX_SHOWN_CHARS: usize = 64;

/// The first characters of what a client said, as a terminal only shows them, on one line.
pub(crate) fn printable(text: &str) -> String {
    let shown = visible(text).filter(|c| !c.is_control());
    shown.take(MAX_SHOWN_CHARS).collect()
}

/// Installs the logger of this process. A second call changes nothing.
pub fn install(config: &LogConfig) {
    // The filter was parsed when the configuration was.
    let filter = EnvFilter::try_new(&config.filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Lossy(stderr()))
        .log_internal_errors(false)
        .with_ansi(stderr().is_terminal());
    let _ = if config.json {
        builder.json().flatten_event(true).try_init()
    } else {
        builder.try_init()
    };
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use super::{Lossy, MAX_SHOWN_CHARS, printable};

    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    #[test]
    fn a_log_that_cannot_be_written_is_lost_and_nothing_else() {
        let mut lossy = Lossy(Full);
        assert!(lossy.write_all(b"a line\n").is_ok());
        assert!(lossy.flush().is_ok());
    }

    #[test]
    fn what_a_client_says_makes_no_line_of_its_own_and_no_long_one() {
        assert_eq!(printable("orders\r\n\u{1b}[31mservice"), "ordersservice");
        assert_eq!(printable(&"ä".repeat(1000)), "ä".repeat(MAX_SHOWN_CHARS));
    }
}
