//! One node's place in the registry: claim, heartbeat, view, loss, release.
//!
//! No I/O and no clock. The caller asks [`Membership::poll`] what to call and when, makes the call,
//! and tells [`Membership::answered`]. A row lives for one TTL from its last write; a version held
//! since the last write fences it against everybody else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use host::Monotonic;

/// A node's number in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub i32);

impl NodeId {
    /// The identity of a node outside any cluster, and of nothing else.
    pub const SINGLE: Self = Self(0);
}

/// The times of a cluster, the same on all its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Between two writes of the own row.
    pub heartbeat: Duration,
    /// How long a row lives, and how old a view may be. At least three heartbeats.
    pub ttl: Duration,
}

/// A node as the registry shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Where clients reach it.
    pub host: Arc<str>,
    /// TCP port.
    pub port: u16,
    /// Which life of it wrote the row.
    pub incarnation: Arc<str>,
    /// Whether it serves transactions over several nodes; other implementations don't.
    pub serves_transactions: bool,
}

/// How the own row is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Only where there is no row.
    Fresh,
    /// Only over this version.
    Over(u64),
    /// Not at all: the registry is only read.
    No,
}

/// A call to make. Every one but the release also reads the rows of the cluster, behind the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Write the own row, and read all.
    Heartbeat(Write),
    /// Delete the own row if it has this version.
    Release(u64),
}

/// What became of the write of a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The row has this version now.
    Applied(u64),
    /// It was not written.
    Lost(Lost),
    /// None was asked for.
    NotAsked,
}

/// What a write lost against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// There is no row.
    Absent,
    /// A row of this version, by this incarnation (unknown when the row cannot be read).
    Row {
        /// The row's version.
        version: u64,
        /// Who wrote it.
        incarnation: Option<Arc<str>>,
    },
}

/// What the registry answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The write's result, and the rows that can be read.
    Heartbeat(Claimed, BTreeMap<NodeId, Row>),
    /// It could not be asked, or the answer was lost.
    Unreachable,
}

/// Another live node has this node's number: nobody may guess which of them is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "node id {id} is in use: its registry row went from version {from} to {to} while it was watched"
)]
pub struct DuplicateNode {
    /// The number.
    pub id: i32,
    /// The version first seen.
    pub from: u64,
    /// The version that somebody else wrote.
    pub to: u64,
}

/// How a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its number is not its own yet.
    Claiming,
    /// It holds its row, written less than one TTL ago.
    Coordinating,
    /// Its row is gone, or was written too long ago: others may have given it up.
    Blind,
    /// Another incarnation took its number. It serves records and coordinates nothing, for good.
    Latched,
    /// It gave its number back.
    Released,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The row of somebody is watched since then.
    Claiming(Option<(u64, Monotonic)>),
    /// The own row has this version; `None` when it is gone and will be written again.
    Holding(Option<u64>),
    Latched,
    Released,
}

/// See the [module's description](self).
#[derive(Debug)]
pub struct Membership {
    id: NodeId,
    incarnation: Arc<str>,
    settings: Settings,
    phase: Phase,
    due: Monotonic,
    nodes: Arc<BTreeMap<NodeId, Row>>,
    /// When the call that brought `nodes` was made; `None` before the first.
    seen: Option<Monotonic>,
    /// When the last call was made that is known to have written the own row.
    written: Option<Monotonic>,
}

impl Membership {
    /// A node that has asked nobody yet. `incarnation` is new in every process.
    pub fn new(id: NodeId, incarnation: Arc<str>, settings: Settings, now: Monotonic) -> Self {
        Self {
            id,
            incarnation,
            settings,
            phase: Phase::Claiming(None),
            due: now,
            nodes: Arc::default(),
            seen: None,
            written: None,
        }
    }

