//! Identifiers that must not be mixed up, and how new ones are drawn.

use std::fmt;

use host::Entropy;
use uuid::Uuid;

/// Whose data it is. One tenant unless the tenancy header is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub Uuid);

impl TenantId {
    /// The tenant of calls that name none.
    pub const DEFAULT: Self = Self(Uuid::from_u128(1));
}

/// A lane's number in the store; never reused, so rows of a removed lane can't be taken for those
/// of its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneUid(pub u64);

/// A UUIDv7 whose low 62 bits count up inside one segment, so a segment stores only its first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u128);

impl MessageId {
    /// What a duplicate reports whose original is gone.
    pub const UNKNOWN: Self = Self(0);

    /// The first id of a new segment appended at `epoch_ms`.
    pub fn first_of_segment(entropy: &dyn Entropy, epoch_ms: i64) -> Self {
        let mut random = [0; 10];
        entropy.fill(&mut random);
        // A cleared top bit of the counter leaves room for 2^61 records behind the first.
        random[2] &= 0x1f;
        let ms = u64::try_from(epoch_ms).unwrap_or(0);
        Self(
            uuid::Builder::from_unix_timestamp_millis(ms, &random)
                .into_uuid()
                .as_u128(),
        )
    }

    /// The id of the record `index` places behind this one.
    pub const fn plus(self, index: u64) -> Self {
        Self(self.0 + index as u128)
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Uuid::from_u128(self.0).hyphenated().fmt(f)
    }
}

/// A new random row id.
pub fn uuid(entropy: &dyn Entropy) -> Uuid {
    Uuid::from_bytes(entropy.uuid_v4())
}

/// Appends a UUID as a JSON string.
pub fn write_uuid(out: &mut Vec<u8>, id: u128) {
    let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
    let text = Uuid::from_u128(id).hyphenated().encode_lower(&mut text);
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Ones;

    impl Entropy for Ones {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(0xff);
        }
    }

    #[test]
    fn ids_of_a_segment_stay_version_7_and_rise() {
        let first = MessageId::first_of_segment(&Ones, 1_700_000_000_000);
        let last = first.plus(10_000_000);
        assert!(last > first);
        for id in [first, last] {
            let uuid = Uuid::from_u128(id.0);
            assert_eq!(uuid.get_version_num(), 7);
            assert_eq!(uuid.get_variant(), uuid::Variant::RFC4122);
        }
    }
}
