//! A consumer: assigned its partitions, or a member of a group that shares them out.
//!
//! [`member`], [`assignor`], [`positions`] and [`fetch_session`] decide and know no network; two
//! tasks beside the application drive them: one keeps the membership, one reads. What the
//! application does it does in [`Consumer::poll`], as far as the profile's library does.

pub mod assignor;
pub(in crate::client) mod coordinator;
mod fetch_calls;
pub mod fetch_session;
mod fetch_task;
mod group_task;
pub mod member;
pub mod membership;
pub mod positions;
pub mod reconciler;
mod shared;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kafka_wire::ErrorCode;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, timeout_at};

use super::Client;
use super::cluster::Cluster;
use crate::history::{Call, Event, Isolation, Name, Polled, Promise, Reply, TopicPartition};
use coordinator::Coordinator;
use fetch_task::FetchTask;
use group_task::GroupTask;
use member::Member;
use membership::Identity;
use shared::Shared;

pub use positions::Start;
pub use shared::CommitError;

/// `auto.offset.reset`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reset {
    /// To the first offset that the log holds.
    #[default]
    Earliest,
    /// To the log's end.
    Latest,
    /// Not at all: the consumer is of no use any more.
    Fail,
}

/// What one consumer is told by its operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `group.id`.
    pub group: Option<Name>,
    /// `group.instance.id`: a static member (KIP-345).
    pub instance: Option<Name>,
    /// `auto.offset.reset`.
    pub reset: Reset,
    /// `enable.auto.commit`.
    pub auto_commit: bool,
    /// `isolation.level`.
    pub isolation: Isolation,
    /// `allow.auto.create.topics`.
    pub create_topics: bool,
    /// What may be demanded of what it gets.
    pub promises: Vec<Promise>,
}

/// The consumer is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("refused for good: {0:?}")]
pub struct Fatal(pub ErrorCode);

