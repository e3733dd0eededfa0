//! One group, a clock that only the test moves, and the topics there are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use host::Monotonic;
use uuid::Uuid;

use crate::classic::{
    self, GenerationId, GroupError, InstanceId, JoinRequest, Joined, MemberId, MemberRef,
    Protocols, SyncRequest, subscription,
};
use crate::consumer::*;

pub(super) const REBALANCE: Duration = Duration::from_secs(60);
pub(super) const SESSION: Duration = Duration::from_secs(45);

pub(super) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(super) fn id(name: &str) -> MemberId {
    MemberId::new(name)
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) group: ConsumerGroup,
    pub(super) now: Monotonic,
    pub(super) topics: BTreeMap<Arc<str>, Topic>,
    image: Arc<Topics>,
    next_topic: u128,
    /// Whether the topics can be read.
    pub(super) readable: bool,
    pub(super) notes: Vec<Note>,
}

/// A first heartbeat.
pub(super) fn joining(name: &str, topics: &[&str]) -> HeartbeatRequest {
    HeartbeatRequest {
        member_id: id(name),
        member_epoch: Epoch::JOIN,
        instance_id: None,
        rack_id: None,
        client_id: "client".into(),
        client_host: "/127.0.0.1".into(),
        rebalance_timeout: Some(REBALANCE),
        subscribed_topic_names: Some(topics.iter().map(|&name| name.into()).collect()),
        subscribed_topic_regex: None,
        server_assignor: None,
        owned: Some(Partitions::new()),
        member_id_required: true,
        random: [7; 16],
    }
}

pub(super) fn joining_by(name: &str, pattern: &str) -> HeartbeatRequest {
    HeartbeatRequest {
        subscribed_topic_names: None,
        subscribed_topic_regex: Some(pattern.into()),
        ..joining(name, &[])
    }
}

/// A heartbeat with nothing new but what is owned.
pub(super) fn beat(name: &str, epoch: i32, owned: Option<&Partitions>) -> HeartbeatRequest {
    HeartbeatRequest {
        member_epoch: Epoch(epoch),
        rebalance_timeout: None,
        subscribed_topic_names: None,
        owned: owned.cloned(),
        ..joining(name, &[])
    }
}

pub(super) fn as_static(request: HeartbeatRequest, instance: &str) -> HeartbeatRequest {
    HeartbeatRequest {
        instance_id: Some(InstanceId::new(instance)),
        ..request
    }
}

/// A `ConsumerProtocolSubscription` of version 1.
pub(super) fn metadata(topics: &[&str], owned: &[(&str, Vec<i32>)]) -> Vec<u8> {
    let mut bytes = 1_i16.to_be_bytes().to_vec();
    bytes.extend((topics.len() as i32).to_be_bytes());
    for topic in topics {
        bytes.extend((topic.len() as i16).to_be_bytes());
        bytes.extend(topic.as_bytes());
    }
    bytes.extend((-1_i32).to_be_bytes());
    // The partitions of an assignment, without its version and user data, have the same form.
    let assignment = subscription::encode_assignment(1, owned);
    bytes.extend(&assignment[2..assignment.len() - 4]);
    bytes
}

pub(super) fn classic_join(name: &str, topics: &[&str], owned: &[(&str, Vec<i32>)]) -> JoinRequest {
    let metadata = metadata(topics, owned);
    JoinRequest {
        member_id: id(name),
        instance_id: None,
        client_id: "classic".into(),
        client_host: "/127.0.0.1".into(),
        session_timeout: SESSION,
        rebalance_timeout: REBALANCE,
        protocol_type: "consumer".into(),
        protocols: Protocols::copy_of([("cooperative-sticky", &*metadata)]),
        require_known_member_id: true,
        supports_skip_assignment: true,
        reason: None,
        random: [9; 16],
    }
}

pub(super) fn member_ref(name: &str, generation: i32) -> MemberRef {
    MemberRef {
        member_id: id(name),
        instance_id: None,
        generation_id: GenerationId(generation),
    }
}

pub(super) fn sync(name: &str, generation: i32) -> SyncRequest {
    SyncRequest {
        member: member_ref(name, generation),
        protocol_type: None,
        protocol_name: None,
        assignments: Vec::new(),
    }
}

