//! gzip (RFC 1952), one member or several.

use std::io::{self, Read, Write};

use bytes::{BufMut, BytesMut};
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::{CodecFault, Fault, Spent};

/// On batches of 100 KiB of text, level 6 (Kafka's default) takes ten times as long for output that
/// is a quarter smaller.
const LEVEL: u32 = 1;
/// DEFLATE's largest ratio: a match of 258 bytes for two bits.
const MAX_RATIO: usize = 1032;
/// Empty stream: header, an empty block, trailer.
const MIN_STREAM_BYTES: usize = 20;

pub(super) fn decompress(input: &[u8], limit: usize, spent: &mut Spent) -> Result<Vec<u8>, Fault> {
    let bound = limit.min(input.len().saturating_mul(MAX_RATIO));
    // Right for every stream of one member that does not lie.
    let declared = declared_len(input)?.min(bound);
    spent.0 = declared;
    if let Some(output) = decompress_into(input, declared)? {
        return Ok(output);
    }
    // Several members, or a lie: measure first, so that what is kept is allocated once.
    let len = measure(input, bound, spent)?.ok_or(Fault::OverLimit)?;
    decompress_into(input, len)?.ok_or(Fault::Stream(CodecFault::Size))
}

/// The trailer of the last member: the length of its content, modulo 2^32.
fn declared_len(input: &[u8]) -> Result<usize, Fault> {
    let trailer = input
        .last_chunk::<4>()
        .filter(|_| input.len() >= MIN_STREAM_BYTES)
        .ok_or(CodecFault::Truncated)?;
    Ok(u32::from_le_bytes(*trailer) as usize)
}

/// `None` where the stream yields more than `capacity`.
fn decompress_into(input: &[u8], capacity: usize) -> Result<Option<Vec<u8>>, Fault> {
    let mut decoder = MultiGzDecoder::new(input);
    let mut output = vec![0; capacity];
    let mut filled = 0;
    loop {
        // Reading on at the end is what checks the trailer.
        let mut probe = [0];
        let full = filled == capacity;
        let target = if full {
            &mut probe
        } else {
            &mut output[filled..]
        };
        match decoder.read(target).map_err(fault)? {
            0 => break,
            _ if full => return Ok(None),
            read => filled += read,
        }
    }
    output.truncate(filled);
    Ok(Some(output))
}

/// How many bytes the stream yields; `None` above `limit`.
fn measure(input: &[u8], limit: usize, spent: &mut Spent) -> Result<Option<usize>, Fault> {
    let mut decoder = MultiGzDecoder::new(input);
    let mut sink = [0; 8192];
    let mut len = 0_usize;
    loop {
        match decoder.read(&mut sink).map_err(fault)? {
            0 => return Ok(Some(len)),
            read => {
                len += read;
                spent.0 += read;
            }
        }
        if len > limit {
            return Ok(None);
        }
    }
}

fn fault(error: io::Error) -> Fault {
    Fault::Stream(match error.kind() {
        io::ErrorKind::UnexpectedEof => CodecFault::Truncated,
        io::ErrorKind::InvalidInput => CodecFault::Header,
        _ => CodecFault::Block,
    })
}

pub(super) fn compress(input: &[u8], out: &mut BytesMut) -> Option<()> {
    let mut encoder = GzEncoder::new(out.writer(), flate2::Compression::new(LEVEL));
    encoder.write_all(input).ok()?;
    encoder.finish().ok().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decompress(input: &[u8], limit: usize) -> Result<Vec<u8>, Fault> {
        super::decompress(input, limit, &mut Spent(0))
    }

    fn member(content: &[u8]) -> BytesMut {
        let mut out = BytesMut::new();
        compress(content, &mut out).unwrap();
        out
    }

    #[test]
    fn several_members_are_one_stream() {
        let mut stream = member(&[b'a'; 5000]);
        stream.extend_from_slice(&member(b"b"));
        let output = decompress(&stream, 1 << 20).unwrap();
        assert_eq!(output.len(), 5001);
        assert_eq!(decompress(&stream, 5000), Err(Fault::OverLimit));
    }

    #[test]
    fn a_trailer_that_lies_is_a_fault_and_not_an_allocation() {
        let mut stream = member(b"content");
        let at = stream.len() - 4;
        stream[at..].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(
            decompress(&stream, usize::MAX),
            Err(Fault::Stream(_))
        ));
    }

    #[test]
    fn bytes_behind_the_last_member_are_refused() {
        let mut stream = member(b"content");
        stream.extend_from_slice(b"tail");
        assert!(decompress(&stream, 1 << 20).is_err());
    }
}
