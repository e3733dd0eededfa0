//! Static members (KIP-345, KIP-814).

use rstest::rstest;

use super::world::*;
use crate::classic::*;

fn as_static(joined: &Joined, instance_id: &str) -> MemberRef {
    MemberRef {
        instance_id: Some(InstanceId::new(instance_id)),
        ..member(joined)
    }
}

#[test]
fn a_returning_follower_takes_its_place_without_a_rebalance() {
    let mut world = World::new();
    let requests = [static_consumer("one"), static_consumer("two")];
    let members = world.stable(&requests);
    let token = world.join(requests[1].clone());
    let returned = world.joined(token);
    assert_ne!(returned.member_id, members[1].member_id);
    assert_eq!(returned.generation_id, members[1].generation_id);
    assert_eq!(returned.leader, members[0].member_id);
    assert!(!returned.skip_assignment);
    assert_eq!(world.heartbeat(&members[0]), Ok(()), "nobody notices");
    let token = world.sync_as(as_static(&returned, "two"), &[]);
    assert_eq!(&world.synced(token).unwrap().assignment[..], b"a1");
}

#[test]
fn a_returning_leader_skips_the_assignment_from_v9() {
    let mut world = World::new();
    let requests = [static_consumer("one"), static_consumer("two")];
    let members = world.stable(&requests);
    let token = world.join(requests[0].clone());
    let returned = world.joined(token);
    assert!(returned.skip_assignment);
    assert_eq!(returned.leader, returned.member_id);
    assert_eq!(returned.members.len(), 2, "it may still look at the roster");
    assert_eq!(world.heartbeat(&members[1]), Ok(()));
}

#[test]
fn a_returning_leader_below_v9_is_not_told_that_it_leads() {
    let mut world = World::new();
    let old = |id| JoinRequest {
        supports_skip_assignment: false,
        ..static_consumer(id)
    };
    let requests = [old("one"), old("two")];
    let members = world.stable(&requests);
    let token = world.join(requests[0].clone());
    let returned = world.joined(token);
    assert!(!returned.skip_assignment);
    assert_eq!(returned.leader, members[0].member_id, "its old id");
    assert_eq!(returned.members, vec![]);
    // It leads nevertheless: its next join opens a rebalance.
    let again = rejoin(&requests[0], &returned.member_id);
    let token = world.join(again);
    assert!(world.is_parked(token));
}

#[test]
fn the_replaced_id_is_fenced_everywhere() {
    let mut world = World::new();
    let requests = [static_consumer("one"), static_consumer("two")];
    let members = world.stable(&requests);
    world.join(requests[1].clone());
    let zombie = as_static(&members[1], "two");
    let fenced = Err(GroupError::FencedInstanceId);
    let now = world.now;
    assert_eq!(world.group.handle_heartbeat(now, &zombie), fenced);
    assert_eq!(
        world.group.validate_offset_commit(now, &zombie, false),
        fenced
    );
    let token = world.sync_as(zombie.clone(), &[]);
    assert_eq!(world.synced(token), Err(GroupError::FencedInstanceId));
    let token = world.join(rejoin(&requests[1], &members[1].member_id));
    assert_eq!(world.refused(token).error, GroupError::FencedInstanceId);
    let leave = LeavingMember {
        instance_id: zombie.instance_id,
        ..leaving(&zombie.member_id)
    };
    assert_eq!(world.leave(&[leave]), vec![fenced]);
    // Without its instance id it is nobody at all.
    assert_eq!(
        world.heartbeat(&members[1]),
        Err(GroupError::UnknownMemberId)
    );
}

#[test]
fn a_return_that_changes_the_chosen_protocol_triggers_a_rebalance() {
    let mut world = World::new();
    let request = JoinRequest {
        protocols: offers(&["range", "sticky"]),
        ..static_consumer("one")
    };
    let members = world.stable(std::slice::from_ref(&request));
    assert_eq!(members[0].protocol_name.as_deref(), Some("range"));
    let token = world.join(JoinRequest {
        protocols: offers(&["sticky"]),
        ..request
    });
    let returned = world.joined(token);
    assert_eq!(returned.generation_id, GenerationId(2));
    assert_eq!(returned.protocol_name.as_deref(), Some("sticky"));
}

#[test]
fn a_return_with_other_metadata_under_the_same_protocol_does_not_rebalance() {
    let mut world = World::new();
    let requests = [static_consumer("one"), static_consumer("two")];
    let members = world.stable(&requests);
    let protocols = Protocols::copy_of([("range", b"new".as_slice())]);
    let token = world.join(JoinRequest {
        protocols,
        ..requests[1].clone()
    });
    assert_eq!(world.joined(token).generation_id, members[1].generation_id);
    assert_eq!(&world.group.describe().members[1].metadata[..], b"new");
}

