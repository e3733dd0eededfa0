//! The registry of consumer groups: one task per group around `coordinator::classic` or
//! `coordinator::consumer`.
//!
//! A handler asks a group by message and waits for its answer; a call whose connection dies is
//! withdrawn by dropping its future. Touches Queen only through [`Offsets`], and only for commits:
//! the group decides on a commit and queues it in one step, so that commits are stored in the order
//! in which the group accepted them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coordinator::classic::{
    self, CallToken, GroupError, JoinRefusal, JoinRequest, Joined, LeavingMember, MemberId,
    MemberRef, SyncRequest, Synced,
};
use coordinator::consumer::{self, Epoch, HeartbeatRequest, HeartbeatResponse, Topics};
use host::metrics::Registry;
use host::sampled::Sampler;
use host::shutdown::{Phase, Shutdown};
use host::{Clock, Host};
use kafka_wire::ErrorCode;
use tokio::sync::{mpsc, oneshot};

use crate::catalogue::View;
use crate::cluster::Cluster;
use crate::config::GroupConfig;
use crate::offsets::{Commit, Offsets, Receipt};
use crate::queen::Scope;

mod core;
mod log;
mod memory;
mod metrics;
mod name;
mod owned;
mod task;
#[cfg(test)]
mod tests;
mod topics;

pub use self::core::{Committer, Description, GroupType, Overview};
pub use memory::{MAX_ALL_GROUPS_BYTES, MAX_MEMBER_BYTES};
pub use name::{GroupName, InvalidGroupId, MAX_GROUP_ID_CHARS};
pub use owned::{Refused, owned};

use self::core::Settings;
use memory::{Memory, OnItsWay};
use metrics::Metrics;
use task::{Command, Task};
use topics::Readings;

/// Groups of one process; a new one past it is refused `COORDINATOR_NOT_AVAILABLE`.
pub const MAX_GROUPS: usize = 10_000;
/// `group.max.size`. Kafka has no bound by default; here the roster of a full group still fits a
/// frame, and one group can't hold all memory.
pub const MAX_GROUP_SIZE: usize = 10_000;
/// Metadata, and assignments, that one group may hold: what fits into one request frame three times.
const MAX_GROUP_BYTES: usize = 32 << 20;
/// Longer rebalance timeouts are shortened to this.
const MAX_REBALANCE_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Commands that may wait for a group; further callers wait for their turn.
const QUEUE: usize = 512;
/// How often a command is sent again when it met a group that was just ending.
const ATTEMPTS: usize = 3;

/// A commit that its group let pass.
#[derive(Debug)]
pub struct Accepted {
    /// For each change, whether the member owned its partition; the others were not queued, and are
    /// stale.
    pub own: Vec<bool>,
    /// Comes in for those that were queued, in order.
    pub receipt: Receipt,
}

/// Why a group could not be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unasked {
    /// It is not live here.
    Absent,
    /// It cannot be made: too many groups, or the node drains.
    Refused,
}

/// The groups of every tenant of this process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Groups {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    clock: Arc<dyn Clock>,
    offsets: Offsets,
    shutdown: Shutdown,
    /// `None` outside cluster mode.
    cluster: Option<Cluster>,
    settings: Settings,
    topics: Readings,
    entries: Mutex<BTreeMap<GroupName, Entry>>,
    calls: AtomicU64,
    clamped: Sampler,
    warnings: Sampler,
    /// One for the lines of all groups: a peer makes new groups at will.
    lines: Arc<Sampler>,
    metrics: Metrics,
    memory: Memory,
}

/// The way to a group's task.
#[derive(Clone, Debug)]
struct Entry {
    commands: mpsc::Sender<Command>,
    /// Unbounded, because dropping a future can't wait; at most one for each call made.
    abandoned: mpsc::UnboundedSender<CallToken>,
    overview: Arc<Mutex<Overview>>,
}

/// Withdraws a call when its future is dropped before the answer.
struct Waiting<'a> {
    token: CallToken,
    entry: &'a Entry,
    answered: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.answered {
            // The task may be gone, and the call with it.
            let _ = self.entry.abandoned.send(self.token);
        }
    }
}

