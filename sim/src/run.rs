//! One run: a scenario, a seed and a schedule, from which everything else follows.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::history::{Entry, Event, Mark, Recorder, Reply, Source, Verdict, check};
use crate::scenario::{self, Scenario};
use crate::schedule::{Invalid, Step};
use crate::trace::Trace;
use crate::world::{Ending, World};

/// All that has to be known to do it again, with the same revision of the code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The scenario's name.
    pub scenario: String,
    /// The seed: jitter, entropy, what a power cut leaves.
    pub seed: u64,
    /// What goes wrong.
    pub schedule: Vec<Step>,
    /// The git revision it was made with, when git knows; another may play out differently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

/// A run that can't be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Nothing is called so.
    #[error("no scenario is called {0:?}")]
    UnknownScenario(String),
    /// A step makes no sense in the scenario's world.
    #[error("a step that can't be in this scenario: {0}")]
    Step(#[from] Invalid),
}

/// What a run showed.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What must not be; empty when all is well.
    pub violations: Vec<Verdict>,
    /// What clients did and saw.
    pub history: Vec<Entry>,
    /// Everything that happened.
    pub trace: Vec<String>,
    /// How much happened.
    pub numbers: Figures,
}

/// How much happened in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Simulated time.
    pub simulated: Duration,
    /// Batches acknowledged.
    pub acknowledged: usize,
    /// Records the following reader saw.
    pub read_live: usize,
    /// Records in the log at the end.
    pub in_log: usize,
    /// Bytes written to sockets.
    pub sent_bytes: u64,
}

impl Run {
    /// The run of `scenario` with `seed` under `schedule`, at the present revision.
    pub fn new(scenario: &Scenario, seed: u64, schedule: Vec<Step>) -> Self {
        Self {
            scenario: scenario.name.to_owned(),
            seed,
            schedule,
            revision: revision(),
        }
    }

    /// Does it. Takes what the run takes, and no time of the simulated world's.
    ///
    /// # Errors
    ///
    /// [`RunError`].
    pub fn execute(&self) -> Result<Outcome, RunError> {
        let scenario = scenario::named(&self.scenario)
            .ok_or_else(|| RunError::UnknownScenario(self.scenario.clone()))?;
        scenario.validate(&self.schedule)?;
        Ok(execute(scenario, self.seed, &self.schedule))
    }

    /// Writes it to a file of its own in `directory`.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub fn save(&self, directory: &Path) -> io::Result<PathBuf> {
        fs::create_dir_all(directory)?;
        let path = directory.join(format!("{}-{}.json", self.scenario, self.seed));
        fs::write(&path, format!("{self}\n"))?;
        Ok(path)
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let json = serde_json::to_string_pretty(self).map_err(|_| fmt::Error)?;
        f.write_str(&json)
    }
}

/// Runs `scenario` with `seed` under `schedule`.
pub fn execute(scenario: &Scenario, seed: u64, schedule: &[Step]) -> Outcome {
    let trace = Trace::default();
    let recorder = Recorder::new(trace.clone());
    let workload = scenario.workload(seed, recorder.clone());
    let mut world = World::new(
        &scenario.world(seed),
        trace.clone(),
        recorder.clone(),
        workload,
        scenario.hostile_workload(seed, recorder.clone()),
    )
    .expect("scenarios describe worlds that can be");
    let heal_at = Duration::from_millis(scenario.rules.heal_at_ms);
    let ending = world.run(schedule, heal_at, scenario.patience);
    let simulated = world.elapsed();
    drop(world);
    let end_ms = u64::try_from(simulated.as_millis()).unwrap_or(u64::MAX);
    match ending {
        Ending::Finished => {}
        Ending::Stuck => recorder.mark(end_ms, Mark::Stuck),
        Ending::Broken(what) => recorder.mark(end_ms, Mark::Broken { what }),
    }
    recorder.mark(end_ms, Mark::End);
    let history = recorder.entries();
    let violations = check(&history);
    let numbers = Figures {
        simulated,
        sent_bytes: trace.sent_bytes(),
        ..Figures::of(&history)
    };
    Outcome {
        violations,
        history,
        trace: trace.lines(),
        numbers,
    }
}

impl Figures {
    /// What a history can tell.
    fn of(history: &[Entry]) -> Self {
        let mut figures = Self::default();
        for entry in history {
            match &entry.event {
                Event::Ok {
                    reply: Reply::Stored { .. },
                    ..
                } => figures.acknowledged += 1,
                Event::Ok {
                    reply: Reply::Polled(polled),
                    ..
                } if entry.who.as_str() != scenario::AUDITOR => {
                    figures.read_live += polled.iter().map(|one| one.records.len()).sum::<usize>();
                }
                Event::Log {
                    source: Source::Consumer,
                    records,
                    ..
                } => figures.in_log += records.len(),
                _ => {}
            }
        }
        figures
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.2} s simulated, {} batches acknowledged, {} records read live, {} in the log, {} bytes sent",
            self.simulated.as_secs_f64(),
            self.acknowledged,
            self.read_live,
            self.in_log,
            self.sent_bytes
        )
    }
}

/// The revision of the sources this was built from, as far as the checkout still holds them.
fn revision() -> Option<String> {
    let asked = std::process::Command::new("git")
        .args([
            "-C",
            env!("CARGO_MANIFEST_DIR"),
            "rev-parse",
            "--short=12",
            "HEAD",
        ])
        .stderr(std::process::Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(asked.stdout).ok()?;
    let text = text.trim();
    (asked.status.success() && !text.is_empty()).then(|| text.to_owned())
}
