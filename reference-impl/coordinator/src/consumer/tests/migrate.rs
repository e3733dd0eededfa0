//! A live group changes its protocol.

use std::sync::Arc;

use rstest::rstest;

use super::world::{World, beat, classic_join, id, joining};
use crate::classic::{
    self, CallToken, ClassicGroup, Effect, GroupState as ClassicState, Joined, MemberId, MemberRef,
    SyncRequest, subscription,
};
use crate::consumer::*;

/// A classic group of consumers `names`, stable; the first leads and gave each one partition of `t`.
fn classic_group(world: &World, names: &[&str]) -> (ClassicGroup, Vec<MemberId>) {
    let settings = classic::Settings {
        initial_rebalance_delay: std::time::Duration::ZERO,
        ..classic::Settings::default()
    };
    let mut group = ClassicGroup::new(settings);
    for (token, name) in names.iter().enumerate() {
        let mut request = classic_join("", &["t"], &[]);
        request.member_id = MemberId::unknown();
        request.client_id = (*name).into();
        request.require_known_member_id = false;
        group.handle_join(world.now, request, CallToken(token as u64));
    }
    group.handle_timeout(world.now);
    let mut joined: Vec<Joined> = Vec::new();
    while let Some(effect) = group.poll_effect() {
        if let Effect::Join(_, Ok(answer)) = effect {
            joined.push(answer);
        }
    }
    let ids: Vec<MemberId> = joined
        .iter()
        .map(|answer| answer.member_id.clone())
        .collect();
    let assignments = ids
        .iter()
        .enumerate()
        .map(|(n, id)| {
            let assigned = [("t", vec![n as i32]), ("gone", vec![0])];
            (id.clone(), subscription::encode_assignment(1, &assigned))
        })
        .collect();
    let member = MemberRef {
        member_id: joined[0].leader.clone(),
        instance_id: None,
        generation_id: joined[0].generation_id,
    };
    let request = SyncRequest {
        member,
        protocol_type: None,
        protocol_name: None,
        assignments,
    };
    group.handle_sync(world.now, request, CallToken(99));
    assert_eq!(group.state(), ClassicState::Stable);
    (group, ids)
}

fn upgraded(
    world: &World,
    group: &ClassicGroup,
    settings: Settings,
) -> Result<ConsumerGroup, Error> {
    let image = world.image();
    let classic = classic::Settings::default();
    ConsumerGroup::of_classic(settings, classic, world.now, group, image.as_ref())
}

#[test]
fn a_classic_group_becomes_a_consumer_group_with_what_its_members_have() {
    let mut world = World::new(&[("t", 3)]);
    let (group, ids) = classic_group(&world, &["a", "b"]);
    world.group = upgraded(&world, &group, Settings::default()).unwrap();
    world.settle();
    assert_eq!(world.group.group_epoch(), Epoch(group.generation_id().0));
    let joined = world.heartbeat(&joining("n", &["t"])).unwrap();
    assert_eq!(
        joined.assignment,
        Some(world.partitions("t", [2])),
        "the one nobody had"
    );
    let described = world.group.describe();
    let classic: Vec<_> = described
        .members
        .iter()
        .filter(|member| member.is_classic)
        .collect();
    assert_eq!(classic.len(), 2);
    assert!(classic.iter().all(|member| member.assignment.len() == 1));
    for member in &ids {
        assert_eq!(
            world.classic_beat(member.as_str(), 1),
            Err(classic::GroupError::RebalanceInProgress)
        );
    }
    assert!(!world.group.wants_downgrade());
}

#[test]
fn a_consumer_group_becomes_classic_with_its_last_new_member() {
    let mut world = World::new(&[("t", 2)]);
    world.heartbeat(&joining("n", &["t"])).unwrap();
    world.join(classic_join("c", &["t"], &[])).unwrap();
    assert!(!world.group.wants_downgrade());
    world.heartbeat(&beat("n", -1, None)).unwrap();
    assert!(world.group.wants_downgrade());
    let epoch = world.group.group_epoch();
    let settings = (Settings::default(), classic::Settings::default());
    let group = std::mem::replace(&mut world.group, ConsumerGroup::new(settings.0, settings.1));
    let mut group = group.into_classic(world.now);
    assert_eq!(group.state(), ClassicState::PreparingRebalance);
    assert_eq!(group.generation_id().0, epoch.0);
    assert_eq!(
        group.handle_heartbeat(world.now, &super::world::member_ref("c", epoch.0)),
        Err(classic::GroupError::RebalanceInProgress)
    );
    group.handle_join(world.now, classic_join("c", &["t"], &[]), CallToken(1));
    let answer = std::iter::from_fn(|| group.poll_effect())
        .find_map(|effect| match effect {
            Effect::Join(_, answer) => Some(answer),
            _ => None,
        })
        .expect("its join completes the phase");
    let joined = answer.unwrap();
    assert_eq!(
        (joined.member_id, joined.generation_id.0),
        (id("c"), epoch.0 + 1)
    );
}

