//! What other APIs ask a group.

use bytes::Bytes;
use rstest::rstest;

use super::world::*;
use crate::classic::*;

fn anonymous() -> MemberRef {
    MemberRef {
        member_id: MemberId::unknown(),
        instance_id: None,
        generation_id: GenerationId::NONE,
    }
}

fn subscription(topics: &[&str]) -> Vec<u8> {
    let mut bytes = vec![0, 0];
    bytes.extend((topics.len() as i32).to_be_bytes());
    for topic in topics {
        bytes.extend((topic.len() as i16).to_be_bytes());
        bytes.extend(topic.as_bytes());
    }
    bytes
}

fn subscriber(client_id: &str, metadata: &[u8]) -> JoinRequest {
    JoinRequest {
        protocols: Protocols::copy_of([("range", metadata)]),
        ..consumer(client_id)
    }
}

#[test]
fn whoever_only_stores_offsets_may_commit_while_the_group_is_empty() {
    let mut world = World::new();
    let now = world.now;
    assert_eq!(
        world.group.validate_offset_commit(now, &anonymous(), false),
        Ok(())
    );
    world.stable(&[consumer("a")]);
    let now = world.now;
    let refused = Err(GroupError::UnknownMemberId);
    assert_eq!(
        world.group.validate_offset_commit(now, &anonymous(), false),
        refused
    );
    assert_eq!(
        world.group.validate_offset_commit(now, &anonymous(), true),
        Ok(())
    );
}

#[test]
fn a_member_commits_with_its_own_generation_only() {
    let mut world = World::new();
    let members = world.stable(&[consumer("a")]);
    assert_eq!(world.commit(&members[0]), Ok(()));
    let mut other = members[0].clone();
    other.generation_id = GenerationId(7);
    assert_eq!(world.commit(&other), Err(GroupError::IllegalGeneration));
    other.generation_id = GenerationId::NONE;
    assert_eq!(world.commit(&other), Err(GroupError::IllegalGeneration));
    other.member_id = MemberId::new("made-up");
    assert_eq!(world.commit(&other), Err(GroupError::UnknownMemberId));
}

#[test]
fn commits_are_accepted_while_preparing_and_not_while_completing() {
    let mut world = World::new();
    let requests = [consumer("a"), consumer("b")];
    let members = world.stable(&requests);
    let leader = world.join(rejoin(&requests[0], &members[0].member_id));
    assert_eq!(world.commit(&members[1]), Ok(()), "before it rejoins");
    world.join(rejoin(&requests[1], &members[1].member_id));
    let joined = world.joined(leader);
    assert_eq!(world.commit(&joined), Err(GroupError::RebalanceInProgress));
    let now = world.now;
    let transactional = world
        .group
        .validate_offset_commit(now, &member(&joined), true);
    assert_eq!(transactional, Ok(()));
    assert_eq!(
        world.commit(&members[1]),
        Err(GroupError::IllegalGeneration)
    );
}

#[test]
fn a_commit_keeps_its_member_alive() {
    let mut world = World::new();
    let members = world.stable(&[consumer("a")]);
    for _ in 0..10 {
        world.advance(SESSION - secs(1));
        assert_eq!(world.commit(&members[0]), Ok(()));
    }
    world.advance(SESSION);
    assert_eq!(world.commit(&members[0]), Err(GroupError::UnknownMemberId));
}

#[test]
fn offsets_of_a_living_group_are_deleted_only_for_consumers() {
    let mut world = World::new();
    assert_eq!(world.group.validate_offset_delete(), Ok(()));
    let connect = JoinRequest {
        protocol_type: "connect".into(),
        ..consumer("a")
    };
    let members = world.stable(&[connect]);
    assert_eq!(
        world.group.validate_offset_delete(),
        Err(GroupError::NonEmptyGroup)
    );
    assert!(!world.group.is_subscribed_to("any"));
    world.leave(&[leaving(&members[0].member_id)]);
    assert_eq!(world.group.handle_delete(), Ok(()));
    assert_eq!(
        world.group.validate_offset_delete(),
        Err(GroupError::GroupIdNotFound)
    );
}

