//! Records through the facade over a faithful Queen: produced, fetched, found by time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use facade::context::{Answer, Reply};
use facade::handlers;
use facade::topics::wire_name;
use fake_queen::faults::{Effect, ItemStatus, Rule};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{FetchRequest, ListOffsetsRequest, ProduceRequest};
use kafka_wire::records::{
    BatchBuilder, BatchOptions, Batches, Budget, Compression, Compressor, Header, Headers,
    ProducerFields, Record,
};
use rstest::rstest;
use serde_json::json;

use crate::rig::{Rig, refusal};

/// A record that owns its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    offset: i64,
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

pub fn text(offset: i64, value: &str) -> Owned {
    Owned {
        offset,
        timestamp: 1_790_000_000_000 + offset,
        key: None,
        value: Some(value.into()),
        headers: Vec::new(),
    }
}

pub fn batch(records: &[Owned], options: BatchOptions) -> Bytes {
    let mut out = BytesMut::new();
    let mut compressor = Compressor::new();
    let base = records.first().map_or(0, |record| record.offset);
    let mut builder = BatchBuilder::new(&mut out, &mut compressor, options);
    for record in records {
        let headers: Vec<_> = record
            .headers
            .iter()
            .map(|(key, value)| Header {
                key,
                value: value.as_deref(),
            })
            .collect();
        builder
            .append(&Record {
                offset: record.offset - base,
                timestamp: record.timestamp,
                key: record.key.as_deref(),
                value: record.value.as_deref(),
                headers: Headers::new(&headers),
            })
            .expect("a record that fits");
    }
    builder.finish().expect("a batch");
    out.freeze()
}

fn idempotent(records: &[Owned], id: i64, base_sequence: i32) -> Bytes {
    let producer = ProducerFields {
        id,
        epoch: 0,
        base_sequence,
    };
    batch(
        records,
        BatchOptions {
            producer,
            ..BatchOptions::default()
        },
    )
}

/// Produces to partition 0 of `topic`: code and base offset.
async fn produce(rig: &Rig, topic: &str, records: Bytes) -> (i16, i64) {
    let request = ProduceRequest::default()
        .with_acks(-1)
        .with_timeout_ms(30_000)
        .with_topic_data(vec![
            TopicProduceData::default()
                .with_name(wire_name(topic))
                .with_partition_data(vec![
                    PartitionProduceData::default().with_records(Some(records)),
                ]),
        ]);
    let answer = match handlers::produce::handle(&rig.cx(9), request).await {
        Reply::Now(answer) => answer,
        Reply::Later(answer) => answer.await,
    };
    let Answer::Send(response) = answer else {
        panic!("no response")
    };
    let partition = &response.responses[0].partition_responses[0];
    (partition.error_code, partition.base_offset)
}

/// Fetches partition 0 of `topic` once: code, high watermark and records.
async fn fetch(rig: &Rig, topic: &str, offset: i64, max_wait_ms: i32) -> (i16, i64, Vec<Owned>) {
    let request = FetchRequest::default()
        .with_max_wait_ms(max_wait_ms)
        .with_min_bytes(1)
        .with_max_bytes(50 << 20)
        .with_session_epoch(-1)
        .with_topics(vec![
            FetchTopic::default()
                .with_topic(wire_name(topic))
                .with_partitions(vec![
                    FetchPartition::default()
                        .with_fetch_offset(offset)
                        .with_partition_max_bytes(1 << 20),
                ]),
        ]);
    let response = handlers::fetch::handle(&rig.cx(12), request).await;
    let partition = &response.responses[0].partitions[0];
    let mut records = Vec::new();
    for batch in Batches::new(partition.records.clone().expect("never null")) {
        let mut budget = Budget::new(1 << 30, 1 << 20);
        let opened = batch.expect("whole").records(&mut budget).expect("records");
        for record in &opened {
            let record = record.expect("a record");
            records.push(Owned {
                offset: record.offset,
                timestamp: record.timestamp,
                key: record.key.map(<[u8]>::to_vec),
                value: record.value.map(<[u8]>::to_vec),
                headers: record
                    .headers
                    .iter()
                    .map(|h| (h.key.to_vec(), h.value.map(<[u8]>::to_vec)))
                    .collect(),
            });
        }
    }
    (partition.error_code, partition.high_watermark, records)
}

