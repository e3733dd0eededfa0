//! Ends transactions that are past their time, once a second while any is open.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use host::shutdown::Phase;

use super::Inner;
use super::entry::Entry;

/// How often.
const EVERY: Duration = Duration::from_secs(1);

impl Inner {
    /// Sees to it that somebody sweeps.
    pub(super) fn sweep(self: &Arc<Self>) {
        if self.sweeping.swap(true, Ordering::Relaxed) {
            return;
        }
        let inner = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(EVERY).await;
                let Some(inner) = inner.upgrade() else {
                    return;
                };
                if inner.shutdown.phase() != Phase::Running {
                    return;
                }
                inner.expire();
                if inner.open.load(Ordering::Relaxed) == 0 {
                    inner.sweeping.store(false, Ordering::Relaxed);
                    // One that was opened just now found a sweeper.
                    if inner.open.load(Ordering::Relaxed) == 0
                        || inner.sweeping.swap(true, Ordering::Relaxed)
                    {
                        return;
                    }
                }
            }
        });
    }

    fn expire(self: &Arc<Self>) {
        let now = self.now();
        let entries: Vec<Arc<Entry>> = self.lock().values().cloned().collect();
        for entry in entries {
            if let Some(write) = self.with(&entry, |state| state.core.expire(now)) {
                let inner = Arc::clone(self);
                // Its outcome is nobody's to wait for.
                tokio::spawn(async move { inner.carry_out(&entry, write).await });
            }
        }
    }
}
