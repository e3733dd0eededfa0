//! `publish`: make the reports of a nightly the published ones, and tell what changed.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;

use super::{ALL_EXPECTED, UNEXPECTED, usage};
use crate::publish::{Order, publish as publish_reports};

#[derive(Debug, Args)]
pub(super) struct PublishArguments {
    /// Folders that `run --report` wrote, named TARGET or TARGET+CLIENT.
    #[arg(required = true, value_name = "DIR")]
    reports: Vec<PathBuf>,
    /// The results.json of `bench`.
    #[arg(long, value_name = "FILE")]
    bench: Option<PathBuf>,
    /// The folder of what is published.
    #[arg(long, value_name = "DIR", default_value = "reports/published")]
    to: PathBuf,
    /// The folder of what was published before [default: the one of --to].
    #[arg(long, value_name = "DIR")]
    since: Option<PathBuf>,
}

/// Fails when something got worse.
pub(super) fn publish(arguments: PublishArguments) -> u8 {
    let order = Order {
        reports: arguments.reports,
        bench: arguments.bench,
        to: arguments.to,
        since: arguments.since,
    };
    match publish_reports(&order) {
        Ok(changes) => {
            // Who stops reading still wants the exit status.
            let _ = writeln!(std::io::stdout(), "{}", changes.markdown());
            if changes.is_regression() {
                UNEXPECTED
            } else {
                ALL_EXPECTED
            }
        }
        Err(error) => usage(&error.to_string()),
    }
}
