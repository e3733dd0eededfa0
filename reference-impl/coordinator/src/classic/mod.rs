//! The classic consumer group: Kafka's own rules (GroupCoordinator of 3.9, GroupMetadataManager of
//! 4.x) as a state machine without I/O, clocks or tasks.
//!
//! One [`ClassicGroup`] is one group. Its methods come in four kinds:
//!
//! - **events in**, `handle_*`: each takes `now`, which must never go back. Calls that may wait
//!   ([`handle_join`](ClassicGroup::handle_join), [`handle_sync`](ClassicGroup::handle_sync)) carry
//!   a [`CallToken`] that names their answer; all others answer at once.
//! - **checks**, `validate_*`: may this be done now.
//! - **effects out**, [`poll_effect`](ClassicGroup::poll_effect): answers to tokens and notes for
//!   the log. Poll to `None` after every event: an event can answer calls of other members.
//! - **time**: [`next_deadline`](ClassicGroup::next_deadline) says when to call
//!   [`handle_timeout`](ClassicGroup::handle_timeout).
//!
//! Costs: a heartbeat, commit, join or sync is O(log members + its own bytes), unless it opens or
//! closes a rebalance, which touches every member once. Memory is bounded by [`Settings`].
//!
//! Deviations from Kafka, all invisible to a live client: a parked call is always answered (Kafka
//! forgets a join or sync that is displaced or whose member leaves); a parked join whose connection
//! died no longer counts ([`handle_abandoned`](ClassicGroup::handle_abandoned)); ties of the vote go
//! to the protocol voted for first, and the lead to the longest member (Kafka: hash order).

mod admin;
mod error;
mod events;
mod group;
mod ids;
mod join;
mod leave;
mod member;
pub(crate) mod migrate;
mod pending;
mod roster;
mod settings;
pub mod subscription;
mod sync;
mod timers;

#[cfg(test)]
mod tests;

pub use admin::{CONSUMER_PROTOCOL_TYPE, Description, MemberDescription, Overview};
pub use error::GroupError;
pub use events::{
    Cause, Effect, JoinRefusal, JoinRequest, Joined, LeavingMember, MemberRef, Note, Protocol,
    Protocols, RosterEntry, SyncRequest, Synced,
};
pub use group::{ClassicGroup, GroupState};
pub use ids::{CallToken, GenerationId, InstanceId, MEMBER_ID_PREFIX_BYTES, MemberId};
pub use settings::{MIN_REBALANCE_TIMEOUT, NEW_MEMBER_JOIN_TIMEOUT, Settings};
