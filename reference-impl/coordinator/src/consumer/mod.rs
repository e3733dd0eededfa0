//! The consumer group of KIP-848: Kafka's own rules (GroupMetadataManager of 4.x) as a state machine
//! without I/O, clocks or tasks. The coordinator assigns; members move to the assignment one by one.
//!
//! One [`ConsumerGroup`] is one group. Its methods come in four kinds:
//!
//! - **events in**, `handle_*`: each answers at once and takes `now`, which must never go back. Those
//!   that may need topics take a [`Topics`] snapshot, or `None` when it can't be had.
//! - **checks**, `validate_*`: may this be done now.
//! - **notes out**, [`poll_note`](ConsumerGroup::poll_note): for the log. Poll to `None` after every
//!   event, then ask [`wants_downgrade`](ConsumerGroup::wants_downgrade).
//! - **time**: [`next_deadline`](ConsumerGroup::next_deadline) says when to call
//!   [`handle_timeout`](ConsumerGroup::handle_timeout).
//!
//! What always holds: a partition has at most one owner, and a member that may still own it is its
//! owner; a member gets a partition only after its owner said that it gave it up, left, or ran out
//! of time.
//!
//! Costs: a heartbeat that changes nothing is O(log members). A change of members, subscriptions or
//! topics computes the assignment once. Memory is bounded by [`Settings`].
//!
//! Deviations from Kafka: patterns are resolved at once, not in the background; a member that joins
//! again under its id with epoch 0 is taken back at once (Kafka fences it until its session ends);
//! a group that becomes classic always rebalances.

mod admin;
mod assignor;
mod classic_side;
mod error;
mod events;
mod group;
mod heartbeat;
mod ids;
mod member;
mod migrate;
mod reconcile;
mod regex;
mod settings;
mod subscriptions;
mod topics;

#[cfg(test)]
mod tests;

pub use admin::{CommitScope, Description, MemberDescription, Overview};
pub use assignor::Assignor;
pub use error::Error;
pub use events::{Cause, HeartbeatRequest, HeartbeatResponse, Note};
pub use group::{ConsumerGroup, GroupState};
pub use ids::{Epoch, Partitions, TopicPartition};
pub use member::MemberState;
pub use regex::{MAX_PATTERN_BYTES, RegexError};
pub use settings::{MigrationPolicy, Settings};
pub use topics::{Topic, Topics};
