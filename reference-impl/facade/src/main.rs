//! `queen-kafka`: the facade with the Queen that `QUEEN_URL=embedded:` asks for.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(feature = "embedded")]
    let embedded: Option<facade::boot::EmbedFn> = Some(fake_queen::embed);
    #[cfg(not(feature = "embedded"))]
    let embedded = None;
    facade::boot::main(embedded)
}
