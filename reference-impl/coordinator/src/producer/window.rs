//! One producer on one partition: what is stored, what was admitted behind it.

use std::collections::VecDeque;

use super::sequence::{Sequence, SequenceRange};
use super::{Lane, ProducerEpoch, Refusal, Ticket, Verdict};

/// Batches remembered per window, as Apache Kafka: clients keep at most five in flight.
pub const BATCHES_REMEMBERED: usize = 5;

/// Beyond this many records a position counts as ahead, not behind: half the sequence space, so
/// that the two never overlap.
const LONGEST_RUN: u32 = 1 << 30;

#[derive(Clone, Copy, Debug)]
struct Stored {
    range: SequenceRange,
    base_offset: i64,
}

/// What the log holds of the window's newest stored epoch.
#[derive(Debug)]
struct Log {
    epoch: ProducerEpoch,
    next: Sequence,
    /// Records known to be stored without a gap up to `next`: what lies further back was never
    /// seen here, so it can't be called a duplicate.
    run: u32,
    /// The newest batches, oldest first; at most [`BATCHES_REMEMBERED`].
    batches: [Option<Stored>; BATCHES_REMEMBERED],
}

impl Log {
    const fn new(epoch: ProducerEpoch, first: Sequence) -> Self {
        Self {
            epoch,
            next: first,
            run: 0,
            batches: [None; BATCHES_REMEMBERED],
        }
    }

    fn append(&mut self, range: SequenceRange, base_offset: i64) {
        if range.first() != self.next {
            *self = Self::new(self.epoch, range.first());
        }
        self.next = range.next();
        self.run = self.run.saturating_add(range.count()).min(LONGEST_RUN);
        self.batches.rotate_left(1);
        self.batches[BATCHES_REMEMBERED - 1] = Some(Stored { range, base_offset });
    }

    fn find(&self, range: SequenceRange) -> Option<i64> {
        self.batches
            .iter()
            .flatten()
            .find(|stored| stored.range == range)
            .map(|stored| stored.base_offset)
    }

    /// Whether every record of `range` is known to be stored already.
    const fn covers(&self, range: SequenceRange) -> bool {
        let back = range.first().steps_to(self.next);
        back <= self.run && range.count() <= back
    }
}

#[derive(Clone, Copy, Debug)]
struct Admitted {
    ticket: Ticket,
    lane: Lane,
    epoch: ProducerEpoch,
    range: SequenceRange,
}

/// The sequence window of one producer on one partition.
#[derive(Debug, Default)]
pub(super) struct Window {
    log: Option<Log>,
    /// While nothing is known to be stored: the batch that failed first. Those that its client had
    /// in flight behind it still arrive, and must not become the beginning of the log.
    failed: Option<(ProducerEpoch, Sequence)>,
    admitted: VecDeque<Admitted>,
}

impl Window {
    pub(super) fn is_idle(&self) -> bool {
        self.admitted.is_empty()
    }

    /// Nothing stored, nothing failed, nothing admitted: as good as unknown.
    pub(super) fn is_blank(&self) -> bool {
        self.log.is_none() && self.failed.is_none() && self.admitted.is_empty()
    }

    /// Whether a batch comes before a failed one that it was sent behind.
    fn overtakes(&self, epoch: ProducerEpoch, range: SequenceRange) -> bool {
        self.failed.is_some_and(|(failed_epoch, failed)| {
            let ahead = failed.steps_to(range.first());
            epoch == failed_epoch && (1..LONGEST_RUN).contains(&ahead)
        })
    }

    /// The epoch and last sequence that are stored.
    pub(super) fn stored(&self) -> Option<(ProducerEpoch, Sequence)> {
        self.log.as_ref().map(|log| (log.epoch, log.next.before()))
    }

    /// The epoch and next sequence after everything stored and admitted.
    fn tail(&self) -> Option<(ProducerEpoch, Sequence)> {
        match (self.admitted.back(), &self.log) {
            (Some(last), _) => Some((last.epoch, last.range.next())),
            (None, Some(log)) => Some((log.epoch, log.next)),
            (None, None) => None,
        }
    }

