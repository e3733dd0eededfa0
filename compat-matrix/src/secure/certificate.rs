//! A certificate that is exchanged while clients work.

use std::time::Duration;

use kafka_wire::ApiKey;
use tokio::time::{Instant, sleep};

use super::is_served;
use crate::bad_input::Honest;
use crate::cx::Cx;
use crate::spec::{Stop, Verdict, ensure};
use crate::wire::Connection;

/// When new connections must see it.
const SEEN_WITHIN: Duration = Duration::from_secs(5);

pub(super) async fn run(cx: Cx) -> Verdict {
    cx.record.seen(ApiKey::METADATA, 1);
    let node = cx.own_node(&[]).await?;
    let folder = node
        .folder()
        .ok_or_else(|| Stop::fail("a node without a folder"))?;
    let mut old = Connection::open(node.bootstrap())
        .await
        .map_err(super::failed("cannot connect"))?;
    let honest = Honest::start(node.bootstrap()).await?;
    // Of another authority: only who trusts that one can tell the new certificate from the old.
    let renewed = cx
        .target
        .guard()?
        .renew_by_another(folder, node.bootstrap())?;
    node.hang_up().await?;
    let began = Instant::now();
    loop {
        match Connection::open(&renewed).await {
            Ok(_) => break,
            Err(error) if began.elapsed() > SEEN_WITHIN => {
                return Err(Stop::fail(format!(
                    "the new certificate is not shown: {error}"
                )));
            }
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
    ensure(Connection::open(node.bootstrap()).await.is_err(), || {
        "the old certificate is still shown".into()
    })?;
    ensure(is_served(&mut old).await?, || {
        "a connection that was open is dropped".into()
    })?;
    honest.was_well(&cx).await
}
