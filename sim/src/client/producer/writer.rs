//! Writes by a plan: so many batches, at such a pace.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep_until};

use super::{Delivery, Producer, Record, SendError};
use crate::client::Client;
use crate::history::{Name, Promise, Value};
use crate::seed::Numbers;

/// What is to be written.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The writer's number, the first part of every value.
    pub producer: u32,
    /// Where to.
    pub topic: Name,
    /// Where to; by the key of each record when it is left open.
    pub partition: Option<i32>,
    /// How many times records are handed over.
    pub batches: u64,
    /// Records that are handed over together.
    pub records: u32,
    /// Between two times, on average.
    pub every: Duration,
    /// What may be demanded of what it writes.
    pub promises: &'static [Promise],
}

/// An application that writes by a plan.
#[derive(Debug)]
pub struct Writer {
    client: Client,
    plan: Plan,
    pace: Numbers,
}

impl Writer {
    /// A writer that follows `plan`, its pace drawn from `pace`.
    pub fn new(client: Client, plan: Plan, pace: Numbers) -> Self {
        Self { client, plan, pace }
    }

    /// Writes everything and waits for every record's fate. Ends early when a record is refused:
    /// an application stops there.
    pub async fn run(mut self) {
        self.client.introduce(self.plan.promises.to_vec());
        let producer = Producer::start(self.client.clone());
        let mut next_at = Instant::now();
        let mut deliveries: Vec<Delivery> = Vec::new();
        let every_ms = u64::try_from(self.plan.every.as_millis()).unwrap_or(u64::MAX);
        for number in 0..self.plan.batches {
            sleep_until(next_at).await;
            let first = number * u64::from(self.plan.records);
            let numbers = first..first + u64::from(self.plan.records);
            for number in numbers {
                deliveries.push(producer.send(self.record(number)));
            }
            next_at += Duration::from_millis(1 + self.pace.below(2 * every_ms));
        }
        producer.flush().await;
        for delivery in deliveries {
            if let Err(SendError::Refused(_) | SendError::Closed) = delivery.result().await {
                return;
            }
        }
    }

    fn record(&self, number: u64) -> Record {
        let key = match self.plan.partition {
            Some(_) => None,
            None => Some(Bytes::from(format!("key-{}", number % 16))),
        };
        Record {
            topic: self.plan.topic.clone(),
            partition: self.plan.partition,
            key,
            value: Value {
                producer: self.plan.producer,
                number,
            },
        }
    }
}
