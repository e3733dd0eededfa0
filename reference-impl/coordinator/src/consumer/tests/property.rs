//! Random lives of clients of both protocols. After every event nobody owns what somebody else may
//! still own; after quiet every partition has exactly one owner.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::world::*;
use crate::classic::{GroupError, InstanceId, MemberId};
use crate::consumer::*;

const CLIENTS: usize = 5;
const TOPICS: [&str; 3] = ["t-0", "t-1", "u"];

/// What a client process does and believes.
#[derive(Clone, Debug)]
struct Client {
    protocol: Protocol,
    /// New with each process.
    process: u32,
    in_group: bool,
    epoch: i32,
    owned: Partitions,
    /// What it was told to own last, not applied yet.
    told: Option<Partitions>,
    topics: Vec<usize>,
    pattern: bool,
    is_static: bool,
    says_all: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Protocol {
    Consumer,
    Cooperative,
    Eager,
}

#[derive(Clone, Debug)]
enum Op {
    /// Join, or carry on as a client of its protocol does.
    Step(usize),
    /// As `Step`, but the answer is lost.
    LostAnswer(usize),
    Leave(usize),
    /// The process dies without a word; a new one may come.
    Crash(usize),
    Subscribe(usize, Vec<usize>, bool),
    Reborn(usize, u8, bool),
    Widen(usize),
    Recreate(usize),
    Unreadable(bool),
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let client = 0..CLIENTS;
    let topics = proptest::collection::btree_set(0..TOPICS.len(), 0..=TOPICS.len())
        .prop_map(|set| set.into_iter().collect::<Vec<_>>());
    prop_oneof![
        12 => client.clone().prop_map(Op::Step),
        3 => client.clone().prop_map(Op::LostAnswer),
        2 => client.clone().prop_map(Op::Leave),
        1 => client.clone().prop_map(Op::Crash),
        2 => (client.clone(), topics, any::<bool>()).prop_map(|(c, t, p)| Op::Subscribe(c, t, p)),
        2 => (client, 0..3_u8, any::<bool>()).prop_map(|(c, p, s)| Op::Reborn(c, p, s)),
        1 => (0..TOPICS.len()).prop_map(Op::Widen),
        1 => (0..TOPICS.len()).prop_map(Op::Recreate),
        1 => any::<bool>().prop_map(Op::Unreadable),
        3 => prop_oneof![1..12_u64, 12..70_u64].prop_map(Op::Pass),
    ]
}

struct Life {
    world: World,
    clients: Vec<Client>,
}

impl Life {
    fn new() -> Self {
        let settings = Settings {
            pattern_refresh_interval: secs(3),
            ..Settings::default()
        };
        let client = Client {
            protocol: Protocol::Consumer,
            process: 0,
            in_group: false,
            epoch: 0,
            owned: Partitions::new(),
            told: None,
            topics: vec![0, 1],
            pattern: false,
            is_static: false,
            says_all: false,
        };
        Self {
            world: World::with(settings, &[("t-0", 3), ("t-1", 2), ("u", 4)]),
            clients: vec![client; CLIENTS],
        }
    }

    fn name(&self, c: usize) -> String {
        format!("c{c}-{}", self.clients[c].process)
    }

    fn topics(&self, c: usize) -> Vec<&'static str> {
        self.clients[c].topics.iter().map(|&n| TOPICS[n]).collect()
    }

    fn forget(&mut self, c: usize) {
        let client = &mut self.clients[c];
        client.in_group = false;
        client.epoch = 0;
        client.owned.clear();
        client.told = None;
        client.says_all = false;
    }

    fn step(&mut self, c: usize, lost: bool) {
        match self.clients[c].protocol {
            Protocol::Consumer => self.heartbeat(c, lost),
            Protocol::Cooperative | Protocol::Eager => self.classic_step(c, lost),
        }
    }

