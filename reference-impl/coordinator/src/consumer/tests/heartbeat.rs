//! Join, reconcile, fence, leave.

use rstest::rstest;

use super::world::{REBALANCE, SESSION, World, beat, id, joining, secs};
use crate::classic::{GenerationId, MemberId, MemberRef};
use crate::consumer::*;

fn none() -> Partitions {
    Partitions::new()
}

/// `a` owns all of `t`, at epoch 1.
fn one_member(width: i32) -> (World, Partitions) {
    let mut world = World::new(&[("t", width)]);
    let joined = world.heartbeat(&joining("a", &["t"])).unwrap();
    assert_eq!(joined.member_epoch, Epoch(1));
    let all = joined.assignment.unwrap();
    (world, all)
}

#[test]
fn a_first_member_gets_everything_at_once() {
    let (mut world, all) = one_member(3);
    assert_eq!(all, world.partitions("t", 0..3));
    assert_eq!(world.group.state(), GroupState::Stable);
    let next = world.heartbeat(&beat("a", 1, None)).unwrap();
    assert_eq!((next.member_epoch, next.assignment), (Epoch(1), None));
    assert_eq!(next.heartbeat_interval, secs(5));
}

#[test]
fn a_partition_moves_only_after_its_owner_gave_it_up() {
    let (mut world, all) = one_member(2);
    let joined = world.heartbeat(&joining("b", &["t"])).unwrap();
    assert_eq!(
        (joined.member_epoch, joined.assignment),
        (Epoch(2), Some(none()))
    );

    let told = world.beat("a", 1, &all);
    let kept = told.assignment.unwrap();
    assert_eq!(
        (told.member_epoch, kept.len()),
        (Epoch(1), 1),
        "it must revoke first"
    );
    assert_eq!(world.group.state(), GroupState::Reconciling);
    let waits = world.beat("b", 2, &none());
    assert_eq!((waits.member_epoch, waits.assignment), (Epoch(2), None));
    // Without a word of what it owns, it is taken to own all it had.
    let silent = world.heartbeat(&beat("a", 1, None)).unwrap();
    assert_eq!(silent.member_epoch, Epoch(1));

    let moved_on = world.beat("a", 1, &kept);
    assert_eq!(
        (moved_on.member_epoch, moved_on.assignment),
        (Epoch(2), None)
    );
    let got = world.beat("b", 2, &none()).assignment.unwrap();
    assert_eq!(got.len(), 1);
    assert!(got.is_disjoint(&kept));
    assert_eq!(world.group.state(), GroupState::Stable);
}

#[test]
fn an_answer_that_was_lost_does_not_fence() {
    let (mut world, all) = one_member(2);
    world.heartbeat(&joining("b", &["t"])).unwrap();
    let kept = world.beat("a", 1, &all).assignment.unwrap();
    assert_eq!(world.beat("a", 1, &kept).member_epoch, Epoch(2));
    assert_eq!(
        world.beat("a", 1, &kept).member_epoch,
        Epoch(2),
        "the same again"
    );
    let fenced = world.heartbeat(&beat("a", 1, Some(&all)));
    assert_eq!(
        fenced,
        Err(Error::FencedMemberEpoch {
            received: Epoch(1),
            known: Epoch(2)
        }),
        "it owns what it had to give up"
    );
    let first_again = world.heartbeat(&joining("b", &["t"])).unwrap();
    assert_eq!(first_again.member_id, id("b"));
    assert_eq!(first_again.assignment.unwrap().len(), 1);
}

#[rstest]
#[case::ahead(9)]
#[case::behind(1)]
fn another_epoch_is_fenced(#[case] epoch: i32) {
    let (mut world, _) = one_member(2);
    for name in ["b", "c", "d"] {
        world.heartbeat(&joining(name, &["t"])).unwrap();
    }
    let owned = none();
    // `a` has moved to epoch 4: it may be one behind, with what it owns now, and no more.
    world.beat("a", 1, &owned);
    world.heartbeat(&joining("e", &["t"])).unwrap();
    world.beat("a", 4, &owned);
    let answer = world.heartbeat(&beat("a", epoch, Some(&owned)));
    assert!(
        matches!(answer, Err(Error::FencedMemberEpoch { .. })),
        "{answer:?}"
    );
}

