//! Membership in a classic group without its network: what to ask of the coordinator when, and what
//! the answers mean.
//!
//! [`Membership::poll_ask`] says what to send next; answers go in through `handle_*`;
//! [`Membership::poll_event`] says what the application has to do. Call both until they give nothing
//! after every event, and again at [`Membership::next_deadline`]. At most one JoinGroup or SyncGroup
//! and one Heartbeat are out at a time. No I/O and no clock.

mod terms;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use host::{Entropy, Monotonic};
use kafka_wire::ErrorCode;

use super::assignor::{Assignment, Assignor, Subscription};
use crate::client::backoff::BackoffRule;
use crate::client::profile::GroupRules;
use crate::history::{Name, TopicPartition};

pub use terms::{Ask, Event, Identity, Joined, Trouble};

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Is to join, not before then.
    Out(Monotonic),
    /// The application is giving up partitions; then it gets these, and joins.
    Revoking {
        keeps: BTreeSet<TopicPartition>,
        added: BTreeSet<TopicPartition>,
    },
    Joining,
    /// Leads, and the assignment is being computed.
    Leading(Assignor),
    /// Joined, and is to sync.
    Joined(Assignor, Assignment),
    Syncing,
    Stable,
    /// Out because the application does not poll.
    Expired,
    /// Left for good, or refused for good.
    Gone,
}

/// A member.
#[derive(Debug)]
pub struct Membership {
    rules: GroupRules,
    retry: BackoffRule,
    entropy: Arc<dyn Entropy>,
    topics: BTreeSet<Name>,
    identity: Identity,
    state: State,
    owned: BTreeSet<TopicPartition>,
    /// The generation in which it got them.
    owned_since: i32,
    failures: u32,
    heartbeat_out: bool,
    heartbeat_at: Monotonic,
    /// The coordinator's last good answer.
    heard_at: Monotonic,
    polled_at: Monotonic,
    leave: Option<Identity>,
    events: VecDeque<Event>,
}

impl Membership {
    /// A member that wants `topics` and joins when it is asked what to do.
    pub fn new(
        rules: GroupRules,
        retry: BackoffRule,
        entropy: Arc<dyn Entropy>,
        topics: BTreeSet<Name>,
        instance: Option<Name>,
        now: Monotonic,
    ) -> Self {
        Self {
            rules,
            retry,
            entropy,
            topics,
            identity: Identity {
                member: Name::default(),
                generation: -1,
                instance,
            },
            state: State::Out(now),
            owned: BTreeSet::new(),
            owned_since: -1,
            failures: 0,
            heartbeat_out: false,
            heartbeat_at: now,
            heard_at: now,
            polled_at: now,
            leave: None,
            events: VecDeque::new(),
        }
    }

    /// Who it is now.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What it owns.
    pub fn owned(&self) -> &BTreeSet<TopicPartition> {
        &self.owned
    }

    /// Whether it is in a generation and has its share.
    pub fn is_stable(&self) -> bool {
        self.state == State::Stable
    }

    fn is_cooperative(&self) -> bool {
        // One eager assignor makes the member eager: it can't know which is chosen (KIP-429).
        let mut assignors = self.rules.assignors.iter();
        assignors.all(|assignor| assignor.is_cooperative())
    }

    /// What to ask now. `rebalance` says whether JoinGroup and SyncGroup may go out: in some
    /// libraries only while the application polls. `polling` says whether it does.
    pub fn poll_ask(&mut self, now: Monotonic, rebalance: bool, polling: bool) -> Option<Ask> {
        if polling {
            self.polled_at = now;
        }
        if let Some(identity) = self.leave.take() {
            return Some(Ask::Leave { identity });
        }
        if self.expires(now) {
            self.state = State::Expired;
            let dynamic = self.identity.instance.is_none();
            let identity = self.forget_member();
            if dynamic && !identity.member.is_empty() {
                return Some(Ask::Leave { identity });
            }
        }
        if let Some(heartbeat) = self.heartbeat(now) {
            return Some(heartbeat);
        }
        if !rebalance {
            return None;
        }
        match &self.state {
            State::Out(not_before) if *not_before <= now => self.join(),
            State::Joined(assignor, assignment) => {
                let ask = Ask::Sync {
                    identity: self.identity.clone(),
                    assignor: *assignor,
                    assignment: assignment.clone(),
                };
                self.state = State::Syncing;
                Some(ask)
            }
            _ => None,
        }
    }

