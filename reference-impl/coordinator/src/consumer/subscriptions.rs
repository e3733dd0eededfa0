//! What the members of a group subscribe to, resolved against the topics there are, and the target
//! assignment that follows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use host::Monotonic;
use uuid::Uuid;

use crate::classic::MemberId;

use super::assignor::{Assignor, GroupSpec, MemberSpec};
use super::ids::Partitions;
use super::member::Member;
use super::regex::{self, RegexError};
use super::topics::{Topic, Topics};

/// Every subscription of a group.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    /// The topics there are; `None` until they could be read.
    topics: Option<Arc<Topics>>,
    /// How many members want each topic by name.
    names: BTreeMap<Arc<str>, usize>,
    patterns: BTreeMap<Arc<str>, Pattern>,
    /// How many members prefer each assignor.
    assignors: BTreeMap<Arc<str>, usize>,
    /// The subscribed topics that exist: a change of it asks for another assignment.
    subscribed: BTreeMap<Arc<str>, Topic>,
    /// Topics may have come that the patterns have not seen.
    patterns_stale: bool,
    resolved_at: Monotonic,
}

#[derive(Debug, Default)]
struct Pattern {
    subscribers: usize,
    /// The topics it matched when it was looked at last.
    matched: BTreeSet<Arc<str>>,
}

/// What a member subscribes to: names, and a pattern.
type Wanted<'a> = (&'a BTreeSet<Arc<str>>, Option<&'a Arc<str>>);

/// A target assignment.
pub(super) struct Computed {
    pub(super) targets: BTreeMap<MemberId, Partitions>,
    pub(super) assignor: Assignor,
    pub(super) topics_left_out: usize,
}

impl Subscriptions {
    pub(super) fn topics(&self) -> Option<&Arc<Topics>> {
        self.topics.as_ref()
    }

    /// Whether a member subscribes by this pattern.
    pub(super) fn has_pattern(&self, pattern: &str) -> bool {
        self.patterns.contains_key(pattern)
    }

    pub(super) fn patterns(&self) -> usize {
        self.patterns.len()
    }

    /// Counts a member in. Follow with [`settle`](Self::settle).
    pub(super) fn add(&mut self, member: &Member) {
        for name in member.subscribed_topic_names.iter() {
            *self.names.entry(Arc::clone(name)).or_default() += 1;
        }
        if let Some(pattern) = &member.subscribed_topic_regex {
            let known = self.patterns.entry(Arc::clone(pattern)).or_default();
            known.subscribers += 1;
        }
        if let Some(assignor) = &member.server_assignor {
            *self.assignors.entry(Arc::clone(assignor)).or_default() += 1;
        }
    }

    /// Counts a member out. Follow with [`settle`](Self::settle).
    pub(super) fn remove(&mut self, member: &Member) {
        for name in member.subscribed_topic_names.iter() {
            release(&mut self.names, name);
        }
        if let Some(pattern) = &member.subscribed_topic_regex
            && let Some(known) = self.patterns.get_mut(pattern)
        {
            // Forgotten by `settle`, so that a change of members keeps what it matched.
            known.subscribers -= 1;
        }
        if let Some(assignor) = &member.server_assignor {
            release(&mut self.assignors, assignor);
        }
    }

    /// Matches `pattern` now: a new one does not wait for the next look.
    pub(super) fn resolve(&mut self, pattern: &Arc<str>) -> Result<(), RegexError> {
        let compiled = regex::compile(pattern)?;
        if let (Some(topics), Some(known)) = (&self.topics, self.patterns.get_mut(pattern)) {
            known.matched = regex::resolve(&compiled, topics);
        }
        Ok(())
    }

    /// Takes in the topics there are now. True when that changed what is subscribed. Patterns look at
    /// new topics at most once in `interval`.
    pub(super) fn observe(
        &mut self,
        now: Monotonic,
        topics: Option<&Arc<Topics>>,
        interval: Duration,
    ) -> bool {
        let mut look = false;
        if let Some(topics) = topics
            && self
                .topics
                .as_ref()
                .is_none_or(|known| !Arc::ptr_eq(known, topics))
        {
            // The first look must not wait: nothing could be matched before.
            let first = self.topics.is_none();
            self.topics = Some(Arc::clone(topics));
            self.patterns_stale = true;
            look = true;
            if first {
                self.resolve_all(now);
            }
        }
        if self.patterns_stale && now.saturating_since(self.resolved_at) >= interval {
            self.resolve_all(now);
            look = true;
        }
        look && self.settle()
    }

    fn resolve_all(&mut self, now: Monotonic) {
        self.patterns_stale = false;
        self.resolved_at = now;
        let patterns: Vec<Arc<str>> = self.patterns.keys().cloned().collect();
        for pattern in patterns {
            // It was compiled when it came.
            let _ = self.resolve(&pattern);
        }
    }

