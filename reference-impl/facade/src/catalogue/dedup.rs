//! Whether a topic's dedup window covers an idempotent producer's retries, and widening it.

use std::convert::Infallible;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use host::Monotonic;

use super::{AlterError, Catalogue, RecordState, Topic};
use crate::queen::{Credential, Scope};
use crate::topics::DEDUP_WINDOW_SECONDS;

/// The configure option.
pub(super) const OPTION: &str = "dedupWindowSeconds";
/// How long a topic that could not be widened is left alone.
const RETRY_AFTER: Duration = Duration::from_secs(60);
/// Verdicts kept per tenant; beyond that they are all asked for again.
const MAX_VERDICTS: usize = 16_384;

/// Whether Queen recognises a repeated item of a topic long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dedup {
    /// For at least [`DEDUP_WINDOW_SECONDS`].
    Covered,
    /// Not known: the queue is a native one, which is left alone, or it could not be widened.
    Uncovered,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Verdict {
    dedup: Dedup,
    at: Monotonic,
}

impl Catalogue {
    /// Sees to it that `topic`'s dedup window covers retries, widening it once where the topic has
    /// a record. Call it before an idempotent producer's first push; it waits only the first time.
    pub async fn ensure_dedup(
        &self,
        scope: &Scope,
        credential: &Credential,
        topic: &Topic,
    ) -> Dedup {
        if covers(topic) {
            return Dedup::Covered;
        }
        let state = self.inner.state(scope);
        let key = topic
            .queue_id
            .clone()
            .unwrap_or_else(|| topic.name.to_string());
        let known = || {
            let now = self.inner.clock.monotonic();
            let verdicts = state.dedup.lock().unwrap_or_else(PoisonError::into_inner);
            let Verdict { dedup, at } = verdicts.get(&key).copied()?;
            let settled = dedup == Dedup::Covered || topic.record == RecordState::Untracked;
            (settled || now.saturating_since(at) < RETRY_AFTER).then_some(dedup)
        };
        if let Some(dedup) = known() {
            return dedup;
        }
        // One for all producers that begin together: each would read and write the same record.
        let _widening = state.widening.lock().await;
        if let Some(dedup) = known() {
            return dedup;
        }
        let now = self.inner.clock.monotonic();
        let dedup = if topic.tracked().is_some() {
            self.widen(scope, credential, topic).await
        } else {
            tracing::info!(
                topic = topic.name.as_ref(),
                "an idempotent producer writes to a queue whose dedup window is not ours to set: a retry beyond it is stored twice"
            );
            Dedup::Uncovered
        };
        if dedup == Dedup::Uncovered {
            self.inner.metrics.uncovered.inc();
        }
        let mut verdicts = state.dedup.lock().unwrap_or_else(PoisonError::into_inner);
        if verdicts.len() >= MAX_VERDICTS {
            verdicts.clear();
        }
        verdicts.insert(key, Verdict { dedup, at: now });
        dedup
    }

    async fn widen(&self, scope: &Scope, credential: &Credential, topic: &Topic) -> Dedup {
        let topic = &Arc::new(topic.clone());
        let widened = self
            .alter(scope, credential, topic, |record| {
                if record.dedup_window_seconds() < Some(DEDUP_WINDOW_SECONDS) {
                    record
                        .set
                        .insert(OPTION.into(), DEDUP_WINDOW_SECONDS.into());
                }
                // The whole bag: a Queen before 1.6 resets what is not named.
                Ok::<_, Infallible>(record.set.clone())
            })
            .await;
        match widened {
            Ok(Ok(())) => {
                self.inner.metrics.widened.inc();
                Dedup::Covered
            }
            Ok(Err(never)) => match never {},
            Err(AlterError::Deleting | AlterError::Untracked) => Dedup::Uncovered,
            Err(AlterError::Queen(error)) => {
                tracing::warn!(
                    topic = topic.name.as_ref(),
                    %error,
                    "the dedup window could not be widened for an idempotent producer"
                );
                Dedup::Uncovered
            }
        }
    }
}

fn covers(topic: &Topic) -> bool {
    topic
        .tracked()
        .and_then(|record| record.dedup_window_seconds())
        .is_some_and(|window| window >= DEDUP_WINDOW_SECONDS)
}
