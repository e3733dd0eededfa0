//! Consumer groups: one owner of a partition in a generation, nothing done by a member that was
//! fenced, one generation for all once the world has settled.
//!
//! A coordinator without a durable memory may count generations anew after a crash: across one,
//! generations are not compared.

use std::collections::{BTreeMap, BTreeSet};

use super::epochs::Epochs;
use super::index::{Index, Operation};
use super::{Anomaly, Verdict};
use crate::call::{Call, Reply};
use crate::event::{Event, Mark};
use crate::value::{Name, TopicPartition};

pub(super) fn check(index: &Index<'_>, found: &mut Vec<Verdict>) {
    let groups = Groups::of(index);
    groups.owners(index, found);
    groups.zombies(index, found);
    groups.epochs.check(index, found);
    for (at, _, event) in index.events() {
        if let Event::Mark(Mark::Settled { group, partitions }) = event {
            groups.settled(at, group, partitions, found);
        }
    }
}

/// A member was let into a generation.
struct Joined<'h> {
    group: &'h Name,
    member: &'h Name,
    instance: Option<&'h Name>,
    generation: i32,
    began: usize,
    ended: usize,
}

/// A member was told what is its own.
struct Given<'h> {
    who: &'h Name,
    group: &'h Name,
    member: &'h Name,
    generation: i32,
    partitions: &'h [TopicPartition],
    began: usize,
    ended: usize,
}

struct Groups<'h> {
    joined: Vec<Joined<'h>>,
    given: Vec<Given<'h>>,
    /// Who asked to leave: group, member or instance, when it began and when it was done.
    left: Vec<(&'h Name, &'h Name, usize, Option<usize>)>,
    /// Every attempt to get into a generation: client, group, when it began.
    joining: Vec<(&'h Name, &'h Name, usize)>,
    gone: Vec<(&'h Name, usize)>,
    crashes: Vec<usize>,
    /// Members of KIP-848.
    epochs: Epochs<'h>,
}

impl<'h> Groups<'h> {
    fn of(index: &Index<'h>) -> Self {
        let mut groups = Self {
            joined: Vec::new(),
            given: Vec::new(),
            left: Vec::new(),
            joining: Vec::new(),
            gone: Vec::new(),
            crashes: Vec::new(),
            epochs: Epochs::of(index),
        };
        for (at, who, event) in index.events() {
            match event {
                Event::Mark(Mark::Crash { .. }) => groups.crashes.push(at),
                Event::Mark(Mark::ClientCrash { client }) => groups.gone.push((client, at)),
                Event::Assigned {
                    group,
                    member,
                    generation,
                    partitions,
                } if !member.is_empty() => groups.given.push(Given {
                    who,
                    group,
                    member,
                    generation: *generation,
                    partitions,
                    began: at,
                    ended: at,
                }),
                _ => {}
            }
        }
        for (_, operation) in index.operations() {
            groups.take(operation);
        }
        groups
    }

    fn take(&mut self, operation: &Operation<'h>) {
        let (who, began) = (operation.who, operation.began);
        match operation.call {
            Call::Join {
                group, instance, ..
            } => {
                self.joining.push((who, group, began));
                if let Some((
                    ended,
                    Reply::Joined {
                        generation, member, ..
                    },
                )) = operation.ok()
                {
                    self.joined.push(Joined {
                        group,
                        member,
                        instance: instance.as_ref(),
                        generation: *generation,
                        began,
                        ended,
                    });
                }
            }
            Call::Sync {
                group,
                member,
                generation,
            } => {
                if let Some((ended, Reply::Synced { assignment })) = operation.ok() {
                    self.given.push(Given {
                        who,
                        group,
                        member,
                        generation: *generation,
                        partitions: assignment,
                        began,
                        ended,
                    });
                }
            }
            Call::ConsumerHeartbeat {
                group,
                member,
                epoch,
                ..
            } if *epoch < 0 => {
                let done = operation.ok().map(|(at, _)| at);
                self.left.push((group, member, began, done));
            }
            Call::ConsumerHeartbeat { group, .. } => {
                if let Some((
                    ended,
                    Reply::Beat {
                        member,
                        epoch,
                        assignment: Some(assignment),
                    },
                )) = operation.ok()
                {
                    self.given.push(Given {
                        who,
                        group,
                        member,
                        generation: *epoch,
                        partitions: assignment,
                        began,
                        ended,
                    });
                }
            }
            Call::Leave { group, member, .. } => {
                let done = operation.ok().map(|(at, _)| at);
                self.left.push((group, member, began, done));
            }
            _ => {}
        }
    }

