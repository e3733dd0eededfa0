//! Batches of a few kilobytes that expand to a quarter of a gigabyte each.

use std::time::Duration;

use bytes::BytesMut;
use futures::future::join_all;
use kafka_wire::ApiKey;
use kafka_wire::records::{BatchBuilder, BatchOptions, Compression, Compressor, Record};

use super::honest::{Honest, Watch};
use crate::cx::Cx;
use crate::spec::{Lane, Spec, Stop, Verdict, WIRE};
use crate::wire::{Connection, Reply};

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
        "Batches that expand a thousandfold cost a bounded amount of memory",
        WIRE,
        run,
    )
    .apis([ApiKey::PRODUCE])
    .lane(Lane::OwnNode)
    .within(Duration::from_secs(60))
}

async fn run(cx: Cx) -> Verdict {
    let node = cx.own_node(&[]).await?;
    let honest = Honest::start(node.bootstrap()).await?;
    let mut bombs = Vec::new();
    for codec in CODECS {
        let bomb = tokio::task::spawn_blocking(move || bomb(codec))
            .await
            .map_err(|error| Stop::fail(format!("cannot make a bomb: {error}")))??;
        cx.record
            .fact(format!("bytes of the {codec:?} bomb"), bomb.len());
        bombs.push(bomb);
    }
    let watch = Watch::start(&node).await;
    let blasts = (0..AT_ONCE)
        .flat_map(|_| &bombs)
        .map(|bomb| blast(&cx, node.bootstrap(), bomb));
    join_all(blasts).await.into_iter().collect::<Verdict>()?;
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

/// Sends a bomb with Produce v7 to partition 0 of topic "bomb", which the node may make or not: any
/// answer will do, and so will a close.
async fn blast(cx: &Cx, bootstrap: &str, bomb: &[u8]) -> Verdict {
    cx.record.seen(ApiKey::PRODUCE, 7);
    let mut request = b"\x00\x00\x00\x07\x00\x00\x00\x07\x00\x04bomb".to_vec();
    // No transactional id, acks of all, ten seconds, one topic, one partition.
    request.extend(b"\xff\xff\xff\xff\x00\x00\x27\x10\x00\x00\x00\x01\x00\x04bomb");
    request.extend(b"\x00\x00\x00\x01\x00\x00\x00\x00");
    request.extend(u32::try_from(bomb.len()).unwrap_or(u32::MAX).to_be_bytes());
    request.extend(bomb);
    let mut connection = Connection::open(bootstrap)
        .await
        .map_err(|error| Stop::fail(format!("cannot connect: {error}")))?;
    // A server that closes while it is still being written to is right.
    let _ = connection.send(&request).await;
    match connection.reply(Duration::from_secs(40)).await {
        Reply::Frame(_) | Reply::Closed(_) => Ok(()),
        Reply::Silence => Err(Stop::fail("a bomb was neither answered nor closed")),
    }
}
