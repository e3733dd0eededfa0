//! What an idle node holds, and what an idle connection adds.

use std::time::Duration;

use futures::future::try_join_all;
use tokio::time::sleep;

use super::result::{Comparison, Section, Unit};
use super::{Bench, kafka};
use crate::spec::Stop;
use crate::target::Node;
use crate::wire::Connection;
use crate::wire::Reply;

const CONNECTIONS: usize = 1_000;
const QUICK_CONNECTIONS: usize = 50;
/// Goals, in MiB.
const IDLE_GOAL: f64 = 30.0;
const CONNECTIONS_GOAL: f64 = 24.0;
/// How long a node is left alone before it is looked at.
const SETTLE: Duration = Duration::from_secs(1);
/// ApiVersions v0, correlation id 7, client id "bench": what every client says first.
const REQUEST: &[u8] = b"\x00\x12\x00\x00\x00\x00\x00\x07\x00\x05bench";
const CASE: &str = "idle node, embedded Queen in memory";
const IDLE: &str = "resident";
const GREW: &str = "more with the idle connections";

fn failed(error: impl std::fmt::Display) -> Stop {
    Stop::fail(format!("memory: {error}"))
}

/// Measures.
pub(super) async fn measure(bench: &Bench) -> Result<Section, Stop> {
    let connections = if bench.quick {
        QUICK_CONNECTIONS
    } else {
        CONNECTIONS
    };
    let mut section = Section::new(
        "memory",
        "Memory of an idle node",
        "≤ 30 MiB resident; 1,000 idle connections ≤ 24 MiB more",
        format!(
            "`VmRSS` of /proc/PID/status of a node that has just started with \
             `QUEEN_URL=embedded:`, {} s after its first answer; then {connections} connections \
             send ApiVersions, read the answer and stay, and it is read again {} s later. The node \
             is {}.",
            SETTLE.as_secs(),
            SETTLE.as_secs(),
            bench.node_program()
        ),
    );
    for _ in 0..bench.runs {
        bench.say("memory");
        let settings = [("QUEEN_URL", "embedded:")];
        let node = bench.node(bench.folder()?, &settings).await?;
        sleep(SETTLE).await;
        let idle = resident_mib(&node).await?;
        let held = (0..connections).map(|_| idle_connection(&node));
        let held = try_join_all(held).await?;
        sleep(SETTLE).await;
        let full = resident_mib(&node).await?;
        // Until here they must stay.
        drop(held);
        section.add(CASE, IDLE, Unit::Mebibytes, idle);
        section.add(CASE, GREW, Unit::Mebibytes, full - idle);
    }
    for (what, goal) in [(IDLE, IDLE_GOAL), (GREW, CONNECTIONS_GOAL)] {
        // A goal of 1,000 connections says nothing about fewer.
        let applies = what == IDLE || connections == CONNECTIONS;
        section.compare(Comparison {
            case: CASE.into(),
            what: format!("{what}, MiB"),
            value: section.median_of(CASE, what),
            goal: applies.then_some(goal),
            at_least: false,
        });
    }
    Ok(section)
}

async fn idle_connection(node: &Node) -> Result<Connection, Stop> {
    let mut connection = kafka::connect(node.bootstrap()).await?;
    connection.send(REQUEST).await.map_err(failed)?;
    match connection.reply(Duration::from_secs(10)).await {
        Reply::Frame(_) => Ok(connection),
        Reply::Closed(how) => Err(failed(how)),
        Reply::Silence => Err(failed("no answer to ApiVersions")),
    }
}

async fn resident_mib(node: &Node) -> Result<f64, Stop> {
    let memory = node.memory().await;
    let memory = memory.ok_or_else(|| Stop::skip("this system has no /proc"))?;
    Ok(memory.resident_kib as f64 / 1024.0)
}
