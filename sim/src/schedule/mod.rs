//! Faults as data: what goes wrong, and when. Any list of steps is legal in any order, so that a
//! schedule can lose any step while it is shrunk. [`rules`] generates schedules, [`validity`] says
//! what a step may hold.

mod place;
mod rules;
mod text;
mod validity;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use place::{Key, Link, Route, Server};
pub use rules::{ANY, Kind, Rules, schedules};
pub use text::ScheduleError;
pub(crate) use validity::named as api_named;
pub use validity::{Bounds, Invalid};

/// The world moves in ticks of so many milliseconds; finer times would mean nothing.
pub const TICK_MS: u64 = 10;

/// One fault at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Simulated milliseconds since the start of the run. The world acts on its next tick.
    pub at_ms: u64,
    /// What happens.
    #[serde(flatten)]
    pub fault: Fault,
}

/// What happens. Whatever lasts ends by itself, or when the world heals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "fault", deny_unknown_fields)]
pub enum Fault {
    /// A machine stops: memory is lost. Nothing happens when it is down.
    Crash {
        /// Which.
        node: Server,
        /// What becomes of the writes that its disk has not synced.
        #[serde(default, skip_serializing_if = "Unsynced::is_default")]
        unsynced: Unsynced,
    },
    /// A machine starts again; one that runs is crashed first.
    Bounce {
        /// Which.
        node: Server,
        /// What becomes of the writes that its disk has not synced.
        #[serde(default, skip_serializing_if = "Unsynced::is_default")]
        unsynced: Unsynced,
    },
    /// A facade is told to stop, drains, and starts again. Nothing happens when it is down.
    Restart {
        /// Which.
        node: Server,
    },
    /// A machine is frozen: its sockets stay open and nothing goes in or out of them.
    Pause {
        /// Which.
        node: Server,
        /// For how long.
        for_ms: u64,
    },
    /// One client is frozen, as a process that is stopped or swapped out.
    PauseClient {
        /// What it calls itself.
        client: String,
        /// For how long.
        for_ms: u64,
    },
    /// A link loses what is sent over it.
    Partition {
        /// Which.
        link: Link,
        /// In which direction.
        lost: Lost,
    },
    /// A link is whole again. What was held on it arrives now, what was lost stays lost.
    Repair {
        /// Which.
        link: Link,
    },
    /// A link keeps what is sent over it.
    Hold {
        /// Which.
        link: Link,
    },
    /// What a link holds arrives. Nothing happens to a link that holds nothing.
    Release {
        /// Which.
        link: Link,
    },
    /// Messages over a link take longer.
    Latency {
        /// Which.
        link: Link,
        /// At least so long.
        ms: u64,
        /// And at most so much longer.
        #[serde(default)]
        jitter_ms: u64,
        /// For how long.
        for_ms: u64,
    },
    /// The wall clock of a machine jumps.
    WallJump {
        /// Which.
        node: Server,
        /// By how much, forward or back.
        by_ms: i64,
    },
    /// Calls to Queen go wrong.
    Upstream {
        /// Where on their way.
        hop: Hop,
        /// Which.
        route: Route,
        /// Matching calls that are spared first.
        #[serde(default)]
        skip: u64,
        /// Calls struck after that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        count: Option<u64>,
        /// For how long; for ever when absent, which `count` then has to bound.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        for_ms: Option<u64>,
        /// What goes wrong.
        effect: Effect,
    },
    /// An API key ends at once.
    Revoke {
        /// Which.
        key: Key,
    },
    /// An API key is given an end. One that ends sooner still does.
    Expire {
        /// Which.
        key: Key,
        /// So much later.
        in_ms: u64,
    },
    /// An API key loses a scope.
    Narrow {
        /// Which.
        key: Key,
        /// What it may do no longer.
        scope: Scope,
    },
    /// An API key gets another secret, and its clients are told at once.
    Rotate {
        /// Which.
        key: Key,
        /// So long the old secret still counts.
        overlap_ms: u64,
    },
    /// Requests of one API are late: each waits on its connection, and what is behind it.
    DelayApi {
        /// The API's name, as `ApiKey` prints it.
        api: String,
        /// How late.
        ms: u64,
        /// For how long.
        for_ms: u64,
    },
}

/// What a crash does to writes that were not synced. Only Queen has a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unsynced {
    /// The power is cut: each stays or goes, as the seed has it.
    #[default]
    Lost,
    /// The process is killed, and its system keeps what it wrote.
    Kept,
}

impl Unsynced {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature that serde calls"
    )]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What an API key may do, as the proxy has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Push and commit.
    Produce,
    /// Fetch, and move positions.
    Consume,
    /// Make and delete queues.
    Admin,
    /// List them.
    Read,
}

/// What a partitioned link loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lost {
    /// Everything.
    Both,
    /// What callers send.
    Requests,
    /// What they would be answered.
    Answers,
}

/// Where a call to Queen meets its fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hop {
    /// The relay on the way.
    Relay,
    /// Queen herself.
    Queen,
}

impl Hop {
    /// The machine.
    pub const fn server(self) -> Server {
        match self {
            Self::Relay => Server::Relay,
            Self::Queen => Server::Queen,
        }
    }
}

/// What goes wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Effect {
    /// It is refused, and nothing done.
    Status {
        /// The status.
        code: u16,
        /// `Retry-After`, in seconds; without one when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_s: Option<u64>,
    },
    /// The connection is cut and nothing done.
    CutBefore,
    /// It is done, and the connection cut instead of an answer.
    CutAfter,
    /// It waits.
    Slow {
        /// For how long.
        ms: u64,
    },
    /// It is done, and its answer waits.
    StallAfter {
        /// For how long.
        ms: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The words of the JSON, which nothing here can fail to become.
        let json = serde_json::to_string(self).map_err(|_| fmt::Error)?;
        f.write_str(&json)
    }
}