#[test]
fn a_topic_counts_as_subscribed_while_any_member_subscribes_to_it() {
    let mut world = World::new();
    let a = subscriber("a", &subscription(&["x"]));
    let b = subscriber("b", &subscription(&["x", "y"]));
    let members = world.stable(&[a, b]);
    assert_eq!(world.group.validate_offset_delete(), Ok(()));
    assert!(world.group.is_subscribed_to("x"));
    assert!(world.group.is_subscribed_to("y"));
    assert!(!world.group.is_subscribed_to("z"));
    world.leave(&[
        leaving(&members[0].member_id),
        leaving(&members[1].member_id),
    ]);
    assert!(
        !world.group.is_subscribed_to("x"),
        "an empty group subscribes to nothing"
    );
}

#[test]
fn a_subscription_nobody_can_read_counts_as_one_to_everything() {
    let mut world = World::new();
    world.stable(&[subscriber("a", b"?")]);
    assert!(world.group.is_subscribed_to("any"));
}

#[rstest]
#[case::stable(true)]
#[case::completing(false)]
fn metadata_is_described_only_while_stable(#[case] stable: bool) {
    let mut world = World::new();
    let token = world.arrive(&consumer("a")).1;
    world.form();
    let joined = world.joined(token);
    if stable {
        world.complete(std::slice::from_ref(&joined));
    }
    let description = world.group.describe();
    assert_eq!(description.protocol_type.as_deref(), Some("consumer"));
    assert_eq!(
        description.protocol_name.as_deref(),
        stable.then_some("range")
    );
    let [member] = &description.members[..] else {
        panic!("{description:?}")
    };
    assert_eq!(member.member_id, joined.member_id);
    assert_eq!(
        (&*member.client_id, &*member.client_host),
        ("a", "/127.0.0.1")
    );
    let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
    let expected = if stable { ("m", "a0") } else { ("", "") };
    assert_eq!(member.metadata, bytes(expected.0));
    assert_eq!(member.assignment, bytes(expected.1));
}

#[test]
fn the_last_shares_are_described_until_there_are_new_ones() {
    let mut world = World::new();
    let old = world.stable(&[consumer("a")]);
    let shares = |world: &World| -> Vec<Bytes> {
        let members = world.group.describe().members.into_iter();
        members.map(|member| member.assignment).collect()
    };
    let (last, none) = (Bytes::from_static(b"a0"), Bytes::new());
    let (_, new) = world.arrive(&consumer("b"));
    assert_eq!(world.group.overview().state, GroupState::PreparingRebalance);
    assert_eq!(shares(&world), [last.clone(), none.clone()]);
    let again = world.join(rejoin(&consumer("a"), &old[0].member_id));
    world.form();
    assert_eq!(
        world.group.overview().state,
        GroupState::CompletingRebalance
    );
    assert_eq!(shares(&world), [last, none.clone()]);
    let joined = [world.joined(again), world.joined(new)];
    // The leader leaves itself out: what it had is gone.
    let leader = joined.iter().find(|one| one.leader == one.member_id);
    let leader = leader.expect("one of them leads");
    assert_eq!(
        leader.member_id, joined[0].member_id,
        "the order of the shares"
    );
    let other = &joined[1].member_id;
    world.sync(leader, &[(other, "b1")]);
    assert_eq!(shares(&world), [none, Bytes::from_static(b"b1")]);
}

#[test]
fn an_overview_names_state_type_and_size() {
    let mut world = World::new();
    let empty = Overview {
        state: GroupState::Empty,
        protocol_type: None,
        members: 0,
    };
    assert_eq!(world.group.overview(), empty);
    world.stable(&[consumer("a"), consumer("b")]);
    let stable = Overview {
        state: GroupState::Stable,
        protocol_type: Some("consumer".into()),
        members: 2,
    };
    assert_eq!(world.group.overview(), stable);
    assert_eq!(GroupState::PreparingRebalance.name(), "PreparingRebalance");
}
