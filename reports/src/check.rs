//! The check: one question put to one target by one client, and its answer.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::evidence::Evidence;

/// One line of `checks.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Unique in a run and stable between runs: `wire/metadata/v9/unknown-topic`.
    pub id: String,
    /// The behaviour that a pass proves, as a sentence.
    pub title: String,
    /// The target's name: `facade`, `bootstrap`.
    pub target: String,
    /// `wire` for probes, else the client's name and version: `librdkafka 2.12.1`.
    pub client: String,
    /// The APIs and versions that were really seen on the wire; for a check that did not run, the
    /// APIs it would have used, without versions.
    pub apis: Vec<ApiUse>,
    /// Numbers of the Kafka improvement proposals the check is about.
    pub kips: Vec<u16>,
    /// The versions of Apache Kafka that were recorded to pass it: with the proposals, what it rests on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed: Vec<String>,
    /// What came out.
    pub outcome: Outcome,
    /// Why, for every outcome but a pass.
    pub reason: Option<String>,
    /// Whether the target's expectations foresee this outcome.
    pub expected: bool,
    /// What was seen.
    pub evidence: Evidence,
    /// How long the check took, in milliseconds.
    pub duration_ms: u64,
}

/// One API, and the versions of it that a check used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiUse {
    /// The API key.
    pub key: i16,
    /// The API's name, as Kafka writes it.
    pub name: String,
    /// Every version seen, ascending, each once.
    pub versions: Vec<i16>,
}

/// The four answers of a check.
///
/// The order is that of attention: a cell of a grid shows the greatest of its checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Not run, for the reason given. Never counted as a pass.
    Skipped,
    /// As Apache Kafka would have it.
    Pass,
    /// A refusal that the target's documentation promises.
    Refused,
    /// Anything else.
    Fail,
}

impl Outcome {
    /// All of them, in the order in which people want to read them.
    pub const ALL: [Self; 4] = [Self::Pass, Self::Fail, Self::Refused, Self::Skipped];

    /// The word of the JSON form.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Skipped => "skipped",
            Self::Pass => "pass",
            Self::Refused => "refused",
            Self::Fail => "fail",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}
