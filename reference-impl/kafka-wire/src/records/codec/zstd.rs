//! Zstandard (RFC 8878), decoded in one shot: no window is allocated, whatever the frame asks for.

use std::fmt;

use bytes::BytesMut;
use zstd::zstd_safe::{self, CCtx, DCtx, ErrorCode};

use super::{CodecFault, Fault, Spent, append_with};

/// Kafka's default. On batches of 100 KiB of text it takes about a tenth longer than level 1, for
/// output that is 7 % smaller; even level -5 saves no more than a third of the time.
const LEVEL: i32 = 3;
const MAGIC: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();
/// A skippable frame's magic but for the low half of its first byte.
const SKIPPABLE_TAIL: [u8; 3] = [0x2a, 0x4d, 0x18];
/// The format's largest ratio: a block of 128 KiB in a header of three bytes and one byte.
const MAX_RATIO: usize = 128 * 1024 / 4;

/// What text-like records shrink by at most. Frames of unknown size get that much room at first:
/// their bound counts 128 KiB for each block, however little it holds.
const USUAL_RATIO: usize = 32;

/// Numbers of the library's stable error enumeration (`zstd_errors.h`).
const PREFIX_UNKNOWN: usize = 10;
const CHECKSUM_WRONG: usize = 22;
const DICTIONARY_WRONG: usize = 32;
const DST_SIZE_TOO_SMALL: usize = 70;
const SRC_SIZE_WRONG: usize = 72;

/// A decompression context, of a fixed size.
pub(in crate::records) struct Context(DCtx<'static>);

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Context")
    }
}

impl Context {
    pub(in crate::records) fn new() -> Self {
        Self(DCtx::create())
    }

    pub(super) fn decompress(
        &mut self,
        input: &[u8],
        limit: usize,
        spent: &mut Spent,
    ) -> Result<Vec<u8>, Fault> {
        // The library may have been built to read the formats of before version 0.8, too.
        if !input.starts_with(&MAGIC) && input.get(1..4) != Some(&SKIPPABLE_TAIL) {
            return Err(CodecFault::Header.into());
        }
        let bound = zstd_safe::decompress_bound(input).map_err(fault)?;
        let bound = usize::try_from(bound)
            .unwrap_or(usize::MAX)
            .min(input.len().saturating_mul(MAX_RATIO));
        let bound_within_limit = bound.min(limit);
        let usual = match zstd_safe::get_frame_content_size(input) {
            Ok(Some(_declared)) => bound_within_limit,
            _ => bound_within_limit.min(input.len().saturating_mul(USUAL_RATIO)),
        };
        spent.0 = usual;
        let outcome = match self.decompress_into(input, usual) {
            Err(code) if number(code) == DST_SIZE_TOO_SMALL && usual < bound_within_limit => {
                spent.0 += bound_within_limit;
                self.decompress_into(input, bound_within_limit)
            }
            outcome => outcome,
        };
        outcome.map_err(|code| {
            if number(code) == DST_SIZE_TOO_SMALL && bound > limit {
                Fault::OverLimit
            } else {
                fault(code)
            }
        })
    }

    fn decompress_into(&mut self, input: &[u8], capacity: usize) -> Result<Vec<u8>, ErrorCode> {
        let mut output = Vec::with_capacity(capacity);
        self.0.decompress(&mut output, input)?;
        Ok(output)
    }
}

/// The library counts its error numbers down from zero.
const fn number(code: ErrorCode) -> usize {
    code.wrapping_neg()
}

fn fault(code: ErrorCode) -> Fault {
    Fault::Stream(match number(code) {
        PREFIX_UNKNOWN => CodecFault::Header,
        CHECKSUM_WRONG => CodecFault::Checksum,
        DICTIONARY_WRONG => CodecFault::Unsupported,
        DST_SIZE_TOO_SMALL => CodecFault::Size,
        SRC_SIZE_WRONG => CodecFault::Truncated,
        _ => CodecFault::Block,
    })
}

/// A compression context that is made when first needed.
#[derive(Default)]
pub(super) struct Encoder(Option<CCtx<'static>>);

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Encoder")
    }
}

impl Encoder {
    pub(super) fn compress(&mut self, input: &[u8], out: &mut BytesMut) -> Option<()> {
        let context = self.0.get_or_insert_with(CCtx::create);
        append_with(out, zstd_safe::compress_bound(input.len()), |target| {
            context.compress(target, input, LEVEL).ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Context {
        fn decode(&mut self, input: &[u8], limit: usize) -> Result<Vec<u8>, Fault> {
            self.decompress(input, limit, &mut Spent(0))
        }
    }

    #[test]
    fn frames_follow_one_another() {
        let mut stream = BytesMut::new();
        let mut encoder = Encoder::default();
        encoder.compress(b"one ", &mut stream).unwrap();
        encoder.compress(b"two", &mut stream).unwrap();
        let mut context = Context::new();
        assert_eq!(context.decode(&stream, 100).unwrap(), b"one two");
        assert_eq!(context.decode(&stream, 6), Err(Fault::OverLimit));
        stream.extend_from_slice(b"tail");
        assert!(matches!(
            context.decode(&stream, 100),
            Err(Fault::Stream(_))
        ));
    }

    /// Streaming encoders (Java's among them) do not declare the content's size.
    #[test]
    fn a_frame_that_declares_no_size_decodes() {
        let text = b"no size was pledged for this text; ".repeat(30_000);
        let mut encoder = zstd::stream::Encoder::new(Vec::new(), 3).unwrap();
        std::io::Write::write_all(&mut encoder, &text).unwrap();
        let frame = encoder.finish().unwrap();
        assert_eq!(zstd_safe::get_frame_content_size(&frame).unwrap(), None);
        let mut context = Context::new();
        assert_eq!(context.decode(&frame, text.len()).unwrap(), text);
        assert_eq!(
            context.decode(&frame, text.len() - 1),
            Err(Fault::OverLimit)
        );
    }
}
