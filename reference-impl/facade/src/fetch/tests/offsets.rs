//! ListOffsets.

use kafka_protocol::messages::ListOffsetsRequest;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use rstest::rstest;

use super::*;
use crate::scripted_queen::Fault;

async fn list(rig: &Rig, version: i16, partition: i32, timestamp: i64) -> (i16, i64, i64) {
    let request = ListOffsetsRequest::default().with_topics(vec![
        ListOffsetsTopic::default()
            .with_name(wire_name("orders"))
            .with_partitions(vec![
                ListOffsetsPartition::default()
                    .with_partition_index(partition)
                    .with_timestamp(timestamp),
            ]),
    ]);
    let response =
        handlers::list_offsets::handle(&self::request(&rig.node, version), request).await;
    let answer = &response.topics[0].partitions[0];
    (answer.error_code, answer.timestamp, answer.offset)
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_is_asked_for_twice_is_refused_and_its_neighbour_is_not() {
    let rig = out_of_order();
    let asked = [0, 1, 0].map(|partition| {
        ListOffsetsPartition::default()
            .with_partition_index(partition)
            .with_timestamp(if partition == 0 { 10 } else { -1 })
    });
    let orders = ListOffsetsTopic::default()
        .with_name(wire_name("orders"))
        .with_partitions(asked.to_vec());
    let request = ListOffsetsRequest::default().with_topics(vec![orders]);
    let response = handlers::list_offsets::handle(&self::request(&rig.node, 4), request).await;
    let codes: Vec<_> = response.topics[0]
        .partitions
        .iter()
        .map(|partition| (partition.partition_index, partition.error_code))
        .collect();
    assert_eq!(codes, [(0, 42), (1, 0), (0, 42)]);
}

#[rstest]
#[case::none(-1, 0)]
#[case::the_one(0, 0)]
#[case::of_another_cluster(1, 75)]
#[tokio::test(start_paused = true)]
async fn a_later_leader_epoch_is_unknown(#[case] epoch: i32, #[case] code: i16) {
    let rig = out_of_order();
    let request = ListOffsetsRequest::default().with_topics(vec![
        ListOffsetsTopic::default()
            .with_name(wire_name("orders"))
            .with_partitions(vec![
                ListOffsetsPartition::default()
                    .with_timestamp(-1)
                    .with_current_leader_epoch(epoch),
            ]),
    ]);
    let response = handlers::list_offsets::handle(&self::request(&rig.node, 4), request).await;
    assert_eq!(response.topics[0].partitions[0].error_code, code);
}

/// Timestamps out of order, as producers set them.
fn out_of_order() -> Rig {
    let rig = Rig::new();
    for timestamp in [50, 10, 90, 20, 90, 30] {
        rig.queen.store("orders", 0, envelope("x", timestamp));
    }
    rig
}

#[rstest]
#[case::latest(1, -1, (0, -1, 6))]
#[case::earliest(1, -2, (0, -1, 0))]
#[case::the_first_at_least(1, 10, (0, 50, 0))]
#[case::exactly(1, 50, (0, 50, 0))]
#[case::past_some(1, 51, (0, 90, 2))]
#[case::the_largest(1, 90, (0, 90, 2))]
#[case::past_all(1, 91, (0, -1, -1))]
#[case::max_timestamp(7, -3, (0, 90, 2))]
#[case::max_timestamp_is_new(6, -3, (35, -1, -1))]
#[case::earliest_local(8, -4, (0, -1, 0))]
#[case::latest_tiered(9, -5, (0, -1, -1))]
#[case::no_meaning(10, -7, (35, -1, -1))]
#[tokio::test(start_paused = true)]
async fn answers_as_kafka(
    #[case] version: i16,
    #[case] timestamp: i64,
    #[case] expected: (i16, i64, i64),
) {
    let rig = out_of_order();
    assert_eq!(list(&rig, version, 0, timestamp).await, expected);
}

#[tokio::test(start_paused = true)]
async fn respects_the_start_of_the_log() {
    let rig = out_of_order();
    rig.queen.retain_from("orders", 0, 3);
    assert_eq!(list(&rig, 7, 0, -2).await, (0, -1, 3));
    assert_eq!(list(&rig, 7, 0, 10).await, (0, 20, 3));
    assert_eq!(list(&rig, 7, 0, -3).await, (0, 90, 4));
}

#[tokio::test(start_paused = true)]
async fn an_empty_partition_has_no_times() {
    let rig = Rig::new();
    rig.queen.create("orders");
    assert_eq!(list(&rig, 7, 5, -1).await, (0, -1, 0));
    assert_eq!(list(&rig, 7, 5, -2).await, (0, -1, 0));
    assert_eq!(list(&rig, 7, 5, 0).await, (0, -1, -1));
    assert_eq!(list(&rig, 7, 5, -3).await, (0, -1, -1));
    assert_eq!(list(&rig, 7, 5000, -1).await, (3, -1, -1));
}

#[tokio::test(start_paused = true)]
async fn a_lookup_reads_what_it_does_not_know_and_nothing_twice() {
    let rig = out_of_order();
    list(&rig, 7, 0, 1_000).await;
    let after_first = rig.fetch_calls();
    list(&rig, 7, 0, 1_000).await;
    assert_eq!(
        rig.fetch_calls(),
        after_first + 1,
        "the bounds and no record"
    );
    rig.queen.store("orders", 0, envelope("x", 2_000));
    assert_eq!(list(&rig, 7, 0, 1_000).await, (0, 2_000, 6));
}

#[rstest]
#[case(Fault::Throttled(1), 5)]
#[case(Fault::Status(503), 5)]
#[case(Fault::Status(403), 29)]
#[tokio::test(start_paused = true)]
async fn a_failed_lookup_is_never_minus_one(#[case] fault: Fault, #[case] code: i16) {
    let rig = out_of_order();
    rig.queen.script("fetch", [fault.clone()]);
    assert_eq!(list(&rig, 7, 0, 51).await, (code, -1, -1));
    rig.queen.script("fetch", [Fault::None, fault]);
    assert_eq!(list(&rig, 7, 0, 51).await, (code, -1, -1));
    assert_eq!(list(&rig, 7, 0, 51).await, (0, 90, 2));
}

#[tokio::test(start_paused = true)]
async fn many_partitions_are_a_few_calls() {
    let rig = Rig::new();
    rig.queen.create("orders");
    let (node, _stop) = node(&rig.queen, |config| {
        config.default_partitions = crate::config::PartitionCount::MAX;
    });
    let partitions = (0..3000).map(|p| {
        ListOffsetsPartition::default()
            .with_partition_index(p)
            .with_timestamp(-1)
    });
    let request = ListOffsetsRequest::default().with_topics(vec![
        ListOffsetsTopic::default()
            .with_name(wire_name("orders"))
            .with_partitions(partitions.collect()),
    ]);
    let response = handlers::list_offsets::handle(&self::request(&node, 7), request).await;
    let answers = &response.topics[0].partitions;
    assert!(
        (0..)
            .zip(answers)
            .all(|(p, a)| a.partition_index == p && a.offset == 0)
    );
    assert_eq!(answers.len(), 3000);
    assert_eq!(rig.fetch_calls(), 3);
}
