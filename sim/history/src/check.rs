//! Judges a history. Pure functions: the same entries, the same verdicts, in the same order.
//!
//! Each anomaly has a file of checks with the histories that show it beside those that nearly do.
//! A verdict names the fewest entries that prove it; whoever disagrees can read them.

mod access;
mod commits;
pub(crate) mod epochs;
mod exactly_once;
mod groups;
pub(crate) mod index;
mod liveness;
mod log;
mod polls;
mod sends;
#[cfg(test)]
pub(crate) mod testing;
mod throttle;
mod told;
mod transactions;
mod wire;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::event::Entry;
use index::Index;
use log::Logs;

macro_rules! anomalies {
    ($($(#[$about:meta])* $kind:ident => $name:literal,)*) => {
        /// What must never be.
        ///
        /// The first block and its names are those of Jepsen's Kafka workload.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Anomaly {
            $($(#[$about])* $kind,)*
        }

        impl Anomaly {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }
    };
}

anomalies! {
    /// An acknowledged value is not in the log.
    LostWrite => "lost-write",
    /// A value is in the log more than once.
    Duplicate => "duplicate",
    /// One offset showed two values, or a value is elsewhere than its producer was told.
    InconsistentOffset => "inconsistent-offset",
    /// A reader went past a value without being given it.
    PollSkip => "poll-skip",
    /// A reader went back without being told to.
    NonmonotonicPoll => "nonmonotonic-poll",
    /// A producer's next batch was stored before its last one.
    NonmonotonicSend => "nonmonotonic-send",
    /// A value was stored, and nobody of those who read everything was ever given it.
    Unseen => "unseen",
    /// A value was seen whose write failed or was aborted.
    AbortedRead => "aborted-read",
    /// A reader of committed records saw a value before its transaction was to commit.
    PrecommittedRead => "precommitted-read",
    /// Writes of transactions interleave in a circle. Kafka allows it: judged only on demand.
    G0 => "g0",
    /// Transactions read from each other in a circle.
    G1c => "g1c",

    /// Of a transaction's records and offsets a part landed.
    Torn => "torn-transaction",
    /// A loop made two records of one that it read.
    TwiceInLoop => "twice-in-loop",
    /// A record counts as read by a loop, and nothing was made of it.
    LostInLoop => "lost-in-loop",

    /// A committed offset moved back without a reset.
    CommitBack => "commit-back",
    /// A committed offset was told that nobody committed.
    PhantomCommit => "phantom-commit",
    /// A partition has two owners in one generation.
    TwoOwners => "two-owners",
    /// A fenced member's, or producer's, doing was taken.
    Zombie => "zombie",
    /// A group that should have settled is not in one generation, or leaves a partition alone.
    NotConverged => "not-converged",

    /// Answers don't come in the order of their requests.
    AnswerOrder => "answer-order",
    /// A client asked on although it was throttled.
    ThrottleIgnored => "throttle-ignored",
    /// A client was told to sleep over its offsets.
    ThrottledOffsets => "throttled-offsets",
    /// A broker served a connection that it had throttled.
    NotMuted => "not-muted",
    /// A listener holds more than its bound.
    MemoryBound => "memory-bound",
    /// A revoked credential was served past its deadline.
    ServedRevoked => "served-revoked",
    /// A tenant was served what belongs to another.
    TenantLeak => "tenant-leak",
    /// A client lost a connection because of somebody else's credential.
    Disturbed => "disturbed",
    /// The audit doesn't tell every deed once, in order.
    AuditGap => "audit-gap",

    /// A value that a reader saw is no longer where it was.
    Vanished => "vanished",
    /// A value that nobody sent there.
    Phantom => "phantom",
    /// A producer's values are not in the order they were handed over in.
    Order => "order",
    /// The sequences of an idempotent producer in the log are not one behind the other.
    SequenceGap => "sequence-gap",
    /// What was read is not, byte for byte, what was written.
    Corrupt => "corrupt",
    /// A batch was refused for good, although nothing was wrong with it.
    Refused => "refused",
    /// What came back isn't Kafka's protocol.
    Malformed => "malformed",
    /// The history itself makes no sense: an end without a beginning.
    IllFormed => "ill-formed",
    /// An operation did not end within its bound.
    Late => "late",
    /// After everything had healed, the clients didn't finish in time.
    Stuck => "stuck",
    /// A machine's program ended by itself.
    Broken => "broken",
    /// Nothing was acknowledged: the history proves nothing.
    Vacuous => "vacuous",
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
    check_with(entries, Rules::default())
}

/// What is judged beyond what Kafka promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Whether [`Anomaly::G0`], and [`Anomaly::G1c`] by way of writes, are looked for.
    pub writes_of_transactions_never_interleave: bool,
}

/// [`check()`] under other rules.
pub fn check_with(entries: &[Entry], rules: Rules) -> Vec<Verdict> {
    let index = Index::of(entries);
    let logs = Logs::of(&index);
    let mut found = Vec::new();
    index.check(&mut found);
    told::check(&index, &mut found);
    logs.check(&index, &mut found);
    sends::check(&index, &logs, &mut found);
    polls::check(&index, &logs, &mut found);
    transactions::check(&index, &logs, rules, &mut found);
    exactly_once::check(&index, &logs, &mut found);
    commits::check(&index, &mut found);
    groups::check(&index, &mut found);
    wire::check(&index, &mut found);
    throttle::check(&index, &mut found);
    access::check(&index, &mut found);
    liveness::check(&index, &mut found);
    found.sort();
    found.dedup();
    found
}
