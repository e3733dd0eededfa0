//! Snappy, raw or in the block framing of snappy-java ("Xerial"): Java, Python and JavaScript
//! clients frame, librdkafka and Go clients may send either.

use bytes::BytesMut;

use super::{CodecFault, Fault, Spent, append_with};

/// 0x82 "SNAPPY" 0x00, then two big-endian versions.
const MAGIC: &[u8; 8] = b"\x82SNAPPY\x00";
const HEADER_BYTES: usize = 16;
const VERSION: u32 = 1;
/// snappy-java's default.
const BLOCK_BYTES: usize = 32 * 1024;
/// Snappy's largest ratio: 64 bytes for a copy of three.
const MAX_RATIO: usize = 22;

pub(super) fn decompress(input: &[u8], limit: usize, spent: &mut Spent) -> Result<Vec<u8>, Fault> {
    let mut len = 0_usize;
    for_each_block(input, |block| {
        len = len.saturating_add(declared_len(block)?);
        if len > limit {
            return Err(Fault::OverLimit);
        }
        Ok(())
    })?;

    spent.0 = len;
    let mut output = vec![0; len];
    let mut rest = &mut output[..];
    for_each_block(input, |block| {
        // Split where the first pass added.
        let (target, tail) = std::mem::take(&mut rest)
            .split_at_mut_checked(declared_len(block)?)
            .ok_or(CodecFault::Size)?;
        rest = tail;
        let written = snap::raw::Decoder::new()
            .decompress(block, target)
            .map_err(|_| CodecFault::Block)?;
        if written == target.len() {
            Ok(())
        } else {
            Err(CodecFault::Size.into())
        }
    })?;
    Ok(output)
}

/// What a raw block says it yields, held to what it can yield.
fn declared_len(block: &[u8]) -> Result<usize, Fault> {
    let len = snap::raw::decompress_len(block).map_err(|_| CodecFault::Header)?;
    if len > block.len().saturating_mul(MAX_RATIO) {
        return Err(CodecFault::Size.into());
    }
    Ok(len)
}

fn for_each_block<'a>(
    input: &'a [u8],
    mut visit: impl FnMut(&'a [u8]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let Some(mut rest) = strip_header(input)? else {
        return visit(input);
    };
    while !rest.is_empty() {
        // Streams that were appended to one another repeat the header.
        if let Some(behind) = strip_header(rest)? {
            rest = behind;
            continue;
        }
        let (len, behind) = rest.split_first_chunk().ok_or(CodecFault::Truncated)?;
        let (block, behind) = behind
            .split_at_checked(u32::from_be_bytes(*len) as usize)
            .ok_or(CodecFault::Truncated)?;
        visit(block)?;
        rest = behind;
    }
    Ok(())
}

/// What follows the framing's header; `None` where there is none.
fn strip_header(input: &[u8]) -> Result<Option<&[u8]>, Fault> {
    if !input.starts_with(MAGIC) {
        return Ok(None);
    }
    // The versions say nothing that a reader of version 1 needs.
    match input.get(HEADER_BYTES..) {
        Some(rest) => Ok(Some(rest)),
        None => Err(CodecFault::Truncated.into()),
    }
}

/// Writes the block framing, which every client reads.
#[derive(Default)]
pub(super) struct Encoder(Option<snap::raw::Encoder>);

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Encoder")
    }
}

impl Encoder {
    pub(super) fn compress(&mut self, input: &[u8], out: &mut BytesMut) -> Option<()> {
        let encoder = self.0.get_or_insert_with(snap::raw::Encoder::new);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&VERSION.to_be_bytes());
        for block in input.chunks(BLOCK_BYTES) {
            append_with(
                out,
                4 + snap::raw::max_compress_len(block.len()),
                |target| {
                    let (len, target) = target.split_first_chunk_mut()?;
                    let written = encoder.compress(block, target).ok()?;
                    *len = u32::try_from(written).ok()?.to_be_bytes();
                    Some(len.len() + written)
                },
            )?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decompress(input: &[u8], limit: usize) -> Result<Vec<u8>, Fault> {
        super::decompress(input, limit, &mut Spent(0))
    }

    #[test]
    fn raw_framed_and_appended_streams_decode() {
        let text = b"both framings that clients produce ".repeat(3000);
        let raw = snap::raw::Encoder::new().compress_vec(&text).unwrap();
        assert_eq!(decompress(&raw, text.len()).unwrap(), text);

        let mut framed = BytesMut::new();
        Encoder::default().compress(&text, &mut framed).unwrap();
        assert_eq!(decompress(&framed, text.len()).unwrap(), text);

        let again = framed.clone();
        framed.extend_from_slice(&again);
        assert_eq!(decompress(&framed, 2 * text.len()).unwrap(), text.repeat(2));
    }

    #[test]
    fn seven_bytes_cannot_ask_for_gigabytes() {
        // A raw block that declares 2^32-1 bytes.
        let bomb = [0xff, 0xff, 0xff, 0xff, 0x0f, 0x00, 0x00];
        assert_eq!(
            decompress(&bomb, usize::MAX),
            Err(Fault::Stream(CodecFault::Size))
        );
    }

    #[test]
    fn a_block_longer_than_the_stream_is_cut_short() {
        let mut stream = MAGIC.to_vec();
        stream.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff, 0]);
        assert_eq!(
            decompress(&stream, usize::MAX),
            Err(Fault::Stream(CodecFault::Truncated))
        );
    }
}
