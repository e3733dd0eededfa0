//! Idempotent producers on one partition: repeats, gaps, old and new epochs.

use kafka_wire::ApiKey;
use kafka_wire::records::{BatchOptions, ProducerFields};
use reports::Window;
use serde_json::json;

use super::{Asked, Dice, LATER, specs as of_family};
use crate::differential::Family;
use crate::probes::{Probe, batch};
use crate::spec::{Spec, Stop, Verdict};

const PRODUCE: Asked = (ApiKey::PRODUCE, 11);
const END: Asked = (ApiKey::LIST_OFFSETS, 8);
const READ: Asked = (ApiKey::FETCH, 16);
const ASKED: &[Asked] = &[PRODUCE, END, READ];

const SEQUENCES: u64 = 24;
const PRODUCERS: usize = 2;
const STEPS: usize = 24;
const FIRST_TIMESTAMP: i64 = 1_790_000_000_000;

/// The checks.
pub fn specs(advertised: &[Window]) -> Vec<Spec> {
    of_family(
        Family::Producer,
        "Idempotent producers hear what Apache Kafka tells them",
        SEQUENCES,
        ASKED,
        advertised,
        run,
    )
}

/// What a producer believes, right or wrong.
#[derive(Clone, Copy, Debug)]
struct Producer {
    id: i64,
    epoch: i16,
    next: i32,
    last: Option<(i32, usize)>,
}

async fn run(probe: Probe, mut dice: Dice) -> Verdict {
    let topic = probe.topic(1).await?;
    let mut producers = Vec::new();
    for _ in 0..PRODUCERS {
        producers.push(Producer {
            id: probe.producer_id().await?,
            epoch: 0,
            next: 0,
            last: None,
        });
    }
    for _ in 0..STEPS {
        let at = dice.index(PRODUCERS);
        let producer = producers[at];
        let count = 1 + dice.index(3);
        let (epoch, sequence, count) = match dice.roll(12) {
            0..=4 => (producer.epoch, producer.next, count),
            // The same batch again.
            5 | 6 => match producer.last {
                Some((sequence, count)) => (producer.epoch, sequence, count),
                None => (producer.epoch, producer.next, count),
            },
            // A gap.
            7 => (
                producer.epoch,
                producer.next + 1 + dice.pick(&[0, 1, 100]),
                count,
            ),
            // From the middle of what was.
            8 => (producer.epoch, (producer.next - 1).max(0), count + 1),
            // A new epoch, as it should begin and as it should not.
            9 => (producer.epoch + 1, 0, count),
            10 => (producer.epoch + 1, 1 + dice.pick(&[0, 5]), count),
            _ => ((producer.epoch - 1).max(0), producer.next, count),
        };
        let options = BatchOptions {
            producer: ProducerFields {
                id: producer.id,
                epoch,
                base_sequence: sequence,
            },
            ..BatchOptions::default()
        };
        let request = json!({
            "TransactionalId": null,
            "Acks": -1,
            "TimeoutMs": 10_000,
            "TopicData": [{
                "Name": topic.name,
                "PartitionData": [{"Index": 0, "Records": batch(count, FIRST_TIMESTAMP, options)?}],
            }],
        });
        let answer = probe.step(PRODUCE.0, PRODUCE.1, request, LATER).await?;
        let appended = answer.first_code().is_none();
        let repeats = producer.last == Some((sequence, count)) && epoch == producer.epoch;
        if appended && !repeats {
            let length = i32::try_from(count).unwrap_or(i32::MAX);
            producers[at] = Producer {
                epoch,
                next: sequence + length,
                last: Some((sequence, count)),
                ..producer
            };
        }
    }
    log(&probe, &topic, 0).await
}

/// The end of partition 0's log and everything in it.
pub(super) async fn log(probe: &Probe, topic: &crate::probes::Topic, isolation: i8) -> Verdict {
    let request = json!({
        "ReplicaId": -1,
        "IsolationLevel": isolation,
        "Topics": [{"Name": topic.name, "Partitions": [{
            "PartitionIndex": 0,
            "CurrentLeaderEpoch": -1,
            "Timestamp": -1,
        }]}],
    });
    probe.step(END.0, END.1, request, LATER).await?;
    if topic.id.is_empty() {
        return Err(Stop::fail("the topic has no id"));
    }
    let request = json!({
        "MaxWaitMs": 0,
        "MinBytes": 0,
        "MaxBytes": 1_000_000,
        "IsolationLevel": isolation,
        "SessionEpoch": -1,
        "Topics": [{"TopicId": topic.id, "Partitions": [{
            "Partition": 0,
            "CurrentLeaderEpoch": -1,
            "FetchOffset": 0,
            "LastFetchedEpoch": -1,
            "LogStartOffset": -1,
            "PartitionMaxBytes": 1_000_000,
        }]}],
    });
    probe.step(READ.0, READ.1, request, LATER).await.map(|_| ())
}
