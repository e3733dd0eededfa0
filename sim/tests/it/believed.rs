//! The checkers can fail, failures shrink, and a run done again is the same run.

use std::process::Command;

use sim::explore::{Failure, explore};
use sim::run::Run;
use sim::scenario::{self, Scenario};

use crate::scenarios::{EXACTLY_ONCE, everything, named};

/// Seeds within which a planted fault must be found.
const SEEDS: u64 = 12;

fn found(scenario: &'static Scenario) -> Failure {
    let failure = (0..SEEDS).find_map(|seed| explore(scenario, seed).err());
    *failure.unwrap_or_else(|| panic!("{} stayed unnoticed for {SEEDS} seeds", scenario.name))
}

#[test]
fn every_planted_fault_is_caught_by_its_checker_and_shrinks() {
    for scenario in scenario::all() {
        let Some(name) = scenario.planted else {
            continue;
        };
        let failure = found(scenario);
        assert!(failure.names().contains(&name), "{failure}");
        assert!(failure.run.schedule.len() <= 5, "{failure}");
        // What it says can be done again is done again.
        let json = failure.run.to_string();
        let again: Run = serde_json::from_str(&json).expect("its own words");
        let again = again.execute().expect("a scenario");
        assert_eq!(again.violations, failure.outcome.violations);
    }
}

/// The trace of a run in a process of its own.
fn replayed(run: &Run, directory: &std::path::Path) -> String {
    let file = run.save(directory).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_sim"))
        .arg("replay")
        .arg(file)
        .arg("--trace")
        .output()
        .expect("the binary runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{text}");
    text
}

/// Compares traces; says where they part, not what they are.
fn same(one: &str, other: &str) {
    let parted = one
        .lines()
        .zip(other.lines())
        .position(|(one, other)| one != other);
    if let Some(at) = parted {
        let around = |trace: &str| {
            let lines = trace.lines().skip(at.saturating_sub(5)).take(8);
            lines.collect::<Vec<_>>().join("\n")
        };
        panic!(
            "traces part at line {at}:\n{}\n\n{}",
            around(one),
            around(other)
        );
    }
    assert_eq!(one.len(), other.len());
}

#[test]
fn the_same_run_is_the_same_in_every_process() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let run = Run::new(named(EXACTLY_ONCE), 4, everything());
    let (one, other) = (replayed(&run, directory), replayed(&run, directory));
    assert!(one.lines().count() > 1_000, "the trace holds something");
    same(&one, &other);
    let traced = |run: &Run| run.execute().expect("a scenario").trace.join("\n");
    let lines = traced(&run).lines().count();
    // Behind the trace comes what the replay says of it.
    let trace: Vec<_> = one.lines().take(lines).collect();
    let trace = trace.join("\n");
    // What a process did before must not matter: tasks and sockets are counted per process.
    for seed in 5..8 {
        let another = Run::new(named(EXACTLY_ONCE), seed, everything());
        assert_ne!(traced(&another), trace, "the seed matters");
        same(&trace, &traced(&run));
    }
}
