//! `replay`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use sim::history::{Coverage, jsonl};

use super::{Answer, run_of};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The run as JSON, or a scenario's name.
    what: String,
    /// The seed, of a scenario: its schedule is the one that a sweep tries, not shrunk.
    #[arg(long)]
    seed: Option<u64>,
    /// Print everything that happened.
    #[arg(long)]
    trace: bool,
    /// Write what clients did and saw, as JSON lines.
    #[arg(long)]
    history: Option<PathBuf>,
    /// Print what the programs and the network log, to standard error: a level, or `target=level`
    /// pairs.
    #[arg(long)]
    log: Option<String>,
    /// Do it so many times in this process. Each time must be the same.
    #[arg(long, default_value_t = 1)]
    times: u32,
}

/// Does the run again and prints what it showed.
pub(super) fn run(arguments: &Arguments) -> Answer {
    if let Some(filter) = &arguments.log {
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(io::stderr)
            .with_ansi(false)
            .without_time()
            .init();
    }
    let run = run_of(&arguments.what, arguments.seed)?;
    let outcome = run.execute()?;
    for time in 1..arguments.times {
        if run.execute()?.trace != outcome.trace {
            return Err(format!(
                "time {} differs from the first: not deterministic",
                time + 1
            )
            .into());
        }
    }
    if let Some(path) = &arguments.history {
        let mut out = BufWriter::new(File::create(path)?);
        jsonl::write(&mut out, &outcome.history)?;
        out.flush()?;
    }
    if arguments.trace {
        let mut out = BufWriter::new(io::stdout().lock());
        for line in &outcome.trace {
            writeln!(out, "{line}")?;
        }
        out.flush()?;
    }
    if arguments.seed.is_some() {
        for step in &run.schedule {
            println!("{:>6} ms {}", step.at_ms, step.fault);
        }
    }
    println!("{}", outcome.numbers);
    for (name, times) in &Coverage::of(&outcome.history).0 {
        println!("met {name} {times} times");
    }
    for violation in &outcome.violations {
        println!("{violation}");
    }
    Ok(outcome.violations.is_empty())
}
