//! Every version of these APIs can carry its answers, good and bad.

use kafka_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::{
    DeleteRecordsRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest,
};
use kafka_protocol::protocol::Encodable;
use kafka_wire::ApiKey;

use super::*;
use crate::scripted_queen::Fault;

fn versions(key: ApiKey) -> impl Iterator<Item = i16> {
    let window = crate::windows::WINDOWS.get(key).expect("served");
    window.min..=window.max
}

fn encodes(key: ApiKey, version: i16, response: &impl Encodable) {
    let frame = crate::dispatch::encode(key, version, 7, response);
    assert!(frame.is_ok(), "{key} version {version}: {frame:?}");
}

#[tokio::test(start_paused = true)]
async fn fetch() {
    let mut rig = Rig::new();
    rig.store("orders", 0, &["one"]);
    let id = uuid::Uuid::parse_str(&crate::scripted_queen::id_of("orders")).expect("a uuid");
    for version in versions(ApiKey::FETCH) {
        rig.version = version;
        for fault in [Fault::None, Fault::Throttled(1), Fault::Status(503)] {
            let mut request = from([(0, 0), (9, 0), (-1, 0)])
                .with_isolation_level(1)
                .with_session_epoch(0);
            request.topics[0].topic_id = id;
            rig.queen.script("fetch", [fault]);
            let response = rig.fetch(request).await;
            assert_eq!(response.session_id != 0, version >= 7);
            encodes(ApiKey::FETCH, version, &response);
        }
        if version >= 7 {
            let request = from([]).with_session_id(1).with_session_epoch(9);
            let refused = rig.fetch(request).await;
            assert_ne!(refused.error_code, 0);
            encodes(ApiKey::FETCH, version, &refused);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_others() {
    let rig = Rig::new();
    rig.store("orders", 0, &["one"]);
    let name = || wire_name("orders");
    for version in versions(ApiKey::LIST_OFFSETS) {
        let partitions = [-2, -1, 0, -99]
            .map(|timestamp| ListOffsetsPartition::default().with_timestamp(timestamp));
        let request = ListOffsetsRequest::default().with_topics(vec![
            ListOffsetsTopic::default()
                .with_name(name())
                .with_partitions(partitions.to_vec()),
        ]);
        let cx = request_of(&rig, version);
        let response = handlers::list_offsets::handle(&cx, request).await;
        encodes(ApiKey::LIST_OFFSETS, version, &response);
    }
    for version in versions(ApiKey::DELETE_RECORDS) {
        let partitions =
            [0, 99].map(|offset| DeleteRecordsPartition::default().with_offset(offset));
        let request = DeleteRecordsRequest::default().with_topics(vec![
            DeleteRecordsTopic::default()
                .with_name(name())
                .with_partitions(partitions.to_vec()),
        ]);
        let cx = request_of(&rig, version);
        let response = handlers::delete_records::handle(&cx, request).await;
        encodes(ApiKey::DELETE_RECORDS, version, &response);
    }
    for version in versions(ApiKey::OFFSET_FOR_LEADER_EPOCH) {
        let request = OffsetForLeaderEpochRequest::default().with_topics(vec![
            OffsetForLeaderTopic::default()
                .with_topic(name())
                .with_partitions(vec![OffsetForLeaderPartition::default()]),
        ]);
        let cx = request_of(&rig, version);
        let response = handlers::offset_for_leader_epoch::handle(&cx, request).await;
        encodes(ApiKey::OFFSET_FOR_LEADER_EPOCH, version, &response);
    }
}

fn request_of(rig: &Rig, version: i16) -> crate::context::Context {
    request(&rig.node, version)
}
