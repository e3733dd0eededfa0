//! P6: records per second through the facade, against a raw HTTP client at the same kind of Queen.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use futures::future::try_join_all;
use tokio::time::Instant;

use super::kafka::Pace;
use super::load::{
    CLIENTS, IN_FLIGHT, LANES, LANES_PER_CLIENT, RECORDS_PER_REQUEST, Requests, lanes_of, requests,
};
use super::result::{Comparison, Section, Unit};
use super::{Bench, cpu, kafka, raw};
use crate::spec::Stop;
use crate::target::{Node, QueenOptions, QueenProcess};

/// The goal: facade / raw.
const GOAL: f64 = 0.9;
/// Values per record.
const VALUE_BYTES: [usize; 2] = [256, 1024];
/// Bytes of values in one run, about.
const RUN_BYTES: usize = 160 << 20;
const QUICK_RUN_BYTES: usize = 2 << 20;
/// Records of a run at most.
const RUN_RECORDS: usize = 400_000;
/// Share of the slower side's throughput at which latency is told.
const LATENCY_LOAD: f64 = 0.5;
/// How long the open loop runs.
const LATENCY_RUN: Duration = Duration::from_secs(4);

/// Who stands between the client and the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Raw,
    Embedded,
    Remote,
}

impl Side {
    const ALL: [Self; 3] = [Self::Raw, Self::Embedded, Self::Remote];

    const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw HTTP client, Queen on a socket",
            Self::Embedded => "facade over an embedded Queen",
            Self::Remote => "facade, Queen on a socket",
        }
    }
}

/// A system under test.
#[derive(Debug)]
enum System {
    Raw(QueenProcess),
    Facade {
        node: Box<Node>,
        queen: Option<QueenProcess>,
    },
}

impl System {
    /// Starts one with an empty store and makes the topic.
    async fn start(bench: &Bench, side: Side, durable: bool) -> Result<Self, Stop> {
        let folder = bench.folder()?;
        let data: Option<PathBuf> = durable.then(|| folder.join("data"));
        let queen = match side {
            Side::Embedded => None,
            Side::Raw | Side::Remote => {
                let asked = QueenOptions {
                    dir: data.clone(),
                    ..QueenOptions::default()
                };
                Some(QueenProcess::start(&asked, None).await?)
            }
        };
        let (url, queen) = match (side, queen) {
            (Side::Raw, Some(queen)) => {
                raw::create_queue(queen.addr).await?;
                return Ok(Self::Raw(queen));
            }
            (_, Some(queen)) => (format!("http://{}", queen.addr), Some(queen)),
            (_, None) => {
                let data = data.map(|data| data.display().to_string());
                (format!("embedded:{}", data.unwrap_or_default()), None)
            }
        };
        let node = bench.node(folder, &[("QUEEN_URL", &url)]).await?;
        kafka::create_topic(node.bootstrap()).await?;
        Ok(Self::Facade {
            node: Box::new(node),
            queen,
        })
    }

    /// Processor time so far of the system and of the clients, which are in this process.
    async fn cpu_seconds(&self) -> Result<f64, Stop> {
        let pids = match self {
            Self::Raw(queen) => [queen.pid(), None],
            Self::Facade { node, queen } => {
                [node.pid().await, queen.as_ref().and_then(QueenProcess::pid)]
            }
        };
        cpu::seconds(&pids.into_iter().flatten().collect::<Vec<_>>())
    }

    /// Every client sends `requests` of its own; the time of each request, and of all together.
    async fn produce(
        &self,
        loads: &[Requests],
        requests: usize,
        pace: Pace,
    ) -> Result<(Vec<Duration>, Duration), Stop> {
        let began = Instant::now();
        let took = match self {
            Self::Raw(queen) => {
                let addr: SocketAddr = queen.addr;
                let clients = loads
                    .iter()
                    .map(|load| raw::produce(addr, &load.pushes, requests, pace));
                try_join_all(clients).await?
            }
            Self::Facade { node, .. } => {
                let clients = loads
                    .iter()
                    .map(|load| kafka::produce(node.bootstrap(), &load.frames, requests, pace));
                try_join_all(clients).await?
            }
        };
        Ok((took.concat(), began.elapsed()))
    }

    /// Every client fetches its partitions from their beginnings.
    async fn fetch(&self, records: usize) -> Result<Duration, Stop> {
        let began = Instant::now();
        let lanes: Vec<Vec<usize>> = (0..CLIENTS).map(|c| lanes_of(c).collect()).collect();
        match self {
            Self::Raw(queen) => {
                let clients = lanes
                    .iter()
                    .map(|lanes| raw::fetch(queen.addr, lanes, records));
                try_join_all(clients).await?;
            }
            Self::Facade { node, .. } => {
                let clients = lanes
                    .iter()
                    .map(|lanes| kafka::fetch(node.bootstrap(), lanes, records));
                try_join_all(clients).await?;
            }
        }
        Ok(began.elapsed())
    }
}

/// Measures.
pub(super) async fn measure(bench: &Bench) -> Result<Section, Stop> {
    let mut section = Section::new(
        "P6",
        "Produce and fetch through the facade, against raw HTTP",
        "records/s ≥ 0.9 × those of a raw HTTP client",
        method(),
    );
    let stores: &[bool] = if bench.quick {
        &[false]
    } else {
        &[false, true]
    };
    for &durable in stores {
        for value_bytes in VALUE_BYTES {
            throughput(bench, &mut section, durable, value_bytes).await?;
        }
    }
    Ok(section)
}

