//! The four codecs, each decompressing within a limit that is checked before memory is taken.
//!
//! All decoders work the same way: bound the output from the stream's own structure (block headers,
//! declared sizes, the codec's largest ratio), take the smaller of bound and limit in one
//! allocation, and decode into that. So a stream that lies costs what it can really expand to, and
//! never more than the limit. A stream that fails is paid for, too: many of them in one request
//! would otherwise cost the work of many budgets.

mod gzip;
mod lz4;
mod snappy;
mod zstd;

use bytes::{Bytes, BytesMut};

use super::{Budget, BuildError, CodecFault, Compression, RecordsError};
pub(super) use zstd::Context as ZstdContext;

/// Bytes that a decoder has set aside, or has produced and thrown away: what a stream costs that
/// fails.
#[derive(Debug)]
struct Spent(usize);

/// Why a stream did not decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It yields more than the limit.
    OverLimit,
    Stream(CodecFault),
}

impl From<CodecFault> for Fault {
    fn from(fault: CodecFault) -> Self {
        Self::Stream(fault)
    }
}

/// Decompresses the records of a batch within what `budget` has left, and pays for what they
/// expand to; where they fail, for what was set aside, and for all that is left where they expand
/// beyond it. Uncompressed records are handed back as they are, unpaid.
pub(super) fn decompress(
    compression: Compression,
    input: Bytes,
    budget: &mut Budget,
) -> Result<Bytes, RecordsError> {
    let limit = budget.remaining_bytes();
    let mut spent = Spent(0);
    let outcome = match compression {
        Compression::None => return Ok(input),
        Compression::Gzip => gzip::decompress(&input, limit, &mut spent),
        Compression::Snappy => snappy::decompress(&input, limit, &mut spent),
        Compression::Lz4 => lz4::decompress(&input, limit, &mut spent),
        Compression::Zstd => budget.zstd().decompress(&input, limit, &mut spent),
    };
    match outcome {
        Ok(output) => {
            budget.take_bytes(output.len());
            Ok(output.into())
        }
        Err(Fault::OverLimit) => {
            budget.take_bytes(limit);
            Err(RecordsError::BytesOverBudget {
                remaining_bytes: limit,
            })
        }
        Err(Fault::Stream(fault)) => {
            budget.take_bytes(spent.0);
            Err(RecordsError::Codec { compression, fault })
        }
    }
}

/// The state that compressing takes, kept from batch to batch: one for each task that writes.
#[derive(Debug, Default)]
pub struct Compressor {
    /// The uncompressed records of the batch that is being built.
    pub(super) gathered: BytesMut,
    snappy: snappy::Encoder,
    lz4: lz4::Encoder,
    zstd: zstd::Encoder,
}

impl Compressor {
    /// Takes no memory until a codec is used.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends what was gathered to `out`, compressed.
    pub(super) fn compress(
        &mut self,
        compression: Compression,
        out: &mut BytesMut,
    ) -> Result<(), BuildError> {
        let input = &self.gathered[..];
        match compression {
            Compression::None => {
                out.extend_from_slice(input);
                Some(())
            }
            Compression::Gzip => gzip::compress(input, out),
            Compression::Snappy => self.snappy.compress(input, out),
            Compression::Lz4 => self.lz4.compress(input, out),
            Compression::Zstd => self.zstd.compress(input, out),
        }
        .ok_or(BuildError::Codec(compression))
    }
}

/// Extends `out` by up to `max` bytes that `write` fills, and keeps as many as it says it wrote.
fn append_with(
    out: &mut BytesMut,
    max: usize,
    write: impl FnOnce(&mut [u8]) -> Option<usize>,
) -> Option<()> {
    let start = out.len();
    out.resize(start + max, 0);
    let written = write(&mut out[start..]);
    out.truncate(start + written.unwrap_or(0));
    written.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fault of a stream of this codec that is cut after each of its bytes: none decodes.
    #[test]
    fn no_prefix_of_a_stream_decodes() {
        let text = b"a stream that is cut anywhere is not whole. ".repeat(20);
        for compression in Compression::ALL {
            if compression == Compression::None {
                continue;
            }
            let mut compressor = Compressor::new();
            compressor.gathered.extend_from_slice(&text);
            let mut whole = BytesMut::new();
            compressor.compress(compression, &mut whole).unwrap();
            let whole = whole.freeze();

            let mut budget = Budget::new(1 << 20, 0);
            let decoded = decompress(compression, whole.clone(), &mut budget).unwrap();
            assert_eq!(decoded, text, "{compression}");
            assert_eq!(budget.remaining_bytes(), (1 << 20) - text.len());

            for cut in 1..whole.len() {
                let outcome = decompress(compression, whole.slice(..cut), &mut budget);
                // Xerial framing has no end mark: a cut between blocks is a whole stream.
                let decodes = matches!(&outcome, Ok(decoded) if decoded.len() == text.len());
                assert!(!decodes, "{compression} cut at {cut}");
            }
        }
    }

    #[test]
    fn a_stream_that_fails_late_is_paid_for() {
        let text = vec![b'x'; 300_000];
        for compression in Compression::ALL {
            if compression == Compression::None {
                continue;
            }
            let mut compressor = Compressor::new();
            compressor.gathered.extend_from_slice(&text);
            let mut stream = BytesMut::new();
            compressor.compress(compression, &mut stream).unwrap();
            // Damage behind nearly all of the content: gzip's checksum, or garbage after the end.
            match compression {
                Compression::Gzip => {
                    let at = stream.len() - 8;
                    stream[at] ^= 1;
                }
                Compression::Snappy => {
                    // The last block promises a byte more than it holds.
                    let blocks = text.len().div_ceil(32 * 1024);
                    let mut at = 16;
                    for _ in 1..blocks {
                        let len = stream[at..at + 4].try_into().map(u32::from_be_bytes);
                        at += 4 + len.unwrap() as usize;
                    }
                    stream[at + 4] ^= 1;
                }
                _ => stream.extend_from_slice(b"tail"),
            }
            let mut budget = Budget::new(1 << 20, 0);
            let outcome = decompress(compression, stream.freeze(), &mut budget);
            assert!(
                matches!(outcome, Err(RecordsError::Codec { .. })),
                "{compression}: {outcome:?}"
            );
            let paid = (1 << 20) - budget.remaining_bytes();
            let free_of_charge = matches!(compression, Compression::Lz4 | Compression::Zstd);
            // Garbage after the end shows in the headers, before anything is decoded.
            assert_eq!(paid >= text.len(), !free_of_charge, "{compression}: {paid}");
        }
    }

    #[test]
    fn exactly_the_limit_decodes_and_one_less_does_not() {
        let text = vec![b'x'; 300_000];
        for compression in Compression::ALL {
            if compression == Compression::None {
                continue;
            }
            let mut compressor = Compressor::new();
            compressor.gathered.extend_from_slice(&text);
            let mut whole = BytesMut::new();
            compressor.compress(compression, &mut whole).unwrap();
            let whole = whole.freeze();

            let mut exact = Budget::new(text.len(), 0);
            assert!(decompress(compression, whole.clone(), &mut exact).is_ok());
            assert_eq!(exact.remaining_bytes(), 0, "{compression}");

            let mut short = Budget::new(text.len() - 1, 0);
            assert_eq!(
                decompress(compression, whole, &mut short),
                Err(RecordsError::BytesOverBudget {
                    remaining_bytes: text.len() - 1
                }),
                "{compression}"
            );
            assert_eq!(short.remaining_bytes(), 0);
        }
    }
}
