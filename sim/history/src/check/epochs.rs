//! Groups of KIP-848: a partition is given on only when its owner is without it, and nothing is
//! taken from a member that is out.
//!
//! Members have epochs of their own, so nothing is compared by generation here. What a member hears
//! says what the coordinator believed when it was asked.

use std::collections::{BTreeMap, BTreeSet};

use super::index::{End, Index, Operation};
use super::{Anomaly, Verdict};
use crate::call::{Call, Reply};
use crate::value::{Name, TopicPartition};

/// UNKNOWN_MEMBER_ID and FENCED_MEMBER_EPOCH: the member is out.
const OUT: [i16; 2] = [25, 110];

/// A member of a group.
type Member<'h> = (&'h Name, &'h Name);

/// A heartbeat.
struct Beat<'h> {
    instance: Option<&'h Name>,
    operation: Operation<'h>,
    /// The epoch that it said: 0 joins, negative ones leave.
    epoch: i32,
    owned: Option<&'h [TopicPartition]>,
}

impl Beat<'_> {
    /// The entry that tells that the member was in its group.
    fn alive(&self) -> Option<usize> {
        let (ended, _) = self.operation.ok()?;
        (self.epoch >= 0).then_some(ended)
    }

    /// The entry that tells that the member was out of its group.
    fn out(&self) -> Option<usize> {
        match self.operation.end {
            End::Ok(_) if self.epoch < 0 => self.operation.ended,
            End::Fail(failure) if failure.code.is_some_and(|code| OUT.contains(&code)) => {
                self.operation.ended
            }
            _ => None,
        }
    }
}

/// A partition was given to a member.
struct Given<'h> {
    member: Member<'h>,
    began: usize,
    ended: usize,
}

/// The heartbeats of every member, in order.
pub(super) struct Epochs<'h>(BTreeMap<Member<'h>, Vec<Beat<'h>>>);

impl<'h> Epochs<'h> {
    pub fn of(index: &Index<'h>) -> Self {
        let mut all: BTreeMap<Member<'h>, Vec<Beat<'h>>> = BTreeMap::new();
        for (_, operation) in index.operations() {
            if let Call::ConsumerHeartbeat {
                group,
                member,
                instance,
                epoch,
                owned,
            } = operation.call
            {
                all.entry((group, member)).or_default().push(Beat {
                    instance: instance.as_ref(),
                    operation: *operation,
                    epoch: *epoch,
                    owned: owned.as_deref(),
                });
            }
        }
        for beats in all.values_mut() {
            beats.sort_by_key(|beat| beat.operation.began);
        }
        Self(all)
    }

    /// Whether the group has, or had, members of KIP-848.
    pub fn have(&self, group: &Name) -> bool {
        self.0.keys().any(|(of, _)| *of == group)
    }

    /// Whether `member` is one of them.
    pub fn has_member(&self, group: &Name, member: &Name) -> bool {
        self.0.contains_key(&(group, member))
    }

