//! `sequences`: record what librdkafka sends.

use std::path::PathBuf;

use clap::Args;

use super::ALL_EXPECTED;
use super::bench::failed;
use crate::sequences;

#[derive(Debug, Args)]
pub(super) struct SequencesArguments {
    /// The file to be written.
    #[arg(long, value_name = "FILE", default_value = sequences::FILE)]
    out: PathBuf,
}

pub(super) async fn record(arguments: SequencesArguments) -> u8 {
    match sequences::record(&arguments.out).await {
        Ok(()) => {
            println!("{}", arguments.out.display());
            ALL_EXPECTED
        }
        Err(stop) => failed(&stop),
    }
}
