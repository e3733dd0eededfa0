//! Ten thousand connections at once.

use std::time::Duration;

use kafka_wire::ApiKey;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::time::sleep;

use super::honest::{Honest, Watch};
use crate::cx::Cx;
use crate::spec::{Lane, Spec, Stop, Verdict, WIRE, ensure};
use crate::wire::Connection;

/// How many are wanted.
const WANTED: usize = 10_000;
/// Files that this process needs for everything else.
const RESERVED_FILES: u64 = 500;
/// Fewer than these prove nothing.
const ENOUGH: usize = 500;
/// What each may cost the node, in KiB.
const MAY_COST_KIB_EACH: u64 = 24;
/// What the crowd may cost the node besides, in KiB.
const MAY_COST_KIB: u64 = 32 * 1024;

pub(super) fn spec() -> Spec {
    Spec::new(
        "bad-input/ten-thousand-connections",
        "Ten thousand idle connections cost a bounded amount, and old and new clients are served",
        WIRE,
        run,
    )
    .apis([ApiKey::API_VERSIONS])
    .lane(Lane::OwnNode)
    .within(Duration::from_secs(60))
}

/// How many connections this process may open, after it has taken all that the system lets it take.
fn affordable() -> usize {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        // What the system denies is seen in the count below.
        let _ = setrlimit(Resource::Nofile, raised);
    }
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(files.saturating_sub(RESERVED_FILES)).unwrap_or(usize::MAX)
}

async fn run(cx: Cx) -> Verdict {
    let count = WANTED.min(affordable());
    cx.record.fact("connections", count);
    if count < ENOUGH {
        return Err(Stop::skip(format!(
            "the system lets this process open {count} connections only"
        )));
    }
    let node = cx.own_node(&[]).await?;
    let honest = Honest::start(node.bootstrap()).await?;
    let watch = Watch::start(&node).await;
    let mut crowd = Vec::with_capacity(count);
    let mut refused = 0_usize;
    for _ in 0..count {
        match Connection::open(node.bootstrap()).await {
            Ok(connection) => crowd.push(connection),
            Err(_) => refused += 1,
        }
    }
    cx.record.fact("refused at once", refused);
    sleep(Duration::from_millis(500)).await;
    let each = MAY_COST_KIB_EACH * u64::try_from(crowd.len()).unwrap_or(u64::MAX);
    watch
        .grew_at_most(&cx, &node, MAY_COST_KIB.saturating_add(each))
        .await?;
    drop(crowd);
    cx.record.seen(ApiKey::API_VERSIONS, 0);
    let mut why = String::new();
    for _ in 0..100 {
        match Connection::ask_api_versions(node.bootstrap()).await {
            Ok(()) => return honest.was_well(&cx).await,
            Err(error) => why = error,
        }
        sleep(Duration::from_millis(50)).await;
    }
    ensure(false, || {
        format!("five seconds after the crowd went, nobody is served: {why}")
    })
}