impl Groups {
    /// No groups yet.
    pub fn new(
        host: &Host,
        config: &GroupConfig,
        offsets: Offsets,
        shutdown: Shutdown,
        registry: &Registry,
        cluster: Option<Cluster>,
    ) -> Self {
        let classic = classic::Settings {
            initial_rebalance_delay: config.initial_rebalance_delay,
            min_session_timeout: config.min_session_timeout,
            max_session_timeout: config.max_session_timeout,
            max_rebalance_timeout: MAX_REBALANCE_TIMEOUT,
            max_size: MAX_GROUP_SIZE,
            max_metadata_bytes: MAX_GROUP_BYTES,
            max_assignment_bytes: MAX_GROUP_BYTES,
        };
        let consumer = consumer::Settings {
            session_timeout: config.consumer_session_timeout,
            heartbeat_interval: config.consumer_heartbeat_interval,
            max_rebalance_timeout: MAX_REBALANCE_TIMEOUT,
            max_size: MAX_GROUP_SIZE,
            max_metadata_bytes: MAX_GROUP_BYTES,
            migration_policy: config.migration_policy,
            ..consumer::Settings::default()
        };
        let metrics = Metrics::new(registry);
        Self {
            inner: Arc::new(Inner {
                memory: Memory::new(metrics.bytes.clone()),
                clock: Arc::clone(&host.clock),
                offsets,
                shutdown,
                cluster,
                settings: Settings { classic, consumer },
                topics: Readings::default(),
                entries: Mutex::default(),
                calls: AtomicU64::new(0),
                clamped: Sampler::default(),
                warnings: Sampler::default(),
                lines: Arc::new(Sampler::new(log::WINDOW_OF_ALL)),
                metrics,
            }),
        }
    }

    /// The topics of a tenant for its consumer groups; `None` when they can't be told now.
    pub fn topics(&self, scope: &Scope, view: &View) -> Option<Arc<Topics>> {
        self.inner.topics.of(scope, view)
    }

    /// The type of a live group.
    pub fn group_type(&self, name: &GroupName) -> Option<GroupType> {
        let entry = self.entry(name, false).ok()?;
        Some(entry.overview().group_type)
    }

    /// ConsumerGroupHeartbeat. A member of a group that is not live here is told to join, whatever
    /// Kafka's code for an unknown group: groups live in memory, and clients end at that code.
    ///
    /// # Errors
    ///
    /// [`consumer::Error`].
    pub async fn consumer_heartbeat(
        &self,
        name: &GroupName,
        request: HeartbeatRequest,
        topics: Option<Arc<Topics>>,
    ) -> Result<HeartbeatResponse, consumer::Error> {
        request.validate()?;
        let bytes = request.held_bytes();
        if bytes > MAX_MEMBER_BYTES {
            return Err(consumer::Error::GroupMaxSizeReached);
        }
        // Until the group counts it.
        let _on_its_way = self
            .admit(bytes)
            .ok_or(consumer::Error::CoordinatorNotAvailable)?;
        let create = request.member_epoch == Epoch::JOIN;
        let request = Arc::new(request);
        let asked = self.ask_or_create(name, create, |reply| {
            Command::ConsumerHeartbeat(Arc::clone(&request), topics.clone(), reply)
        });
        match asked.await {
            Ok(answer) => answer,
            Err(Unasked::Absent) => Err(consumer::Error::UnknownMemberId),
            Err(Unasked::Refused) => Err(consumer::Error::CoordinatorNotAvailable),
        }
    }