    fn request(&self, c: usize) -> HeartbeatRequest {
        let name = self.name(c);
        let client = &self.clients[c];
        let topics = self.topics(c);
        let mut request = joining(&name, &topics);
        request.subscribed_topic_regex = Some(if client.pattern { "t-.*" } else { "" }.into());
        request.member_epoch = Epoch(client.epoch);
        request.owned = Some(client.owned.clone());
        if client.epoch > 0 && !client.says_all {
            request = HeartbeatRequest {
                subscribed_topic_names: None,
                subscribed_topic_regex: None,
                rebalance_timeout: None,
                ..request
            };
        }
        if client.is_static {
            request.instance_id = Some(InstanceId::new(&format!("i{c}")));
        }
        request
    }

    fn heartbeat(&mut self, c: usize, lost: bool) {
        if let Some(told) = self.clients[c].told.take() {
            self.clients[c].owned = told;
        }
        let request = self.request(c);
        match self.world.heartbeat(&request) {
            Ok(_) if lost => self.clients[c].says_all = true,
            Ok(answer) => {
                let client = &mut self.clients[c];
                client.in_group = true;
                client.says_all = false;
                client.epoch = answer.member_epoch.0;
                // It gives up at once here, and says so with its next heartbeat.
                if let Some(assignment) = answer.assignment {
                    client.owned = client.owned.intersection(&assignment).copied().collect();
                    client.told = Some(assignment);
                }
            }
            Err(Error::UnreleasedInstanceId) => {}
            Err(
                Error::UnknownMemberId | Error::FencedMemberEpoch { .. } | Error::FencedInstanceId,
            ) => self.forget(c),
            Err(other) => panic!("{other:?} for {request:?}"),
        }
    }

    fn named(&self, partitions: &Partitions) -> Vec<(&'static str, Vec<i32>)> {
        let mut named: BTreeMap<&'static str, Vec<i32>> = BTreeMap::new();
        for partition in partitions {
            // Classic clients know names only: what a name means is what the group saw last.
            let known = self.world.group.subscriptions.topics();
            let name = known.and_then(|topics| topics.name(partition.topic));
            if let Some(name) = TOPICS
                .iter()
                .find(|topic| name.is_some_and(|n| **n == ***topic))
            {
                named.entry(name).or_default().push(partition.partition);
            }
        }
        named.into_iter().collect()
    }

    fn classic_step(&mut self, c: usize, lost: bool) {
        let name = self.name(c);
        if self.clients[c].in_group {
            let generation = self.clients[c].epoch;
            match self.world.classic_beat(&name, generation) {
                Ok(()) if !self.clients[c].says_all => return,
                // A classic client joins again to change its subscription.
                Ok(()) | Err(GroupError::RebalanceInProgress) => {}
                Err(_) => self.forget(c),
            }
        }
        if self.clients[c].protocol == Protocol::Eager {
            self.clients[c].owned.clear();
        }
        // Until nothing is left to give up, as a client does on its own.
        for _ in 0..2 {
            let owned = self.named(&self.clients[c].owned.clone());
            let mut request = classic_join(&name, &self.topics(c), &owned);
            if self.clients[c].is_static {
                request.instance_id = Some(InstanceId::new(&format!("i{c}")));
                if !self.clients[c].in_group {
                    request.member_id = MemberId::unknown();
                }
            }
            let joined = match self.world.join(request) {
                Ok(joined) => joined,
                Err(_) => return self.forget(c),
            };
            if self.clients[c].is_static && joined.member_id.as_str() != name {
                // Only the client of a static member gets its id from the group; the rest of this
                // model names clients, so it leaves the place to its session.
                return self.forget(c);
            }
            if lost {
                return;
            }
            let generation = joined.generation_id.0;
            self.clients[c].in_group = true;
            self.clients[c].says_all = false;
            self.clients[c].epoch = generation;
            let Ok(named) = self.world.sync(&name, generation) else {
                return;
            };
            let assigned: Partitions = named
                .iter()
                .flat_map(|(topic, numbers)| {
                    let topics = self.world.group.subscriptions.topics().unwrap();
                    let id = topics.get(topic).unwrap().id;
                    numbers
                        .iter()
                        .map(move |&number| TopicPartition::new(id, number))
                })
                .collect();
            let before = std::mem::replace(&mut self.clients[c].owned, assigned);
            if before.is_subset(&self.clients[c].owned) {
                return;
            }
        }
    }