async fn throughput(
    bench: &Bench,
    section: &mut Section,
    durable: bool,
    value_bytes: usize,
) -> Result<(), Stop> {
    let loads: Vec<Requests> = (0..CLIENTS)
        .map(|client| requests(client, value_bytes))
        .collect::<Result<_, _>>()?;
    let run_bytes = if bench.quick {
        QUICK_RUN_BYTES
    } else {
        RUN_BYTES
    };
    let records = (run_bytes / value_bytes).min(RUN_RECORDS);
    let requests = (records / RECORDS_PER_REQUEST / CLIENTS).max(1);
    let per_client = requests * RECORDS_PER_REQUEST;
    let all = (per_client * CLIENTS) as f64;
    let store = if durable { "durable" } else { "in memory" };
    let case = |what: &str| format!("{what}, {value_bytes} B, {store}");
    let (produce, fetch) = (case("produce"), case("fetch"));
    for _ in 0..bench.runs {
        for side in Side::ALL {
            bench.say(&format!("P6 {produce}: {}", side.name()));
            let system = System::start(bench, side, durable).await?;
            let pace = Pace::InFlight(IN_FLIGHT);
            let mut told = |case: &str, seconds: f64, cpu: f64| {
                section.add(case, side.name(), Unit::RecordsPerSecond, all / seconds);
                let case = per_cpu(case);
                section.add(&case, side.name(), Unit::RecordsPerCpuSecond, all / cpu);
            };
            let before = system.cpu_seconds().await?;
            let (_, elapsed) = system.produce(&loads, requests, pace).await?;
            let between = system.cpu_seconds().await?;
            told(&produce, elapsed.as_secs_f64(), between - before);
            let elapsed = system.fetch(per_client).await?;
            let after = system.cpu_seconds().await?;
            told(&fetch, elapsed.as_secs_f64(), after - between);
        }
    }
    for case in [&produce, &fetch] {
        for side in [Side::Embedded, Side::Remote] {
            section.compare(Comparison {
                case: case.clone(),
                what: format!("{} / {}", side.name(), Side::Raw.name()),
                value: section.median_of(case, side.name())
                    / section.median_of(case, Side::Raw.name()),
                goal: Some(GOAL),
                at_least: true,
            });
            let case = per_cpu(case);
            section.compare(Comparison {
                what: format!("{} / {}", side.name(), Side::Raw.name()),
                value: section.median_of(&case, side.name())
                    / section.median_of(&case, Side::Raw.name()),
                case,
                goal: None,
                at_least: true,
            });
        }
    }
    let slowest = Side::ALL.map(|side| section.median_of(&produce, side.name()));
    let slowest = slowest.into_iter().fold(f64::INFINITY, f64::min);
    latency(bench, section, &loads, &case("produce"), durable, slowest).await
}

/// The case of what a second of processor time does.
fn per_cpu(case: &str) -> String {
    format!("{case}, per CPU second")
}

/// Open loop: requests at intended times, at half of what the slowest side bears.
async fn latency(
    bench: &Bench,
    section: &mut Section,
    loads: &[Requests],
    case: &str,
    durable: bool,
    slowest: f64,
) -> Result<(), Stop> {
    let rate = slowest * LATENCY_LOAD / RECORDS_PER_REQUEST as f64 / CLIENTS as f64;
    let run = if bench.quick {
        LATENCY_RUN / 20
    } else {
        LATENCY_RUN
    };
    let requests = ((run.as_secs_f64() * rate) as usize).max(1);
    let pace = Pace::Every(Duration::from_secs_f64(1.0 / rate));
    let records = rate * RECORDS_PER_REQUEST as f64 * CLIENTS as f64;
    let case = format!("{case}, open loop at {:.0} records/s", records.round());
    for _ in 0..bench.runs {
        for side in Side::ALL {
            bench.say(&format!("P6 {case}: {}", side.name()));
            let system = System::start(bench, side, durable).await?;
            let (mut took, _) = system.produce(loads, requests, pace).await?;
            took.sort_unstable();
            for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
                let at = ((took.len() - 1) as f64 * share).round() as usize;
                let milliseconds = took[at].as_secs_f64() * 1e3;
                section.add(
                    &case,
                    &format!("{}, {name}", side.name()),
                    Unit::Milliseconds,
                    milliseconds,
                );
            }
        }
    }
    Ok(())
}

fn method() -> String {
    format!(
        "{CLIENTS} clients, each with {LANES_PER_CLIENT} of {LANES} partitions. A request (a push) \
         holds {RECORDS_PER_REQUEST} records without keys, an equal share for each partition; \
         {IN_FLIGHT} are in flight per client, over one Kafka connection or {IN_FLIGHT} HTTP \
         connections. The push holds the JSON that the facade makes of the same records, a fresh name \
         (`transactionId`) for each among it, to a queue with the same dedup window. Then each \
         client fetches its partitions from the beginning, 1 MiB per partition and call, one call \
         in flight. Values are pseudo-random words; batches are not compressed. Each run starts \
         new processes with an empty store; the sides take turns. Clients, facade and Queen share \
         the machine. Both clients read their answers: every verdict, every offset. \
         Records per CPU second divide by the processor time of clients, facade and Queen \
         together: where other work shares the machine they say more than records per second, of \
         which a system of more processes then gets a larger share. The open loop \
         sends at intended times at {:.0} % of the slowest side's throughput, and tells latency from \
         the intended time, so that a late answer delays nobody's start; timers of this machine are \
         late by up to 1 ms on either side.",
        LATENCY_LOAD * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::super::median;

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }
}
