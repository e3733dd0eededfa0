use crate::call::{Admin, Call, Failure, Reply};
use crate::check::testing::{Story, at, batch, seen};
use crate::event::{Event, Promise, Source};
use crate::value::{Seen, TopicPartition};

/// Two values sent and acknowledged at 0 and 1; then the log shows these offsets and values.
fn log(shown: &[(i64, u64)]) -> Story {
    let mut story = Story::acknowledged_many(2);
    story.log(shown);
    story
}

#[test]
fn a_log_that_is_what_was_told_is_fine() {
    assert!(log(&[(0, 0), (1, 1)]).names().is_empty());
}

#[test]
fn what_was_acknowledged_is_there_where_it_was_told() {
    let story = log(&[(0, 0)]);
    assert_eq!(story.names(), ["lost-write"]);
    // The send, its acknowledgement, and the end of the log without it.
    assert_eq!(story.verdicts()[0].proof, [1, 2, 4]);
    assert_eq!(
        log(&[(1, 0), (2, 1)]).names(),
        ["inconsistent-offset", "inconsistent-offset"]
    );
}

#[test]
fn a_log_read_in_part_proves_nothing_lost() {
    let mut story = Story::acknowledged_many(2);
    story.log_part(&[(0, 0)]);
    assert!(story.names().is_empty());
}

#[test]
fn deleted_records_and_topics_are_not_lost() {
    let mut story = Story::acknowledged_many(2);
    story.log_from(1, &[(1, 1)]);
    assert!(story.names().is_empty());
    let mut story = Story::acknowledged_many(2);
    story.log_from(1, &[]);
    assert_eq!(story.names(), ["lost-write"], "1 was kept");
    let delete = Admin::DeleteTopic { topic: at().topic };
    story.begin("admin", Call::Admin(delete));
    assert!(story.names().is_empty());
}

#[test]
fn a_repetition_is_a_duplicate_where_once_was_promised() {
    let mut story = log(&[(0, 0), (1, 1), (2, 1)]);
    assert_eq!(story.names(), ["duplicate"]);
    // The writer of another history promised nothing.
    story.forget_promises();
    assert!(story.names().is_empty());
}

#[test]
fn nobody_else_writes_there() {
    assert_eq!(log(&[(0, 0), (1, 1), (2, 9)]).names(), ["phantom"]);
    let mut story = log(&[(0, 0), (1, 1)]);
    // In flight at the end: it may be there or not.
    story.produce("p", 9, 1);
    assert!(story.names().is_empty());
    story.log(&[(0, 0), (1, 1), (2, 9)]);
    assert!(story.names().is_empty());
    story.log_at(&TopicPartition::new("orders", 1), 0, &[(0, 9)]);
    assert_eq!(story.names(), ["duplicate", "phantom"]);
}

#[test]
fn the_order_of_sending_is_kept_where_it_was_promised() {
    let mut story = Story::default();
    story.promise("p", [Promise::Ordered]);
    for first in [0, 1] {
        let op = story.produce("p", first, 1);
        story.ok(op, Reply::Stored { base_offset: None });
    }
    story.log(&[(0, 1), (1, 0)]);
    assert_eq!(story.names(), ["order"]);
    story.forget_promises();
    assert!(story.names().is_empty());
}

#[test]
fn what_failed_for_good_is_not_there() {
    let mut story = Story::acknowledged();
    let op = story.produce("p", 1, 1);
    story.fail(op, Failure::code(87, "INVALID_RECORD"));
    story.log(&[(0, 0)]);
    assert!(story.names().is_empty());
    story.log(&[(0, 0), (1, 1)]);
    assert_eq!(story.names(), ["aborted-read"]);
    let mut story = Story::acknowledged();
    let op = story.produce("p", 1, 1);
    story.unknown(op, Failure::here("delivery timeout"));
    story.log(&[(0, 0), (1, 1)]);
    assert!(story.names().is_empty(), "unknown is not failed");
}

#[test]
fn the_storage_and_a_consumer_see_the_same() {
    let mut story = log(&[(0, 0), (1, 1)]);
    let storage = |records: Vec<Seen>| {
        let (source, at) = (Source::Storage, at());
        [
            Event::Log {
                source,
                at: at.clone(),
                records,
            },
            Event::LogEnd {
                source,
                at,
                start: 0,
                end: 2,
            },
        ]
    };
    let mut same = story.clone();
    for event in storage(vec![seen(0, 0), seen(1, 1)]) {
        same.event("world", event);
    }
    assert!(same.names().is_empty());
    for event in storage(vec![seen(0, 0)]) {
        story.event("world", event);
    }
    assert_eq!(story.names(), ["inconsistent-offset"]);
}

#[test]
fn bytes_are_what_was_written() {
    let shown = |digest| {
        let mut story = Story::acknowledged();
        let mut batch = batch(1, 1);
        batch.records[0].digest = Some(7);
        let op = story.begin(
            "p",
            Call::Produce {
                batch,
                acks: -1,
                transaction: None,
            },
        );
        story.stored(op, 1);
        let mut last = seen(1, 1);
        last.digest = digest;
        story.log_records(vec![seen(0, 0), last]);
        story.names()
    };
    assert!(shown(Some(7)).is_empty());
    assert!(shown(None).is_empty(), "a reader that took no checksum");
    assert_eq!(shown(Some(8)), ["corrupt"]);
}
