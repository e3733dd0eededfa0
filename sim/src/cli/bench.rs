//! `bench`: how fast the simulation is, against turmoil alone with the same machines.
//!
//! Two baselines: machines that do nothing, which is what ticks cost, and machines that write to
//! each other, at the same times, as many bytes as ours did. Measured in processor time of this
//! process, which other work on the machine disturbs little: a simulation is one thread.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use sim::explore;
use sim::history::check;
use sim::run::execute;
use sim::scenario::{self, Family, Scenario};
use sim::schedule::TICK_MS;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, sleep_until};
use turmoil::Sim;
use turmoil::net::{TcpListener, TcpStream};

use super::{Answer, Error, unknown};

/// Ours must be at least so fast as a share of bare turmoil.
const SHARE: f64 = 1.0 / 3.0;
const PORT: u16 = 7;
/// What is read at once.
const READ_BYTES: usize = 64 << 10;
/// The machine whose end ends the run.
const CLIENTS: &str = "clients";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The scenario; the first one of the rebalance family when absent.
    #[arg(long)]
    scenario: Option<String>,
    /// Runs of it.
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// Only show that it works: fast enough or not is no failure.
    #[arg(long)]
    quick: bool,
}

/// Measures and prints one line of JSON.
pub(super) fn run(arguments: &Arguments) -> Answer {
    let scenario = chosen(arguments)?;
    let seeds = arguments.seeds.max(1);
    let mut sums = Sums::default();
    for seed in 0..seeds {
        let schedule = explore::schedule(scenario, seed);
        let began = processor_time()?;
        let outcome = execute(scenario, seed, &schedule);
        sums.ours += processor_time()? - began;
        sums.judging += timed(|| drop(check(&outcome.history)))?.1;
        let length = outcome.numbers.simulated;
        sums.simulated += length;
        let sent: Vec<_> = outcome.trace.iter().filter_map(|line| sent(line)).collect();
        sums.messages += sent.len();
        sums.bytes += outcome.numbers.sent_bytes;
        let names = machines(scenario);
        let (idle, same) = (
            timed(|| bare(seed, &names, length, &[]))?,
            timed(|| bare(seed, &names, length, &sent))?,
        );
        idle.0?;
        same.0?;
        sums.idle += idle.1;
        sums.same += same.1;
    }
    let rate = |seconds: f64| sums.simulated.as_secs_f64() / seconds.max(f64::EPSILON);
    let share = sums.same / sums.ours;
    let result = serde_json::json!({
        "id": "P11",
        "scenario": scenario.name,
        "machines": machines(scenario).len(),
        "runs": seeds,
        "simulated_seconds": sums.simulated.as_secs_f64(),
        "messages": sums.messages,
        "bytes": sums.bytes,
        "simulated_seconds_per_processor_second": {
            "ours": rate(sums.ours),
            "ours_without_judging": rate(sums.ours - sums.judging),
            "bare_with_the_same_traffic": rate(sums.same),
            "bare_and_idle": rate(sums.idle),
        },
        "seeds_per_processor_minute": 60.0 * f64_of(seeds) / sums.ours,
        "share_of_bare": share,
        "share_of_idle": sums.idle / sums.ours,
        "required_share": SHARE,
    });
    println!("{result}");
    Ok(arguments.quick || share >= SHARE)
}

/// Everything that was measured, in processor seconds where nothing else is said.
#[derive(Default)]
struct Sums {
    simulated: Duration,
    messages: usize,
    bytes: u64,
    ours: f64,
    /// The part of ours that judges histories.
    judging: f64,
    idle: f64,
    same: f64,
}

#[expect(clippy::cast_precision_loss, reason = "a few runs")]
fn f64_of(count: u64) -> f64 {
    count as f64
}

fn chosen(arguments: &Arguments) -> Result<&'static Scenario, Error> {
    if let Some(name) = &arguments.scenario {
        return Ok(scenario::named(name).ok_or_else(|| unknown(name))?);
    }
    let rebalance = scenario::all().find(|one| one.family == Family::Rebalance);
    let first = rebalance.or_else(|| scenario::all().next());
    Ok(first.ok_or("there is no scenario")?)
}

/// The machines of a scenario's world.
fn machines(scenario: &Scenario) -> Vec<&'static str> {
    let servers = scenario.world(0).servers();
    let servers = servers.into_iter().map(|server| server.node().name());
    servers.chain([CLIENTS]).collect()
}

