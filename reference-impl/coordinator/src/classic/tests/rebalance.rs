//! The join phase: when it opens, how long it stays open, how it closes.

use std::time::Duration;

use rstest::rstest;

use super::world::*;
use crate::classic::*;

#[test]
fn the_first_join_of_an_empty_group_waits_the_initial_delay() {
    let mut world = World::new();
    let token = world.join(old_consumer("a"));
    world.advance(DELAY - Duration::from_millis(1));
    assert!(world.is_parked(token));
    world.advance(Duration::from_millis(1));
    assert_eq!(world.joined(token).generation_id, GenerationId(1));
}

#[test]
fn no_initial_delay_forms_the_generation_at_once() {
    let settings = Settings {
        initial_rebalance_delay: Duration::ZERO,
        ..Settings::default()
    };
    let mut world = World::with(settings);
    let token = world.join(old_consumer("a"));
    world.advance(Duration::ZERO);
    assert_eq!(world.joined(token).generation_id, GenerationId(1));
}

#[test]
fn newcomers_extend_the_initial_delay_into_one_generation() {
    let mut world = World::new();
    let mut parked = Vec::new();
    for _ in 0..10 {
        parked.push(world.join(old_consumer("a")));
        world.advance(secs(2));
    }
    world.advance(secs(6));
    for token in parked {
        assert_eq!(world.joined(token).generation_id, GenerationId(1));
    }
}

#[test]
fn the_initial_delay_never_exceeds_the_rebalance_timeout() {
    let mut world = World::new();
    let request = JoinRequest {
        rebalance_timeout: secs(10),
        ..old_consumer("a")
    };
    let first = world.join(request.clone());
    for _ in 0..9 {
        world.advance(secs(1));
        world.join(request.clone());
    }
    assert!(world.is_parked(first));
    world.advance(secs(3));
    assert_eq!(world.joined(first).generation_id, GenerationId(1));
}

#[test]
fn a_rebalance_closes_as_soon_as_everybody_rejoined() {
    let mut world = World::new();
    let requests = [consumer("a"), consumer("b")];
    let members = world.stable(&requests);
    let (_, newcomer) = world.arrive(&consumer("c"));
    assert_eq!(
        world.heartbeat(&members[0]),
        Err(GroupError::RebalanceInProgress)
    );
    let leader = world.join(rejoin(&requests[0], &members[0].member_id));
    assert!(world.is_parked(newcomer));
    let follower = world.join(rejoin(&requests[1], &members[1].member_id));
    let leader = world.joined(leader);
    assert_eq!(leader.members.len(), 3);
    assert_eq!(leader.leader, members[0].member_id, "the leader stays");
    for token in [follower, newcomer] {
        let joined = world.joined(token);
        assert_eq!(joined.generation_id, GenerationId(2));
        assert_eq!(joined.leader, leader.member_id);
        assert_eq!(joined.members, vec![]);
    }
}

#[test]
fn stragglers_are_out_after_the_rebalance_timeout() {
    let mut world = World::new();
    let requests = [consumer("a"), consumer("b")];
    let members = world.stable(&requests);
    let (_, newcomer) = world.arrive(&consumer("c"));
    world.advance_alive(REBALANCE, &[&members[0], &members[1]]);
    let joined = world.joined(newcomer);
    assert_eq!(joined.members.len(), 1, "the newcomer leads alone");
    assert_eq!(
        world.heartbeat(&members[0]),
        Err(GroupError::UnknownMemberId)
    );
}

#[test]
fn the_largest_rebalance_timeout_counts_and_is_clamped() {
    let settings = Settings {
        max_rebalance_timeout: secs(90),
        ..Settings::default()
    };
    let mut world = World::with(settings);
    let patient = JoinRequest {
        rebalance_timeout: secs(900),
        ..consumer("a")
    };
    let members = world.stable(&[patient, consumer("b")]);
    let (_, newcomer) = world.arrive(&consumer("c"));
    world.advance_alive(secs(89), &[&members[0], &members[1]]);
    assert!(world.is_parked(newcomer));
    world.advance_alive(secs(1), &[&members[0], &members[1]]);
    assert_eq!(world.joined(newcomer).generation_id, GenerationId(2));
}

