//! What the tasks of a consumer and its application share.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use host::Monotonic;
use kafka_wire::ErrorCode;
use tokio::sync::{Mutex as AsyncMutex, watch};

use super::Settings;
use super::coordinator::{Committed, Coordinator, failure};
use super::member::Member;
use super::membership::{Event as Duty, Identity};
use super::positions::{Positions, Start};
use super::reconciler::Says;
use crate::client::cluster::Cluster;
use crate::client::profile::Rebalances;
use crate::client::{CallError, Client};
use crate::history::{Call, Event, Failure, Name, Polled, Reply, TopicPartition};

/// A consumer.
pub(super) struct Shared {
    pub client: Client,
    pub cluster: Cluster,
    pub settings: Settings,
    pub topics: Mutex<BTreeSet<Name>>,
    /// `None` without a group.
    pub coordinator: Option<Coordinator>,
    /// One commit that nobody waits for at a time, in the order in which they were asked for: a
    /// later one must not be overtaken by an earlier one that is tried again.
    pub committing: AsyncMutex<()>,
    state: Mutex<State>,
    /// Rings when the state has changed.
    bell: watch::Sender<()>,
}

/// What changes.
pub(super) struct State {
    pub positions: Positions,
    /// `None` for a consumer that assigned itself.
    pub membership: Option<Member>,
    /// What the application has to do, and as who.
    pub duties: VecDeque<(Duty, Identity)>,
    /// Whether the application polls right now.
    pub polling: bool,
    pub fatal: Option<ErrorCode>,
    /// When offsets are committed by themselves.
    pub auto_commit_at: Monotonic,
}

/// How a commit ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The coordinator refused it: nothing of it is committed, or only other partitions.
    #[error("refused: {0:?}")]
    Refused(ErrorCode),
    /// It may be committed, or not.
    #[error("given up in doubt")]
    Unknown,
    /// There is no group to commit to.
    #[error("no group")]
    NoGroup,
}