fn timed<T>(what: impl FnOnce() -> T) -> Result<(T, f64), Error> {
    let began = processor_time()?;
    let done = what();
    Ok((done, processor_time()? - began))
}

/// Seconds that this thread has computed. Linux tells; elsewhere nothing is measured.
fn processor_time() -> Result<f64, Error> {
    const FILE: &str = "/proc/thread-self/schedstat";
    let text = std::fs::read_to_string(FILE)?;
    let nanos = text.split_whitespace().next().ok_or(FILE)?.parse()?;
    Ok(Duration::from_nanos(nanos).as_secs_f64())
}

/// A message of ours, as its trace has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sent {
    at: Duration,
    from: String,
    to: String,
    bytes: usize,
}

/// The message that a line of a trace tells of: `70.000 queen     > :6632 facade:49152 107 bytes …`.
fn sent(line: &str) -> Option<Sent> {
    let mut words = line.split_whitespace();
    let at_ms: f64 = words.next()?.parse().ok()?;
    let from = words.next()?.to_owned();
    if words.next()? != ">" {
        return None;
    }
    let (_port, to, bytes) = (words.next()?, words.next()?, words.next()?);
    Some(Sent {
        at: Duration::from_secs_f64(at_ms / 1_000.0),
        from,
        to: to.rsplit_once(':')?.0.to_owned(),
        bytes: bytes.parse().ok()?,
    })
}

/// Turmoil alone: machines of these names that send each other `traffic`, for `length`.
fn bare(seed: u64, names: &[&str], length: Duration, traffic: &[Sent]) -> Result<(), Error> {
    let mut sim = turmoil::Builder::new()
        .rng_seed(seed)
        .tick_duration(Duration::from_millis(TICK_MS))
        .max_message_latency(Duration::from_millis(50))
        .simulation_duration(length + Duration::from_secs(1))
        .build();
    for name in names {
        let mut to: BTreeMap<String, Vec<(Duration, usize)>> = BTreeMap::new();
        for one in traffic.iter().filter(|one| one.from == *name) {
            to.entry(one.to.clone())
                .or_default()
                .push((one.at, one.bytes));
        }
        add(&mut sim, name, to, length);
    }
    sim.run().map_err(|error| error.to_string().into())
}

/// A machine that reads whatever comes, and writes what it is to write when it is to.
fn add(
    sim: &mut Sim<'_>,
    name: &str,
    to: BTreeMap<String, Vec<(Duration, usize)>>,
    length: Duration,
) {
    let program = move || {
        let to = to.clone();
        async move {
            let began = Instant::now();
            for (peer, all) in to {
                tokio::spawn(writes(began, peer, all));
            }
            let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(reads(stream));
                }
            });
            sleep(length).await;
            Ok::<(), Error>(())
        }
    };
    if name == CLIENTS {
        sim.client(name, program());
    } else {
        sim.host(name, program);
    }
}

async fn writes(began: Instant, peer: String, all: Vec<(Duration, usize)>) -> std::io::Result<()> {
    let mut stream = TcpStream::connect((peer.as_str(), PORT)).await?;
    for (at, bytes) in all {
        sleep_until(began + at).await;
        stream.write_all(&vec![0; bytes]).await?;
    }
    std::future::pending().await
}

async fn reads(mut stream: TcpStream) {
    let mut bytes = vec![0; READ_BYTES];
    while stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_trace_is_a_message_or_none() {
        let line = "     70.000 queen     > :6632 facade:49152 107 bytes c6620f7b";
        let message = Sent {
            at: Duration::from_millis(70),
            from: "queen".to_owned(),
            to: "facade".to_owned(),
            bytes: 107,
        };
        assert_eq!(sent(line), Some(message));
        assert_eq!(
            sent("     10.000 clients   member-0 ? ApiVersions v4 #1 on 1"),
            None
        );
    }

    #[test]
    fn what_is_carried_costs_something() {
        let names = ["queen", CLIENTS];
        let message = Sent {
            at: Duration::from_millis(20),
            from: CLIENTS.to_owned(),
            to: "queen".to_owned(),
            bytes: 10,
        };
        let length = Duration::from_millis(100);
        assert!(bare(1, &names, length, &[message]).is_ok());
        assert!(bare(1, &names, length, &[]).is_ok());
    }
}
