//! Committed offsets: they never move back without a reset, and nobody is told one that nobody
//! committed.
//!
//! A commit whose end is unknown may land at any time after it began, so it proves nothing against
//! another; a transaction's offsets are committed when the transaction is. OffsetCommit has no
//! sequence: a try that its client gave up and repeated on another connection may still arrive, after
//! the repetition and whatever was committed on top of it, and Apache Kafka takes it as this facade
//! does. So each try but one may take the offset back to what it says, once.

use std::collections::BTreeMap;

use super::index::{End, Index, Operation};
use super::transactions::Transactions;
use super::{Anomaly, Verdict};
use crate::call::{Admin, Call, Reply};
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
    /// Tries that may land after it, not seen so far.
    late: usize,
}

#[derive(Default)]
struct Commits<'h> {
    of: BTreeMap<Key<'h>, Vec<Commit<'h>>>,
    /// When an administrator began to delete a group, or offsets of it.
    deletions: Vec<(&'h Name, Option<&'h [TopicPartition]>, usize)>,
    /// When a late try was seen to have landed.
    taken_back: BTreeMap<Key<'h>, Vec<usize>>,
}

pub(super) fn check(index: &Index<'_>, found: &mut Vec<Verdict>) {
    let mut commits = Commits::of(index);
    // In the order in which they were told: what one of them shows explains those after it.
    let mut told: Vec<_> = index
        .operations()
        .filter_map(|(_, operation)| match (operation.call, operation.ok()?) {
            (Call::FetchOffsets { group, .. }, (ended, Reply::Offsets(offsets))) => {
                Some((ended, operation, group, offsets))
            }
            _ => None,
        })
        .collect();
    told.sort_by_key(|(ended, ..)| *ended);
    for (ended, operation, group, offsets) in told {
        for (at, offset) in offsets {
            commits.judge_told(operation, ended, (group, at), *offset, found);
        }
    }
    for ((group, at), all) in &commits.of {
        for commit in all.iter().filter(|commit| !commit.reset) {
            let Some(landed) = commit.landed else {
                continue;
            };
            let before = commits.standing((group, at), commit.began);
            if let Some((ahead, ended)) = before.filter(|(ahead, _)| ahead.offset > commit.offset) {
                let what = format!(
                    "{} committed {} for {at} in {group}, which {} had committed up to {}",
                    commit.who, commit.offset, ahead.who, ahead.offset
                );
                let proof = [ended, commit.began, landed];
                found.push(Verdict::new(Anomaly::CommitBack, proof, what));
            }
        }
    }
}

