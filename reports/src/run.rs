//! What is known of a run besides its checks.

use serde::{Deserialize, Serialize};

/// The head of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The target's name.
    pub target: String,
    /// What the target is, in a few words: its address, its version.
    pub describes: String,
    /// The command that repeats the run.
    pub command: String,
    /// The moment it began, in milliseconds since the Unix epoch.
    pub started_epoch_ms: i64,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// What the target advertises, by key.
    pub advertised: Vec<Window>,
    /// The version of the checks; empty in reports of before there was one.
    #[serde(default)]
    pub suite: String,
}

/// The versions of one API that a server advertises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The API key.
    pub key: i16,
    /// The API's name, as Kafka writes it.
    pub name: String,
    /// Lowest version.
    pub min: i16,
    /// Highest version.
    pub max: i16,
}

impl Window {
    /// `3–13`, or `0` when there is one version.
    pub fn versions(&self) -> String {
        if self.min == self.max {
            self.min.to_string()
        } else {
            format!("{}–{}", self.min, self.max)
        }
    }
}

impl Run {
    /// The head as `run.json`.
    pub fn json(&self) -> String {
        // Strings and numbers always have a JSON form.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}
