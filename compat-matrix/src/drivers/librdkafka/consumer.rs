//! Consuming: groups, assignments, positions, commits, offsets by time.

use std::time::{Duration, Instant};

use rdkafka::Offset;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};
use serde_json::Value;

use super::context::{Callbacks, take};
use super::worker::{CALL, json, list, local, ms, nothing, places, refusal};
use crate::drivers::Refusal;
use crate::drivers::protocol::{Blob, Event, Incoming, Op, Places, Polled, Watermarks};

/// The longest one call into librdkafka waits, so that a silence is measured well.
const SLICE: Duration = Duration::from_millis(50);

pub(super) fn perform(consumer: &BaseConsumer<Callbacks>, op: Op) -> Result<Value, Refusal> {
    match op {
        Op::Subscribe { topics } => {
            let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
            consumer.subscribe(&topics).map_err(refusal)?;
            nothing()
        }
        Op::Assign { partitions } => {
            let list = list(&partitions, Offset::from_raw)?;
            consumer.assign(&list).map_err(refusal)?;
            nothing()
        }
        Op::Poll { max, idle_ms } => json(&poll(consumer, max, ms(idle_ms))),
        Op::Commit {
            offsets,
            asynchronous,
        } => {
            let mode = if asynchronous {
                CommitMode::Async
            } else {
                CommitMode::Sync
            };
            match offsets {
                Some(offsets) => consumer.commit(&list(&offsets, Offset::Offset)?, mode),
                None => consumer.commit_consumer_state(mode),
            }
            .map_err(refusal)?;
            nothing()
        }
        Op::Committed { partitions } => {
            let asked = list(&partitions, |_| Offset::Invalid)?;
            answer(&consumer.committed_offsets(asked, CALL).map_err(refusal)?)
        }
        Op::Position => answer(&consumer.position().map_err(refusal)?),
        Op::Assignment => answer(&consumer.assignment().map_err(refusal)?),
        Op::Pause { partitions } => {
            let list = list(&partitions, |_| Offset::Invalid)?;
            consumer.pause(&list).map_err(refusal)?;
            nothing()
        }
        Op::Resume { partitions } => {
            let list = list(&partitions, |_| Offset::Invalid)?;
            consumer.resume(&list).map_err(refusal)?;
            nothing()
        }
        Op::Seek { partition: place } => {
            consumer
                .seek(
                    &place.topic,
                    place.partition,
                    Offset::from_raw(place.offset),
                    CALL,
                )
                .map_err(refusal)?;
            nothing()
        }
        Op::OffsetsForTimes { partitions } => {
            let asked = list(&partitions, Offset::Offset)?;
            answer(&consumer.offsets_for_times(asked, CALL).map_err(refusal)?)
        }
        Op::Watermarks { topic, partition } => {
            let (low, high) = consumer
                .fetch_watermarks(&topic, partition, CALL)
                .map_err(refusal)?;
            json(&Watermarks { low, high })
        }
        Op::Unsubscribe => {
            consumer.unsubscribe();
            nothing()
        }
        other => Err(local(format!("not an operation of a consumer: {other:?}"))),
    }
}

fn answer(list: &rdkafka::TopicPartitionList) -> Result<Value, Refusal> {
    for element in list.elements() {
        element.error().map_err(refusal)?;
    }
    json(&Places {
        places: places(list),
    })
}

/// Polls until `max` records came or nothing came for `idle`.
fn poll(consumer: &BaseConsumer<Callbacks>, max: usize, idle: Duration) -> Polled {
    let mut polled = Polled::default();
    let mut quiet_since = Instant::now();
    loop {
        match consumer.poll(SLICE.min(idle)) {
            Some(Ok(message)) => {
                polled.records.push(incoming(&message));
                quiet_since = Instant::now();
            }
            Some(Err(error)) => polled.events.push(Event::Error {
                message: error.to_string(),
            }),
            None => {}
        }
        let events = take(&consumer.context().events);
        if !events.is_empty() {
            polled.events.extend(events);
        }
        if polled.records.len() >= max || quiet_since.elapsed() >= idle {
            return polled;
        }
    }
}

fn incoming(message: &BorrowedMessage<'_>) -> Incoming {
    let blob = |bytes: Option<&[u8]>| Blob(bytes.map(<[u8]>::to_vec));
    Incoming {
        topic: message.topic().to_owned(),
        partition: message.partition(),
        offset: message.offset(),
        key: blob(message.key()),
        value: blob(message.payload()),
        headers: message.headers().map_or_else(Vec::new, |headers| {
            headers
                .iter()
                .map(|header| (header.key.to_owned(), blob(header.value)))
                .collect()
        }),
        timestamp_ms: message.timestamp().to_millis(),
    }
}
