//! `sweep`: many runs, in processes of their own, one a processor.
//!
//! A worker ([`worker`]) gets runs by number and says what each showed; the sweep hands them out
//! ([`plan`]), adds up ([`tally`]) and reports ([`report`]). Nothing grows with the number of runs.

mod plan;
mod pool;
mod progress;
mod report;
mod running;
mod tally;
mod worker;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use sim::scenario::Family;

use super::Answer;
use plan::{Plan, Span};
use progress::Progress;
use tally::Tally;

pub(super) use worker::{Arguments as WorkArguments, work};

/// Every situation must be met so often in a sweep that demands it.
const GOAL: u64 = 3;
/// Runs from which on a sweep over all families demands [`GOAL`] of every situation. The rarest
/// is met in one run of a hundred.
const DEMANDING_RUNS: u64 = 600;
/// Failures that are kept for the report; all are written to files.
const KEPT_FAILURES: usize = 20;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// How many runs, shared over the families.
    #[arg(long, conflicts_with = "time")]
    seeds: Option<u64>,
    /// For how long: `90s`, `30m`, `8h`.
    #[arg(long, value_parser = duration)]
    time: Option<Duration>,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Only this family.
    #[arg(long, value_parser = family)]
    family: Option<Family>,
    /// Only this scenario.
    #[arg(long)]
    scenario: Option<String>,
    /// Processes; one for each processor when absent.
    #[arg(long)]
    jobs: Option<usize>,
    /// Every situation must be met so often. Without it, sweeps of all families do so from 600 runs
    /// on.
    #[arg(long)]
    goal: Option<u64>,
    /// Where failing runs, their drawings and the report go, and while it goes on, what each process
    /// is at.
    #[arg(long, default_value = "target/sim")]
    out: PathBuf,
}

/// Runs of a sweep that was given neither a number nor a time.
const USUAL_RUNS: u64 = 100;

/// Sweeps.
pub(super) fn run(arguments: &Arguments) -> Answer {
    let span = match (arguments.seeds, arguments.time) {
        (_, Some(time)) => Span::Time(time),
        (Some(runs), None) => Span::Runs(runs),
        (None, None) => Span::Runs(USUAL_RUNS),
    };
    let plan = Plan::new(arguments, span)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let host = host::os::host();
        let began = (host.clock.monotonic(), host.clock.wall());
        let mut tally = Tally::new(arguments.first);
        tally.only = match (&arguments.scenario, arguments.family) {
            (Some(scenario), _) => format!(" --scenario {scenario}"),
            (None, Some(family)) => format!(" --family {family}"),
            (None, None) => String::new(),
        };
        let progress = Progress::new(span);
        pool::run(arguments, plan, &host, &mut tally, &progress).await?;
        progress.finish();
        let goal = arguments.goal.or_else(|| {
            let all = arguments.family.is_none() && arguments.scenario.is_none();
            (all && tally.runs >= DEMANDING_RUNS).then_some(GOAL)
        });
        let took = host.clock.monotonic().saturating_since(began.0);
        report::tell(&tally, goal, took);
        let page = report::write(&tally, goal, began.1, took, &arguments.out)?;
        println!("{}", page.display());
        Ok(tally.failed == 0 && tally.missed(goal).is_empty())
    })
}

fn family(name: &str) -> Result<Family, String> {
    Family::named(name).ok_or_else(|| {
        let all: Vec<_> = Family::ALL.iter().map(|family| family.name()).collect();
        format!("the families are {}", all.join(", "))
    })
}

fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no time: 90s, 30m and 8h are");
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    number
        .checked_mul(seconds)
        .map(Duration::from_secs)
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("8h"), Ok(Duration::from_secs(28_800)));
        for wrong in ["", "h", "8", "8d", "-1s", "8é", "18446744073709551615h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
