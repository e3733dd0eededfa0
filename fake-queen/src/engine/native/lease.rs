//! Leases that are held longer, and leases on less than was claimed.

use std::sync::Arc;

use uuid::Uuid;

use super::rows::LaneAt;
use crate::engine::batch::Batch;
use crate::engine::writer::{Handle, WriteError};
use crate::ids::TenantId;

/// What became of an extension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renewed {
    /// Cursors whose lease was extended.
    pub count: u64,
    /// The earliest end among them, milliseconds since the epoch.
    pub expires_ms: Option<i64>,
}

/// Plans an extension of every live lease with an id to `seconds` from now; never shortens one.
pub fn extend(batch: &mut Batch<'_>, tenant: TenantId, id: Uuid, seconds: i64) -> Renewed {
    let now_ms = batch.now.epoch_ms();
    let until_ms = now_ms.saturating_add(seconds.saturating_mul(1000));
    let mut renewed = Renewed::default();
    let state = batch.state;
    for (key, group) in state.native().leased(tenant, id) {
        let Some(lane) = state.lane(tenant, &key.queue, &key.lane) else {
            continue;
        };
        let at = LaneAt {
            key: key.clone(),
            uid: lane.row.uid,
        };
        let Some(mut cursor) = batch.native.cursor(state, &at, group) else {
            continue;
        };
        let Some(lease) = &mut cursor.lease else {
            continue;
        };
        if lease.id != id || !lease.is_live(now_ms) {
            continue;
        }
        lease.expires_ms = lease.expires_ms.max(until_ms);
        let expires_ms = lease.expires_ms;
        renewed.count += 1;
        renewed.expires_ms = Some(
            renewed
                .expires_ms
                .map_or(expires_ms, |known| known.min(expires_ms)),
        );
        batch.native.put_cursor(at, group.clone(), Some(cursor));
    }
    renewed
}

/// Gives back what was claimed and not handed out: lane, last offset claimed, last handed out.
///
/// # Errors
/// See [`WriteError`]; the rest is redelivered when the lease expires.
pub async fn shorten(
    writer: &Handle,
    group: Arc<str>,
    cut: Vec<(LaneAt, i64, i64)>,
) -> Result<(), WriteError> {
    writer
        .write(0, move |batch| {
            for (at, claimed, delivered) in cut {
                let Some(mut cursor) = batch.native.cursor(batch.state, &at, &group) else {
                    continue;
                };
                match &mut cursor.lease {
                    Some(lease) if lease.batch_end == claimed => {
                        lease.batch_end = delivered;
                        if delivered <= cursor.committed {
                            cursor.lease = None;
                        }
                    }
                    None if cursor.committed == claimed => {
                        // Consumed when it was claimed; what wasn't handed out is taken back.
                        cursor.total_consumed -= claimed.abs_diff(delivered);
                        cursor.committed = delivered;
                    }
                    _ => continue,
                }
                cursor.delivered_to = cursor.delivered_to.min(delivered.max(cursor.committed));
                batch.native.put_cursor(at, group.clone(), Some(cursor));
            }
        })
        .await
}