impl World {
    pub(super) fn new(topics: &[(&str, i32)]) -> Self {
        Self::with(Settings::default(), topics)
    }

    pub(super) fn with(settings: Settings, topics: &[(&str, i32)]) -> Self {
        let mut world = Self {
            group: ConsumerGroup::new(settings, classic::Settings::default()),
            now: Monotonic::default(),
            topics: BTreeMap::new(),
            image: Arc::default(),
            next_topic: 1,
            readable: true,
            notes: Vec::new(),
        };
        for &(name, width) in topics {
            world.create(name, width);
        }
        world
    }

    pub(super) fn create(&mut self, name: &str, partitions: i32) {
        let id = Uuid::from_u128(self.next_topic);
        self.next_topic += 1;
        self.topics.insert(name.into(), Topic { id, partitions });
        self.look();
    }

    pub(super) fn widen(&mut self, name: &str, partitions: i32) {
        self.topics.get_mut(name).unwrap().partitions = partitions;
        self.look();
    }

    pub(super) fn delete(&mut self, name: &str) {
        self.topics.remove(name);
        self.look();
    }

    /// Another reading of the topics.
    pub(super) fn look(&mut self) {
        let topics = self
            .topics
            .iter()
            .map(|(name, topic)| (Arc::clone(name), *topic));
        self.image = Arc::new(Topics::new(topics));
    }

    pub(super) fn image(&self) -> Option<Arc<Topics>> {
        self.readable.then(|| Arc::clone(&self.image))
    }

    pub(super) fn partitions(
        &self,
        topic: &str,
        numbers: impl IntoIterator<Item = i32>,
    ) -> Partitions {
        let id = self.topics[topic].id;
        numbers
            .into_iter()
            .map(|n| TopicPartition::new(id, n))
            .collect()
    }

    pub(super) fn settle(&mut self) {
        while let Some(note) = self.group.poll_note() {
            self.notes.push(note);
        }
        self.group.check();
    }

    pub(super) fn advance(&mut self, by: Duration) {
        self.now = self.now + by;
        self.group.handle_timeout(self.now);
        self.settle();
    }

    pub(super) fn heartbeat(
        &mut self,
        request: &HeartbeatRequest,
    ) -> Result<HeartbeatResponse, Error> {
        let image = self.image();
        let answer = self
            .group
            .handle_heartbeat(self.now, request, image.as_ref());
        self.settle();
        answer
    }

    pub(super) fn beat(&mut self, name: &str, epoch: i32, owned: &Partitions) -> HeartbeatResponse {
        self.heartbeat(&beat(name, epoch, Some(owned))).unwrap()
    }

    pub(super) fn join(&mut self, request: JoinRequest) -> Result<Joined, GroupError> {
        let image = self.image();
        let answer = self.group.handle_join(self.now, request, image.as_ref());
        self.settle();
        answer.map_err(|refusal| refusal.error)
    }

    /// What a SyncGroup gives, by topic name.
    pub(super) fn sync(
        &mut self,
        name: &str,
        generation: i32,
    ) -> Result<Vec<(String, Vec<i32>)>, GroupError> {
        let synced = self.group.handle_sync(self.now, &sync(name, generation));
        self.settle();
        let bytes = synced?.assignment;
        let named = subscription::assignment(&bytes).unwrap();
        Ok(named
            .into_iter()
            .map(|(name, numbers)| (name.to_owned(), numbers))
            .collect())
    }

    pub(super) fn classic_beat(&mut self, name: &str, generation: i32) -> Result<(), GroupError> {
        let image = self.image();
        let member = member_ref(name, generation);
        let answer = self
            .group
            .handle_classic_heartbeat(self.now, &member, image.as_ref());
        self.settle();
        answer
    }

    /// Every subscribed topic's partitions.
    pub(super) fn all(&self, names: &BTreeSet<Arc<str>>) -> Partitions {
        let known = names.iter().filter_map(|name| self.topics.get(name));
        known
            .flat_map(|topic| (0..topic.partitions).map(|n| TopicPartition::new(topic.id, n)))
            .collect()
    }
}
