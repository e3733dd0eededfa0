//! One member of a group.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::events::{JoinRequest, Protocols, RosterEntry};
use super::ids::{CallToken, InstanceId, MemberId};
use super::settings::{MIN_REBALANCE_TIMEOUT, Settings};

/// What a member costs beside its metadata: ids, seats, timers.
const OVERHEAD_BYTES: usize = 512;

#[derive(Debug)]
pub(super) struct Member {
    pub(super) id: MemberId,
    pub(super) instance_id: Option<InstanceId>,
    pub(super) client_id: Arc<str>,
    pub(super) client_host: Arc<str>,
    pub(super) session_timeout: Duration,
    pub(super) rebalance_timeout: Duration,
    pub(super) protocols: Protocols,
    pub(super) assignment: Bytes,
    /// The parked JoinGroup.
    pub(super) join: Option<CallToken>,
    /// The parked SyncGroup.
    pub(super) sync: Option<CallToken>,
    /// In no generation yet.
    pub(super) is_new: bool,
    /// Whether the client can know `id` while its first join is parked.
    pub(super) id_is_known: bool,
}

impl Member {
    pub(super) fn new(id: MemberId, id_is_known: bool, request: &JoinRequest) -> Self {
        Self {
            id,
            instance_id: request.instance_id.clone(),
            client_id: request.client_id.clone(),
            client_host: request.client_host.clone(),
            session_timeout: request.session_timeout,
            rebalance_timeout: request.rebalance_timeout,
            protocols: request.protocols.clone(),
            assignment: Bytes::new(),
            join: None,
            sync: None,
            is_new: true,
            id_is_known,
        }
    }

    /// Whether silence is expected: the client waits for us.
    pub(super) fn satisfies_heartbeat(&self) -> bool {
        !self.is_new && (self.join.is_some() || self.sync.is_some())
    }

    /// The protocol this member prefers among `candidates`.
    pub(super) fn vote<'a>(&'a self, candidates: &BTreeMap<&str, usize>) -> Option<&'a Arc<str>> {
        self.protocols
            .iter()
            .map(|protocol| &protocol.name)
            .find(|name| candidates.contains_key(&***name))
    }

    pub(super) fn roster_entry(&self, protocol_name: &str) -> RosterEntry {
        RosterEntry {
            member_id: self.id.clone(),
            instance_id: self.instance_id.clone(),
            metadata: self
                .protocols
                .metadata_of(protocol_name)
                .cloned()
                .unwrap_or_default(),
        }
    }

    /// What the member weighs against [`Settings::max_metadata_bytes`].
    pub(super) fn metadata_bytes(&self) -> usize {
        metadata_bytes(&self.client_id, &self.protocols)
    }
}

/// What a member with these would weigh against [`Settings::max_metadata_bytes`].
pub(super) fn metadata_bytes(client_id: &str, protocols: &Protocols) -> usize {
    OVERHEAD_BYTES + client_id.len() + protocols.bytes()
}

/// The rebalance timeout the group uses for the one asked for.
pub(super) fn clamp_rebalance_timeout(settings: &Settings, asked: Duration) -> Duration {
    let longest = settings.max_rebalance_timeout.max(MIN_REBALANCE_TIMEOUT);
    asked.clamp(MIN_REBALANCE_TIMEOUT, longest)
}
