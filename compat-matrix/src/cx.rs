//! What a running check may touch: the target, its evidence, names that nobody else uses.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use kafka_wire::ApiKey;
use reports::{ApiUse, Difference, Evidence, Exchange};

use crate::differential::transcript::Transcript;
use crate::drivers::Words;
use crate::spec::Stop;
use crate::target::{Node, Target};
use crate::wire::Access;

/// The context of one check. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Cx {
    /// What is under test.
    pub target: Arc<Target>,
    /// Where evidence goes as soon as it is seen, so that a check that panics or runs out of time
    /// still has it.
    pub record: Recorder,
    names: Arc<Names>,
}

#[derive(Debug)]
struct Names {
    prefix: String,
    run: String,
    next: AtomicU64,
}

impl Cx {
    /// The context of a run; [`Cx::for_check`] makes the context of each check from it.
    pub fn new(target: Arc<Target>, run_id: impl Into<String>) -> Self {
        Self::with_prefix(target, run_id, "")
    }

    /// As [`Cx::new`], where rights end at names that begin with `prefix`.
    pub fn with_prefix(target: Arc<Target>, run_id: impl Into<String>, prefix: &str) -> Self {
        Self {
            target,
            record: Recorder::default(),
            names: Arc::new(Names {
                prefix: prefix.to_owned(),
                run: run_id.into(),
                next: AtomicU64::new(0),
            }),
        }
    }

    /// The same run with an empty record.
    #[must_use]
    pub fn for_check(&self) -> Self {
        Self {
            record: Recorder::default(),
            ..self.clone()
        }
    }

    /// The same check, for a client that it is not counted for ([`Recorder::of_another_client`]).
    #[must_use]
    pub fn for_another_client(&self) -> Self {
        Self {
            record: self.record.of_another_client(),
            ..self.clone()
        }
    }

    /// A name for a topic, group or other thing that no other check of any run uses. It is a legal
    /// topic name and starts with the run's prefix and `stem`.
    pub fn unique(&self, stem: &str) -> String {
        let n = self.names.next.fetch_add(1, Ordering::Relaxed);
        format!("{}{stem}-{}-{n}", self.names.prefix, self.names.run)
    }

    /// The same run with an empty record that keeps whole answers.
    #[must_use]
    pub fn for_comparison(&self) -> Self {
        Self {
            record: Recorder::with_transcript(),
            ..self.clone()
        }
    }

    /// What every name of [`Cx::unique`] holds between its stem and its number.
    pub fn run_id(&self) -> &str {
        &self.names.run
    }

    /// Where the shared node is, and how it is spoken to.
    pub fn bootstrap(&self) -> &Access {
        self.target.shared().bootstrap()
    }

    /// A node of this check's own, with `settings` (environment variables of `queen-kafka`) over the
    /// defaults of the target. It is killed when the value is dropped.
    ///
    /// # Errors
    ///
    /// [`Stop::Skip`] on targets that cannot start nodes; [`Stop::Fail`] when the node does not get
    /// ready.
    pub async fn own_node(&self, settings: &[(&str, &str)]) -> Result<Node, Stop> {
        let node = self.target.own_node(settings).await?;
        self.record.follow_log(&node);
        Ok(node)
    }
}

impl Cx {
    /// A node of this check's own where nodes can be started, else the shared one: for checks that
    /// measure a node and would rather do it undisturbed.
    ///
    /// # Errors
    ///
    /// [`Stop::Fail`] when a node that can be started does not get ready.
    pub async fn quiet_node(&self) -> Result<QuietNode, Stop> {
        match self.own_node(&[]).await {
            Ok(node) => Ok(QuietNode::Own(Box::new(node))),
            Err(Stop::Skip(_)) => Ok(QuietNode::Shared(Arc::clone(&self.target))),
            Err(stop) => Err(stop),
        }
    }
}

/// See [`Cx::quiet_node`].
#[derive(Debug)]
pub enum QuietNode {
    /// Nobody else uses it.
    Own(Box<Node>),
    /// Everybody does.
    Shared(Arc<Target>),
}

impl Deref for QuietNode {
    type Target = Node;

    fn deref(&self) -> &Node {
        match self {
            Self::Own(node) => node,
            Self::Shared(target) => target.shared(),
        }
    }
}

