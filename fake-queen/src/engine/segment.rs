//! Segments: the records one push call gave one lane, compressed together. The unit of retention
//! and of byte accounting (contract section 2). Pure encoding; offsets and times come later.
//!
//! A record is `varint(id length + 1, or 0 for a minted id) id varint(payload length) payload`.

use bytes::Bytes;
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

use crate::ids::MessageId;

/// Below this, compressing costs more than it saves.
const COMPRESS_FROM_BYTES: usize = 128;

/// Records packed together, not yet appended anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// How many records.
    pub count: u32,
    /// Size before compression.
    pub raw_len: u32,
    /// Some record carries a `transactionId` of its caller's.
    pub explicit_ids: bool,
    /// `body` is an LZ4 block; otherwise the raw bytes.
    pub compressed: bool,
    /// The records.
    pub body: Bytes,
}

/// Records with their place in a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Append instant, microseconds since the epoch.
    pub created_us: i64,
    /// Id of the first record; the others count up from it.
    pub first_id: MessageId,
    /// The records.
    pub packed: Packed,
}

impl Segment {
    /// The offset behind the last record.
    pub fn end_offset(&self) -> i64 {
        self.base_offset + i64::from(self.packed.count)
    }

    /// What retention and fetch budgets count: the stored size.
    pub fn stored_bytes(&self) -> usize {
        self.packed.body.len()
    }

    /// The id of the record at `offset`, which must lie in this segment.
    pub fn message_id(&self, offset: i64) -> MessageId {
        debug_assert!((self.base_offset..self.end_offset()).contains(&offset));
        self.first_id.plus(offset.abs_diff(self.base_offset))
    }
}

/// A stored segment that doesn't read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stored segment is damaged")]
pub struct Damaged;

/// The compressor's working memory, kept between segments.
pub struct Compressor(CompressTable);

impl Default for Compressor {
    fn default() -> Self {
        Self(CompressTable::small())
    }
}

/// Builds a [`Packed`].
#[derive(Debug, Default)]
pub struct Packer {
    raw: Vec<u8>,
    count: u32,
    explicit_ids: bool,
}

impl Packer {
    /// Adds a record. `transaction_id` is `None` when the broker mints it.
    pub fn add(&mut self, transaction_id: Option<&str>, payload: &str) {
        match transaction_id {
            None => self.raw.push(0),
            Some(id) => {
                self.explicit_ids = true;
                varint(&mut self.raw, id.len() + 1);
                self.raw.extend_from_slice(id.as_bytes());
            }
        }
        varint(&mut self.raw, payload.len());
        self.raw.extend_from_slice(payload.as_bytes());
        self.count += 1;
    }

    /// The records added.
    pub fn finish(self, compressor: &mut Compressor) -> Packed {
        let raw_len = self.raw.len();
        let mut packed = Packed {
            count: self.count,
            // Request bodies are bounded far below 4 GiB.
            raw_len: u32::try_from(raw_len).unwrap_or(u32::MAX),
            explicit_ids: self.explicit_ids,
            compressed: false,
            body: Bytes::new(),
        };
        if raw_len >= COMPRESS_FROM_BYTES {
            let mut out = vec![0; get_maximum_output_size(raw_len)];
            if let Ok(len) = compress_into_with_table(&self.raw, &mut out, &mut compressor.0)
                && len < raw_len
            {
                // Copied so that the worst-case buffer isn't kept for the segment's life.
                packed.body = Bytes::copy_from_slice(&out[..len]);
                packed.compressed = true;
                return packed;
            }
        }
        packed.body = Bytes::copy_from_slice(&self.raw);
        packed
    }
}

/// One record of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The caller's id, `None` when it was minted.
    pub transaction_id: Option<&'a str>,
    /// JSON text.
    pub payload: &'a str,
}

impl Packed {
    /// The records' raw bytes, to be read with [`records`].
    ///
    /// # Errors
    /// The stored bytes don't decompress to what was packed.
    pub fn unpack(&self) -> Result<Bytes, Damaged> {
        if !self.compressed {
            return Ok(self.body.clone());
        }
        let raw_len = usize::try_from(self.raw_len).map_err(|_| Damaged)?;
        let raw = lz4_flex::block::decompress(&self.body, raw_len).map_err(|_| Damaged)?;
        if raw.len() != raw_len {
            return Err(Damaged);
        }
        Ok(raw.into())
    }
}

/// Reads the records of an unpacked segment, in offset order.
pub fn records(raw: &[u8]) -> Records<'_> {
    Records { rest: raw }
}

/// See [`records`].
#[derive(Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    fn text(&mut self, len: usize) -> Result<&'a str, Damaged> {
        let (text, rest) = self.rest.split_at_checked(len).ok_or(Damaged)?;
        self.rest = rest;
        std::str::from_utf8(text).map_err(|_| Damaged)
    }

    fn record(&mut self) -> Result<Record<'a>, Damaged> {
        let transaction_id = match read_varint(&mut self.rest)? {
            0 => None,
            len => Some(self.text(len - 1)?),
        };
        let len = read_varint(&mut self.rest)?;
        Ok(Record {
            transaction_id,
            payload: self.text(len)?,
        })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let record = self.record();
        if record.is_err() {
            self.rest = &[];
        }
        Some(record)
    }
}

fn varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        // The low seven bits and the mark that more follow.
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn read_varint(rest: &mut &[u8]) -> Result<usize, Damaged> {
    let mut value = 0_usize;
    for shift in (0..35).step_by(7) {
        let (&byte, tail) = rest.split_first().ok_or(Damaged)?;
        *rest = tail;
        value |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Damaged)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_packed_is_unpacked(
            input in proptest::collection::vec((any::<Option<String>>(), ".{0,300}"), 0..20),
        ) {
            let mut packer = Packer::default();
            for (id, payload) in &input {
                packer.add(id.as_deref(), payload);
            }
            let packed = packer.finish(&mut Compressor::default());
            prop_assert_eq!(packed.count as usize, input.len());
            prop_assert_eq!(packed.explicit_ids, input.iter().any(|(id, _)| id.is_some()));
            let raw = packed.unpack().unwrap();
            let output: Vec<_> = records(&raw)
                .map(|record| record.map(|r| (r.transaction_id.map(str::to_owned), r.payload.to_owned())))
                .collect::<Result<_, _>>()
                .unwrap();
            prop_assert_eq!(output, input);
        }

        #[test]
        fn damaged_bytes_end_in_an_error_or_an_end(raw in proptest::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(records(&raw).count() <= raw.len());
        }
    }

    #[test]
    fn repetitive_payloads_are_stored_smaller() {
        let mut packer = Packer::default();
        for _ in 0..100 {
            packer.add(None, r#"{"k":null,"v":"aGVsbG8gd29ybGQ="}"#);
        }
        let packed = packer.finish(&mut Compressor::default());
        assert!(packed.compressed && packed.body.len() * 4 < packed.raw_len as usize);
    }
}