impl<'h> Commits<'h> {
    fn of(index: &Index<'h>) -> Self {
        let transactions = Transactions::of(index);
        let mut commits = Self::default();
        for (_, operation) in index.operations() {
            match operation.call {
                Call::Commit {
                    group,
                    offsets,
                    reset,
                    ..
                } => {
                    let landed = operation.ok().map(|(at, _)| at);
                    if operation.failed().is_none() {
                        commits.add(operation, group, offsets, *reset, landed);
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
        for (at, offset) in offsets {
            if refused.iter().any(|(partition, _)| partition == at) {
                continue;
            }
            self.of.entry((group, at)).or_default().push(Commit {
                who: operation.who,
                offset: *offset,
                reset,
                began: operation.began,
                landed,
                late: operation.tries.saturating_sub(1),
            });
        }
    }

    /// The highest commit that had landed for sure before the entry `before`, unless something may
    /// have taken it back since. With it, the entry that says that it had landed.
    fn standing(&self, key: Key<'_>, before: usize) -> Option<(Commit<'h>, usize)> {
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
            .chain(
                self.taken_back
                    .get(&key)
                    .into_iter()
                    .flatten()
                    .map(|seen| (*seen, *seen)),
            );
        // Whatever ended before this can't be told from what a reset undid.
        let since = taken_back
            .filter(|(began, _)| *began < before)
            .map(|(_, ended)| ended)
            .max();
        all.iter()
            .filter_map(|commit| Some((*commit, commit.landed?)))
            .filter(|(commit, landed)| {
                *landed < before && since.is_none_or(|since| commit.began > since)
            })
            .max_by_key(|(commit, _)| commit.offset)
    }

    /// Whether a try of a commit to `offset` that was repeated may have landed before the entry
    /// `ended`, which shows it; it can't land again.
    fn landed_late(&mut self, key: Key<'h>, offset: Option<i64>, ended: usize) -> bool {
        let all = self.of.get_mut(&key).into_iter().flatten();
        let mut tries = all.filter(|commit| {
            commit.late > 0 && commit.began < ended && Some(commit.offset) == offset
        });
        let Some(commit) = tries.next() else {
            return false;
        };
        commit.late -= 1;
        self.taken_back.entry(key).or_default().push(ended);
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
            && !self.landed_late(key, told, ended)
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

#[cfg(test)]
mod tests {
    use super::super::testing::{Story, at};
    use crate::call::{Admin, Call, Failure, Reply};
    use crate::event::{Event, Op};

    fn commit(offset: i64, reset: bool) -> Call {
        Call::Commit {
            group: "g".into(),
            member: "m".into(),
            generation: 1,
            offsets: vec![(at(), offset)],
            reset,
        }
    }

    fn committed() -> Reply {
        Reply::Committed {
            refused: Vec::new(),
        }
    }

    fn told(story: &mut Story, offset: Option<i64>) {
        let call = Call::FetchOffsets {
            group: "g".into(),
            partitions: vec![at()],
        };
        story.done("b", call, Reply::Offsets(vec![(at(), offset)]));
    }

    fn attempt(story: &mut Story, op: Op, attempt: u32) {
        let event = Event::Attempt {
            op,
            attempt,
            producer: None,
            sequence: None,
        };
        story.event("a", event);
    }

    fn story(offset: i64) -> Story {
        let mut story = Story::acknowledged();
        story.done("a", commit(offset, false), committed());
        story
    }

    #[test]
    fn commits_go_forward_unless_reset() {
        let mut story = story(5);
        story.done("a", commit(5, false), committed());
        let mut reset = story.clone();
        story.done("b", commit(4, false), committed());
        assert_eq!(story.names(), ["commit-back"]);
        reset.done("b", commit(4, true), committed());
        told(&mut reset, Some(4));
        reset.done("b", commit(4, false), committed());
        assert!(reset.names().is_empty());
    }

    #[test]
    fn commits_that_overlap_or_failed_or_are_unknown_prove_nothing() {
        let mut overlap = Story::acknowledged();
        let one = overlap.begin("a", commit(5, false));
        let other = overlap.begin("b", commit(4, false));
        overlap.ok(one, committed());
        overlap.ok(other, committed());
        assert!(overlap.names().is_empty());

        let mut failed = story(3);
        let op = failed.begin("a", commit(5, false));
        let mut unknown = failed.clone();
        failed.fail(op, Failure::code(22, "ILLEGAL_GENERATION"));
        told(&mut failed, Some(3));
        assert!(failed.names().is_empty());
        unknown.unknown(op, Failure::here("timeout"));
        told(&mut unknown, Some(3));
        told(&mut unknown, Some(5));
        assert!(unknown.names().is_empty(), "it landed late");
    }

    #[test]
    fn what_was_committed_is_told() {
        for wrong in [Some(4), None] {
            let mut story = story(5);
            story.done("a", commit(4, true), committed());
            story.done("a", commit(5, false), committed());
            told(&mut story, wrong);
            assert_eq!(story.names(), ["commit-back"], "{wrong:?}");
        }
        let mut fine = story(5);
        told(&mut fine, Some(5));
        assert!(fine.names().is_empty());
        told(&mut fine, Some(6));
        assert_eq!(fine.names(), ["phantom-commit"]);
    }

    #[test]
    fn a_try_that_was_repeated_lands_late_once() {
        let mut story = Story::acknowledged();
        let repeated = story.begin("a", commit(4, false));
        attempt(&mut story, repeated, 1);
        let mut once = story.clone();
        attempt(&mut story, repeated, 2);
        for story in [&mut story, &mut once] {
            story.ok(repeated, committed());
            story.done("a", commit(6, false), committed());
            told(story, Some(4));
        }
        assert_eq!(once.names(), ["commit-back"], "it was sent once");
        // The group goes on from there.
        story.done("b", commit(5, false), committed());
        assert!(story.names().is_empty());
        told(&mut story, Some(4));
        assert_eq!(
            story.names(),
            ["commit-back"],
            "it was sent twice, not three times"
        );
    }

    #[test]
    fn deleted_offsets_are_gone() {
        let mut story = story(5);
        let delete = Admin::DeleteGroup { group: "g".into() };
        story.begin("admin", Call::Admin(delete));
        told(&mut story, None);
        assert!(story.names().is_empty());
    }

    #[test]
    fn a_refused_partition_is_not_committed() {
        let mut story = story(3);
        let refused = vec![(at(), 12)];
        story.done("a", commit(9, false), Reply::Committed { refused });
        told(&mut story, Some(3));
        assert!(story.names().is_empty());
    }

    #[test]
    fn a_transactions_offsets_are_committed_with_it() {
        let sent = |commit: bool| {
            let mut story = story(3);
            let send = Call::SendOffsets {
                transaction: 1,
                group: "g".into(),
                member: "m".into(),
                generation: 1,
                offsets: vec![(at(), 9)],
            };
            story.done("t", send, committed());
            let end = Call::End {
                transaction: 1,
                commit,
            };
            story.done("t", end, Reply::Done);
            told(&mut story, Some(3));
            story.names()
        };
        assert_eq!(sent(true), ["commit-back"]);
        assert!(sent(false).is_empty());
    }
}