/// Collects the evidence of one check. Cheap to clone; all clones share it.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    recorded: Arc<Mutex<Recorded>>,
    /// Whole answers, for those who compare two servers.
    transcript: Option<Transcript>,
    /// What is seen is another client's than the check's.
    of_another: bool,
}

#[derive(Debug, Default)]
struct Recorded {
    evidence: Evidence,
    /// Logs of nodes that only this check used.
    node_logs: Vec<PathBuf>,
    /// What the drivers of this check said, by session.
    words: Vec<(String, Words)>,
    seen: BTreeMap<ApiKey, Vec<i16>>,
    /// The requests of each session, in order.
    requests: BTreeMap<String, Requests>,
    /// Client ids that are not their session's.
    strangers: BTreeSet<String>,
}

/// Exchanges kept of one check. The first ones tell how it began, so the later ones are dropped, but
/// the last is always kept.
const KEPT_EXCHANGES: usize = 12;
/// Log lines kept of one check, the newest ones.
const KEPT_LINES: usize = 60;
/// Lines of a node's log that become evidence of a failed check.
const NODE_LOG_LINES: usize = 20;

/// The requests of a session: equal ones behind each other are one entry with a count.
#[derive(Debug, Default)]
struct Requests {
    runs: Vec<(ApiKey, i16, u64)>,
    /// Requests behind the last entry that is kept.
    unlisted: u64,
}

/// Entries that are kept of one session.
const KEPT_RUNS: usize = 80;

impl Requests {
    fn push(&mut self, key: ApiKey, version: i16) {
        let full = self.runs.len() == KEPT_RUNS;
        match self.runs.last_mut() {
            Some((last_key, last_version, count))
                if (*last_key, *last_version) == (key, version) && self.unlisted == 0 =>
            {
                *count += 1;
            }
            _ if full => self.unlisted += 1,
            _ => self.runs.push((key, version, 1)),
        }
    }

    /// `ApiVersions v3, Metadata v12, Produce v10 ×17`.
    fn words(&self) -> String {
        let mut words: Vec<String> = self
            .runs
            .iter()
            .map(|(key, version, count)| {
                let name = api_name(*key);
                match count {
                    1 => format!("{name} v{version}"),
                    count => format!("{name} v{version} ×{count}"),
                }
            })
            .collect();
        if self.unlisted > 0 {
            words.push(format!("and {} more", self.unlisted));
        }
        words.join(", ")
    }
}

/// Lines of a driver's words that become evidence of a failed check.
const CLIENT_LINES: usize = 10;

impl Recorder {
    /// A record that also keeps whole answers, step by step.
    pub fn with_transcript() -> Self {
        Self {
            transcript: Some(Transcript::default()),
            ..Self::default()
        }
    }

    /// Where whole answers go, when somebody wants them.
    pub const fn transcript(&self) -> Option<&Transcript> {
        self.transcript.as_ref()
    }

