//! What an open transaction holds: where it writes, how much, which offsets it commits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use host::Monotonic;

use super::identity::Producer;
use super::{Refusal, State, Transaction};

/// A topic and partition.
pub type Partition = (Arc<str>, i32);
/// Group, topic and partition of a committed offset.
pub type OffsetPlace = (Arc<str>, Arc<str>, i32);

/// An offset that counts when the transaction is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedOffset {
    /// The next offset to read.
    pub offset: i64,
    /// What the client keeps beside it.
    pub metadata: Option<String>,
}

/// A batch that may be staged now; [`Transaction::settle_batch`] says whether it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The transaction it belongs to: its ordinal among those of the id.
    pub number: u64,
    records: usize,
    bytes: usize,
}

impl Admission {
    /// A batch of `size` records and bytes for transaction `number`, staged for another process
    /// that reads it when the transaction ends. Counted nowhere, so settled nowhere.
    pub const fn elsewhere(number: u64, size: (usize, usize)) -> Self {
        Self {
            number,
            records: size.0,
            bytes: size.1,
        }
    }
}

/// The open transaction.
#[derive(Clone, Debug)]
pub struct Content {
    pub(super) began: Monotonic,
    /// How old it was then: nothing unless another process began it.
    pub(super) age: Duration,
    partitions: BTreeSet<Partition>,
    groups: BTreeSet<Arc<str>>,
    offsets: BTreeMap<OffsetPlace, StagedOffset>,
    records: usize,
    bytes: usize,
    /// Batches that were staged.
    batches: usize,
    /// Batches admitted whose staging isn't known.
    pub(super) pending: usize,
    /// It grew beyond what one may hold, and lacks something its client sent.
    pub(super) spoilt: bool,
}

/// An open transaction as another process staged it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// How long ago it began.
    pub age: Duration,
    /// Where it writes.
    pub partitions: BTreeSet<Partition>,
    /// The groups whose offsets it commits.
    pub groups: BTreeSet<Arc<str>>,
    /// The offsets.
    pub offsets: BTreeMap<OffsetPlace, StagedOffset>,
    /// Records staged.
    pub records: usize,
    /// Bytes of keys, values and headers staged.
    pub bytes: usize,
    /// Batches staged.
    pub batches: usize,
}

impl Content {
    pub(super) const fn new(began: Monotonic) -> Self {
        Self {
            began,
            age: Duration::ZERO,
            partitions: BTreeSet::new(),
            groups: BTreeSet::new(),
            offsets: BTreeMap::new(),
            records: 0,
            bytes: 0,
            batches: 0,
            pending: 0,
            spoilt: false,
        }
    }

    pub(super) fn recovered(recovered: Recovered, now: Monotonic) -> Self {
        Self {
            began: now,
            age: recovered.age,
            partitions: recovered.partitions,
            groups: recovered.groups,
            offsets: recovered.offsets,
            records: recovered.records,
            bytes: recovered.bytes,
            batches: recovered.batches,
            pending: 0,
            spoilt: false,
        }
    }

    /// Where it writes, in order.
    pub fn partitions(&self) -> impl ExactSizeIterator<Item = &Partition> {
        self.partitions.iter()
    }

    /// Whether it may write there.
    pub fn has_partition(&self, topic: &Arc<str>, partition: i32) -> bool {
        self.partitions.contains(&(Arc::clone(topic), partition))
    }

    /// The groups whose offsets it commits, in order.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = &Arc<str>> {
        self.groups.iter()
    }

    /// The offsets, in order of groups, topics and partitions.
    pub fn offsets(&self) -> impl ExactSizeIterator<Item = (&OffsetPlace, &StagedOffset)> {
        self.offsets.iter()
    }

    /// Records admitted.
    pub const fn records(&self) -> usize {
        self.records
    }

    /// Bytes admitted.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Batches staged.
    pub const fn batches(&self) -> usize {
        self.batches
    }

    /// How long ago it began.
    pub fn age(&self, now: Monotonic) -> Duration {
        now.saturating_since(self.began) + self.age
    }

    /// Whether committing it changes nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.batches == 0 && self.offsets.is_empty()
    }

    fn add_partition(&mut self, max: usize, partition: Partition) -> Result<(), Refusal> {
        if self.partitions.len() >= max && !self.partitions.contains(&partition) {
            return Err(Refusal::TooManyPartitions);
        }
        self.partitions.insert(partition);
        Ok(())
    }

    fn add_group(&mut self, max: usize, group: &Arc<str>) -> Result<(), Refusal> {
        if !self.groups.contains(group) {
            if self.offsets.len() + self.groups.len() > max {
                return Err(Refusal::InvalidCommitOffsetSize);
            }
            self.groups.insert(Arc::clone(group));
        }
        Ok(())
    }
}

impl<V: Copy + Eq> Transaction<V> {
    /// AddPartitionsToTxn: all or none.
    ///
    /// # Errors
    ///
    /// As [`Transaction::verify`]; `TooManyPartitions`.
    pub fn add_partitions(
        &mut self,
        now: Monotonic,
        producer: Producer,
        partitions: &[Partition],
    ) -> Result<(), Refusal> {
        self.verify(producer)?;
        let known = self.content();
        let new: BTreeSet<&Partition> = partitions
            .iter()
            .filter(|at| known.is_none_or(|known| !known.partitions.contains(*at)))
            .collect();
        let before = known.map_or(0, |known| known.partitions.len());
        if before + new.len() > self.limits.partitions {
            return Err(Refusal::TooManyPartitions);
        }
        if partitions.is_empty() {
            return Ok(());
        }
        let content = self.open(now, producer)?;
        content.partitions.extend(partitions.iter().cloned());
        Ok(())
    }

