//! Committed offsets: they never move back without a reset, and nobody is told one that nobody
//! committed.
//!
//! A commit whose end is unknown may land at any time after it began, so it proves nothing against
//! another; a transaction's offsets are committed when the transaction is.
//!
//! A commit that went out again may land once more, after it has ended: the first try, held up on a
//! connection that its client gave up, is carried out when it arrives. Apache Kafka does the same.
//! So a reader may be told such a commit's very offset although a higher one had landed, once for
//! each try beyond the first; from then on, commits go forward from there. One of a transaction lands
//! in a later transaction of the same producer and epoch, for nothing in it says which it was meant
//! for (KIP-890 raises the epoch with each transaction for that reason): in any other it is fenced.
//!
//! A member that is told that it is none any more, and goes on committing what it read, commits as
//! nobody in particular. Apache Kafka fences nobody, and takes such a commit while the group is empty:
//! it counts as a reset.

use std::collections::BTreeMap;

use super::index::{End, Index, Operation};
use super::transactions::Transactions;
use super::{Anomaly, Verdict};
use crate::call::{Admin, Call, Producer, Reply};
use crate::value::{Name, TopicPartition};

type Key<'h> = (&'h Name, &'h TopicPartition);

/// A commit of one partition that landed, or may have.
#[derive(Clone, Copy)]
struct Commit<'h> {
    who: &'h Name,
    offset: i64,
    reset: bool,
    began: usize,
    /// The entry that says that it landed; `None` when nobody knows.
    landed: Option<usize>,
    /// How often it may yet land at a time that nobody was told.
    late: u32,
    /// Who it was sent as, where in a transaction.
    producer: Option<Producer>,
}

impl Commit<'_> {
    /// Whether a try of it that comes late may land after `other` had.
    fn may_follow(&self, other: &Self) -> bool {
        self.producer.is_none() || other.producer.is_none_or(|by| self.producer == Some(by))
    }
}

/// Something that a commit may have taken back, from after the first entry to before the second.
type TakenBack = (usize, usize);

/// What is judged, in the order in which it ended.
enum Judged<'h> {
    Commit(Key<'h>, Commit<'h>, usize),
    Told(Operation<'h>, Key<'h>, Option<i64>, usize),
}

impl Judged<'_> {
    const fn ended(&self) -> usize {
        match self {
            Self::Commit(_, _, ended) | Self::Told(_, _, _, ended) => *ended,
        }
    }
}

#[derive(Default)]
struct Commits<'h> {
    of: BTreeMap<Key<'h>, Vec<Commit<'h>>>,
    /// When an administrator began to delete a group, or offsets of it.
    deletions: Vec<(&'h Name, Option<&'h [TopicPartition]>, usize)>,
    /// Commits that were seen to have landed late.
    landed_late: BTreeMap<Key<'h>, Vec<TakenBack>>,
}

pub(super) fn check(index: &Index<'_>, found: &mut Vec<Verdict>) {
    let mut commits = Commits::of(index);
    let mut all = commits.judged();
    for (_, operation) in index.operations() {
        if let (Call::FetchOffsets { group, .. }, Some((ended, Reply::Offsets(offsets)))) =
            (operation.call, operation.ok())
        {
            for (at, offset) in offsets {
                all.push(Judged::Told(*operation, (group, at), *offset, ended));
            }
        }
    }
    all.sort_by_key(Judged::ended);
    for judged in all {
        match judged {
            Judged::Commit(key, commit, landed) => commits.judge(key, commit, landed, found),
            Judged::Told(operation, key, told, ended) => {
                commits.judge_told(&operation, ended, key, told, found);
            }
        }
    }
}

impl<'h> Commits<'h> {
    fn of(index: &Index<'h>) -> Self {
        let transactions = Transactions::of(index);
        let joined = joined(index);
        let mut commits = Self::default();
        for (_, operation) in index.operations() {
            match operation.call {
                Call::Commit {
                    group,
                    member,
                    offsets,
                    reset,
                    ..
                } => {
                    let landed = operation.ok().map(|(at, _)| at);
                    let since = joined.get(&(operation.who, group));
                    let put_out =
                        member.is_empty() && since.is_some_and(|since| *since < operation.began);
                    if operation.failed().is_none() {
                        commits.add(operation, group, offsets, *reset || put_out, landed);
                    }
                }
                Call::SendOffsets {
                    group,
                    offsets,
                    transaction,
                    ..
                } => {
                    let transaction = transactions.get(operation.who, *transaction);
                    let failed = operation.failed().is_some();
                    if failed || transaction.is_some_and(|one| one.aborted.is_some()) {
                        continue;
                    }
                    let landed = transaction.and_then(|one| one.committed);
                    commits.add(operation, group, offsets, false, landed);
                }
                Call::Admin(Admin::DeleteGroup { group }) => {
                    commits.deletions.push((group, None, operation.began));
                }
                Call::Admin(Admin::DeleteOffsets { group, partitions }) => {
                    commits
                        .deletions
                        .push((group, Some(partitions), operation.began));
                }
                _ => {}
            }
        }
        commits
    }

