//! LeaveGroup, closed connections, deletion and the stop of a coordinator.

use super::world::*;
use crate::classic::*;

#[test]
fn a_member_that_leaves_triggers_a_rebalance_at_once() {
    let mut world = World::new();
    let members = world.stable(&[consumer("a"), consumer("b")]);
    assert_eq!(world.leave(&[leaving(&members[1].member_id)]), vec![Ok(())]);
    assert_eq!(
        world.heartbeat(&members[0]),
        Err(GroupError::RebalanceInProgress)
    );
}

#[test]
fn a_batch_is_judged_member_by_member_and_rebalances_once() {
    let mut world = World::new();
    let members = world.stable(&[consumer("a"), consumer("b"), consumer("c")]);
    let batch = [
        leaving(&members[0].member_id),
        leaving(&MemberId::new("made-up")),
        leaving(&MemberId::unknown()),
        leaving(&members[0].member_id),
        leaving(&members[2].member_id),
    ];
    let before = world.notes.len();
    let unknown = Err(GroupError::UnknownMemberId);
    assert_eq!(
        world.leave(&batch),
        vec![Ok(()), unknown, unknown, unknown, Ok(())]
    );
    let rebalances = world.notes[before..]
        .iter()
        .filter(|note| matches!(note, Note::PreparingRebalance { .. }));
    assert_eq!(rebalances.count(), 1);
    let token = world.join(rejoin(&consumer("b"), &members[1].member_id));
    assert_eq!(world.joined(token).members.len(), 1);
}

#[test]
fn the_last_member_that_leaves_empties_the_group() {
    let mut world = World::new();
    let members = world.stable(&[consumer("a")]);
    world.leave(&[leaving(&members[0].member_id)]);
    assert_eq!(world.group.state(), GroupState::Empty);
    assert!(world.group.is_idle());
    assert_eq!(
        world.group.next_deadline(),
        None,
        "nothing left to wait for"
    );
}

#[test]
fn an_id_that_was_given_and_not_used_can_leave() {
    let mut world = World::new();
    let id = world.id_for(&consumer("a"));
    assert_eq!(world.leave(&[leaving(&id)]), vec![Ok(())]);
    assert!(world.group.is_idle());
}

#[test]
fn a_leaver_whose_calls_are_parked_is_told_so() {
    let mut world = World::new();
    let (id, join) = world.arrive(&consumer("a"));
    world.leave(&[leaving(&id)]);
    assert_eq!(world.refused(join).error, GroupError::UnknownMemberId);

    let mut world = World::new();
    let tokens = [
        world.arrive(&consumer("a")).1,
        world.arrive(&consumer("b")).1,
    ];
    world.form();
    let joined = tokens.map(|token| world.joined(token));
    let sync = world.sync(&joined[1], &[]);
    world.leave(&[leaving(&joined[1].member_id)]);
    assert_eq!(world.synced(sync), Err(GroupError::UnknownMemberId));
}

#[test]
fn a_group_everybody_left_before_its_first_generation_ends_empty() {
    let mut world = World::new();
    let (id, _) = world.arrive(&consumer("a"));
    world.leave(&[leaving(&id)]);
    assert_eq!(world.group.state(), GroupState::PreparingRebalance);
    let token = world.join(old_consumer("b"));
    assert!(
        world.is_parked(token),
        "the open join phase takes a newcomer"
    );
    world.abandon(token);
    world.advance(REBALANCE);
    assert_eq!(world.group.state(), GroupState::Empty);
}

#[test]
fn a_first_join_whose_connection_died_unheard_is_undone() {
    let mut world = World::new();
    let gone = world.join(old_consumer("a"));
    let stays = world.join(old_consumer("b"));
    world.abandon(gone);
    world.form();
    let joined = world.joined(stays);
    assert_eq!(joined.members.len(), 1);
    assert_eq!(joined.leader, joined.member_id);
}

