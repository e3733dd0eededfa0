//! The members of a group and what must stay true about them as they come, change and go: the index
//! by id and by instance, how many support each protocol, who leads, whose join is parked.
//!
//! Every method but the iterators costs O(log members + protocols of the member).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::events::Protocols;
use super::ids::{CallToken, InstanceId, MemberId, Seat};
use super::member::Member;

#[derive(Debug, Default)]
pub(super) struct Roster {
    members: BTreeMap<Seat, Member>,
    seats: BTreeMap<MemberId, Seat>,
    instances: BTreeMap<InstanceId, Seat>,
    /// How many members offer each protocol.
    supporters: BTreeMap<Arc<str>, usize>,
    leader: Option<Seat>,
    joins_parked: usize,
    metadata_bytes: usize,
}

impl Roster {
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(super) fn joins_parked(&self) -> usize {
        self.joins_parked
    }

    pub(super) fn metadata_bytes(&self) -> usize {
        self.metadata_bytes
    }

    /// In order of joining.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Seat, &Member)> {
        self.members.iter().map(|(&seat, member)| (seat, member))
    }

    /// In order of joining. Not for joins, protocols or ids: those are indexed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (Seat, &mut Member)> {
        self.members
            .iter_mut()
            .map(|(&seat, member)| (seat, member))
    }

    pub(super) fn seat_of(&self, id: &MemberId) -> Option<Seat> {
        self.seats.get(id).copied()
    }

    pub(super) fn seat_of_instance(&self, instance: &InstanceId) -> Option<Seat> {
        self.instances.get(instance).copied()
    }

    pub(super) fn get(&self, seat: Seat) -> Option<&Member> {
        self.members.get(&seat)
    }

    /// Not for joins, protocols or ids: those are indexed.
    pub(super) fn get_mut(&mut self, seat: Seat) -> Option<&mut Member> {
        self.members.get_mut(&seat)
    }

    /// Adds a member without parked calls. The first one leads.
    pub(super) fn add(&mut self, seat: Seat, member: Member) {
        self.seats.insert(member.id.clone(), seat);
        if let Some(instance) = &member.instance_id {
            self.instances.insert(instance.clone(), seat);
        }
        self.metadata_bytes += member.metadata_bytes();
        self.support(&member.protocols);
        self.leader.get_or_insert(seat);
        self.members.insert(seat, member);
    }

    /// Removes a member. When it led, the longest member leads.
    pub(super) fn remove(&mut self, seat: Seat) -> Option<Member> {
        let member = self.members.remove(&seat)?;
        self.seats.remove(&member.id);
        if let Some(instance) = &member.instance_id {
            self.instances.remove(instance);
        }
        self.metadata_bytes -= member.metadata_bytes();
        self.unsupport(&member.protocols);
        self.joins_parked -= usize::from(member.join.is_some());
        if self.leader == Some(seat) {
            self.leader = self.members.keys().next().copied();
        }
        Some(member)
    }

    /// What a rejoin may change.
    pub(super) fn update(
        &mut self,
        seat: Seat,
        protocols: Protocols,
        session_timeout: Duration,
        rebalance_timeout: Duration,
    ) {
        let Some(member) = self.members.get_mut(&seat) else {
            return;
        };
        self.metadata_bytes -= member.metadata_bytes();
        let before = std::mem::replace(&mut member.protocols, protocols.clone());
        member.session_timeout = session_timeout;
        member.rebalance_timeout = rebalance_timeout;
        self.metadata_bytes += member.metadata_bytes();
        self.unsupport(&before);
        self.support(&protocols);
    }

    /// Gives the place of `seat` to another client (a static member that came back); returns the
    /// id that had it.
    pub(super) fn hand_over(
        &mut self,
        seat: Seat,
        id: MemberId,
        client_id: Arc<str>,
        client_host: Arc<str>,
    ) -> Option<MemberId> {
        let member = self.members.get_mut(&seat)?;
        self.metadata_bytes -= member.metadata_bytes();
        member.client_id = client_id;
        member.client_host = client_host;
        member.id_is_known = false;
        self.metadata_bytes += member.metadata_bytes();
        let old = std::mem::replace(&mut member.id, id.clone());
        self.seats.remove(&old);
        self.seats.insert(id, seat);
        Some(old)
    }

    /// Parks a join; returns the one it displaces.
    pub(super) fn park_join(&mut self, seat: Seat, token: CallToken) -> Option<CallToken> {
        let displaced = self.members.get_mut(&seat)?.join.replace(token);
        self.joins_parked += usize::from(displaced.is_none());
        displaced
    }

    /// Takes the parked join.
    pub(super) fn take_join(&mut self, seat: Seat) -> Option<CallToken> {
        let token = self.members.get_mut(&seat)?.join.take();
        self.joins_parked -= usize::from(token.is_some());
        token
    }

    pub(super) fn leader(&self) -> Option<Seat> {
        self.leader
    }

    pub(super) fn leader_id(&self) -> MemberId {
        self.leader
            .and_then(|seat| self.members.get(&seat))
            .map_or_else(MemberId::unknown, |member| member.id.clone())
    }

    /// Keeps the leader when its join is parked, else gives the lead to the longest member whose
    /// join is. False when there is none, and when there are no members.
    pub(super) fn elect_joined_leader(&mut self) -> bool {
        let joined = |member: &Member| member.join.is_some();
        let leader = self.leader.and_then(|seat| self.members.get(&seat));
        if leader.is_some_and(joined) {
            return true;
        }
        let next = self.members.iter().find(|(_, member)| joined(member));
        match next {
            Some((&seat, _)) => {
                self.leader = Some(seat);
                true
            }
            None => false,
        }
    }

    /// The largest rebalance timeout; zero without members.
    pub(super) fn rebalance_timeout(&self) -> Duration {
        self.members
            .values()
            .map(|member| member.rebalance_timeout)
            .max()
            .unwrap_or_default()
    }

    /// Whether every member supports one of `protocols`.
    pub(super) fn all_support_one_of(&self, protocols: &Protocols) -> bool {
        protocols.iter().any(|protocol| {
            let supporters = self.supporters.get(&*protocol.name).copied();
            supporters.unwrap_or_default() == self.members.len()
        })
    }

    /// Each member votes for the first protocol of its list that all support; most votes win, and
    /// of several the one that was voted for first.
    pub(super) fn select_protocol(&self) -> Option<Arc<str>> {
        let mut votes: BTreeMap<&str, usize> = self
            .supporters
            .iter()
            .filter(|&(_, &supporters)| supporters == self.members.len())
            .map(|(name, _)| (&**name, 0))
            .collect();
        let mut order: Vec<&Arc<str>> = Vec::new();
        for member in self.members.values() {
            let Some(name) = member.vote(&votes) else {
                continue;
            };
            if let Some(count) = votes.get_mut(&**name) {
                if *count == 0 {
                    order.push(name);
                }
                *count += 1;
            }
        }
        // `max_by_key` keeps the last of equals.
        order
            .into_iter()
            .rev()
            .max_by_key(|name| votes.get(&***name).copied())
            .cloned()
    }

    fn support(&mut self, protocols: &Protocols) {
        for protocol in protocols.iter() {
            *self.supporters.entry(protocol.name.clone()).or_default() += 1;
        }
    }

    fn unsupport(&mut self, protocols: &Protocols) {
        for protocol in protocols.iter() {
            if let Some(supporters) = self.supporters.get_mut(&*protocol.name) {
                *supporters -= 1;
                if *supporters == 0 {
                    self.supporters.remove(&*protocol.name);
                }
            }
        }
    }

    /// Panics when an index disagrees with the members. For tests.
    #[cfg(test)]
    pub(super) fn check(&self) {
        assert_eq!(self.seats.len(), self.members.len(), "each member once");
        let mut supporters: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for (seat, member) in &self.members {
            assert_eq!(self.seats.get(&member.id), Some(seat));
            if let Some(instance) = &member.instance_id {
                assert_eq!(self.instances.get(instance), Some(seat));
            }
            for protocol in member.protocols.iter() {
                *supporters.entry(protocol.name.clone()).or_default() += 1;
            }
        }
        let members = || self.members.values();
        assert_eq!(
            self.instances.len(),
            members().filter(|m| m.instance_id.is_some()).count()
        );
        assert_eq!(supporters, self.supporters);
        assert_eq!(
            self.joins_parked,
            members().filter(|m| m.join.is_some()).count()
        );
        assert_eq!(
            self.metadata_bytes,
            members().map(Member::metadata_bytes).sum::<usize>()
        );
        match self.leader {
            Some(leader) => assert!(self.members.contains_key(&leader), "the leader is a member"),
            None => assert!(self.members.is_empty(), "members have a leader"),
        }
    }
}