#[test]
fn who_is_not_there_is_unknown() {
    let (mut world, _) = one_member(1);
    assert_eq!(
        world.heartbeat(&beat("x", 1, None)),
        Err(Error::UnknownMemberId)
    );
    assert_eq!(
        world.heartbeat(&beat("x", -1, None)),
        Err(Error::UnknownMemberId)
    );
}

#[test]
fn a_member_that_rejoins_has_given_up_everything() {
    let (mut world, all) = one_member(4);
    world.heartbeat(&joining("b", &["t"])).unwrap();
    world.beat("a", 1, &all);
    // It lost track and joins again, without having said that it revoked.
    let rejoined = world.heartbeat(&joining("a", &["t"])).unwrap();
    assert_eq!(rejoined.member_epoch, Epoch(2));
    assert_eq!(rejoined.assignment.unwrap().len(), 2);
    assert_eq!(world.beat("b", 2, &none()).assignment.unwrap().len(), 2);
}

#[test]
fn a_member_that_leaves_frees_its_partitions() {
    let (mut world, all) = one_member(2);
    world.heartbeat(&joining("b", &["t"])).unwrap();
    let left = world.heartbeat(&beat("a", -1, None)).unwrap();
    assert_eq!(left.member_epoch, Epoch::LEAVE);
    assert_eq!(world.group.state(), GroupState::Assigning);
    let got = world.beat("b", 2, &none());
    assert_eq!((got.member_epoch, got.assignment), (Epoch(3), Some(all)));
    world.heartbeat(&beat("b", -1, None)).unwrap();
    assert_eq!(world.group.state(), GroupState::Empty);
    assert_eq!(world.group.next_deadline(), None);
}

#[test]
fn a_silent_member_is_fenced_after_its_session() {
    let (mut world, all) = one_member(2);
    world.advance(secs(1));
    world.heartbeat(&joining("b", &["t"])).unwrap();
    world.advance(SESSION - secs(1));
    assert_eq!(world.beat("b", 2, &none()).assignment, Some(all));
    let expired = Cause::SessionExpired(id("a"));
    let gone = Note::MemberRemoved {
        member_id: id("a"),
        cause: expired,
    };
    assert!(world.notes.contains(&gone));
}

#[test]
fn a_member_that_never_revokes_is_fenced_after_its_rebalance_timeout() {
    let (mut world, all) = one_member(2);
    world.heartbeat(&joining("b", &["t"])).unwrap();
    world.beat("a", 1, &all);
    for _ in 0..6 {
        world.advance(REBALANCE / 6 - secs(1));
        assert_eq!(
            world.beat("a", 1, &all).member_epoch,
            Epoch(1),
            "still alive"
        );
        assert_eq!(world.beat("b", 2, &none()).assignment, None);
    }
    world.advance(secs(6));
    assert_eq!(
        world.heartbeat(&beat("a", 1, Some(&all))),
        Err(Error::UnknownMemberId)
    );
    assert_eq!(world.beat("b", 2, &none()).assignment, Some(all));
}

#[test]
fn a_full_group_takes_nobody_else() {
    let settings = Settings {
        max_size: 1,
        ..Settings::default()
    };
    let mut world = World::with(settings, &[("t", 1)]);
    world.heartbeat(&joining("a", &["t"])).unwrap();
    assert_eq!(
        world.heartbeat(&joining("b", &["t"])),
        Err(Error::GroupMaxSizeReached)
    );
    assert!(world.heartbeat(&joining("a", &["t"])).is_ok(), "it is in");
    let settings = Settings {
        max_metadata_bytes: 2000,
        ..Settings::default()
    };
    let mut world = World::with(settings, &[("t", 1)]);
    world.heartbeat(&joining("a", &["t"])).unwrap();
    let long = "x".repeat(2000);
    assert_eq!(
        world.heartbeat(&joining("b", &[&long])),
        Err(Error::GroupMaxSizeReached)
    );
    let wider = HeartbeatRequest {
        member_epoch: Epoch(1),
        ..joining("a", &[&long])
    };
    assert_eq!(world.heartbeat(&wider), Err(Error::GroupMaxSizeReached));
    assert_eq!(
        world.heartbeat(&beat("a", 1, None)).unwrap().member_epoch,
        Epoch(1)
    );
}

