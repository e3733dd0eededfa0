//! Batches of transactional producers: judged like any other, then staged instead of pushed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coordinator::producer::{Lane, ProducerEpoch, Sequence};
use coordinator::transaction::{Partition, Producer, ProducerId};
use kafka_wire::ErrorCode;
use kafka_wire::records::Budget;
use tokio::sync::oneshot;

use super::admit::{Admission, Admitted, Topic};
use super::encode::{self, Expects};
use super::ids::TransactionIds;
use super::times::Tolerance;
use super::unit::{LaneKey, Replay, Unit};
use super::verdict::Stored;
use super::{Failure, Outcome, Shared};
use crate::queen::Fragment;
use crate::transactions::{STAGE_QUEUE, StagedBatch, Staging};

/// The offset of a record that isn't in the log yet.
const NO_OFFSET: i64 = -1;

impl Admission<'_> {
    /// Reads the records of one partition and stages them.
    pub async fn stage(
        &mut self,
        topic: &Topic,
        partition: i32,
        records: Bytes,
        staging: &Staging,
    ) -> Admitted {
        match self.stage_batch(topic, partition, records, staging).await {
            Ok(outcome) => Admitted::Pending(outcome),
            Err(failure) => Admitted::Refused(failure),
        }
    }

    async fn stage_batch(
        &mut self,
        topic: &Topic,
        partition: i32,
        records: Bytes,
        staging: &Staging,
    ) -> Result<oneshot::Receiver<Outcome>, Failure> {
        let version = self.request.version;
        let batch = encode::only_batch(records, version, Expects::Transactional)?;
        let header = *batch.header();
        let invalid = || Failure::new(ErrorCode::InvalidRecord);
        let sequenced = self
            .sequence(topic, partition, &batch)?
            .ok_or_else(invalid)?;
        self.bound(topic, &header)?;
        let producer = Producer {
            id: ProducerId(header.producer_id),
            epoch: sequenced.epoch,
        };
        let sequence = sequenced.range.first();
        let ids = ids(&producer, partition, sequence);
        let bytes = batch.bytes().clone();
        let (encoded, reservation) = self.encode(topic, partition, batch, Some(ids)).await?;
        self.produce.codecs.seen(topic.id, header.compression);
        let at: Partition = (Arc::clone(&topic.name), partition);
        let count = encoded.fragment.items();
        let size = (count, encoded.payload_bytes);
        let admission = staging
            .admit(producer, &at, size)
            .map_err(|failure| refused(version, &failure))?;
        let staged = StagedBatch {
            producer,
            at: &at,
            sequence,
            records: count,
            payload_bytes: encoded.payload_bytes,
            bytes: &bytes,
        };
        let (answer, outcome) = oneshot::channel();
        let rows = staging.rows(admission, &staged);
        let (lane, fragment) = match &rows {
            Some(rows) => {
                let lane = LaneKey {
                    queue: STAGE_QUEUE.into(),
                    partition: rows.lane,
                };
                (lane, rows.fragment.clone())
            }
            None => {
                let queue = Arc::clone(&topic.name);
                (LaneKey { queue, partition }, encoded.fragment)
            }
        };
        let (judged, verdict) = oneshot::channel();
        let unit = Unit {
            lane,
            fragment,
            sequenced: (!staging.orders_later()).then_some(sequenced),
            replay: Replay::Recognised,
            deadline: self.deadline(),
            appended: None,
            reservation,
            answer: judged,
            ticket: None,
            throttle: Duration::ZERO,
        };
        if rows.is_none() {
            let lane = self.gatherer.lane();
            let mut held = false;
            self.produce.shared.hold(lane, unit, |fragment| {
                held = staging.hold(admission, fragment, size.1);
                held
            });
            if !held {
                staging.withdraw(admission);
            }
            return Ok(verdict);
        }
        let row_count = i64::try_from(unit.items()).unwrap_or(i64::MAX);
        self.units.push(unit);
        let staging = staging.clone();
        // Not by the connection, which may close: the count of what is on its way must come right.
        tokio::spawn(async move {
            let Outcome { result, throttle } = verdict
                .await
                .unwrap_or_else(|_| Outcome::failed(ErrorCode::RequestTimedOut));
            let result = match result {
                Ok(offset) if staging.stored(admission, offset, row_count) => Ok(NO_OFFSET),
                Ok(_) => Err(Failure::new(ErrorCode::InvalidTxnState)),
                Err(failure) => {
                    staging.withdraw(admission);
                    Err(failure)
                }
            };
            // The connection may be gone.
            let _ = answer.send(Outcome { result, throttle });
        });
        Ok(outcome)
    }
}

impl Shared {
    /// Judges a batch and hands it to `hold`, which may find its transaction over.
    pub(super) fn hold(&self, lane: Lane, unit: Unit, hold: impl FnOnce(Fragment) -> bool) {
        let Some(unit) = self.table.judge(self.clock.monotonic(), lane, unit) else {
            return;
        };
        let result = if hold(unit.fragment.clone()) {
            Ok(Stored {
                base_offset: NO_OFFSET,
                fresh: true,
            })
        } else {
            Err(Failure::new(ErrorCode::InvalidTxnState))
        };
        self.settle(unit, result);
    }
}

fn ids(producer: &Producer, partition: i32, base_sequence: Sequence) -> TransactionIds {
    TransactionIds::Sequenced {
        producer_id: producer.id.0,
        epoch: producer.epoch,
        partition,
        base_sequence,
    }
}

fn refused(version: i16, failure: &crate::transactions::Failure) -> Failure {
    Failure::because(failure.produce_code(version), failure.to_string())
}

/// The items of a batch that was staged as its client sent it.
///
/// # Errors
///
/// The code its client would have heard; it was proved when it was staged.
pub fn fragment(
    records: Bytes,
    queue: &str,
    partition: i32,
    budget: &mut Budget,
) -> Result<Fragment, Failure> {
    let batch = encode::only_batch(records, i16::MAX, Expects::Transactional)?;
    let header = batch.header();
    let invalid = || Failure::new(ErrorCode::InvalidRecord);
    let producer = Producer {
        id: ProducerId(header.producer_id),
        epoch: ProducerEpoch::new(header.producer_epoch).ok_or_else(invalid)?,
    };
    let sequence = Sequence::new(header.base_sequence).ok_or_else(invalid)?;
    let ids = ids(&producer, partition, sequence);
    // They were judged when the client sent them.
    let times = Tolerance::ANY.at(0);
    let encoded = encode::encode(&batch, queue, partition, Some(&ids), times, budget)?;
    Ok(encoded.fragment)
}
