//! The LZ4 frame format. Blocks are decoded straight into the output: the frame reader of the
//! codec crate would set 4 MiB aside for each frame that names that block size.

use bytes::BytesMut;
use lz4_flex::block::{
    CompressTable, DecompressError, compress_into_with_table, decompress_into,
    decompress_into_with_dict, get_maximum_output_size,
};
use twox_hash::XxHash32;

use super::{CodecFault, Fault, Spent, append_with};

const MAGIC: u32 = 0x184d_2204;
/// 16 magics of frames whose content is no data.
const SKIPPABLE_MAGIC: u32 = 0x184d_2a50;
const SKIPPABLE_MASK: u32 = 0xffff_fff0;

/// What a block may refer back to in a frame of linked blocks.
const WINDOW_BYTES: usize = 64 * 1024;
/// The format's largest ratio: each byte of a match length stands for 255.
const MAX_RATIO: usize = 255;
/// Set on the length of a block that is stored as it is.
const STORED: u32 = 1 << 31;

/// As Kafka's own clients write them: independent blocks of 64 KiB without checksums.
const HEADER: [u8; 7] = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];
const BLOCK_BYTES: usize = 64 * 1024;
const END_MARK: [u8; 4] = [0; 4];

/// The descriptor of a frame.
struct Frame {
    linked: bool,
    block_checksums: bool,
    content_checksum: bool,
    content_size: Option<u64>,
    max_block_bytes: usize,
}

/// A read position.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], CodecFault> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(CodecFault::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecFault> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(CodecFault::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u32(&mut self) -> Result<u32, CodecFault> {
        self.array().map(u32::from_le_bytes)
    }
}

/// One block of a frame.
struct Block<'a> {
    stored: bool,
    bytes: &'a [u8],
}

impl Frame {
    /// The next frame, past those that may be skipped; `None` at the end of the input.
    fn next(input: &mut Input<'_>) -> Result<Option<Self>, CodecFault> {
        while !input.0.is_empty() {
            match input.u32()? {
                MAGIC => return Self::parse(input).map(Some),
                magic if magic & SKIPPABLE_MASK == SKIPPABLE_MAGIC => {
                    let len = input.u32()?;
                    input.take(len as usize)?;
                }
                _ => return Err(CodecFault::Header),
            }
        }
        Ok(None)
    }

    fn parse(input: &mut Input<'_>) -> Result<Self, CodecFault> {
        let descriptor = input.0;
        let [flags, block_descriptor] = input.array()?;
        let flag = |bit: u8| flags & (1 << bit) != 0;
        if flags >> 6 != 1 || flag(1) || block_descriptor & 0x8f != 0 {
            return Err(CodecFault::Header);
        }
        if flag(0) {
            // A dictionary, which the two ends would have to agree upon.
            return Err(CodecFault::Unsupported);
        }
        let max_block_bytes = match block_descriptor >> 4 {
            size @ 4..=7 => 1 << (8 + 2 * size),
            _ => return Err(CodecFault::Header),
        };
        let content_size = if flag(3) {
            Some(u64::from_le_bytes(input.array()?))
        } else {
            None
        };
        let descriptor = &descriptor[..descriptor.len() - input.0.len()];
        let [checksum] = input.array()?;
        if (XxHash32::oneshot(0, descriptor) >> 8) as u8 != checksum {
            return Err(CodecFault::Checksum);
        }
        Ok(Self {
            linked: !flag(5),
            block_checksums: flag(4),
            content_checksum: flag(2),
            content_size,
            max_block_bytes,
        })
    }

    /// The frame's next block, or `None` at its end mark.
    fn block<'a>(&self, input: &mut Input<'a>) -> Result<Option<Block<'a>>, CodecFault> {
        let word = input.u32()?;
        let len = (word & !STORED) as usize;
        if len == 0 {
            return Ok(None);
        }
        if len > self.max_block_bytes {
            return Err(CodecFault::Block);
        }
        let bytes = input.take(len)?;
        if self.block_checksums && input.u32()? != XxHash32::oneshot(0, bytes) {
            return Err(CodecFault::Checksum);
        }
        Ok(Some(Block {
            stored: word & STORED != 0,
            bytes,
        }))
    }

    /// Most bytes that `block` yields.
    fn bound(&self, block: &Block<'_>) -> usize {
        if block.stored {
            block.bytes.len()
        } else {
            self.max_block_bytes
                .min(block.bytes.len().saturating_mul(MAX_RATIO))
        }
    }
}

pub(super) fn decompress(input: &[u8], limit: usize, spent: &mut Spent) -> Result<Vec<u8>, Fault> {
    spent.0 = limit.min(bound(input)?);
    let mut output = vec![0; spent.0];
    let mut written = 0;
    let mut input = Input(input);
    while let Some(frame) = Frame::next(&mut input)? {
        let start = written;
        while let Some(block) = frame.block(&mut input)? {
            written += decode_block(&frame, &block, &mut output, start, written)?;
        }
        let content = &output[start..written];
        if frame
            .content_size
            .is_some_and(|declared| declared != content.len() as u64)
        {
            return Err(CodecFault::Size.into());
        }
        if frame.content_checksum && input.u32()? != XxHash32::oneshot(0, content) {
            return Err(CodecFault::Checksum.into());
        }
    }
    output.truncate(written);
    Ok(output)
}

