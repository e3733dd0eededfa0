//! Incremental fetch sessions (KIP-227): what a consumer fetches is remembered, so that a wide
//! assignment costs what changed.
//!
//! The rules are Apache Kafka's, without its privileged (follower) sessions; a session belongs to
//! whoever made it, and the cache is bounded in partitions as well as in slots.
//!
//! # Calls
//!
//! [`FetchSessions::begin`] turns a request into a [`FetchContext`]: every partition to read, in
//! the order in which they may fill the response. [`FetchSessions::finish`] takes what reading them
//! gave and tells which belong into the response, and under which session id. Partitions that gave
//! records go to the end of the next round.

mod session;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use host::Monotonic;
use indexmap::IndexMap;

use session::Session;

/// The session id of a request or response without a session.
pub const NO_SESSION: i32 = 0;
/// The epoch of a request that asks for a new session.
pub const INITIAL_EPOCH: i32 = 0;
/// The epoch of a request that wants no session, or ends the one it names.
pub const FINAL_EPOCH: i32 = -1;

/// A partition of a topic; `T` names the topic, by name or by id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition<T> {
    /// The topic.
    pub topic: T,
    /// The partition number, as the client sent it.
    pub partition: i32,
}

/// What a consumer asks of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionFetch {
    /// The first offset wanted.
    pub fetch_offset: i64,
    /// The most record bytes wanted.
    pub max_bytes: i32,
    /// The leader epoch the client knows; −1 for none.
    pub current_leader_epoch: i32,
}

/// The session fields of a Fetch request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionRequest {
    /// 0 for none.
    pub session_id: i32,
    /// [`INITIAL_EPOCH`], [`FINAL_EPOCH`], or the session's epoch.
    pub epoch: i32,
    /// Whether the request names topics by id (version 13 and up).
    pub uses_topic_ids: bool,
}

impl SessionRequest {
    const fn is_full(self) -> bool {
        self.epoch == INITIAL_EPOCH || self.epoch == FINAL_EPOCH
    }
}

/// Why a request can't be served from its session. The client starts a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// `FETCH_SESSION_ID_NOT_FOUND`: evicted, closed, or someone else's.
    #[error("there is no such fetch session")]
    IdNotFound,
    /// `INVALID_FETCH_SESSION_EPOCH`: a request was repeated or left out.
    #[error("the fetch session is at another epoch")]
    InvalidEpoch,
    /// `FETCH_SESSION_TOPIC_ID_ERROR`: the session names topics the other way.
    #[error("the fetch session names topics by id and the request by name, or the reverse")]
    TopicId,
}

/// What reading one partition gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionOutcome {
    /// It was read.
    Read {
        /// Whether the response carries records of it.
        has_records: bool,
        /// Its high watermark.
        high_watermark: i64,
        /// Its log start offset.
        log_start_offset: i64,
    },
    /// The response carries an error for it.
    Failed,
    /// It wasn't read; whatever the client knows still holds.
    Unread,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sessionless,
    Full { uses_topic_ids: bool },
    Incremental { session_id: i32, next_epoch: i32 },
}

/// One partition of a fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextPartition<T> {
    /// Which.
    pub partition: TopicPartition<T>,
    /// What's asked of it.
    pub fetch: PartitionFetch,
    position: u64,
}

/// One fetch, from [`FetchSessions::begin`] to [`FetchSessions::finish`].
#[derive(Debug)]
pub struct FetchContext<T> {
    kind: Kind,
    owner: Arc<str>,
    /// The partitions to read, the one that waited longest first.
    pub partitions: Vec<ContextPartition<T>>,
}

impl<T> FetchContext<T> {
    /// Whether the response may leave out partitions without news.
    pub const fn is_incremental(&self) -> bool {
        matches!(self.kind, Kind::Incremental { .. })
    }
}

/// What the response says about the session, and about which partitions.
#[derive(Debug, PartialEq, Eq)]
pub struct Finished {
    /// The session of the response; [`NO_SESSION`] when there's none.
    pub session_id: i32,
    /// For each partition of the context, whether it belongs into the response.
    pub include: Vec<bool>,
}

