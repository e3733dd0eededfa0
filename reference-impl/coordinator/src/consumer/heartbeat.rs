//! ConsumerGroupHeartbeat: join, carry on, leave.

use std::sync::Arc;

use host::Monotonic;

use crate::classic::MemberId;

use super::error::Error;
use super::events::{Cause, HeartbeatRequest, HeartbeatResponse};
use super::group::{ConsumerGroup, Timer};
use super::ids::{Epoch, Partitions};
use super::member::Member;
use super::regex;
use super::topics::Topics;

/// Which member a join or heartbeat is about.
pub(super) enum Place {
    /// One that is there, under its own id.
    Known(MemberId),
    /// One that is not there yet.
    New(MemberId),
    /// Another process of a static member that is there.
    Replaces {
        /// Who has the place.
        old: MemberId,
        /// Who gets it.
        new: MemberId,
    },
}

impl Place {
    pub(super) fn id(&self) -> &MemberId {
        match self {
            Self::Known(id) | Self::New(id) | Self::Replaces { new: id, .. } => id,
        }
    }
}

impl ConsumerGroup {
    /// A ConsumerGroupHeartbeat request. `topics` are those of the group's tenant, `None` when they
    /// can't be read now: then the group keeps to what it knew.
    ///
    /// A member that joins is new, or rejoins with nothing, whatever the group knew it to own.
    ///
    /// # Errors
    ///
    /// Those of [`HeartbeatRequest::validate`]; `UnknownMemberId`, `FencedMemberEpoch`,
    /// `FencedInstanceId`, `UnreleasedInstanceId`, `GroupMaxSizeReached`, `CoordinatorNotAvailable`
    /// (stopping, deleted). The group is then as it was.
    pub fn handle_heartbeat(
        &mut self,
        now: Monotonic,
        request: &HeartbeatRequest,
        topics: Option<&Arc<Topics>>,
    ) -> Result<HeartbeatResponse, Error> {
        request.validate()?;
        if self.deleted {
            return Err(Error::CoordinatorNotAvailable);
        }
        if request.member_epoch < Epoch::JOIN {
            return self.leave(request);
        }
        if self.stopping {
            return Err(Error::CoordinatorNotAvailable);
        }
        let place = self.place(request)?;
        let updated = self.updated(&place, request)?;
        let id = place.id().clone();
        let mut subscribed = None;
        if let Some(member) = updated {
            subscribed = self.apply(place, member);
        }
        let session = now + self.settings.session_timeout;
        self.set_timer(Timer::Session(id.clone()), session);
        let subscription_changed = subscribed.is_some();
        self.move_on(now, subscribed, topics);
        let changed = self.reconcile(now, &id, request.owned.as_ref(), subscription_changed);
        self.refresh_state();
        let Some(member) = self.members.get(&id) else {
            return Err(Error::UnknownMemberId);
        };
        let tell = changed || request.member_epoch == Epoch::JOIN || request.is_full();
        Ok(HeartbeatResponse {
            member_epoch: member.epoch,
            heartbeat_interval: self.settings.heartbeat_interval,
            assignment: tell.then(|| member.assigned.keys().copied().collect()),
            member_id: id,
        })
    }

    /// Bumps the epoch when a subscription or the topics changed, and computes the next assignment.
    pub(super) fn move_on(
        &mut self,
        now: Monotonic,
        subscribed: Option<Cause>,
        topics: Option<&Arc<Topics>>,
    ) {
        let interval = self.settings.pattern_refresh_interval;
        let topics_changed = self.subscriptions.observe(now, topics, interval);
        if let Some(cause) = subscribed {
            self.bump(cause);
        } else if topics_changed {
            self.bump(Cause::TopicsChanged);
        }
        self.update_targets();
    }

