//! Any schedule of clients, well-behaved or not: the invariants of `World::settle` hold after every
//! step, and when the noise ends the group comes to rest with everybody in it.

use std::time::Duration;

use proptest::prelude::*;

use super::world::*;
use crate::classic::*;

const CLIENTS: usize = 6;

#[derive(Clone, Debug)]
enum Op {
    /// The client does what its phase asks for.
    Next(usize),
    /// It joins with its id, or as somebody new, whatever its phase.
    Join(usize, bool),
    /// It changes what it offers and joins.
    Change(usize, usize),
    /// It syncs with the generation it knows plus this.
    Sync(usize, i32),
    Heartbeat(usize, i32),
    Commit(usize, i32),
    Leave(usize),
    /// The connection of its parked call dies.
    Disconnect(usize),
    Advance(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let client = 0..CLIENTS;
    prop_oneof![
        8 => client.clone().prop_map(Op::Next),
        3 => (client.clone(), any::<bool>()).prop_map(|(c, fresh)| Op::Join(c, fresh)),
        1 => (client.clone(), 0..OFFERS.len()).prop_map(|(c, offer)| Op::Change(c, offer)),
        2 => (client.clone(), -1..2_i32).prop_map(|(c, off)| Op::Sync(c, off)),
        1 => (client.clone(), -1..2_i32).prop_map(|(c, off)| Op::Heartbeat(c, off)),
        1 => (client.clone(), -1..2_i32).prop_map(|(c, off)| Op::Commit(c, off)),
        1 => client.clone().prop_map(Op::Leave),
        1 => client.prop_map(Op::Disconnect),
        4 => prop_oneof![0..3_u64, 0..5_000_u64, 0..400_000_u64].prop_map(Op::Advance),
    ]
}

/// All but the last hold "range", so that everybody fits in the end.
const OFFERS: [&[&str]; 4] = [
    &["range"],
    &["sticky", "range"],
    &["range", "sticky"],
    &["alien"],
];

#[derive(Debug)]
enum Phase {
    Out,
    Joining(CallToken),
    Joined(Joined),
    Syncing(CallToken, Joined),
    Member(Joined),
    Fenced,
}

#[derive(Debug)]
struct Client {
    request: JoinRequest,
    id: MemberId,
    phase: Phase,
}

impl Client {
    /// Two share an instance id, one is static alone, two are dynamic, one is old.
    fn new(n: usize) -> Self {
        let request = match n {
            0 | 1 => static_consumer("shared"),
            2 => static_consumer("alone"),
            3 => old_consumer("old"),
            _ => consumer("dynamic"),
        };
        let seconds = 10 + 7 * n as u64;
        let request = JoinRequest {
            rebalance_timeout: secs(seconds),
            session_timeout: secs(6 + seconds),
            ..request
        };
        let (id, phase) = (MemberId::unknown(), Phase::Out);
        Self { request, id, phase }
    }

    fn token(&self) -> Option<CallToken> {
        match self.phase {
            Phase::Joining(token) | Phase::Syncing(token, _) => Some(token),
            _ => None,
        }
    }

    fn as_member(&self, generation_offset: i32) -> MemberRef {
        let generation_id = match &self.phase {
            Phase::Joined(joined) | Phase::Syncing(_, joined) | Phase::Member(joined) => {
                GenerationId(joined.generation_id.0 + generation_offset)
            }
            _ => GenerationId(generation_offset),
        };
        MemberRef {
            member_id: self.id.clone(),
            instance_id: self.request.instance_id.clone(),
            generation_id,
        }
    }

    fn fail(&mut self, error: GroupError) {
        if matches!(
            error,
            GroupError::UnknownMemberId | GroupError::GroupMaxSizeReached
        ) {
            self.id = MemberId::unknown();
        }
        self.phase = match error {
            GroupError::FencedInstanceId => Phase::Fenced,
            _ => Phase::Out,
        };
    }