/// Everything in partition 0 of `topic`.
async fn drain(rig: &Rig, topic: &str) -> Vec<Owned> {
    let mut all: Vec<Owned> = Vec::new();
    loop {
        let next = all.last().map_or(0, |record| record.offset + 1);
        let (code, high_watermark, records) = fetch(rig, topic, next, 0).await;
        assert_eq!(code, 0);
        all.extend(records);
        if all.last().map_or(0, |record| record.offset + 1) >= high_watermark {
            return all;
        }
    }
}

async fn list(rig: &Rig, topic: &str, timestamp: i64) -> (i16, i64, i64) {
    let request = ListOffsetsRequest::default().with_topics(vec![
        ListOffsetsTopic::default()
            .with_name(wire_name(topic))
            .with_partitions(vec![
                ListOffsetsPartition::default().with_timestamp(timestamp),
            ]),
    ]);
    let response = handlers::list_offsets::handle(&rig.cx(7), request).await;
    let answer = &response.topics[0].partitions[0];
    (answer.error_code, answer.timestamp, answer.offset)
}

#[rstest]
#[case(Compression::None)]
#[case(Compression::Gzip)]
#[case(Compression::Snappy)]
#[case(Compression::Lz4)]
#[case(Compression::Zstd)]
#[tokio::test]
async fn what_is_produced_is_fetched(#[case] compression: Compression) {
    let rig = Rig::start().await;
    let bytes = |text: &str| Some(text.as_bytes().to_vec());
    let records = vec![
        text(0, "plain"),
        Owned {
            key: bytes(""),
            value: bytes(""),
            ..text(1, "")
        },
        Owned {
            key: bytes("key"),
            value: None,
            ..text(2, "")
        },
        Owned {
            headers: vec![
                (b"a".to_vec(), bytes("1")),
                (b"a".to_vec(), None),
                (Vec::new(), bytes("")),
            ],
            ..text(3, "with headers")
        },
        Owned {
            timestamp: 0,
            ..text(4, &"long ".repeat(20_000))
        },
    ];
    let options = BatchOptions {
        compression,
        ..BatchOptions::default()
    };
    assert_eq!(
        produce(&rig, "orders", batch(&records, options)).await,
        (0, 0)
    );
    assert_eq!(drain(&rig, "orders").await, records);
}

#[tokio::test]
async fn a_hundred_thousand_records_come_back_once_and_in_order() {
    const BATCH: i64 = 2_500;
    let rig = Rig::start().await;
    let mut produced = 0;
    while produced < 100_000 {
        let records: Vec<_> = (produced..produced + BATCH)
            .map(|offset| text(offset, &format!("record {offset}")))
            .collect();
        let sequence = i32::try_from(produced).expect("small");
        assert_eq!(
            produce(&rig, "orders", idempotent(&records, 77, sequence)).await,
            (0, produced)
        );
        produced += BATCH;
    }
    let fetched = drain(&rig, "orders").await;
    assert_eq!(fetched.len(), 100_000);
    for (offset, record) in (0..).zip(&fetched) {
        assert_eq!(record, &text(offset, &format!("record {offset}")));
    }
    let middle = 1_790_000_000_000 + 61_803;
    assert_eq!(list(&rig, "orders", middle).await, (0, middle, 61_803));
    // A facade that saw none of it reads the log and answers the same.
    assert_eq!(
        list(&rig.beside(), "orders", middle).await,
        (0, middle, 61_803)
    );
}

#[rstest]
#[case::the_connection_is_cut(Effect::DropAfter)]
#[case::a_gateway_gives_up(Effect::StatusAfter { code: 504 })]
#[case::a_status_says_otherwise(Effect::StatusAfter { code: 500 })]
#[tokio::test]
async fn a_push_whose_answer_was_lost_stores_once(#[case] effect: Effect) {
    let rig = Rig::start().await;
    produce(&rig, "orders", idempotent(&[text(0, "a")], 7, 0)).await;
    rig.strike(Rule::once("push", effect.clone()));
    let records = [text(1, "b"), text(2, "c")];
    assert_eq!(
        produce(&rig, "orders", idempotent(&records, 7, 1)).await,
        (0, 1)
    );
    rig.heal();
    // A plain producer on a topic of the facade's is no worse off.
    rig.strike(Rule::once("push", effect));
    let plain = batch(&[text(3, "d")], BatchOptions::default());
    assert_eq!(produce(&rig, "orders", plain).await, (0, 3));
    rig.heal();
    let values: Vec<_> = drain(&rig, "orders")
        .await
        .into_iter()
        .map(|r| r.value)
        .collect();
    assert_eq!(
        values,
        ["a", "b", "c", "d"].map(|v| Some(v.as_bytes().to_vec()))
    );
}

