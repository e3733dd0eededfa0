//! `bench`: how fast the simulation is, against turmoil alone with as many machines.

use std::time::Duration;

use clap::Args;
use host::Host;
use sim::explore;
use sim::run::execute;
use sim::scenario::{self, Family, Scenario};
use sim::schedule::TICK_MS;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use turmoil::net::{TcpListener, TcpStream};

use super::{Answer, Error, unknown};

/// Ours must be at least so fast as a share of bare turmoil.
const SHARE: f64 = 1.0 / 3.0;
const PORT: u16 = 7;
/// Bytes of an echo: a small request.
const ECHO_BYTES: usize = 256;

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
    let host = host::os::host();
    let (mut simulated, began) = (Duration::ZERO, host.clock.monotonic());
    for seed in 0..arguments.seeds.max(1) {
        let schedule = explore::schedule(scenario, seed);
        simulated += execute(scenario, seed, &schedule).numbers.simulated;
    }
    let ours = Speed::of(simulated, took(&host, began));
    let world = scenario.world(0);
    let servers = world.servers().len();
    let began = host.clock.monotonic();
    let length = simulated / u32::try_from(arguments.seeds.max(1)).unwrap_or(u32::MAX);
    for seed in 0..arguments.seeds.max(1) {
        bare(seed, servers, length)?;
    }
    let bare = Speed::of(simulated, took(&host, began));
    let share = ours.rate / bare.rate;
    let result = serde_json::json!({
        "id": "P11",
        "scenario": scenario.name,
        "machines": servers + 1,
        "simulated_seconds_per_second": ours.rate,
        "seeds_per_minute": 60.0 * ours.rate / length.as_secs_f64(),
        "bare_turmoil_simulated_seconds_per_second": bare.rate,
        "share_of_bare": share,
        "required_share": SHARE,
    });
    println!("{result}");
    Ok(arguments.quick || share >= SHARE)
}

fn chosen(arguments: &Arguments) -> Result<&'static Scenario, Error> {
    if let Some(name) = &arguments.scenario {
        return Ok(scenario::named(name).ok_or_else(|| unknown(name))?);
    }
    let rebalance = scenario::all().find(|one| one.family == Family::Rebalance);
    let first = rebalance.or_else(|| scenario::all().next());
    Ok(first.ok_or("there is no scenario")?)
}

fn took(host: &Host, began: host::clock::Monotonic) -> Duration {
    host.clock.monotonic().saturating_since(began)
}

struct Speed {
    /// Simulated seconds in one real second.
    rate: f64,
}

impl Speed {
    fn of(simulated: Duration, took: Duration) -> Self {
        Self {
            rate: simulated.as_secs_f64() / took.as_secs_f64().max(f64::EPSILON),
        }
    }
}

/// One client machine that calls every server, one echo after the other on each.
fn bare(seed: u64, servers: usize, length: Duration) -> Result<(), Error> {
    let mut sim = turmoil::Builder::new()
        .rng_seed(seed)
        .tick_duration(Duration::from_millis(TICK_MS))
        .max_message_latency(Duration::from_millis(50))
        .simulation_duration(length + Duration::from_secs(1))
        .build();
    let names: Vec<String> = (0..servers)
        .map(|number| format!("server-{number}"))
        .collect();
    for name in &names {
        sim.host(name.as_str(), || async {
            let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
            loop {
                let (mut stream, _) = listener.accept().await?;
                tokio::spawn(async move {
                    let mut bytes = [0; ECHO_BYTES];
                    while stream.read_exact(&mut bytes).await.is_ok() {
                        if stream.write_all(&bytes).await.is_err() {
                            break;
                        }
                    }
                });
            }
        });
    }
    sim.client("clients", async move {
        for name in names {
            tokio::spawn(async move {
                let mut stream = TcpStream::connect((name.as_str(), PORT)).await?;
                let mut bytes = [0; ECHO_BYTES];
                loop {
                    stream.write_all(&bytes).await?;
                    stream.read_exact(&mut bytes).await?;
                }
                #[expect(unreachable_code, reason = "names the type of the task's end")]
                Ok::<(), std::io::Error>(())
            });
        }
        tokio::time::sleep(length).await;
        Ok(())
    });
    sim.run().map_err(|error| error.to_string().into())
}