    fn place(&self, request: &HeartbeatRequest) -> Result<Place, Error> {
        let joins = request.member_epoch == Epoch::JOIN;
        let id = if request.member_id.is_unknown() {
            MemberId::mint(&request.client_id, request.random)
        } else {
            request.member_id.clone()
        };
        let holder = match &request.instance_id {
            None => None,
            Some(instance_id) => match self.instances.get(instance_id) {
                None if joins => None,
                None => return Err(Error::UnknownMemberId),
                Some(holder) => Some(holder),
            },
        };
        match holder {
            Some(holder) if *holder != id => {
                if !joins {
                    return Err(Error::FencedInstanceId);
                }
                let replaceable = self.members.get(holder).is_none_or(|member| {
                    member.epoch == Epoch::LEAVE_STATIC || member.classic.is_some()
                });
                if !replaceable || self.members.contains_key(&id) {
                    return Err(Error::UnreleasedInstanceId);
                }
                Ok(Place::Replaces {
                    old: holder.clone(),
                    new: id,
                })
            }
            _ => match self.members.get(&id) {
                Some(member) => {
                    check_epoch(member, request)?;
                    Ok(Place::Known(id))
                }
                None if joins => Ok(Place::New(id)),
                None => Err(Error::UnknownMemberId),
            },
        }
    }

    /// Who is at a place now.
    pub(super) fn member_at(&self, place: &Place) -> Option<&Member> {
        match place {
            Place::Known(id) | Place::Replaces { old: id, .. } => self.members.get(id),
            Place::New(_) => None,
        }
    }

    /// The member as the request wants it; `None` when nothing changes.
    fn updated(&self, place: &Place, request: &HeartbeatRequest) -> Result<Option<Member>, Error> {
        let known = self.member_at(place);
        if let Place::New(_) = place
            && self.members.len() >= self.settings.max_size
        {
            return Err(Error::GroupMaxSizeReached);
        }
        let says_nothing = request.rebalance_timeout.is_none()
            && request.subscribed_topic_names.is_none()
            && request.subscribed_topic_regex.is_none()
            && request.server_assignor.is_none()
            && request.rack_id.is_none();
        if let (Place::Known(_), Some(member)) = (place, known)
            && says_nothing
            && member.classic.is_none()
        {
            return Ok(None);
        }
        let (client_id, client_host) = (&request.client_id, &request.client_host);
        let new = || Member::new(Arc::clone(client_id), Arc::clone(client_host));
        let mut member = known.cloned().unwrap_or_else(new);
        member.client_id = Arc::clone(client_id);
        member.client_host = Arc::clone(client_host);
        member.classic = None;
        if let Some(instance_id) = &request.instance_id {
            member.instance_id = Some(instance_id.clone());
        }
        if let Some(rack_id) = &request.rack_id {
            member.rack_id = Some(Arc::clone(rack_id));
        }
        if let Some(timeout) = request.rebalance_timeout {
            member.rebalance_timeout = self.clamp_rebalance_timeout(timeout);
        }
        if let Some(assignor) = &request.server_assignor {
            member.server_assignor = Some(Arc::clone(assignor));
        }
        if let Some(names) = &request.subscribed_topic_names
            && *names != *member.subscribed_topic_names
        {
            member.subscribed_topic_names = Arc::new(names.clone());
        }
        if let Some(pattern) = &request.subscribed_topic_regex {
            member.subscribed_topic_regex = (!pattern.is_empty()).then(|| Arc::clone(pattern));
        }
        self.check_room(place, known, &member)?;
        Ok(Some(member))
    }

    /// Whether the group may hold `member` in place of `known`.
    pub(super) fn check_room(
        &self,
        place: &Place,
        known: Option<&Member>,
        member: &Member,
    ) -> Result<(), Error> {
        let old_id = match place {
            Place::Replaces { old, .. } => old,
            Place::Known(id) | Place::New(id) => id,
        };
        let held = self.metadata_bytes - known.map_or(0, |known| Self::weight(old_id, known));
        let asked = Self::weight(place.id(), member);
        if held.saturating_add(asked) > self.settings.max_metadata_bytes {
            return Err(Error::GroupMaxSizeReached);
        }
        if let Some(pattern) = &member.subscribed_topic_regex
            && !self.subscriptions.has_pattern(pattern)
        {
            regex::compile(pattern)?;
            if self.subscriptions.patterns() >= self.settings.max_patterns {
                return Err(Error::GroupMaxSizeReached);
            }
        }
        Ok(())
    }

