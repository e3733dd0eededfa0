//! What the log knows of a producer: read where another node may have led the partition meanwhile.
//!
//! Records carry the name of their producer, epoch and sequence, so the last one of a producer says
//! what its next batch has to be, whichever node stored it. A batch that this node can't place is
//! held against it (docs/decisions/cluster-producers.md). Reads the end of one lane, and nothing
//! else.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use coordinator::producer::{ProducerEpoch, Sequence};
use host::Monotonic;
use indexmap::IndexMap;
use kafka_wire::ErrorCode;

use super::ids::Named as Name;
use super::unit::{Sequenced, WindowKey};
use super::{Failure, Shared};
use crate::queen::{
    BOUNDS_PROBE, CALL_TIMEOUT, Class, Credential, Error, FetchEntry, LaneStatus, Named,
};
use crate::upstream_errors::{self, Api};

/// How far back a lane is read, in records from its end, one step after the other. Who wrote lately
/// is near the end; who isn't within the last step has nothing in flight that it could overtake.
const REACH: [i64; 3] = [256, 2_048, 16_384];
/// Compressed bytes of one read.
const READ_BYTES: u32 = 256 << 10;
/// Reads for one batch: as many as [`REACH`] needs with records of about a kilobyte.
const MAX_READS: usize = 64;
/// How long a producer that the whole log knows nothing of waits for its first batches, should they
/// be on their way through another node: as long as that node tries.
const GRACE: Duration = CALL_TIMEOUT;
/// A doubt older than this was resolved long ago.
const STALE: Duration = Duration::from_secs(60);
/// Doubts remembered; beyond, the oldest is forgotten.
const MAX_DOUBTS: usize = 4_096;
/// The code of a refusal doesn't depend on the version of a Produce request.
const VERSION: i16 = 0;

/// What a lane shows of one producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lineage {
    /// Its last record.
    Last(ProducerEpoch, Sequence),
    /// Nothing as far as was read, or in what retention left.
    Unseen,
    /// Nothing, and the log is whole.
    Never,
}

/// Producers of which the whole log knows nothing, though their batch isn't the first: since when.
#[derive(Debug, Default)]
pub(super) struct Doubts(Mutex<IndexMap<WindowKey, Monotonic>>);

impl Doubts {
    /// Whether the doubt has lasted for so long that nothing is on its way any more.
    fn is_over(&self, key: &WindowKey, now: Monotonic) -> bool {
        let mut doubts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = *doubts.entry(key.clone()).or_insert(now);
        let age = now - since;
        if (GRACE..STALE).contains(&age) {
            doubts.swap_remove(key);
            return true;
        }
        if age >= STALE {
            doubts.insert(key.clone(), now);
        }
        while doubts.len() > MAX_DOUBTS {
            doubts.shift_remove_index(0);
        }
        false
    }
}

impl Shared {
    /// Brings the window of a batch that can't be placed by it up to what the log says.
    ///
    /// # Errors
    ///
    /// What the client is told when that can't be known now.
    pub(super) async fn catch_up(
        &self,
        credential: &Credential,
        sequenced: &Sequenced,
    ) -> Result<(), Failure> {
        let Sequenced {
            window,
            epoch,
            range,
        } = sequenced;
        let lineage = self.lineage(credential, window).await;
        let now = self.clock.monotonic();
        match lineage {
            Ok(Lineage::Last(last_epoch, last)) => {
                let next = last.plus(1);
                let stored_before = last_epoch == *epoch && range.first().is_before(next);
                // Stored already, by its sequence: Queen knows it by its name, and where it is.
                let next = if stored_before { range.first() } else { next };
                self.table.resume(now, window, last_epoch, next);
            }
            Ok(Lineage::Never) if !self.doubts.is_over(window, now) => {
                return Err(Failure::because(
                    ErrorCode::NotEnoughReplicas,
                    "the batches before it may be on their way through another node",
                ));
            }
            Ok(Lineage::Never | Lineage::Unseen) => self.table.forget(window),
            // Who may only produce is taken at its word.
            Err(error) if error.class() == Class::Forbidden => self.table.forget(window),
            Err(error) => {
                let answer = upstream_errors::answer(Api::Produce, VERSION, &error);
                return Err(Failure::because(answer.code, answer.message));
            }
        }
        Ok(())
    }

    /// Looks for the last record of a producer, from the end of its lane backwards.
    async fn lineage(&self, credential: &Credential, window: &WindowKey) -> Result<Lineage, Error> {
        let mut lane = Reading {
            shared: self,
            credential,
            window,
            reads: MAX_READS,
        };
        let bounds = lane.read(BOUNDS_PROBE, 1).await?;
        if bounds.status == LaneStatus::Unknown {
            return Ok(Lineage::Never);
        }
        let (start, end) = (bounds.log_start_offset, bounds.high_watermark);
        let mut until = end;
        for reach in REACH {
            let from = start.max(end.saturating_sub(reach));
            if let Some(last) = lane.last_within(from, until).await? {
                return Ok(Lineage::Last(last.epoch, last.sequence));
            }
            until = from;
            if from == start {
                break;
            }
        }
        Ok(if until == 0 {
            Lineage::Never
        } else {
            Lineage::Unseen
        })
    }
}

/// Reads of one lane.
struct Reading<'a> {
    shared: &'a Shared,
    credential: &'a Credential,
    window: &'a WindowKey,
    /// How many more there may be.
    reads: usize,
}

impl Reading<'_> {
    async fn read(&self, offset: i64, max_bytes: u32) -> Result<Named, Error> {
        let entry = FetchEntry {
            queue: &self.window.queue,
            partition: self.window.partition,
            offset,
            max_bytes,
        };
        self.shared.client.fetch_names(self.credential, entry).await
    }

    /// The producer's last record at an offset of `from..until`. What retention took meanwhile, and
    /// what is beyond the last read, isn't there.
    async fn last_within(&mut self, from: i64, until: i64) -> Result<Option<Name>, Error> {
        let (mut at, mut last) = (from, None);
        while at < until && self.reads > 0 {
            self.reads -= 1;
            let read = self.read(at, READ_BYTES).await?;
            match read.status {
                LaneStatus::Ok => {}
                LaneStatus::OffsetOutOfRange if read.log_start_offset > at => {
                    at = read.log_start_offset;
                    continue;
                }
                LaneStatus::Unknown | LaneStatus::OffsetOutOfRange => break,
                LaneStatus::Failed => {
                    return Err(Error::unreadable("the lane could not be read"));
                }
            }
            let Some((end, _)) = read.records.last() else {
                break;
            };
            at = end + 1;
            let names = read.records.iter().take_while(|(at, _)| *at < until);
            let of_producer = names
                .filter_map(|(_, name)| Name::parse(name))
                .filter(|name| {
                    name.producer_id == self.window.producer_id
                        && name.partition == self.window.partition
                });
            last = of_producer.last().or(last);
        }
        Ok(last)
    }
}
