//! Bytes that are no frames, or lie about being some.

use std::time::Duration;

use kafka_wire::ApiKey;
use tokio::time::sleep;

use super::honest::{Honest, Watch};
use crate::cx::{Cx, QuietNode};
use crate::spec::{Lane, Spec, Stop, Verdict, WIRE, ensure, expect_eq};
use crate::wire::{Access, Connection, Reply};

/// ApiVersions v0, correlation id 7, client id "frames".
const REQUEST: &[u8] = b"\x00\x12\x00\x00\x00\x00\x00\x07\x00\x06frames";
/// When a server must have closed what it cannot read.
const CLOSES_WITHIN: Duration = Duration::from_secs(10);
/// What any of these may cost the node, in KiB.
const MAY_COST_KIB: u64 = 64 * 1024;

pub(super) fn specs() -> Vec<Spec> {
    let spec = |name: &str, title: &str| (format!("bad-input/{name}"), title.to_owned());
    let (garbage_id, garbage_title) = spec(
        "garbage",
        "Random bytes are closed, and others don't notice",
    );
    let (half_id, half_title) = spec(
        "half-a-frame",
        "Two hundred clients that stop in mid-frame hold up nobody",
    );
    let (huge_id, huge_title) = spec(
        "huge-length",
        "A length of 2 GiB, or below zero, is closed before memory is taken",
    );
    let (bytes_id, bytes_title) = spec(
        "byte-by-byte",
        "A request that comes one byte at a time is answered",
    );
    let (flood_id, flood_title) = spec(
        "pipelined",
        "A thousand requests at once are answered in order",
    );
    let (wide_id, wide_title) = spec(
        "wide-array",
        "A frame of very many elements costs a bounded amount",
    );
    vec![
        Spec::new(garbage_id, garbage_title, WIRE, garbage).lane(Lane::OwnNode),
        Spec::new(half_id, half_title, WIRE, half_a_frame).lane(Lane::OwnNode),
        Spec::new(huge_id, huge_title, WIRE, huge_length).lane(Lane::OwnNode),
        Spec::new(bytes_id, bytes_title, WIRE, byte_by_byte).apis([ApiKey::API_VERSIONS]),
        Spec::new(flood_id, flood_title, WIRE, pipelined).apis([ApiKey::API_VERSIONS]),
        Spec::new(wide_id, wide_title, WIRE, wide_array)
            .apis([ApiKey::METADATA])
            .lane(Lane::OwnNode),
    ]
}

async fn open(bootstrap: &Access) -> Result<Connection, Stop> {
    Connection::open(bootstrap)
        .await
        .map_err(|error| Stop::fail(format!("cannot connect: {error}")))
}

/// Bytes of a fixed generator: a failure comes back.
pub(super) fn random_bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed | 1;
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        })
        .collect()
}

async fn must_close(connection: &mut Connection, what: &str) -> Verdict {
    match connection.reply(CLOSES_WITHIN).await {
        Reply::Closed(_) => Ok(()),
        Reply::Frame(_) => Err(Stop::fail(format!("{what} was answered"))),
        Reply::Silence => Err(Stop::fail(format!(
            "{what} was neither answered nor closed within {} s",
            CLOSES_WITHIN.as_secs()
        ))),
    }
}

async fn garbage(cx: Cx) -> Verdict {
    let node = cx.quiet_node().await?;
    let honest = Honest::start(node.bootstrap()).await?;
    for seed in 1..=50 {
        let mut connection = open(node.bootstrap()).await?;
        let mut bytes = random_bytes(seed, 4_096);
        // Half of them claim a length that may be, so that what is behind it is read too.
        if seed % 2 == 0 {
            bytes[..4].copy_from_slice(&2_000_i32.to_be_bytes());
        } else {
            bytes[0] |= 0x40;
        }
        // A server that closes while it is still being written to is right.
        let _ = connection.send_raw(&bytes).await;
        must_close(&mut connection, &format!("garbage {seed}")).await?;
    }
    honest.was_well(&cx).await
}

async fn half_a_frame(cx: Cx) -> Verdict {
    let node = cx.quiet_node().await?;
    let honest = Honest::start(node.bootstrap()).await?;
    let watch = Watch::start(&node).await?;
    // Apache Kafka takes the memory of a frame as soon as it knows its length: 200 of 90 MB end a
    // broker. That is asked of nodes of our own only.
    let declared: i32 = match &node {
        QuietNode::Own(_) => 90_000_000,
        QuietNode::Shared(_) => 1_000,
    };
    cx.record.fact("declared bytes of each frame", declared);
    let mut halves = Vec::new();
    for _ in 0..200 {
        let mut connection = open(node.bootstrap()).await?;
        let mut bytes = declared.to_be_bytes().to_vec();
        bytes.extend(REQUEST);
        connection
            .send_raw(&bytes)
            .await
            .map_err(|error| Stop::fail(format!("cannot send: {error}")))?;
        halves.push(connection);
    }
    sleep(Duration::from_millis(500)).await;
    watch.grew_at_most(&cx, &node, MAY_COST_KIB).await?;
    for connection in &mut halves {
        // One that is closed already is no worse.
        let _ = connection.finish().await;
        must_close(connection, "half a frame, ended").await?;
    }
    honest.was_well(&cx).await
}