    /// Whether what is known here is enough to judge a batch that another node may know more of:
    /// it comes next, begins an epoch, is known already, or is of an epoch that was superseded.
    pub(super) fn knows(&self, epoch: ProducerEpoch, range: SequenceRange) -> bool {
        let Some((tail_epoch, next)) = self.tail() else {
            return range.first() == Sequence::ZERO && self.failed.is_none();
        };
        if epoch == tail_epoch {
            let known = self.place_known(epoch, range);
            range.first() == next || known != Verdict::Refused(Refusal::OutOfOrderSequence)
        } else {
            epoch < tail_epoch || range.first() == Sequence::ZERO
        }
    }

    /// Takes it from the log that the last record of the producer has the sequence before `next`.
    pub(super) fn resume(&mut self, epoch: ProducerEpoch, next: Sequence) {
        self.log = Some(Log::new(epoch, next));
        self.failed = None;
    }

    pub(super) fn admit(
        &mut self,
        lane: Lane,
        epoch: ProducerEpoch,
        range: SequenceRange,
        ticket: Ticket,
    ) -> Verdict {
        if let Some((tail_epoch, next)) = self.tail() {
            if epoch < tail_epoch {
                return Verdict::Refused(Refusal::InvalidProducerEpoch);
            }
            if epoch > tail_epoch && range.first() != Sequence::ZERO {
                return Verdict::Refused(Refusal::OutOfOrderSequence);
            }
            if epoch == tail_epoch && range.first() != next {
                return self.place_known(epoch, range);
            }
            if self.admitted.back().is_some_and(|last| last.lane != lane) {
                return Verdict::Busy;
            }
        } else if self.overtakes(epoch, range) {
            return Verdict::Refused(Refusal::OutOfOrderSequence);
        }
        self.admitted.push_back(Admitted {
            ticket,
            lane,
            epoch,
            range,
        });
        Verdict::Admitted(ticket)
    }

    /// A batch of the current epoch that isn't next in sequence.
    fn place_known(&self, epoch: ProducerEpoch, range: SequenceRange) -> Verdict {
        if let Some(admitted) = self
            .admitted
            .iter()
            .find(|admitted| admitted.epoch == epoch && admitted.range == range)
        {
            return Verdict::InFlight(admitted.ticket);
        }
        match self.log.as_ref().filter(|log| log.epoch == epoch) {
            Some(log) => match log.find(range) {
                Some(base_offset) => Verdict::Duplicate { base_offset },
                None if log.covers(range) => Verdict::Refused(Refusal::DuplicateSequence),
                None => Verdict::Refused(Refusal::OutOfOrderSequence),
            },
            None => Verdict::Refused(Refusal::OutOfOrderSequence),
        }
    }

    pub(super) fn acknowledge(&mut self, ticket: Ticket, base_offset: i64) -> bool {
        let Some(at) = self.position(ticket) else {
            return false;
        };
        let Admitted { epoch, range, .. } = self.admitted[at];
        // A lane resolves in order, so nothing stands before it; were it otherwise, what stands
        // before it can't be in the log any more.
        self.admitted.drain(..=at);
        let log = match &mut self.log {
            Some(log) if log.epoch == epoch => log,
            log => log.insert(Log::new(epoch, range.first())),
        };
        log.append(range, base_offset);
        self.failed = None;
        true
    }

    pub(super) fn fail(&mut self, ticket: Ticket) -> Vec<Ticket> {
        let Some(at) = self.position(ticket) else {
            return Vec::new();
        };
        let Admitted { epoch, range, .. } = self.admitted[at];
        if self.log.is_none() {
            self.failed = Some((epoch, range.first()));
        }
        let behind = self.admitted.split_off(at);
        let mut doomed = Vec::new();
        for admitted in behind {
            if admitted.epoch != epoch {
                self.admitted.push_back(admitted);
            } else if admitted.ticket != ticket {
                doomed.push(admitted.ticket);
            }
        }
        doomed
    }

    fn position(&self, ticket: Ticket) -> Option<usize> {
        self.admitted
            .iter()
            .position(|admitted| admitted.ticket == ticket)
    }
}