#[test]
fn a_member_whose_connection_died_during_its_join_comes_back_with_its_id() {
    let mut world = World::new();
    let requests = [consumer("a"), consumer("b")];
    let members = world.stable(&requests);
    let leader = world.join(rejoin(&requests[0], &members[0].member_id));
    world.abandon(leader);
    let follower = world.join(rejoin(&requests[1], &members[1].member_id));
    assert!(world.is_parked(follower), "the lost join does not count");
    let leader = world.join(rejoin(&requests[0], &members[0].member_id));
    assert_eq!(world.joined(leader).members.len(), 2);
}

#[test]
fn a_member_whose_connection_died_and_stays_away_is_out_after_its_session() {
    let mut world = World::new();
    let requests = [consumer("a"), consumer("b")];
    let members = world.stable(&requests);
    let leader = world.join(rejoin(&requests[0], &members[0].member_id));
    let follower = world.join(JoinRequest {
        protocols: Protocols::copy_of([("range", b"new".as_slice())]),
        ..rejoin(&requests[1], &members[1].member_id)
    });
    // Both joined: the generation formed. Now the leader dies in the middle of its sync.
    let joined = [world.joined(leader), world.joined(follower)];
    let sync = world.sync(&joined[1], &[]);
    world.abandon(sync);
    world.advance_alive(SESSION, &[&joined[0]]);
    assert_eq!(
        world.heartbeat(&joined[1]),
        Err(GroupError::UnknownMemberId)
    );
}

#[test]
fn an_empty_group_is_deleted_and_dead() {
    let mut world = World::new();
    let members = world.stable(&[consumer("a")]);
    assert_eq!(world.group.handle_delete(), Err(GroupError::NonEmptyGroup));
    world.leave(&[leaving(&members[0].member_id)]);
    world.id_for(&consumer("b"));
    assert_eq!(world.group.handle_delete(), Ok(()));
    assert_eq!(
        world.group.handle_delete(),
        Err(GroupError::GroupIdNotFound)
    );
    assert_eq!(world.group.state(), GroupState::Dead);
    assert!(world.group.is_idle());
    let dead = Err(GroupError::CoordinatorNotAvailable);
    assert_eq!(world.heartbeat(&members[0]), dead);
    assert_eq!(world.commit(&members[0]), dead);
    let token = world.join(consumer("a"));
    assert_eq!(
        world.refused(token).error,
        GroupError::CoordinatorNotAvailable
    );
    let token = world.sync(&members[0], &[]);
    assert_eq!(
        world.synced(token),
        Err(GroupError::CoordinatorNotAvailable)
    );
    let now = world.now;
    let leave = world
        .group
        .handle_leave(now, &[leaving(&members[0].member_id)]);
    assert_eq!(leave, Err(GroupError::CoordinatorNotAvailable));
}

#[test]
fn a_stop_answers_everything_parked_with_a_rebalance() {
    let mut world = World::new();
    let members = world.stable(&[consumer("a"), consumer("b")]);
    let (id, join) = world.arrive(&consumer("c"));
    let now = world.now;
    world.group.handle_stop(now);
    world.settle();
    let refusal = world.refused(join);
    assert_eq!(refusal.error, GroupError::RebalanceInProgress);
    assert_eq!(refusal.member_id, id);
    assert_eq!(
        world.heartbeat(&members[0]),
        Err(GroupError::RebalanceInProgress)
    );
    assert_eq!(
        world.commit(&members[0]),
        Ok(()),
        "what was consumed can be committed"
    );
    let token = world.join(rejoin(&consumer("a"), &members[0].member_id));
    assert_eq!(
        world.refused(token).error,
        GroupError::CoordinatorNotAvailable
    );
    assert_eq!(world.group.next_deadline(), None);
}

#[test]
fn a_stop_ends_parked_syncs_and_stable_groups_too() {
    let mut world = World::new();
    let tokens = [
        world.arrive(&consumer("a")).1,
        world.arrive(&consumer("b")).1,
    ];
    world.form();
    let joined = tokens.map(|token| world.joined(token));
    let sync = world.sync(&joined[1], &[]);
    let now = world.now;
    world.group.handle_stop(now);
    world.settle();
    assert_eq!(world.synced(sync), Err(GroupError::RebalanceInProgress));
    assert_eq!(
        world.heartbeat(&joined[0]),
        Err(GroupError::RebalanceInProgress)
    );
}
