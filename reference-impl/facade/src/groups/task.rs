//! The task that owns one group.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coordinator::classic::{
    self, CallToken, GroupError, JoinRequest, LeavingMember, MemberId, MemberRef, Note, SyncRequest,
};
use coordinator::cluster::rendezvous::Item;
use coordinator::consumer::{self, Epoch, HeartbeatRequest, HeartbeatResponse, Topics};
use host::Monotonic;
use kafka_wire::ErrorCode;
use tokio::sync::{mpsc, oneshot, watch};

use super::core::{Committer, Core, Description, Effect, JoinAnswer, Overview, SyncAnswer};
use super::log::Log;
use super::memory::{Held, OnItsWay};
use super::{Accepted, GroupName, Inner};
use crate::cluster::{Cluster, Ownership};
use crate::offsets::Commit;

/// How long an empty group is kept.
const IDLE: Duration = Duration::from_secs(300);

type Reply<R> = oneshot::Sender<R>;

/// What a group is asked. A reply that is dropped unsent means that the group ended first.
pub(super) enum Command {
    ConsumerHeartbeat(
        Arc<HeartbeatRequest>,
        Option<Arc<Topics>>,
        Reply<Result<HeartbeatResponse, consumer::Error>>,
    ),
    Join(
        CallToken,
        Box<JoinRequest>,
        Option<Arc<Topics>>,
        Reply<JoinAnswer>,
        OnItsWay,
    ),
    Sync(CallToken, Box<SyncRequest>, Reply<SyncAnswer>),
    Heartbeat(
        MemberRef,
        Option<Arc<Topics>>,
        Reply<Result<(), GroupError>>,
    ),
    Leave(
        Vec<LeavingMember>,
        Reply<Result<Vec<Result<(), GroupError>>, GroupError>>,
    ),
    Commit(
        Box<Committer>,
        Box<Commit>,
        Reply<Result<Accepted, ErrorCode>>,
    ),
    ValidateFetch(Option<MemberId>, Epoch, Reply<Result<(), ErrorCode>>),
    CommitInTransaction(MemberRef, Reply<Result<(), ErrorCode>>),
    Subscriptions(Vec<String>, Reply<Result<Vec<bool>, GroupError>>),
    Describe(Reply<Description>),
    Delete(Reply<Result<(), GroupError>>),
}

/// A call whose answer is an effect.
enum Waiter {
    Join(Reply<JoinAnswer>),
    Sync(Reply<SyncAnswer>),
}

pub(super) struct Task {
    inner: Arc<Inner>,
    name: GroupName,
    core: Core,
    commands: mpsc::Receiver<Command>,
    abandoned: mpsc::UnboundedReceiver<CallToken>,
    waiting: BTreeMap<CallToken, Waiter>,
    overview: Arc<Mutex<Overview>>,
    published: Overview,
    idle_since: Option<Monotonic>,
    log: Log,
    /// What the members hold, in the count of all groups.
    held: Held,
}

/// Also when the task panics: the next caller gets a new group, and members join again.
impl Drop for Task {
    fn drop(&mut self) {
        self.inner.forget(&self.name);
        self.inner
            .metrics
            .members
            .add(-i64::try_from(self.published.members).unwrap_or(0));
        self.commands.close();
    }
}

