//! Proof that the checkers can fire: doubles with a planted fault, each caught by the checker that
//! names it, within a few seeds, under a schedule that shrinks to a handful of steps; and the same
//! double without the fault, which nobody accuses.

mod door;
mod keys;
mod lies;
mod plays;
mod transactional;

use std::path::Path;

use futures::FutureExt;
use sim::explore::explore;
use sim::history::{Anomaly, Rules as Judging, check_with};
use sim::run::execute;
use sim::scenario::{Family, Play, Scenario, Setting};
use sim::schedule::{Key, Kind, Link, Rules, Server};
use sim::world::{Doubles, Tenancy};

use door::{Honest, bounded, door, door_of_tenants, forgetful_storage, short_lived};

/// Seeds within which a planted fault must be found.
const SEEDS: u64 = 48;
/// `QUEEN_KAFKA_MAX_IN_FLIGHT_BYTES`, as the operator believes it to be.
const BOUND: usize = 1 << 20;
/// Steps of its smallest schedule.
const MAX_STEPS: usize = 5;

const RULES: Rules = Rules {
    heal_at_ms: 3_000,
    max_steps: 4,
    max_wall_jump_ms: 1,
    max_lasting_ms: 1_000,
    max_delay_ms: u64::MAX,
    kinds: &[
        (3, Kind::Bounce),
        (2, Kind::Partition),
        (3, Kind::Repair),
        (1, Kind::Hold),
        (2, Kind::Release),
    ],
    servers: &[Server::Facade],
    links: &[Link::ClientsFacade, Link::FacadeQueen],
    hops: &[],
    clients: &[],
    apis: &[],
    keys: &[],
};

/// Keys end instead.
const RULES_OF_KEYS: Rules = Rules {
    kinds: &[(2, Kind::Revoke), (1, Kind::Narrow), (2, Kind::Rotate)],
    keys: &[Key::Victim],
    ..RULES
};

/// A world in which the first writer's key ends.
fn with_keys(
    name: &'static str,
    tenancy: Tenancy,
    doubles: fn() -> Doubles,
    play: Play,
) -> Scenario {
    Scenario {
        rules: RULES_OF_KEYS,
        setting: Setting {
            tenancy,
            struck: "producer-0",
            doubles,
            ..Setting::PLAIN
        },
        ..scenario(name, doubles, play)
    }
}

fn scenario(name: &'static str, doubles: fn() -> Doubles, play: Play) -> Scenario {
    Scenario {
        name,
        about: "a planted fault",
        family: Family::Planted,
        rules: RULES,
        planted: None,
        setting: Setting {
            doubles,
            ..Setting::PLAIN
        },
        patience: std::time::Duration::from_secs(40),
        play,
        strangers: None,
    }
}

/// The fault is found, named and shrunk.
fn caught(scenario: &Scenario, anomaly: Anomaly) {
    let name = scenario.name;
    let failure = (0..SEEDS)
        .filter_map(|seed| explore(scenario, seed).err())
        .find(|failure| failure.names().contains(&anomaly))
        .unwrap_or_else(|| panic!("{name}: nobody said {anomaly} within {SEEDS} seeds"));
    assert!(failure.run.schedule.len() <= MAX_STEPS, "{failure}");
    let again = execute(scenario, failure.run.seed, &failure.run.schedule);
    assert_eq!(again.violations, failure.outcome.violations, "{failure}");
    for verdict in &again.violations {
        let inside = |at: &usize| *at < again.history.len();
        assert!(verdict.proof.iter().all(inside), "{verdict}");
        assert!(verdict.proof.len() <= 8, "a small proof: {verdict}");
    }
}

macro_rules! faults {
    ($($test:ident: $doubles:expr, $play:expr => $anomaly:ident;)*) => {
        /// What is caught here.
        const CAUGHT: &[Anomaly] = &[$(Anomaly::$anomaly,)*];
        $(
        #[test]
        fn $test() {
            let planted = scenario(stringify!($test), || $doubles, |stage| $play(stage).boxed());
            caught(&planted, Anomaly::$anomaly);
        }
        )*
    };
}

macro_rules! faults_about_keys {
    ($($test:ident: $tenancy:ident, $doubles:expr => $anomaly:ident;)*) => {
        /// What is caught in worlds whose clients have keys.
        const CAUGHT_WITH_KEYS: &[Anomaly] = &[$(Anomaly::$anomaly,)*];
        $(
        #[test]
        fn $test() {
            let tenancy = Tenancy::$tenancy;
            let planted = with_keys(stringify!($test), tenancy, || $doubles, |stage| {
                plays::tenants(stage).boxed()
            });
            caught(&planted, Anomaly::$anomaly);
        }
        )*
    };
}

