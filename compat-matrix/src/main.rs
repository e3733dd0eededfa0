//! The program, which is two programs: called `queen-kafka` it is the facade over an embedded Queen.
//!
//! The matrix starts the nodes that it tests by running its own file under that name, so `cargo run`
//! builds nothing else, and a node can be killed like any process.

use std::process::ExitCode;

fn main() -> ExitCode {
    if compat_matrix::target::called_as_node(std::env::args_os().next().as_deref()) {
        facade::boot::main(Some(fake_queen::embed))
    } else {
        compat_matrix::cli::main()
    }
}
