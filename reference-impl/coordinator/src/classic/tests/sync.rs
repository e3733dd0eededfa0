//! SyncGroup and Heartbeat.

use bytes::Bytes;
use rstest::rstest;

use super::world::*;
use crate::classic::*;

/// Two members whose generation waits for its assignment.
fn completing() -> (World, Vec<JoinRequest>, Vec<Joined>) {
    let mut world = World::new();
    let requests = vec![consumer("a"), consumer("b")];
    let parked: Vec<_> = requests.iter().map(|r| world.arrive(r).1).collect();
    world.form();
    let joined = parked
        .into_iter()
        .map(|token| world.joined(token))
        .collect();
    assert_eq!(world.group.state(), GroupState::CompletingRebalance);
    (world, requests, joined)
}

#[test]
fn followers_wait_for_the_leader_and_each_gets_its_own_assignment() {
    let (mut world, _, joined) = completing();
    let follower = world.sync(&joined[1], &[]);
    assert!(world.is_parked(follower));
    let assignments = [
        (&joined[0].member_id, "zero"),
        (&joined[1].member_id, "one"),
    ];
    let leader = world.sync(&joined[0], &assignments);
    assert_eq!(&world.synced(leader).unwrap().assignment[..], b"zero");
    let synced = world.synced(follower).unwrap();
    assert_eq!(&synced.assignment[..], b"one");
    assert_eq!(synced.protocol_name.as_deref(), Some("range"));
    assert_eq!(synced.protocol_type.as_deref(), Some("consumer"));
}

#[test]
fn a_follower_that_syncs_after_the_leader_is_answered_at_once() {
    let (mut world, _, joined) = completing();
    world.sync(&joined[0], &[(&joined[1].member_id, "one")]);
    let follower = world.sync(&joined[1], &[]);
    assert_eq!(&world.synced(follower).unwrap().assignment[..], b"one");
}

#[test]
fn who_the_leader_leaves_out_gets_an_empty_assignment() {
    let (mut world, _, joined) = completing();
    let follower = world.sync(&joined[1], &[]);
    let made_up = MemberId::new("made-up");
    world.sync(&joined[0], &[(&made_up, "nothing")]);
    assert_eq!(world.synced(follower).unwrap().assignment, Bytes::new());
}

#[test]
fn assignments_of_followers_are_ignored() {
    let (mut world, _, joined) = completing();
    let follower = world.sync(&joined[1], &[(&joined[1].member_id, "mine")]);
    assert!(world.is_parked(follower));
    world.sync(&joined[0], &[]);
    assert_eq!(world.synced(follower).unwrap().assignment, Bytes::new());
}

#[test]
fn a_leader_that_never_syncs_is_evicted_after_the_rebalance_timeout() {
    let (mut world, requests, joined) = completing();
    let follower = world.sync(&joined[1], &[]);
    world.advance_alive(REBALANCE, &[&joined[0]]);
    assert_eq!(
        world.heartbeat(&joined[0]),
        Err(GroupError::UnknownMemberId)
    );
    assert_eq!(world.synced(follower), Err(GroupError::RebalanceInProgress));
    let token = world.join(rejoin(&requests[1], &joined[1].member_id));
    let alone = world.joined(token);
    assert_eq!(alone.leader, joined[1].member_id);
    world.complete(&[alone]);
}

#[test]
fn a_follower_that_never_syncs_is_evicted_too() {
    let (mut world, _, joined) = completing();
    world.sync(&joined[0], &[]);
    world.advance_alive(REBALANCE, &[&joined[0], &joined[1]]);
    assert_eq!(
        world.heartbeat(&joined[1]),
        Err(GroupError::UnknownMemberId)
    );
    assert_eq!(
        world.heartbeat(&joined[0]),
        Err(GroupError::RebalanceInProgress)
    );
}

#[test]
fn a_group_that_synced_is_left_alone_after_the_rebalance_timeout() {
    let mut world = World::new();
    let members = world.stable(&[consumer("a"), consumer("b")]);
    world.advance_alive(REBALANCE * 3, &[&members[0], &members[1]]);
    assert_eq!(world.heartbeat(&members[0]), Ok(()));
    assert_eq!(world.group.generation_id(), GenerationId(1));
}

#[test]
fn a_member_that_syncs_twice_hears_once_for_each() {
    let (mut world, _, joined) = completing();
    let first = world.sync(&joined[1], &[]);
    let second = world.sync(&joined[1], &[]);
    assert_eq!(world.synced(first), Err(GroupError::RebalanceInProgress));
    world.sync(&joined[0], &[]);
    assert!(world.synced(second).is_ok());
}

