//! `GET /api/v1/consumer-groups`, `…/lagging` and `…/:group`: progress of groups. Contract
//! section 10. Native rows come from cursors (`kind` `queen`), Kafka's are derived from the KV
//! store (`kind` `kafka`, since 1.4); a name in both has rows of both.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::Call;
use crate::engine::groups::{self, Cursor};
use crate::engine::native::progress::{self, Progress};
use crate::engine::native::rows::SubscriptionRow;
use crate::http::error::ApiError;
use crate::http::reply::Reply;
use crate::options::Version;
use crate::time;

/// A group that waits longer than this is `Lagging`.
const LAGGING_S: i64 = 300;
/// `minLagSeconds` when it isn't named.
const DEFAULT_MIN_LAG_S: i64 = 3600;

/// Whose rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Native groups.
    Queen,
    /// Groups of Kafka facades.
    Kafka,
}

impl Kind {
    /// As it is printed.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Queen => "queen",
            Self::Kafka => "kafka",
        }
    }
}

/// One group in one lane, of either kind.
#[derive(Clone, Debug)]
pub struct Position {
    /// Whose.
    pub kind: Kind,
    /// Group name.
    pub group: String,
    /// Queue name.
    pub queue: String,
    /// Lane name.
    pub lane: String,
    lane_id: Uuid,
    /// Records not yet consumed.
    pub lag: u64,
    /// How long the oldest of them waits, seconds.
    pub time_lag_s: i64,
    oldest_us: Option<i64>,
    worker: Option<Uuid>,
    /// A batch is handed out.
    pub lease_active: bool,
    consumed: u64,
    last_consumed_ms: Option<i64>,
    subscription: Option<SubscriptionRow>,
}

impl From<Progress> for Position {
    fn from(native: Progress) -> Self {
        Self {
            kind: Kind::Queen,
            group: native.group.to_string(),
            queue: native.queue.to_string(),
            lane: native.lane.to_string(),
            lane_id: native.lane_id,
            lag: native.lag,
            time_lag_s: native.time_lag_s,
            oldest_us: native.oldest_us,
            worker: native.lease,
            lease_active: native.lease_active,
            consumed: native.total_consumed,
            last_consumed_ms: None,
            subscription: native.subscription,
        }
    }
}

impl From<Cursor> for Position {
    fn from(kafka: Cursor) -> Self {
        Self {
            kind: Kind::Kafka,
            group: kafka.group,
            queue: kafka.queue,
            lane: kafka.lane,
            lane_id: kafka.lane_id,
            lag: kafka.lag,
            time_lag_s: kafka.time_lag_s,
            oldest_us: kafka.oldest_us,
            worker: None,
            lease_active: false,
            consumed: u64::try_from(kafka.next_offset).unwrap_or(0),
            last_consumed_ms: Some(kafka.committed_ms),
            subscription: None,
        }
    }
}

/// Every group of a tenant in every lane, by group, kind, queue and lane.
///
/// # Errors
/// The store.
pub async fn positions(call: &Call<'_>) -> Result<Vec<Position>, ApiError> {
    let shared = &call.node.engine.shared;
    let native = progress::cursors(shared, call.tenant).await?;
    let kafka = if shows_kafka(call) {
        groups::kafka_cursors(shared, call.tenant).await?
    } else {
        Vec::new()
    };
    Ok(sorted(native, kafka))
}

/// The same without the ages, which are in the store.
pub fn positions_without_ages(call: &Call<'_>) -> Vec<Position> {
    let shared = &call.node.engine.shared;
    let now_ms = shared.host.clock.wall().epoch_ms();
    let native = progress::rows(shared, call.tenant, now_ms);
    let kafka = if shows_kafka(call) {
        groups::committed(&shared.read(), call.tenant, now_ms)
    } else {
        Vec::new()
    };
    sorted(native, kafka)
}

fn shows_kafka(call: &Call<'_>) -> bool {
    call.node.options.version >= Version::V1_4
}

fn sorted(native: Vec<Progress>, kafka: Vec<Cursor>) -> Vec<Position> {
    let mut positions: Vec<Position> = native.into_iter().map(Position::from).collect();
    positions.extend(kafka.into_iter().map(Position::from));
    positions.sort_by(|a, b| {
        (&a.group, a.kind, &a.queue, &a.lane).cmp(&(&b.group, b.kind, &b.queue, &b.lane))
    });
    positions
}

