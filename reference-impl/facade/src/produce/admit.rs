//! Reads and judges the record batches of one Produce request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coordinator::producer::{ProducerEpoch, SequenceRange};
use host::blocking::Blocking;
use host::{Entropy, Monotonic, WallTime};
use kafka_wire::ErrorCode;
use kafka_wire::records::{Batch, BatchHeader, Budget, Compression, NO_TIMESTAMP};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::encode::{self, Encoded, Expects};
use super::ids::TransactionIds;
use super::memory::Reservation;
use super::times::Tolerance;
use super::unit::{LaneKey, Replay, Sequenced, Unit, WindowKey};
use super::{Failure, Gatherer, Outcome, Produce};
use crate::queen::{CALL_TIMEOUT, Scope};
use crate::time_index::{Appended, PartitionKey};

/// Bytes that the batches of one request may expand to: one frame's worth.
const MAX_REQUEST_BYTES: usize = 100 << 20;
/// Records of one request.
const MAX_REQUEST_RECORDS: usize = 1_000_000;
/// Batches at least this long are read where blocking work runs.
const READ_ELSEWHERE_BYTES: usize = 256 << 10;
/// What every batch gets, however little its client waits: a push that is already under way is
/// worth its answer.
const MIN_PATIENCE: Duration = Duration::from_secs(1);
/// What records are first supposed to expand to, per compressed byte.
const USUAL_RATIO: usize = 8;

/// A topic that a request produces to.
#[derive(Clone, Debug)]
pub struct Topic {
    /// Its name: the queue.
    pub name: Arc<str>,
    /// Its id.
    pub id: Uuid,
    /// Whether Queen is known to recognise items that are pushed again within the time of a
    /// request.
    pub deduplicates: bool,
    /// The largest batch it accepts, when it bounds it.
    pub max_message_bytes: Option<i32>,
    /// How far from the clock its timestamps may be.
    pub timestamps: Tolerance,
}

/// The request as far as its batches need it.
#[derive(Clone, Debug)]
pub struct Request {
    /// Whose producers.
    pub scope: Scope,
    /// The version of the API.
    pub version: i16,
    /// When it arrived.
    pub received: Monotonic,
    /// The same by the wall clock, which timestamps are measured by.
    pub received_at: WallTime,
    /// How long the client lets the broker take.
    pub timeout: Duration,
}

/// What's known of a partition's batch after admission.
#[derive(Debug)]
pub enum Admitted {
    /// Stored.
    Stored {
        /// The offset of its first record.
        base_offset: i64,
    },
    /// Answered.
    Refused(Failure),
    /// On its way; the outcome comes.
    Pending(oneshot::Receiver<Outcome>),
}

/// Admits the batches of one request, in order.
#[derive(Debug)]
pub struct Admission<'p> {
    pub(super) produce: &'p Produce,
    pub(super) gatherer: Arc<Gatherer>,
    pub(super) request: Request,
    entropy: Arc<dyn Entropy>,
    blocking: Blocking,
    budget: Option<Budget>,
    /// Read, not yet handed to the gatherer: it should see a request as one.
    pub(super) units: Vec<Unit>,
}

impl<'p> Admission<'p> {
    /// An admission through `gatherer`.
    pub fn new(
        produce: &'p Produce,
        gatherer: Arc<Gatherer>,
        request: Request,
        entropy: Arc<dyn Entropy>,
        blocking: Blocking,
    ) -> Self {
        Self {
            produce,
            gatherer,
            request,
            entropy,
            blocking,
            budget: Some(Budget::new(MAX_REQUEST_BYTES, MAX_REQUEST_RECORDS)),
            units: Vec::new(),
        }
    }

    /// Reads the records of one partition.
    pub async fn partition(
        &mut self,
        topic: &Topic,
        partition: i32,
        records: Option<Bytes>,
    ) -> Admitted {
        match self
            .read(topic, partition, records.unwrap_or_default())
            .await
        {
            Ok(outcome) => Admitted::Pending(outcome),
            Err(failure) => Admitted::Refused(failure),
        }
    }