    /// When the member asked to be in the generation that gave it this: it may hear of it only after
    /// a crash of the coordinator.
    fn since(&self, given: &Given<'_>) -> usize {
        let joins = self.joined.iter().filter(|joined| {
            joined.group == given.group
                && joined.member == given.member
                && joined.generation == given.generation
        });
        // What an application hears came with an answer: the last one before it.
        let answers = self.given.iter().filter(|answer| {
            answer.began < answer.ended
                && answer.ended <= given.ended
                && answer.group == given.group
                && answer.member == given.member
                && answer.generation == given.generation
        });
        let answer = answers.max_by_key(|answer| answer.ended);
        joins
            .map(|joined| joined.began)
            .chain(answer.map(|answer| answer.began))
            .fold(given.began, usize::min)
    }

    fn crashed_between(&self, from: usize, to: usize) -> bool {
        self.crashes.iter().any(|at| (from..=to).contains(at))
    }

    /// Whether two ids are of one static member, the second having taken the first one's place.
    fn same_instance(&self, group: &Name, one: &Name, other: &Name) -> bool {
        let instance = |member: &Name| {
            self.joined
                .iter()
                .filter(|joined| joined.group == group && joined.member == member)
                .find_map(|joined| joined.instance)
                .or_else(|| self.epochs.instance(group, member))
        };
        instance(one).is_some_and(|found| instance(other) == Some(found))
    }

