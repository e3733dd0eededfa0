//! Membership in a group of KIP-848 without its network: the coordinator assigns, and the member
//! moves to what it is told, one heartbeat after the other.
//!
//! Driven as [`Membership`](super::membership::Membership) is. At most one heartbeat is out at a
//! time. Behaves as Kafka's Java clients 4.1 do: ConsumerMembershipManager,
//! AbstractMembershipManager and ConsumerHeartbeatRequestManager. No I/O and no clock.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use host::{Entropy, Monotonic};
use kafka_wire::ErrorCode;

use super::membership::{Ask, Event, Identity, Trouble};
use crate::client::backoff::BackoffRule;
use crate::client::profile::GroupRules;
use crate::history::{Name, TopicPartition};

/// The epoch of one who joins.
const JOINS: i32 = 0;
/// The epoch of one who leaves for good.
const LEAVES: i32 = -1;
/// The epoch of a static member that leaves, and may come again.
const LEAVES_FOR_A_WHILE: i32 = -2;
/// The epoch of one who is in no group, as commits have it.
const OUTSIDE: i32 = -1;
/// The epoch of nobody.
const NOBODY: i32 = i32::MIN;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Is to join, not before then.
    Out(Monotonic),
    /// Has an epoch.
    In,
    /// Out because the application does not poll.
    Expired,
    /// Left for good, or refused for good.
    Gone,
}

/// A good answer to ConsumerGroupHeartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The member's id.
    pub member: Name,
    /// Its epoch.
    pub epoch: i32,
    /// When the next one is due.
    pub interval: Duration,
    /// What it is to own, when it is told.
    pub assignment: Option<BTreeSet<TopicPartition>>,
}

/// What a heartbeat says beside who sends it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Says {
    /// Everything that the coordinator may not know: the subscription, the timeout.
    pub all: bool,
    /// What the member owns.
    pub owned: Option<BTreeSet<TopicPartition>>,
}

/// A member.
#[derive(Debug)]
pub struct Reconciler {
    rules: GroupRules,
    retry: BackoffRule,
    entropy: Arc<dyn Entropy>,
    identity: Identity,
    state: State,
    owned: BTreeSet<TopicPartition>,
    /// What it is to own, until it does.
    target: Option<BTreeSet<TopicPartition>>,
    /// The application is giving these up.
    revoking: BTreeSet<TopicPartition>,
    /// What it said last that it owns, and was answered.
    said: Option<BTreeSet<TopicPartition>>,
    /// The coordinator may have missed what was said.
    repeats: bool,
    failures: u32,
    /// As of which epoch a heartbeat is out, and what it says.
    out: Option<(i32, Says)>,
    beat_at: Monotonic,
    polled_at: Monotonic,
    leave: Option<Identity>,
    events: VecDeque<Event>,
}

impl Reconciler {
    /// A member that joins when it is asked what to do.
    pub fn new(
        rules: GroupRules,
        retry: BackoffRule,
        entropy: Arc<dyn Entropy>,
        instance: Option<Name>,
        now: Monotonic,
    ) -> Self {
        // KIP-1082: the client chooses.
        let member = uuid::Uuid::from_bytes(entropy.uuid_v4()).to_string();
        Self {
            rules,
            retry,
            entropy,
            identity: Identity {
                member: member.as_str().into(),
                generation: OUTSIDE,
                instance,
            },
            state: State::Out(now),
            owned: BTreeSet::new(),
            target: None,
            revoking: BTreeSet::new(),
            said: None,
            repeats: true,
            failures: 0,
            out: None,
            beat_at: now,
            polled_at: now,
            leave: None,
            events: VecDeque::new(),
        }
    }

    /// Who it is now; its epoch is the generation.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What it owns.
    pub fn owned(&self) -> &BTreeSet<TopicPartition> {
        &self.owned
    }

    /// Whether it owns what it was told to, and has said so.
    pub fn is_stable(&self) -> bool {
        self.state == State::In && self.target.is_none() && !self.has_news()
    }

    fn has_news(&self) -> bool {
        self.said.as_ref() != Some(&self.owned)
    }

    /// What to ask now. `joins` says whether the application has heard what it lost: who joins owns
    /// nothing. `polling` says whether it polls.
    pub fn poll_ask(&mut self, now: Monotonic, joins: bool, polling: bool) -> Option<Ask> {
        if polling {
            self.polled_at = now;
        }
        if let Some(identity) = self.leave.take() {
            return Some(Ask::Leave { identity });
        }
        if self.expires(now) {
            self.state = State::Expired;
            let identity = self.leaving();
            self.out_of_group();
            return Some(Ask::Leave { identity });
        }
        if self.out.is_some() {
            return None;
        }
        let says = match self.state {
            State::Out(not_before) if not_before <= now && joins => Says {
                all: true,
                owned: Some(BTreeSet::new()),
            },
            State::In => {
                let acknowledges =
                    self.target.is_none() && self.revoking.is_empty() && self.has_news();
                // After trouble the interval is a wait, which news don't cut short.
                if self.beat_at > now && (self.failures > 0 || !acknowledges) {
                    return None;
                }
                Says {
                    all: self.repeats,
                    owned: (self.repeats || self.has_news()).then(|| self.owned.clone()),
                }
            }
            _ => return None,
        };
        let mut identity = self.identity.clone();
        identity.generation = identity.generation.max(JOINS);
        self.out = Some((self.identity.generation, says.clone()));
        Some(Ask::Beat { identity, says })
    }