    /// Takes in the answer of its parked call.
    fn hear(&mut self, world: &mut World) {
        match std::mem::replace(&mut self.phase, Phase::Out) {
            Phase::Joining(token) if !world.is_parked(token) => match world.take_join(token) {
                Ok(joined) => {
                    assert!(self.id.is_unknown() || self.id == joined.member_id);
                    assert!(joined.protocol_name.is_some());
                    self.id = joined.member_id.clone();
                    self.phase = Phase::Joined(joined);
                }
                Err(refusal) => {
                    self.fail(refusal.error);
                    if refusal.error == GroupError::MemberIdRequired {
                        self.id = refusal.member_id;
                    }
                }
            },
            Phase::Syncing(token, joined) if !world.is_parked(token) => match world.synced(token) {
                Ok(synced) => {
                    let expected = format!("{}@{}", joined.member_id, joined.generation_id);
                    let got = std::str::from_utf8(&synced.assignment).unwrap();
                    // Nobody ever gets what another member or generation was assigned. A static
                    // member that came back has what its former id was assigned.
                    let own = got.is_empty() || got == expected;
                    assert!(
                        own || self.request.instance_id.is_some(),
                        "{got} for {expected}"
                    );
                    assert!(got.is_empty() || got.ends_with(&format!("@{}", joined.generation_id)));
                    self.phase = Phase::Member(joined);
                }
                Err(error) => self.fail(error),
            },
            phase => self.phase = phase,
        }
    }

    fn join(&mut self, world: &mut World) {
        let token = world.join(rejoin(&self.request, &self.id));
        self.phase = Phase::Joining(token);
        self.hear(world);
    }

    fn sync(&mut self, world: &mut World, joined: Joined, generation_offset: i32) {
        let named: Vec<(MemberId, String)> = joined
            .members
            .iter()
            .map(|entry| entry.member_id.clone())
            .map(|id| {
                let assignment = format!("{id}@{}", joined.generation_id);
                (id, assignment)
            })
            .collect();
        let assignments: Vec<(&MemberId, &str)> =
            named.iter().map(|(id, text)| (id, text.as_str())).collect();
        let mut member = self.as_member(0);
        member.generation_id = GenerationId(joined.generation_id.0 + generation_offset);
        let skip = joined.skip_assignment;
        let token = world.sync_as(member, if skip { &[] } else { &assignments });
        self.phase = Phase::Syncing(token, joined);
        self.hear(world);
    }

    /// A process that offers what nobody else does is restarted with what fits.
    fn make_fit(&mut self, world: &mut World) {
        if self.request.protocols != offers(OFFERS[3]) {
            return;
        }
        if let Some(token) = self.token() {
            world.abandon(token);
        }
        world.leave(&[leaving(&self.id)]);
        self.id = MemberId::unknown();
        self.phase = Phase::Out;
        self.request.protocols = offers(OFFERS[0]);
    }

    fn next(&mut self, world: &mut World) {
        self.hear(world);
        match std::mem::replace(&mut self.phase, Phase::Out) {
            Phase::Out => self.join(world),
            Phase::Joined(joined) => self.sync(world, joined, 0),
            Phase::Member(joined) => {
                self.phase = Phase::Member(joined);
                let member = self.as_member(0);
                let answer = world.group.handle_heartbeat(world.now, &member);
                world.settle();
                if let Err(error) = answer {
                    self.fail(error);
                }
            }
            phase => self.phase = phase,
        }
    }

