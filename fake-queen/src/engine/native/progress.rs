//! How far native groups are: the rows of the group views (contract section 10).

use std::sync::Arc;

use super::rows::SubscriptionRow;
use crate::engine::Shared;
use crate::engine::read;
use crate::ids::TenantId;
use crate::store::StoreError;

/// One group in one lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Group name.
    pub group: Arc<str>,
    /// Queue name.
    pub queue: Arc<str>,
    /// Lane name.
    pub lane: Arc<str>,
    /// The lane's id.
    pub lane_id: uuid::Uuid,
    /// The next offset to hand out, of those that are still there.
    pub next_offset: i64,
    /// Records not yet consumed, of those that are still there.
    pub lag: u64,
    /// How long the oldest of them waits, seconds; zero without any.
    pub time_lag_s: i64,
    /// When the oldest of them was appended, microseconds since the epoch.
    pub oldest_us: Option<i64>,
    /// Who holds, or last held, a batch.
    pub lease: Option<uuid::Uuid>,
    /// The lease has not expired.
    pub lease_active: bool,
    /// Offsets passed since the cursor was made.
    pub total_consumed: u64,
    /// The group's registration with the queue.
    pub subscription: Option<SubscriptionRow>,
}

/// All cursors of a tenant, by group, queue and lane.
///
/// # Errors
/// The store, where the age of an unconsumed record lies.
pub async fn cursors(shared: &Arc<Shared>, tenant: TenantId) -> Result<Vec<Progress>, StoreError> {
    let now_ms = shared.host.clock.wall().epoch_ms();
    let mut found = rows(shared, tenant, now_ms);
    for progress in found.iter_mut().filter(|progress| progress.lag > 0) {
        progress.oldest_us = read::append_instant(
            shared,
            tenant,
            &progress.queue,
            &progress.lane,
            progress.next_offset,
        )
        .await?;
        progress.time_lag_s = progress
            .oldest_us
            .map_or(0, |us| (now_ms - us / 1000).max(0) / 1000);
    }
    Ok(found)
}

/// All cursors without the ages, which are in the store.
pub fn rows(shared: &Shared, tenant: TenantId, now_ms: i64) -> Vec<Progress> {
    let state = shared.read();
    let queues = state
        .tenant(tenant)
        .into_iter()
        .flat_map(|tenant| &tenant.queues)
        .filter(|(_, queue)| queue.consumers.cursors > 0);
    let mut found = Vec::new();
    for (queue_name, queue) in queues {
        for (lane_name, lane) in &queue.lanes {
            for (group, cursor) in &lane.consumers.cursors {
                let next_offset = (cursor.committed + 1).max(lane.row.log_start);
                found.push(Progress {
                    group: group.clone(),
                    queue: queue_name.clone(),
                    lane: lane_name.clone(),
                    lane_id: lane.row.id,
                    next_offset,
                    lag: u64::try_from(lane.row.high_watermark - next_offset).unwrap_or(0),
                    time_lag_s: 0,
                    oldest_us: None,
                    lease: cursor.lease.map(|lease| lease.id),
                    lease_active: cursor.live_lease(now_ms).is_some(),
                    total_consumed: cursor.total_consumed,
                    subscription: queue.consumers.subscriptions.get(group).copied(),
                });
            }
        }
    }
    found.sort_by(|a, b| (&a.group, &a.queue, &a.lane).cmp(&(&b.group, &b.queue, &b.lane)));
    found
}