    /// JoinGroup. Waits until the group has decided. `topics` are for a consumer group.
    ///
    /// # Errors
    ///
    /// [`JoinRefusal`]; `CoordinatorNotAvailable` also when there is no room for another group, or
    /// all groups together hold too much; `GroupMaxSizeReached` also for a member larger than
    /// [`MAX_MEMBER_BYTES`].
    pub async fn join(
        &self,
        name: &GroupName,
        request: JoinRequest,
        topics: Option<Arc<Topics>>,
    ) -> Result<Joined, JoinRefusal> {
        self.warn_of_clamp(name, &request);
        let first = request.member_id.is_unknown();
        let member_id = request.member_id.clone();
        let refusal = |error| JoinRefusal { error, member_id };
        let bytes = request.held_bytes();
        if bytes > MAX_MEMBER_BYTES {
            return Err(refusal(GroupError::GroupMaxSizeReached));
        }
        let Some(on_its_way) = self.admit(bytes).map(OnItsWay::new) else {
            return Err(refusal(GroupError::CoordinatorNotAvailable));
        };
        let asked = self.call(name, first, |token, reply| {
            let request = Box::new(request.clone());
            Command::Join(token, request, topics.clone(), reply, on_its_way.clone())
        });
        match asked.await {
            Ok(answer) => answer,
            Err(Unasked::Absent) => Err(refusal(GroupError::UnknownMemberId)),
            Err(Unasked::Refused) => Err(refusal(GroupError::CoordinatorNotAvailable)),
        }
    }

    fn warn_of_clamp(&self, name: &GroupName, request: &JoinRequest) {
        if request.rebalance_timeout <= MAX_REBALANCE_TIMEOUT {
            return;
        }
        if let Some(suppressed) = self.inner.clamped.pass(self.inner.clock.monotonic()) {
            tracing::warn!(
                group = ?name.id, client_id = ?request.client_id, suppressed,
                asked = ?request.rebalance_timeout, used = ?MAX_REBALANCE_TIMEOUT,
                "a rebalance timeout was shortened",
            );
        }
    }

    fn admit(&self, bytes: usize) -> Option<memory::Held> {
        let admitted = self.inner.memory.admit(bytes);
        if admitted.is_none() {
            self.inner.metrics.crowded.inc();
        }
        admitted
    }

    /// SyncGroup. Waits until the leader has assigned.
    ///
    /// # Errors
    ///
    /// [`GroupError`]; `CoordinatorNotAvailable` also when all groups together hold too much.
    pub async fn sync(&self, name: &GroupName, request: SyncRequest) -> Result<Synced, GroupError> {
        let assigned = request.assignments.iter();
        let bytes = assigned.map(|(_, assignment)| assignment.len()).sum();
        let Some(_on_its_way) = self.admit(bytes) else {
            return Err(GroupError::CoordinatorNotAvailable);
        };
        let asked = self.call(name, false, |token, reply| {
            let request = Box::new(request.clone());
            Command::Sync(token, request, reply)
        });
        asked
            .await
            .unwrap_or_else(|unasked| Err(unasked.of_member()))
    }

    /// Heartbeat. `topics` are for a consumer group.
    ///
    /// # Errors
    ///
    /// [`GroupError`].
    pub async fn heartbeat(
        &self,
        name: &GroupName,
        member: MemberRef,
        topics: Option<Arc<Topics>>,
    ) -> Result<(), GroupError> {
        let asked = self.ask(name, |reply| {
            Command::Heartbeat(member.clone(), topics.clone(), reply)
        });
        asked
            .await
            .unwrap_or_else(|unasked| Err(unasked.of_member()))
    }

    /// LeaveGroup: one verdict for each member.
    ///
    /// # Errors
    ///
    /// [`GroupError`] for the whole request.
    pub async fn leave(
        &self,
        name: &GroupName,
        members: Vec<LeavingMember>,
    ) -> Result<Vec<Result<(), GroupError>>, GroupError> {
        let asked = self.ask(name, |reply| Command::Leave(members.clone(), reply));
        match asked.await {
            Ok(verdicts) => verdicts,
            Err(Unasked::Absent) => Ok(vec![Err(GroupError::UnknownMemberId); members.len()]),
            Err(Unasked::Refused) => Err(GroupError::CoordinatorNotAvailable),
        }
    }

