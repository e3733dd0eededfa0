//! Batches of a few kilobytes that expand to a quarter of a gigabyte each.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use futures::future::join_all;
use kafka_wire::records::{BatchBuilder, BatchOptions, Compression, Compressor, Record};
use kafka_wire::{ApiKey, ErrorCode};

use super::honest::{Honest, Watch};
use crate::cx::Cx;
use crate::probes::Probe;
use crate::spec::{Lane, Spec, Stop, Verdict, WIRE, ensure, expect_eq};
use crate::wire::{Access, Connection, Reply, advertised};

/// The version of Produce: the first with every codec.
const VERSION: i16 = 7;
/// What each bomb expands to.
const EXPANDED_BYTES: usize = 256 << 20;
/// How many are sent at once, of each codec.
const AT_ONCE: usize = 4;
/// What 3 GiB of expanded bombs may cost the node, in KiB: its budgets, and some air.
const MAY_COST_KIB: u64 = 768 * 1024;
/// Codecs that shrink nothing by much more than a hundred are no bombs within a frame's limit; these
/// are.
const CODECS: [Compression; 3] = [Compression::Gzip, Compression::Zstd, Compression::Lz4];

pub(super) fn spec() -> Spec {
    Spec::new(
        "bad-input/compression-bomb",
        "Batches that expand a thousandfold are too large, and cost a bounded amount of memory",
        WIRE,
        run,
    )
    .apis([ApiKey::PRODUCE])
    .lane(Lane::OwnNode)
    .within(Duration::from_secs(60))
}

async fn run(cx: Cx) -> Verdict {
    let node = cx.own_node(&[]).await?;
    let windows = advertised(node.bootstrap()).await.map_err(Stop::fail)?;
    let probe = Probe::at(
        cx.clone(),
        node.bootstrap(),
        ApiKey::PRODUCE,
        VERSION,
        windows.into(),
    );
    let topic = probe.topic(1).await?;
    let honest = Honest::start(node.bootstrap()).await?;
    let mut bombs = Vec::new();
    for codec in CODECS {
        let bomb = tokio::task::spawn_blocking(move || bomb(codec))
            .await
            .map_err(|error| Stop::fail(format!("cannot make a bomb: {error}")))??;
        cx.record
            .fact(format!("bytes of the {codec:?} bomb"), bomb.len());
        bombs.push((codec, bomb));
    }
    let watch = Watch::start(&node).await?;
    let blasts = (0..AT_ONCE)
        .flat_map(|_| &bombs)
        .map(|(codec, bomb)| blast(&cx, node.bootstrap(), &topic.name, *codec, bomb));
    join_all(blasts).await.into_iter().collect::<Verdict>()?;
    ensure(probe.end_offset(&topic, 0).await? == 0, || {
        "a bomb was stored".into()
    })?;
    watch.grew_at_most(&cx, &node, MAY_COST_KIB).await?;
    honest.was_well(&cx).await
}

/// One record whose value is nothing but zeros.
fn bomb(compression: Compression) -> Result<Vec<u8>, Stop> {
    let wrong = |error: kafka_wire::records::BuildError| Stop::fail(format!("no bomb: {error}"));
    let value = vec![0; EXPANDED_BYTES];
    let mut out = BytesMut::new();
    let mut compressor = Compressor::new();
    let options = BatchOptions {
        compression,
        ..BatchOptions::default()
    };
    let mut builder = BatchBuilder::new(&mut out, &mut compressor, options);
    builder
        .append(&Record {
            value: Some(&value),
            ..Record::default()
        })
        .map_err(wrong)?;
    builder.finish().map_err(wrong)?;
    Ok(out.to_vec())
}

/// Sends a bomb to partition 0 of `topic`, and demands that it is refused for what it is.
async fn blast(
    cx: &Cx,
    bootstrap: &Access,
    topic: &str,
    codec: Compression,
    bomb: &[u8],
) -> Verdict {
    cx.record.seen(ApiKey::PRODUCE, VERSION);
    let name = |request: &mut Vec<u8>| {
        // Topic names are short.
        request.put_i16(topic.len() as i16);
        request.extend(topic.as_bytes());
    };
    let mut request = b"\x00\x00\x00\x07\x00\x00\x00\x07\x00\x04bomb".to_vec();
    // No transactional id, acks of all, ten seconds, one topic, one partition.
    request.extend(b"\xff\xff\xff\xff\x00\x00\x27\x10\x00\x00\x00\x01");
    name(&mut request);
    request.extend(b"\x00\x00\x00\x01\x00\x00\x00\x00");
    request.extend(u32::try_from(bomb.len()).unwrap_or(u32::MAX).to_be_bytes());
    request.extend(bomb);
    let mut connection = Connection::open(bootstrap)
        .await
        .map_err(|error| Stop::fail(format!("cannot connect: {error}")))?;
    connection
        .send(&request)
        .await
        .map_err(|error| Stop::fail(format!("cannot send a bomb: {error}")))?;
    let answer = match connection.reply(Duration::from_secs(40)).await {
        Reply::Frame(answer) => answer,
        other => {
            return Err(Stop::fail(format!(
                "a {codec:?} bomb got no answer but {other:?}"
            )));
        }
    };
    // Correlation id, one topic with its name, one partition with its number, code.
    let at = 4 + 4 + 2 + topic.len() + 4 + 4;
    let code = answer.get(at..at + 2).and_then(|code| code.try_into().ok());
    let code = code.map(i16::from_be_bytes).and_then(ErrorCode::from_code);
    expect_eq(
        &format!("the code of a {codec:?} bomb"),
        &Some(ErrorCode::MessageTooLarge),
        &code,
    )
}
