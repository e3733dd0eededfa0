//! The command line. Exit codes: 0 all is well, 1 something went wrong in a simulated world or in a
//! history, 2 the command could not do its work.

mod bench;
mod check;
mod explain;
mod list;
mod replay;
mod sweep;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use sim::explore;
use sim::history::{Entry, jsonl};
use sim::run::Run;
use sim::scenario;

/// Why a command could not do its work.
pub(crate) type Error = Box<dyn std::error::Error>;

/// Whether nothing went wrong.
pub(crate) type Answer = Result<bool, Error>;

#[derive(Debug, Parser)]
#[command(about = "Runs the facade in a simulated world, again and again the same way")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Try generated schedules; shrink and write down those that fail.
    Sweep(sweep::Arguments),
    /// Do a run again: one that a file describes, or a scenario's with a seed.
    Replay(replay::Arguments),
    /// Draw a run or a history as a sequence diagram.
    Explain(explain::Arguments),
    /// Judge a history, written as JSON lines by anybody.
    Check(check::Arguments),
    /// List families and scenarios.
    List,
    /// Measure how fast the simulation is, against turmoil alone.
    Bench(bench::Arguments),
    /// What `sweep` runs in processes of its own: runs from standard input.
    #[command(hide = true)]
    Work(sweep::WorkArguments),
}

/// Does what the command line says.
pub(crate) fn main() -> ExitCode {
    let answer = match Cli::parse().command {
        Command::Sweep(arguments) => sweep::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::List => list::run(),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Work(arguments) => sweep::work(&arguments),
    };
    match answer {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("sim: {error}");
            ExitCode::from(2)
        }
    }
}

/// The run that a file describes.
fn read_run(file: &Path) -> Result<Run, Error> {
    let bytes = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let run = serde_json::from_slice(&bytes);
    Ok(run.map_err(|error| format!("{}: {error}", file.display()))?)
}

/// The history that a file holds.
fn read_history(file: &Path) -> Result<Vec<Entry>, Error> {
    let open = File::open(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let entries = jsonl::read(BufReader::new(open));
    Ok(entries.map_err(|error| format!("{}: {error}", file.display()))?)
}

/// What a file describes, or a scenario with a seed.
fn run_of(what: &str, seed: Option<u64>) -> Result<Run, Error> {
    match (scenario::named(what), seed) {
        (Some(scenario), Some(seed)) => {
            let schedule = explore::schedule(scenario, seed);
            Ok(Run::new(scenario, seed, schedule))
        }
        (Some(_), None) => Err("a scenario needs a --seed".into()),
        (None, None) => read_run(Path::new(what)),
        (None, Some(_)) => Err(unknown(what).into()),
    }
}

fn unknown(name: &str) -> String {
    format!("no scenario is called {name:?}; `sim list` knows them")
}