#[test]
fn a_follower_that_rejoins_unchanged_keeps_the_stable_generation() {
    let mut world = World::new();
    let requests = [consumer("a"), consumer("b")];
    let members = world.stable(&requests);
    let token = world.join(rejoin(&requests[1], &members[1].member_id));
    let joined = world.joined(token);
    assert_eq!(joined, members[1]);
    let token = world.sync(&joined, &[]);
    assert_eq!(&world.synced(token).unwrap().assignment[..], b"a1");
}

#[test]
fn a_leader_that_rejoins_unchanged_triggers_a_rebalance() {
    let mut world = World::new();
    let requests = [consumer("a"), consumer("b")];
    let members = world.stable(&requests);
    let token = world.join(rejoin(&requests[0], &members[0].member_id));
    assert!(world.is_parked(token));
    assert_eq!(world.group.state(), GroupState::PreparingRebalance);
}

#[test]
fn a_follower_with_changed_metadata_triggers_a_rebalance() {
    let mut world = World::new();
    let requests = [consumer("a"), consumer("b")];
    let members = world.stable(&requests);
    let changed = JoinRequest {
        protocols: Protocols::copy_of([("range", b"other".as_slice())]),
        ..rejoin(&requests[1], &members[1].member_id)
    };
    let token = world.join(changed);
    assert!(world.is_parked(token));
    let leader = world.join(rejoin(&requests[0], &members[0].member_id));
    assert_eq!(&world.joined(leader).members[1].metadata[..], b"other");
}

#[rstest]
#[case::the_leader(0, 2)]
#[case::a_follower(1, 0)]
fn while_completing_an_unchanged_rejoin_repeats_the_answer(
    #[case] who: usize,
    #[case] roster: usize,
) {
    let mut world = World::new();
    let requests = [old_consumer("a"), old_consumer("b")];
    let parked: Vec<_> = requests.iter().map(|r| world.join(r.clone())).collect();
    world.form();
    let joined: Vec<_> = parked
        .into_iter()
        .map(|token| world.joined(token))
        .collect();
    let token = world.join(rejoin(&requests[who], &joined[who].member_id));
    let again = world.joined(token);
    assert_eq!(again, joined[who]);
    assert_eq!(again.members.len(), roster);
    assert_eq!(world.group.state(), GroupState::CompletingRebalance);
}

#[test]
fn while_completing_a_changed_rejoin_begins_again_and_ends_parked_syncs() {
    let mut world = World::new();
    let requests = [old_consumer("a"), old_consumer("b")];
    let parked: Vec<_> = requests.iter().map(|r| world.join(r.clone())).collect();
    world.form();
    let joined: Vec<_> = parked
        .into_iter()
        .map(|token| world.joined(token))
        .collect();
    let sync = world.sync(&joined[1], &[]);
    let changed = JoinRequest {
        protocols: Protocols::copy_of([("range", b"other".as_slice())]),
        ..rejoin(&requests[0], &joined[0].member_id)
    };
    world.join(changed);
    assert_eq!(world.synced(sync), Err(GroupError::RebalanceInProgress));
    assert_eq!(world.group.state(), GroupState::PreparingRebalance);
}

#[test]
fn a_member_that_joins_twice_hears_once_for_each() {
    let mut world = World::new();
    let request = consumer("a");
    let (id, first) = world.arrive(&request);
    let second = world.join(rejoin(&request, &id));
    let refusal = world.refused(first);
    assert_eq!(refusal.error, GroupError::RebalanceInProgress);
    assert_eq!(refusal.member_id, id);
    world.advance(DELAY);
    assert_eq!(world.joined(second).member_id, id);
}

#[test]
fn the_protocol_most_members_prefer_wins() {
    let mut world = World::new();
    let prefers = |names: &[&str]| JoinRequest {
        protocols: offers(names),
        ..old_consumer("c")
    };
    let first = world.join(prefers(&["range", "sticky"]));
    world.join(prefers(&["sticky", "range"]));
    world.join(prefers(&["other", "sticky", "range"]));
    world.form();
    assert_eq!(world.joined(first).protocol_name.as_deref(), Some("sticky"));
}

#[test]
fn votes_that_tie_go_to_the_protocol_voted_for_first() {
    let mut world = World::new();
    let prefers = |names: &[&str]| JoinRequest {
        protocols: offers(names),
        ..old_consumer("c")
    };
    let first = world.join(prefers(&["zeta", "alpha"]));
    world.join(prefers(&["alpha", "zeta"]));
    world.form();
    assert_eq!(world.joined(first).protocol_name.as_deref(), Some("zeta"));
}