/// Bounds of [`FetchSessions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sessions kept (Kafka's `max.incremental.fetch.session.cache.slots`).
    pub slots: usize,
    /// Partitions kept over all sessions: what bounds the memory, about 150 bytes each.
    pub partitions: usize,
    /// How long a session is safe: unused for longer, it goes first; younger, it isn't evicted for
    /// a wider one.
    pub eviction: Duration,
}

impl Default for Limits {
    /// Kafka's 1,000 slots and 2 minutes; half a million partitions.
    fn default() -> Self {
        Self {
            slots: 1_000,
            partitions: 500_000,
            eviction: Duration::from_secs(120),
        }
    }
}

/// Every fetch session of a node.
#[derive(Debug)]
pub struct FetchSessions<T> {
    sessions: IndexMap<i32, Session<T>>,
    last_used: BTreeSet<(Monotonic, i32)>,
    /// Sessions old enough to give way to a wider one, narrowest first.
    evictable: BTreeSet<(usize, i32)>,
    partitions: usize,
    evictions: u64,
    limits: Limits,
}

impl<T: Clone + Eq + Hash> FetchSessions<T> {
    /// No sessions yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            sessions: IndexMap::new(),
            last_used: BTreeSet::new(),
            evictable: BTreeSet::new(),
            partitions: 0,
            evictions: 0,
            limits,
        }
    }

    /// How many sessions are kept.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether no session is kept.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// How many partitions all sessions hold.
    pub const fn partitions(&self) -> usize {
        self.partitions
    }

    /// Sessions that gave way to others since the start.
    pub const fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Opens a fetch: finds or prepares the session, and lists what to read. `requested` holds the
    /// request's partitions, `forgotten` those that leave the session.
    ///
    /// # Errors
    ///
    /// See [`SessionError`]; the request is answered with that code and no partitions.
    pub fn begin(
        &mut self,
        now: Monotonic,
        owner: &Arc<str>,
        request: SessionRequest,
        requested: Vec<(TopicPartition<T>, PartitionFetch)>,
        forgotten: &[TopicPartition<T>],
    ) -> Result<FetchContext<T>, SessionError> {
        let owned = self
            .sessions
            .get(&request.session_id)
            .is_some_and(|session| session.owner == *owner);
        if request.is_full() {
            if owned {
                self.remove(request.session_id);
            }
            let kind = if request.epoch == FINAL_EPOCH {
                Kind::Sessionless
            } else {
                Kind::Full {
                    uses_topic_ids: request.uses_topic_ids,
                }
            };
            return Ok(FetchContext {
                kind,
                owner: Arc::clone(owner),
                partitions: list(requested),
            });
        }
        if !owned {
            return Err(SessionError::IdNotFound);
        }
        let Some(session) = self.sessions.get_mut(&request.session_id) else {
            return Err(SessionError::IdNotFound);
        };
        if session.epoch != request.epoch {
            return Err(SessionError::InvalidEpoch);
        }
        if session.uses_topic_ids != request.uses_topic_ids {
            return Err(SessionError::TopicId);
        }
        let room = self.limits.partitions - self.partitions.min(self.limits.partitions);
        if !session.fits(&requested, forgotten, room) {
            // The client starts over, with a session if there's room for one that wide.
            self.remove(request.session_id);
            return Err(SessionError::IdNotFound);
        }
        session.update(requested, forgotten);
        if session.len() == 0 {
            self.remove(request.session_id);
            return Ok(FetchContext {
                kind: Kind::Sessionless,
                owner: Arc::clone(owner),
                partitions: Vec::new(),
            });
        }
        session.epoch = next_epoch(session.epoch);
        let context = FetchContext {
            kind: Kind::Incremental {
                session_id: request.session_id,
                next_epoch: session.epoch,
            },
            owner: Arc::clone(owner),
            partitions: session.list(),
        };
        self.touch(request.session_id, now);
        Ok(context)
    }

    /// Closes a fetch. `outcomes` are those of `context.partitions`, in that order (one that's
    /// missing counts as unread); `entropy` gives random numbers for the id of a new session.
    ///
    /// # Errors
    ///
    /// [`SessionError::InvalidEpoch`] when the session has gone on meanwhile: the request was
    /// repeated, and the repetition's answer counts.
    pub fn finish(
        &mut self,
        now: Monotonic,
        context: &FetchContext<T>,
        outcomes: &[PartitionOutcome],
        entropy: impl FnMut() -> u64,
    ) -> Result<Finished, SessionError> {
        let everything = |session_id| Finished {
            session_id,
            include: vec![true; context.partitions.len()],
        };
        match context.kind {
            Kind::Sessionless => Ok(everything(NO_SESSION)),
            Kind::Full { uses_topic_ids } => Ok(everything(self.create(
                now,
                context,
                uses_topic_ids,
                outcomes,
                entropy,
            ))),
            Kind::Incremental {
                session_id,
                next_epoch,
            } => match self.sessions.get_mut(&session_id) {
                // Evicted while reading: this answer still stands, the next request starts over.
                None => Ok(everything(session_id)),
                Some(session) if session.epoch != next_epoch => Err(SessionError::InvalidEpoch),
                Some(session) => Ok(Finished {
                    session_id,
                    include: session.record(&context.partitions, outcomes),
                }),
            },
        }
    }

    fn create(
        &mut self,
        now: Monotonic,
        context: &FetchContext<T>,
        uses_topic_ids: bool,
        outcomes: &[PartitionOutcome],
        mut entropy: impl FnMut() -> u64,
    ) -> i32 {
        let size = context.partitions.len();
        if size == 0 || !self.make_room(now, size) {
            return NO_SESSION;
        }
        let id = loop {
            // 31 random bits, without 0: what the wire can carry.
            let id = i32::try_from(entropy() >> 33).unwrap_or(NO_SESSION);
            if id != NO_SESSION && !self.sessions.contains_key(&id) {
                break id;
            }
        };
        let mut session = Session::new(
            Arc::clone(&context.owner),
            uses_topic_ids,
            next_epoch(INITIAL_EPOCH),
            now,
        );
        session.update(
            context
                .partitions
                .iter()
                .map(|p| (p.partition.clone(), p.fetch))
                .collect(),
            &[],
        );
        session.record_first(&context.partitions, outcomes);
        self.sessions.insert(id, session);
        self.touch(id, now);
        id
    }

    /// Whether a session of `size` partitions may be added, after evicting at most what Kafka
    /// would: one session.
    fn make_room(&mut self, now: Monotonic, size: usize) -> bool {
        let fits = |sessions: &Self| {
            sessions.sessions.len() < sessions.limits.slots
                && sessions.partitions + size <= sessions.limits.partitions
        };
        if fits(self) {
            return true;
        }
        let stale = self
            .last_used
            .first()
            .filter(|(used, _)| now - *used > self.limits.eviction)
            .map(|&(_, id)| id);
        let narrower = self
            .evictable
            .first()
            .filter(|&&(evictable, _)| size > evictable)
            .map(|&(_, id)| id);
        if let Some(id) = stale.or(narrower) {
            self.remove(id);
            self.evictions += 1;
        }
        fits(self)
    }

    fn touch(&mut self, id: i32, now: Monotonic) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        self.last_used.remove(&(session.last_used, id));
        session.last_used = now;
        self.last_used.insert((now, id));
        self.evictable.remove(&(session.counted, id));
        self.partitions -= session.counted;
        session.counted = session.len();
        self.partitions += session.counted;
        if now - session.created > self.limits.eviction {
            self.evictable.insert((session.counted, id));
        }
    }

    fn remove(&mut self, id: i32) {
        if let Some(session) = self.sessions.swap_remove(&id) {
            self.last_used.remove(&(session.last_used, id));
            self.evictable.remove(&(session.counted, id));
            self.partitions -= session.counted;
        }
    }
}

fn list<T>(requested: Vec<(TopicPartition<T>, PartitionFetch)>) -> Vec<ContextPartition<T>> {
    requested
        .into_iter()
        .map(|(partition, fetch)| ContextPartition {
            partition,
            fetch,
            position: 0,
        })
        .collect()
}

/// The epoch after `epoch`: it wraps past the two that have a meaning of their own.
const fn next_epoch(epoch: i32) -> i32 {
    if epoch == i32::MAX { 1 } else { epoch + 1 }
}
