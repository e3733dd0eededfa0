//! `soak`: a cluster that is killed node by node under a loop of transactions.

use std::path::PathBuf;

use clap::Args;

use super::{ALL_EXPECTED, UNEXPECTED};
use crate::soak;
use crate::spec::Stop;

#[derive(Debug, Args)]
pub(super) struct SoakArguments {
    /// For how long nodes die.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1440))]
    minutes: u32,
    /// The folder of stores and logs; emptied first.
    #[arg(long, value_name = "DIR", default_value = "target/soak")]
    out: PathBuf,
}

pub(super) async fn soak(arguments: SoakArguments) -> u8 {
    // What an earlier run stored is none of this one's; a folder that isn't there is as good.
    let _ = std::fs::remove_dir_all(&arguments.out);
    let made = std::fs::create_dir_all(&arguments.out)
        .and_then(|()| std::path::absolute(&arguments.out))
        .map_err(|error| Stop::fail(format!("{}: {error}", arguments.out.display())));
    let audit = match made {
        Ok(folder) => soak::run(&folder, arguments.minutes).await,
        Err(stop) => Err(stop),
    };
    match audit {
        Ok(audit) => {
            println!("{audit}");
            if audit.is_clean() {
                ALL_EXPECTED
            } else {
                UNEXPECTED
            }
        }
        Err(stop) => super::bench::failed(&stop),
    }
}
