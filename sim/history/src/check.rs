//! Judges a history. Pure functions: the same entries, the same verdicts, in the same order.
//!
//! Each anomaly has a file of checks with the histories that show it beside those that nearly do.
//! A verdict names the fewest entries that prove it; whoever disagrees can read them.

mod index;
mod liveness;
mod log;
mod polls;
mod sends;
#[cfg(test)]
pub(crate) mod testing;
mod told;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::event::Entry;
use index::Index;
use log::Logs;

/// What must never be.
///
/// The first block and its names are those of Jepsen's Kafka workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Anomaly {
    /// An acknowledged value is not in the log.
    LostWrite,
    /// A value is in the log more than once.
    Duplicate,
    /// One offset showed two values, or a value is elsewhere than its producer was told.
    InconsistentOffset,
    /// A reader went past a value without being given it.
    PollSkip,
    /// A reader went back without being told to.
    NonmonotonicPoll,
    /// A producer's next batch was stored before its last one.
    NonmonotonicSend,
    /// A value was stored, and nobody of those who read everything was ever given it.
    Unseen,
    /// A value was seen whose write failed or was aborted.
    AbortedRead,

    /// A value that a reader saw is no longer where it was.
    Vanished,
    /// A value that nobody sent there.
    Phantom,
    /// A producer's values are not in the order they were handed over in.
    Order,
    /// The sequences of an idempotent producer in the log are not one behind the other.
    SequenceGap,
    /// What was read is not, byte for byte, what was written.
    Corrupt,
    /// A batch was refused for good, although nothing was wrong with it.
    Refused,
    /// What came back isn't Kafka's protocol.
    Malformed,
    /// The history itself makes no sense: an end without a beginning.
    IllFormed,
    /// An operation did not end within its bound.
    Late,
    /// After everything had healed, the clients didn't finish in time.
    Stuck,
    /// A machine's program ended by itself.
    Broken,
    /// Nothing was acknowledged: the history proves nothing.
    Vacuous,
}

impl Anomaly {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LostWrite => "lost-write",
            Self::Duplicate => "duplicate",
            Self::InconsistentOffset => "inconsistent-offset",
            Self::PollSkip => "poll-skip",
            Self::NonmonotonicPoll => "nonmonotonic-poll",
            Self::NonmonotonicSend => "nonmonotonic-send",
            Self::Unseen => "unseen",
            Self::AbortedRead => "aborted-read",
            Self::Vanished => "vanished",
            Self::Phantom => "phantom",
            Self::Order => "order",
            Self::SequenceGap => "sequence-gap",
            Self::Corrupt => "corrupt",
            Self::Refused => "refused",
            Self::Malformed => "malformed",
            Self::IllFormed => "ill-formed",
            Self::Late => "late",
            Self::Stuck => "stuck",
            Self::Broken => "broken",
            Self::Vacuous => "vacuous",
        }
    }
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Something that must not be, with its proof.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// Of which kind.
    pub anomaly: Anomaly,
    /// The fewest entries that prove it, by their index, ascending.
    pub proof: Vec<usize>,
    /// What happened, in a sentence.
    pub what: String,
}

impl Verdict {
    fn new(
        anomaly: Anomaly,
        proof: impl IntoIterator<Item = usize>,
        what: impl Into<String>,
    ) -> Self {
        let mut proof: Vec<_> = proof.into_iter().collect();
        proof.sort_unstable();
        proof.dedup();
        Self {
            anomaly,
            proof,
            what: what.into(),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.anomaly, self.what)
    }
}

/// Everything wrong in a history, by kind, then by where it shows.
///
/// What is in the log of a partition is judged only when all of it was read: a log read in part
/// proves nothing lost.
pub fn check(entries: &[Entry]) -> Vec<Verdict> {
    let index = Index::of(entries);
    let logs = Logs::of(&index);
    let mut found = Vec::new();
    index.check(&mut found);
    told::check(&index, &mut found);
    logs.check(&index, &mut found);
    sends::check(&index, &logs, &mut found);
    polls::check(&index, &logs, &mut found);
    liveness::check(&index, &mut found);
    found.sort();
    found.dedup();
    found
}
