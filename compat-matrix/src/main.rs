//! The program: see [`compat_matrix::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    compat_matrix::cli::main()
}