    fn owners(&self, index: &Index<'_>, found: &mut Vec<Verdict>) {
        let mut owners: BTreeMap<(&Name, i32, &TopicPartition), Vec<&Given<'_>>> = BTreeMap::new();
        let mut in_order: Vec<_> = self.given.iter().collect();
        in_order.sort_by_key(|given| given.ended);
        for given in in_order {
            for at in given.partitions {
                let key = (given.group, given.generation, at);
                let before = owners.entry(key).or_default();
                // In the classic protocol, a partition changes hands only with the generation.
                let handed_on = |by: &Given<'_>| {
                    given.began == given.ended
                        && index.gave_up(by.member, at, by.ended..given.ended)
                };
                let rival = before.iter().find(|before| {
                    let since = self.since(before).min(self.since(given));
                    before.member != given.member
                        && !self.same_instance(given.group, before.member, given.member)
                        && !self.crashed_between(since, given.ended)
                        && !handed_on(before)
                });
                if let Some(rival) = rival {
                    let what = format!(
                        "{at} belongs to {} and to {} in generation {} of {}",
                        rival.who, given.who, given.generation, given.group
                    );
                    let proof = [rival.ended, given.ended];
                    found.push(Verdict::new(Anomaly::TwoOwners, proof, what));
                    break;
                }
                before.push(given);
            }
        }
    }

    fn zombies(&self, index: &Index<'_>, found: &mut Vec<Verdict>) {
        let joiners: BTreeSet<&Name> = self.joined.iter().map(|joined| joined.member).collect();
        for (_, operation) in index.operations() {
            let (group, member, generation) = match operation.call {
                Call::Commit {
                    group,
                    member,
                    generation,
                    ..
                }
                | Call::SendOffsets {
                    group,
                    member,
                    generation,
                    ..
                }
                | Call::Heartbeat {
                    group,
                    member,
                    generation,
                    ..
                }
                | Call::Sync {
                    group,
                    member,
                    generation,
                } => (group, member, *generation),
                _ => continue,
            };
            let Some((ended, reply)) = operation.ok() else {
                continue;
            };
            let landed = match (operation.call, reply) {
                (
                    Call::Commit { offsets, .. } | Call::SendOffsets { offsets, .. },
                    Reply::Committed { refused },
                ) => refused.len() < offsets.len(),
                _ => true,
            };
            if !landed || member.is_empty() {
                continue;
            }
            let mut fenced = |by: usize, why: String| {
                let name = operation.call.name();
                let what = format!(
                    "a {name} of {} in {group} as {member}, generation {generation}, was taken {why}",
                    operation.who
                );
                let proof = [by, operation.began, ended];
                found.push(Verdict::new(Anomaly::Zombie, proof, what));
            };
            if self.epochs.has_member(group, member) {
                continue;
            }
            // Members beside those of KIP-848 have epochs of their own, which are not compared.
            let newer = self.joined.iter().find(|joined| {
                joined.group == group
                    && !self.epochs.have(group)
                    && joined.generation > generation
                    && joiners.contains(member)
                    && joined.ended < operation.began
                    && !self.crashed_between(joined.began, ended)
            });
            if let Some(newer) = newer {
                let generation = newer.generation;
                fenced(
                    newer.ended,
                    format!("after generation {generation} had begun"),
                );
                continue;
            }
            if let Some(successor) = self.successor(group, member, operation.began) {
                let why = format!("after {} had taken its place", successor.member);
                fenced(successor.ended, why);
                continue;
            }
            let left = self.left.iter().find_map(|(of, who, _, done)| {
                let done = (*done)?;
                (*of == group && *who == member && done < operation.began).then_some(done)
            });
            if let Some(left) = left {
                fenced(left, "after it had left".to_owned());
            }
        }
    }

    /// The static member that had taken this one's place before an entry.
    fn successor(&self, group: &Name, member: &Name, before: usize) -> Option<&Joined<'h>> {
        let own = self.joined.iter().find(|joined| {
            joined.group == group && joined.member == member && joined.instance.is_some()
        })?;
        self.joined.iter().find(|joined| {
            joined.group == group
                && joined.instance == own.instance
                && joined.member != member
                && joined.began > own.ended
                && joined.ended < before
        })
    }

    fn settled(
        &self,
        at: usize,
        group: &Name,
        partitions: &[TopicPartition],
        found: &mut Vec<Verdict>,
    ) {
        let mut last: BTreeMap<&Name, &Given<'_>> = BTreeMap::new();
        for given in self.given.iter().filter(|given| given.group == group) {
            // What a client says it owns adds to what it had; what it was told is all of it.
            if given.began < given.ended && given.ended < at {
                last.entry(given.who)
                    .and_modify(|before| {
                        if before.ended < given.ended {
                            *before = given;
                        }
                    })
                    .or_insert(given);
            }
        }
        last.retain(|who, given| {
            let gone = self
                .gone
                .iter()
                .any(|(client, gone)| client == who && (given.ended..at).contains(gone));
            let left = self.left.iter().any(|(of, member, began, _)| {
                *of == group && *member == given.member && (given.ended..at).contains(began)
            });
            !gone && !left
        });
        let mut proof: Vec<usize> = vec![at];
        let mut why = Vec::new();
        for (who, given) in &last {
            let again = self.joining.iter().find(|(joiner, of, began)| {
                joiner == who && *of == group && (given.ended..at).contains(began)
            });
            if let Some((_, _, began)) = again {
                proof.push(*began);
                why.push(format!("{who} is joining"));
            }
        }
        let generations: BTreeMap<i32, &Given<'_>> = last
            .values()
            .map(|given| (given.generation, *given))
            .collect();
        // The epoch of a member of KIP-848 moves without a word when others come and go.
        if generations.len() > 1 && !self.epochs.have(group) {
            proof.extend(generations.values().map(|given| given.ended));
            let all: Vec<_> = generations.keys().map(ToString::to_string).collect();
            why.push(format!("members are in generations {}", all.join(" and ")));
        }
        let owned: BTreeSet<&TopicPartition> =
            last.values().flat_map(|given| given.partitions).collect();
        if let Some(orphan) = partitions.iter().find(|at| !owned.contains(at)) {
            proof.extend(last.values().map(|given| given.ended));
            why.push(format!("{orphan} belongs to nobody"));
        }
        if !why.is_empty() {
            let what = format!("{group} has not settled: {}", why.join("; "));
            found.push(Verdict::new(Anomaly::NotConverged, proof, what));
        }
    }
}

#[cfg(test)]
mod tests;