/// Most bytes the stream yields, by its block headers: exact but for the last block of a frame.
fn bound(input: &[u8]) -> Result<usize, Fault> {
    let mut input = Input(input);
    if input.0.is_empty() {
        return Err(CodecFault::Truncated.into());
    }
    let mut total = 0_usize;
    while let Some(frame) = Frame::next(&mut input)? {
        // The checksums are for the pass that decodes.
        let headers_only = Frame {
            block_checksums: false,
            ..frame
        };
        while let Some(block) = headers_only.block(&mut input)? {
            total = total.saturating_add(frame.bound(&block));
            if frame.block_checksums {
                input.u32()?;
            }
        }
        if frame.content_checksum {
            input.u32()?;
        }
    }
    Ok(total)
}

/// Decodes into `output` from `written` on, and says how many bytes. Blocks of a linked frame may
/// refer back as far as the frame's `start`.
fn decode_block(
    frame: &Frame,
    block: &Block<'_>,
    output: &mut [u8],
    start: usize,
    written: usize,
) -> Result<usize, Fault> {
    let (before, target) = output.split_at_mut(written);
    let bound = frame.bound(block);
    // Short only where the limit cut the allocation.
    let cut = target.len() < bound;
    let target_len = target.len().min(bound);
    let target = &mut target[..target_len];

    if block.stored {
        if cut {
            return Err(Fault::OverLimit);
        }
        target.copy_from_slice(block.bytes);
        return Ok(target_len);
    }
    let decoded = if frame.linked && written > start {
        let window = &before[start.max(written.saturating_sub(WINDOW_BYTES))..];
        decompress_into_with_dict(block.bytes, target, window)
    } else {
        decompress_into(block.bytes, target)
    };
    decoded.map_err(|error| match error {
        DecompressError::OutputTooSmall { .. } if cut => Fault::OverLimit,
        _ => CodecFault::Block.into(),
    })
}

/// Writes frames as Kafka's own clients do.
#[derive(Default)]
pub(super) struct Encoder(Option<CompressTable>);

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Encoder")
    }
}

impl Encoder {
    pub(super) fn compress(&mut self, input: &[u8], out: &mut BytesMut) -> Option<()> {
        let table = self.0.get_or_insert_with(CompressTable::large);
        out.extend_from_slice(&HEADER);
        for block in input.chunks(BLOCK_BYTES) {
            append_with(out, 4 + get_maximum_output_size(block.len()), |target| {
                let (word, target) = target.split_first_chunk_mut()?;
                let mut len = compress_into_with_table(block, target, table).ok()?;
                let mut stored = 0;
                if len >= block.len() {
                    target.get_mut(..block.len())?.copy_from_slice(block);
                    len = block.len();
                    stored = STORED;
                }
                *word = (u32::try_from(len).ok()? | stored).to_le_bytes();
                Some(word.len() + len)
            })?;
        }
        out.extend_from_slice(&END_MARK);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    use rstest::rstest;

    use super::*;

    fn decompress(input: &[u8], limit: usize) -> Result<Vec<u8>, Fault> {
        super::decompress(input, limit, &mut Spent(0))
    }

    fn text() -> Vec<u8> {
        (0..20_000_u32)
            .flat_map(|number| format!("line {number} of a text; ").into_bytes())
            .collect()
    }

    fn encode(info: FrameInfo, content: &[u8]) -> Vec<u8> {
        let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    #[rstest]
    fn every_form_of_frame_decodes(
        #[values(BlockMode::Independent, BlockMode::Linked)] mode: BlockMode,
        #[values(BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max4MB)] size: BlockSize,
        #[values(false, true)] checksums: bool,
    ) {
        let text = text();
        let info = FrameInfo::new()
            .block_mode(mode)
            .block_size(size)
            .block_checksums(checksums)
            .content_checksum(checksums)
            .content_size(checksums.then_some(text.len() as u64));
        let frame = encode(info, &text);
        assert_eq!(decompress(&frame, text.len()).unwrap(), text);
        assert_eq!(decompress(&frame, text.len() - 1), Err(Fault::OverLimit));
        if checksums {
            for at in [8, frame.len() / 2, frame.len() - 1] {
                let mut damaged = frame.clone();
                damaged[at] ^= 1;
                assert!(decompress(&damaged, text.len()).is_err(), "byte {at}");
            }
        }
    }

    #[test]
    fn what_is_written_is_read_by_the_codec_crates_own_reader() {
        let mut random = Vec::new();
        let mut state = 1_u32;
        random.resize_with(100_000, || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        for content in [text(), random, vec![]] {
            let mut frame = BytesMut::new();
            Encoder::default().compress(&content, &mut frame).unwrap();
            let mut decoded = Vec::new();
            std::io::Read::read_to_end(
                &mut lz4_flex::frame::FrameDecoder::new(&frame[..]),
                &mut decoded,
            )
            .unwrap();
            assert_eq!(decoded, content);
            assert_eq!(decompress(&frame, content.len()).unwrap(), content);
        }
    }

    #[test]
    fn frames_follow_one_another_and_skippable_ones_are_skipped() {
        let mut stream = encode(FrameInfo::new(), b"one ");
        stream.extend_from_slice(&[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, b'x', b'x', b'x']);
        stream.extend_from_slice(&encode(FrameInfo::new(), b"two"));
        assert_eq!(decompress(&stream, 100).unwrap(), b"one two");
        stream.extend_from_slice(b"tail");
        assert_eq!(
            decompress(&stream, 100),
            Err(Fault::Stream(CodecFault::Header))
        );
    }

    #[test]
    fn a_frame_without_end_mark_is_cut_short() {
        let frame = encode(FrameInfo::new(), b"content");
        assert_eq!(
            decompress(&frame[..frame.len() - 4], 100),
            Err(Fault::Stream(CodecFault::Truncated))
        );
    }
}