    fn expires(&self, now: Monotonic) -> bool {
        let Some(limit) = self.rules.max_poll_interval else {
            return false;
        };
        let watched = !matches!(self.state, State::Expired | State::Gone);
        watched && now.saturating_since(self.polled_at) > limit
    }

    /// It as one that leaves.
    fn leaving(&self) -> Identity {
        let generation = match self.identity.instance {
            Some(_) => LEAVES_FOR_A_WHILE,
            None => LEAVES,
        };
        Identity {
            generation,
            ..self.identity.clone()
        }
    }

    fn out_of_group(&mut self) {
        if let Some((asked_as, _)) = &mut self.out {
            // Whatever it brings is of a membership that has ended.
            *asked_as = NOBODY;
        }
        self.identity.generation = OUTSIDE;
        self.target = None;
        self.said = None;
        self.repeats = true;
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
    pub fn revoked(&mut self) {
        let gone = std::mem::take(&mut self.revoking);
        self.owned.retain(|at| !gone.contains(at));
        self.reconcile();
    }

    /// Goes on towards the target: gives up first, takes afterwards.
    fn reconcile(&mut self) {
        let Some(target) = &self.target else {
            return;
        };
        if !self.revoking.is_empty() {
            return;
        }
        let gone: BTreeSet<_> = self.owned.difference(target).cloned().collect();
        if gone.is_empty() {
            let added: BTreeSet<_> = target.difference(&self.owned).cloned().collect();
            self.owned.extend(added.iter().cloned());
            self.target = None;
            self.events.push_back(Event::Assigned(added));
        } else {
            self.revoking.clone_from(&gone);
            self.events.push_back(Event::Revoke(gone));
        }
    }

    /// The heartbeat was answered.
    pub fn handle_beat(&mut self, now: Monotonic, answer: Result<Beat, Trouble>) {
        let Some((epoch, says)) = self.out.take() else {
            return;
        };
        let joined = matches!(self.state, State::Out(_)) && epoch == OUTSIDE;
        let still = self.state == State::In && epoch == self.identity.generation;
        if !joined && !still {
            // It was put out meanwhile, or left.
            return;
        }
        match answer {
            Ok(beat) => {
                self.failures = 0;
                self.repeats = false;
                self.beat_at = now + beat.interval;
                self.identity.member = beat.member;
                self.identity.generation = beat.epoch;
                self.state = State::In;
                if says.owned.is_some() {
                    self.said = says.owned;
                }
                if let Some(assignment) = beat.assignment {
                    self.target = Some(assignment);
                    self.reconcile();
                }
            }
            Err(trouble) => self.troubled(now, trouble),
        }
    }

    fn troubled(&mut self, now: Monotonic, trouble: Trouble) {
        self.failures += 1;
        self.repeats = true;
        let again = now + self.retry.after(self.failures, &*self.entropy);
        self.beat_at = again;
        if let State::Out(not_before) = &mut self.state {
            *not_before = again;
        }
        match trouble {
            Trouble::NoAnswer
            | Trouble::Code(ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable) => {
                self.events.push_back(Event::CoordinatorWrong);
            }
            Trouble::Code(ErrorCode::FencedMemberEpoch | ErrorCode::UnknownMemberId) => {
                self.out_of_group();
                self.lose();
                self.state = State::Out(now);
            }
            Trouble::Code(code) if code.retriable() => {}
            Trouble::Code(code) => {
                self.out_of_group();
                self.lose();
                self.state = State::Gone;
                self.events.push_back(Event::Fatal(code));
            }
        }
    }

    fn lose(&mut self) {
        self.target = None;
        self.revoking.clear();
        let lost = std::mem::take(&mut self.owned);
        if !lost.is_empty() {
            self.events.push_back(Event::Lost(lost));
        }
    }

    /// Leaves for good, after it gave up what it owned.
    pub fn close(&mut self) {
        if !matches!(self.state, State::Gone | State::Expired) {
            self.leave = Some(self.leaving());
        }
        self.state = State::Gone;
        self.owned.clear();
        self.out_of_group();
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
        let beat = match self.state {
            _ if self.out.is_some() => None,
            State::Out(not_before) => Some(not_before),
            State::In => Some(self.beat_at),
            State::Expired | State::Gone => None,
        };
        let watched = !matches!(self.state, State::Expired | State::Gone);
        let limit = self.rules.max_poll_interval.filter(|_| watched);
        // The first moment beyond the limit.
        let expiry = limit.map(|limit| self.polled_at + limit + Duration::from_millis(1));
        let all = [beat, expiry].into_iter().flatten();
        all.filter(|due| *due > now).min()
    }
}

#[cfg(test)]
mod tests;