    /// Puts the member in; says why the group needs another assignment, if it does.
    pub(super) fn apply(&mut self, place: Place, mut member: Member) -> Option<Cause> {
        let is_new = matches!(place, Place::New(_));
        if let Place::Replaces { old, new } = &place {
            self.replace_static(old, new);
        }
        let id = place.id().clone();
        let before = self.take(&id);
        if let Some(before) = &before {
            // What the replacement of a static member reset.
            member.epoch = before.epoch;
            member.previous_epoch = before.previous_epoch;
        }
        let same = before.as_ref().is_some_and(|before| {
            before.subscribed_topic_names == member.subscribed_topic_names
                && before.subscribed_topic_regex == member.subscribed_topic_regex
        });
        let unseen = member
            .subscribed_topic_regex
            .clone()
            .filter(|pattern| !self.subscriptions.has_pattern(pattern));
        self.put(id.clone(), member);
        if let Some(pattern) = unseen {
            // `check_room` has compiled it.
            let _ = self.subscriptions.resolve(&pattern);
        }
        if same && !is_new {
            return None;
        }
        self.subscriptions.settle();
        Some(if is_new {
            Cause::NewMember(id)
        } else {
            Cause::Subscribed(id)
        })
    }

    fn leave(&mut self, request: &HeartbeatRequest) -> Result<HeartbeatResponse, Error> {
        let id = &request.member_id;
        match &request.instance_id {
            None if self.members.contains_key(id) => {}
            None => return Err(Error::UnknownMemberId),
            Some(instance_id) => match self.instances.get(instance_id) {
                None => return Err(Error::UnknownMemberId),
                Some(holder) if holder != id => return Err(Error::FencedInstanceId),
                Some(_) => {}
            },
        }
        if request.member_epoch == Epoch::LEAVE_STATIC {
            self.leave_for_a_while(id);
        } else {
            let cause = Cause::Left(id.clone(), None);
            self.fence(&[(id.clone(), cause)]);
        }
        Ok(HeartbeatResponse {
            member_id: id.clone(),
            member_epoch: request.member_epoch,
            heartbeat_interval: std::time::Duration::ZERO,
            assignment: None,
        })
    }

    /// A static member goes and will come back: its session keeps running, and what it was giving up
    /// is free.
    fn leave_for_a_while(&mut self, id: &MemberId) {
        if let Some(member) = self.members.get_mut(id) {
            member.epoch = Epoch::LEAVE_STATIC;
            self.touched = true;
            for partition in std::mem::take(&mut member.revoking).into_keys() {
                self.owners.remove(&partition);
            }
        }
        self.timers.cancel(Timer::Rebalance(id.clone()));
        self.refresh_state();
    }
}

/// A member is at the epoch it says, or at the one before when the answer that moved it was lost. One
/// that joins again has given up everything.
fn check_epoch(member: &Member, request: &HeartbeatRequest) -> Result<(), Error> {
    let received = request.member_epoch;
    if received == Epoch::JOIN || received == member.epoch {
        return Ok(());
    }
    let owns_no_more = |owned: &Partitions| {
        let assigned = |partition| member.assigned.contains_key(partition);
        owned.iter().all(assigned)
    };
    let answer_was_lost = received == member.previous_epoch
        && received < member.epoch
        && request.owned.as_ref().is_some_and(owns_no_more);
    if answer_was_lost {
        return Ok(());
    }
    Err(Error::FencedMemberEpoch {
        received,
        known: member.epoch,
    })
}