    fn expires(&self, now: Monotonic) -> bool {
        let Some(limit) = self.rules.max_poll_interval else {
            return false;
        };
        let watched = !matches!(self.state, State::Expired | State::Gone);
        watched && now.saturating_since(self.polled_at) > limit
    }

    fn heartbeat(&mut self, now: Monotonic) -> Option<Ask> {
        let member = self.identity.generation >= 0;
        let in_place = matches!(
            self.state,
            State::Stable | State::Revoking { .. } | State::Out(_)
        );
        if !member || !in_place || self.heartbeat_out || self.heartbeat_at > now {
            return None;
        }
        if now.saturating_since(self.heard_at) > self.rules.session_timeout {
            // Nobody answers: whoever is asked is the wrong one.
            self.events.push_back(Event::CoordinatorWrong);
            self.heard_at = now;
        }
        self.heartbeat_out = true;
        self.heartbeat_at = now + self.rules.heartbeat_interval;
        Some(Ask::Heartbeat {
            identity: self.identity.clone(),
        })
    }

    fn join(&mut self) -> Option<Ask> {
        if !self.is_cooperative() && !self.owned.is_empty() {
            self.state = State::Revoking {
                keeps: BTreeSet::new(),
                added: BTreeSet::new(),
            };
            self.events.push_back(Event::Revoke(self.owned.clone()));
            return None;
        }
        self.state = State::Joining;
        Some(Ask::Join {
            identity: self.identity.clone(),
            subscription: Subscription {
                topics: self.topics.clone(),
                owned: self.owned.clone(),
                generation: self.owned_since,
            },
        })
    }

    /// The application polls. A member that was put out because it didn't hears what it lost.
    pub fn handle_poll(&mut self, now: Monotonic) {
        self.polled_at = now;
        if self.state == State::Expired {
            self.lose();
            self.state = State::Out(now);
        }
    }

    /// The application has given up what it was told to.
    pub fn revoked(&mut self, now: Monotonic) {
        let State::Revoking { keeps, added } = &mut self.state else {
            return;
        };
        self.owned = std::mem::take(keeps);
        let added = std::mem::take(added);
        if !added.is_empty() {
            self.owned.extend(added.iter().cloned());
            self.events.push_back(Event::Assigned(added));
        }
        self.state = State::Out(now);
    }

    /// The assignment that this member, who leads, has computed.
    pub fn assigned(&mut self, assignment: Assignment) {
        if let State::Leading(assignor) = self.state {
            self.state = State::Joined(assignor, assignment);
        }
    }

    /// JoinGroup was answered. With MEMBER_ID_REQUIRED comes the id to be used.
    pub fn handle_join(&mut self, now: Monotonic, answer: Result<Joined, (Trouble, Name)>) {
        if self.state != State::Joining {
            return;
        }
        match answer {
            Ok(joined) => {
                self.hears(now);
                self.identity.member = joined.member;
                self.identity.generation = joined.generation;
                self.state = match joined.members {
                    Some(members) => {
                        self.events.push_back(Event::Lead {
                            assignor: joined.assignor,
                            members,
                        });
                        State::Leading(joined.assignor)
                    }
                    None => State::Joined(joined.assignor, Assignment::new()),
                };
            }
            Err((Trouble::Code(ErrorCode::MemberIdRequired), member)) => {
                self.identity.member = member;
                self.state = State::Out(now);
            }
            Err((trouble, _)) => self.troubled(now, trouble),
        }
    }

    /// SyncGroup was answered.
    pub fn handle_sync(
        &mut self,
        now: Monotonic,
        answer: Result<BTreeSet<TopicPartition>, Trouble>,
    ) {
        if self.state != State::Syncing {
            return;
        }
        let assigned = match answer {
            Ok(assigned) => assigned,
            Err(Trouble::Code(ErrorCode::RebalanceInProgress)) => {
                self.state = State::Out(now);
                return;
            }
            Err(trouble) => {
                self.troubled(now, trouble);
                return;
            }
        };
        self.hears(now);
        self.owned_since = self.identity.generation;
        let gone: BTreeSet<_> = self.owned.difference(&assigned).cloned().collect();
        let added: BTreeSet<_> = assigned.difference(&self.owned).cloned().collect();
        if gone.is_empty() {
            self.owned = assigned;
            self.state = State::Stable;
            self.events.push_back(Event::Assigned(added));
        } else {
            let keeps = self.owned.intersection(&assigned).cloned().collect();
            self.state = State::Revoking { keeps, added };
            self.events.push_back(Event::Revoke(gone));
        }
    }