    /// Whether all of `partitions` were added before.
    pub fn has_partitions(&self, partitions: &[Partition]) -> bool {
        self.content()
            .is_some_and(|content| partitions.iter().all(|at| content.partitions.contains(at)))
    }

    /// AddOffsetsToTxn.
    ///
    /// # Errors
    ///
    /// As [`Transaction::verify`]; `InvalidCommitOffsetSize`.
    pub fn add_group(
        &mut self,
        now: Monotonic,
        producer: Producer,
        group: &Arc<str>,
    ) -> Result<(), Refusal> {
        let max = self.limits.offsets;
        self.open(now, producer)?.add_group(max, group)
    }

    /// Whether the offsets of `group` were added before.
    pub fn has_group(&self, group: &Arc<str>) -> bool {
        self.content()
            .is_some_and(|content| content.groups.contains(group))
    }

    /// A batch of `records` records that hold `bytes`, for `at`. With `implicit` (transactions 2)
    /// the partition is added by it.
    ///
    /// # Errors
    ///
    /// As [`Transaction::verify`]; `InvalidTxnState` for a partition that wasn't added and for a
    /// transaction that is spoilt; `MessageTooLarge`, which spoils it.
    pub fn admit_batch(
        &mut self,
        now: Monotonic,
        producer: Producer,
        at: &Partition,
        (records, bytes): (usize, usize),
        implicit: bool,
    ) -> Result<Admission, Refusal> {
        let (limits, number) = (self.limits, self.number + 1);
        let content = if implicit {
            self.verify_implicit(producer)?;
            self.open(now, producer)?
        } else {
            self.verify(producer)?;
            match &mut self.state {
                State::Ongoing(content) => content,
                _ => return Err(Refusal::InvalidTxnState),
            }
        };
        if content.spoilt {
            return Err(Refusal::InvalidTxnState);
        }
        if implicit {
            content.add_partition(limits.partitions, at.clone())?;
        } else if !content.partitions.contains(at) {
            return Err(Refusal::InvalidTxnState);
        }
        if content.records + records > limits.records || content.bytes + bytes > limits.bytes {
            content.spoilt = true;
            return Err(Refusal::MessageTooLarge);
        }
        content.records += records;
        content.bytes += bytes;
        content.pending += 1;
        Ok(Admission {
            number,
            records,
            bytes,
        })
    }

    /// Whether an admitted batch was staged by this admission (and not before). `false` when the
    /// transaction it belongs to is over.
    pub fn settle_batch(&mut self, admission: Admission, staged: bool) -> bool {
        if admission.number != self.number + 1 {
            return false;
        }
        let content = match &mut self.state {
            State::Ongoing(content) => content,
            State::Writing(writing) => match &mut writing.content {
                Some(content) => content,
                None => return false,
            },
            State::Unloaded | State::Idle(_) => return false,
        };
        content.pending = content.pending.saturating_sub(1);
        if staged {
            content.batches += 1;
        } else {
            content.records = content.records.saturating_sub(admission.records);
            content.bytes = content.bytes.saturating_sub(admission.bytes);
        }
        true
    }

    /// TxnOffsetCommit. With `implicit` (transactions 2) the group is added by it.
    ///
    /// # Errors
    ///
    /// As [`Transaction::verify`]; `InvalidTxnState` for a group that wasn't added;
    /// `InvalidCommitOffsetSize`, and then none is staged.
    pub fn stage_offsets(
        &mut self,
        now: Monotonic,
        producer: Producer,
        group: &Arc<str>,
        offsets: Vec<(Partition, StagedOffset)>,
        implicit: bool,
    ) -> Result<(), Refusal> {
        self.may_stage_offsets(producer, group, &offsets, implicit)?;
        let max = self.limits.offsets;
        let content = self.open(now, producer)?;
        content.add_group(max, group)?;
        for ((topic, partition), offset) in offsets {
            let place = (Arc::clone(group), topic, partition);
            content.offsets.insert(place, offset);
        }
        Ok(())
    }

    /// What [`Transaction::stage_offsets`] would say.
    ///
    /// # Errors
    ///
    /// As it.
    pub fn may_stage_offsets(
        &self,
        producer: Producer,
        group: &Arc<str>,
        offsets: &[(Partition, StagedOffset)],
        implicit: bool,
    ) -> Result<(), Refusal> {
        if implicit {
            self.verify_implicit(producer)?;
        } else {
            self.verify(producer)?;
        }
        let content = self.content();
        let added = content.is_some_and(|content| content.groups.contains(group));
        if !added && !implicit {
            return Err(Refusal::InvalidTxnState);
        }
        let place = |at: &Partition| (Arc::clone(group), Arc::clone(&at.0), at.1);
        let new: BTreeSet<OffsetPlace> = offsets
            .iter()
            .map(|(at, _)| place(at))
            .filter(|place| content.is_none_or(|content| !content.offsets.contains_key(place)))
            .collect();
        let (offsets, groups) = content.map_or((0, 0), |content| {
            (content.offsets.len(), content.groups.len())
        });
        // The first group's index row is part of every bundle; further ones take a place each.
        let further = (groups + usize::from(!added)).saturating_sub(1);
        if offsets + new.len() + further > self.limits.offsets {
            return Err(Refusal::InvalidCommitOffsetSize);
        }
        Ok(())
    }
}
