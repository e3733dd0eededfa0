//! Histories as JSON lines: one [`Entry`] a line. Written by us or by anybody; read with bounds.

use std::io::{self, BufRead, Write};

use crate::event::Entry;

/// Bytes of one line. A poll of a megabyte of small records is far below.
pub const MAX_LINE_BYTES: usize = 16 << 20;
/// Entries of one history: more than a day's run of the drivers writes, less than memory holds.
pub const MAX_ENTRIES: usize = 5_000_000;

/// Why a history can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The source failed.
    #[error("line {line}: {error}")]
    Io {
        /// Counted from 1.
        line: usize,
        /// What it said.
        error: io::Error,
    },
    /// A line is no entry.
    #[error("line {line}, column {}: {error}", error.column())]
    NotAnEntry {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        error: serde_json::Error,
    },
    /// A line is too long.
    #[error("line {line} has more than {MAX_LINE_BYTES} bytes")]
    LongLine {
        /// Counted from 1.
        line: usize,
    },
    /// The history is too long.
    #[error("more than {MAX_ENTRIES} entries")]
    TooMany,
    /// Time goes backwards.
    #[error("line {line}: {at_ms} ms comes after {before_ms} ms")]
    Backwards {
        /// Counted from 1.
        line: usize,
        /// The line's time.
        at_ms: u64,
        /// The time of the entry before.
        before_ms: u64,
    },
}

/// Reads a whole history. Empty lines are skipped, so an entry's index is its line's only without
/// them.
///
/// # Errors
///
/// [`ReadError`], at the first line that is wrong.
pub fn read(mut from: impl BufRead) -> Result<Vec<Entry>, ReadError> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        let limit = u64::try_from(MAX_LINE_BYTES + 1).unwrap_or(u64::MAX);
        let mut bounded = io::Read::take(&mut from, limit);
        let count = bounded
            .read_until(b'\n', &mut bytes)
            .map_err(|error| ReadError::Io { line, error })?;
        if count == 0 {
            break;
        }
        if count > MAX_LINE_BYTES {
            return Err(ReadError::LongLine { line });
        }
        if bytes.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        if entries.len() == MAX_ENTRIES {
            return Err(ReadError::TooMany);
        }
        let entry: Entry = serde_json::from_slice(&bytes)
            .map_err(|error| ReadError::NotAnEntry { line, error })?;
        let before_ms = entries.last().map_or(0, |last| last.at_ms);
        if entry.at_ms < before_ms {
            return Err(ReadError::Backwards {
                line,
                at_ms: entry.at_ms,
                before_ms,
            });
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// Writes a history.
///
/// # Errors
///
/// What the sink says.
pub fn write(mut to: impl Write, entries: &[Entry]) -> io::Result<()> {
    for entry in entries {
        serde_json::to_writer(&mut to, entry)?;
        to.write_all(b"\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Call, Polled, Reply};
    use crate::event::{Event, Mark, Op};
    use crate::value::{Batch, Seen, TopicPartition, Value};

    fn entries() -> Vec<Entry> {
        let at = TopicPartition::new("orders", 1);
        let value = Value {
            producer: 2,
            number: 7,
        };
        let events = [
            Event::Invoke {
                op: Op(1),
                call: Call::Produce {
                    batch: Batch::of_values(at.clone(), value, 2),
                    acks: -1,
                    transaction: None,
                },
                within_ms: Some(30_000),
            },
            Event::Ok {
                op: Op(1),
                reply: Reply::Polled(vec![Polled {
                    at,
                    from: 0,
                    next: 1,
                    records: vec![Seen {
                        offset: 0,
                        value,
                        digest: Some(9),
                    }],
                }]),
            },
            Event::Mark(Mark::Heal),
        ];
        (0..)
            .zip(events)
            .map(|(at_ms, event)| Entry {
                at_ms,
                who: "producer-2".into(),
                event,
            })
            .collect()
    }

    #[test]
    fn what_is_written_reads_back() {
        let mut bytes = Vec::new();
        write(&mut bytes, &entries()).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(
            text.lines().next().unwrap(),
            r#"{"at_ms":0,"who":"producer-2","event":{"invoke":{"op":1,"call":{"produce":{"batch":{"to":"orders-1","records":[{"value":"2-7"},{"value":"2-8"}]},"acks":-1}},"within_ms":30000}}}"#
        );
        assert_eq!(
            text.lines().last().unwrap(),
            r#"{"at_ms":2,"who":"producer-2","event":{"mark":"heal"}}"#
        );
        let spaced = text.replace('\n', "\n \n");
        assert_eq!(read(spaced.as_bytes()).unwrap(), entries());
    }

    fn refused(text: &str) -> String {
        read(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_wrong_line_is_named() {
        let good = r#"{"at_ms":5,"who":"a","event":{"mark":"heal"}}"#;
        assert!(refused(&format!("{good}\n{{}}\n")).starts_with("line 2, column 2: missing field"));
        let backwards = good.replace(":5,", ":4,");
        assert_eq!(
            refused(&format!("{good}\n{backwards}")),
            "line 2: 4 ms comes after 5 ms"
        );
        let unknown = good.replace("heal", "hail");
        assert!(refused(&unknown).contains("unknown variant `hail`, expected one of"));
        let more = good.replace(r#""who""#, r#""whom":1,"who""#);
        assert!(refused(&more).contains("unknown field `whom`"));
    }

    #[test]
    fn an_endless_line_is_not_kept() {
        let endless = io::repeat(b' ');
        let error = read(io::BufReader::new(endless)).unwrap_err();
        assert!(matches!(error, ReadError::LongLine { line: 1 }), "{error}");
    }
}