#[test]
fn a_full_request_hears_its_assignment_again() {
    let (mut world, all) = one_member(2);
    let full = HeartbeatRequest {
        member_epoch: Epoch(1),
        owned: Some(all.clone()),
        ..joining("a", &["t"])
    };
    assert_eq!(world.heartbeat(&full).unwrap().assignment, Some(all));
}

#[test]
fn a_changed_subscription_takes_the_old_topic_away() {
    let mut world = World::new(&[("t", 2), ("u", 2)]);
    let had = world
        .heartbeat(&joining("a", &["t"]))
        .unwrap()
        .assignment
        .unwrap();
    let changed = HeartbeatRequest {
        member_epoch: Epoch(1),
        owned: Some(had),
        ..joining("a", &["u"])
    };
    let told = world.heartbeat(&changed).unwrap();
    assert_eq!(
        (told.member_epoch, told.assignment),
        (Epoch(1), Some(none()))
    );
    let moved = world.beat("a", 1, &none());
    assert_eq!(moved.member_epoch, Epoch(2));
    assert_eq!(moved.assignment, Some(world.partitions("u", 0..2)));
}

#[test]
fn the_assignor_most_members_prefer_is_used() {
    let mut world = World::new(&[("t", 4)]);
    for name in ["a", "b"] {
        let request = HeartbeatRequest {
            server_assignor: Some("range".into()),
            ..joining(name, &["t"])
        };
        world.heartbeat(&request).unwrap();
    }
    let request = HeartbeatRequest {
        server_assignor: Some("uniform".into()),
        ..joining("c", &["t"])
    };
    world.heartbeat(&request).unwrap();
    assert_eq!(world.group.describe().assignor, Assignor::Range);
}

#[test]
fn a_member_of_version_0_gets_an_id() {
    let mut world = World::new(&[("t", 1)]);
    let request = HeartbeatRequest {
        member_id: MemberId::unknown(),
        member_id_required: false,
        ..joining("", &["t"])
    };
    let joined = world.heartbeat(&request).unwrap();
    assert!(!joined.member_id.is_unknown());
    assert_eq!(joined.assignment.unwrap().len(), 1);
}

type Change = fn(&mut HeartbeatRequest);

#[rstest]
#[case::no_id(|r: &mut HeartbeatRequest| r.member_id = MemberId::unknown())]
#[case::empty_instance(|r: &mut HeartbeatRequest| r.instance_id = Some(crate::classic::InstanceId::new("")))]
#[case::empty_rack(|r: &mut HeartbeatRequest| r.rack_id = Some("".into()))]
#[case::no_timeout(|r: &mut HeartbeatRequest| r.rebalance_timeout = None)]
#[case::owned_missing(|r: &mut HeartbeatRequest| r.owned = None)]
#[case::owned_not_empty(|r: &mut HeartbeatRequest| { r.owned.as_mut().unwrap().insert(TopicPartition::new(uuid::Uuid::from_u128(1), 0)); })]
#[case::no_subscription(|r: &mut HeartbeatRequest| r.subscribed_topic_names = None)]
#[case::static_leave_without_instance(|r: &mut HeartbeatRequest| r.member_epoch = Epoch::LEAVE_STATIC)]
#[case::strange_epoch(|r: &mut HeartbeatRequest| r.member_epoch = Epoch(-3))]
fn a_request_that_does_not_fit_is_refused(#[case] change: Change) {
    let mut world = World::new(&[("t", 1)]);
    let mut request = joining("a", &["t"]);
    change(&mut request);
    let answer = world.heartbeat(&request);
    assert!(
        matches!(answer, Err(Error::InvalidRequest(_))),
        "{answer:?}"
    );
    assert_eq!(world.group.state(), GroupState::Empty);
}

