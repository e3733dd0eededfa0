//! Produce and InitProducerId through their handlers.

use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    InitProducerIdRequest, ProduceRequest, ProduceResponse, ProducerId, TransactionalId,
};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ApiKey;
use kafka_wire::records::BatchOptions;
use rstest::rstest;

use super::*;
use crate::context::{Answer, Node, Reply};
use crate::handlers;
use crate::scripted_queen::{Fault, node, request};
use crate::topics::wire_name;

struct Rig {
    queen: ScriptedQueen,
    node: Arc<Node>,
    _stop: host::shutdown::Trigger,
}

impl Rig {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut crate::config::Config)) -> Self {
        let queen = ScriptedQueen::start();
        let (node, stop) = node(&queen, change);
        Self {
            queen,
            node,
            _stop: stop,
        }
    }

    async fn reply(&self, version: i16, request: ProduceRequest) -> Reply<ProduceResponse> {
        handlers::produce::handle(&self::request(&self.node, version), request).await
    }

    async fn answer(&self, version: i16, request: ProduceRequest) -> Answer<ProduceResponse> {
        match self.reply(version, request).await {
            Reply::Now(answer) => answer,
            Reply::Later(answer) => answer.await,
        }
    }

    async fn response(&self, version: i16, request: ProduceRequest) -> ProduceResponse {
        match self.answer(version, request).await {
            Answer::Send(response) => response,
            other => panic!("{other:?}"),
        }
    }
}

fn one(topic: &str, partition: i32, records: Bytes) -> ProduceRequest {
    ProduceRequest::default()
        .with_acks(-1)
        .with_timeout_ms(30_000)
        .with_topic_data(vec![
            TopicProduceData::default()
                .with_name(wire_name(topic))
                .with_partition_data(vec![
                    PartitionProduceData::default()
                        .with_index(partition)
                        .with_records(Some(records)),
                ]),
        ])
}

fn codes(response: &ProduceResponse) -> Vec<(i16, i64)> {
    let partitions = response
        .responses
        .iter()
        .flat_map(|topic| &topic.partition_responses);
    partitions.map(|p| (p.error_code, p.base_offset)).collect()
}

fn batch() -> Bytes {
    batches::plain(&numbers(0..2))
}

#[tokio::test(start_paused = true)]
async fn creates_the_topic_and_answers_the_offset() {
    let rig = Rig::new();
    for base_offset in [0, 2] {
        let response = rig.response(9, one("orders", 3, batch())).await;
        assert_eq!(codes(&response), [(0, base_offset)]);
        let partition = &response.responses[0].partition_responses[0];
        assert_eq!((partition.index, partition.log_append_time_ms), (3, -1));
        assert_eq!(response.responses[0].name, wire_name("orders"));
    }
    assert_eq!(rig.queen.stored("orders", 3).len(), 4);
}

#[rstest]
#[case::no_such_partition(one("orders", 100_000, batch()), 3)]
#[case::negative(one("orders", -1, batch()), 3)]
#[case::hidden(one("__offsets", 0, batch()), 3)]
#[case::illegal(one("no such name", 0, batch()), 17)]
#[case::acks(one("orders", 0, batch()).with_acks(2), 21)]
#[tokio::test(start_paused = true)]
async fn refuses(#[case] request: ProduceRequest, #[case] code: i16) {
    let rig = Rig::new();
    let response = rig.response(9, request).await;
    assert_eq!(codes(&response), [(code, -1)]);
    assert!(rig.queen.calls("push").is_empty());
}

