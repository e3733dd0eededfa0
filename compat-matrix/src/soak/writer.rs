//! Writes numbers, idempotent and pipelined, and remembers which were acknowledged.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::util::Timeout;

use super::{PARTITIONS, SOURCE, Shared, failed};
use crate::spec::Stop;

/// Numbers on their way at once.
const PIPELINED: usize = 500;
/// Between two numbers.
const EVERY: Duration = Duration::from_millis(4);

/// What became of the numbers: `true` for one that was acknowledged.
pub(super) type Acknowledged = Vec<bool>;

/// The partition of a number.
pub(super) fn partition(number: u64) -> i32 {
    i32::try_from(number % u64::from(PARTITIONS.unsigned_abs())).unwrap_or(0)
}

pub(super) async fn write(shared: Arc<Shared>) -> Result<Acknowledged, Stop> {
    let producer: FutureProducer = shared
        .client()
        .set("enable.idempotence", "true")
        .set("linger.ms", "2")
        .set("message.timeout.ms", "120000")
        .create()
        .map_err(failed)?;
    let mut acknowledged = Acknowledged::new();
    let mut on_their_way = FuturesUnordered::new();
    let mut next: u64 = 0;
    loop {
        let is_over = shared.written.load(Ordering::Relaxed);
        if !is_over && on_their_way.len() < PIPELINED {
            let (number, text) = (next, next.to_string());
            next += 1;
            acknowledged.push(false);
            let producer = producer.clone();
            on_their_way.push(async move {
                let record = FutureRecord::<(), _>::to(SOURCE)
                    .partition(partition(number))
                    .payload(&text);
                // Queued before the first wait, so in the order of the numbers.
                let sent = producer.send(record, Timeout::Never).await;
                (number, sent.is_ok())
            });
        }
        let wait = tokio::time::sleep(EVERY);
        tokio::pin!(wait);
        loop {
            tokio::select! {
                biased;
                Some((number, stored)) = on_their_way.next(), if !on_their_way.is_empty() => {
                    let at = usize::try_from(number).unwrap_or(usize::MAX);
                    if let Some(known) = acknowledged.get_mut(at) {
                        *known = stored;
                    }
                }
                () = &mut wait => break,
            }
        }
        if is_over && on_their_way.is_empty() {
            return Ok(acknowledged);
        }
    }
}
