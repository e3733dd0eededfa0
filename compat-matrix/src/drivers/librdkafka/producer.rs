//! Sending, and waiting for every delivery report.

use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};

use super::context::{Callbacks, take};
use crate::drivers::Refusal;
use crate::drivers::protocol::{Blob, Deliveries, Outgoing};

/// How long a full local queue is served before the next try.
const SERVE: Duration = Duration::from_millis(5);

/// Numbered records.
pub(super) struct Numbers {
    pub(super) topic: String,
    pub(super) partition: Option<i32>,
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) value_bytes: usize,
}

impl Numbers {
    pub(super) fn records(self) -> impl Iterator<Item = Outgoing> {
        (self.first..self.first + self.count).map(move |number| {
            let mut value = number.to_string().into_bytes();
            value.resize(value.len().max(self.value_bytes), b'.');
            Outgoing {
                topic: self.topic.clone(),
                partition: self.partition,
                key: match self.partition {
                    Some(_) => Blob(None),
                    None => Blob::of(number.to_string()),
                },
                value: Blob(Some(value)),
                ..Outgoing::default()
            }
        })
    }
}

/// Sends all, then waits until each has its report or `timeout` is over.
pub(super) fn send(
    producer: &BaseProducer<Callbacks>,
    records: impl IntoIterator<Item = Outgoing>,
    timeout: Duration,
) -> Result<Deliveries, Refusal> {
    let deadline = Instant::now() + timeout;
    let reports = std::sync::Arc::clone(&producer.context().reports);
    let mut results: Vec<Option<Result<(i32, i64), String>>> = Vec::new();
    let mut outstanding = 0_usize;
    let settle = |results: &mut Vec<Option<_>>, outstanding: &mut usize| {
        for (index, report) in take(&reports) {
            // Reports of an earlier call that ran out of time have no place here.
            if let Some(slot) = results.get_mut(index)
                && slot.is_none()
            {
                *slot = Some(report);
                *outstanding -= 1;
            }
        }
    };
    for record in records {
        let index = results.len();
        results.push(None);
        outstanding += 1;
        if let Err(error) = enqueue(producer, &record, index, deadline) {
            results[index] = Some(Err(error.to_string()));
            outstanding -= 1;
        }
        if index.is_multiple_of(1024) {
            producer.poll(Duration::ZERO);
            settle(&mut results, &mut outstanding);
        }
    }
    while outstanding > 0 && Instant::now() < deadline {
        producer.poll(Duration::from_millis(50));
        settle(&mut results, &mut outstanding);
    }
    let mut deliveries = Deliveries::default();
    for (index, result) in results.into_iter().enumerate() {
        match result {
            Some(Ok(place)) => deliveries.places.push(place),
            Some(Err(why)) => deliveries.failed.push((index, why)),
            None => deliveries
                .failed
                .push((index, "no delivery report in time".into())),
        }
    }
    Ok(deliveries)
}

fn enqueue(
    producer: &BaseProducer<Callbacks>,
    record: &Outgoing,
    index: usize,
    deadline: Instant,
) -> Result<(), KafkaError> {
    loop {
        let mut message: BaseRecord<'_, [u8], [u8], usize> =
            BaseRecord::with_opaque_to(&record.topic, index);
        if let Some(partition) = record.partition {
            message = message.partition(partition);
        }
        if let Some(key) = &record.key.0 {
            message = message.key(key.as_slice());
        }
        if let Some(value) = &record.value.0 {
            message = message.payload(value.as_slice());
        }
        if let Some(timestamp) = record.timestamp_ms {
            message = message.timestamp(timestamp);
        }
        if !record.headers.is_empty() {
            let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
            for (key, value) in &record.headers {
                headers = headers.insert(Header {
                    key,
                    value: value.0.as_deref(),
                });
            }
            message = message.headers(headers);
        }
        match producer.send(message) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _))
                if Instant::now() < deadline =>
            {
                producer.poll(SERVE);
            }
            Err((error, _)) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Numbers;
    use crate::drivers::protocol::Blob;

    #[test]
    fn numbers_are_padded_and_keyed_only_for_the_partitioner() {
        let numbers = |partition| Numbers {
            topic: "t".into(),
            partition,
            first: 8,
            count: 3,
            value_bytes: 4,
        };
        let keyed: Vec<_> = numbers(None).records().collect();
        assert_eq!(keyed.len(), 3);
        assert_eq!(keyed[2].value, Blob::of("10.."));
        assert_eq!(keyed[2].key, Blob::of("10"));
        let fixed: Vec<_> = numbers(Some(1)).records().collect();
        assert_eq!(fixed[0].key, Blob(None));
        assert_eq!(fixed[0].partition, Some(1));
    }
}