#[test]
fn a_sync_is_checked_in_kafkas_order() {
    let (mut world, _, joined) = completing();
    let mut stranger = member(&joined[0]);
    stranger.member_id = MemberId::new("made-up");
    stranger.generation_id = GenerationId(99);
    let token = world.sync_as(stranger, &[]);
    assert_eq!(world.synced(token), Err(GroupError::UnknownMemberId));
    let mut old = member(&joined[0]);
    old.generation_id = GenerationId(0);
    let token = world.sync_as(old, &[]);
    assert_eq!(world.synced(token), Err(GroupError::IllegalGeneration));
}

#[rstest]
#[case::another_type(Some("connect"), None)]
#[case::another_name(None, Some("sticky"))]
#[case::both(Some("connect"), Some("sticky"))]
fn a_sync_that_believes_in_another_protocol_is_refused(
    #[case] protocol_type: Option<&str>,
    #[case] protocol_name: Option<&str>,
) {
    let (mut world, _, joined) = completing();
    let token = world.sync_request(SyncRequest {
        member: member(&joined[1]),
        protocol_type: protocol_type.map(Into::into),
        protocol_name: protocol_name.map(Into::into),
        assignments: vec![],
    });
    assert_eq!(
        world.synced(token),
        Err(GroupError::InconsistentGroupProtocol)
    );
}

#[test]
fn a_sync_that_names_the_right_protocol_is_accepted() {
    let (mut world, _, joined) = completing();
    let token = world.sync_request(SyncRequest {
        member: member(&joined[0]),
        protocol_type: Some("consumer".into()),
        protocol_name: Some("range".into()),
        assignments: vec![],
    });
    assert!(world.synced(token).is_ok());
}

#[test]
fn a_sync_while_preparing_is_told_to_rejoin() {
    let mut world = World::new();
    let members = world.stable(&[consumer("a"), consumer("b")]);
    world.leave(&[leaving(&members[1].member_id)]);
    let token = world.sync(&members[0], &[]);
    assert_eq!(world.synced(token), Err(GroupError::RebalanceInProgress));
}

#[test]
fn an_assignment_beyond_the_budget_begins_again() {
    let settings = Settings {
        max_assignment_bytes: 10,
        ..Settings::default()
    };
    let mut world = World::with(settings);
    let token = world.join(old_consumer("a"));
    world.advance(DELAY);
    let joined = world.joined(token);
    let token = world.sync(&joined, &[(&joined.member_id, "eleven bytes")]);
    assert_eq!(world.synced(token), Err(GroupError::AssignmentTooLarge));
    assert_eq!(world.group.state(), GroupState::PreparingRebalance);
}

#[test]
fn a_member_whose_sync_is_parked_outlives_its_session_timeout() {
    let (mut world, _, joined) = completing();
    let follower = world.sync(&joined[1], &[]);
    world.advance_alive(SESSION * 2, &[&joined[0]]);
    assert!(world.is_parked(follower));
    world.sync(&joined[0], &[]);
    assert!(world.synced(follower).is_ok());
    // From here on its silence counts again.
    world.advance_alive(SESSION, &[&joined[0]]);
    assert_eq!(
        world.heartbeat(&joined[1]),
        Err(GroupError::UnknownMemberId)
    );
}

#[test]
fn heartbeats_are_answered_by_state() {
    let (mut world, requests, joined) = completing();
    assert_eq!(world.heartbeat(&joined[0]), Ok(()), "while completing");
    world.complete(&joined);
    assert_eq!(world.heartbeat(&joined[0]), Ok(()), "while stable");
    world.join(rejoin(&requests[0], &joined[0].member_id));
    let preparing = Err(GroupError::RebalanceInProgress);
    assert_eq!(world.heartbeat(&joined[1]), preparing, "while preparing");
    let mut old = joined[1].clone();
    old.generation_id = GenerationId(0);
    assert_eq!(world.heartbeat(&old), Err(GroupError::IllegalGeneration));
    old.member_id = MemberId::new("made-up");
    assert_eq!(world.heartbeat(&old), Err(GroupError::UnknownMemberId));
    world.leave(&[leaving(&joined[0].member_id), leaving(&joined[1].member_id)]);
    assert_eq!(
        world.heartbeat(&joined[1]),
        Err(GroupError::UnknownMemberId),
        "while empty"
    );
}

#[test]
fn a_leader_that_is_silent_while_completing_loses_its_session() {
    let (mut world, _, joined) = completing();
    let follower = world.sync(&joined[1], &[]);
    world.advance(SESSION);
    assert_eq!(world.synced(follower), Err(GroupError::RebalanceInProgress));
    assert_eq!(
        world.heartbeat(&joined[0]),
        Err(GroupError::UnknownMemberId)
    );
}
