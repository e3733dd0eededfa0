//! Members of the classic protocol among members of the new one.

use super::world::{REBALANCE, World, beat, classic_join, id, joining, secs};
use crate::classic::{GroupError, InstanceId, JoinRequest, LeavingMember, MemberId};
use crate::consumer::*;

fn generation(joined: &crate::classic::Joined) -> i32 {
    joined.generation_id.0
}

/// `n` of the new protocol owns `t`; `c` of the classic one has joined and waits.
fn mixed() -> (World, Partitions, i32) {
    let mut world = World::new(&[("t", 2)]);
    let all = world
        .heartbeat(&joining("n", &["t"]))
        .unwrap()
        .assignment
        .unwrap();
    let joined = world.join(classic_join("c", &["t"], &[])).unwrap();
    assert_eq!(joined.protocol_name.as_deref(), Some("cooperative-sticky"));
    assert!(
        joined.leader.is_unknown() && joined.members.is_empty(),
        "nobody leads"
    );
    let generation = generation(&joined);
    (world, all, generation)
}

#[test]
fn a_classic_member_is_assigned_by_the_coordinator() {
    let (mut world, all, generation) = mixed();
    assert_eq!(generation, 2);
    assert_eq!(world.sync("c", 2).unwrap(), []);
    assert_eq!(world.classic_beat("c", 2), Ok(()), "nothing is free yet");
    let kept = world.beat("n", 1, &all).assignment.unwrap();
    world.beat("n", 1, &kept);
    assert_eq!(
        world.classic_beat("c", 2),
        Err(GroupError::RebalanceInProgress),
        "now there is"
    );
    let again = world.join(classic_join("c", &["t"], &[])).unwrap();
    let got = world.sync("c", again.generation_id.0).unwrap();
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].1.len(), 1);
    assert_eq!(world.group.state(), GroupState::Stable);
    assert!(world.group.describe().members[0].is_classic);
}