/// A running consumer. Dropping it ends it at once, as a crash does.
pub struct Consumer {
    shared: Arc<Shared>,
    tasks: Vec<AbortHandle>,
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("client", &self.shared.client.id)
            .finish_non_exhaustive()
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Consumer {
    /// A consumer of these partitions from `start` on. With a group it may commit; it is no member.
    pub fn assigned(
        client: Client,
        settings: Settings,
        partitions: impl IntoIterator<Item = TopicPartition>,
        start: Start,
    ) -> Self {
        client.introduce(settings.promises.clone());
        let partitions: BTreeSet<_> = partitions.into_iter().collect();
        let topics = partitions.iter().map(|at| at.topic.clone()).collect();
        client.record(Event::Assigned {
            group: Name::default(),
            member: Name::default(),
            generation: -1,
            partitions: partitions.iter().cloned().collect(),
        });
        let shared = Shared::new(client, settings, topics, None);
        shared.state().positions.add(partitions, start);
        let mut tasks = vec![tokio::spawn(FetchTask::new(Arc::clone(&shared)).run())];
        if shared.client.profile.group.finds_coordinator_at_once {
            let shared = Arc::clone(&shared);
            tasks.push(tokio::spawn(async move {
                if let Some(coordinator) = &shared.coordinator {
                    coordinator.meet().await;
                }
            }));
        }
        Self {
            shared,
            tasks: tasks.iter().map(JoinHandle::abort_handle).collect(),
        }
    }

    /// A member of the group in `settings`, for `topics`.
    pub fn subscribed(
        client: Client,
        settings: Settings,
        topics: impl IntoIterator<Item = Name>,
    ) -> Self {
        client.introduce(settings.promises.clone());
        let topics: BTreeSet<Name> = topics.into_iter().collect();
        client.record(Event::Subscribed {
            group: settings.group.clone().unwrap_or_default(),
            topics: topics.iter().cloned().collect(),
        });
        let membership = Member::new(&client, topics.clone(), settings.instance.clone());
        let shared = Shared::new(client, settings, topics, Some(membership));
        let reading = tokio::spawn(FetchTask::new(Arc::clone(&shared)).run());
        let belonging = tokio::spawn(GroupTask::new(Arc::clone(&shared)).run());
        Self {
            shared,
            tasks: vec![reading.abort_handle(), belonging.abort_handle()],
        }
    }

    /// Records, as soon as there are any, or none after `patience`. Whatever a rebalance demands of
    /// the application is done meanwhile, where the library does it there.
    ///
    /// # Errors
    ///
    /// [`Fatal`]: there will be no more.
    pub async fn poll(&self, patience: Duration) -> Result<Vec<Polled>, Fatal> {
        self.poll_in(patience, None).await
    }

    /// As [`poll`](Self::poll), for records that are processed in the client's transaction of this
    /// number.
    ///
    /// # Errors
    ///
    /// [`Fatal`]: there will be no more.
    pub async fn poll_in(
        &self,
        patience: Duration,
        transaction: Option<u64>,
    ) -> Result<Vec<Polled>, Fatal> {
        let _polling = Polling::begin(&self.shared);
        let until = Instant::now() + patience;
        let mut bell = self.shared.listen();
        loop {
            bell.mark_unchanged();
            self.do_duties().await;
            if let Some(code) = self.shared.state().fatal {
                return Err(Fatal(code));
            }
            self.auto_commit();
            let max = self.shared.client.profile.consumer.max_poll_records;
            let polled = self.shared.take(max.unwrap_or(usize::MAX));
            if !polled.is_empty() {
                let call = Call::Poll {
                    isolation: self.shared.settings.isolation,
                    transaction,
                };
                let client = &self.shared.client;
                let operation = client.recorder.begin(&client.id, call, None);
                operation.ok(Reply::Polled(polled.clone()));
                // There is room for more.
                self.shared.ring();
                return Ok(polled);
            }
            match timeout_at(until, bell.changed()).await {
                Ok(Ok(())) => {}
                // Its time is over, or nothing will ever ring again.
                Ok(Err(_)) | Err(_) => return Ok(Vec::new()),
            }
        }
    }

    /// What the membership demands of the application.
    async fn do_duties(&self) {
        loop {
            let duty = self.shared.state().duties.pop_front();
            let Some((duty, identity)) = duty else {
                return;
            };
            self.shared.perform(duty, &identity).await;
        }
    }

    /// Commits by itself what was handed out before this poll, when its time has come.
    fn auto_commit(&self) {
        if !self.shared.settings.auto_commit {
            return;
        }
        let now = self.shared.client.now();
        let offsets = {
            let mut state = self.shared.state();
            if state.auto_commit_at > now {
                return;
            }
            state.auto_commit_at = now + self.shared.client.profile.group.auto_commit_interval;
            state.positions.uncommitted(None)
        };
        self.spawn_commit(offsets);
    }

    fn spawn_commit(&self, offsets: BTreeMap<TopicPartition, i64>) {
        let shared = Arc::clone(&self.shared);
        let rules = shared.client.profile.group;
        let identity = shared.identity();
        tokio::spawn(async move {
            let timeout = shared.client.profile.request_timeout * 2;
            let _in_turn = shared.committing.lock().await;
            // Whoever wants to know commits and waits.
            let _ = shared
                .commit_as(identity, offsets, timeout, rules.async_commit_retries)
                .await;
        });
    }

    /// Commits the positions that differ from what is committed, and waits; tries again while that
    /// may help.
    ///
    /// # Errors
    ///
    /// [`CommitError`].
    pub async fn commit(&self) -> Result<(), CommitError> {
        let offsets = self.shared.state().positions.uncommitted(None);
        let timeout = self.shared.client.profile.request_timeout * 2;
        self.shared.commit(offsets, timeout, u32::MAX).await
    }

    /// Commits the positions and doesn't wait.
    pub fn commit_async(&self) {
        let offsets = self.shared.state().positions.uncommitted(None);
        self.spawn_commit(offsets);
    }

    /// The committed offsets of `partitions` in `group`, as somebody outside is told them; asked for
    /// until they are.
    pub async fn committed(
        client: Client,
        group: Name,
        partitions: &[TopicPartition],
    ) -> BTreeMap<TopicPartition, Option<i64>> {
        let coordinator = Coordinator::new(Cluster::new(client.clone()), group);
        let mut failures = 0;
        loop {
            match coordinator.committed(partitions).await {
                Ok(offsets) => return offsets,
                Err(_) => failures += 1,
            }
            client.back_off(failures).await;
        }
    }

    /// Goes to `offset` in `at`.
    pub fn seek(&self, at: &TopicPartition, offset: i64) {
        if self.shared.state().positions.seek(at, offset) {
            let at = at.clone();
            self.shared.client.record(Event::Seek { at, offset });
        }
        self.shared.ring();
    }

    /// Goes back to the committed offsets in every partition: what was handed out since is handed
    /// out again.
    pub fn rewind(&self) {
        self.shared.state().positions.rewind();
        self.shared.ring();
    }

    /// Who it is in its group now (KIP-447); nobody in particular for one that assigned itself.
    pub fn identity(&self) -> Identity {
        self.shared.identity()
    }

    /// Stops reading `at`, without giving it up.
    pub fn pause(&self, at: &TopicPartition) {
        self.shared.state().positions.pause(at);
    }

    /// Goes on reading `at`.
    pub fn resume(&self, at: &TopicPartition) {
        self.shared.state().positions.resume(at);
        self.shared.ring();
    }

    /// What it reads now.
    pub fn assignment(&self) -> BTreeSet<TopicPartition> {
        self.shared.state().positions.all()
    }

    /// The next offset of `at` that it hands out, once that is known.
    pub fn position(&self, at: &TopicPartition) -> Option<i64> {
        self.shared.state().positions.position(at)
    }

    /// Whether it is in a generation and has its share.
    pub fn is_stable(&self) -> bool {
        self.witness().standing().is_some()
    }

    /// Somebody who sees where it stands at any time.
    pub fn witness(&self) -> Witness {
        Witness(Arc::clone(&self.shared))
    }

    /// Ends in good order: commits where it commits by itself, gives its partitions back, and leaves
    /// its group unless it is a static member.
    pub async fn close(self) {
        self.do_duties().await;
        if self.shared.settings.auto_commit {
            // What isn't committed is read again.
            let _ = self.commit().await;
        }
        for task in &self.tasks {
            task.abort();
        }
        let leave = {
            let mut state = self.shared.state();
            let now = self.shared.client.now();
            let Some(membership) = state.membership.as_mut() else {
                return;
            };
            let identity = membership.identity().clone();
            let owned = membership.owned().clone();
            membership.close();
            let leave = membership.poll_ask(now, false, false);
            state.positions.remove(&owned);
            drop(state);
            if !owned.is_empty() {
                self.shared.client.record(Event::Revoked {
                    group: self.shared.settings.group.clone().unwrap_or_default(),
                    member: identity.member,
                    generation: identity.generation,
                    partitions: owned.into_iter().collect(),
                });
            }
            leave
        };
        if let (Some(membership::Ask::Leave { identity }), Some(coordinator)) =
            (leave, &self.shared.coordinator)
        {
            self.shared.leave(coordinator, &identity).await;
        }
        self.shared.cluster.close().await;
    }
}

/// Sees where a consumer stands.
#[derive(Clone)]
pub struct Witness(Arc<Shared>);

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Witness")
            .field("client", &self.0.client.id)
            .finish_non_exhaustive()
    }
}

/// Where a stable member stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its generation, or its epoch.
    pub generation: i32,
    /// What it reads.
    pub owned: BTreeSet<TopicPartition>,
}

impl Witness {
    /// Where the member stands, while it is in a generation and has its share.
    pub fn standing(&self) -> Option<Standing> {
        let state = self.0.state();
        let member = state.membership.as_ref()?;
        let stable = member.is_stable() && state.duties.is_empty();
        stable.then(|| Standing {
            generation: member.identity().generation,
            owned: state.positions.all(),
        })
    }
}

/// As long as it lives, the application polls.
struct Polling<'s>(&'s Shared);

impl<'s> Polling<'s> {
    fn begin(shared: &'s Shared) -> Self {
        let now = shared.client.now();
        {
            let mut state = shared.state();
            state.polling = true;
            if let Some(membership) = state.membership.as_mut() {
                membership.handle_poll(now);
            }
        }
        shared.ring();
        Self(shared)
    }
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.polling = false;
        let now = self.0.client.now();
        if let Some(membership) = state.membership.as_mut() {
            membership.handle_poll(now);
        }
    }
}