    /// Hands everything to the gatherer: the order of this request's batches is now fixed.
    pub fn finish(mut self) {
        self.flush();
    }

    fn flush(&mut self) {
        if !self.units.is_empty() {
            self.gatherer.submit(self.units.drain(..));
        }
    }

    async fn read(
        &mut self,
        topic: &Topic,
        partition: i32,
        records: Bytes,
    ) -> Result<oneshot::Receiver<Outcome>, Failure> {
        let batch = encode::only_batch(records, self.request.version, Expects::Plain)?;
        let header = *batch.header();
        let sequenced = self.sequence(topic, partition, &batch)?;
        self.bound(topic, &header)?;
        if let Some(sequenced) = &sequenced {
            self.catch_up(sequenced).await?;
        }
        let ids = match &sequenced {
            Some(sequenced) => Some(TransactionIds::Sequenced {
                producer_id: header.producer_id,
                epoch: sequenced.epoch,
                partition,
                base_sequence: sequenced.range.first(),
            }),
            None if topic.deduplicates => Some(TransactionIds::minted(&*self.entropy)),
            // Names that nobody compares would only make the body longer.
            None => None,
        };
        // Where nobody compares the names, each repetition would be stored: then it is the client,
        // which knows how often, that sends again.
        let replay = if topic.deduplicates && ids.is_some() {
            Replay::Recognised
        } else {
            Replay::Doubled
        };
        let (encoded, reservation) = self.encode(topic, partition, batch, ids).await?;
        self.produce.codecs.seen(topic.id, header.compression);
        let (answer, outcome) = oneshot::channel();
        self.units.push(Unit {
            lane: LaneKey {
                queue: Arc::clone(&topic.name),
                partition,
            },
            appended: appended(topic.id, partition, &encoded),
            fragment: encoded.fragment,
            sequenced,
            replay,
            deadline: self.deadline(),
            reservation,
            answer,
            ticket: None,
            throttle: Duration::ZERO,
        });
        Ok(outcome)
    }

    /// Holds a batch that another node may know more of against the log.
    async fn catch_up(&mut self, sequenced: &Sequenced) -> Result<(), Failure> {
        let shared = &self.produce.shared;
        if !shared.clustered || shared.table.knows(sequenced) {
            return Ok(());
        }
        // What this request holds already must not wait for it.
        self.flush();
        shared.metrics.lineages.inc();
        shared.catch_up(&self.gatherer.credential, sequenced).await
    }

    /// Until when a batch of the request is tried again.
    pub(super) fn deadline(&self) -> Monotonic {
        self.request.received + self.request.timeout.clamp(MIN_PATIENCE, CALL_TIMEOUT)
    }

