//! Parked calls: who waits for which lane, or for which queue. A push wakes only those that wait
//! for what it touched; a wake that was for another lane with the same hash costs a look and
//! nothing else.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indexmap::IndexMap;
use tokio::sync::Notify;

use super::change::LaneKey;
use crate::ids::TenantId;

/// All parked calls of one kind.
#[derive(Debug, Default)]
pub struct Park {
    waiters: Mutex<IndexMap<u64, Vec<Arc<Notify>>>>,
}

/// A registration; ends when dropped.
#[derive(Debug)]
pub struct Parked<'a> {
    park: &'a Park,
    lanes: Vec<u64>,
    notify: Arc<Notify>,
}

impl Park {
    /// Stands for any lane of any queue.
    pub const ANY_QUEUE: (&'static str, &'static str) = ("", "*");

    /// Stands for any lane of a queue.
    pub const fn queue(name: &str) -> (&str, &str) {
        (name, "")
    }

    /// Registers for the lanes named. Look at them after this, not before, or a push in between
    /// is missed.
    pub fn register<'n>(
        &self,
        tenant: TenantId,
        lanes: impl Iterator<Item = (&'n str, &'n str)>,
    ) -> Parked<'_> {
        let lanes: Vec<u64> = lanes
            .map(|(queue, lane)| hash(tenant, queue, lane))
            .collect();
        let notify = Arc::new(Notify::new());
        let mut waiters = self.lock();
        for lane in &lanes {
            waiters.entry(*lane).or_default().push(notify.clone());
        }
        drop(waiters);
        Parked {
            park: self,
            lanes,
            notify,
        }
    }

    /// Wakes who waits for any of `lanes`.
    pub fn wake(&self, lanes: &[LaneKey]) {
        if lanes.is_empty() {
            return;
        }
        let waiters = self.lock();
        if waiters.is_empty() {
            return;
        }
        for key in lanes {
            if let Some(waiting) = waiters.get(&hash(key.tenant, &key.queue, &key.lane)) {
                waiting.iter().for_each(|notify| notify.notify_one());
            }
        }
    }

    /// Wakes who waits for any queue of `lanes`, or for any queue at all.
    pub fn wake_queues(&self, lanes: &[LaneKey]) {
        if lanes.is_empty() {
            return;
        }
        let waiters = self.lock();
        if waiters.is_empty() {
            return;
        }
        let mut last: Option<(TenantId, &str)> = None;
        for key in lanes {
            // Calls name their queues in long runs.
            if last.replace((key.tenant, &key.queue)) == Some((key.tenant, &key.queue)) {
                continue;
            }
            for (queue, lane) in [Self::queue(&key.queue), Self::ANY_QUEUE] {
                if let Some(waiting) = waiters.get(&hash(key.tenant, queue, lane)) {
                    waiting.iter().for_each(|notify| notify.notify_one());
                }
            }
        }
    }

    /// Wakes everyone: a queue with unknown waiters is gone, or the Queen stops.
    pub fn wake_all(&self) {
        for waiting in self.lock().values() {
            waiting.iter().for_each(|notify| notify.notify_one());
        }
    }

    fn lock(&self) -> MutexGuard<'_, IndexMap<u64, Vec<Arc<Notify>>>> {
        // Every change under the lock is complete in itself.
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Parked<'_> {
    /// Ends at the first wake since the last call, or since registration.
    pub async fn woken(&self) {
        self.notify.notified().await;
    }
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        let mut waiters = self.park.lock();
        for lane in &self.lanes {
            if let Some(waiting) = waiters.get_mut(lane) {
                waiting.retain(|other| !Arc::ptr_eq(other, &self.notify));
                if waiting.is_empty() {
                    waiters.swap_remove(lane);
                }
            }
        }
    }
}

/// FNV-1a over the names, each behind its length.
fn hash(tenant: TenantId, queue: &str, lane: &str) -> u64 {
    let queue_len = queue.len().to_le_bytes();
    let parts = [
        tenant.0.as_bytes().as_slice(),
        &queue_len,
        queue.as_bytes(),
        lane.as_bytes(),
    ];
    let bytes = parts.into_iter().flatten();
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_who_waits_for_the_lane_is_woken() {
        let park = Park::default();
        let tenant = TenantId::DEFAULT;
        let a = park.register(tenant, [("q", "0"), ("q", "1")].into_iter());
        let b = park.register(tenant, [("q", "2")].into_iter());
        park.wake(&[LaneKey {
            tenant,
            queue: "q".into(),
            lane: "1".into(),
        }]);
        a.woken().await;
        let wait = tokio::time::timeout(std::time::Duration::from_secs(1), b.woken());
        assert!(wait.await.is_err());
        drop((a, b));
        assert!(park.lock().is_empty());
    }
}
