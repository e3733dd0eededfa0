//! Reads primitives from a slice without trusting it: every read is checked against what is left,
//! nothing is copied or allocated. Used by `header` and `walk`.

/// What is wrong with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The bytes end inside a value. Numbers above 2^32 - 1 are said as that.
    #[error("ends inside a value: {needed} bytes needed, {left} left")]
    Truncated {
        /// Bytes the value needs, as declared.
        needed: u32,
        /// Bytes left.
        left: u32,
    },
    /// A length below -1, or a null where no version of Kafka writes one.
    #[error("length {0} is negative")]
    NegativeLength(i32),
    /// An unsigned varint of more than 32 bits.
    #[error("varint does not fit in 32 bits")]
    VarintTooLong,
    /// A compact string above Kafka's limit of 32,767 bytes.
    #[error("string of {0} bytes is above Kafka's limit of 32767")]
    StringTooLong(u32),
    /// A string that is not UTF-8.
    #[error("string is not UTF-8")]
    NotUtf8,
    /// Null in a field that is not nullable in this version.
    #[error("null where the schema allows none")]
    Null,
    /// The presence byte of a nullable struct is neither -1 nor 1.
    #[error("presence byte {0} of a nullable struct is neither -1 nor 1")]
    PresenceByte(i8),
    /// Tags must ascend (KIP-482).
    #[error("tag {tag} follows tag {previous}: tags must ascend")]
    TagOrder {
        /// The offending tag.
        tag: u32,
        /// The tag before it.
        previous: u32,
    },
    /// A tag that the schema knows, but not for this version.
    #[error("tag {0} does not belong to this version")]
    TagVersion(u32),
    /// A known tagged field whose content is shorter or longer than its declared size.
    #[error("tagged field declares {declared} bytes and holds {actual}")]
    TagSize {
        /// The declared size.
        declared: u32,
        /// What its value takes.
        actual: u32,
    },
    /// Bytes behind the end of the schema.
    #[error("{0} bytes follow the end of the message")]
    Trailing(u32),
    /// More array elements and unknown tagged fields than the limit allows for one frame.
    #[error("more than {0} array elements and unknown tagged fields")]
    TooManyElements(u32),
}

/// The bytes end inside a value.
#[cold]
pub(crate) fn truncated(needed: usize, left: usize) -> Malformed {
    Malformed::Truncated {
        needed: clamp(needed),
        left: clamp(left),
    }
}

/// A count for an error: as large as 32 bits can say. Errors stay small enough for registers.
pub(crate) fn clamp(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A slice and what is left of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    left: &'a [u8],
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, left: bytes }
    }

    #[inline]
    pub(crate) fn at(bytes: &'a [u8], position: usize) -> Self {
        let left = bytes.get(position..).unwrap_or_default();
        Cursor { bytes, left }
    }

    #[inline]
    pub(crate) fn position(&self) -> usize {
        self.bytes.len() - self.left.len()
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    #[inline]
    pub(crate) fn remaining(&self) -> usize {
        self.left.len()
    }

    /// The next `count` bytes.
    #[inline]
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        match self.left.split_at_checked(count) {
            Some((taken, left)) => {
                self.left = left;
                Ok(taken)
            }
            None => Err(truncated(count, self.left.len())),
        }
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        match self.left.split_first_chunk::<N>() {
            Some((taken, left)) => {
                self.left = left;
                Ok(*taken)
            }
            None => Err(truncated(N, self.left.len())),
        }
    }

    #[inline]
    pub(crate) fn i8(&mut self) -> Result<i8, Malformed> {
        Ok(i8::from_be_bytes(self.array()?))
    }

    #[inline]
    pub(crate) fn i16(&mut self) -> Result<i16, Malformed> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    #[inline]
    pub(crate) fn i32(&mut self) -> Result<i32, Malformed> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// An unsigned varint of at most five bytes. Overlong forms of a 32-bit value are accepted, as
    /// Kafka accepts them: they mean the same to every reader.
    #[inline(always)]
    pub(crate) fn varint(&mut self) -> Result<u32, Malformed> {
        match self.left {
            [byte @ ..0x80, left @ ..] => {
                self.left = left;
                Ok(u32::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u32, Malformed> {
        let mut value = 0;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array::<1>()?;
            if shift == 28 && byte > 0x0f {
                return Err(Malformed::VarintTooLong);
            }
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        Ok(value)
    }

    /// The length of a non-compact value: `None` for -1.
    #[inline]
    pub(crate) fn length(declared: i32) -> Result<Option<usize>, Malformed> {
        match declared {
            // Not negative: fits.
            0.. => Ok(Some(declared as usize)),
            -1 => Ok(None),
            _ => Err(Malformed::NegativeLength(declared)),
        }
    }

    /// The length of a compact value, which is sent plus one: `None` for 0.
    #[inline]
    pub(crate) fn compact_length(&mut self) -> Result<Option<usize>, Malformed> {
        Ok(self.varint()?.checked_sub(1).map(|length| length as usize))
    }

    /// Skips a section of tagged fields of which none is known, checking order and sizes.
    pub(crate) fn skip_tags(&mut self) -> Result<(), Malformed> {
        let mut previous = None;
        for _ in 0..self.varint()? {
            let tag = self.varint()?;
            ascending(previous, tag)?;
            previous = Some(tag);
            let size = self.varint()?;
            self.take(size as usize)?;
        }
        Ok(())
    }
}

/// Tags ascend strictly.
#[inline]
pub(crate) fn ascending(previous: Option<u32>, tag: u32) -> Result<(), Malformed> {
    match previous {
        Some(previous) if tag <= previous => Err(Malformed::TagOrder { tag, previous }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_end_within_five_bytes_and_32_bits() {
        let read = |bytes: &[u8]| Cursor::new(bytes).varint();
        assert_eq!(read(&[0x7f]), Ok(127));
        assert_eq!(read(&[0x80, 0x01]), Ok(128));
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Ok(u32::MAX));
        assert_eq!(
            read(&[0xff, 0xff, 0xff, 0xff, 0x1f]),
            Err(Malformed::VarintTooLong)
        );
        assert_eq!(
            read(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x00]),
            Err(Malformed::VarintTooLong)
        );
        assert_eq!(read(&[0x80, 0x80, 0x80, 0x80, 0x00]), Ok(0));
        assert!(matches!(
            read(&[0x80, 0x80]),
            Err(Malformed::Truncated { .. })
        ));
    }

    #[test]
    fn tags_ascend() {
        assert_eq!(Cursor::new(&[2, 0, 1, 9, 5, 0]).skip_tags(), Ok(()));
        assert!(matches!(
            Cursor::new(&[2, 5, 0, 5, 0]).skip_tags(),
            Err(Malformed::TagOrder {
                tag: 5,
                previous: 5
            })
        ));
        assert!(matches!(
            Cursor::new(&[1, 0, 0x7f, 9]).skip_tags(),
            Err(Malformed::Truncated { .. })
        ));
    }
}