/// Ends when ownership may have moved, which it never does outside a cluster.
async fn moved(moves: &mut Option<watch::Receiver<u64>>) {
    if let Some(moves) = moves
        && moves.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

impl Task {
    pub(super) fn new(
        inner: Arc<Inner>,
        name: GroupName,
        commands: mpsc::Receiver<Command>,
        abandoned: mpsc::UnboundedReceiver<CallToken>,
    ) -> Self {
        let core = Core::new(inner.settings);
        let published = core.overview();
        Self {
            held: inner.memory.group(),
            log: Log::new(Arc::clone(&name.id), Arc::clone(&inner.lines)),
            overview: Arc::new(Mutex::new(published.clone())),
            published,
            core,
            inner,
            name,
            commands,
            abandoned,
            waiting: BTreeMap::new(),
            idle_since: None,
        }
    }

    pub(super) fn overview(&self) -> Arc<Mutex<Overview>> {
        Arc::clone(&self.overview)
    }

    pub(super) async fn run(mut self) {
        let shutdown = self.inner.shutdown.clone();
        let mut draining = pin!(shutdown.draining());
        let mut closed = pin!(shutdown.closed());
        let mut stopping = false;
        let mut moves = self.inner.cluster.as_ref().map(Cluster::changes);
        // The first command is on its way, unless its caller gave up in between.
        let first = tokio::time::timeout(IDLE, self.commands.recv()).await;
        let mut next = first.ok().flatten();
        while let Some(command) = next.take() {
            self.handle(command);
            // Timers run between commands too: a busy group must not starve them.
            while let Some(wait) = self.settle() {
                tokio::select! {
                    biased;
                    () = &mut draining, if !stopping => {
                        stopping = true;
                        self.core.stop(self.now());
                    }
                    () = &mut closed => return,
                    () = moved(&mut moves) => {
                        if self.is_theirs() {
                            // Members that wait hear of it now; the others at their next request.
                            self.core.stop(self.now());
                            self.settle();
                            return;
                        }
                    }
                    Some(token) = self.abandoned.recv() => {
                        self.waiting.remove(&token);
                        self.core.abandoned(self.now(), token);
                    }
                    command = self.commands.recv() => {
                        next = command;
                        break;
                    }
                    () = tokio::time::sleep(wait) => {}
                }
            }
        }
    }

    /// Whether another node owns the group now.
    fn is_theirs(&self) -> bool {
        let cluster = self.inner.cluster.as_ref();
        cluster.is_some_and(|cluster| {
            cluster.ownership(Item::Group(&self.name.id)) == Ownership::Theirs
        })
    }

    fn now(&self) -> Monotonic {
        self.inner.clock.monotonic()
    }

    /// Runs what is due, delivers what was decided, and says how long there is nothing to do;
    /// `None` when the group has ended.
    fn settle(&mut self) -> Option<Duration> {
        let now = self.now();
        self.core.timeout(now);
        self.held.set(self.core.held_bytes());
        self.deliver();
        self.publish();
        let idle_ends = self.idle_ends(now);
        if idle_ends.is_some_and(|end| end <= now) {
            return None;
        }
        let due = [idle_ends, self.core.next_deadline()]
            .into_iter()
            .flatten()
            .min();
        // Something always ends: a parked call, a session, or the wait of an empty group.
        Some(due.map_or(IDLE, |due| due.saturating_since(now)))
    }

    /// When an idle group is forgotten. One that never had a generation has nothing to remember.
    fn idle_ends(&mut self, now: Monotonic) -> Option<Monotonic> {
        if !self.core.is_idle() {
            self.idle_since = None;
            return None;
        }
        let since = *self.idle_since.get_or_insert(now);
        if self.core.is_disposable() {
            return Some(now);
        }
        Some(since + IDLE)
    }

    fn deliver(&mut self) {
        while let Some(effect) = self.core.poll_effect() {
            // Nobody listens when the connection is gone; its withdrawal is on the way.
            match effect {
                Effect::Classic(effect) => self.deliver_classic(effect),
                Effect::Consumer(note) => {
                    if let consumer::Note::EpochBumped { .. } = note {
                        self.inner.metrics.rebalances.inc();
                    }
                    let now = self.inner.clock.monotonic();
                    self.log.consumer_note(now, note);
                }
                Effect::Turned(to) => {
                    let now = self.inner.clock.monotonic();
                    self.log.turned(now, to);
                }
            }
        }
    }

    fn deliver_classic(&mut self, effect: classic::Effect) {
        match effect {
            classic::Effect::Join(token, answer) => {
                if let Some(Waiter::Join(reply)) = self.waiting.remove(&token) {
                    let _ = reply.send(answer);
                }
            }
            classic::Effect::Sync(token, answer) => {
                if let Some(Waiter::Sync(reply)) = self.waiting.remove(&token) {
                    let _ = reply.send(answer);
                }
            }
            classic::Effect::Note(note) => {
                if let Note::PreparingRebalance { .. } = note {
                    self.inner.metrics.rebalances.inc();
                }
                let now = self.inner.clock.monotonic();
                self.log.note(now, note);
            }
        }
    }

    fn publish(&mut self) {
        let overview = self.core.overview();
        if overview == self.published {
            return;
        }
        let count = |members: usize| i64::try_from(members).unwrap_or(i64::MAX);
        let change = count(overview.members) - count(self.published.members);
        self.inner.metrics.members.add(change);
        *self.overview.lock().unwrap_or_else(PoisonError::into_inner) = overview.clone();
        self.published = overview;
    }

    fn handle(&mut self, command: Command) {
        let now = self.now();
        match command {
            Command::ConsumerHeartbeat(request, topics, reply) => {
                let topics = topics.as_ref();
                let answer = self.core.consumer_heartbeat(now, &request, topics);
                self.held.set(self.core.held_bytes());
                let _ = reply.send(answer);
            }
            Command::Join(token, request, topics, reply, on_its_way) => {
                // Withdrawn before it was looked at: its withdrawal may have come first.
                if !reply.is_closed() {
                    self.waiting.insert(token, Waiter::Join(reply));
                    self.core.join(now, *request, topics.as_ref(), token);
                    self.held.set(self.core.held_bytes());
                }
                on_its_way.has_arrived();
            }
            Command::Sync(token, request, reply) => {
                if !reply.is_closed() {
                    self.waiting.insert(token, Waiter::Sync(reply));
                    self.core.sync(now, *request, token);
                }
            }
            Command::Heartbeat(member, topics, reply) => {
                let _ = reply.send(self.core.heartbeat(now, &member, topics.as_ref()));
            }
            Command::Leave(members, reply) => {
                let _ = reply.send(self.core.leave(now, &members));
            }
            Command::Commit(committer, commit, reply) => {
                let _ = reply.send(self.commit(now, &committer, *commit));
            }
            Command::ValidateFetch(member, epoch, reply) => {
                let _ = reply.send(self.core.validate_fetch(member.as_ref(), epoch));
            }
            Command::CommitInTransaction(member, reply) => {
                let verdict = self.core.validate_commit_in_transaction(now, &member);
                let _ = reply.send(verdict);
            }
            Command::Subscriptions(topics, reply) => {
                let _ = reply.send(self.core.subscriptions(&topics));
            }
            Command::Describe(reply) => {
                let _ = reply.send(self.core.describe());
            }
            Command::Delete(reply) => {
                let _ = reply.send(self.core.delete());
            }
        }
    }

    /// Queues what may be committed, in the step that decides it.
    fn commit(
        &mut self,
        now: Monotonic,
        committer: &Committer,
        mut commit: Commit,
    ) -> Result<Accepted, ErrorCode> {
        let own = self.core.validate_commit(now, committer)?;
        if let Some(protocol_type) = self.core.protocol_type() {
            commit.protocol_type = protocol_type;
        }
        let mut verdicts = own.iter();
        commit
            .changes
            .retain(|_| verdicts.next().copied().unwrap_or(true));
        Ok(Accepted {
            own,
            receipt: self.inner.offsets.commit(commit),
        })
    }
}