    fn act(&mut self, world: &mut World, op: &Op) {
        self.hear(world);
        // A client waits for its call before it makes another; only its connection can end that.
        if self.token().is_some() && !matches!(op, Op::Disconnect(_)) {
            return;
        }
        match *op {
            Op::Next(_) => self.next(world),
            Op::Join(_, fresh) => {
                if fresh {
                    self.id = MemberId::unknown();
                }
                self.join(world);
            }
            Op::Change(_, offer) => {
                self.request.protocols = offers(OFFERS[offer]);
                self.join(world);
            }
            Op::Sync(_, offset) => {
                if let Phase::Joined(joined) | Phase::Member(joined) =
                    std::mem::replace(&mut self.phase, Phase::Out)
                {
                    self.sync(world, joined, offset);
                }
            }
            Op::Heartbeat(_, offset) => {
                let member = self.as_member(offset);
                let _ = world.group.handle_heartbeat(world.now, &member);
                world.settle();
            }
            Op::Commit(_, offset) => {
                let member = self.as_member(offset);
                let now = world.now;
                let before = world.group.state();
                let answer = world.group.validate_offset_commit(now, &member, false);
                world.settle();
                if before == GroupState::CompletingRebalance {
                    assert!(answer.is_err());
                }
            }
            Op::Leave(_) => {
                let mut member = leaving(&self.id);
                member.instance_id = self.request.instance_id.clone();
                world.leave(&[member]);
                self.phase = Phase::Out;
            }
            Op::Disconnect(_) => {
                if let Some(token) = self.token() {
                    world.abandon(token);
                    self.phase = Phase::Out;
                }
            }
            Op::Advance(_) => {}
        }
    }
}

fn run(ops: &[Op], settings: Settings) -> (World, Vec<Client>) {
    let mut world = World::with(settings);
    let mut clients: Vec<Client> = (0..CLIENTS).map(Client::new).collect();
    for op in ops {
        let before = world.group.generation_id();
        match *op {
            Op::Advance(ms) => world.advance(Duration::from_millis(ms)),
            Op::Next(c)
            | Op::Join(c, _)
            | Op::Change(c, _)
            | Op::Sync(c, _)
            | Op::Heartbeat(c, _)
            | Op::Commit(c, _)
            | Op::Leave(c)
            | Op::Disconnect(c) => clients[c].act(&mut world, op),
        }
        assert!(
            world.group.generation_id() >= before,
            "generations only grow"
        );
        for client in &mut clients {
            client.hear(&mut world);
        }
    }
    (world, clients)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn when_the_noise_ends_everybody_is_in_one_stable_generation(
        ops in proptest::collection::vec(op(), 0..120),
    ) {
        let (mut world, mut clients) = run(&ops, Settings::default());
        for client in &mut clients {
            client.make_fit(&mut world);
        }
        for _ in 0..700 {
            for client in &mut clients {
                client.next(&mut world);
            }
            world.advance(secs(1));
        }
        prop_assert_eq!(world.group.state(), GroupState::Stable);
        let mut leaders = 0;
        let alive = clients.iter().filter(|client| !matches!(client.phase, Phase::Fenced));
        for client in alive.clone() {
            let Phase::Member(joined) = &client.phase else {
                panic!("{client:?} is not in {world:?}")
            };
            prop_assert_eq!(joined.generation_id, world.group.generation_id());
            leaders += usize::from(joined.leader == joined.member_id);
        }
        prop_assert_eq!(world.group.members(), alive.count());
        prop_assert!(leaders <= 1);
    }

    #[test]
    fn when_everybody_falls_silent_the_group_ends_empty_and_forgets(
        ops in proptest::collection::vec(op(), 0..120),
    ) {
        let (mut world, clients) = run(&ops, Settings::default());
        for client in clients {
            if let Some(token) = client.token() {
                world.abandon(token);
            }
        }
        world.advance(secs(3600));
        prop_assert_eq!(world.group.state(), GroupState::Empty);
        prop_assert!(world.group.is_idle());
        prop_assert_eq!(world.group.next_deadline(), None);
    }

    #[test]
    fn a_small_group_never_outgrows_its_bounds(
        ops in proptest::collection::vec(op(), 0..120),
    ) {
        let settings = Settings {
            max_size: 3,
            max_metadata_bytes: 2200,
            max_assignment_bytes: 100,
            initial_rebalance_delay: Duration::ZERO,
            ..Settings::default()
        };
        run(&ops, settings);
    }

    #[test]
    fn a_stop_leaves_no_call_parked(ops in proptest::collection::vec(op(), 0..120)) {
        let (mut world, mut clients) = run(&ops, Settings::default());
        world.group.handle_stop(world.now);
        world.settle();
        prop_assert_eq!(world.group.parked_calls(), 0);
        prop_assert_eq!(world.group.next_deadline(), None);
        for client in &mut clients {
            client.next(&mut world);
        }
        prop_assert_eq!(world.group.parked_calls(), 0);
    }
}
