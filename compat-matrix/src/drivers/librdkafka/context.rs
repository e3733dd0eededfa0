//! What librdkafka calls back: log lines, delivery reports, rebalances, commit answers.

use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::ProducerContext;
use rdkafka::util::Timeout;
use rdkafka::{ClientContext, TopicPartitionList};

use super::worker::places;
use crate::drivers::Words;
use crate::drivers::protocol::Event;

/// A delivery report: which record, and where it went or why it did not.
pub(super) type Report = (usize, Result<(i32, i64), String>);

/// The context of every client of one session.
#[derive(Clone, Debug)]
pub(super) struct Callbacks {
    words: Words,
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
    pub(super) fn new(words: Words) -> Self {
        Self {
            words,
            reports: Arc::default(),
            events: Arc::default(),
        }
    }
}

impl ClientContext for Callbacks {
    fn log(&self, _level: RDKafkaLogLevel, facility: &str, line: &str) {
        self.words.say(&format!("{facility}: {line}"));
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
