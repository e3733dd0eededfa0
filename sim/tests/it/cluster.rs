//! A cluster of facades, its nodes killed one after the other.

use sim::run::Run;
use sim::schedule::{Fault, Server, Step, Unsynced};

use crate::scenarios::{fine, named};

/// Each node is killed, stays away for longer than its row lives, and comes back.
fn each_in_turn() -> Vec<Step> {
    let nodes = [Server::Facade, Server::Facade2, Server::Facade3];
    let turns = (0_u64..).zip(nodes).flat_map(|(turn, node)| {
        let unsynced = Unsynced::Kept;
        let killed = Step {
            at_ms: 1_500 + turn * 4_200,
            fault: Fault::Crash { node, unsynced },
        };
        let back = Step {
            at_ms: 1_500 + turn * 4_200 + 4_000,
            fault: Fault::Bounce { node, unsynced },
        };
        [killed, back]
    });
    turns.collect()
}

#[test]
fn a_group_and_its_records_outlive_each_node_in_turn() {
    let scenario = named("rolling-restart-of-a-cluster");
    let run = Run::new(scenario, 5, each_in_turn());
    let outcome = run.execute().expect("a scenario");
    fine(&run, &outcome);
    assert!(outcome.numbers.in_log >= 720, "{}", outcome.numbers);
    // Members followed their coordinator: more than one node told them where it is, and where not.
    let felt = |what: &str| outcome.trace.iter().any(|line| line.contains(what));
    for node in ["facade", "facade-2", "facade-3"] {
        assert!(felt(&format!("{node}:9092")), "{node} was asked");
    }
}