    /// The call that is due, at most one; its answer goes to [`Membership::answered`].
    pub fn poll(&mut self, now: Monotonic) -> Option<Call> {
        if now < self.due || self.phase == Phase::Released {
            return None;
        }
        self.due = now + self.settings.heartbeat;
        Some(Call::Heartbeat(match self.phase {
            Phase::Claiming(Some((version, since)))
                if now >= since + self.settings.ttl + self.settings.heartbeat =>
            {
                // Nobody refreshed it for longer than a row lives: it is a dead node's.
                Write::Over(version)
            }
            Phase::Claiming(_) | Phase::Holding(None) => Write::Fresh,
            Phase::Holding(Some(version)) => Write::Over(version),
            Phase::Latched | Phase::Released => Write::No,
        }))
    }

    /// When [`Membership::poll`] has something to do.
    pub fn due(&self) -> Monotonic {
        self.due
    }

    /// The answer to a call that was made at `called`.
    ///
    /// # Errors
    ///
    /// [`DuplicateNode`] while claiming: the process must not start.
    pub fn answered(&mut self, called: Monotonic, answer: Answer) -> Result<(), DuplicateNode> {
        let Answer::Heartbeat(claimed, nodes) = answer else {
            return Ok(());
        };
        match (claimed, self.phase) {
            (Claimed::Applied(version), Phase::Claiming(_) | Phase::Holding(_)) => {
                self.phase = Phase::Holding(Some(version));
                self.written = self.written.max(Some(called));
            }
            (Claimed::Lost(Lost::Absent), Phase::Claiming(_)) => {
                self.phase = Phase::Claiming(None);
                self.due = called;
            }
            (Claimed::Lost(Lost::Absent), Phase::Holding(_)) => {
                self.phase = Phase::Holding(None);
                self.due = called;
            }
            (
                Claimed::Lost(Lost::Row {
                    version,
                    incarnation,
                }),
                phase @ (Phase::Claiming(_) | Phase::Holding(_)),
            ) => {
                if incarnation.as_ref() == Some(&self.incarnation) {
                    // Our own write, whose answer was lost. When it was made nobody knows, so it
                    // proves nothing until it is made again.
                    self.phase = Phase::Holding(Some(version));
                    self.due = called;
                } else {
                    self.phase = self.met(version, called, phase)?;
                }
            }
            (_, Phase::Latched | Phase::Released) | (Claimed::NotAsked, _) => {}
        }
        if self.seen.is_none_or(|seen| seen <= called) {
            self.nodes = Arc::new(nodes);
            self.seen = Some(called);
        }
        Ok(())
    }

    /// The row is another's.
    fn met(&self, version: u64, called: Monotonic, phase: Phase) -> Result<Phase, DuplicateNode> {
        match phase {
            Phase::Claiming(Some((from, since))) if from == version => {
                Ok(Phase::Claiming(Some((from, since))))
            }
            Phase::Claiming(Some((from, _))) => Err(DuplicateNode {
                id: self.id.0,
                from,
                to: version,
            }),
            Phase::Claiming(None) => Ok(Phase::Claiming(Some((version, called)))),
            _ => Ok(Phase::Latched),
        }
    }

    /// Gives the number back: the call to make, if there is a row of ours.
    pub fn release(&mut self) -> Option<Call> {
        let held = match self.phase {
            Phase::Holding(version) => version,
            _ => None,
        };
        self.phase = Phase::Released;
        held.map(Call::Release)
    }

    /// How this node stands.
    pub fn standing(&self, now: Monotonic) -> Standing {
        match self.phase {
            Phase::Claiming(_) => Standing::Claiming,
            Phase::Latched => Standing::Latched,
            Phase::Released => Standing::Released,
            // Without a row somebody else may be writing one.
            Phase::Holding(None) => Standing::Blind,
            Phase::Holding(Some(_)) => match self.written {
                Some(written) if now < written + self.settings.ttl => Standing::Coordinating,
                _ => Standing::Blind,
            },
        }
    }

    /// The nodes of the newest view, however old; none before the first.
    pub fn nodes(&self) -> &Arc<BTreeMap<NodeId, Row>> {
        &self.nodes
    }

    /// How old the newest view is; `None` before the first.
    pub fn age(&self, now: Monotonic) -> Option<Duration> {
        self.seen.map(|seen| now - seen)
    }
}