#[test]
fn assignors_are_rolled_over_without_downtime() {
    let mut world = World::new();
    let requests = [consumer("a"), consumer("b")];
    let members = world.stable(&requests);
    // First all offer both, then the old one is dropped.
    let both = offers(&["sticky", "range"]);
    let parked: Vec<_> = requests
        .iter()
        .zip(&members)
        .map(|(r, m)| {
            let protocols = both.clone();
            world.join(JoinRequest {
                protocols,
                ..rejoin(r, &m.member_id)
            })
        })
        .collect();
    for token in parked {
        assert_eq!(world.joined(token).protocol_name.as_deref(), Some("sticky"));
    }
}

#[test]
fn a_leader_that_is_gone_is_followed_by_the_longest_member_that_rejoined() {
    let mut world = World::new();
    let requests = [consumer("a"), consumer("b"), consumer("c")];
    let members = world.stable(&requests);
    world.leave(&[leaving(&members[0].member_id)]);
    let third = world.join(rejoin(&requests[2], &members[2].member_id));
    let second = world.join(rejoin(&requests[1], &members[1].member_id));
    assert_eq!(world.joined(second).leader, members[1].member_id);
    assert_eq!(world.joined(third).members.len(), 0);
}

#[test]
fn a_rejoin_in_an_ended_group_is_unknown() {
    let mut world = World::new();
    let members = world.stable(&[consumer("a")]);
    world.leave(&[leaving(&members[0].member_id)]);
    assert_eq!(world.group.state(), GroupState::Empty);
    assert_eq!(world.group.generation_id(), GenerationId(2));
    let token = world.join(rejoin(&consumer("a"), &members[0].member_id));
    assert_eq!(world.refused(token).error, GroupError::UnknownMemberId);
}

#[test]
fn an_emptied_group_takes_another_protocol_type() {
    let mut world = World::new();
    let members = world.stable(&[consumer("a")]);
    world.leave(&[leaving(&members[0].member_id)]);
    assert_eq!(world.group.protocol_type().map(|t| &**t), Some("consumer"));
    let connect = JoinRequest {
        protocol_type: "connect".into(),
        ..old_consumer("b")
    };
    let token = world.join(connect);
    world.advance(DELAY);
    assert_eq!(
        world.joined(token).protocol_type.as_deref(),
        Some("connect")
    );
}

#[test]
fn a_new_member_whose_join_stays_parked_too_long_is_told_to_begin_again() {
    let mut world = World::new();
    let patient = JoinRequest {
        rebalance_timeout: secs(1000),
        ..consumer("a")
    };
    let members = world.stable(&[patient]);
    let (_, newcomer) = world.arrive(&consumer("b"));
    world.advance_alive(NEW_MEMBER_JOIN_TIMEOUT, &[&members[0]]);
    assert_eq!(world.refused(newcomer).error, GroupError::UnknownMemberId);
}

#[test]
fn a_session_that_ends_while_stable_triggers_a_rebalance() {
    let mut world = World::new();
    let members = world.stable(&[consumer("a"), consumer("b")]);
    world.advance_alive(SESSION + secs(1), &[&members[0]]);
    assert_eq!(
        world.heartbeat(&members[0]),
        Err(GroupError::RebalanceInProgress)
    );
    assert_eq!(
        world.heartbeat(&members[1]),
        Err(GroupError::UnknownMemberId)
    );
}

#[test]
fn a_member_whose_join_is_parked_outlives_its_session_timeout() {
    let mut world = World::new();
    let requests = [consumer("a"), consumer("b")];
    let members = world.stable(&requests);
    let leader = world.join(rejoin(&requests[0], &members[0].member_id));
    world.advance_alive(SESSION + secs(5), &[&members[1]]);
    assert!(world.is_parked(leader));
    world.join(rejoin(&requests[1], &members[1].member_id));
    assert_eq!(world.joined(leader).members.len(), 2);
}

#[test]
fn an_id_given_while_others_rebalance_is_waited_for_only_up_to_the_rebalance_timeout() {
    let mut world = World::new();
    let long = JoinRequest {
        session_timeout: secs(200),
        ..consumer("slow")
    };
    let members = world.stable(&[consumer("a")]);
    world.id_for(&long);
    let leader = world.join(rejoin(&consumer("a"), &members[0].member_id));
    world.form();
    assert_eq!(world.joined(leader).generation_id, GenerationId(2));
}
