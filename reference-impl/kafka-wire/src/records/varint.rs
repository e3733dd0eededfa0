//! Zigzag variable-length integers, and a cursor that never reads past its slice.

use bytes::BytesMut;

use super::RecordFault;

/// Longest encoding of 32 bits.
pub(super) const MAX_VARINT_BYTES: usize = 5;
/// Longest encoding of 64 bits.
pub(super) const MAX_VARLONG_BYTES: usize = 10;

/// A read position in a borrowed slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub(super) const fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(super) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, RecordFault> {
        let (&first, rest) = self.rest.split_first().ok_or(RecordFault::Truncated)?;
        self.rest = rest;
        Ok(first)
    }

    #[inline]
    pub(super) fn bytes(&mut self, len: usize) -> Result<&'a [u8], RecordFault> {
        let (taken, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or(RecordFault::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// A zigzag 32-bit integer. Longer encodings than needed are accepted up to 5 bytes, as
    /// Kafka's clients do; bits that do not fit are not.
    #[inline]
    pub(super) fn varint(&mut self) -> Result<i32, RecordFault> {
        match self.short_varint() {
            Some(short) => Ok(unzigzag32(short)),
            None => self.long_varint(),
        }
    }

    /// A zigzag 64-bit integer of at most 10 bytes.
    #[inline]
    pub(super) fn varlong(&mut self) -> Result<i64, RecordFault> {
        match self.short_varint() {
            Some(short) => Ok(unzigzag64(u64::from(short))),
            None => self.long_varlong(),
        }
    }

    /// One or two bytes: nearly all integers of nearly all records.
    #[inline]
    fn short_varint(&mut self) -> Option<u32> {
        match *self.rest {
            [only, ref rest @ ..] if only < 0x80 => {
                self.rest = rest;
                Some(u32::from(only))
            }
            [low, high, ref rest @ ..] if high < 0x80 => {
                self.rest = rest;
                Some(u32::from(low & 0x7f) | u32::from(high) << 7)
            }
            _ => None,
        }
    }

    #[cold]
    fn long_varint(&mut self) -> Result<i32, RecordFault> {
        u32::try_from(self.unsigned(MAX_VARINT_BYTES)?)
            .map(unzigzag32)
            .map_err(|_| RecordFault::Varint)
    }

    #[cold]
    fn long_varlong(&mut self) -> Result<i64, RecordFault> {
        self.unsigned(MAX_VARLONG_BYTES).map(unzigzag64)
    }

    fn unsigned(&mut self, max_bytes: usize) -> Result<u64, RecordFault> {
        let mut value = 0;
        for index in 0..max_bytes {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte of a 64-bit integer has room for one bit.
            if index == 9 && bits > 1 {
                return Err(RecordFault::Varint);
            }
            value |= bits << (7 * index);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(RecordFault::Varint)
    }

    /// A length and that many bytes; `None` for the length -1.
    #[inline]
    pub(super) fn nullable_bytes(&mut self) -> Result<Option<&'a [u8]>, RecordFault> {
        match self.varint()? {
            -1 => Ok(None),
            len => match usize::try_from(len) {
                Ok(len) => self.bytes(len).map(Some),
                Err(_) => Err(RecordFault::Length(len)),
            },
        }
    }
}

const fn unzigzag32(value: u32) -> i32 {
    (value >> 1) as i32 ^ -((value & 1) as i32)
}

const fn unzigzag64(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

const fn zigzag64(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Encoded length of a zigzag integer; the same for 32 bits sign-extended.
#[inline]
pub(super) const fn varlong_len(value: i64) -> usize {
    match zigzag64(value) {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        wide => (64 - wide.leading_zeros() as usize).div_ceil(7),
    }
}

/// Appends a zigzag integer; the same for 32 bits sign-extended.
#[inline]
pub(super) fn put_varlong(value: i64, out: &mut BytesMut) {
    match zigzag64(value) {
        short @ 0..0x80 => out.extend_from_slice(&[short as u8]),
        short @ 0x80..0x4000 => out.extend_from_slice(&[short as u8 | 0x80, (short >> 7) as u8]),
        wide => put_wide(wide, out),
    }
}

fn put_wide(mut rest: u64, out: &mut BytesMut) {
    while rest >= 0x80 {
        out.extend_from_slice(&[rest as u8 | 0x80]);
        rest >>= 7;
    }
    out.extend_from_slice(&[rest as u8]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::zero(&[0x00], Ok(0))]
    #[case::minus_one(&[0x01], Ok(-1))]
    #[case::max(&[0xfe, 0xff, 0xff, 0xff, 0x0f], Ok(i32::MAX))]
    #[case::min(&[0xff, 0xff, 0xff, 0xff, 0x0f], Ok(i32::MIN))]
    #[case::padded_zero(&[0x80, 0x80, 0x80, 0x80, 0x00], Ok(0))]
    #[case::bit_33(&[0xff, 0xff, 0xff, 0xff, 0x1f], Err(RecordFault::Varint))]
    #[case::six_bytes(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x00], Err(RecordFault::Varint))]
    #[case::cut(&[0x80], Err(RecordFault::Truncated))]
    #[case::empty(&[], Err(RecordFault::Truncated))]
    fn reads_32_bits(#[case] bytes: &[u8], #[case] expected: Result<i32, RecordFault>) {
        assert_eq!(Cursor::new(bytes).varint(), expected);
    }

    #[rstest]
    #[case::min(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], Ok(i64::MIN))]
    #[case::bit_65(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02], Err(RecordFault::Varint))]
    #[case::eleven(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00], Err(RecordFault::Varint))]
    fn reads_64_bits(#[case] bytes: &[u8], #[case] expected: Result<i64, RecordFault>) {
        assert_eq!(Cursor::new(bytes).varlong(), expected);
    }

    #[test]
    fn lengths_below_null_are_refused() {
        assert_eq!(
            Cursor::new(&[0x03]).nullable_bytes(),
            Err(RecordFault::Length(-2))
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in any::<i64>(), shift in 0_u32..64) {
            let value = value >> shift;
            let mut written = BytesMut::new();
            put_varlong(value, &mut written);
            prop_assert_eq!(written.len(), varlong_len(value));
            let mut cursor = Cursor::new(&written);
            prop_assert_eq!(cursor.varlong(), Ok(value));
            prop_assert_eq!(cursor.remaining(), 0);
            if let Ok(narrow) = i32::try_from(value) {
                prop_assert_eq!(Cursor::new(&written).varint(), Ok(narrow));
            }
        }
    }
}