    fn leave(&mut self, c: usize) {
        let name = self.name(c);
        if self.clients[c].in_group {
            let mut request = beat(&name, -1, None);
            if self.clients[c].is_static {
                request = as_static(request, &format!("i{c}"));
                request.member_epoch = Epoch::LEAVE_STATIC;
            }
            let _ = self.world.heartbeat(&request);
        }
        self.forget(c);
        self.clients[c].process += 1;
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Step(c) => self.step(c, false),
            Op::LostAnswer(c) => self.step(c, true),
            Op::Leave(c) => self.leave(c),
            Op::Crash(c) => {
                self.forget(c);
                self.clients[c].process += 1;
            }
            Op::Subscribe(c, topics, pattern) => {
                self.clients[c].topics = topics;
                self.clients[c].pattern = pattern;
                self.clients[c].says_all = true;
            }
            Op::Reborn(c, protocol, is_static) => {
                self.leave(c);
                self.clients[c].is_static = is_static;
                self.clients[c].protocol = match protocol {
                    0 => Protocol::Consumer,
                    1 => Protocol::Cooperative,
                    _ => Protocol::Eager,
                };
            }
            Op::Widen(n) => {
                let width = self.world.topics[TOPICS[n]].partitions;
                self.world.widen(TOPICS[n], (width + 1).min(8));
            }
            Op::Recreate(n) => {
                self.world.delete(TOPICS[n]);
                self.world.create(TOPICS[n], 3);
            }
            Op::Unreadable(unreadable) => self.world.readable = !unreadable,
            Op::Pass(seconds) => self.world.advance(secs(seconds)),
        }
        self.check_owners();
    }

    /// A client that the group still counts on owns no more than the group thinks.
    fn check_owners(&self) {
        for c in 0..CLIENTS {
            let client = &self.clients[c];
            let name = MemberId::new(&self.name(c));
            let Some(member) = self.world.group.members.get(&name) else {
                continue;
            };
            if !client.in_group || client.owned.is_empty() {
                continue;
            }
            // A partition of a topic that is gone can't be given to anybody.
            let topics = self.world.group.subscriptions.topics();
            let exists = |partition: &&TopicPartition| {
                topics.is_some_and(|topics| topics.name(partition.topic).is_some())
            };
            for partition in client.owned.iter().filter(exists) {
                assert!(
                    member.assignment_epoch(partition).is_some(),
                    "{name} owns {partition:?}, which the group may give away"
                );
            }
        }
    }

    /// Everybody who is there carries on until nothing changes.
    fn quiet(&mut self) {
        self.world.readable = true;
        let present: Vec<usize> = (0..CLIENTS).filter(|&c| self.clients[c].in_group).collect();
        for _ in 0..40 {
            self.world.advance(secs(3));
            for &c in &present {
                self.step(c, false);
                self.check_owners();
            }
        }
    }

    fn check_converged(&self) {
        let mut wanted: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut owned = Partitions::new();
        for (c, client) in self.clients.iter().enumerate() {
            if !client.in_group {
                continue;
            }
            let mut topics: BTreeSet<Arc<str>> =
                self.topics(c).into_iter().map(Into::into).collect();
            if client.pattern && client.protocol == Protocol::Consumer {
                topics.extend(["t-0".into(), "t-1".into()]);
            }
            let told = client.told.as_ref().unwrap_or(&client.owned);
            assert!(
                told.is_subset(&self.world.all(&topics)),
                "c{c} owns what it wants"
            );
            for partition in told {
                assert!(owned.insert(*partition), "{partition:?} has one owner");
            }
            wanted.extend(topics);
        }
        assert_eq!(
            owned,
            self.world.all(&wanted),
            "every partition has an owner"
        );
        let state = self.world.group.state();
        assert!(
            matches!(state, GroupState::Stable | GroupState::Empty),
            "{state:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn after_quiet_every_partition_has_exactly_one_owner(
        ops in proptest::collection::vec(op(), 0..80),
    ) {
        let mut life = Life::new();
        for op in ops {
            life.apply(op);
        }
        life.quiet();
        life.check_converged();
    }
}