faults_about_keys! {
    a_proxy_that_knows_keys_from_its_cache: Cached, Doubles::default() => ServedRevoked;
    a_door_that_takes_everybody_for_the_first: Enforced, door_of_tenants(|_| keys::takes_all_for_one()) => TenantLeak;
    a_door_that_shuts_the_neighbour_out: Enforced, door_of_tenants(|_| keys::shuts_the_neighbour_out()) => Disturbed;
}

faults! {
    a_door_that_acknowledges_before_it_pushes: door(|_| lies::acknowledges_ahead()), plays::orders => LostWrite;
    a_door_that_forgets_a_push: door(|_| lies::forgets()), plays::orders => SequenceGap;
    a_door_that_pushes_twice: door(|_| lies::pushes_twice()), plays::orders => Duplicate;
    a_window_of_sequences_that_forgets_at_restart: door(lies::forgets_at_restart), plays::orders => Duplicate;
    storage_that_takes_a_repetition_for_a_new_push: forgetful_storage(), plays::orders => Duplicate;
    a_door_that_tells_wrong_offsets: door(|_| lies::tells_wrong_offsets()), plays::orders => InconsistentOffset;
    a_door_that_swaps_batches: door(|_| lies::swaps()), plays::orders => Order;
    a_door_that_writes_elsewhere: door(|_| lies::writes_elsewhere()), plays::orders => Phantom;
    a_door_that_refuses_what_it_stores: door(|_| lies::refuses_what_it_stores()), plays::orders => AbortedRead;
    a_door_that_refuses_good_batches: door(|_| lies::refuses()), plays::orders => Refused;
    a_door_that_skips_a_batch_of_a_fetch: door(|_| lies::skips()), plays::orders => PollSkip;
    a_door_that_changes_bytes: door(|_| lies::changes_bytes()), plays::orders => Corrupt;
    a_door_that_answers_the_wrong_request: door(|_| lies::answers_another()), plays::orders => Malformed;
    a_door_that_never_answers_the_auditor: door(|_| lies::ignores_the_auditor()), plays::orders => Stuck;
    a_door_that_throttles_and_does_not_mute: door(|_| lies::throttles()), plays::muted_orders => NotMuted;
    a_client_that_ignores_its_throttle: door(|_| lies::throttles()), plays::hasty_orders => ThrottleIgnored;
    a_coordinator_that_gives_a_partition_twice: door(|_| lies::gives_twice()), plays::group => TwoOwners;
    a_coordinator_that_gives_a_partition_twice_by_epochs: door(|_| lies::gives_by_epochs_twice()), plays::epochs => TwoOwners;
    a_coordinator_that_tells_old_offsets: door(|_| lies::tells_old_offsets()), plays::group => CommitBack;
    a_coordinator_that_makes_offsets_up: door(|_| lies::makes_offsets_up()), plays::group => PhantomCommit;
    a_coordinator_that_takes_everything: door(|_| lies::takes_everything()), plays::group => Zombie;
    a_coordinator_that_never_assigns: door(|_| lies::never_assigns()), plays::group => NotConverged;
    a_coordinator_that_throttles_commits: door(|_| transactional::throttles_commits()), plays::group => ThrottledOffsets;
    a_door_that_commits_what_is_aborted: door(|_| transactional::commits_what_is_aborted()), transactional::ledger => AbortedRead;
    a_door_that_shows_open_transactions: door(|_| transactional::shows_what_is_open()), transactional::ledger => PrecommittedRead;
    a_door_that_shows_transactions_to_each_other: door(|_| transactional::shows_what_is_open()), sim::scenario::transaction::mirror::play => G1c;
    a_stage_that_forgets_a_part: door(|_| transactional::forgets_a_part()), transactional::ledger => Torn;
    a_door_that_commits_offsets_ahead: door(|_| transactional::commits_offsets_ahead()), transactional::looped => LostInLoop;
    a_coordinator_that_tells_loops_old_offsets: door(|_| transactional::tells_loops_old_offsets()), transactional::looped => TwiceInLoop;
    a_coordinator_that_fences_nobody: door(|_| transactional::fences_nobody()), transactional::twins => Zombie;
    a_log_that_seems_to_begin_later: door(|_| lies::begins_later()), plays::group => Unseen;
    a_door_that_shows_what_nobody_stored: door(|_| lies::shows_a_ghost()), plays::orders => Vanished;
    a_door_that_counts_down: door(|_| lies::counts_down()), plays::orders => NonmonotonicSend;
    a_consumer_that_hands_out_twice: door(|_| Box::new(Honest)), plays::stutter => NonmonotonicPoll;
    a_door_that_answers_in_another_order: door(|_| lies::swaps_answers()), plays::by_hand => AnswerOrder;
    a_door_that_never_answers_a_heartbeat: door(|_| lies::ignores_heartbeats()), plays::patient => Late;
    a_facade_that_forgets_its_bound: bounded(1 << 30), plays::crowd => MemoryBound;
    a_door_that_stores_nothing: door(|_| lies::refuses_everything()), plays::orders => Vacuous;
    a_facade_that_ends_by_itself: short_lived(), plays::orders => Broken;
}