/// Answers the list: one row per group and queue.
///
/// # Errors
/// The store.
pub async fn list(call: &Call<'_>) -> Result<Reply, ApiError> {
    let positions = positions(call).await?;
    let mut by_group: BTreeMap<(&str, Kind, &str), Vec<&Position>> = BTreeMap::new();
    for position in &positions {
        by_group
            .entry((&position.group, position.kind, &position.queue))
            .or_default()
            .push(position);
    }
    let rows: Vec<Value> = by_group
        .into_iter()
        .map(|((group, kind, queue), positions)| row(group, kind, queue, &positions))
        .collect();
    Ok(Reply::value(&Value::from(rows)))
}

fn row(group: &str, kind: Kind, queue: &str, positions: &[&Position]) -> Value {
    let max_time_lag = positions.iter().map(|p| p.time_lag_s).max().unwrap_or(0);
    let consumed = positions.iter().any(|position| position.consumed > 0);
    let state = if max_time_lag > LAGGING_S {
        "Lagging"
    } else if consumed || kind == Kind::Kafka {
        "Stable"
    } else {
        "Dead"
    };
    let subscription = positions.iter().find_map(|position| position.subscription);
    json!({
        "name": group,
        "topics": [queue],
        "queueName": queue,
        // Cursors, not consumers: kept under the name that older readers know.
        "members": positions.len(),
        "partitionCursors": positions.len(),
        "partitionsWithLag": positions.iter().filter(|position| position.lag > 0).count(),
        "totalLag": positions.iter().map(|position| position.lag).sum::<u64>(),
        "maxTimeLag": max_time_lag,
        "state": state,
        "storage": "segments",
        "subscriptionMode": subscription.map(|row| row.start.mode()),
        "subscriptionTimestamp": subscription.map(|row| time::millis_string(row.timestamp_ms)),
        "subscriptionCreatedAt": subscription.map(|row| time::millis_string(row.created_ms)),
        "conflation": subscription.is_some_and(|row| row.conflation),
        "kind": kind.text(),
    })
}

/// Answers with lanes whose oldest unread record waits longer than `minLagSeconds`.
///
/// # Errors
/// The store.
pub async fn lagging(call: &Call<'_>) -> Result<Reply, ApiError> {
    let min_lag_s = call
        .parameter("minLagSeconds")
        .and_then(|text| text.parse().ok())
        .unwrap_or(DEFAULT_MIN_LAG_S);
    let rows: Vec<Value> = positions(call)
        .await?
        .iter()
        .filter(|position| position.lag > 0 && position.time_lag_s >= min_lag_s)
        .map(|position| {
            // Hours to two places.
            let hours = (position.time_lag_s as f64 / 36.0).round() / 100.0;
            json!({
                "consumer_group": position.group,
                "queue_name": position.queue,
                "partition_name": position.lane,
                "partition_id": position.lane_id,
                "worker_id": position.worker,
                "offset_lag": position.lag,
                "time_lag_seconds": position.time_lag_s,
                "lag_hours": hours,
                "oldest_unconsumed_at": position.oldest_us.map(|us| time::millis_string(us / 1000)),
                "last_consumed_at": null,
                "kind": position.kind.text(),
            })
        })
        .collect();
    Ok(Reply::value(&Value::from(rows)))
}

/// Answers for one group, by queue. Where both kinds have the name, the native group is shown.
///
/// # Errors
/// The store.
pub async fn one(call: &Call<'_>, group: &str) -> Result<Reply, ApiError> {
    let positions = positions(call).await?;
    let mut by_queue: Map<String, Value> = Map::new();
    // Native positions of a name stand before Kafka's.
    for position in positions.iter().filter(|position| position.group == group) {
        let kind = position.kind.text();
        let conflation = position.subscription.is_some_and(|row| row.conflation);
        let queue = by_queue
            .entry(position.queue.clone())
            .or_insert_with(|| json!({"conflation": conflation, "kind": kind, "partitions": []}));
        if queue["kind"] != kind {
            continue;
        }
        if let Some(Value::Array(partitions)) = queue.get_mut("partitions") {
            partitions.push(json!({
                "partition": position.lane,
                "workerId": position.worker,
                "lastConsumedAt": position.last_consumed_ms.map(time::millis_string),
                "totalConsumed": position.consumed,
                "offsetLag": position.lag,
                "timeLagSeconds": position.time_lag_s,
                "leaseActive": position.lease_active,
            }));
        }
    }
    Ok(Reply::value(&Value::Object(by_queue)))
}