    /// The static name of `member`.
    pub fn instance(&self, group: &Name, member: &Name) -> Option<&'h Name> {
        let beats = self.of_member((group, member));
        beats.iter().find_map(|beat| beat.instance)
    }

    fn of_member(&self, member: Member<'_>) -> &[Beat<'h>] {
        let beats = self.0.iter().find(|(of, _)| **of == member);
        beats.map_or(&[], |(_, beats)| beats)
    }

    pub fn check(&self, index: &Index<'h>, found: &mut Vec<Verdict>) {
        if self.0.is_empty() {
            return;
        }
        self.owners(index, found);
        self.zombies(index, found);
    }

    /// Of two members that were given a partition one after the other, the first one was without it
    /// before: it had given it up, or it was out.
    fn owners(&self, index: &Index<'h>, found: &mut Vec<Verdict>) {
        for (at, all) in self.given(index) {
            for (nth, second) in all.iter().enumerate() {
                let before = all[..nth].iter().rev();
                // Only of what was asked for later is it known that it was given later.
                let mut before = before
                    .filter(|first| first.member != second.member && second.began > first.ended);
                let rival = before.find_map(|first| {
                    let alive = self.still_has(index, first, second, at)?;
                    Some((first, alive))
                });
                if let Some((first, alive)) = rival {
                    let what = format!(
                        "{at} was given to {} of {}, while {} had it and was in the group",
                        second.member.1, second.member.0, first.member.1
                    );
                    let proof = [first.ended, second.ended, alive];
                    found.push(Verdict::new(Anomaly::TwoOwners, proof, what));
                }
            }
        }
    }

    /// What members were told is theirs, in the order in which they heard.
    fn given(&self, index: &Index<'h>) -> BTreeMap<&'h TopicPartition, Vec<Given<'h>>> {
        let mut given: BTreeMap<&TopicPartition, Vec<Given<'_>>> = BTreeMap::new();
        for (_, operation) in index.operations() {
            let (member, partitions) = match (operation.call, operation.ok()) {
                (
                    Call::ConsumerHeartbeat {
                        group,
                        member,
                        epoch: 0..,
                        ..
                    },
                    Some((
                        _,
                        Reply::Beat {
                            assignment: Some(partitions),
                            ..
                        },
                    )),
                )
                | (
                    Call::Sync { group, member, .. },
                    Some((
                        _,
                        Reply::Synced {
                            assignment: partitions,
                        },
                    )),
                ) if self.have(group) => ((group, member), partitions),
                _ => continue,
            };
            let (began, ended) = (operation.began, operation.ended.unwrap_or(usize::MAX));
            for at in partitions {
                given.entry(at).or_default().push(Given {
                    member,
                    began,
                    ended,
                });
            }
        }
        for all in given.values_mut() {
            all.sort_by_key(|given| given.ended);
        }
        given
    }

    /// The entry that tells that `first` was in the group after `second` was given what it had, if it
    /// had not been without it before.
    fn still_has(
        &self,
        index: &Index<'_>,
        first: &Given<'_>,
        second: &Given<'_>,
        at: &TopicPartition,
    ) -> Option<usize> {
        let beats = self.of_member(first.member);
        let between = beats.iter().filter(|beat| {
            beat.operation.ended.unwrap_or(usize::MAX) > first.ended
                && beat.operation.began < second.ended
        });
        let mut without = between
            .filter(|beat| beat.epoch <= 0 || beat.owned.is_some_and(|owned| !owned.contains(at)));
        if without.next().is_some() || index.gave_up(first.member.1, at, first.ended..second.ended)
        {
            return None;
        }
        let later = beats
            .iter()
            .find(|beat| beat.operation.began > second.ended)?;
        (later.epoch > 0).then(|| later.alive())?
    }

    /// Nothing is committed by a member after it heard that it is out, or left, and before it asked
    /// to be let in again.
    fn zombies(&self, index: &Index<'h>, found: &mut Vec<Verdict>) {
        for (_, operation) in index.operations() {
            let (Call::Commit {
                group,
                member,
                offsets,
                ..
            }
            | Call::SendOffsets {
                group,
                member,
                offsets,
                ..
            }) = operation.call
            else {
                continue;
            };
            let Some((ended, Reply::Committed { refused })) = operation.ok() else {
                continue;
            };
            if refused.len() == offsets.len() {
                continue;
            }
            let beats = self.of_member((group, member));
            let last_out = beats
                .iter()
                .filter_map(|beat| Some((beat.operation.began, beat.out()?)))
                .rfind(|(_, out)| *out < operation.began);
            let Some((since, out)) = last_out else {
                continue;
            };
            // A try to join that hung on a lost connection may be carried out at any time.
            let asked_in = |beat: &Beat<'_>| {
                let lost = matches!(beat.operation.end, End::Unknown);
                beat.epoch == 0
                    && beat.operation.began < ended
                    && (lost || beat.operation.began > since)
            };
            if beats.iter().any(asked_in) {
                continue;
            }
            let what = format!(
                "a {} of {} in {group} as {member} was taken after it was out of the group",
                operation.call.name(),
                operation.who
            );
            let proof = [out, operation.began, ended];
            found.push(Verdict::new(Anomaly::Zombie, proof, what));
        }
    }
}

