//! Ten thousand connections at once.

use std::time::Duration;

use futures::future::join_all;
use kafka_wire::ApiKey;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::time::sleep;

use super::honest::{Honest, Watch};
use crate::cx::Cx;
use crate::spec::{Lane, Spec, Stop, Verdict, WIRE, ensure};
use crate::wire::{Connection, Reply};

/// How many are wanted.
const WANTED: usize = 10_000;
/// Files that this process needs for everything else.
const RESERVED_FILES: u64 = 500;
/// What the node serves by default.
const SERVED: usize = 4_096;
/// Of these, who must be served: the honest client and the probes are there too.
const MUST_SERVE: usize = 4_000;
/// Fewer than these prove nothing.
const ENOUGH: usize = SERVED + 500;
/// When each must have been served or closed.
const TOLD_WITHIN: Duration = Duration::from_secs(20);
/// ApiVersions v0, correlation id 7, client id "crowd".
const REQUEST: &[u8] = b"\x00\x12\x00\x00\x00\x00\x00\x07\x00\x05crowd";
/// What each may cost the node, in KiB.
const MAY_COST_KIB_EACH: u64 = 24;
/// What the crowd may cost the node besides, in KiB.
const MAY_COST_KIB: u64 = 32 * 1024;

pub(super) fn spec() -> Spec {
    Spec::new(
        "bad-input/ten-thousand-connections",
        "Of ten thousand connections four thousand are served and the others closed, for a bounded \
         amount of memory; old and new clients are served",
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Served,
    Closed,
    Silence,
}

async fn ask(connection: &mut Connection) -> Told {
    if connection.send(REQUEST).await.is_err() {
        return Told::Closed;
    }
    match connection.reply(TOLD_WITHIN).await {
        Reply::Frame(_) => Told::Served,
        Reply::Closed(_) => Told::Closed,
        Reply::Silence => Told::Silence,
    }
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
    let watch = Watch::start(&node).await?;
    let mut crowd = Vec::with_capacity(count);
    let (mut refused, mut closed) = (0_usize, 0_usize);
    let security = node.bootstrap().security();
    let secure = security.tls.is_some() || security.sasl.is_some();
    for _ in 0..count {
        match Connection::open(node.bootstrap()).await {
            Ok(connection) => crowd.push(connection),
            // Behind a handshake: it was taken, and closed.
            Err(_) if secure => closed += 1,
            Err(_) => refused += 1,
        }
    }
    cx.record.fact("refused at once", refused);
    cx.record.fact("closed at once", closed);
    cx.record.seen(ApiKey::API_VERSIONS, 0);
    let told = join_all(crowd.iter_mut().map(ask)).await;
    let served = told.iter().filter(|told| **told == Told::Served).count();
    let silent = told.iter().filter(|told| **told == Told::Silence).count();
    cx.record.fact("served", served);
    ensure(served >= MUST_SERVE, || {
        format!("{served} of the crowd were served, fewer than {MUST_SERVE}")
    })?;
    ensure(silent == 0, || {
        format!("{silent} of the crowd were neither served nor closed")
    })?;
    ensure(served + refused < count, || {
        format!("nobody of {count} was closed: the node serves {SERVED}")
    })?;
    let each = MAY_COST_KIB_EACH * u64::try_from(crowd.len()).unwrap_or(u64::MAX);
    watch
        .grew_at_most(&cx, &node, MAY_COST_KIB.saturating_add(each))
        .await?;
    drop(crowd);
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
