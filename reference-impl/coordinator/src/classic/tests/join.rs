//! Who may join, and what each is told.

use std::time::Duration;

use rstest::rstest;

use super::world::*;
use crate::classic::*;

fn refusal(request: JoinRequest, error: GroupError) {
    let mut world = World::new();
    let asked = request.member_id.clone();
    let token = world.join(request);
    let refusal = world.refused(token);
    assert_eq!(refusal.error, error);
    assert_eq!(refusal.member_id, asked);
    assert_eq!(world.group.state(), GroupState::Empty);
}

#[rstest]
#[case::below_the_minimum(Duration::from_millis(5999))]
#[case::above_the_maximum(Duration::from_millis(300_001))]
#[case::zero(Duration::ZERO)]
fn a_session_timeout_outside_the_bounds_is_refused(#[case] session_timeout: Duration) {
    let request = JoinRequest {
        session_timeout,
        ..consumer("c")
    };
    refusal(request, GroupError::InvalidSessionTimeout);
}

#[rstest]
#[case::the_minimum(Duration::from_millis(6000))]
#[case::the_maximum(Duration::from_millis(300_000))]
fn a_session_timeout_at_a_bound_is_accepted(#[case] session_timeout: Duration) {
    let mut world = World::new();
    let request = JoinRequest {
        session_timeout,
        ..old_consumer("c")
    };
    let token = world.join(request);
    assert!(world.is_parked(token));
}

#[test]
fn a_join_without_protocol_type_or_protocols_is_refused() {
    let without_type = JoinRequest {
        protocol_type: "".into(),
        ..consumer("c")
    };
    refusal(without_type, GroupError::InconsistentGroupProtocol);
    let without_protocols = JoinRequest {
        protocols: Protocols::default(),
        ..consumer("c")
    };
    refusal(without_protocols, GroupError::InconsistentGroupProtocol);
}

#[test]
fn an_id_the_group_never_gave_is_unknown() {
    let id = MemberId::new("made-up");
    refusal(rejoin(&consumer("c"), &id), GroupError::UnknownMemberId);
    refusal(
        rejoin(&static_consumer("i"), &id),
        GroupError::UnknownMemberId,
    );
}

#[rstest]
#[case::other_type("connect", &["range"])]
#[case::no_common_protocol("consumer", &["roundrobin"])]
fn a_member_that_does_not_fit_the_others_is_refused_alone(
    #[case] protocol_type: &str,
    #[case] names: &[&str],
) {
    let mut world = World::new();
    let members = world.stable(&[consumer("a"), consumer("b")]);
    let stranger = JoinRequest {
        protocol_type: protocol_type.into(),
        protocols: offers(names),
        ..consumer("c")
    };
    let token = world.join(stranger);
    assert_eq!(
        world.refused(token).error,
        GroupError::InconsistentGroupProtocol
    );
    assert_eq!(world.heartbeat(&members[0]), Ok(()));
}

#[test]
fn a_protocol_only_some_members_support_does_not_admit() {
    let mut world = World::new();
    let both = JoinRequest {
        protocols: offers(&["range", "sticky"]),
        ..old_consumer("a")
    };
    world.join(both);
    world.join(old_consumer("b"));
    let sticky = JoinRequest {
        protocols: offers(&["sticky"]),
        ..old_consumer("c")
    };
    let token = world.join(sticky);
    assert_eq!(
        world.refused(token).error,
        GroupError::InconsistentGroupProtocol
    );
}

#[test]
fn from_v4_a_new_member_is_given_its_id_first() {
    let mut world = World::new();
    let request = consumer("app");
    let id = world.id_for(&request);
    assert!(id.as_str().starts_with("app-"));
    assert_eq!(world.group.state(), GroupState::Empty);
    assert!(!world.group.is_idle());
    let token = world.join(rejoin(&request, &id));
    world.advance(DELAY);
    assert_eq!(world.joined(token).member_id, id);
}

#[test]
fn below_v4_a_new_member_is_admitted_at_once() {
    let mut world = World::new();
    let token = world.join(old_consumer("app"));
    assert!(world.is_parked(token));
    world.advance(DELAY);
    let joined = world.joined(token);
    assert!(joined.member_id.as_str().starts_with("app-"));
    assert_eq!(joined.leader, joined.member_id);
    assert_eq!(joined.generation_id, GenerationId(1));
}

#[test]
fn a_static_member_is_admitted_at_once_and_named_after_its_instance() {
    let mut world = World::new();
    let token = world.join(static_consumer("instance-7"));
    world.advance(DELAY);
    assert!(
        world
            .joined(token)
            .member_id
            .as_str()
            .starts_with("instance-7-")
    );
}