/// The members of both protocols that `group` has had.
pub(crate) fn protocols(index: &Index<'_>) -> BTreeMap<Name, BTreeSet<&'static str>> {
    let mut protocols: BTreeMap<Name, BTreeSet<&'static str>> = BTreeMap::new();
    for (_, operation) in index.operations() {
        let (group, protocol) = match (operation.call, operation.ok()) {
            (Call::ConsumerHeartbeat { group, .. }, Some(_)) => (group, "consumer"),
            (Call::Sync { group, .. }, Some(_)) => (group, "classic"),
            _ => continue,
        };
        protocols.entry(group.clone()).or_default().insert(protocol);
    }
    protocols
}

#[cfg(test)]
mod tests {
    use crate::call::{Call, Failure, Reply};
    use crate::check::testing::{Story, at};
    use crate::event::Event;
    use crate::value::TopicPartition;

    fn topic(partitions: &[i32]) -> Vec<TopicPartition> {
        let new = |partition: &i32| TopicPartition::new("orders", *partition);
        partitions.iter().map(new).collect()
    }

    fn call(member: &str, epoch: i32, owned: Option<&[i32]>) -> Call {
        Call::ConsumerHeartbeat {
            group: "g".into(),
            member: member.into(),
            instance: None,
            epoch,
            owned: owned.map(topic),
        }
    }

    /// A heartbeat that says `epoch`, and is told `told` and perhaps an assignment.
    fn beat(
        story: &mut Story,
        member: &str,
        (epoch, owned): (i32, Option<&[i32]>),
        told: i32,
        assignment: Option<&[i32]>,
    ) {
        let reply = Reply::Beat {
            member: member.into(),
            epoch: told,
            assignment: assignment.map(topic),
        };
        story.done(member, call(member, epoch, owned), reply);
    }

    fn commit(story: &mut Story, member: &str, epoch: i32) {
        let call = Call::Commit {
            group: "g".into(),
            member: member.into(),
            generation: epoch,
            offsets: vec![(at(), 1)],
            reset: false,
        };
        let refused = Vec::new();
        story.done(member, call, Reply::Committed { refused });
    }

    #[test]
    fn a_partition_is_given_on_when_its_owner_is_without_it() {
        let mut story = Story::acknowledged();
        beat(&mut story, "a", (0, Some(&[])), 1, Some(&[0, 1]));
        beat(&mut story, "a", (1, Some(&[0, 1])), 1, None);
        // The second one comes, the first one is told to give 1 up.
        beat(&mut story, "b", (0, Some(&[])), 2, Some(&[]));
        beat(&mut story, "a", (1, None), 1, Some(&[0]));
        let mut hasty = story.clone();
        beat(&mut story, "a", (1, Some(&[0])), 2, None);
        for story in [&mut story, &mut hasty] {
            beat(story, "b", (2, None), 2, Some(&[1]));
            beat(story, "a", (2, None), 2, None);
        }
        assert!(story.names().is_empty());
        assert_eq!(hasty.names(), ["two-owners"]);
        assert_eq!(hasty.verdicts()[0].proof.len(), 3);
    }

    #[test]
    fn a_silent_owner_may_be_put_out() {
        let mut story = Story::acknowledged();
        beat(&mut story, "a", (0, Some(&[])), 1, Some(&[0]));
        beat(&mut story, "b", (0, Some(&[])), 2, Some(&[0]));
        let mut lives = story.clone();
        let op = story.begin("a", call("a", 1, None));
        story.fail(op, Failure::code(25, "UNKNOWN_MEMBER_ID"));
        beat(&mut story, "a", (0, Some(&[])), 3, Some(&[]));
        beat(&mut story, "a", (3, None), 3, None);
        assert!(story.names().is_empty());
        beat(&mut lives, "a", (1, None), 1, None);
        assert_eq!(lives.names(), ["two-owners"]);
    }

    #[test]
    fn what_the_application_gave_up_is_free() {
        let mut story = Story::acknowledged();
        beat(&mut story, "a", (0, Some(&[])), 1, Some(&[0]));
        let revoked = Event::Revoked {
            group: "g".into(),
            member: "a".into(),
            generation: 1,
            partitions: topic(&[0]),
        };
        story.event("a", revoked);
        beat(&mut story, "b", (0, Some(&[])), 2, Some(&[0]));
        beat(&mut story, "a", (1, Some(&[])), 2, None);
        assert!(story.names().is_empty());
    }

    #[test]
    fn a_static_member_hands_its_place_on_within_its_epoch() {
        let mut story = Story::acknowledged();
        let joins = |member: &str, instance: Option<&str>| Call::ConsumerHeartbeat {
            group: "g".into(),
            member: member.into(),
            instance: instance.map(Into::into),
            epoch: 0,
            owned: Some(Vec::new()),
        };
        let told = |member: &str| Reply::Beat {
            member: member.into(),
            epoch: 1,
            assignment: Some(topic(&[0])),
        };
        story.done("a", joins("a", Some("i")), told("a"));
        beat(&mut story, "a", (-2, None), -2, None);
        let mut stranger = story.clone();
        story.done("b", joins("b", Some("i")), told("b"));
        assert!(story.names().is_empty());
        stranger.done("b", joins("b", None), told("b"));
        assert_eq!(stranger.names(), ["two-owners"]);
    }

    #[test]
    fn who_is_out_commits_nothing() {
        let mut story = Story::acknowledged();
        beat(&mut story, "a", (0, Some(&[])), 1, Some(&[0]));
        commit(&mut story, "a", 1);
        let op = story.begin("a", call("a", 1, None));
        story.fail(op, Failure::code(110, "FENCED_MEMBER_EPOCH"));
        let mut back = story.clone();
        commit(&mut story, "a", 1);
        assert_eq!(story.names(), ["zombie"]);
        beat(&mut back, "a", (0, Some(&[])), 2, Some(&[0]));
        commit(&mut back, "a", 2);
        assert!(back.names().is_empty());
        beat(&mut back, "a", (-1, None), -1, None);
        commit(&mut back, "a", 2);
        assert_eq!(back.names(), ["zombie"]);
    }

    #[test]
    fn a_late_try_to_join_may_let_one_in() {
        let mut story = Story::acknowledged();
        let op = story.begin("a", call("a", 0, Some(&[])));
        story.unknown(op, Failure::here("no answer"));
        beat(&mut story, "a", (0, Some(&[])), 1, Some(&[0]));
        let op = story.begin("a", call("a", 1, None));
        story.fail(op, Failure::code(25, "UNKNOWN_MEMBER_ID"));
        commit(&mut story, "a", 1);
        assert!(story.names().is_empty());
    }
}
