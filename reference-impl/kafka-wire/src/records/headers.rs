//! Record headers: an ordered list that keeps duplicates, with keys as raw bytes.

use super::RecordFault;
use super::varint::{Cursor, varlong_len};

/// One header of a record. Kafka's clients write UTF-8 keys; nothing on the wire holds them to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Never null, may be empty.
    pub key: &'a [u8],
    /// Null and empty are different things.
    pub value: Option<&'a [u8]>,
}

/// Fewest bytes a header takes: two lengths.
const MIN_HEADER_BYTES: usize = 2;

/// The headers of a record, in order, either as they stand in a batch or from a list to encode.
#[derive(Clone, Copy, Debug)]
pub struct Headers<'a>(Source<'a>);

#[derive(Clone, Copy, Debug)]
enum Source<'a> {
    /// Encoded, already proved to parse.
    Encoded {
        count: usize,
        bytes: &'a [u8],
    },
    List(&'a [Header<'a>]),
}

impl<'a> Headers<'a> {
    /// No headers.
    pub const EMPTY: Self = Self(Source::List(&[]));

    /// Headers to encode.
    #[must_use]
    pub const fn new(list: &'a [Header<'a>]) -> Self {
        Self(Source::List(list))
    }

    /// Reads count and headers, all that `cursor` has left. Allocates nothing.
    #[inline]
    pub(super) fn parse(cursor: &mut Cursor<'a>) -> Result<Self, RecordFault> {
        let declared = cursor.varint()?;
        let count = usize::try_from(declared)
            .ok()
            .filter(|&count| count <= cursor.remaining() / MIN_HEADER_BYTES)
            .ok_or(RecordFault::HeaderCount(declared))?;
        let bytes = cursor.rest();
        for _ in 0..count {
            parse_header(cursor)?;
        }
        let bytes = &bytes[..bytes.len() - cursor.remaining()];
        Ok(Self(Source::Encoded { count, bytes }))
    }

    /// How many.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self.0 {
            Source::Encoded { count, .. } => count,
            Source::List(list) => list.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The headers in order.
    #[must_use]
    pub fn iter(&self) -> HeadersIter<'a> {
        HeadersIter(match self.0 {
            Source::Encoded { count, bytes } => Remaining::Encoded {
                count,
                cursor: Cursor::new(bytes),
            },
            Source::List(list) => Remaining::List(list.iter()),
        })
    }

    /// The encoded headers without their count, where they come from a batch.
    pub(super) const fn encoded(&self) -> Option<&'a [u8]> {
        match self.0 {
            Source::Encoded { bytes, .. } => Some(bytes),
            Source::List(_) => None,
        }
    }

    /// Encoded length without the count.
    pub(super) fn encoded_len(&self) -> usize {
        let lengths = |header: Header<'_>| {
            let value_len = header.value.map_or(0, <[u8]>::len);
            varlong_len(header.key.len() as i64)
                + header.key.len()
                + varlong_len(header.value.map_or(-1, |_| value_len as i64))
                + value_len
        };
        match self.0 {
            Source::Encoded { bytes, .. } => bytes.len(),
            Source::List(list) => list.iter().copied().map(lengths).sum(),
        }
    }
}

impl Default for Headers<'_> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl PartialEq for Headers<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Headers<'_> {}

impl<'a> IntoIterator for &Headers<'a> {
    type Item = Header<'a>;
    type IntoIter = HeadersIter<'a>;

    fn into_iter(self) -> HeadersIter<'a> {
        self.iter()
    }
}

fn parse_header<'a>(cursor: &mut Cursor<'a>) -> Result<Header<'a>, RecordFault> {
    Ok(Header {
        key: cursor.nullable_bytes()?.ok_or(RecordFault::Length(-1))?,
        value: cursor.nullable_bytes()?,
    })
}

/// Iterator of [`Headers::iter`].
#[derive(Clone, Debug)]
pub struct HeadersIter<'a>(Remaining<'a>);

#[derive(Clone, Debug)]
enum Remaining<'a> {
    Encoded { count: usize, cursor: Cursor<'a> },
    List(std::slice::Iter<'a, Header<'a>>),
}

impl<'a> Iterator for HeadersIter<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        match &mut self.0 {
            Remaining::Encoded { count, cursor } => {
                *count = count.checked_sub(1)?;
                // `Headers::parse` has read these very bytes: there is no error left to report.
                parse_header(cursor).ok()
            }
            Remaining::List(list) => list.next().copied(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match &self.0 {
            Remaining::Encoded { count, .. } => *count,
            Remaining::List(list) => list.len(),
        };
        (left, Some(left))
    }
}

impl ExactSizeIterator for HeadersIter<'_> {}