/// Kafka lets the writes of transactions interleave, so no run is judged by it: on demand it is, and
/// needs no schedule to show.
#[test]
fn a_door_that_lets_transactions_interleave() {
    let rules = Judging {
        writes_of_transactions_never_interleave: true,
    };
    let double: fn() -> Doubles = || door(|_| transactional::shows_what_is_open());
    let scenario = scenario("interleaved", double, |stage| {
        transactional::ledger(stage).boxed()
    });
    let shown = (0..SEEDS).any(|seed| {
        let outcome = execute(&scenario, seed, &[]);
        let found = check_with(&outcome.history, rules);
        found.iter().any(|verdict| verdict.anomaly == Anomaly::G0)
    });
    assert!(shown, "nobody said g0 within {SEEDS} seeds");
}

/// What no double can bring about, and why: a made-up history shows it to the checker, in the tests
/// of the checkers themselves.
const MADE_UP: &[(Anomaly, &str)] = &[
    (
        Anomaly::IllFormed,
        "the simulated clients write it by themselves",
    ),
    (Anomaly::AuditGap, "no door keeps an audit"),
];

#[test]
fn every_checker_has_been_seen_to_fire() {
    let unit_tests = unit_tests();
    for anomaly in Anomaly::ALL {
        let planted = CAUGHT.contains(anomaly)
            || CAUGHT_WITH_KEYS.contains(anomaly)
            || *anomaly == Anomaly::G0;
        let made_up = MADE_UP.iter().any(|(kind, _)| kind == anomaly);
        assert!(planted != made_up, "{anomaly}: planted here or made up");
        let shown = unit_tests.contains(&format!("\"{anomaly}\""));
        assert!(shown, "{anomaly}: no made-up history shows it");
    }
}

/// The tests of the checkers.
fn unit_tests() -> String {
    let mut all = String::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("history/src/check")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the checkers") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("text");
            let is_tests = path.ends_with("tests.rs");
            let tests = text.split_once("#[cfg(test)]");
            all.push_str(tests.map_or("", |(_, tests)| tests));
            all.push_str(if is_tests { &text } else { "" });
        }
    }
    all
}

#[test]
fn an_honest_double_is_not_accused() {
    let honest: fn() -> Doubles = || door(|_| Box::new(Honest));
    let bounded: fn() -> Doubles = || bounded(BOUND);
    for (name, doubles, play) in [
        (
            "orders",
            honest,
            (|stage| plays::orders(stage).boxed()) as Play,
        ),
        ("group", honest, |stage| plays::group(stage).boxed()),
        ("epochs", honest, |stage| plays::epochs(stage).boxed()),
        ("by hand", honest, |stage| plays::by_hand(stage).boxed()),
        ("patient", honest, |stage| plays::patient(stage).boxed()),
        ("crowd", bounded, |stage| plays::crowd(stage).boxed()),
    ] {
        nobody_is_accused(&scenario(name, doubles, play));
    }
    let tenants: fn() -> Doubles = || door_of_tenants(|_| Box::new(Honest));
    let play: Play = |stage| plays::tenants(stage).boxed();
    nobody_is_accused(&with_keys("tenants", Tenancy::Enforced, tenants, play));
}

fn nobody_is_accused(scenario: &Scenario) {
    for seed in 0..3 {
        if let Err(failure) = explore(scenario, seed) {
            panic!("{failure}\n{}", failure.run);
        }
    }
}
