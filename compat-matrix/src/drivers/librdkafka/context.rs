//! What librdkafka calls back: log lines, delivery reports, rebalances, commit answers.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use kafka_wire::ApiKey;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::ProducerContext;
use rdkafka::util::Timeout;
use rdkafka::{ClientContext, TopicPartitionList};

use super::worker::places;
use crate::cx::Recorder;
use crate::drivers::protocol::Event;

/// Reads the requests that librdkafka sent out of its protocol log, which names API and version.
#[derive(Clone, Debug)]
pub(super) struct Wiretap {
    record: Recorder,
    seen: Arc<Mutex<BTreeSet<(ApiKey, i16)>>>,
}

impl Wiretap {
    pub(super) fn new(record: Recorder) -> Self {
        Self {
            record,
            seen: Arc::default(),
        }
    }

    pub(super) fn seen(&self) -> Vec<(ApiKey, i16)> {
        self.lock().iter().copied().collect()
    }

    fn hear(&self, line: &str) {
        if let Some((key, version)) = sent_request(line)
            && self.lock().insert((key, version))
        {
            self.record.seen(key, version);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<(ApiKey, i16)>> {
        // A pair is inserted at once or not at all.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// API and version of a line such as `…: Sent MetadataRequest (v12, 26 bytes @ 0, CorrId 2)`.
fn sent_request(line: &str) -> Option<(ApiKey, i16)> {
    let (_, rest) = line.split_once("Sent ")?;
    let (name, rest) = rest.split_once("Request (v")?;
    let (version, _) = rest.split_once(',')?;
    // librdkafka says ApiVersion where Kafka says ApiVersions.
    let name = if name == "ApiVersion" {
        "ApiVersions"
    } else {
        name
    };
    let key = ApiKey::ALL
        .iter()
        .copied()
        .find(|key| key.name() == Some(name))?;
    Some((key, version.parse().ok()?))
}

/// A delivery report: which record, and where it went or why it did not.
pub(super) type Report = (usize, Result<(i32, i64), String>);

/// The context of every client of one session.
#[derive(Clone, Debug)]
pub(super) struct Callbacks {
    tap: Wiretap,
    pub(super) reports: Arc<Mutex<Vec<Report>>>,
    pub(super) events: Arc<Mutex<Vec<Event>>>,
}

/// Events and reports are pushed whole, so a poisoned lock still holds whole values.
pub(super) fn take<T>(list: &Mutex<Vec<T>>) -> Vec<T> {
    std::mem::take(&mut *list.lock().unwrap_or_else(PoisonError::into_inner))
}

fn push<T>(list: &Mutex<Vec<T>>, value: T) {
    list.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(value);
}

impl Callbacks {
    pub(super) fn new(tap: Wiretap) -> Self {
        Self {
            tap,
            reports: Arc::default(),
            events: Arc::default(),
        }
    }
}

impl ClientContext for Callbacks {
    fn log(&self, _level: RDKafkaLogLevel, _facility: &str, line: &str) {
        self.tap.hear(line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        push(
            &self.events,
            Event::Error {
                message: format!("{error}: {reason}"),
            },
        );
    }
}

impl ProducerContext for Callbacks {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, index: usize) {
        let report = match result {
            Ok(message) => Ok((message.partition(), message.offset())),
            Err((error, _)) => Err(error.to_string()),
        };
        push(&self.reports, (index, report));
    }
}

impl ConsumerContext for Callbacks {
    fn pre_rebalance(&self, _consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let event = match rebalance {
            Rebalance::Assign(list) => Event::Assigned {
                partitions: places(list),
            },
            Rebalance::Revoke(list) => Event::Revoked {
                partitions: places(list),
            },
            Rebalance::Error(error) => Event::Error {
                message: error.to_string(),
            },
        };
        push(&self.events, event);
    }

    fn commit_callback(&self, result: KafkaResult<()>, _offsets: &TopicPartitionList) {
        push(
            &self.events,
            Event::Committed {
                error: result.err().map(|error| error.to_string()),
            },
        );
    }

    fn main_queue_min_poll_interval(&self) -> Timeout {
        Timeout::After(std::time::Duration::from_millis(20))
    }
}

#[cfg(test)]
mod tests {
    use kafka_wire::ApiKey;

    use super::sent_request;

    #[test]
    fn requests_are_read_from_the_protocol_log() {
        for (line, expected) in [
            (
                "[thrd:127.0.0.1:9092/0]: 127.0.0.1:9092/0: Sent ProduceRequest (v7, 218 bytes @ 0, CorrId 5)",
                Some((ApiKey::PRODUCE, 7)),
            ),
            (
                "x: Sent ApiVersionRequest (v3, 51 bytes @ 0, CorrId 1)",
                Some((ApiKey::API_VERSIONS, 3)),
            ),
            (
                "x: Received MetadataResponse (v12, 60 bytes, CorrId 2, rtt 0.41ms)",
                None,
            ),
            ("x: Sent NothingRequest (v1, 2 bytes)", None),
        ] {
            assert_eq!(sent_request(line), expected, "{line}");
        }
    }
}