    #[expect(
        clippy::unused_self,
        reason = "reads as the other checks of a batch do"
    )]
    pub(super) fn bound(&self, topic: &Topic, header: &BatchHeader) -> Result<(), Failure> {
        let max = topic.max_message_bytes;
        if max.is_some_and(|max| exceeds(header.len_bytes, max)) {
            return Err(Failure::new(ErrorCode::MessageTooLarge));
        }
        Ok(())
    }

    pub(super) fn sequence(
        &self,
        topic: &Topic,
        partition: i32,
        batch: &Batch,
    ) -> Result<Option<Sequenced>, Failure> {
        let header = batch.header();
        if !header.has_producer_id() {
            return Ok(None);
        }
        let range = u32::try_from(header.count)
            .ok()
            .and_then(|count| SequenceRange::new(header.base_sequence, count));
        match (ProducerEpoch::new(header.producer_epoch), range) {
            (Some(epoch), Some(range)) => Ok(Some(Sequenced {
                window: WindowKey {
                    scope: self.request.scope.clone(),
                    queue: Arc::clone(&topic.name),
                    topic_id: topic.id,
                    partition,
                    producer_id: header.producer_id,
                },
                epoch,
                range,
            })),
            _ => Err(Failure::because(
                ErrorCode::InvalidRecord,
                "a producer id without epoch or sequence",
            )),
        }
    }

    pub(super) async fn encode(
        &mut self,
        topic: &Topic,
        partition: i32,
        batch: Batch,
        ids: Option<TransactionIds>,
    ) -> Result<(Encoded, Reservation), Failure> {
        let body_bytes = batch.bytes().len();
        if batch.header().compression == Compression::None {
            return self
                .encode_within(topic, partition, batch, ids, body_bytes, MAX_REQUEST_BYTES)
                .await;
        }
        // Few batches expand to all they may: reserve for the usual, and for the worst only when
        // it turns out to be needed.
        let left = self.budget.as_ref().map_or(0, Budget::remaining_bytes);
        let usual = body_bytes.saturating_mul(USUAL_RATIO).min(left);
        let records_left = self.budget.as_ref().map_or(0, Budget::remaining_records);
        let first = self
            .encode_within(topic, partition, batch.clone(), ids, usual, usual)
            .await;
        match first {
            Err(failure) if failure.code == ErrorCode::MessageTooLarge && usual < left => {
                self.budget = Some(Budget::new(left, records_left));
                self.encode_within(topic, partition, batch, ids, left, left)
                    .await
            }
            result => result,
        }
    }

    /// Encodes a batch whose records are supposed to take `body_bytes`, and may not expand beyond
    /// `limit_bytes`.
    async fn encode_within(
        &mut self,
        topic: &Topic,
        partition: i32,
        batch: Batch,
        ids: Option<TransactionIds>,
        body_bytes: usize,
        limit_bytes: usize,
    ) -> Result<(Encoded, Reservation), Failure> {
        let cost = encode::cost_bytes(batch.header(), &topic.name, body_bytes);
        let mut reservation = match self.produce.memory.try_reserve(cost) {
            Some(reservation) => reservation,
            None => {
                // What this request holds already must not wait for what it still wants.
                self.flush();
                self.produce.memory.reserve(cost).await
            }
        };
        let request = self.budget.take().unwrap_or_else(|| Budget::new(0, 0));
        let (bytes, count) = (request.remaining_bytes(), request.remaining_records());
        let mut budget = if limit_bytes < bytes {
            Budget::new(limit_bytes, count)
        } else {
            request
        };
        let queue = Arc::clone(&topic.name);
        let times = topic.timestamps.at(self.request.received_at.epoch_ms());
        let elsewhere = body_bytes >= READ_ELSEWHERE_BYTES;
        let work = move || {
            let ids = ids.as_ref();
            let encoded = encode::encode(&batch, &queue, partition, ids, times, &mut budget);
            (encoded, budget)
        };
        let (encoded, mut budget) = if elsewhere {
            self.blocking.run(work).await
        } else {
            work()
        };
        if limit_bytes < bytes {
            let spent = limit_bytes - budget.remaining_bytes();
            budget = Budget::new(bytes - spent, budget.remaining_records());
        }
        self.budget = Some(budget);
        let encoded = encoded?;
        reservation.shrink(encoded.fragment.len_bytes());
        Ok((encoded, reservation))
    }
}

fn exceeds(bytes: usize, max: i32) -> bool {
    usize::try_from(max).is_ok_and(|max| bytes > max)
}

/// What the time index may learn. Records without a timestamp of their own get one from Queen's
/// clock, which nobody knows yet.
fn appended(topic_id: Uuid, partition: i32, encoded: &Encoded) -> Option<Appended> {
    if encoded.min_timestamp <= NO_TIMESTAMP {
        return None;
    }
    Some(Appended {
        partition: PartitionKey {
            topic_id,
            partition,
        },
        count: u32::try_from(encoded.fragment.items()).ok()?,
        max_timestamp: encoded.max_timestamp,
        max_timestamp_at: encoded.max_timestamp_at,
    })
}
