//! A live group changes its protocol (KIP-848): what leaves a classic group, and what enters one.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use host::Monotonic;

use super::admin::CONSUMER_PROTOCOL_TYPE;
use super::events::{Cause, Protocols};
use super::group::{ClassicGroup, GroupState};
use super::ids::{GenerationId, InstanceId, MemberId};
use super::member::{Member, clamp_rebalance_timeout};
use super::settings::Settings;

/// A member on its way from one protocol to the other.
#[derive(Clone, Debug)]
pub(crate) struct Migrant {
    pub(crate) id: MemberId,
    pub(crate) instance_id: Option<InstanceId>,
    pub(crate) client_id: Arc<str>,
    pub(crate) client_host: Arc<str>,
    pub(crate) session_timeout: Duration,
    pub(crate) rebalance_timeout: Duration,
    pub(crate) protocols: Protocols,
    /// What its leader gave it last.
    pub(crate) assignment: Bytes,
}

impl ClassicGroup {
    /// Whether its members are consumers, whose metadata the coordinator can read.
    pub(crate) fn has_consumers(&self) -> bool {
        self.protocol_type().map(|name| &**name) == Some(CONSUMER_PROTOCOL_TYPE)
    }

    /// The protocol of the current generation.
    pub(crate) fn protocol_name(&self) -> Option<&Arc<str>> {
        self.protocol_name.as_ref()
    }

    /// Its members, in order of joining.
    pub(crate) fn migrants(&self) -> impl Iterator<Item = Migrant> {
        self.roster.iter().map(|(_, member)| Migrant {
            id: member.id.clone(),
            instance_id: member.instance_id.clone(),
            client_id: Arc::clone(&member.client_id),
            client_host: Arc::clone(&member.client_host),
            session_timeout: member.session_timeout,
            rebalance_timeout: member.rebalance_timeout,
            protocols: member.protocols.clone(),
            assignment: member.assignment.clone(),
        })
    }

    /// A group of consumers that comes from the other protocol. It rebalances at once: its members
    /// rejoin, and a leader assigns.
    pub(crate) fn of_migrants(
        settings: Settings,
        now: Monotonic,
        generation_id: GenerationId,
        migrants: impl IntoIterator<Item = Migrant>,
    ) -> Self {
        let mut group = Self::new(settings);
        group.generation_id = generation_id;
        group.protocol_type = Some(CONSUMER_PROTOCOL_TYPE.into());
        for migrant in migrants {
            let seat = group.next_seat();
            let member = Member {
                id: migrant.id,
                instance_id: migrant.instance_id,
                client_id: migrant.client_id,
                client_host: migrant.client_host,
                session_timeout: migrant.session_timeout,
                rebalance_timeout: clamp_rebalance_timeout(&settings, migrant.rebalance_timeout),
                protocols: migrant.protocols,
                assignment: migrant.assignment,
                join: None,
                sync: None,
                is_new: false,
                id_is_known: true,
            };
            group.roster.add(seat, member);
            group.restart_session(now, seat);
        }
        if !group.roster.is_empty() {
            group.protocol_name = group.roster.select_protocol();
            group.state = GroupState::Stable;
            group.prepare_rebalance(now, Cause::Downgraded);
        }
        group
    }
}
