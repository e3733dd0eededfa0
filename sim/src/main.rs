//! `sim`: replays runs, sweeps over seeds, lists scenarios.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use clap::{Parser, Subcommand};
use sim::explore::explore;
use sim::run::{Outcome, Run};
use sim::scenario::{self, Scenario};

#[derive(Debug, Parser)]
#[command(about = "Runs the facade in a simulated world, again and again the same way")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Do a run again that a file describes.
    Replay {
        /// The run, as JSON.
        file: PathBuf,
        /// Print everything that happened.
        #[arg(long)]
        trace: bool,
        /// Print what the programs and the network log, to standard error: a level, or
        /// `target=level` pairs.
        #[arg(long)]
        log: Option<String>,
        /// Do it so many times in this process. Each time must be the same.
        #[arg(long, default_value_t = 1)]
        times: u32,
    },
    /// Try generated schedules; shrink and write down those that fail.
    Sweep {
        /// How many, shared over the scenarios.
        #[arg(long, default_value_t = 100)]
        seeds: u64,
        /// The first seed.
        #[arg(long, default_value_t = 0)]
        first: u64,
        /// Only this scenario; without it, all that hold no planted fault.
        #[arg(long)]
        scenario: Option<String>,
        /// Where failing runs are written.
        #[arg(long, default_value = "target/sim")]
        out: PathBuf,
    },
    /// List the scenarios.
    List,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("sim: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether nothing went wrong in the simulated world.
fn run(command: Command) -> Result<bool, Box<dyn std::error::Error>> {
    match command {
        Command::Replay {
            file,
            trace,
            log,
            times,
        } => {
            if let Some(filter) = log {
                tracing_subscriber::fmt()
                    .with_env_filter(filter)
                    .with_writer(io::stderr)
                    .with_ansi(false)
                    .without_time()
                    .init();
            }
            replay(&file, trace, times)
        }
        Command::Sweep {
            seeds,
            first,
            scenario,
            out,
        } => {
            let chosen: Vec<&'static Scenario> = match scenario {
                Some(name) => vec![scenario::named(&name).ok_or(format!("no scenario {name:?}"))?],
                None => scenario::all()
                    .filter(|one| one.planted.is_none())
                    .collect(),
            };
            Ok(sweep(&chosen, first..first.saturating_add(seeds), &out))
        }
        Command::List => {
            for scenario in scenario::all() {
                println!("{:<28} {}", scenario.name, scenario.about);
            }
            Ok(true)
        }
    }
}

fn replay(file: &Path, trace: bool, times: u32) -> Result<bool, Box<dyn std::error::Error>> {
    let run: Run = serde_json::from_slice(&fs::read(file)?)?;
    let outcome = run.execute()?;
    for time in 1..times {
        let again = run.execute()?;
        if again.trace != outcome.trace {
            return Err(format!(
                "time {} differs from the first: not deterministic",
                time + 1
            )
            .into());
        }
    }
    if trace {
        let mut out = io::BufWriter::new(io::stdout().lock());
        for line in &outcome.trace {
            writeln!(out, "{line}")?;
        }
        out.flush()?;
    }
    println!("{}", outcome.numbers);
    Ok(report(&outcome))
}

fn report(outcome: &Outcome) -> bool {
    for violation in &outcome.violations {
        println!("{violation}");
    }
    outcome.violations.is_empty()
}

fn sweep(chosen: &[&'static Scenario], seeds: std::ops::Range<u64>, out: &Path) -> bool {
    let (mut runs, mut failed, mut simulated) = (0_u64, 0_u64, 0.0);
    for (seed, scenario) in seeds.zip(chosen.iter().cycle()) {
        runs += 1;
        match explore(scenario, seed) {
            Ok(outcome) => simulated += outcome.numbers.simulated.as_secs_f64(),
            Err(failure) => {
                failed += 1;
                println!("{}\n", failure.report(out));
            }
        }
    }
    println!(
        "{runs} runs, {:.1} simulated minutes in those that passed, {failed} failed",
        simulated / 60.0
    );
    failed == 0
}
