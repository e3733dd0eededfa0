//! Consumer-group positions that Kafka facades keep in the KV store, read back as rows (contract
//! section 10): derived at read time, for queues and lanes that exist.

use std::ops::Bound;
use std::sync::Arc;

use super::Shared;
use super::read;
use super::state::State;
use crate::ids::TenantId;
use crate::percent::decode;
use crate::store::StoreError;

/// The facade's namespace.
const NAMESPACE: &str = "queen-kafka";
/// Keys of committed offsets start with this.
const PREFIX: &str = "qk:group:";
/// The first key behind all of them.
const END: &str = "qk:group;";

/// One committed offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Group name.
    pub group: String,
    /// Queue name.
    pub queue: String,
    /// Lane name.
    pub lane: String,
    /// The lane's id.
    pub lane_id: uuid::Uuid,
    /// The next offset to read.
    pub next_offset: i64,
    /// When it was committed.
    pub committed_ms: i64,
    /// Records not yet read, of those that are still there.
    pub lag: u64,
    /// How long the oldest of them waits; zero without any.
    pub time_lag_s: i64,
    /// When the oldest of them was appended, microseconds since the epoch.
    pub oldest_us: Option<i64>,
}

/// All positions of a tenant, by group, queue and lane.
///
/// # Errors
/// The store, where the age of an unread record lies.
pub async fn kafka_cursors(
    shared: &Arc<Shared>,
    tenant: TenantId,
) -> Result<Vec<Cursor>, StoreError> {
    let now_ms = shared.host.clock.wall().epoch_ms();
    let mut cursors = committed(&shared.read(), tenant, now_ms);
    for cursor in &mut cursors {
        if cursor.lag == 0 {
            continue;
        }
        let created_us = read::append_instant(
            shared,
            tenant,
            &cursor.queue,
            &cursor.lane,
            cursor.next_offset,
        )
        .await?;
        cursor.oldest_us = created_us;
        cursor.time_lag_s = created_us.map_or(0, |us| (now_ms - us / 1000).max(0) / 1000);
    }
    Ok(cursors)
}

/// All positions without the ages, which are in the store.
pub fn committed(state: &State, tenant: TenantId, now_ms: i64) -> Vec<Cursor> {
    let Some(data) = state.tenant(tenant) else {
        return Vec::new();
    };
    let mut cursors: Vec<Cursor> = data
        .kv
        .get(NAMESPACE)
        .into_iter()
        .flat_map(|rows| rows.range::<str, _>((Bound::Included(PREFIX), Bound::Excluded(END))))
        .filter(|(_, row)| row.is_live(now_ms))
        .filter_map(|(key, row)| {
            let (rest, lane) = key.strip_prefix(PREFIX)?.rsplit_once(':')?;
            let (group, queue) = rest.split_once(':')?;
            let (group, queue) = (decode(group), decode(queue));
            let value: serde_json::Value = serde_json::from_str(&row.value).ok()?;
            let next_offset = value.get("offset")?.as_i64()?;
            let bounds = &state.lane(tenant, &queue, lane)?.row;
            let from = next_offset.max(bounds.log_start);
            Some(Cursor {
                lag: u64::try_from(bounds.high_watermark.saturating_sub(from)).unwrap_or(0),
                lane: lane.to_owned(),
                lane_id: bounds.id,
                group,
                queue,
                next_offset: from,
                committed_ms: row.updated_ms,
                time_lag_s: 0,
                oldest_us: None,
            })
        })
        .collect();
    cursors.sort_by(|a, b| (&a.group, &a.queue, &a.lane).cmp(&(&b.group, &b.queue, &b.lane)));
    cursors
}
