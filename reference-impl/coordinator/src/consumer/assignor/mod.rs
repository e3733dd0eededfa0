//! Who gets what: the assignors of the coordinator. Pure, and the same input gives the same result.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::classic::{InstanceId, MemberId};

use super::ids::Partitions;

mod range;
#[cfg(test)]
mod tests;
mod uniform;

/// The assignors by Kafka's names; the first is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Assignor {
    /// As many partitions for each member as its subscription allows, and as few moves as possible.
    #[default]
    Uniform,
    /// Neighbouring partitions of each topic to each member; topics of one width side by side.
    Range,
}

impl Assignor {
    /// The assignor of this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "uniform" => Some(Self::Uniform),
            "range" => Some(Self::Range),
            _ => None,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Range => "range",
        }
    }

    /// What each member of `group` gets, in the order of `group.members`: every partition of every
    /// topic that somebody subscribes to, once.
    pub(super) fn assign(self, group: &GroupSpec<'_>) -> Vec<Partitions> {
        match self {
            Self::Uniform => uniform::assign(group),
            Self::Range => range::assign(group),
        }
    }
}

/// What there is to assign.
#[derive(Debug)]
pub(super) struct GroupSpec<'a> {
    /// In order of their ids.
    pub(super) members: Vec<MemberSpec<'a>>,
    /// Every subscription that some member has.
    pub(super) subscriptions: Vec<Vec<Uuid>>,
    /// The width of every topic in `subscriptions`.
    pub(super) widths: BTreeMap<Uuid, i32>,
}

/// A member to assign to.
#[derive(Debug)]
pub(super) struct MemberSpec<'a> {
    pub(super) member_id: &'a MemberId,
    pub(super) instance_id: Option<&'a InstanceId>,
    /// An index into [`GroupSpec::subscriptions`].
    pub(super) subscription: usize,
    /// What it got the last time.
    pub(super) current: Option<&'a Partitions>,
}

impl GroupSpec<'_> {
    /// Topics that the very same members subscribe to, each class with those members. In order of
    /// the first topic.
    fn classes(&self) -> Vec<Class> {
        let mut subscriptions_of: BTreeMap<Uuid, Vec<usize>> = BTreeMap::new();
        for (index, topics) in self.subscriptions.iter().enumerate() {
            for &topic in topics {
                subscriptions_of.entry(topic).or_default().push(index);
            }
        }
        let mut topics_of: BTreeMap<Vec<usize>, Vec<Uuid>> = BTreeMap::new();
        for (topic, subscriptions) in subscriptions_of {
            topics_of.entry(subscriptions).or_default().push(topic);
        }
        let mut classes: Vec<Class> = topics_of
            .into_iter()
            .map(|(subscriptions, topics)| {
                let members = self.members.iter().enumerate();
                Class {
                    topics,
                    members: members
                        .filter(|(_, member)| {
                            subscriptions.binary_search(&member.subscription).is_ok()
                        })
                        .map(|(index, _)| index)
                        .collect(),
                }
            })
            .filter(|class| !class.members.is_empty())
            .collect();
        classes.sort_by_key(|class| class.topics.first().copied());
        classes
    }

    fn width(&self, topic: Uuid) -> i32 {
        self.widths.get(&topic).copied().unwrap_or(0)
    }
}

/// See [`GroupSpec::classes`].
#[derive(Debug)]
struct Class {
    topics: Vec<Uuid>,
    /// Indexes into [`GroupSpec::members`], ascending.
    members: Vec<usize>,
}
