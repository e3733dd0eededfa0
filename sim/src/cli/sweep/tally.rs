//! What a sweep has shown so far. Bounded by the number of scenarios and situations.

use std::collections::{BTreeMap, BTreeSet};

use sim::history::Coverage;
use sim::history::coverage::{self, Situation};

use super::KEPT_FAILURES;
use super::worker::{Done, Failed};

/// Sums.
#[derive(Debug)]
pub(super) struct Tally {
    /// The first seed.
    pub first: u64,
    /// The part of the command that says what is swept; empty for everything.
    pub only: String,
    /// Runs done.
    pub runs: u64,
    /// Runs in which something went wrong.
    pub failed: u64,
    /// Simulated time of all of them.
    pub simulated_ms: u64,
    /// The situations met.
    pub coverage: Coverage,
    /// By scenario.
    pub scenarios: BTreeMap<String, Of>,
    /// The first failures.
    pub failures: Vec<(String, Failed)>,
    /// The most memory that a worker has used.
    pub peak_kb: u64,
}

/// What a sweep has shown of one scenario.
#[derive(Debug, Default)]
pub(super) struct Of {
    /// Runs done.
    pub runs: u64,
    /// Runs in which something went wrong.
    pub failed: u64,
    /// Simulated time.
    pub simulated_ms: u64,
    /// The versions that clients spoke, by API key.
    pub apis: BTreeMap<i16, BTreeSet<i16>>,
}

impl Tally {
    /// Nothing yet.
    pub fn new(first: u64) -> Self {
        Self {
            first,
            only: String::new(),
            runs: 0,
            failed: 0,
            simulated_ms: 0,
            coverage: Coverage::default(),
            scenarios: BTreeMap::new(),
            failures: Vec::new(),
            peak_kb: 0,
        }
    }

    /// Adds a run.
    pub fn add(&mut self, done: &Done) {
        let failed = u64::from(done.failure.is_some());
        self.runs += 1;
        self.failed += failed;
        self.simulated_ms += done.simulated_ms;
        self.coverage.add(&done.coverage);
        self.peak_kb = self.peak_kb.max(done.peak_kb.unwrap_or(0));
        let of = self
            .scenarios
            .entry(done.task.scenario.clone())
            .or_default();
        of.runs += 1;
        of.failed += failed;
        of.simulated_ms += done.simulated_ms;
        for (key, versions) in &done.apis {
            of.apis.entry(*key).or_default().extend(versions);
        }
        if let Some(failure) = &done.failure
            && self.failures.len() < KEPT_FAILURES
        {
            let failure = (done.task.scenario.clone(), failure.clone());
            self.failures.push(failure);
        }
    }

    /// Situations met, of all.
    pub fn met(&self) -> (usize, usize) {
        let met = coverage::ALL
            .iter()
            .filter(|situation| self.coverage.times(situation.name) > 0);
        (met.count(), coverage::ALL.len())
    }

    /// Situations met less often than demanded.
    pub fn missed(&self, goal: Option<u64>) -> Vec<&'static Situation> {
        let goal = goal.unwrap_or(0);
        let missed = |situation: &&Situation| self.coverage.times(situation.name) < goal;
        coverage::ALL.iter().filter(missed).collect()
    }
}

#[cfg(test)]
mod tests {
    use sim::history::Anomaly;

    use super::super::plan::Task;
    use super::*;

    fn done(seed: u64, failure: Option<Failed>) -> Done {
        let met = [("batch-sent-again".into(), 2)];
        Done {
            task: Task {
                scenario: "one".to_owned(),
                seed,
            },
            simulated_ms: 10,
            coverage: Coverage(met.into()),
            apis: [(0, [9].into())].into(),
            failure,
            peak_kb: Some(5),
        }
    }

    #[test]
    fn runs_add_up_and_goals_are_missed_or_met() {
        let failed = Failed {
            anomalies: vec![Anomaly::Duplicate],
            text: String::new(),
            file: None,
            drawing: None,
        };
        let mut tally = Tally::new(0);
        tally.add(&done(0, None));
        for seed in 1..=u64::try_from(KEPT_FAILURES).unwrap() + 5 {
            tally.add(&done(seed, Some(failed.clone())));
        }
        assert_eq!((tally.runs, tally.failed), (26, 25));
        assert_eq!(tally.failures.len(), KEPT_FAILURES);
        assert_eq!(tally.met().0, 1);
        assert!(tally.missed(None).is_empty());
        let names = |goal| -> Vec<_> {
            let missed = tally.missed(Some(goal));
            missed.iter().map(|situation| situation.name).collect()
        };
        assert!(!names(52).contains(&"batch-sent-again"));
        assert!(names(53).contains(&"batch-sent-again"));
    }
}
