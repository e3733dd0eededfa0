//! `bench`: measure, and say where the page is.

use std::path::PathBuf;

use clap::Args;

use super::{ALL_EXPECTED, UNEXPECTED};
use crate::bench::{self, Request, Subject};
use crate::spec::Stop;
use crate::target::{self, QueenOptions};

#[derive(Debug, Args)]
pub(super) struct BenchArguments {
    /// What to measure [default: everything].
    #[arg(value_enum)]
    subjects: Vec<Subject>,
    /// The folder of index.md and results.json.
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    out: PathBuf,
    /// Small loads, one run: shows that everything runs; its numbers mean nothing.
    #[arg(long)]
    quick: bool,
    /// A queen-kafka to measure instead of the one inside this program.
    #[arg(long, value_name = "FILE")]
    node: Option<PathBuf>,
    /// Criterion's folder, to put what cargo bench measured on the page.
    #[arg(long, value_name = "DIR")]
    criterion: Option<PathBuf>,
}

pub(super) async fn bench(arguments: BenchArguments) -> u8 {
    let BenchArguments {
        subjects,
        out,
        quick,
        node,
        criterion,
    } = arguments;
    let request = Request {
        subjects,
        out,
        quick,
        node,
        criterion,
    };
    match bench::run(request).await {
        Ok(page) => {
            println!("{}", page.display());
            ALL_EXPECTED
        }
        Err(stop) => failed(&stop),
    }
}

pub(super) async fn serve_queen(arguments: QueenOptions) -> u8 {
    match target::serve_queen(arguments).await {
        Ok(()) => ALL_EXPECTED,
        Err(stop) => failed(&stop),
    }
}

/// Says why there is no result.
pub(super) fn failed(stop: &Stop) -> u8 {
    let why = match stop {
        Stop::Fail(failure) => &failure.reason,
        Stop::Skip(why) | Stop::Unable(why) => why,
    };
    eprintln!("compat-matrix: {why}");
    UNEXPECTED
}