    fn with<T>(&self, change: impl FnOnce(&mut Recorded) -> T) -> T {
        // A check that panicked while it held the lock left whole values behind: each is pushed at once.
        change(&mut self.recorded.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The same record for a client that the check is not counted for: its requests are evidence, and
    /// the versions that it uses are not the check's.
    #[must_use]
    pub fn of_another_client(&self) -> Self {
        Self {
            of_another: true,
            ..self.clone()
        }
    }

    /// An API version was seen on the wire.
    pub fn seen(&self, key: ApiKey, version: i16) {
        self.with(|recorded| {
            let versions = recorded.seen.entry(key).or_default();
            if let Err(at) = versions.binary_search(&version) {
                versions.insert(at, version);
            }
        });
    }

    /// The client of `session` sent a request. Its client id is the session's name, or the driver does
    /// not set it.
    pub fn requested(&self, session: &str, client_id: &str, key: ApiKey, version: i16) {
        if !self.of_another {
            self.seen(key, version);
        }
        let first_stranger = self.with(|recorded| {
            let requests = recorded.requests.entry(session.to_owned()).or_default();
            requests.push(key, version);
            client_id != session && recorded.strangers.insert(client_id.to_owned())
        });
        if first_stranger {
            self.note(format!("{session} sends requests as {client_id:?}"));
        }
    }

    /// A request went out and something, or nothing, came back.
    pub fn exchange(&self, exchange: Exchange) {
        self.with(|recorded| {
            let exchanges = &mut recorded.evidence.exchanges;
            if exchanges.len() == KEPT_EXCHANGES {
                exchanges.pop();
            }
            exchanges.push(exchange);
        });
    }

    /// A named value.
    pub fn fact(&self, name: impl Into<String>, value: impl Into<serde_json::Value>) {
        let (name, value) = (name.into(), value.into());
        self.with(|recorded| recorded.evidence.facts.insert(name, value));
    }

    /// A line worth reading.
    pub fn note(&self, line: impl Into<String>) {
        self.with(|recorded| {
            let log = &mut recorded.evidence.log;
            if log.len() == KEPT_LINES {
                log.remove(0);
            }
            log.push(line.into());
        });
    }

    /// The first field that was not as expected.
    pub fn difference(&self, difference: Difference) {
        self.with(|recorded| {
            recorded.evidence.difference.get_or_insert(difference);
        });
    }

    /// The end of this node's log is evidence should the check fail.
    fn follow_log(&self, node: &Node) {
        self.with(|recorded| recorded.node_logs.extend(node.log_path()));
    }

    /// What this driver says is evidence should the check fail.
    pub fn follow_words(&self, session: impl Into<String>, words: Words) {
        self.with(|recorded| recorded.words.push((session.into(), words)));
    }

    /// Notes the ends of the logs that it follows, and what drivers said.
    pub fn note_logs(&self) {
        let (logs, words) = self.with(|recorded| {
            (
                std::mem::take(&mut recorded.node_logs),
                std::mem::take(&mut recorded.words),
            )
        });
        for (session, words) in words {
            let lines = words.take();
            let skipped = lines.len().saturating_sub(CLIENT_LINES);
            for line in lines.into_iter().skip(skipped) {
                self.note(format!("{session}: {line}"));
            }
        }
        for path in logs {
            // A node that wrote nothing has nothing to say.
            let text = std::fs::read_to_string(path).unwrap_or_default();
            for line in last_lines(&text, NODE_LOG_LINES) {
                self.note(format!("node: {line}"));
            }
        }
    }

    /// Everything so far.
    pub fn take(&self) -> (Evidence, Vec<ApiUse>) {
        self.with(|recorded| {
            let seen = std::mem::take(&mut recorded.seen);
            for (session, requests) in std::mem::take(&mut recorded.requests) {
                recorded
                    .evidence
                    .facts
                    .insert(format!("requests of {session}"), requests.words().into());
            }
            (
                std::mem::take(&mut recorded.evidence),
                seen.into_iter()
                    .map(|(key, versions)| ApiUse {
                        key: key.0,
                        name: api_name(key),
                        versions,
                    })
                    .collect(),
            )
        })
    }
}

/// The last `count` lines of a text.
pub(crate) fn last_lines(text: &str, count: usize) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let skipped = lines.len().saturating_sub(count);
    lines.into_iter().skip(skipped).collect()
}

/// Kafka's name of an API, or its number where it has none.
pub fn api_name(key: ApiKey) -> String {
    key.name().map_or_else(|| key.0.to_string(), String::from)
}

#[cfg(test)]
mod tests {
    use kafka_wire::ApiKey;

    use super::{KEPT_RUNS, Recorder};

    #[test]
    fn requests_are_told_in_order_and_counted() {
        let record = Recorder::default();
        for (key, version) in [
            (ApiKey::API_VERSIONS, 3),
            (ApiKey::PRODUCE, 9),
            (ApiKey::PRODUCE, 9),
            (ApiKey::FETCH, 12),
            (ApiKey::PRODUCE, 9),
        ] {
            record.requested("a", "a", key, version);
        }
        record
            .of_another_client()
            .requested("b", "b", ApiKey::HEARTBEAT, 4);
        let (evidence, seen) = record.take();
        assert_eq!(
            evidence.facts["requests of a"],
            "ApiVersions v3, Produce v9 ×2, Fetch v12, Produce v9"
        );
        assert_eq!(evidence.facts["requests of b"], "Heartbeat v4");
        assert!(seen.iter().all(|api| api.name != "Heartbeat"), "{seen:?}");
    }

    #[test]
    fn a_long_story_is_cut() {
        let record = Recorder::default();
        for n in 0..KEPT_RUNS + 6 {
            let key = [ApiKey::FETCH, ApiKey::METADATA][n % 2];
            record.requested("a", "a", key, 1);
        }
        let (evidence, _) = record.take();
        let told = evidence.facts["requests of a"].as_str().unwrap();
        assert!(told.ends_with("and 6 more"), "{told}");
    }
}