    /// OffsetCommit: queues what `committer` may commit now. A group that is not live here accepts
    /// only those that store offsets without being members.
    ///
    /// # Errors
    ///
    /// The code for every partition; then nothing was queued.
    pub async fn commit(
        &self,
        name: &GroupName,
        committer: Committer,
        commit: Commit,
    ) -> Result<Accepted, ErrorCode> {
        let asked = self.ask(name, |reply| {
            let committer = Box::new(committer.clone());
            Command::Commit(committer, Box::new(commit.clone()), reply)
        });
        match asked.await {
            Ok(accepted) => accepted,
            Err(Unasked::Absent) if committer.member.generation_id.0 < 0 => Ok(Accepted {
                own: vec![true; commit.changes.len()],
                receipt: self.inner.offsets.commit(commit),
            }),
            // The member is to join again; older clients do so at this code.
            Err(Unasked::Absent) if committer.knows_epochs => Err(ErrorCode::UnknownMemberId),
            Err(Unasked::Absent) => Err(ErrorCode::IllegalGeneration),
            Err(Unasked::Refused) => Err(ErrorCode::CoordinatorNotAvailable),
        }
    }

    /// OffsetFetch 9+: whether this member may read offsets now.
    ///
    /// # Errors
    ///
    /// The code for the whole group.
    pub async fn validate_fetch(
        &self,
        name: &GroupName,
        member: Option<MemberId>,
        epoch: Epoch,
    ) -> Result<(), ErrorCode> {
        let asked = self.ask(name, |reply| {
            Command::ValidateFetch(member.clone(), epoch, reply)
        });
        match asked.await {
            Ok(verdict) => verdict,
            Err(Unasked::Absent) if epoch < Epoch::JOIN => Ok(()),
            Err(Unasked::Absent) => Err(ErrorCode::UnknownMemberId),
            Err(Unasked::Refused) => Err(ErrorCode::CoordinatorNotAvailable),
        }
    }

    /// For TxnOffsetCommit: whether `member` may commit offsets in a transaction now.
    ///
    /// # Errors
    ///
    /// The code for the whole group.
    pub async fn may_commit_in_transaction(
        &self,
        name: &GroupName,
        member: MemberRef,
    ) -> Result<(), ErrorCode> {
        let asked = self.ask(name, |reply| {
            Command::CommitInTransaction(member.clone(), reply)
        });
        match asked.await {
            Ok(verdict) => verdict,
            Err(Unasked::Absent) if member.generation_id.0 < 0 => Ok(()),
            Err(Unasked::Absent) => Err(ErrorCode::IllegalGeneration),
            Err(Unasked::Refused) => Err(ErrorCode::CoordinatorNotAvailable),
        }
    }

    /// For OffsetDelete: for each topic, whether a live member subscribes to it. `None` when the
    /// group is not live here.
    ///
    /// # Errors
    ///
    /// [`GroupError`]: no offset of the group may be deleted now.
    pub async fn subscriptions(
        &self,
        name: &GroupName,
        topics: Vec<String>,
    ) -> Option<Result<Vec<bool>, GroupError>> {
        let asked = self.ask(name, |reply| Command::Subscriptions(topics.clone(), reply));
        match asked.await {
            Ok(subscriptions) => Some(subscriptions),
            Err(Unasked::Absent) => None,
            Err(Unasked::Refused) => Some(Err(GroupError::CoordinatorNotAvailable)),
        }
    }

    /// For DescribeGroups and ConsumerGroupDescribe; `None` when the group is not live here.
    pub async fn describe(&self, name: &GroupName) -> Option<Description> {
        self.ask(name, Command::Describe).await.ok()
    }

    /// For DeleteGroups; `None` when the group is not live here.
    ///
    /// # Errors
    ///
    /// [`GroupError::NonEmptyGroup`].
    pub async fn delete(&self, name: &GroupName) -> Option<Result<(), GroupError>> {
        match self.ask(name, Command::Delete).await {
            Ok(verdict) => Some(verdict),
            Err(Unasked::Absent) => None,
            Err(Unasked::Refused) => Some(Err(GroupError::CoordinatorNotAvailable)),
        }
    }

