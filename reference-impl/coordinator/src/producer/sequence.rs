//! Producer sequence numbers: 31 bits that wrap from `i32::MAX` to 0.

/// How many sequence numbers there are.
const MODULUS: u32 = 1 << 31;

/// A record's sequence number within a producer epoch: `0..=i32::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sequence(u32);

impl Sequence {
    /// The first sequence number of an epoch.
    pub const ZERO: Self = Self(0);

    /// The sequence number on the wire; `None` for a negative one (a batch without a producer).
    pub fn new(wire: i32) -> Option<Self> {
        u32::try_from(wire).ok().map(Self)
    }

    /// The number as the wire has it.
    pub fn get(self) -> i32 {
        i32::try_from(self.0).unwrap_or(i32::MAX)
    }

    /// The sequence number `count` records later.
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Self((self.0.wrapping_add(count)) % MODULUS)
    }

    /// The sequence number before this one.
    pub(super) const fn before(self) -> Self {
        Self((self.0 + MODULUS - 1) % MODULUS)
    }

    /// Whether it comes before `later`, and no more than half the numbers lie between them.
    pub const fn is_before(self, later: Self) -> bool {
        let ahead = self.steps_to(later);
        ahead > 0 && ahead < MODULUS / 2
    }

    /// How many steps forward lead from `self` to `later`.
    pub(super) const fn steps_to(self, later: Self) -> u32 {
        later.0.wrapping_sub(self.0) % MODULUS
    }
}

/// The sequence numbers of one batch: `count` of them from `first` on. A batch is never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceRange {
    first: Sequence,
    count: u32,
}

impl SequenceRange {
    /// The range of a batch; `None` when it's empty, has no producer or is wider than the space.
    pub fn new(base_sequence: i32, count: u32) -> Option<Self> {
        let first = Sequence::new(base_sequence)?;
        (count > 0 && count < MODULUS).then_some(Self { first, count })
    }

    /// The first record's sequence number.
    pub const fn first(self) -> Sequence {
        self.first
    }

    /// How many records, at least 1.
    pub const fn count(self) -> u32 {
        self.count
    }

    /// The sequence number a following batch starts with.
    pub const fn next(self) -> Sequence {
        self.first.plus(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::{Sequence, SequenceRange};

    #[test]
    fn wraps_from_the_maximum_to_zero() {
        let last = Sequence::new(i32::MAX).unwrap();
        assert_eq!(last.plus(1), Sequence::ZERO);
        assert_eq!(last.steps_to(Sequence::ZERO), 1);
        assert!(last.is_before(Sequence::ZERO) && !Sequence::ZERO.is_before(last));
        assert!(!last.is_before(last));
        let range = SequenceRange::new(i32::MAX - 1, 4).unwrap();
        assert_eq!(range.next(), Sequence::new(2).unwrap());
    }

    #[test]
    fn has_no_range_for_a_batch_without_a_producer_or_without_records() {
        assert_eq!(SequenceRange::new(-1, 1), None);
        assert_eq!(SequenceRange::new(0, 0), None);
        assert_eq!(SequenceRange::new(0, u32::MAX), None);
    }
}
