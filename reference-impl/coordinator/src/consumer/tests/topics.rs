//! Topics come, go and grow; patterns.

use rstest::rstest;

use super::world::{World, beat, joining, joining_by, secs};
use crate::consumer::*;

#[test]
fn a_widened_topic_is_assigned_whole() {
    let mut world = World::new(&[("t", 1)]);
    let had = world
        .heartbeat(&joining("a", &["t"]))
        .unwrap()
        .assignment
        .unwrap();
    world.widen("t", 3);
    let got = world.beat("a", 1, &had);
    assert_eq!(
        (got.member_epoch, got.assignment),
        (Epoch(2), Some(world.partitions("t", 0..3)))
    );
}

#[test]
fn a_topic_that_is_made_later_is_assigned_when_it_is_there() {
    let mut world = World::new(&[]);
    let joined = world.heartbeat(&joining("a", &["t"])).unwrap();
    assert_eq!(joined.assignment, Some(Partitions::new()));
    world.create("t", 2);
    assert_eq!(
        world
            .beat("a", 1, &Partitions::new())
            .assignment
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn a_deleted_topic_is_taken_away_and_a_new_one_of_its_name_is_another() {
    let mut world = World::new(&[("t", 2)]);
    let had = world
        .heartbeat(&joining("a", &["t"]))
        .unwrap()
        .assignment
        .unwrap();
    world.delete("t");
    let told = world.beat("a", 1, &had);
    assert_eq!(told.assignment, Some(Partitions::new()));
    world.create("t", 2);
    let got = world.beat("a", 1, &Partitions::new()).assignment.unwrap();
    assert_eq!(got, world.partitions("t", 0..2));
    assert!(got.is_disjoint(&had));
}

#[test]
fn an_unchanged_reading_changes_nothing() {
    let mut world = World::new(&[("t", 2), ("other", 1)]);
    world.heartbeat(&joining("a", &["t"])).unwrap();
    world.widen("other", 5);
    world.look();
    assert_eq!(
        world.heartbeat(&beat("a", 1, None)).unwrap().member_epoch,
        Epoch(1)
    );
}

#[test]
fn topics_that_cannot_be_read_take_nothing_away() {
    let mut world = World::new(&[("t", 2)]);
    world.readable = false;
    let joined = world.heartbeat(&joining("a", &["t"])).unwrap();
    assert_eq!(
        joined.assignment,
        Some(Partitions::new()),
        "nothing is known yet"
    );
    world.readable = true;
    let got = world.beat("a", 1, &Partitions::new()).assignment.unwrap();
    assert_eq!(got.len(), 2);
    world.readable = false;
    let joined = world.heartbeat(&joining("b", &["t"])).unwrap();
    assert_eq!(joined.member_epoch, Epoch(3));
    assert_eq!(world.beat("a", 2, &got).assignment.unwrap().len(), 1);
}

#[test]
fn a_pattern_subscribes_to_what_matches_and_to_what_comes() {
    let mut world = World::new(&[("t-1", 1), ("t-2", 1), ("u", 1)]);
    let got = world
        .heartbeat(&joining_by("a", "t-.*"))
        .unwrap()
        .assignment
        .unwrap();
    assert_eq!(got.len(), 2);
    world.create("t-3", 1);
    assert_eq!(
        world.beat("a", 1, &got).assignment,
        None,
        "patterns do not look all the time"
    );
    world.advance(secs(10));
    let more = world.beat("a", 1, &got).assignment.unwrap();
    assert_eq!(more.len(), 3);
    assert!(world.group.is_subscribed_to("t-3"));
    assert!(!world.group.is_subscribed_to("u"));
    world.widen("t-3", 4);
    assert_eq!(
        world.beat("a", 2, &more).assignment.unwrap().len(),
        6,
        "but widths do"
    );
    assert_eq!(
        &*world.group.describe().members[0].subscribed_topic_regex,
        "t-.*"
    );
}

#[test]
fn a_pattern_and_names_add_up_and_an_empty_pattern_ends_it() {
    let mut world = World::new(&[("t-1", 1), ("u", 1)]);
    let both = HeartbeatRequest {
        subscribed_topic_regex: Some("t-.*".into()),
        ..joining("a", &["u"])
    };
    let got = world.heartbeat(&both).unwrap().assignment.unwrap();
    assert_eq!(got.len(), 2);
    let without = HeartbeatRequest {
        member_epoch: Epoch(1),
        subscribed_topic_names: None,
        subscribed_topic_regex: Some("".into()),
        owned: Some(got),
        ..joining("a", &[])
    };
    let kept = world.heartbeat(&without).unwrap().assignment.unwrap();
    assert_eq!(kept, world.partitions("u", [0]));
}

#[rstest]
#[case::syntax("(", |e: &Error| matches!(e, Error::InvalidRegularExpression(RegexError::Syntax(_))))]
#[case::too_many("b", |e: &Error| matches!(e, Error::GroupMaxSizeReached))]
fn a_pattern_that_cannot_be_used_leaves_the_group_as_it_was(
    #[case] pattern: &str,
    #[case] is_expected: fn(&Error) -> bool,
) {
    let settings = Settings {
        max_patterns: 1,
        ..Settings::default()
    };
    let mut world = World::with(settings, &[("t", 1)]);
    world.heartbeat(&joining_by("a", "t")).unwrap();
    let refused = world.heartbeat(&joining_by("b", pattern)).unwrap_err();
    assert!(is_expected(&refused), "{refused:?}");
    assert_eq!(world.group.overview().members, 1);
    assert!(
        world.heartbeat(&joining_by("b", "t")).is_ok(),
        "a known one is no other"
    );
}

#[test]
fn more_partitions_than_a_group_may_assign_are_left_out_and_noted() {
    let settings = Settings {
        max_partitions: 5,
        ..Settings::default()
    };
    let mut world = World::with(settings, &[("t", 4), ("u", 4), ("v", 1)]);
    let got = world
        .heartbeat(&joining("a", &["t", "u", "v"]))
        .unwrap()
        .assignment
        .unwrap();
    assert_eq!(got.len(), 5, "t and v");
    let note = Note::TooManyPartitions {
        assigned: 5,
        topics_left_out: 1,
    };
    assert!(world.notes.contains(&note), "{:?}", world.notes);
}
