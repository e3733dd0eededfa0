//! Transaction ids of pushed records: what lets Queen recognise a repetition.
//!
//! A record of an idempotent producer is named after its producer id, epoch, partition and
//! sequence, so a batch that the client sends again (even to another process) is known. A record
//! of a plain producer gets a name that only this process's own repetitions share.
//! See `docs/decisions/produce-transaction-ids.md`.

use base64_simd::{AsOut, STANDARD};
use coordinator::producer::{ProducerEpoch, Sequence};
use host::Entropy;

/// Producer id, epoch, partition and sequence: a multiple of three, so that no padding is needed.
const NAME_BYTES: usize = 8 + 2 + 4 + 4;
/// Fourteen random bytes and the record's position: the same length, with no producer's prefix.
const NONCE_BYTES: usize = NAME_BYTES - 4;
const TEXT_BYTES: usize = NAME_BYTES / 3 * 4;

/// How the records of one batch are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionIds {
    /// After the producer: the same batch gets the same names in every process.
    Sequenced {
        /// Not negative.
        producer_id: i64,
        /// The producer's epoch.
        epoch: ProducerEpoch,
        /// The partition number.
        partition: i32,
        /// The sequence of the first record.
        base_sequence: Sequence,
    },
    /// After random bytes and the position in the batch.
    Minted([u8; NONCE_BYTES]),
}

impl TransactionIds {
    /// Fresh names for a batch of a plain producer.
    pub fn minted(entropy: &dyn Entropy) -> Self {
        let mut nonce = [0; NONCE_BYTES];
        entropy.fill(&mut nonce);
        // A producer id is positive: with the sign bit set, the two kinds never meet.
        nonce[0] |= 0x80;
        Self::Minted(nonce)
    }

    /// The name of the record at position `index`, written into `buffer`.
    pub fn of<'b>(&self, index: u32, buffer: &'b mut IdBuffer) -> &'b str {
        let mut name = [0; NAME_BYTES];
        match self {
            Self::Sequenced {
                producer_id,
                epoch,
                partition,
                base_sequence,
            } => {
                name[..8].copy_from_slice(&producer_id.to_be_bytes());
                name[8..10].copy_from_slice(&epoch.get().to_be_bytes());
                name[10..14].copy_from_slice(&partition.to_be_bytes());
                name[14..].copy_from_slice(&base_sequence.plus(index).get().to_be_bytes());
            }
            Self::Minted(nonce) => {
                name[..NONCE_BYTES].copy_from_slice(nonce);
                name[NONCE_BYTES..].copy_from_slice(&index.to_be_bytes());
            }
        }
        STANDARD.encode_as_str(&name, buffer.0[..].as_out())
    }
}

/// What the name of an idempotent producer's record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The producer.
    pub producer_id: i64,
    /// Its epoch.
    pub epoch: ProducerEpoch,
    /// The partition.
    pub partition: i32,
    /// The record's sequence.
    pub sequence: Sequence,
}

impl Named {
    /// Reads a name; `None` for one that isn't an idempotent producer's.
    pub fn parse(name: &str) -> Option<Self> {
        if name.len() != TEXT_BYTES {
            return None;
        }
        let mut bytes = [0; NAME_BYTES];
        let read = STANDARD.decode(name.as_bytes(), bytes[..].as_out()).ok()?;
        let (id, rest) = read.split_first_chunk::<8>()?;
        let (epoch, rest) = rest.split_first_chunk::<2>()?;
        let (partition, rest) = rest.split_first_chunk::<4>()?;
        let sequence = rest.first_chunk::<4>()?;
        let producer_id = i64::from_be_bytes(*id);
        (producer_id >= 0).then_some(Self {
            producer_id,
            epoch: ProducerEpoch::new(i16::from_be_bytes(*epoch))?,
            partition: i32::from_be_bytes(*partition),
            sequence: Sequence::new(i32::from_be_bytes(*sequence))?,
        })
    }
}

/// Room for one name.
#[derive(Debug, Default)]
pub struct IdBuffer([u8; TEXT_BYTES]);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn sequenced(producer_id: i64, epoch: i16, partition: i32, sequence: i32) -> TransactionIds {
        TransactionIds::Sequenced {
            producer_id,
            epoch: ProducerEpoch::new(epoch).unwrap(),
            partition,
            base_sequence: Sequence::new(sequence).unwrap(),
        }
    }

    #[test]
    fn a_name_is_the_same_wherever_the_batch_begins() {
        let (mut one, mut other) = (IdBuffer::default(), IdBuffer::default());
        assert_eq!(
            sequenced(7, 1, 3, i32::MAX - 1).of(4, &mut one),
            sequenced(7, 1, 3, 2).of(0, &mut other),
        );
    }

    #[test]
    fn a_name_is_read_back_and_others_are_not() {
        let mut buffer = IdBuffer::default();
        let name = sequenced(7, 1, 3, 9).of(2, &mut buffer);
        let named = Named::parse(name).unwrap();
        assert_eq!((named.producer_id, named.epoch.get()), (7, 1));
        assert_eq!((named.partition, named.sequence.get()), (3, 11));
        let minted = TransactionIds::Minted([0x80; NONCE_BYTES]);
        for other in [minted.of(0, &mut IdBuffer::default()), "", &"!".repeat(24)] {
            assert_eq!(Named::parse(other), None, "{other}");
        }
    }

    #[test]
    fn names_differ_in_every_part() {
        let mut names = BTreeSet::new();
        for ids in [
            sequenced(7, 1, 3, 9),
            sequenced(8, 1, 3, 9),
            sequenced(7, 2, 3, 9),
            sequenced(7, 1, 4, 9),
            sequenced(7, 1, 3, 10),
            TransactionIds::Minted([0x80; NONCE_BYTES]),
            TransactionIds::Minted([0x81; NONCE_BYTES]),
        ] {
            names.insert(ids.of(0, &mut IdBuffer::default()).to_owned());
        }
        assert_eq!(names.len(), 7);
        assert!(
            names
                .iter()
                .all(|name| name.len() == 24 && !name.contains('='))
        );
    }
}
