//! What the log says about a group: one line for each generation, with what caused it.

use std::sync::Arc;
use std::time::Duration;

use coordinator::classic::{Cause, Note};
use coordinator::consumer;
use host::Monotonic;
use host::sampled::Sampler;

use super::core::GroupType;

mod words;

use words::{Said, classic, modern, quoted};

/// A client can rebalance its group as fast as it can send; the log keeps one line of it per second.
const WINDOW: Duration = Duration::from_secs(1);
/// And it can make groups as fast: ten lines per second for all of them together.
pub(super) const WINDOW_OF_ALL: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Log {
    group: Arc<str>,
    cause: Option<Cause>,
    consumer_cause: Option<consumer::Cause>,
    sampler: Sampler,
    all: Arc<Sampler>,
}

impl Log {
    pub(super) fn new(group: Arc<str>, all: Arc<Sampler>) -> Self {
        Self {
            group,
            cause: None,
            consumer_cause: None,
            sampler: Sampler::new(WINDOW),
            all,
        }
    }

    /// Whether a line may be written, and how many were left out.
    fn pass(&self, now: Monotonic) -> Option<u64> {
        let own = self.sampler.pass(now)?;
        self.all.pass(now).map(|others| own + others)
    }

    /// Ids and reasons come from clients: they are only ever written escaped, and cut.
    pub(super) fn note(&mut self, now: Monotonic, note: Note) {
        let group = &self.group;
        match note {
            Note::PreparingRebalance { cause, .. } => {
                tracing::debug!(?group, cause = %classic(&cause), "preparing to rebalance");
                self.cause = Some(cause);
            }
            Note::GenerationFormed {
                generation_id,
                members,
                protocol_name,
            } => {
                let cause = self.cause.take();
                if let Some(suppressed) = self.pass(now) {
                    let (protocol, cause) =
                        (quoted(&protocol_name), Said(cause.as_ref().map(classic)));
                    tracing::info!(
                        ?group, %generation_id, members, protocol, %cause, suppressed,
                        "a generation formed",
                    );
                }
            }
            Note::Emptied { generation_id } => {
                let cause = self.cause.take();
                if let Some(suppressed) = self.pass(now) {
                    let cause = Said(cause.as_ref().map(classic));
                    tracing::info!(?group, %generation_id, %cause, suppressed, "the group is empty");
                }
            }
            Note::NobodyRejoined => {
                if let Some(suppressed) = self.pass(now) {
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
                let cause = classic(&cause);
                tracing::debug!(?group, ?member_id, %cause, "a member is gone");
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

impl Log {
    /// The same for a group of the consumer protocol.
    pub(super) fn consumer_note(&mut self, now: Monotonic, note: consumer::Note) {
        use consumer::Note;
        let group = &self.group;
        match note {
            Note::EpochBumped { group_epoch, cause } => {
                let words = modern(&cause);
                tracing::debug!(?group, %group_epoch, cause = %words, "another assignment is needed");
                self.consumer_cause = Some(cause);
            }
            Note::Assigned {
                assignment_epoch,
                members,
                partitions,
                assignor,
            } => {
                let cause = self.consumer_cause.take();
                if let Some(suppressed) = self.pass(now) {
                    let cause = Said(cause.as_ref().map(modern));
                    tracing::info!(
                        ?group, %assignment_epoch, members, partitions,
                        assignor = assignor.name(), %cause, suppressed,
                        "partitions were assigned",
                    );
                }
            }
            Note::MemberRemoved { member_id, cause } => {
                let cause = modern(&cause);
                tracing::debug!(?group, ?member_id, %cause, "a member is gone");
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
            Note::TooManyPartitions {
                assigned,
                topics_left_out,
            } => {
                if let Some(suppressed) = self.pass(now) {
                    tracing::warn!(
                        ?group,
                        assigned,
                        topics_left_out,
                        suppressed,
                        "the group subscribes to more partitions than a group may have",
                    );
                }
            }
        }
    }

    /// The group changed its protocol.
    pub(super) fn turned(&mut self, now: Monotonic, to: GroupType) {
        if let Some(suppressed) = self.pass(now) {
            let group = &self.group;
            tracing::info!(
                ?group,
                to = to.name(),
                suppressed,
                "the group changed its type"
            );
        }
    }
}