    /// The commits that landed and didn't mean to go back.
    fn judged(&self) -> Vec<Judged<'h>> {
        let all = self.of.iter();
        let all = all.flat_map(|(key, commits)| commits.iter().map(move |commit| (*key, *commit)));
        all.filter(|(_, commit)| !commit.reset)
            .filter_map(|(key, commit)| Some(Judged::Commit(key, commit, commit.landed?)))
            .collect()
    }

    fn add(
        &mut self,
        operation: &Operation<'h>,
        group: &'h Name,
        offsets: &'h [(TopicPartition, i64)],
        reset: bool,
        landed: Option<usize>,
    ) {
        let refused = match operation.end {
            End::Ok(Reply::Committed { refused }) => refused.as_slice(),
            _ => &[],
        };
        let again = operation.attempts.saturating_sub(1);
        for (at, offset) in offsets {
            let refused = refused.iter().any(|(partition, _)| partition == at);
            let landed = landed.filter(|_| !refused);
            if refused && again == 0 {
                continue;
            }
            let late = match landed {
                Some(_) => again,
                None if refused => again,
                None => operation.attempts.max(1),
            };
            self.of.entry((group, at)).or_default().push(Commit {
                who: operation.who,
                offset: *offset,
                reset,
                began: operation.began,
                landed,
                late,
                producer: operation.producer,
            });
        }
    }

    fn judge(&self, key: Key<'h>, commit: Commit<'h>, landed: usize, found: &mut Vec<Verdict>) {
        let before = self.standing(key, commit.began);
        let Some((ahead, ended)) = before.filter(|(ahead, _)| ahead.offset > commit.offset) else {
            return;
        };
        let (group, at) = key;
        let what = format!(
            "{} committed {} for {at} in {group}, which {} had committed up to {}",
            commit.who, commit.offset, ahead.who, ahead.offset
        );
        let proof = [ended, commit.began, landed];
        found.push(Verdict::new(Anomaly::CommitBack, proof, what));
    }

    /// The highest commit that had landed for sure before the entry `before`, unless something may
    /// have taken it back since. With it, the entry that says that it had landed.
    fn standing(&self, key: Key<'h>, before: usize) -> Option<(Commit<'h>, usize)> {
        let all = self.of.get(&key)?;
        let taken_back = all
            .iter()
            .filter(|commit| commit.reset)
            .map(|reset| (reset.began, reset.landed.unwrap_or(usize::MAX)))
            .chain(
                self.deletions
                    .iter()
                    .filter(|(group, partitions, _)| {
                        *group == key.0
                            && partitions.is_none_or(|partitions| partitions.contains(key.1))
                    })
                    .map(|(_, _, began)| (*began, usize::MAX)),
            )
            .chain(self.landed_late.get(&key).into_iter().flatten().copied());
        // Whatever ended before this can't be told from what a reset undid.
        let since = taken_back
            .filter(|(began, _)| *began < before)
            .map(|(_, ended)| ended)
            .max();
        all.iter()
            .filter_map(|commit| Some((*commit, commit.landed?)))
            .filter(|(commit, landed)| {
                *landed < before && since.is_none_or(|since| commit.began >= since)
            })
            .max_by_key(|(commit, _)| commit.offset)
    }

    /// A reader that was told `told` saw that a commit of it landed late, over the one `over` that
    /// had landed by that entry. Says whether one may have.
    fn lands_late(
        &mut self,
        key: Key<'h>,
        told: i64,
        (over, landed): (Commit<'h>, usize),
        ended: usize,
    ) -> bool {
        let Some(all) = self.of.get_mut(&key) else {
            return false;
        };
        let late = all.iter_mut().find(|commit| {
            commit.offset == told
                && commit.late > 0
                && commit.began < ended
                && commit.may_follow(&over)
        });
        let Some(late) = late else {
            return false;
        };
        late.late -= 1;
        // From here on it is a commit like others, and the last one.
        let last = Commit {
            began: ended,
            landed: Some(ended),
            late: 0,
            ..*late
        };
        all.push(last);
        let taken_back = (landed, ended);
        self.landed_late.entry(key).or_default().push(taken_back);
        true
    }

    fn judge_told(
        &mut self,
        operation: &Operation<'_>,
        ended: usize,
        key: Key<'h>,
        told: Option<i64>,
        found: &mut Vec<Verdict>,
    ) {
        let (group, at) = key;
        let said = told.map_or("none".to_owned(), |offset| offset.to_string());
        if let Some((ahead, landed)) = self.standing(key, operation.began)
            && told.is_none_or(|told| told < ahead.offset)
            && !told.is_some_and(|told| self.lands_late(key, told, (ahead, landed), ended))
        {
            let what = format!(
                "{} was told {said} for {at} in {group}, which {} had committed up to {}",
                operation.who, ahead.who, ahead.offset
            );
            let proof = [landed, operation.began, ended];
            found.push(Verdict::new(Anomaly::CommitBack, proof, what));
        }
        let Some(told) = told else {
            return;
        };
        let known = self
            .of
            .get(&key)
            .is_some_and(|all| all.iter().any(|commit| commit.offset == told));
        if !known {
            let what = format!(
                "{} was told {told} for {at} in {group}, which nobody committed",
                operation.who
            );
            let proof = [operation.began, ended];
            found.push(Verdict::new(Anomaly::PhantomCommit, proof, what));
        }
    }
}

/// When each client first was a member of a group.
fn joined<'h>(index: &Index<'h>) -> BTreeMap<(&'h Name, &'h Name), usize> {
    let mut joined = BTreeMap::new();
    for (_, operation) in index.operations() {
        if let (Call::Join { group, .. }, Some((ended, _))) = (operation.call, operation.ok()) {
            let first = joined.entry((operation.who, group)).or_insert(ended);
            *first = ended.min(*first);
        }
    }
    joined
}

#[cfg(test)]
mod tests;