#[tokio::test]
async fn a_batch_is_recognised_by_another_facade() {
    let rig = Rig::start().await;
    let sent = idempotent(&[text(0, "a"), text(1, "b")], 7, 0);
    assert_eq!(produce(&rig, "orders", sent.clone()).await, (0, 0));
    assert_eq!(produce(&rig.beside(), "orders", sent).await, (0, 0));
    assert_eq!(drain(&rig, "orders").await.len(), 2);
}

#[tokio::test]
async fn records_that_queen_spools_are_retried_and_stored_once() {
    let rig = Rig::start().await;
    let sent = idempotent(&[text(0, "a")], 7, 0);
    produce(&rig, "orders", sent).await;
    let status = ItemStatus::Buffered;
    rig.strike(Rule::once(
        "push",
        Effect::PushItem {
            index: None,
            status,
        },
    ));
    let next = idempotent(&[text(1, "b")], 7, 1);
    assert_eq!(produce(&rig, "orders", next.clone()).await, (7, -1));
    rig.heal();
    assert_eq!(produce(&rig, "orders", next).await, (0, 1));
    assert_eq!(drain(&rig, "orders").await.len(), 2);
}

#[tokio::test]
async fn the_first_idempotent_batch_widens_a_topics_dedup_window() {
    let rig = Rig::start().await;
    rig.native_queue("orders", json!({"dedupWindowSeconds": 0}))
        .await;
    let view = rig
        .node
        .catalogue
        .view(&rig.scope(), &rig.cx(9).session.credential)
        .await;
    let id = view.topics.get("orders").expect("listed").queue_id.clone();
    let record = json!({"qid": id, "set": {"dedupWindowSeconds": 0}, "at": 1, "partitions": 4});
    rig.put_row("qk:topiccfg:orders", &record).await;
    let facade = rig.beside();
    let plain = batch(&[text(0, "a")], BatchOptions::default());
    assert_eq!(produce(&facade, "orders", plain).await, (0, 0));
    assert_eq!(rig.options("orders").await["dedupWindowSeconds"], 0);
    rig.strike(Rule::once("push", Effect::DropAfter));
    let sent = idempotent(&[text(1, "b")], 7, 0);
    assert_eq!(produce(&facade, "orders", sent).await, (0, 1));
    assert_eq!(rig.options("orders").await["dedupWindowSeconds"], 3600);
    assert_eq!(drain(&facade, "orders").await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_queen_that_knows_no_empty_lanes_is_read_all_the_same() {
    let rig = Rig::start().await;
    rig.native_queue("orders", json!({})).await;
    rig.strike(Rule::always("fetch", Effect::UnknownLane { error: true }));
    let before = tokio::time::Instant::now();
    assert_eq!(fetch(&rig, "orders", 0, 400).await, (0, 0, Vec::new()));
    assert!(
        before.elapsed() >= Duration::from_millis(400),
        "no busy loop"
    );
    assert_eq!(list(&rig, "orders", -1).await, (0, -1, 0));
    assert_eq!(fetch(&rig, "absent", 0, 400).await.0, 3);
}

#[tokio::test]
async fn a_queen_too_old_to_name_offsets_is_not_believed() {
    let rig = Rig::start().await;
    rig.strike(Rule::once("push", Effect::OmitOffsets));
    let sent = batch(&[text(0, "a")], BatchOptions::default());
    assert_eq!(produce(&rig, "orders", sent).await, (-1, -1));
}

#[tokio::test]
async fn a_frozen_tenant_hears_of_it_and_loses_nothing() {
    let rig = Rig::start().await;
    let sent = idempotent(&[text(0, "a")], 7, 0);
    rig.strike(Rule::once("push", refusal(403, None)));
    assert_eq!(produce(&rig, "orders", sent.clone()).await, (29, -1));
    rig.heal();
    assert_eq!(produce(&rig, "orders", sent).await, (0, 0));
}
