//! Many groups whose members bring all the metadata that a member may.

use std::time::Duration;

use bytes::BufMut;
use futures::future::join_all;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use kafka_wire::{ApiKey, ErrorCode};

use super::honest::{Honest, Watch};
use crate::cx::Cx;
use crate::spec::{Lane, Spec, Stop, Verdict, WIRE, ensure};
use crate::wire::{Access, Connection, Reply};

/// Groups of one member each.
const GROUPS: usize = 300;
/// Members that connect at once.
const CONNECTED_AT_ONCE: usize = 64;
/// What each member brings.
const METADATA_BYTES: usize = 1_000_000;
/// What 300 MB of metadata may cost the node, in KiB: what all groups may hold, and the requests and
/// answers that are under way.
const MAY_COST_KIB: u64 = 420 * 1024;
/// The small member that comes late.
const SMALL_BYTES: usize = 200;

pub(super) fn spec() -> Spec {
    Spec::new(
        "bad-input/groups-of-large-metadata",
        "Hundreds of groups of large members cost a bounded amount, and small ones still form",
        WIRE,
        run,
    )
    .apis([ApiKey::JOIN_GROUP])
    .lane(Lane::OwnNode)
    .within(Duration::from_secs(60))
}

async fn run(cx: Cx) -> Verdict {
    let node = cx.own_node(&[]).await?;
    let honest = Honest::start(node.bootstrap()).await?;
    let watch = Watch::start(&node).await?;
    cx.record.seen(ApiKey::JOIN_GROUP, 2);
    // A listener that authenticates lets only so many strangers wait at its door.
    let members: Vec<Connection> = stream::iter((0..GROUPS).map(|_| open(node.bootstrap())))
        .buffered(CONNECTED_AT_ONCE)
        .try_collect()
        .await?;
    let joins = members.into_iter().enumerate();
    let joins = joins.map(|(at, connection)| join(connection, at, METADATA_BYTES));
    let (mut taken, mut refused) = (Vec::new(), 0);
    for joined in join_all(joins).await {
        let (connection, code) = joined?;
        match ErrorCode::from_code(code) {
            // The members stay: their sessions are ten seconds long.
            Some(ErrorCode::None) => taken.push(connection),
            Some(ErrorCode::CoordinatorNotAvailable) => refused += 1,
            _ => return Err(Stop::fail(format!("a join was answered {code}"))),
        }
    }
    cx.record.fact("groups that were taken", taken.len());
    cx.record.fact("groups that were refused", refused);
    let small = open(node.bootstrap()).await?;
    let (_small, code) = join(small, GROUPS, SMALL_BYTES).await?;
    ensure(code == ErrorCode::None.code(), || {
        format!("a small member was answered {code}")
    })?;
    ensure(!taken.is_empty() && refused > 0, || {
        format!("{} groups were taken and {refused} refused", taken.len())
    })?;
    watch.grew_at_most(&cx, &node, MAY_COST_KIB).await?;
    honest.was_well(&cx).await
}

async fn open(server: &Access) -> Result<Connection, Stop> {
    Connection::open(server)
        .await
        .map_err(|error| Stop::fail(format!("cannot connect: {error}")))
}

/// JoinGroup v2 of a new group; answers the error code.
async fn join(
    mut connection: Connection,
    at: usize,
    bytes: usize,
) -> Result<(Connection, i16), Stop> {
    let mut request = b"\x00\x0b\x00\x02\x00\x00\x00\x07\x00\x06groups".to_vec();
    let group = format!("large-{at:05}");
    put_string(&mut request, &group);
    // Session and rebalance time-out, no member id, one protocol.
    request.put_i32(10_000);
    request.put_i32(10_000);
    put_string(&mut request, "");
    put_string(&mut request, "consumer");
    request.put_i32(1);
    put_string(&mut request, "range");
    // A million at most.
    request.put_i32(bytes as i32);
    request.resize(request.len() + bytes, 7);
    connection
        .send(&request)
        .await
        .map_err(|error| Stop::fail(format!("cannot send a join: {error}")))?;
    match connection.reply(Duration::from_secs(20)).await {
        // Correlation id, throttle, code.
        Reply::Frame(frame) if frame.len() >= 10 => {
            Ok((connection, i16::from_be_bytes([frame[8], frame[9]])))
        }
        other => Err(Stop::fail(format!("a join got no answer but {other:?}"))),
    }
}

fn put_string(into: &mut Vec<u8>, text: &str) {
    // Names of a few letters.
    into.put_i16(text.len() as i16);
    into.extend_from_slice(text.as_bytes());
}
