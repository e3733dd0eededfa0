//! A worker: a process that does runs, one line of JSON each way.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};
use sim::explore::{Failure, explore};
use sim::history::{Anomaly, Coverage, Entry, Event};
use sim::run::Outcome;
use sim::scenario;

use super::plan::Task;
use crate::cli::{Answer, Error, explain, unknown};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Where failing runs and their drawings go.
    #[arg(long)]
    out: PathBuf,
}

/// What one run showed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Done {
    pub task: Task,
    /// Simulated time.
    pub simulated_ms: u64,
    /// The situations that were met.
    pub coverage: Coverage,
    /// The versions that clients spoke, by API key.
    pub apis: BTreeMap<i16, BTreeSet<i16>>,
    /// What went wrong.
    pub failure: Option<Failed>,
    /// The most memory that the worker has used so far, where the system tells.
    pub peak_kb: Option<u64>,
}

/// What went wrong in a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Failed {
    /// The kinds, each once.
    pub anomalies: Vec<Anomaly>,
    /// All of it, for a person.
    pub text: String,
    /// The shrunk run, where it could be written.
    pub file: Option<PathBuf>,
    /// Its drawing, where it could be written.
    pub drawing: Option<PathBuf>,
}

/// Does the runs that come on standard input until it ends.
pub(crate) fn work(arguments: &Arguments) -> Answer {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let task: Task = serde_json::from_str(&line?)?;
        let done = run(task, &arguments.out)?;
        serde_json::to_writer(&mut out, &done)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(true)
}

fn run(task: Task, out: &Path) -> Result<Done, Error> {
    let scenario = scenario::named(&task.scenario).ok_or_else(|| unknown(&task.scenario))?;
    let (outcome, failure) = match explore(scenario, task.seed) {
        Ok(outcome) => (outcome, None),
        Err(failure) => {
            let failed = failed(&failure, out);
            (failure.outcome, Some(failed))
        }
    };
    let Outcome {
        history, numbers, ..
    } = &outcome;
    Ok(Done {
        simulated_ms: u64::try_from(numbers.simulated.as_millis()).unwrap_or(u64::MAX),
        coverage: Coverage::of(history),
        apis: spoken(history),
        failure,
        peak_kb: peak_kb(),
        task,
    })
}

fn failed(failure: &Failure, out: &Path) -> Failed {
    let Failure { run, outcome, .. } = failure;
    let file = run.save(out).ok();
    let drawing = file.as_ref().and_then(|file| {
        let path = file.with_extension("svg");
        let title = format!("{} with seed {}", run.scenario, run.seed);
        let drawn = explain::draw(&title, &outcome.history, &outcome.violations);
        fs::write(&path, drawn).ok()?;
        Some(path)
    });
    Failed {
        anomalies: failure.names(),
        text: failure.report(out),
        file,
        drawing,
    }
}

/// The versions that clients spoke.
fn spoken(history: &[Entry]) -> BTreeMap<i16, BTreeSet<i16>> {
    let mut apis: BTreeMap<i16, BTreeSet<i16>> = BTreeMap::new();
    for entry in history {
        if let Event::Answered { api, version, .. } = entry.event {
            apis.entry(api).or_default().insert(version);
        }
    }
    apis
}

/// The peak of this process's resident memory.
fn peak_kb() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