#[test]
fn a_return_while_completing_begins_again() {
    let mut world = World::new();
    let requests = [static_consumer("one"), static_consumer("two")];
    let parked: Vec<_> = requests.iter().map(|r| world.join(r.clone())).collect();
    world.form();
    let joined: Vec<_> = parked
        .into_iter()
        .map(|token| world.joined(token))
        .collect();
    let sync = world.sync_as(as_static(&joined[1], "two"), &[]);
    let token = world.join(requests[1].clone());
    assert_eq!(world.synced(sync), Err(GroupError::FencedInstanceId));
    assert!(world.is_parked(token));
    let leader = world.join(rejoin(&requests[0], &joined[0].member_id));
    assert_eq!(world.joined(leader).generation_id, GenerationId(2));
    assert_eq!(world.joined(token).generation_id, GenerationId(2));
}

#[test]
fn a_second_process_with_the_instance_fences_the_parked_join_of_the_first() {
    let mut world = World::new();
    let first = world.join(static_consumer("one"));
    let second = world.join(static_consumer("one"));
    let refusal = world.refused(first);
    assert_eq!(refusal.error, GroupError::FencedInstanceId);
    assert!(!refusal.member_id.is_unknown());
    world.advance(DELAY);
    assert_eq!(world.joined(second).members.len(), 1);
}

#[test]
fn a_static_straggler_keeps_its_place_in_the_next_generation() {
    let mut world = World::new();
    let patient = JoinRequest {
        session_timeout: secs(300),
        ..static_consumer("one")
    };
    let requests = [patient, consumer("two")];
    let members = world.stable(&requests);
    let token = world.join(JoinRequest {
        protocols: Protocols::copy_of([("range", b"changed".as_slice())]),
        ..rejoin(&requests[1], &members[1].member_id)
    });
    world.form();
    let joined = world.joined(token);
    assert_eq!(joined.members.len(), 2, "the straggler is in the roster");
    assert_eq!(joined.leader, joined.member_id, "but does not lead");
}

#[test]
fn with_only_static_members_and_none_back_the_group_waits_for_one() {
    let mut world = World::new();
    let patient = |id| JoinRequest {
        session_timeout: secs(300),
        ..static_consumer(id)
    };
    let requests = [patient("one"), patient("two")];
    let members = world.stable(&requests);
    let leave = LeavingMember {
        member_id: MemberId::unknown(),
        instance_id: Some(InstanceId::new("two")),
        reason: None,
    };
    assert_eq!(world.leave(&[leave]), vec![Ok(())]);
    world.advance(REBALANCE * 2);
    assert_eq!(world.group.state(), GroupState::PreparingRebalance);
    assert!(world.notes.contains(&Note::NobodyRejoined));
    let token = world.join(rejoin(&requests[0], &members[0].member_id));
    assert_eq!(world.joined(token).generation_id, GenerationId(2));
}

#[test]
fn with_only_static_members_the_last_session_empties_the_group() {
    let mut world = World::new();
    let request = |id| JoinRequest {
        rebalance_timeout: secs(0),
        ..static_consumer(id)
    };
    world.stable(&[request("one"), request("two")]);
    let leave = LeavingMember {
        member_id: MemberId::unknown(),
        instance_id: Some(InstanceId::new("two")),
        reason: None,
    };
    world.leave(&[leave]);
    world.advance(SESSION);
    assert_eq!(world.group.state(), GroupState::Empty);
    let attempts = world
        .notes
        .iter()
        .filter(|&note| *note == Note::NobodyRejoined);
    assert!(
        attempts.count() <= 100,
        "a rebalance timeout of zero does not spin"
    );
}

#[rstest]
#[case::unknown_instance("three", GroupError::UnknownMemberId)]
#[case::instance_of_another("one", GroupError::FencedInstanceId)]
fn a_member_that_names_the_wrong_instance_is_refused(
    #[case] instance_id: &str,
    #[case] expected: GroupError,
) {
    let mut world = World::new();
    let members = world.stable(&[static_consumer("one"), static_consumer("two")]);
    let confused = as_static(&members[1], instance_id);
    let now = world.now;
    assert_eq!(world.group.handle_heartbeat(now, &confused), Err(expected));
}

#[test]
fn an_administrator_removes_a_static_member_by_its_instance() {
    let mut world = World::new();
    let members = world.stable(&[static_consumer("one"), static_consumer("two")]);
    let by_instance = |id: &str| LeavingMember {
        member_id: MemberId::unknown(),
        instance_id: Some(InstanceId::new(id)),
        reason: None,
    };
    let verdicts = world.leave(&[by_instance("two"), by_instance("three")]);
    assert_eq!(verdicts, vec![Ok(()), Err(GroupError::UnknownMemberId)]);
    assert_eq!(
        world.heartbeat(&members[0]),
        Err(GroupError::RebalanceInProgress)
    );
}
