//! A live group changes its protocol (KIP-848).

use std::sync::Arc;

use host::Monotonic;

use crate::classic::migrate::Migrant;
use crate::classic::{self, ClassicGroup, GenerationId, Protocols, subscription};

use super::classic_side::by_id;
use super::error::Error;
use super::group::{ConsumerGroup, Timer};
use super::ids::{Epoch, Partitions};
use super::member::{ClassicSide, Member};
use super::settings::Settings;
use super::topics::Topics;

impl ConsumerGroup {
    /// The consumer group that `group` becomes when a member of the consumer protocol joins it: the
    /// same members with what they were assigned, at the epoch of its generation. `group` is left as
    /// it is; when the join is accepted, stop it (its waiting members then rejoin) and use this one.
    ///
    /// # Errors
    ///
    /// `GroupIdNotFound` when the policy, the protocol type, the size or unreadable metadata forbid
    /// it; `CoordinatorNotAvailable` when the topics can't be read now.
    pub fn of_classic(
        settings: Settings,
        classic: classic::Settings,
        now: Monotonic,
        group: &ClassicGroup,
        topics: Option<&Arc<Topics>>,
    ) -> Result<Self, Error> {
        if !settings.migration_policy.upgrades() {
            return Err(Error::GroupIdNotFound(
                "Cannot upgrade the classic group: online upgrade is disabled.",
            ));
        }
        if !group.has_consumers() {
            return Err(Error::GroupIdNotFound(
                "Cannot upgrade the classic group: it does not use the consumer embedded protocol.",
            ));
        }
        if group.members() > settings.max_size {
            return Err(Error::GroupIdNotFound(
                "Cannot upgrade the classic group: it exceeds the consumer group maximum size.",
            ));
        }
        let topics = topics.ok_or(Error::CoordinatorNotAvailable)?;
        let mut new = Self::new(settings, classic);
        new.group_epoch = Epoch(group.generation_id().0);
        new.assignment_epoch = new.group_epoch;
        new.subscriptions
            .observe(now, Some(topics), settings.pattern_refresh_interval);
        let protocol_name = group.protocol_name();
        for migrant in group.migrants() {
            new.admit(now, protocol_name.map(|name| &**name), topics, migrant)?;
        }
        new.subscriptions.settle();
        new.refresh_state();
        Ok(new)
    }

    fn admit(
        &mut self,
        now: Monotonic,
        protocol_name: Option<&str>,
        topics: &Topics,
        migrant: Migrant,
    ) -> Result<(), Error> {
        let malformed = || {
            Error::GroupIdNotFound(
                "Cannot upgrade the classic group: the embedded consumer protocol is malformed.",
            )
        };
        let offered = &migrant.protocols;
        let metadata = protocol_name
            .and_then(|name| offered.metadata_of(name))
            .or_else(|| first_metadata(offered))
            .ok_or_else(malformed)?;
        let subscription = subscription::subscription(metadata).map_err(|_| malformed())?;
        let named = match migrant.assignment.is_empty() {
            // Its leader has not assigned yet.
            true => Vec::new(),
            false => subscription::assignment(&migrant.assignment).map_err(|_| malformed())?,
        };
        let mut target: Partitions = by_id(topics, &named);
        // A leader may assign one partition twice; here it has one owner.
        target.retain(|partition| !self.owners.contains_key(partition));
        let epoch = self.group_epoch;
        let member = Member {
            instance_id: migrant.instance_id,
            rack_id: subscription.rack_id.map(Into::into),
            rebalance_timeout: self.clamp_rebalance_timeout(migrant.rebalance_timeout),
            subscribed_topic_names: Arc::new(
                subscription
                    .topics
                    .iter()
                    .map(|&name| name.into())
                    .collect(),
            ),
            epoch,
            previous_epoch: epoch,
            assigned: target.iter().map(|partition| (*partition, epoch)).collect(),
            classic: Some(ClassicSide {
                session_timeout: migrant.session_timeout,
                protocols: migrant.protocols.clone(),
            }),
            ..Member::new(migrant.client_id, migrant.client_host)
        };
        let session = Timer::Session(migrant.id.clone());
        self.set_timer(session, now + migrant.session_timeout);
        self.targets.insert(migrant.id.clone(), target);
        self.put(migrant.id, member);
        Ok(())
    }

    /// Whether only members of the classic protocol are left, and the group may become theirs again.
    /// Ask after every event.
    pub fn wants_downgrade(&self) -> bool {
        let classic = self.classic_members();
        !self.stopping
            && !self.deleted
            && classic > 0
            && classic == self.members.len()
            && classic <= self.classic.max_size
            && self.settings.migration_policy.downgrades()
    }

    /// The classic group that this one becomes. Its members are asked to rejoin.
    pub fn into_classic(self, now: Monotonic) -> ClassicGroup {
        let generation_id = GenerationId(self.group_epoch.0);
        let migrants = self.members.into_iter().filter_map(|(id, member)| {
            let classic = member.classic?;
            Some(Migrant {
                id,
                instance_id: member.instance_id,
                client_id: member.client_id,
                client_host: member.client_host,
                session_timeout: classic.session_timeout,
                rebalance_timeout: member.rebalance_timeout,
                protocols: classic.protocols,
                assignment: bytes::Bytes::new(),
            })
        });
        ClassicGroup::of_migrants(self.classic, now, generation_id, migrants)
    }
}

fn first_metadata(protocols: &Protocols) -> Option<&bytes::Bytes> {
    protocols.iter().next().map(|first| &first.metadata)
}