    /// The live groups of a tenant, in order of their ids.
    pub fn list(&self, scope: &Scope) -> Vec<(Arc<str>, Overview)> {
        let from = GroupName {
            scope: scope.clone(),
            id: "".into(),
        };
        self.inner
            .lock()
            .range(from..)
            .take_while(|(name, _)| name.scope == *scope)
            .map(|(name, entry)| (Arc::clone(&name.id), entry.overview()))
            .collect()
    }

    /// Whether a failure of the offset APIs may be logged now: the number of lines left out before.
    /// Their answers have no place for a reason, and every consumer meets the same failure.
    pub fn may_warn(&self) -> Option<u64> {
        self.inner.warnings.pass(self.inner.clock.monotonic())
    }

    /// Asks a live group.
    async fn ask<R>(
        &self,
        name: &GroupName,
        command: impl Fn(oneshot::Sender<R>) -> Command,
    ) -> Result<R, Unasked> {
        self.ask_or_create(name, false, command).await
    }

    /// Asks a group, which is made when it is not live and `create` allows it.
    async fn ask_or_create<R>(
        &self,
        name: &GroupName,
        create: bool,
        command: impl Fn(oneshot::Sender<R>) -> Command,
    ) -> Result<R, Unasked> {
        for _ in 0..ATTEMPTS {
            let entry = self.entry(name, create)?;
            let (reply, answer) = oneshot::channel();
            if entry.commands.send(command(reply)).await.is_ok()
                && let Ok(answer) = answer.await
            {
                return Ok(answer);
            }
            // It ended in between: the next look finds another, or none.
        }
        Err(Unasked::Refused)
    }

    /// Makes a call that may wait; it is withdrawn when this future is dropped.
    async fn call<R>(
        &self,
        name: &GroupName,
        create: bool,
        command: impl Fn(CallToken, oneshot::Sender<R>) -> Command,
    ) -> Result<R, Unasked> {
        for _ in 0..ATTEMPTS {
            let entry = self.entry(name, create)?;
            let token = CallToken(self.inner.calls.fetch_add(1, Ordering::Relaxed));
            let (reply, answer) = oneshot::channel();
            if entry.commands.send(command(token, reply)).await.is_err() {
                continue;
            }
            let mut waiting = Waiting {
                token,
                entry: &entry,
                answered: false,
            };
            let answer = answer.await;
            waiting.answered = true;
            if let Ok(answer) = answer {
                return Ok(answer);
            }
        }
        Err(Unasked::Refused)
    }

    fn entry(&self, name: &GroupName, create: bool) -> Result<Entry, Unasked> {
        let inner = &self.inner;
        let mut entries = inner.lock();
        if let Some(entry) = entries.get(name) {
            return Ok(entry.clone());
        }
        if !create {
            return Err(Unasked::Absent);
        }
        if entries.len() >= MAX_GROUPS || inner.shutdown.phase() != Phase::Running {
            inner.metrics.refused.inc();
            return Err(Unasked::Refused);
        }
        let (commands, queue) = mpsc::channel(QUEUE);
        let (abandoned, withdrawals) = mpsc::unbounded_channel();
        let task = Task::new(Arc::clone(inner), name.clone(), queue, withdrawals);
        let entry = Entry {
            commands,
            abandoned,
            overview: task.overview(),
        };
        entries.insert(name.clone(), entry.clone());
        inner.metrics.groups.add(1);
        tokio::spawn(task.run());
        Ok(entry)
    }
}

impl Unasked {
    /// What a member hears.
    fn of_member(self) -> GroupError {
        match self {
            Self::Absent => GroupError::UnknownMemberId,
            Self::Refused => GroupError::CoordinatorNotAvailable,
        }
    }
}

impl Entry {
    fn overview(&self) -> Overview {
        let overview = self.overview.lock().unwrap_or_else(PoisonError::into_inner);
        overview.clone()
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<GroupName, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a group out of the registry. Commands that still reach its queue go unanswered, which
    /// makes their callers look again.
    fn forget(&self, name: &GroupName) {
        if self.lock().remove(name).is_some() {
            self.metrics.groups.add(-1);
        }
    }
}
