//! `list`.

use sim::scenario::{self, Family};

use super::Answer;

/// Prints every family with its scenarios.
pub(super) fn run() -> Answer {
    for family in Family::ALL {
        match family.why_empty() {
            Some(why) => println!("{family}: none, for {why}"),
            None => println!("{family}:"),
        }
        for scenario in scenario::all().filter(|one| one.family == family) {
            println!("  {:<44} {}", scenario.name, scenario.about);
        }
    }
    Ok(true)
}