#[test]
fn an_id_that_is_not_used_within_the_session_timeout_expires() {
    let mut world = World::new();
    let request = consumer("c");
    let id = world.id_for(&request);
    world.advance(SESSION);
    assert!(world.group.is_idle());
    let token = world.join(rejoin(&request, &id));
    assert_eq!(world.refused(token).error, GroupError::UnknownMemberId);
}

#[test]
fn a_given_id_holds_a_rebalance_open_until_it_joins() {
    let mut world = World::new();
    let members = world.stable(&[consumer("a")]);
    let late = consumer("b");
    let id = world.id_for(&late);
    let leader = world.join(rejoin(&consumer("a"), &members[0].member_id));
    assert!(world.is_parked(leader));
    let follower = world.join(rejoin(&late, &id));
    assert_eq!(world.joined(leader).members.len(), 2);
    assert_eq!(world.joined(follower).members.len(), 0);
}

#[test]
fn a_given_id_that_expires_lets_the_rebalance_close() {
    let mut world = World::new();
    let members = world.stable(&[consumer("a")]);
    world.id_for(&consumer("b"));
    let leader = world.join(rejoin(&consumer("a"), &members[0].member_id));
    world.advance(SESSION);
    assert_eq!(world.joined(leader).members.len(), 1);
}

#[test]
fn given_ids_are_bounded_and_the_oldest_goes_first() {
    let settings = Settings {
        max_size: 2,
        ..Settings::default()
    };
    let mut world = World::with(settings);
    let request = consumer("c");
    let ids: Vec<_> = (0..3).map(|_| world.id_for(&request)).collect();
    let oldest = world.join(rejoin(&request, &ids[0]));
    assert_eq!(world.refused(oldest).error, GroupError::UnknownMemberId);
    let newest = world.join(rejoin(&request, &ids[2]));
    assert!(world.is_parked(newest));
}

#[test]
fn a_full_group_refuses_new_members_and_keeps_its_own() {
    let settings = Settings {
        max_size: 2,
        ..Settings::default()
    };
    let mut world = World::with(settings);
    let members = world.stable(&[consumer("a"), consumer("b")]);
    let token = world.join(consumer("c"));
    let refusal = world.refused(token);
    assert_eq!(refusal.error, GroupError::GroupMaxSizeReached);
    assert!(refusal.member_id.is_unknown());
    let token = world.join(rejoin(&consumer("b"), &members[1].member_id));
    assert_eq!(world.joined(token).generation_id, GenerationId(1));
}

#[test]
fn while_preparing_the_last_to_rejoin_a_full_group_is_left_out() {
    let settings = Settings {
        max_size: 2,
        ..Settings::default()
    };
    let mut world = World::with(settings);
    let parked: Vec<_> = (0..2).map(|_| world.join(old_consumer("c"))).collect();
    let third = world.join(old_consumer("c"));
    assert_eq!(world.refused(third).error, GroupError::GroupMaxSizeReached);
    world.form();
    for token in parked {
        assert_eq!(world.joined(token).generation_id, GenerationId(1));
    }
}

#[test]
fn a_member_given_its_id_before_the_group_filled_up_is_refused() {
    let settings = Settings {
        max_size: 1,
        ..Settings::default()
    };
    let mut world = World::with(settings);
    let late = consumer("late");
    let id = world.id_for(&late);
    world.stable(&[old_consumer("a")]);
    // Its id has expired meanwhile or not: either way it hears that there is no room.
    let token = world.join(rejoin(&late, &id));
    assert_eq!(world.refused(token).error, GroupError::GroupMaxSizeReached);
}

#[test]
fn metadata_beyond_the_budget_finds_the_group_full() {
    let settings = Settings {
        max_metadata_bytes: 2000,
        ..Settings::default()
    };
    let mut world = World::with(settings);
    world.join(old_consumer("a"));
    let large = JoinRequest {
        protocols: Protocols::copy_of([("range", [0; 2000].as_slice())]),
        ..old_consumer("b")
    };
    let token = world.join(large);
    assert_eq!(world.refused(token).error, GroupError::GroupMaxSizeReached);
}

#[test]
fn a_repeated_protocol_name_counts_once() {
    let mut world = World::new();
    let twice = JoinRequest {
        protocols: Protocols::copy_of([("range", b"1".as_slice()), ("range", b"2")]),
        ..old_consumer("a")
    };
    let token = world.join(twice);
    world.advance(DELAY);
    assert_eq!(&world.joined(token).members[0].metadata[..], b"1");
}

#[test]
fn the_client_reason_is_kept_for_the_log_and_cut() {
    let mut world = World::new();
    let request = JoinRequest {
        reason: Some("é".repeat(300)),
        ..old_consumer("a")
    };
    world.join(request);
    let Some(Note::PreparingRebalance {
        cause: Cause::NewMember(_, Some(reason)),
        ..
    }) = world.notes.last()
    else {
        panic!("{:?}", world.notes)
    };
    assert_eq!(reason.len(), 256);
}
