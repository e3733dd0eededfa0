//! What the log says about a group: one line for each generation, with what caused it.

use std::sync::Arc;
use std::time::Duration;

use coordinator::classic::{Cause, Note};
use host::Monotonic;
use host::sampled::Sampler;

/// A client can rebalance its group as fast as it can send; the log keeps one line of it per second.
const WINDOW: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Log {
    group: Arc<str>,
    cause: Option<Cause>,
    sampler: Sampler,
}

impl Log {
    pub(super) fn new(group: Arc<str>) -> Self {
        Self {
            group,
            cause: None,
            sampler: Sampler::new(WINDOW),
        }
    }

    /// Ids and reasons come from clients: they are only ever written escaped.
    pub(super) fn note(&mut self, now: Monotonic, note: Note) {
        let group = &self.group;
        match note {
            Note::PreparingRebalance { cause, .. } => {
                tracing::debug!(?group, ?cause, "preparing to rebalance");
                self.cause = Some(cause);
            }
            Note::GenerationFormed {
                generation_id,
                members,
                protocol_name,
            } => {
                let cause = self.cause.take();
                if let Some(suppressed) = self.sampler.pass(now) {
                    tracing::info!(
                        ?group, %generation_id, members, protocol = ?protocol_name, ?cause,
                        suppressed, "a generation formed",
                    );
                }
            }
            Note::Emptied { generation_id } => {
                let cause = self.cause.take();
                if let Some(suppressed) = self.sampler.pass(now) {
                    tracing::info!(?group, %generation_id, ?cause, suppressed, "the group is empty");
                }
            }
            Note::NobodyRejoined => {
                if let Some(suppressed) = self.sampler.pass(now) {
                    tracing::warn!(
                        ?group,
                        suppressed,
                        "nobody rejoined; static members keep their places until their sessions end",
                    );
                }
            }
            Note::Stabilized { generation_id } => {
                tracing::debug!(?group, %generation_id, "the generation is stable");
            }
            Note::MemberRemoved { member_id, cause } => {
                tracing::debug!(?group, ?member_id, ?cause, "a member is gone");
            }
            Note::StaticMemberReplaced {
                instance_id,
                old,
                new,
            } => {
                tracing::debug!(
                    ?group,
                    ?instance_id,
                    ?old,
                    ?new,
                    "a static member came back"
                );
            }
        }
    }
}
