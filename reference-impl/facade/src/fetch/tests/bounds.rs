//! DeleteRecords and what it does to readers; OffsetForLeaderEpoch.

use kafka_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::{DeleteRecordsRequest, OffsetForLeaderEpochRequest};

use super::*;
use crate::scripted_queen::Fault;

async fn delete(rig: &Rig, partition: i32, offset: i64) -> (i64, i16) {
    let request = DeleteRecordsRequest::default().with_topics(vec![
        DeleteRecordsTopic::default()
            .with_name(wire_name("orders"))
            .with_partitions(vec![
                DeleteRecordsPartition::default()
                    .with_partition_index(partition)
                    .with_offset(offset),
            ]),
    ]);
    let response = handlers::delete_records::handle(&request_of(rig, 2), request).await;
    let result = &response.topics[0].partitions[0];
    (result.low_watermark, result.error_code)
}

fn request_of(rig: &Rig, version: i16) -> crate::context::Context {
    request(&rig.node, version)
}

#[tokio::test(start_paused = true)]
async fn deleted_records_are_gone_for_every_reader() {
    let rig = Rig::new();
    rig.store("orders", 0, &["one", "two", "three", "four"]);
    assert_eq!(delete(&rig, 0, 2).await, (2, 0));
    let response = rig.fetch(from([(0, 1)])).await;
    assert_eq!(codes(&response), [(0, 1)]);
    let response = rig.fetch(from([(0, 2)])).await;
    let partition = partitions(&response)[0];
    assert_eq!(values(partition).len(), 2);
    assert_eq!(partition.log_start_offset, 2);
    assert_eq!(delete(&rig, 0, 1).await, (2, 0), "a floor never sinks");
    assert_eq!(delete(&rig, 0, -1).await, (4, 0), "everything");
    assert_eq!(rig.queen.rows("qk:floor:").len(), 1);

    // Another process reads the row.
    let (other, _stop) = node(&rig.queen, |_| {});
    let other = Rig {
        node: other,
        queen: rig.queen.clone(),
        stop: None,
        version: 12,
    };
    let response = other.fetch(from([(0, 3)])).await;
    assert_eq!(codes(&response), [(0, 1)]);
}

#[tokio::test(start_paused = true)]
async fn of_a_partition_that_is_named_twice_the_last_offset_counts() {
    let rig = Rig::new();
    rig.store("orders", 0, &["one", "two", "three", "four"]);
    let offset = |offset| DeleteRecordsPartition::default().with_offset(offset);
    let topic = |offsets: &[i64]| {
        DeleteRecordsTopic::default()
            .with_name(wire_name("orders"))
            .with_partitions(offsets.iter().copied().map(offset).collect())
    };
    let request = DeleteRecordsRequest::default().with_topics(vec![topic(&[3, 1]), topic(&[4, 2])]);
    let response = handlers::delete_records::handle(&request_of(&rig, 2), request).await;
    assert_eq!(response.topics.len(), 1);
    let results = &response.topics[0].partitions;
    assert_eq!(results.len(), 1);
    assert_eq!((results[0].low_watermark, results[0].error_code), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_served_while_the_floors_were_never_read() {
    let rig = Rig::new();
    rig.store("orders", 0, &["one", "two", "three", "four"]);
    assert_eq!(delete(&rig, 0, 2).await, (2, 0));
    // Another process, which has not read them.
    let (other, _stop) = node(&rig.queen, |_| {});
    let other = Rig {
        node: other,
        queen: rig.queen.clone(),
        stop: None,
        version: 12,
    };
    // Its topics are read; then the rows can't be.
    let scope = self::request(&other.node, 12).session;
    other
        .node
        .catalogue
        .view(&scope.scope, &scope.credential)
        .await;
    other.queen.script("kv", [Fault::Status(503)]);
    let response = other.fetch(from([(0, 0)])).await;
    let partition = partitions(&response)[0];
    assert_ne!(partition.error_code, 0);
    assert_eq!(values(partition), []);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let response = other.fetch(from([(0, 0)])).await;
    assert_eq!(
        codes(&response),
        [(0, 1)],
        "OFFSET_OUT_OF_RANGE: they are read now"
    );
}

#[tokio::test(start_paused = true)]
async fn impossible_offsets_are_refused() {
    let rig = Rig::new();
    rig.store("orders", 0, &["one", "two"]);
    assert_eq!(delete(&rig, 0, 3).await, (-1, 1));
    assert_eq!(delete(&rig, 0, -2).await, (-1, 1));
    assert_eq!(delete(&rig, 5000, 0).await, (-1, 3));
    assert_eq!(delete(&rig, 0, 0).await, (0, 0));
    assert!(rig.queen.rows("qk:floor:").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_floor_goes_with_its_log() {
    let rig = Rig::new();
    rig.store("orders", 0, &["one", "two", "three"]);
    assert_eq!(delete(&rig, 0, 3).await, (3, 0));
    // Recreated, or idle for so long that it starts at 0 again.
    rig.queen.delete("orders");
    rig.store("orders", 0, &["new"]);
    let response = rig.fetch(from([(0, 0)])).await;
    assert_eq!(values(partitions(&response)[0]), [(0, "new".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn deletion_can_be_switched_off() {
    let queen = ScriptedQueen::start();
    let (node, stop) = node(&queen, |config| config.admin = false);
    let rig = Rig {
        queen,
        node,
        stop: Some(stop),
        version: 12,
    };
    rig.store("orders", 0, &["one", "two"]);
    assert_eq!(delete(&rig, 0, 1).await, (-1, 29));
}

#[tokio::test(start_paused = true)]
async fn the_one_leader_epoch_never_ended() {
    let rig = Rig::new();
    rig.store("orders", 0, &["one", "two"]);
    let mut answers = Vec::new();
    for (current, asked) in [(-1, 0), (0, 7), (-1, -1), (1, 0)] {
        let request = OffsetForLeaderEpochRequest::default().with_topics(vec![
            OffsetForLeaderTopic::default()
                .with_topic(wire_name("orders"))
                .with_partitions(vec![
                    OffsetForLeaderPartition::default()
                        .with_partition(0)
                        .with_current_leader_epoch(current)
                        .with_leader_epoch(asked),
                ]),
        ]);
        let response =
            handlers::offset_for_leader_epoch::handle(&request_of(&rig, 4), request).await;
        let end = &response.topics[0].partitions[0];
        answers.push((end.error_code, end.leader_epoch, end.end_offset));
    }
    assert_eq!(answers, [(0, 0, 2), (0, -1, -1), (0, -1, -1), (75, -1, -1)]);
}
