//! A sweep as checks of the common report: one for each scenario, one for each situation.

use std::path::{Path, PathBuf};
use std::time::Duration;

use host::clock::WallTime;
use kafka_wire::ApiKey;
use reports::{ApiUse, Check, Evidence, Outcome, Run};
use serde_json::Value;
use sim::history::coverage;
use sim::scenario;

use super::progress::simulated;
use super::tally::{Of, Tally};
use super::worker::Failed;
use crate::cli::Error;

/// What is tried, as a target's name.
const TARGET: &str = "facade";
/// Who tries it.
const CLIENT: &str = "simulation";
/// Drawings in one page.
const MAX_DRAWINGS: usize = 8;
/// Bytes of a drawing in the page.
const MAX_DRAWING_BYTES: usize = 400_000;

/// Prints the sums.
pub(super) fn tell(tally: &Tally, goal: Option<u64>, took: Duration) {
    let (met, situations) = tally.met();
    println!(
        "{} runs, {} in {:.0} s, {met} of {situations} situations met, {} failed; \
         a worker used at most {} MB",
        tally.runs,
        simulated(tally.simulated_ms),
        took.as_secs_f64(),
        tally.failed,
        tally.peak_kb / 1024
    );
    for situation in coverage::ALL {
        println!(
            "{:>9} {:<32} {}",
            tally.coverage.times(situation.name),
            situation.name,
            situation.about
        );
    }
    let missed = tally.missed(goal);
    if let (Some(goal), false) = (goal, missed.is_empty()) {
        let names: Vec<_> = missed.iter().map(|situation| situation.name).collect();
        println!("met less than {goal} times: {}", names.join(", "));
    }
}

/// Writes the report; the path of its page.
pub(super) fn write(
    tally: &Tally,
    goal: Option<u64>,
    started: WallTime,
    took: Duration,
    out: &Path,
) -> Result<PathBuf, Error> {
    let run = Run {
        target: TARGET.to_owned(),
        describes: format!(
            "the facade in {} simulated worlds, {}",
            tally.runs,
            simulated(tally.simulated_ms)
        ),
        command: format!(
            "cargo run -p sim -- sweep --first {} --seeds {}{}",
            tally.first, tally.runs, tally.only
        ),
        started_epoch_ms: started.epoch_ms(),
        duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        advertised: Vec::new(),
        suite: String::new(),
    };
    let folder = out.join("report");
    reports::write_all(&folder, &run, &checks(tally, goal))?;
    Ok(folder.join("index.html"))
}

fn checks(tally: &Tally, goal: Option<u64>) -> Vec<Check> {
    let mut drawings = MAX_DRAWINGS;
    let mut checks = Vec::new();
    for (name, of) in &tally.scenarios {
        let failures: Vec<&Failed> = tally
            .failures
            .iter()
            .filter(|(scenario, _)| scenario == name)
            .map(|(_, failure)| failure)
            .collect();
        checks.push(of_scenario(name, of, &failures, &mut drawings));
    }
    checks.extend(coverage::ALL.iter().map(|situation| {
        let times = tally.coverage.times(situation.name);
        let (outcome, reason) = match goal {
            Some(goal) if times < goal => {
                let reason = format!("met {times} times in {} runs, not {goal}", tally.runs);
                (Outcome::Fail, Some(reason))
            }
            None if times == 0 => {
                let reason = "not met, in a sweep too small to demand it";
                (Outcome::Skipped, Some(reason.to_owned()))
            }
            _ => (Outcome::Pass, None),
        };
        Check {
            id: format!("sim/coverage/{}", situation.name),
            title: format!("the sweep met this: {}", situation.about),
            target: TARGET.to_owned(),
            client: CLIENT.to_owned(),
            apis: situation.apis.iter().map(|key| api(*key, [])).collect(),
            kips: Vec::new(),
            observed: Vec::new(),
            outcome,
            reason,
            expected: outcome != Outcome::Fail,
            evidence: Evidence {
                facts: facts([("times", times), ("runs", tally.runs)]),
                ..Evidence::default()
            },
            duration_ms: 0,
        }
    }));
    checks
}

fn of_scenario(name: &str, of: &Of, failures: &[&Failed], drawings: &mut usize) -> Check {
    let known = scenario::named(name);
    let family = known.map_or("unknown", |scenario| scenario.family.name());
    let first = failures.first();
    let reason = first.map(|failure| {
        let kinds: Vec<_> = failure.anomalies.iter().map(|one| one.name()).collect();
        let file = failure.file.as_ref().map(|file| {
            format!(
                "; replay with cargo run -p sim -- replay {}",
                file.display()
            )
        });
        format!(
            "{} of {} runs failed, the first with {}{}",
            of.failed,
            of.runs,
            kinds.join(", "),
            file.unwrap_or_default()
        )
    });
    let outcome = match of.failed {
        0 => Outcome::Pass,
        _ => Outcome::Fail,
    };
    Check {
        id: format!("sim/{family}/{name}"),
        title: known.map_or(name, |scenario| scenario.about).to_owned(),
        target: TARGET.to_owned(),
        client: CLIENT.to_owned(),
        apis: of
            .apis
            .iter()
            .map(|(key, versions)| api(*key, versions.iter().copied()))
            .collect(),
        kips: Vec::new(),
        observed: Vec::new(),
        outcome,
        reason,
        expected: outcome == Outcome::Pass,
        evidence: Evidence {
            facts: facts([
                ("runs", of.runs),
                ("failed", of.failed),
                ("simulated_ms", of.simulated_ms),
            ]),
            log: first.map_or_else(Vec::new, |failure| {
                failure.text.lines().map(str::to_owned).collect()
            }),
            diagram: first.and_then(|failure| drawing(failure, drawings)),
            ..Evidence::default()
        },
        duration_ms: 0,
    }
}

fn drawing(failure: &Failed, room: &mut usize) -> Option<String> {
    *room = room.checked_sub(1)?;
    let drawn = std::fs::read_to_string(failure.drawing.as_ref()?).ok()?;
    (drawn.len() <= MAX_DRAWING_BYTES).then_some(drawn)
}

fn api(key: i16, versions: impl IntoIterator<Item = i16>) -> ApiUse {
    ApiUse {
        key,
        name: ApiKey(key).to_string(),
        versions: versions.into_iter().collect(),
    }
}

fn facts<const N: usize>(facts: [(&str, u64); N]) -> serde_json::Map<String, Value> {
    facts
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect()
}
