//! Members with an instance id (KIP-345 in the new protocol).

use super::world::{SESSION, World, as_static, beat, id, joining, secs};
use crate::consumer::*;

fn world() -> (World, Partitions) {
    let mut world = World::new(&[("t", 2)]);
    let joined = world
        .heartbeat(&as_static(joining("a", &["t"]), "i"))
        .unwrap();
    world.heartbeat(&joining("z", &["t"])).unwrap();
    let all = joined.assignment.unwrap();
    let kept = world
        .heartbeat(&as_static(beat("a", 1, Some(&all)), "i"))
        .unwrap();
    let kept = kept.assignment.unwrap();
    world
        .heartbeat(&as_static(beat("a", 1, Some(&kept)), "i"))
        .unwrap();
    world.beat("z", 2, &Partitions::new());
    assert_eq!(world.group.state(), GroupState::Stable);
    (world, kept)
}

#[test]
fn one_that_leaves_for_a_while_keeps_its_partitions_for_its_next_process() {
    let (mut world, kept) = world();
    let left = world
        .heartbeat(&as_static(beat("a", -2, None), "i"))
        .unwrap();
    assert_eq!(left.member_epoch, Epoch::LEAVE_STATIC);
    assert_eq!(
        world.beat("z", 2, &Partitions::new()).member_epoch,
        Epoch(2),
        "no rebalance"
    );

    let back = world
        .heartbeat(&as_static(joining("b", &["t"]), "i"))
        .unwrap();
    assert_eq!((back.member_epoch, back.assignment), (Epoch(2), Some(kept)));
    assert_eq!(
        world.group.group_epoch(),
        Epoch(2),
        "the same subscription, no rebalance"
    );
    assert_eq!(world.group.state(), GroupState::Stable);
    let old = world.heartbeat(&as_static(beat("a", 2, None), "i"));
    assert_eq!(old, Err(Error::FencedInstanceId));
}

#[test]
fn one_that_does_not_come_back_loses_them_with_its_session() {
    let (mut world, _) = world();
    world
        .heartbeat(&as_static(beat("a", -2, None), "i"))
        .unwrap();
    world.advance(SESSION - secs(1));
    world.beat("z", 2, &Partitions::new());
    world.advance(secs(1));
    let got = world.beat("z", 2, &world.partitions("t", [1]));
    assert_eq!(got.assignment.unwrap().len(), 2);
}

#[test]
fn a_live_instance_is_not_taken_over() {
    let (mut world, _) = world();
    let second = world.heartbeat(&as_static(joining("b", &["t"]), "i"));
    assert_eq!(second, Err(Error::UnreleasedInstanceId));
    let unknown = world.heartbeat(&as_static(beat("a", 2, None), "j"));
    assert_eq!(unknown, Err(Error::UnknownMemberId));
    let same = world.heartbeat(&as_static(joining("a", &["t"]), "i"));
    assert!(same.is_ok(), "it is the same process, which lost track");
}

#[test]
fn one_that_leaves_for_good_is_gone() {
    let (mut world, _) = world();
    let fenced = world.heartbeat(&as_static(beat("x", -1, None), "i"));
    assert_eq!(fenced, Err(Error::FencedInstanceId));
    world
        .heartbeat(&as_static(beat("a", -1, None), "i"))
        .unwrap();
    let got = world.beat("z", 2, &world.partitions("t", [1]));
    assert_eq!(got.assignment.unwrap().len(), 2);
    let back = world
        .heartbeat(&as_static(joining("a", &["t"]), "i"))
        .unwrap();
    assert_eq!(back.member_id, id("a"));
}