#[test]
fn an_unknown_assignor_is_refused() {
    let mut world = World::new(&[("t", 1)]);
    let request = HeartbeatRequest {
        server_assignor: Some("sticky".into()),
        ..joining("a", &["t"])
    };
    assert_eq!(world.heartbeat(&request), Err(Error::UnsupportedAssignor));
}

fn commit(name: &str, epoch: i32) -> MemberRef {
    MemberRef {
        member_id: MemberId::new(name),
        instance_id: None,
        generation_id: GenerationId(epoch),
    }
}

#[test]
fn commits_are_judged_by_epoch_and_partition() {
    let (mut world, all) = one_member(2);
    let check = |world: &World, name, epoch, version9| {
        world
            .group
            .validate_offset_commit(&commit(name, epoch), version9, false)
    };
    assert_eq!(check(&world, "a", 1, true), Ok(CommitScope::All));
    assert_eq!(check(&world, "a", 1, false), Err(Error::UnsupportedVersion));
    assert_eq!(check(&world, "a", 2, true), Err(Error::StaleMemberEpoch));
    assert_eq!(check(&world, "x", 1, true), Err(Error::UnknownMemberId));
    assert_eq!(check(&world, "", -1, true), Err(Error::UnknownMemberId));

    world.heartbeat(&joining("b", &["t"])).unwrap();
    let kept = world.beat("a", 1, &all).assignment.unwrap();
    let given_up = *all.difference(&kept).next().unwrap();
    let kept_one = *kept.first().unwrap();
    assert!(
        world.group.owned_since(&id("a"), Epoch(1), &given_up),
        "it may commit as it revokes"
    );
    world.beat("a", 1, &kept);
    assert_eq!(check(&world, "a", 1, true), Ok(CommitScope::Owned));
    assert!(world.group.owned_since(&id("a"), Epoch(1), &kept_one));
    assert!(!world.group.owned_since(&id("a"), Epoch(1), &given_up));
    world.beat("b", 2, &none());
    assert!(world.group.owned_since(&id("b"), Epoch(2), &given_up));
    assert!(
        !world.group.owned_since(&id("b"), Epoch(1), &given_up),
        "not yet its own then"
    );

    let fetch = |name, epoch| {
        world
            .group
            .validate_offset_fetch(Some(&id(name)), Epoch(epoch))
    };
    assert_eq!(fetch("a", 2), Ok(()));
    assert_eq!(fetch("a", 1), Err(Error::StaleMemberEpoch));
    assert_eq!(fetch("x", 2), Err(Error::UnknownMemberId));
    assert_eq!(world.group.validate_offset_fetch(None, Epoch(-1)), Ok(()));
}

#[test]
fn an_empty_group_takes_commits_from_outside_and_can_be_deleted() {
    let (mut world, _) = one_member(1);
    assert_eq!(world.group.handle_delete(), Err(Error::NonEmptyGroup));
    world.heartbeat(&beat("a", -1, None)).unwrap();
    let outside = world
        .group
        .validate_offset_commit(&commit("", -1), true, false);
    assert_eq!(outside, Ok(CommitScope::All));
    assert_eq!(world.group.handle_delete(), Ok(()));
    let late = world.heartbeat(&joining("a", &["t"]));
    assert_eq!(late, Err(Error::CoordinatorNotAvailable));
}

#[test]
fn a_stopping_coordinator_takes_commits_and_lets_go() {
    let (mut world, all) = one_member(1);
    world.group.handle_stop();
    let answer = world.heartbeat(&beat("a", 1, Some(&all)));
    assert_eq!(answer, Err(Error::CoordinatorNotAvailable));
    assert_eq!(world.group.next_deadline(), None);
    let commit = world
        .group
        .validate_offset_commit(&commit("a", 1), true, false);
    assert_eq!(commit, Ok(CommitScope::All));
    assert!(world.heartbeat(&beat("a", -1, None)).is_ok());
}