async fn huge_length(cx: Cx) -> Verdict {
    let node = cx.quiet_node().await?;
    let honest = Honest::start(node.bootstrap()).await?;
    let watch = Watch::start(&node).await?;
    for length in [i32::MAX, i32::MAX - 1, 0x4000_0000, -1, i32::MIN] {
        let mut connection = open(node.bootstrap()).await?;
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.extend(REQUEST);
        // A server that closes while it is still being written to is right.
        let _ = connection.send_raw(&bytes).await;
        must_close(&mut connection, &format!("a length of {length}")).await?;
    }
    watch.grew_at_most(&cx, &node, MAY_COST_KIB).await?;
    honest.was_well(&cx).await
}

async fn byte_by_byte(cx: Cx) -> Verdict {
    cx.record.seen(ApiKey::API_VERSIONS, 0);
    let mut connection = open(cx.bootstrap()).await?;
    let length = i32::try_from(REQUEST.len()).map_err(|_| Stop::fail("a long request"))?;
    for byte in length.to_be_bytes().iter().chain(REQUEST) {
        connection
            .send_raw(&[*byte])
            .await
            .map_err(|error| Stop::fail(format!("cannot send: {error}")))?;
        sleep(Duration::from_millis(2)).await;
    }
    match connection.reply(CLOSES_WITHIN).await {
        Reply::Frame(frame) => expect_eq(
            "the correlation id",
            &&[0, 0, 0, 7][..],
            &&frame[..4.min(frame.len())],
        ),
        other => Err(Stop::fail(format!("no answer but {other:?}"))),
    }
}

async fn pipelined(cx: Cx) -> Verdict {
    const REQUESTS: i32 = 1_000;
    cx.record.seen(ApiKey::API_VERSIONS, 0);
    let mut connection = open(cx.bootstrap()).await?;
    let mut bytes = Vec::new();
    for correlation in 0..REQUESTS {
        let mut request = REQUEST.to_vec();
        request[4..8].copy_from_slice(&correlation.to_be_bytes());
        // 16 bytes.
        bytes.extend((request.len() as u32).to_be_bytes());
        bytes.extend(request);
    }
    let (mut reader, mut writer) = connection.split();
    let sending = async {
        writer
            .send_raw(&bytes)
            .await
            .map_err(|error| Stop::fail(format!("cannot send: {error}")))
    };
    let reading = async {
        for correlation in 0..REQUESTS {
            match reader.reply(CLOSES_WITHIN).await {
                Reply::Frame(frame) => {
                    ensure(frame.starts_with(&correlation.to_be_bytes()), || {
                        format!("the answer to request {correlation} is another's")
                    })?
                }
                other => {
                    return Err(Stop::fail(format!(
                        "no answer to request {correlation} but {other:?}"
                    )));
                }
            }
        }
        Ok(())
    };
    let (sent, read) = tokio::join!(sending, reading);
    sent.and(read)
}

async fn wide_array(cx: Cx) -> Verdict {
    cx.record.seen(ApiKey::METADATA, 4);
    let node = cx.quiet_node().await?;
    // Decoded, each is an object of some 100 bytes: too many for somebody else's server.
    let elements: usize = match &node {
        QuietNode::Own(_) => 1_000_000,
        QuietNode::Shared(_) => 10_000,
    };
    cx.record.fact("elements", elements);
    let honest = Honest::start(node.bootstrap()).await?;
    let watch = Watch::start(&node).await?;
    // Metadata v4, client id "frames", topics without a name, none to be made.
    let mut request = b"\x00\x03\x00\x04\x00\x00\x00\x07\x00\x06frames".to_vec();
    request.extend((elements as u32).to_be_bytes());
    request.resize(request.len() + 2 * elements, 0);
    request.push(0);
    let mut connection = open(node.bootstrap()).await?;
    // A server that closes while it is still being written to is right.
    let _ = connection.send(&request).await;
    match connection.reply(CLOSES_WITHIN).await {
        Reply::Silence => return Err(Stop::fail("neither an answer nor a close")),
        Reply::Frame(frame) => cx.record.fact("answered with bytes", frame.len()),
        Reply::Closed(how) => cx.record.fact("ended", how),
    }
    watch.grew_at_most(&cx, &node, 512 * 1024).await?;
    honest.was_well(&cx).await
}
