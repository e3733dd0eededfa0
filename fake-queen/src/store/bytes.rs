//! Fixed-width little-endian fields and length-prefixed bytes: the encoding of stored rows.

/// Appends fields.
#[derive(Debug, Default)]
pub struct Encoder(Vec<u8>);

impl Encoder {
    /// A fixed-width field.
    pub fn fixed<const N: usize>(mut self, bytes: [u8; N]) -> Self {
        self.0.extend_from_slice(&bytes);
        self
    }

    /// Bytes behind their length.
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        // Everything stored came in one request body, far below 4 GiB.
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.0.extend_from_slice(&len.to_le_bytes());
        self.0.extend_from_slice(bytes);
        self
    }

    /// The row.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Takes fields off the front. `None`: the row is too short.
#[derive(Debug)]
pub struct Decoder<'a>(pub &'a [u8]);

impl<'a> Decoder<'a> {
    /// A fixed-width field.
    pub fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    /// A signed number.
    pub fn i64(&mut self) -> Option<i64> {
        self.fixed().map(i64::from_le_bytes)
    }

    /// An unsigned number.
    pub fn u64(&mut self) -> Option<u64> {
        self.fixed().map(u64::from_le_bytes)
    }

    /// A short unsigned number.
    pub fn u32(&mut self) -> Option<u32> {
        self.fixed().map(u32::from_le_bytes)
    }

    /// Bytes behind their length.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.u32()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Text behind its length.
    pub fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }
}