    /// Computes what is subscribed; true when it changed.
    pub(super) fn settle(&mut self) -> bool {
        self.patterns.retain(|_, pattern| pattern.subscribers > 0);
        let Some(topics) = &self.topics else {
            return false;
        };
        let matched = self.patterns.values().flat_map(|pattern| &pattern.matched);
        let subscribed: BTreeMap<Arc<str>, Topic> = self
            .names
            .keys()
            .chain(matched)
            .filter_map(|name| Some((Arc::clone(name), topics.get(name)?)))
            .collect();
        let changed = subscribed != self.subscribed;
        self.subscribed = subscribed;
        changed
    }

    fn matched(&self, pattern: Option<&Arc<str>>) -> impl Iterator<Item = &Arc<str>> {
        let known = pattern.and_then(|pattern| self.patterns.get(pattern));
        known.into_iter().flat_map(|known| &known.matched)
    }

    /// Whether `member` subscribes to the topic with this id.
    pub(super) fn includes(&self, member: &Member, topic: Uuid) -> bool {
        let Some(name) = self.topics.as_ref().and_then(|topics| topics.name(topic)) else {
            return false;
        };
        let pattern = member.subscribed_topic_regex.as_ref();
        let known = pattern.and_then(|pattern| self.patterns.get(pattern));
        member.subscribed_topic_names.contains(name)
            || known.is_some_and(|known| known.matched.contains(name))
    }

    /// Whether any member subscribes to `topic`.
    pub(super) fn any_includes(&self, topic: &str) -> bool {
        self.names.contains_key(topic)
            || self
                .patterns
                .values()
                .any(|pattern| pattern.matched.contains(topic))
    }

    /// The assignor most members prefer; of several the first by name, and ours without any.
    pub(super) fn preferred_assignor(&self) -> Assignor {
        let most = self.assignors.iter().rev().max_by_key(|(_, votes)| **votes);
        most.and_then(|(name, _)| Assignor::named(name))
            .unwrap_or_default()
    }

    /// The target assignment of `members`, which had `current` before.
    pub(super) fn assign(
        &self,
        members: &BTreeMap<MemberId, Member>,
        current: &BTreeMap<MemberId, Partitions>,
        max_partitions: usize,
    ) -> Computed {
        let mut widths = BTreeMap::new();
        let mut left_out = 0;
        let mut room = max_partitions;
        for topic in self.subscribed.values() {
            let width = usize::try_from(topic.partitions).unwrap_or(0);
            match room.checked_sub(width) {
                Some(rest) => {
                    room = rest;
                    widths.insert(topic.id, topic.partitions);
                }
                None => left_out += 1,
            }
        }
        let mut spec = GroupSpec {
            members: Vec::with_capacity(members.len()),
            subscriptions: Vec::new(),
            widths,
        };
        let mut known: BTreeMap<Wanted<'_>, usize> = BTreeMap::new();
        // Many members with different subscriptions to many topics are bounded like partitions.
        let mut entries = max_partitions;
        for (member_id, member) in members {
            let key = (
                &*member.subscribed_topic_names,
                member.subscribed_topic_regex.as_ref(),
            );
            let subscription = *known.entry(key).or_insert_with(|| {
                let mut topics = self.ids_of(member, &spec.widths);
                if topics.len() > entries {
                    left_out += topics.len() - entries;
                    topics.truncate(entries);
                }
                entries -= topics.len();
                spec.subscriptions.push(topics);
                spec.subscriptions.len() - 1
            });
            spec.members.push(MemberSpec {
                member_id,
                instance_id: member.instance_id.as_ref(),
                subscription,
                current: current.get(member_id),
            });
        }
        let assignor = self.preferred_assignor();
        let assigned = assignor.assign(&spec);
        Computed {
            targets: members.keys().cloned().zip(assigned).collect(),
            assignor,
            topics_left_out: left_out,
        }
    }

    /// The assignable topics of a member, in order of their ids.
    fn ids_of(&self, member: &Member, widths: &BTreeMap<Uuid, i32>) -> Vec<Uuid> {
        let by_name = member.subscribed_topic_names.iter();
        let ids: BTreeSet<Uuid> = by_name
            .chain(self.matched(member.subscribed_topic_regex.as_ref()))
            .filter_map(|name| self.subscribed.get(name))
            .map(|topic| topic.id)
            .filter(|id| widths.contains_key(id))
            .collect();
        ids.into_iter().collect()
    }
}

fn release(counts: &mut BTreeMap<Arc<str>, usize>, name: &Arc<str>) {
    if let Some(count) = counts.get_mut(name) {
        *count -= 1;
        if *count == 0 {
            counts.remove(name);
        }
    }
}
