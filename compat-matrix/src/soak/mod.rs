//! A cluster under a loop that reads, transforms and writes in transactions, while its nodes are
//! killed and started again one after the other. In the end every record that was acknowledged stands
//! in its topic once, and what the loop made of each, once.

mod audit;
mod transform;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use tokio::time::{Instant, sleep};

pub use audit::Audit;

use crate::spec::Stop;
use crate::target::{Cluster, Node};

/// What is read.
const SOURCE: &str = "orders";
/// What is made of it.
const MADE: &str = "invoices";
/// The group of the loop.
const GROUP: &str = "loop";
/// Partitions of both topics.
const PARTITIONS: i32 = 6;
/// Members of the loop.
const MEMBERS: usize = 2;
/// How long all nodes are up between two deaths: a TTL, a rebalance, and some work.
const UP: Duration = Duration::from_secs(9);
/// How long one is down: sometimes less than the TTL, sometimes more.
const DOWN: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(2),
];
/// How long the loop may take to make the rest of what was written.
const REST: Duration = Duration::from_secs(120);

/// What everybody shares.
#[derive(Debug)]
struct Shared {
    bootstrap: String,
    /// No record is written any more.
    written: AtomicBool,
    /// Nothing is made any more.
    over: AtomicBool,
    commits: AtomicU64,
    aborts: AtomicU64,
    anew: AtomicU64,
}

impl Shared {
    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap);
        // As quick as the nodes are killed; its own value only saves requests.
        config.set("topic.metadata.refresh.interval.ms", "2000");
        config
    }
}

fn failed(error: impl std::fmt::Display) -> Stop {
    Stop::fail(format!("soak: {error}"))
}

/// Runs it for `minutes` in `folder`, whose logs are kept.
///
/// # Errors
///
/// A cluster that does not start, a client that cannot be made, a loop that stands still.
pub async fn run(folder: &Path, minutes: u32) -> Result<Audit, Stop> {
    let cluster = Cluster::start(folder).await?;
    let shared = Arc::new(Shared {
        bootstrap: cluster.bootstrap(),
        written: AtomicBool::new(false),
        over: AtomicBool::new(false),
        commits: AtomicU64::new(0),
        aborts: AtomicU64::new(0),
        anew: AtomicU64::new(0),
    });
    make_topics(&shared).await?;
    let writer = tokio::spawn(writer::write(Arc::clone(&shared)));
    let members: Vec<_> = (0..MEMBERS)
        .map(|number| {
            let shared = Arc::clone(&shared);
            tokio::task::spawn_blocking(move || transform::run(&shared, number))
        })
        .collect();
    let deaths = kill_in_turn(cluster.nodes(), Duration::from_secs(60) * minutes).await?;
    shared.written.store(true, Ordering::Relaxed);
    let acknowledged = writer.await.map_err(failed)??;
    let rest = audit::all_made(&shared, REST).await;
    shared.over.store(true, Ordering::Relaxed);
    for member in members {
        member.await.map_err(failed)?;
    }
    rest?;
    let mut audit = Audit::of(&shared, &acknowledged).await?;
    audit.deaths = deaths;
    Ok(audit)
}

async fn make_topics(shared: &Shared) -> Result<(), Stop> {
    let admin: AdminClient<DefaultClientContext> = shared.client().create().map_err(failed)?;
    let topics = [SOURCE, MADE].map(|name| NewTopic {
        name,
        num_partitions: PARTITIONS,
        replication: TopicReplication::Fixed(1),
        config: Vec::new(),
    });
    let made = admin
        .create_topics(topics.iter(), &AdminOptions::new())
        .await
        .map_err(failed)?;
    for topic in made {
        topic.map_err(|(topic, code)| failed(format!("{topic}: {code}")))?;
    }
    Ok(())
}

/// Kills one node after the other, each third time in good order, until the time is over; how often.
async fn kill_in_turn(nodes: &[Node], time: Duration) -> Result<u64, Stop> {
    let end = Instant::now() + time;
    let mut deaths = 0;
    for (turn, (node, down)) in nodes.iter().cycle().zip(DOWN.iter().cycle()).enumerate() {
        sleep(UP).await;
        if Instant::now() >= end {
            break;
        }
        // Out of step with the nodes, so that each dies in every way.
        if (turn / nodes.len()) % 3 == 2 {
            node.terminate().await?;
        } else {
            node.kill().await?;
        }
        deaths += 1;
        sleep(*down).await;
        node.start().await?;
    }
    Ok(deaths)
}
