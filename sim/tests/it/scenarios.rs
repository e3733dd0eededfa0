//! The shipped code under faults.

use std::path::Path;

use sim::explore::explore;
use sim::history::{Event, Reply};
use sim::run::{Outcome, Run, execute};
use sim::scenario::{self, Scenario};
use sim::schedule::{Fault, Link, Lost, Server, Step, Unsynced};

pub const EXACTLY_ONCE: &str = "acknowledged-is-there-once";

/// Where failing runs are written: beside the build.
pub fn failures() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/sim"))
}

pub fn named(name: &str) -> &'static Scenario {
    scenario::named(name).expect("a scenario")
}

fn step(at_ms: u64, fault: Fault) -> Step {
    Step { at_ms, fault }
}

/// Both machines lose power and come back, links are cut in every way, clocks jump: one fault at a
/// time, and two at once at the end.
pub fn everything() -> Vec<Step> {
    let (facade, queen) = (Server::Facade, Server::Queen);
    let (front, back) = (Link::ClientsFacade, Link::FacadeQueen);
    vec![
        step(
            700,
            Fault::Crash {
                node: facade,
                unsynced: Unsynced::Lost,
            },
        ),
        step(
            1_000,
            Fault::Bounce {
                node: facade,
                unsynced: Unsynced::Lost,
            },
        ),
        step(
            1_600,
            Fault::Crash {
                node: queen,
                unsynced: Unsynced::Lost,
            },
        ),
        step(
            2_000,
            Fault::Bounce {
                node: queen,
                unsynced: Unsynced::Lost,
            },
        ),
        step(
            2_600,
            Fault::Partition {
                link: back,
                lost: Lost::Answers,
            },
        ),
        step(2_900, Fault::Repair { link: back }),
        step(
            3_400,
            Fault::WallJump {
                node: queen,
                by_ms: -120_000,
            },
        ),
        step(3_600, Fault::Hold { link: back }),
        step(4_200, Fault::Release { link: back }),
        step(
            4_700,
            Fault::Partition {
                link: front,
                lost: Lost::Both,
            },
        ),
        step(5_000, Fault::Repair { link: front }),
        step(5_600, Fault::Hold { link: back }),
        step(
            5_700,
            Fault::Bounce {
                node: facade,
                unsynced: Unsynced::Lost,
            },
        ),
        step(6_400, Fault::Release { link: back }),
        step(
            6_600,
            Fault::Bounce {
                node: queen,
                unsynced: Unsynced::Lost,
            },
        ),
        step(
            6_600,
            Fault::Bounce {
                node: facade,
                unsynced: Unsynced::Lost,
            },
        ),
    ]
}

pub fn fine(run: &Run, outcome: &Outcome) {
    assert!(
        outcome.violations.is_empty(),
        "{:#?}\n{run}\nreplay: cargo run -p sim -- replay {}",
        outcome.violations,
        run.save(failures()).expect("written").display(),
    );
}

#[test]
fn nothing_goes_wrong_when_nothing_goes_wrong() {
    let run = Run::new(named(EXACTLY_ONCE), 1, Vec::new());
    let outcome = run.execute().expect("a scenario");
    fine(&run, &outcome);
    let numbers = outcome.numbers;
    // What is handed over before the topic is known goes out together.
    assert!((100..=180).contains(&numbers.acknowledged), "{numbers}");
    assert_eq!(numbers.in_log, 540);
    assert_eq!(numbers.read_live, 540, "the follower kept up");
}

#[test]
fn what_was_acknowledged_outlives_crashes_power_cuts_and_cut_links() {
    let run = Run::new(named(EXACTLY_ONCE), 2, everything());
    let outcome = run.execute().expect("a scenario");
    fine(&run, &outcome);
    assert_eq!(outcome.numbers.in_log, 540);
    // The faults were felt: calls failed, and batches were sent more than once.
    let felt = |what: &str| {
        outcome
            .trace
            .iter()
            .filter(|line| line.contains(what))
            .count()
    };
    assert!(felt("connection lost") + felt("no answer in time") + felt("cannot connect") > 10);
    assert!(felt("? Produce") > outcome.numbers.acknowledged);
}

#[test]
fn generated_schedules_break_nothing() {
    for seed in 0..6 {
        if let Err(failure) = explore(named(EXACTLY_ONCE), seed) {
            panic!("{}", failure.report(failures()));
        }
    }
}

#[test]
fn a_machine_without_power_answers_nobody() {
    let crash = vec![step(
        10,
        Fault::Crash {
            node: Server::Queen,
            unsynced: Unsynced::Lost,
        },
    )];
    let outcome = execute(named(EXACTLY_ONCE), 3, &crash);
    let first = outcome.history.iter().find_map(|entry| match entry.event {
        Event::Ok {
            reply: Reply::Stored { .. },
            ..
        } => Some(entry.at_ms),
        _ => None,
    });
    assert!(
        first.expect("acknowledged after the heal") >= 8_000,
        "{first:?}"
    );
}

#[test]
fn no_fault_once_found_comes_back() {
    let directory = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../fixtures/schedules"
    ));
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .expect("the schedules")
        .map(|entry| entry.expect("readable").path())
        .collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let text = std::fs::read_to_string(&file).expect("readable");
        let run: Run = serde_json::from_str(&text).expect("a run");
        let outcome = run.execute().expect("a scenario");
        let found = &outcome.violations;
        assert!(found.is_empty(), "{}: {found:#?}", file.display());
    }
}
