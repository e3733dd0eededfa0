//! The task that owns one group.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coordinator::classic::{
    CallToken, ClassicGroup, Description, Effect, GroupError, GroupState, JoinRefusal, JoinRequest,
    Joined, LeavingMember, MemberRef, Note, Overview, SyncRequest, Synced,
};
use host::Monotonic;
use tokio::sync::{mpsc, oneshot};

use super::log::Log;
use super::memory::{Held, OnItsWay};
use super::{GroupName, Inner};
use crate::offsets::{Commit, Receipt};

/// How long an empty group is kept.
const IDLE: Duration = Duration::from_secs(300);

type Reply<R> = oneshot::Sender<R>;

/// What a group is asked. A reply that is dropped unsent means that the group ended first.
pub(super) enum Command {
    Join(
        CallToken,
        Box<JoinRequest>,
        Reply<Result<Joined, JoinRefusal>>,
        OnItsWay,
    ),
    Sync(
        CallToken,
        Box<SyncRequest>,
        Reply<Result<Synced, GroupError>>,
    ),
    Heartbeat(MemberRef, Reply<Result<(), GroupError>>),
    Leave(
        Vec<LeavingMember>,
        Reply<Result<Vec<Result<(), GroupError>>, GroupError>>,
    ),
    Commit(MemberRef, Box<Commit>, Reply<Result<Receipt, GroupError>>),
    Subscriptions(Vec<String>, Reply<Result<Vec<bool>, GroupError>>),
    Describe(Reply<Description>),
    Delete(Reply<Result<(), GroupError>>),
}

/// A call whose answer is an effect.
enum Waiter {
    Join(Reply<Result<Joined, JoinRefusal>>),
    Sync(Reply<Result<Synced, GroupError>>),
}

pub(super) struct Task {
    inner: Arc<Inner>,
    name: GroupName,
    core: ClassicGroup,
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

impl Task {
    pub(super) fn new(
        inner: Arc<Inner>,
        name: GroupName,
        commands: mpsc::Receiver<Command>,
        abandoned: mpsc::UnboundedReceiver<CallToken>,
    ) -> Self {
        let core = ClassicGroup::new(inner.settings);
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
                        self.core.handle_stop(self.now());
                    }
                    () = &mut closed => return,
                    Some(token) = self.abandoned.recv() => {
                        self.waiting.remove(&token);
                        self.core.handle_abandoned(self.now(), token);
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

    fn now(&self) -> Monotonic {
        self.inner.clock.monotonic()
    }

    /// Runs what is due, delivers what was decided, and says how long there is nothing to do;
    /// `None` when the group has ended.
    fn settle(&mut self) -> Option<Duration> {
        let now = self.now();
        self.core.handle_timeout(now);
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
        let unused = self.core.generation_id().0 == 0;
        if unused || self.core.state() == GroupState::Dead {
            return Some(now);
        }
        Some(since + IDLE)
    }

    fn deliver(&mut self) {
        while let Some(effect) = self.core.poll_effect() {
            // Nobody listens when the connection is gone; its withdrawal is on the way.
            match effect {
                Effect::Join(token, answer) => {
                    if let Some(Waiter::Join(reply)) = self.waiting.remove(&token) {
                        let _ = reply.send(answer);
                    }
                }
                Effect::Sync(token, answer) => {
                    if let Some(Waiter::Sync(reply)) = self.waiting.remove(&token) {
                        let _ = reply.send(answer);
                    }
                }
                Effect::Note(note) => {
                    if let Note::PreparingRebalance { .. } = note {
                        self.inner.metrics.rebalances.inc();
                    }
                    let now = self.inner.clock.monotonic();
                    self.log.note(now, note);
                }
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
            Command::Join(token, request, reply, on_its_way) => {
                // Withdrawn before it was looked at: its withdrawal may have come first.
                if !reply.is_closed() {
                    self.waiting.insert(token, Waiter::Join(reply));
                    self.core.handle_join(now, *request, token);
                    self.held.set(self.core.held_bytes());
                }
                on_its_way.has_arrived();
            }
            Command::Sync(token, request, reply) => {
                if !reply.is_closed() {
                    self.waiting.insert(token, Waiter::Sync(reply));
                    self.core.handle_sync(now, *request, token);
                }
            }
            Command::Heartbeat(member, reply) => {
                let _ = reply.send(self.core.handle_heartbeat(now, &member));
            }
            Command::Leave(members, reply) => {
                let _ = reply.send(self.core.handle_leave(now, &members));
            }
            Command::Commit(member, commit, reply) => {
                let _ = reply.send(self.commit(now, &member, *commit));
            }
            Command::Subscriptions(topics, reply) => {
                let subscribed = |topic: &String| self.core.is_subscribed_to(topic);
                let verdict = self.core.validate_offset_delete();
                let _ = reply.send(verdict.map(|()| topics.iter().map(subscribed).collect()));
            }
            Command::Describe(reply) => {
                let _ = reply.send(self.core.describe());
            }
            Command::Delete(reply) => {
                let _ = reply.send(self.core.handle_delete());
            }
        }
    }

    fn commit(
        &mut self,
        now: Monotonic,
        member: &MemberRef,
        mut commit: Commit,
    ) -> Result<Receipt, GroupError> {
        self.core.validate_offset_commit(now, member, false)?;
        if let Some(protocol_type) = self.core.protocol_type() {
            commit.protocol_type = Arc::clone(protocol_type);
        }
        Ok(self.inner.offsets.commit(commit))
    }
}
