//! What a node leaves to the next owner of its groups, a node of another implementation included.

use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::{OffsetCommitRequest, OffsetFetchRequest, TopicName};
use serde_json::{Value, json};

use super::*;

fn topic() -> TopicName {
    TopicName(StrBytes::from_static_str("t"))
}

fn group() -> GroupId {
    GroupId(StrBytes::from_static_str(GROUP))
}

/// Joins the group alone and commits `offset` of partition 0 as its member.
async fn commit_as_member(rig: &Rig, offset: i64) -> ErrorCode {
    let first = join_group(rig).await;
    let sync = typed::SyncGroupRequest::default()
        .with_group_id(group())
        .with_member_id(first.member_id.clone())
        .with_generation_id(first.generation_id);
    let synced = handlers::sync_group::handle(&rig.cx(3), sync).await;
    assert_eq!(
        (first.error_code, synced.error_code),
        (0, 0),
        "a member of its own"
    );
    commit(rig, offset, first.generation_id, first.member_id).await
}

async fn commit(rig: &Rig, offset: i64, generation: i32, member: StrBytes) -> ErrorCode {
    let partition = OffsetCommitRequestPartition::default().with_committed_offset(offset);
    let of_topic = OffsetCommitRequestTopic::default()
        .with_name(topic())
        .with_partitions(vec![partition]);
    let request = OffsetCommitRequest::default()
        .with_group_id(group())
        .with_generation_id_or_member_epoch(generation)
        .with_member_id(member)
        .with_topics(vec![of_topic]);
    let answer = handlers::offset_commit::handle(&rig.cx(8), request).await;
    ErrorCode::from_code(answer.topics[0].partitions[0].error_code).expect("known")
}

async fn committed(rig: &Rig) -> i64 {
    let asked = OffsetFetchRequestTopics::default()
        .with_name(topic())
        .with_partition_indexes(vec![0]);
    let of_group = OffsetFetchRequestGroup::default()
        .with_group_id(group())
        .with_topics(Some(vec![asked]));
    let request = OffsetFetchRequest::default().with_groups(vec![of_group]);
    let answer = handlers::offset_fetch::handle(&rig.cx(8), request).await;
    assert_eq!(answer.groups[0].error_code, 0);
    answer.groups[0].topics[0].partitions[0].committed_offset
}

#[tokio::test(start_paused = true)]
async fn what_was_acknowledged_before_its_owner_died_is_where_the_next_begins() {
    let (rigs, lives) = three().await;
    rigs[0].native_queue("t", json!({})).await;
    assert_eq!(commit_as_member(&rigs[1], 41).await, ErrorCode::None);
    lives[1].abort();
    sleep(TTL + HEARTBEAT + A_MOMENT).await;
    assert_eq!(committed(&rigs[2]).await, 41);
    assert_eq!(commit_as_member(&rigs[2], 42).await, ErrorCode::None);
    // The dead one's commits, had it only stood still, come to nothing.
    let late = commit(&rigs[1], 7, -1, StrBytes::default()).await;
    assert_eq!(late, ErrorCode::CoordinatorNotAvailable);
    assert_eq!(committed(&rigs[0]).await, 42);
}

#[tokio::test(start_paused = true)]
async fn a_node_of_another_implementation_is_a_node_like_ours() {
    let rig = Rig::start_with(fake_queen::Options::default(), node(2)).await;
    let _life = join(&rig).await;
    // With a field of a newer version, and an incarnation that is a number.
    let other = json!({
        "nodeId": 1, "host": "other.example", "port": 9099, "incarnation": 77, "since": 1,
        "version": "1.6.0", "raftNode": 3
    });
    rig.put_row("qk:node:queen:1", &other).await;
    // Of no node: the key says otherwise.
    rig.put_row("qk:node:queen:5", &other).await;
    sleep(HEARTBEAT + A_MOMENT).await;
    let brokers = rig.node.view().brokers();
    let seen: Vec<_> = brokers
        .iter()
        .map(|broker| (broker.id.0, broker.host.as_ref(), broker.port))
        .collect();
    assert_eq!(
        seen,
        [(1, "other.example", 9099), (2, "kafka.example", 9092)]
    );
    // And it reads ours.
    let rows = rig.rows("qk:node:queen:2").await;
    let Value::Object(ours) = &rows[0].1 else {
        panic!("a row is an object");
    };
    let fields: Vec<&str> = ours.keys().map(String::as_str).collect();
    for field in ["nodeId", "host", "port", "incarnation", "since", "version"] {
        assert!(fields.contains(&field), "{field} is missing in {fields:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn offsets_and_fence_of_another_implementation_are_carried_on() {
    let rig = Rig::start_with(fake_queen::Options::default(), node(2)).await;
    rig.native_queue("t", json!({})).await;
    let fence = json!({"node": 1, "incarnation": "theirs", "generation": 9, "ts": 5});
    rig.put_row("qk:fence:orders-consumer", &fence).await;
    let offset = json!({"offset": 17, "metadata": null, "ts": 5});
    rig.put_row("qk:group:orders-consumer:t:0", &offset).await;
    let _life = join(&rig).await;
    assert_eq!(committed(&rig).await, 17);
    assert_eq!(commit_as_member(&rig, 18).await, ErrorCode::None);
    let fences = rig.rows("qk:fence:").await;
    assert_eq!(fences[0].1["node"], 2);
    // What the other would find when it is back.
    let rows = rig.rows("qk:group:orders-consumer:").await;
    assert_eq!(rows[0].1["offset"], 18);
}