#[rstest]
#[case(MigrationPolicy::Bidirectional, true, true)]
#[case(MigrationPolicy::Upgrade, true, false)]
#[case(MigrationPolicy::Downgrade, false, true)]
#[case(MigrationPolicy::Disabled, false, false)]
fn the_policy_decides(#[case] policy: MigrationPolicy, #[case] up: bool, #[case] down: bool) {
    let settings = Settings {
        migration_policy: policy,
        ..Settings::default()
    };
    let mut world = World::with(settings, &[("t", 2)]);
    let (group, _) = classic_group(&world, &["a"]);
    assert_eq!(upgraded(&world, &group, settings).is_ok(), up);
    world.heartbeat(&joining("n", &["t"])).unwrap();
    world.join(classic_join("c", &["t"], &[])).unwrap();
    world.heartbeat(&beat("n", -1, None)).unwrap();
    assert_eq!(world.group.wants_downgrade(), down);
}

#[test]
fn what_is_no_group_of_consumers_is_not_upgraded() {
    let mut world = World::new(&[("t", 2)]);
    let refused =
        |answer: Result<ConsumerGroup, Error>| matches!(answer, Err(Error::GroupIdNotFound(_)));
    let mut connect = ClassicGroup::new(classic::Settings::default());
    let mut request = classic_join("", &["t"], &[]);
    request.member_id = MemberId::unknown();
    request.require_known_member_id = false;
    request.protocol_type = "connect".into();
    connect.handle_join(world.now, request.clone(), CallToken(1));
    assert!(refused(upgraded(&world, &connect, Settings::default())));

    let mut malformed = ClassicGroup::new(classic::Settings::default());
    request.protocol_type = "consumer".into();
    request.protocols = classic::Protocols::copy_of([("range", b"\0".as_slice())]);
    malformed.handle_join(world.now, request, CallToken(1));
    assert!(refused(upgraded(&world, &malformed, Settings::default())));

    let (large, _) = classic_group(&world, &["a", "b"]);
    let small = Settings {
        max_size: 1,
        ..Settings::default()
    };
    assert!(refused(upgraded(&world, &large, small)));
    world.readable = false;
    let unread = upgraded(&world, &large, Settings::default());
    assert!(matches!(unread, Err(Error::CoordinatorNotAvailable)));
}

#[test]
fn a_partition_two_members_were_given_has_one_owner() {
    let world = World::new(&[("t", 3)]);
    let (mut group, ids) = classic_group(&world, &["a", "b"]);
    // The leader begins again and gives everything to both.
    let both = subscription::encode_assignment(1, &[("t", vec![0, 1, 2])]);
    for (token, id) in ids.iter().enumerate() {
        let mut request = classic_join(id.as_str(), &["t"], &[("t", vec![token as i32])]);
        request.client_id = id.as_str().into();
        group.handle_join(world.now, request, CallToken(10 + token as u64));
    }
    let member = MemberRef {
        member_id: ids[0].clone(),
        instance_id: None,
        generation_id: group.generation_id(),
    };
    let request = SyncRequest {
        member,
        protocol_type: None,
        protocol_name: None,
        assignments: ids.iter().map(|id| (id.clone(), both.clone())).collect(),
    };
    group.handle_sync(world.now, request, CallToken(20));
    assert_eq!(group.state(), ClassicState::Stable);
    let new = upgraded(&world, &group, Settings::default()).unwrap();
    new.check();
    let owned: usize = new
        .describe()
        .members
        .iter()
        .map(|m| m.assignment.len())
        .sum();
    assert_eq!(owned, 3);
    let _: Option<Arc<Topics>> = new.describe().topics;
}
