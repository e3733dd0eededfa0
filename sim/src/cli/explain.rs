//! `explain`.

use std::path::PathBuf;

use clap::Args;
use kafka_wire::ApiKey;
use sim::history::{Entry, Verdict, check, diagram};

use super::{Answer, Error, read_history, run_of};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The run as JSON, a scenario's name, or a history as JSON lines (`.jsonl`).
    what: String,
    /// The seed, of a scenario.
    #[arg(long)]
    seed: Option<u64>,
    /// Where the drawing goes; beside the file, or `SCENARIO-SEED.svg`, when absent.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Draws a run or a history. That something is wrong with it is no failure: it is what one asks for.
pub(super) fn run(arguments: &Arguments) -> Answer {
    let (title, entries, verdicts) = shown(arguments)?;
    let drawn = draw(&title, &entries, &verdicts);
    let out = arguments.out.clone().unwrap_or_else(|| {
        let name = match arguments.seed {
            Some(seed) => format!("{}-{seed}", arguments.what),
            None => arguments.what.clone(),
        };
        // A scenario's name may hold a dot.
        PathBuf::from(match arguments.seed {
            Some(_) => format!("{name}.svg"),
            None => PathBuf::from(name)
                .with_extension("svg")
                .display()
                .to_string(),
        })
    });
    std::fs::write(&out, drawn).map_err(|error| format!("{}: {error}", out.display()))?;
    for verdict in &verdicts {
        println!("{verdict}");
    }
    println!("{}", out.display());
    Ok(true)
}

fn shown(arguments: &Arguments) -> Result<(String, Vec<Entry>, Vec<Verdict>), Error> {
    let path = PathBuf::from(&arguments.what);
    if path
        .extension()
        .is_some_and(|extension| extension == "jsonl")
    {
        let entries = read_history(&path)?;
        let verdicts = check(&entries);
        return Ok((arguments.what.clone(), entries, verdicts));
    }
    let run = run_of(&arguments.what, arguments.seed)?;
    let outcome = run.execute()?;
    let title = format!(
        "{} with seed {}, {}",
        run.scenario, run.seed, outcome.numbers
    );
    Ok((title, outcome.history, outcome.violations))
}

/// The drawing of a history.
pub(super) fn draw(title: &str, entries: &[Entry], verdicts: &[Verdict]) -> String {
    diagram::svg(title, entries, verdicts, |key| ApiKey(key).to_string())
}
