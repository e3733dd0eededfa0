//! Puts a body and its patches together again, as a list of slices for a vectored write.

use std::io::IoSlice;

use bytes::{Bytes, BytesMut};

use super::SpliceError;
use super::plan::{Patch, Patches};

/// A run of original bytes shorter than this is copied between its neighbours: a slice of its own
/// costs a reference count, an entry in the vectored write and the kernel's work for it, which is
/// more than the copy.
const COPY_BELOW_BYTES: usize = 512;

/// A spliced body: slices of the original with what was inserted between them, in order.
#[derive(Clone, Debug, Default)]
pub struct Spliced {
    segments: Vec<Bytes>,
    bytes: usize,
}

impl Spliced {
    /// Bytes of the whole body.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether the body is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The slices, in order; none is empty.
    pub fn segments(&self) -> &[Bytes] {
        &self.segments
    }

    /// The slices, in order, to keep.
    pub fn into_segments(self) -> Vec<Bytes> {
        self.segments
    }

    /// The slices, for a vectored write.
    pub fn io_slices(&self) -> impl Iterator<Item = IoSlice<'_>> {
        self.segments.iter().map(|segment| IoSlice::new(segment))
    }

    /// The whole body in one piece: the original itself when nothing was edited, else a copy.
    pub fn to_bytes(&self) -> Bytes {
        match self.segments.as_slice() {
            [] => Bytes::new(),
            [only] => only.clone(),
            many => many.concat().into(),
        }
    }

    fn push(&mut self, segment: Bytes) {
        if !segment.is_empty() {
            self.bytes += segment.len();
            self.segments.push(segment);
        }
    }
}

impl Patches {
    /// The patched `body`, long runs of it as slices.
    pub(super) fn apply<R>(&self, body: &Bytes) -> Result<Spliced, SpliceError<R>> {
        let length = self
            .patched_length(body.len())
            .ok_or(SpliceError::TooLarge)?;
        let mut out = Spliced::default();
        if self.list.is_empty() {
            out.push(body.clone());
            return Ok(out);
        }
        let kept = self.runs(body.len());
        let slices = kept.filter(|(start, end)| end - start >= COPY_BELOW_BYTES);
        let (sliced, long_runs) = slices.fold((0, 0), |(bytes, count), (start, end)| {
            (bytes + end - start, count + 1)
        });
        out.segments.reserve_exact(2 * long_runs + 1);
        // All that is copied goes through one allocation of exactly its size.
        let mut copied = BytesMut::with_capacity(length - sliced);
        for (index, (start, end)) in self.runs(body.len()).enumerate() {
            if end - start >= COPY_BELOW_BYTES {
                out.push(copied.split().freeze());
                out.push(body.slice(start..end));
            } else {
                copied.extend_from_slice(&body[start..end]);
            }
            if let Some(patch) = self.list.get(index) {
                copied.extend_from_slice(&self.inserted[patch.from as usize..patch.to as usize]);
            }
        }
        out.push(copied.freeze());
        debug_assert_eq!(out.bytes, length);
        Ok(out)
    }

    /// The patched `body` in one piece; `None` when there is no patch.
    pub(super) fn copy<R>(&self, body: &[u8]) -> Result<Option<Vec<u8>>, SpliceError<R>> {
        if self.list.is_empty() {
            return Ok(None);
        }
        let length = self
            .patched_length(body.len())
            .ok_or(SpliceError::TooLarge)?;
        let mut out = Vec::with_capacity(length);
        for (index, (start, end)) in self.runs(body.len()).enumerate() {
            out.extend_from_slice(&body[start..end]);
            if let Some(patch) = self.list.get(index) {
                out.extend_from_slice(&self.inserted[patch.from as usize..patch.to as usize]);
            }
        }
        Ok(Some(out))
    }

    /// Bytes of the patched body; `None` when a frame cannot say them.
    fn patched_length(&self, length: usize) -> Option<usize> {
        i32::try_from(self.inserted.len()).ok()?;
        let growth: i64 = self.list.iter().map(Patch::growth).sum();
        let length = i64::try_from(length).ok()?.checked_add(growth)?;
        usize::try_from(i32::try_from(length).ok()?).ok()
    }

    /// The runs of the body that are kept: in front of each patch, and behind the last.
    fn runs(&self, length: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let starts = std::iter::once(0).chain(self.list.iter().map(|patch| patch.end as usize));
        let ends = self.list.iter().map(|patch| patch.start as usize);
        starts.zip(ends.chain(std::iter::once(length)))
    }
}
