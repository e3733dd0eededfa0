//! Generates schedules, runs them, and shrinks one that fails to the smallest that still does.

use std::fmt;
use std::path::Path;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::history::Anomaly;
use crate::run::{Outcome, Run, execute};
use crate::scenario::Scenario;
use crate::schedule::{Step, schedules};
use crate::seed::Numbers;

/// Runs spent on one failure: shrinking further than this is not worth a person's wait.
const MAX_SHRINKS: usize = 60;

/// A run that showed what must not be, under the smallest schedule found.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The smallest run.
    pub run: Run,
    /// What it showed.
    pub outcome: Outcome,
    /// Steps of the schedule that failed first.
    pub found_with: usize,
}

impl Failure {
    /// The names of what went wrong, each once, in order.
    pub fn names(&self) -> Vec<Anomaly> {
        let mut names: Vec<_> = self
            .outcome
            .violations
            .iter()
            .map(|verdict| verdict.anomaly)
            .collect();
        names.dedup();
        names
    }

    /// What a person needs: what went wrong, the run as JSON, and the command that does it again.
    /// The run is written to `directory`.
    pub fn report(&self, directory: &Path) -> String {
        let command = match self.run.save(directory) {
            Ok(path) => format!("cargo run -p sim -- replay {}", path.display()),
            Err(error) => format!("cargo run -p sim -- replay FILE (not written: {error})"),
        };
        format!("{self}\n{}\n\nreplay: {command}", self.run)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, outcome, .. } = self;
        writeln!(f, "{} with seed {}:", run.scenario, run.seed)?;
        for violation in outcome.violations.iter().take(10) {
            writeln!(f, "  {violation}")?;
        }
        let more = outcome.violations.len().saturating_sub(10);
        if more > 0 {
            writeln!(f, "  and {more} more")?;
        }
        write!(
            f,
            "  shrunk from {} to {} steps",
            self.found_with,
            run.schedule.len()
        )
    }
}

/// The schedule that `seed` stands for.
pub fn schedule(scenario: &Scenario, seed: u64) -> Vec<Step> {
    tree(scenario, seed).current()
}

fn tree(scenario: &Scenario, seed: u64) -> impl ValueTree<Value = Vec<Step>> + use<> {
    let mut key = [0; 32];
    Numbers::new(seed, "schedule").fill(&mut key);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &key);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    schedules(scenario.rules)
        .new_tree(&mut runner)
        .expect("the strategy filters nothing, so it never gives up")
}

/// Runs `scenario` under the schedule that `seed` stands for.
///
/// # Errors
///
/// A [`Failure`], shrunk.
pub fn explore(scenario: &Scenario, seed: u64) -> Result<Outcome, Box<Failure>> {
    let mut tree = tree(scenario, seed);
    let schedule: Vec<Step> = tree.current();
    let outcome = execute(scenario, seed, &schedule);
    let Some(kind) = outcome.violations.first().map(|verdict| verdict.anomaly) else {
        return Ok(outcome);
    };
    let found_with = schedule.len();
    let mut smallest = (schedule, outcome);
    let mut moved = tree.simplify();
    for _ in 0..MAX_SHRINKS {
        if !moved {
            break;
        }
        let schedule = tree.current();
        let outcome = execute(scenario, seed, &schedule);
        // The same kind of fault: another one would lead away from what was found.
        let fails = outcome
            .violations
            .iter()
            .any(|violation| violation.anomaly == kind);
        moved = if fails {
            smallest = (schedule, outcome);
            tree.simplify()
        } else {
            tree.complicate()
        };
    }
    let (schedule, outcome) = smallest;
    Err(Box::new(Failure {
        run: Run::new(scenario, seed, schedule),
        outcome,
        found_with,
    }))
}
