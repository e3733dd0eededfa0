//! Batches behind one that was refused before the sequence windows saw it.
//!
//! A client sends the next batches of a partition before it hears of the first. When that one is
//! refused (the topic isn't known yet) and the cause ends before the next one is read, the next one
//! must not be stored first. A window that knows the producer sees the gap; one that doesn't, after
//! a restart, takes whatever comes first. So each connection remembers what it refused, and refuses
//! what comes behind until that comes again. Touches nothing but memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use kafka_protocol::messages::ProduceRequest;
use kafka_protocol::messages::produce_request::TopicProduceData;
use kafka_wire::ErrorCode;
use kafka_wire::records::BatchHeader;
use uuid::Uuid;

/// Refused batches remembered on one connection: one of each producer and partition, so more than a
/// client has. Beyond, the first by name is forgotten.
const MAX_REMEMBERED: usize = 4096;

/// Where a producer writes, as its client names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    topic: String,
    topic_id: Uuid,
    partition: i32,
    producer_id: i64,
}

/// Which batch of a producer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Number {
    epoch: i16,
    sequence: i32,
}

impl Number {
    /// Whether it comes after `first`, of the same epoch. Sequences wrap to 0 behind the largest.
    fn is_behind(self, first: Self) -> bool {
        let ahead = self.sequence.wrapping_sub(first.sequence) & i32::MAX;
        self.epoch == first.epoch && ahead != 0 && ahead < 1 << 30
    }
}

/// The idempotent batches of one request.
#[derive(Clone, Debug)]
pub struct Batches(Vec<(Place, Number)>);

impl Batches {
    /// What `request` holds. Only a look: batches are proved when they are admitted.
    pub fn of(request: &ProduceRequest) -> Self {
        let topics = request.topic_data.iter();
        Self(topics.flat_map(of_topic).map(|(_, batch)| batch).collect())
    }
}

/// The idempotent batches of a topic, each with its position there.
fn of_topic(topic: &TopicProduceData) -> impl Iterator<Item = (usize, (Place, Number))> {
    let partitions = topic.partition_data.iter().enumerate();
    partitions.filter_map(|(at, data)| {
        let header = BatchHeader::parse(data.records.as_ref()?).ok()?;
        let place = Place {
            topic: topic.name.to_string(),
            topic_id: topic.topic_id,
            partition: data.index,
            producer_id: header.producer_id,
        };
        let number = Number {
            epoch: header.producer_epoch,
            sequence: header.base_sequence,
        };
        header.has_producer_id().then_some((at, (place, number)))
    })
}

/// The refused batches of one connection that have not come again.
#[derive(Debug, Default)]
pub struct Overtaken(Mutex<BTreeMap<Place, (Number, ErrorCode)>>);

impl Overtaken {
    /// Takes out of `request` what comes behind a refused batch, and says with which code it is
    /// refused too: that of the first, which the client sends again, and with it all behind it.
    pub fn withhold(&self, request: &mut ProduceRequest) -> Vec<(TopicProduceData, ErrorCode)> {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut withheld = Vec::new();
        if remembered.is_empty() {
            return withheld;
        }
        for topic in &mut request.topic_data {
            let batches: Vec<_> = of_topic(topic).collect();
            // From the back, so that positions hold.
            for (at, (place, number)) in batches.into_iter().rev() {
                let Some(&(first, code)) = remembered.get(&place) else {
                    continue;
                };
                if number.is_behind(first) {
                    let data = topic.partition_data.remove(at);
                    let topic = TopicProduceData::default()
                        .with_name(topic.name.clone())
                        .with_topic_id(topic.topic_id)
                        .with_partition_data(vec![data]);
                    withheld.push((topic, code));
                } else if number == first || number.epoch != first.epoch {
                    remembered.remove(&place);
                }
            }
        }
        request
            .topic_data
            .retain(|topic| !topic.partition_data.is_empty());
        withheld
    }

    /// Remembers what of `batches` was refused, when it may come again.
    pub fn remember<'r>(
        &self,
        batches: &Batches,
        refused: impl Iterator<Item = (&'r str, Uuid, i32, ErrorCode)>,
    ) {
        for (topic, topic_id, partition, code) in refused.filter(|(.., code)| code.retriable()) {
            let of = batches.0.iter().filter(|(place, _)| {
                place.topic == topic && place.topic_id == topic_id && place.partition == partition
            });
            let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            for (place, number) in of {
                remembered.insert(place.clone(), (*number, code));
            }
            while remembered.len() > MAX_REMEMBERED {
                remembered.pop_first();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_wrap() {
        let number = |sequence| Number { epoch: 1, sequence };
        assert!(number(5).is_behind(number(4)));
        assert!(!number(4).is_behind(number(4)) && !number(3).is_behind(number(4)));
        assert!(number(0).is_behind(number(i32::MAX)));
        assert!(!number(i32::MAX).is_behind(number(0)));
        let next = Number {
            epoch: 2,
            sequence: 5,
        };
        assert!(!next.is_behind(number(4)));
    }
}
