//! The same run is the same in every process, byte for byte: whatever the simulation says can be
//! seen again.

use std::process::{Child, Command, Stdio};

use sim::scenario::{self, Family, Scenario};

/// A run in a process of its own, and everything that happens in it.
fn started(scenario: &Scenario, seed: u64) -> Child {
    Command::new(env!("CARGO_BIN_EXE_sim"))
        .args(["replay", scenario.name, "--trace", "--seed"])
        .arg(seed.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs")
}

fn trace(process: Child) -> String {
    let output = process.wait_with_output().expect("it ends");
    String::from_utf8(output.stdout).expect("text")
}

/// Over TLS, where frames are compared as clients write and read them, and records by their size.
const OVER_TLS: &str = "acknowledged-is-there-once-over-tls";

/// Members of KIP-848.
const BY_EPOCHS: &str = "consumer-protocol-reads-on";

/// Some scenarios of each family that has any, twenty in all, one of them of groups of KIP-848, and
/// one over TLS.
fn chosen() -> Vec<&'static Scenario> {
    let shares = [
        (Family::Failover, 6),
        (Family::Rebalance, 5),
        (Family::Hostile, 3),
        (Family::Transaction, 2),
        (Family::QuotaThrottle, 1),
        (Family::Revocation, 2),
    ];
    let mut chosen = Vec::new();
    for (family, share) in shares {
        let members = scenario::all().filter(|scenario| scenario.family == family);
        chosen.extend(members.take(share));
    }
    chosen.push(scenario::named(BY_EPOCHS).expect("a scenario"));
    assert_eq!(chosen.len(), 20);
    chosen.push(scenario::named(OVER_TLS).expect("a scenario"));
    chosen
}

#[test]
fn twenty_runs_are_the_same_in_two_processes_each() {
    for (seed, scenario) in (40..).zip(chosen()) {
        let (one, other) = (started(scenario, seed), started(scenario, seed));
        let (one, other) = (trace(one), trace(other));
        let name = scenario.name;
        assert!(one.lines().count() > 500, "{name} is all but empty: {one}");
        let parted = one.lines().zip(other.lines()).position(|(a, b)| a != b);
        if let Some(at) = parted {
            let around = |trace: &str| {
                let lines = trace.lines().skip(at.saturating_sub(5)).take(8);
                lines.collect::<Vec<_>>().join("\n")
            };
            let (one, other) = (around(&one), around(&other));
            panic!("{name} with seed {seed} parts at line {at}:\n{one}\n\n{other}");
        }
        assert_eq!(one.len(), other.len(), "{name} with seed {seed}");
    }
}
