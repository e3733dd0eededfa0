//! Which partition a record goes to. Pure functions.

/// How a client chooses among partitions when the application doesn't.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partitioner {
    /// Records with a key by its murmur2 hash (Java, franz-go, librdkafka's `murmur2_random`);
    /// others stay with one partition until its batch is full.
    Murmur2,
    /// Records with a key by its CRC-32 (librdkafka's `consistent_random`).
    Crc32,
}

impl Partitioner {
    /// The partition of `key` among `partitions`; `None` without a key: any will do.
    pub fn partition(self, key: Option<&[u8]>, partitions: i32) -> Option<i32> {
        let key = key?;
        let partitions = partitions.max(1);
        match self {
            Self::Murmur2 => Some((murmur2(key) & i32::MAX) % partitions),
            Self::Crc32 => {
                let hash = u64::from(crc32(key));
                let chosen = hash % u64::try_from(partitions).unwrap_or(1);
                i32::try_from(chosen).ok()
            }
        }
    }
}

/// 32-bit murmur2 with Kafka's seed; `Utils.murmur2` of Kafka's Java client.
fn murmur2(data: &[u8]) -> i32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    // Kafka's hash takes the length as a 32-bit number.
    let mut hash = SEED ^ u32::try_from(data.len()).unwrap_or(u32::MAX);
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        let mut k = word
            .iter()
            .rev()
            .fold(0_u32, |k, byte| (k << 8) | u32::from(*byte))
            .wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (at, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * at);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^= hash >> 15;
    i32::from_ne_bytes(hash.to_ne_bytes())
}

/// CRC-32 (IEEE), bit by bit: keys are short.
fn crc32(data: &[u8]) -> u32 {
    !data.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of UtilsTest.testMurmur2 in Kafka's Java client.
    #[test]
    fn murmur2_is_kafkas() {
        for (text, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn crc32_is_the_common_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn a_key_has_one_partition_and_no_key_has_none() {
        for partitioner in [Partitioner::Murmur2, Partitioner::Crc32] {
            let chosen = partitioner.partition(Some(b"key"), 7);
            assert!(chosen.is_some_and(|chosen| (0..7).contains(&chosen)));
            assert_eq!(chosen, partitioner.partition(Some(b"key"), 7));
            assert_eq!(partitioner.partition(None, 7), None);
        }
    }
}