impl Shared {
    pub(super) fn new(
        client: Client,
        settings: Settings,
        topics: BTreeSet<Name>,
        membership: Option<Member>,
    ) -> Arc<Self> {
        let cluster = Cluster::new(client.clone());
        let group = settings.group.clone();
        let coordinator = group.map(|group| Coordinator::new(cluster.clone(), group));
        let auto_commit_at = client.now() + client.profile.group.auto_commit_interval;
        Arc::new(Self {
            client,
            cluster,
            settings,
            topics: Mutex::new(topics),
            coordinator,
            committing: AsyncMutex::default(),
            state: Mutex::new(State {
                positions: Positions::default(),
                membership,
                duties: VecDeque::new(),
                polling: false,
                fatal: None,
                auto_commit_at,
            }),
            bell: watch::Sender::new(()),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds this.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn topics(&self) -> BTreeSet<Name> {
        let topics = self.topics.lock();
        topics.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Hears the bell.
    pub(super) fn listen(&self) -> watch::Receiver<()> {
        self.bell.subscribe()
    }

    /// The state has changed.
    pub(super) fn ring(&self) {
        self.bell.send_replace(());
    }

    fn group(&self) -> Name {
        self.settings.group.clone().unwrap_or_default()
    }

    /// Who commits: the member, or nobody in particular.
    pub(super) fn identity(&self) -> Identity {
        let state = self.state();
        let member = state.membership.as_ref();
        member.map_or_else(Identity::outside, |member| member.identity().clone())
    }

    /// At most `max` records for the application. None as long as there is something that it must hear
    /// first: a member that was put out hands out nothing of what it had.
    pub(super) fn take(&self, max: usize) -> Vec<Polled> {
        let mut state = self.state();
        let losing = state.membership.as_ref().is_some_and(Member::is_losing);
        if losing || !state.duties.is_empty() {
            return Vec::new();
        }
        state.positions.take(max)
    }

    /// Takes from the membership what has to be done. What is the application's goes on its list,
    /// where the profile lets it do that; gives back what is to be done here and now.
    pub(super) fn collect(&self) -> Vec<(Duty, Identity)> {
        let in_background = self.client.profile.group.rebalances == Rebalances::InBackground;
        let mut state = self.state();
        let mut now = Vec::new();
        let Some(membership) = state.membership.as_mut() else {
            return now;
        };
        let mut later = VecDeque::new();
        while let Some(duty) = membership.poll_event() {
            let identity = membership.identity().clone();
            let applications = matches!(duty, Duty::Revoke(_) | Duty::Assigned(_) | Duty::Lost(_));
            if applications && !in_background {
                later.push_back((duty, identity));
            } else {
                now.push((duty, identity));
            }
        }
        let rings = !later.is_empty();
        state.duties.append(&mut later);
        drop(state);
        if rings {
            self.ring();
        }
        now
    }

    /// Does what an application does when partitions come and go.
    pub(super) async fn perform(&self, duty: Duty, identity: &Identity) {
        let group = self.group();
        let (member, generation) = (identity.member.clone(), identity.generation);
        match duty {
            Duty::Revoke(partitions) => {
                if self.settings.auto_commit {
                    let offsets = self.state().positions.uncommitted(Some(&partitions));
                    let timeout = self.client.profile.group.rebalance_timeout / 2;
                    // What isn't committed is read again by whoever gets it.
                    let _ = self.commit(offsets, timeout, u32::MAX).await;
                }
                self.client.record(Event::Revoked {
                    group,
                    member,
                    generation,
                    partitions: partitions.iter().cloned().collect(),
                });
                let now = self.client.now();
                let mut state = self.state();
                state.positions.remove(&partitions);
                if let Some(membership) = state.membership.as_mut() {
                    membership.revoked(now);
                }
            }
            Duty::Assigned(partitions) => {
                self.client.record(Event::Assigned {
                    group,
                    member,
                    generation,
                    partitions: partitions.iter().cloned().collect(),
                });
                self.state().positions.add(partitions, Start::Committed);
            }
            Duty::Lost(partitions) => {
                self.client.record(Event::Lost {
                    group,
                    member,
                    generation,
                    partitions: partitions.iter().cloned().collect(),
                });
                self.state().positions.remove(&partitions);
            }
            Duty::Lead { .. } | Duty::CoordinatorWrong | Duty::Fatal(_) => {}
        }
        self.ring();
    }

    /// Commits `offsets`, again and again while that may help, at most `retries` times more and not
    /// longer than `timeout`.
    pub(super) async fn commit(
        &self,
        offsets: BTreeMap<TopicPartition, i64>,
        timeout: Duration,
        retries: u32,
    ) -> Result<(), CommitError> {
        self.commit_as(self.identity(), offsets, timeout, retries)
            .await
    }

    /// The same as whoever the member was when it was asked to.
    pub(super) async fn commit_as(
        &self,
        identity: Identity,
        offsets: BTreeMap<TopicPartition, i64>,
        timeout: Duration,
        retries: u32,
    ) -> Result<(), CommitError> {
        let Some(coordinator) = &self.coordinator else {
            return Err(CommitError::NoGroup);
        };
        if offsets.is_empty() {
            return Ok(());
        }
        if self.is_out_of_group(&identity) {
            return Err(CommitError::Refused(ErrorCode::UnknownMemberId));
        }
        let call = Call::Commit {
            group: coordinator.group.clone(),
            member: identity.member.clone(),
            generation: identity.generation,
            offsets: offsets.iter().map(|(at, to)| (at.clone(), *to)).collect(),
            reset: false,
        };
        let begun = self.client.now();
        // The last try begins in time and is answered or given up in its own.
        let bound = timeout
            + self.client.profile.request_timeout * 2
            + self.client.profile.connect_timeout * 2;
        let within_ms = u64::try_from(bound.as_millis()).unwrap_or(u64::MAX);
        let recorder = &self.client.recorder;
        let operation = recorder.begin(&self.client.id, call, Some(within_ms));
        let mut doubtful = false;
        let (mut tries, mut sent) = (0, 0);
        loop {
            let goes_out = || {
                sent += 1;
                operation.attempt(sent, None, None);
            };
            let answer = coordinator.commit(&identity, &offsets, goes_out).await;
            if matches!(&answer, Ok(refusals) if refusals.is_empty()) {
                operation.ok(Reply::Committed {
                    refused: Vec::new(),
                });
                self.state().positions.handle_commit(&offsets);
                return Ok(());
            }
            doubtful |= is_doubtful(&answer);
            let code = code(&answer);
            if let Some(code) = code {
                self.hear_refusal(identity.generation, code);
            }
            tries += 1;
            let over = self.client.now().saturating_since(begun) >= timeout || tries > retries;
            let helps = code.is_none_or(may_pass);
            if helps && !over {
                self.client.back_off(tries).await;
                continue;
            }
            let why = match &answer {
                Err(error) => failure(error),
                Ok(refusals) => refusal(refusals),
            };
            let partly = matches!(&answer, Ok(refusals) if refusals.len() < offsets.len());
            if doubtful || partly {
                operation.unknown(why);
                return Err(CommitError::Unknown);
            }
            operation.fail(why);
            return Err(code.map_or(CommitError::Unknown, CommitError::Refused));
        }
    }

    /// Leaves the group, under the protocol that the member has.
    pub(super) async fn leave(&self, coordinator: &Coordinator, identity: &Identity) {
        let consumer = matches!(self.state().membership, Some(Member::Consumer(_)));
        if consumer {
            // Nobody waits for more.
            let says = Says::default();
            let _ = coordinator.beat(identity, &says, &BTreeSet::new()).await;
        } else {
            coordinator.leave(identity).await;
        }
    }

    /// Whether it is a member that is out now, and has nothing to commit.
    fn is_out_of_group(&self, identity: &Identity) -> bool {
        match self.state().membership {
            Some(Member::Consumer(_)) => identity.generation <= 0,
            Some(Member::Classic(_)) => {
                identity.generation < 0 && !self.client.profile.group.commits_as_nobody
            }
            None => false,
        }
    }

    fn hear_refusal(&self, generation: i32, code: ErrorCode) {
        let now = self.client.now();
        if let Some(membership) = self.state().membership.as_mut() {
            membership.handle_commit_refused(now, generation, code);
        }
        self.ring();
    }
}

impl Identity {
    /// Whoever is no member.
    fn outside() -> Self {
        Self {
            member: Name::default(),
            generation: -1,
            instance: None,
        }
    }
}

/// Whether it may have been committed all the same. A coordinator that is not available now may have
/// written it and not heard so: Apache Kafka says the same of an append that timed out.
fn is_doubtful(answer: &Committed) -> bool {
    match answer {
        Err(error) => !error.has_no_effect(),
        Ok(refusals) => refusals.iter().any(|(_, code)| {
            matches!(
                code,
                ErrorCode::RequestTimedOut | ErrorCode::CoordinatorNotAvailable
            )
        }),
    }
}

fn code(answer: &Committed) -> Option<ErrorCode> {
    match answer {
        Err(error) => error.code(),
        Ok(refusals) => refusals.first().map(|(_, code)| *code),
    }
}

/// Whether the same commit may be accepted later. During a rebalance it may, and by then another
/// member may own the partition: applications poll first.
fn may_pass(code: ErrorCode) -> bool {
    code.retriable() && code != ErrorCode::RebalanceInProgress
}

fn refusal(refusals: &[(TopicPartition, ErrorCode)]) -> Failure {
    match refusals.first() {
        Some((at, code)) => Failure::code(code.code(), format!("{at}: {}", code.name())),
        None => Failure::here("no answer"),
    }
}

/// Whether a consumer may go on after `error`.
pub(super) fn is_passing(error: &CallError) -> bool {
    error.code().is_none_or(ErrorCode::retriable)
}