#[rstest]
#[case::default(3_600_000, 32)]
#[case::every_time(i64::MAX, 0)]
#[tokio::test(start_paused = true)]
async fn a_time_far_ahead_is_refused_with_the_record(#[case] tolerance_ms: i64, #[case] code: i16) {
    let rig = Rig::with(|config| config.timestamp_after_max_ms = tolerance_ms);
    let now = rig.node.host.clock.wall().epoch_ms();
    for (n, version) in [7, 8, 13].into_iter().enumerate() {
        let name = format!("orders-{n}");
        let times = [now, now + 3_700_000];
        let batch = batches::build_at(&numbers(0..2), &times, BatchOptions::default());
        let mut request = one(&name, 0, batch);
        if version == 13 {
            rig.response(9, one(&name, 1, self::batch())).await;
            let id = crate::scripted_queen::id_of(&name);
            request.topic_data[0].topic_id = Uuid::parse_str(&id).expect("a uuid");
        }
        let response = rig.response(version, request).await;
        let partition = &response.responses[0].partition_responses[0];
        assert_eq!(partition.error_code, code, "version {version}");
        let told = partition
            .record_errors
            .iter()
            .map(|error| error.batch_index);
        let expected = if code == 0 { vec![] } else { vec![1] };
        assert_eq!(told.collect::<Vec<_>>(), expected);
        let mut bytes = bytes::BytesMut::new();
        kafka_protocol::protocol::Encodable::encode(&response, &mut bytes, version)
            .expect("every version carries it");
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_transactional_id_is_none() {
    let rig = Rig::new();
    let id = Some(TransactionalId(StrBytes::from_static_str("")));
    let response = rig
        .response(9, one("orders", 0, batch()).with_transactional_id(id))
        .await;
    assert_eq!(codes(&response), [(0, 0)]);
}

#[tokio::test(start_paused = true)]
async fn automatic_creation_can_be_switched_off() {
    let rig = Rig::with(|config| config.auto_create = false);
    let response = rig.response(9, one("orders", 0, batch())).await;
    assert_eq!(codes(&response), [(3, -1)]);
    rig.queen.create("mails");
    tokio::time::sleep(Duration::from_secs(4)).await;
    let response = rig.response(9, one("mails", 0, batch())).await;
    assert_eq!(codes(&response), [(0, 0)]);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_catalogue_is_not_the_end() {
    let rig = Rig::new();
    rig.queen
        .script("resources/queues", vec![Fault::Status(503); 9]);
    let response = rig.response(9, one("orders", 0, batch())).await;
    assert_eq!(codes(&response), [(5, -1)]);
}

#[tokio::test(start_paused = true)]
async fn is_admitted_before_it_is_stored() {
    let rig = Rig::new();
    rig.queen
        .script("push", [Fault::Slow(Duration::from_secs(5))]);
    let mut sent = producer(9);
    let mut answers = Vec::new();
    for n in 0..4 {
        let batch = sent.batch(&numbers(n..n + 1));
        let Reply::Later(answer) = rig.reply(9, one("orders", 0, batch)).await else {
            panic!("stored before Queen answered")
        };
        answers.push(answer);
    }
    // Answers may be awaited in any order: nothing depends on who polls.
    while let Some(answer) = answers.pop() {
        let Answer::Send(response) = answer.await else {
            panic!("no response")
        };
        let base_offset = i64::try_from(answers.len()).unwrap();
        assert_eq!(codes(&response), [(0, base_offset)]);
    }
    assert_eq!(rig.queen.calls("push").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn acks_0_is_silent_and_a_failure_closes_the_connection() {
    let rig = Rig::new();
    let stored = rig.answer(9, one("orders", 0, batch()).with_acks(0)).await;
    assert_eq!(stored, Answer::Silence);
    assert_eq!(rig.queen.stored("orders", 0).len(), 2);
    let refused = rig
        .answer(9, one("orders", 100_000, batch()).with_acks(0))
        .await;
    assert!(matches!(refused, Answer::Close(_)));
    rig.queen.script("push", [Fault::Status(403)]);
    let forbidden = rig.answer(9, one("orders", 0, batch()).with_acks(0)).await;
    assert!(matches!(forbidden, Answer::Close(_)));
}

#[tokio::test(start_paused = true)]
async fn says_why_and_when() {
    let rig = Rig::new();
    rig.queen.script("push", [Fault::Status(403)]);
    let response = rig.response(9, one("orders", 0, batch())).await;
    assert_eq!(codes(&response), [(29, -1)]);
    let message = response.responses[0].partition_responses[0]
        .error_message
        .clone();
    assert_eq!(message.as_deref(), Some("scripted"));
    rig.queen.script("push", [Fault::Throttled(2)]);
    let response = rig.response(9, one("orders", 0, batch())).await;
    assert_eq!(
        (codes(&response), response.throttle_time_ms),
        (vec![(0, 0)], 2000)
    );
}

#[tokio::test(start_paused = true)]
async fn topics_are_named_by_id_from_version_13_on() {
    let rig = Rig::new();
    rig.queen.create("orders");
    let id = topic("orders").id;
    let mut request = one("", 0, batch());
    request.topic_data[0].topic_id = id;
    let response = rig.response(13, request.clone()).await;
    assert_eq!(codes(&response), [(0, 0)]);
    assert_eq!(response.responses[0].topic_id, id);
    request.topic_data[0].topic_id = Uuid::from_u128(7);
    let response = rig.response(13, request).await;
    assert_eq!(codes(&response), [(100, -1)]);
}

#[tokio::test(start_paused = true)]
async fn producer_ids_are_new_positive_and_start_at_epoch_0() {
    let rig = Rig::new();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..1000 {
        let current = InitProducerIdRequest::default()
            .with_producer_id(ProducerId(17))
            .with_producer_epoch(3);
        let response = handlers::init_producer_id::handle(&request(&rig.node, 4), current).await;
        assert_eq!((response.error_code, response.producer_epoch), (0, 0));
        assert!((1..1 << 62).contains(&response.producer_id.0));
        seen.insert(response.producer_id.0);
    }
    assert_eq!(seen.len(), 1000);
}

#[tokio::test(start_paused = true)]
async fn half_an_identity_is_refused() {
    let rig = Rig::new();
    for (id, epoch) in [(17, -1), (-1, 3)] {
        let half = InitProducerIdRequest::default()
            .with_producer_id(ProducerId(id))
            .with_producer_epoch(epoch);
        let response = handlers::init_producer_id::handle(&request(&rig.node, 4), half).await;
        assert_eq!((response.error_code, response.producer_id.0), (42, -1));
    }
}

#[tokio::test(start_paused = true)]
async fn every_version_can_say_what_happened() {
    let rig = Rig::new();
    rig.queen.create("orders");
    tokio::time::sleep(Duration::from_secs(4)).await;
    for version in versions(ApiKey::PRODUCE) {
        let mut ok = one("orders", 0, batch());
        ok.topic_data[0].topic_id = topic("orders").id;
        rig.queen.script("push", [Fault::Throttled(1)]);
        let stored = rig.response(version, ok.clone()).await;
        assert_eq!(codes(&stored)[0].0, 0, "version {version}");
        rig.queen.script("push", [Fault::Status(403)]);
        let refused = rig.response(version, ok).await;
        assert_eq!(codes(&refused), [(29, -1)], "version {version}");
        for response in [stored, refused] {
            let frame = crate::dispatch::encode(ApiKey::PRODUCE, version, 7, &response);
            assert!(frame.is_ok(), "version {version}: {frame:?}");
        }
    }
    for version in versions(ApiKey::INIT_PRODUCER_ID) {
        for id in ["", "tx"] {
            let id = Some(TransactionalId(StrBytes::from_static_str(id)));
            let request = InitProducerIdRequest::default().with_transactional_id(id);
            let cx = self::request(&rig.node, version);
            let response = handlers::init_producer_id::handle(&cx, request).await;
            let frame = crate::dispatch::encode(ApiKey::INIT_PRODUCER_ID, version, 7, &response);
            assert!(frame.is_ok(), "version {version}: {frame:?}");
        }
    }
}

fn versions(key: ApiKey) -> impl Iterator<Item = i16> {
    let window = crate::windows::WINDOWS.get(key).expect("served");
    window.min..=window.max
}

#[tokio::test(start_paused = true)]
async fn what_comes_behind_a_refused_batch_waits_for_it() {
    let rig = Rig::new();
    let stored = rig.response(9, one("orders", 0, batch())).await;
    assert_eq!(codes(&stored), [(0, 0)]);
    // The process restarts: it knows neither topics nor producers.
    let (node, _stop) = node(&rig.queen, |_| {});
    let mut producer = batches::Producer {
        id: 77,
        epoch: 0,
        sequence: 9,
    };
    let (first, second) = (
        producer.batch(&numbers(0..2)),
        producer.batch(&numbers(2..4)),
    );
    let cx = self::request(&node, 9);
    let sent = async |records: &Bytes| {
        let request = one("orders", 0, records.clone());
        match handlers::produce::handle(&cx, request).await {
            Reply::Now(Answer::Send(response)) => codes(&response),
            Reply::Later(answer) => match answer.await {
                Answer::Send(response) => codes(&response),
                other => panic!("{other:?}"),
            },
            Reply::Now(other) => panic!("{other:?}"),
        }
    };
    rig.queen.script("resources/queues", [Fault::Status(503)]);
    let (refused, _) = sent(&first).await[0];
    assert!(ErrorCode::from_code(refused).is_some_and(ErrorCode::retriable));
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert_eq!(sent(&second).await, [(refused, -1)], "not before the first");
    assert_eq!(sent(&first).await, [(0, 2)]);
    assert_eq!(sent(&second).await, [(0, 4)]);
}