#[test]
fn a_classic_member_revokes_when_it_says_so_in_its_join() {
    let mut world = World::new(&[("t", 2)]);
    world.heartbeat(&joining("n", &["t"])).unwrap();
    world.join(classic_join("c", &["t"], &[])).unwrap();
    world.heartbeat(&beat("n", -1, None)).unwrap();
    assert_eq!(
        world.classic_beat("c", 2),
        Err(GroupError::RebalanceInProgress)
    );
    let joined = world.join(classic_join("c", &["t"], &[])).unwrap();
    assert_eq!(world.sync("c", generation(&joined)).unwrap()[0].1, [0, 1]);

    world.heartbeat(&joining("m", &["t"])).unwrap();
    assert_eq!(
        world.classic_beat("c", 3),
        Err(GroupError::RebalanceInProgress)
    );
    let owns_all = [("t", vec![0, 1])];
    let joined = world.join(classic_join("c", &["t"], &owns_all)).unwrap();
    assert_eq!(generation(&joined), 3, "it must revoke first");
    let kept = world.sync("c", 3).unwrap()[0].1.clone();
    assert_eq!(kept.len(), 1);
    assert_eq!(
        world.classic_beat("c", 3),
        Err(GroupError::RebalanceInProgress)
    );
    let owns_one = [("t", kept.clone())];
    let joined = world.join(classic_join("c", &["t"], &owns_one)).unwrap();
    assert_eq!(generation(&joined), 4);
    assert_eq!(world.sync("c", 4).unwrap()[0].1, kept);
    assert_eq!(
        world
            .beat("m", 4, &Partitions::new())
            .assignment
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn a_dynamic_classic_member_first_gets_its_id() {
    let mut world = World::new(&[("t", 2)]);
    world.heartbeat(&joining("n", &["t"])).unwrap();
    let first = JoinRequest {
        member_id: MemberId::unknown(),
        ..classic_join("", &["t"], &[])
    };
    assert_eq!(world.join(first.clone()), Err(GroupError::MemberIdRequired));
    let old = JoinRequest {
        require_known_member_id: false,
        ..first
    };
    assert!(world.join(old).is_ok());
    assert_eq!(world.group.overview().members, 2);
}

#[test]
fn what_a_classic_group_refuses_is_refused() {
    let (mut world, _, _) = mixed();
    let other_type = JoinRequest {
        protocol_type: "connect".into(),
        ..classic_join("d", &["t"], &[])
    };
    assert_eq!(
        world.join(other_type),
        Err(GroupError::InconsistentGroupProtocol)
    );
    let mut other_name = classic_join("d", &["t"], &[]);
    let metadata = super::world::metadata(&["t"], &[]);
    other_name.protocols = crate::classic::Protocols::copy_of([("range", &*metadata)]);
    assert_eq!(
        world.join(other_name),
        Err(GroupError::InconsistentGroupProtocol)
    );
    let mut garbage = classic_join("d", &["t"], &[]);
    garbage.protocols =
        crate::classic::Protocols::copy_of([("cooperative-sticky", b"\xff".as_slice())]);
    assert_eq!(
        world.join(garbage),
        Err(GroupError::InconsistentGroupProtocol)
    );
    let short = JoinRequest {
        session_timeout: secs(1),
        ..classic_join("d", &["t"], &[])
    };
    assert_eq!(world.join(short), Err(GroupError::InvalidSessionTimeout));

    assert_eq!(world.sync("c", 9), Err(GroupError::IllegalGeneration));
    assert_eq!(
        world.sync("n", 1),
        Err(GroupError::UnknownMemberId),
        "not a classic member"
    );
    assert_eq!(world.classic_beat("x", 2), Err(GroupError::UnknownMemberId));
    world.heartbeat(&joining("m", &["t"])).unwrap();
    assert_eq!(world.sync("c", 2), Err(GroupError::RebalanceInProgress));
}

#[test]
fn one_that_never_collects_its_assignment_is_fenced() {
    let (mut world, _, _) = mixed();
    for _ in 0..6 {
        world.advance(REBALANCE / 6);
        if world.heartbeat(&beat("n", 1, None)).is_err() {
            break;
        }
        // Alive, but it does not sync.
        let _ = world.classic_beat("c", 2);
    }
    assert_eq!(world.classic_beat("c", 2), Err(GroupError::UnknownMemberId));
    let gone = Note::MemberRemoved {
        member_id: id("c"),
        cause: Cause::DidNotSync(id("c")),
    };
    assert!(world.notes.contains(&gone), "{:?}", world.notes);
}

#[test]
fn one_that_never_rejoins_is_fenced() {
    let (mut world, _, _) = mixed();
    world.sync("c", 2).unwrap();
    world.heartbeat(&joining("m", &["t"])).unwrap();
    for _ in 0..7 {
        let _ = world.classic_beat("c", 2);
        world.heartbeat(&beat("n", 1, None)).unwrap();
        let _ = world.heartbeat(&beat("m", 3, None));
        world.advance(REBALANCE / 6 - secs(1));
    }
    assert_eq!(world.classic_beat("c", 2), Err(GroupError::UnknownMemberId));
    let gone = Note::MemberRemoved {
        member_id: id("c"),
        cause: Cause::DidNotRejoin(id("c")),
    };
    assert!(world.notes.contains(&gone), "{:?}", world.notes);
}

#[test]
fn members_of_both_protocols_may_be_removed_by_leave_group() {
    let (mut world, _, _) = mixed();
    let leaving = |name: &str| LeavingMember {
        member_id: id(name),
        instance_id: None,
        reason: Some("admin".to_owned()),
    };
    let verdicts = world
        .group
        .handle_leave(&[leaving("c"), leaving("x"), leaving("n")]);
    world.settle();
    assert_eq!(
        verdicts,
        Ok(vec![Ok(()), Err(GroupError::UnknownMemberId), Ok(())])
    );
    assert_eq!(world.group.state(), GroupState::Empty);
}

#[test]
fn a_static_member_changes_its_protocol_in_place() {
    let mut world = World::new(&[("t", 2)]);
    world.heartbeat(&joining("n", &["t"])).unwrap();
    let instance = Some(InstanceId::new("i"));
    let static_join = JoinRequest {
        member_id: MemberId::unknown(),
        instance_id: instance.clone(),
        ..classic_join("", &["t"], &[])
    };
    let old = world.join(static_join.clone()).unwrap().member_id;
    let upgraded = HeartbeatRequest {
        instance_id: instance.clone(),
        ..joining("s", &["t"])
    };
    assert_eq!(world.heartbeat(&upgraded).unwrap().member_epoch, Epoch(2));
    assert_eq!(
        world.classic_beat(old.as_str(), 2),
        Err(GroupError::UnknownMemberId)
    );
    assert_eq!(world.group.overview().members, 2);
    let known = JoinRequest {
        member_id: id("other"),
        ..static_join.clone()
    };
    assert_eq!(world.join(known), Err(GroupError::FencedInstanceId));
    let back = world.join(static_join).unwrap();
    assert_eq!(generation(&back), 2);
    assert_eq!(world.group.overview().members, 2);
}

#[test]
fn classic_members_alone_notice_topics() {
    let mut world = World::new(&[("t", 1)]);
    world.heartbeat(&joining("n", &["t"])).unwrap();
    world.join(classic_join("c", &["t"], &[])).unwrap();
    world.heartbeat(&beat("n", -1, None)).unwrap();
    let joined = world.join(classic_join("c", &["t"], &[])).unwrap();
    world.sync("c", generation(&joined)).unwrap();
    assert_eq!(world.classic_beat("c", 3), Ok(()));
    world.widen("t", 2);
    assert_eq!(
        world.classic_beat("c", 3),
        Err(GroupError::RebalanceInProgress)
    );
    let owned = [("t", vec![0])];
    let joined = world.join(classic_join("c", &["t"], &owned)).unwrap();
    let got = world.sync("c", generation(&joined)).unwrap();
    assert_eq!(got[0].1, [0, 1]);
}
