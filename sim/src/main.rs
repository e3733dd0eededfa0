//! `sim`: sweeps over seeds, replays runs, explains and judges histories, lists scenarios.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
