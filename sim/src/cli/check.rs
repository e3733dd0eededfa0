//! `check`.

use std::path::PathBuf;

use clap::Args;
use sim::history::{Coverage, Rules, check_with};

use super::{Answer, read_history};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The history, as JSON lines.
    file: PathBuf,
    /// Also name transactions whose writes interleave in a circle, which Kafka allows.
    #[arg(long)]
    strict: bool,
    /// Print the entries that prove each verdict.
    #[arg(long)]
    proof: bool,
}

/// Prints what is wrong with a history.
pub(super) fn run(arguments: &Arguments) -> Answer {
    let entries = read_history(&arguments.file)?;
    let rules = Rules {
        writes_of_transactions_never_interleave: arguments.strict,
    };
    let verdicts = check_with(&entries, rules);
    for verdict in &verdicts {
        println!("{verdict}");
        let proof = verdict.proof.iter().filter_map(|at| entries.get(*at));
        for entry in proof.filter(|_| arguments.proof) {
            println!("  {}", serde_json::to_string(entry)?);
        }
    }
    for (name, times) in &Coverage::of(&entries).0 {
        println!("met {name} {times} times");
    }
    println!("{} entries, {} verdicts", entries.len(), verdicts.len());
    Ok(verdicts.is_empty())
}
