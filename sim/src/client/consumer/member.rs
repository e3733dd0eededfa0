//! A member of a group, under whichever protocol its profile speaks.

use std::collections::BTreeSet;
use std::sync::Arc;

use host::Monotonic;
use kafka_wire::ErrorCode;

use super::membership::{Ask, Event, Identity, Membership};
use super::reconciler::Reconciler;
use crate::client::Client;
use crate::client::profile::GroupProtocol;
use crate::history::{Name, TopicPartition};

/// A member. What both protocols have is asked of this; the rest of the one that has it.
#[derive(Debug)]
pub enum Member {
    /// Of a classic group.
    Classic(Membership),
    /// Of a group of KIP-848.
    Consumer(Reconciler),
}

macro_rules! either {
    ($member:expr, $inner:ident => $what:expr) => {
        match $member {
            Self::Classic($inner) => $what,
            Self::Consumer($inner) => $what,
        }
    };
}

impl Member {
    /// A member that wants `topics`, as `client`'s profile has it.
    pub fn new(client: &Client, topics: BTreeSet<Name>, instance: Option<Name>) -> Self {
        let (rules, retry) = (client.profile.group, client.profile.retry);
        let (entropy, now) = (Arc::clone(&client.host.entropy), client.now());
        match rules.protocol {
            GroupProtocol::Classic => Self::Classic(Membership::new(
                rules, retry, entropy, topics, instance, now,
            )),
            GroupProtocol::Consumer { .. } => {
                Self::Consumer(Reconciler::new(rules, retry, entropy, instance, now))
            }
        }
    }

    /// Who it is now.
    pub fn identity(&self) -> &Identity {
        either!(self, inner => inner.identity())
    }

    /// What it owns.
    pub fn owned(&self) -> &BTreeSet<TopicPartition> {
        either!(self, inner => inner.owned())
    }

    /// Whether it has its share.
    pub fn is_stable(&self) -> bool {
        either!(self, inner => inner.is_stable())
    }

    /// What to ask now: see [`Membership::poll_ask`] and [`Reconciler::poll_ask`].
    pub fn poll_ask(&mut self, now: Monotonic, rebalance: bool, polling: bool) -> Option<Ask> {
        either!(self, inner => inner.poll_ask(now, rebalance, polling))
    }

    /// The next thing that the application has to do, or to know.
    pub fn poll_event(&mut self) -> Option<Event> {
        either!(self, inner => inner.poll_event())
    }

    /// Whether the application has yet to hear that it lost what it had.
    pub fn is_losing(&self) -> bool {
        either!(self, inner => inner.is_losing())
    }

    /// The application polls.
    pub fn handle_poll(&mut self, now: Monotonic) {
        either!(self, inner => inner.handle_poll(now));
    }

    /// The application has given up what it was told to.
    pub fn revoked(&mut self, now: Monotonic) {
        match self {
            Self::Classic(member) => member.revoked(now),
            Self::Consumer(member) => member.revoked(),
        }
    }

    /// OffsetCommit was refused with `code`. Under KIP-848 that says nothing of the membership.
    pub fn handle_commit_refused(&mut self, now: Monotonic, generation: i32, code: ErrorCode) {
        if let Self::Classic(member) = self {
            member.handle_commit_refused(now, generation, code);
        }
    }

    /// Leaves for good.
    pub fn close(&mut self) {
        either!(self, inner => inner.close());
    }

    /// When to poll again if nothing happens before.
    pub fn next_deadline(&self, now: Monotonic) -> Option<Monotonic> {
        either!(self, inner => inner.next_deadline(now))
    }

    /// The member of a classic group.
    pub fn classic(&mut self) -> Option<&mut Membership> {
        match self {
            Self::Classic(member) => Some(member),
            Self::Consumer(_) => None,
        }
    }
}