    /// The Heartbeat of `generation` was answered.
    pub fn handle_heartbeat(
        &mut self,
        now: Monotonic,
        generation: i32,
        answer: Result<(), Trouble>,
    ) {
        self.heartbeat_out = false;
        if generation != self.identity.generation {
            // Another generation has begun since.
            return;
        }
        match answer {
            Ok(()) => self.heard_at = now,
            Err(Trouble::NoAnswer) => self.events.push_back(Event::CoordinatorWrong),
            Err(Trouble::Code(code)) => self.told(now, code),
        }
    }

    /// OffsetCommit was refused with `code`: it may say that the membership is over.
    pub fn handle_commit_refused(&mut self, now: Monotonic, generation: i32, code: ErrorCode) {
        if generation == self.identity.generation {
            self.told(now, code);
        }
    }

    /// The coordinator says `code` to a member that is in a generation.
    fn told(&mut self, now: Monotonic, code: ErrorCode) {
        match code {
            ErrorCode::RebalanceInProgress => self.rejoin(now),
            ErrorCode::UnknownMemberId
            | ErrorCode::IllegalGeneration
            | ErrorCode::FencedInstanceId => self.troubled(now, Trouble::Code(code)),
            ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable => {
                self.events.push_back(Event::CoordinatorWrong);
            }
            _ => {}
        }
    }

    fn hears(&mut self, now: Monotonic) {
        self.failures = 0;
        self.heard_at = now;
        self.heartbeat_at = now + self.rules.heartbeat_interval;
    }

    /// Joins again later, as somebody else where the coordinator does not know this member.
    fn troubled(&mut self, now: Monotonic, trouble: Trouble) {
        self.failures += 1;
        let wait = self.retry.after(self.failures, &*self.entropy);
        self.state = State::Out(now + wait);
        match trouble {
            Trouble::NoAnswer => self.events.push_back(Event::CoordinatorWrong),
            Trouble::Code(ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable) => {
                self.events.push_back(Event::CoordinatorWrong);
            }
            Trouble::Code(ErrorCode::UnknownMemberId) => {
                self.forget_member();
                self.lose();
            }
            Trouble::Code(ErrorCode::IllegalGeneration) => {
                self.identity.generation = -1;
                self.lose();
            }
            Trouble::Code(ErrorCode::RebalanceInProgress) => {}
            Trouble::Code(code) if code.retriable() => {}
            Trouble::Code(code) => {
                self.lose();
                self.state = State::Gone;
                self.events.push_back(Event::Fatal(code));
            }
        }
    }

    fn forget_member(&mut self) -> Identity {
        let instance = self.identity.instance.clone();
        let nobody = Identity {
            member: Name::default(),
            generation: -1,
            instance,
        };
        std::mem::replace(&mut self.identity, nobody)
    }

    fn lose(&mut self) {
        self.owned_since = -1;
        if !self.owned.is_empty() {
            let lost = std::mem::take(&mut self.owned);
            self.events.push_back(Event::Lost(lost));
        }
    }

    /// Joins again although nobody asks it to: its topics have other partitions now.
    pub fn rejoin(&mut self, now: Monotonic) {
        if self.state == State::Stable {
            self.state = State::Out(now);
        }
    }

    /// Leaves for good, after it gave up what it owned. A static member goes without a word.
    pub fn close(&mut self) {
        let dynamic = self.identity.instance.is_none();
        let gone = self.state == State::Gone;
        self.state = State::Gone;
        self.owned.clear();
        let identity = self.forget_member();
        if dynamic && !gone && !identity.member.is_empty() {
            self.leave = Some(identity);
        }
    }

    /// Whether the application has yet to hear that it lost what it had.
    pub fn is_losing(&self) -> bool {
        self.events
            .iter()
            .any(|event| matches!(event, Event::Lost(_)))
    }

    /// The next thing that the application has to do, or to know.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When to poll again if nothing happens before.
    pub fn next_deadline(&self, now: Monotonic) -> Option<Monotonic> {
        let heartbeat =
            (self.identity.generation >= 0 && !self.heartbeat_out).then_some(self.heartbeat_at);
        let join = match self.state {
            State::Out(not_before) => Some(not_before),
            _ => None,
        };
        let limit = self.rules.max_poll_interval;
        let watched = !matches!(self.state, State::Expired | State::Gone);
        // The first moment beyond the limit.
        let expiry = limit
            .filter(|_| watched)
            .map(|limit| self.polled_at + limit + std::time::Duration::from_millis(1));
        let all = [heartbeat, join, expiry].into_iter().flatten();
        all.filter(|due| *due > now).min()
    }
}

#[cfg(test)]
mod tests;
