//! Refusals: who hears them, and with which code.

use std::time::Duration;

use kafka_wire::ErrorCode;
use kafka_wire::records::{BatchOptions, Compression, ProducerFields, Timestamps, seal};
use rstest::rstest;

use super::*;
use crate::scripted_queen::Fault;

#[tokio::test(start_paused = true)]
async fn only_the_oversize_batch_hears_of_its_size() {
    let world = World::new();
    let orders = topic("orders");
    world.queen.limit_bodies(50_000);
    let large = vec!["x".repeat(60_000)];
    let mut request: Vec<_> = (0..20)
        .map(|p| (&orders, p, batches::plain(&numbers(0..3))))
        .collect();
    request.insert(7, (&orders, 99, batches::plain(&large)));
    let mut codes = Vec::new();
    for admitted in world.admit(request).await {
        codes.push(code(&outcome(admitted).await));
    }
    assert_eq!(codes.remove(7), ErrorCode::MessageTooLarge);
    assert!(
        codes.iter().all(|code| *code == ErrorCode::None),
        "{codes:?}"
    );
    for partition in 0..20 {
        assert_eq!(world.values(&orders, partition), numbers(0..3));
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_forbidden_topic_hears_of_it() {
    let world = World::new();
    let (orders, secret) = (topic("orders"), topic("secret"));
    world.queen.forbid("secret");
    let request = vec![
        (&orders, 0, batches::plain(&numbers(0..1))),
        (&secret, 0, batches::plain(&numbers(0..1))),
        (&orders, 1, batches::plain(&numbers(0..1))),
        (&secret, 1, batches::plain(&numbers(0..1))),
    ];
    let mut outcomes = Vec::new();
    for admitted in world.admit(request).await {
        outcomes.push(outcome(admitted).await);
    }
    let codes: Vec<_> = outcomes.iter().map(code).collect();
    let denied = ErrorCode::TopicAuthorizationFailed;
    assert_eq!(codes, [ErrorCode::None, denied, ErrorCode::None, denied]);
    let message = outcomes[1].result.as_ref().unwrap_err().message.clone();
    assert!(message.unwrap().contains("no produce scope"));
    assert_eq!(
        world.queen.calls("push").len(),
        3,
        "one for each topic is enough"
    );
}

#[tokio::test(start_paused = true)]
async fn throttled_records_are_held_stored_and_the_client_told() {
    let world = World::new();
    let orders = topic("orders");
    world
        .queen
        .script("push", [Fault::Throttled(3), Fault::Throttled(2)]);
    let started = world.host.clock.monotonic();
    let stored = world.produce(&orders, batches::plain(&numbers(0..2))).await;
    assert_eq!(base(&stored), 0);
    assert_eq!(stored.throttle, Duration::from_secs(3));
    assert!(world.host.clock.monotonic() - started >= Duration::from_secs(5));
}

#[rstest]
#[case::throttled_for_long(vec![Fault::Throttled(20)], Duration::from_secs(20))]
#[case::throttled_again_and_again(vec![Fault::Throttled(4); 9], Duration::from_secs(4))]
#[case::unavailable(vec![Fault::Status(503); 99], Duration::ZERO)]
#[case::lost_for_ever(vec![Fault::LostBefore; 99], Duration::ZERO)]
#[case::failing(vec![Fault::Status(500); 99], Duration::ZERO)]
#[case::gateway(vec![Fault::Status(504); 99], Duration::ZERO)]
#[tokio::test(start_paused = true)]
async fn a_client_that_waited_its_time_is_told_to_try_again(
    #[case] faults: Vec<Fault>,
    #[case] throttle: Duration,
) {
    let world = World::new();
    let orders = topic("orders");
    world.queen.script("push", faults);
    let started = world.host.clock.monotonic();
    let late = world.produce(&orders, batches::plain(&numbers(0..2))).await;
    assert_eq!(code(&late), ErrorCode::RequestTimedOut);
    assert_eq!(late.throttle, throttle);
    assert!(world.host.clock.monotonic() - started <= Duration::from_secs(11));
}

#[tokio::test(start_paused = true)]
async fn a_pause_holds_every_push_of_the_credential() {
    let world = World::new();
    let orders = topic("orders");
    world.queen.script("push", [Fault::Throttled(20)]);
    let first = world.produce(&orders, batches::plain(&numbers(0..1))).await;
    assert_eq!(code(&first), ErrorCode::RequestTimedOut);
    let second = world
        .produce_to(&orders, 1, batches::plain(&numbers(0..1)))
        .await;
    assert_eq!(
        code(&second),
        ErrorCode::RequestTimedOut,
        "its time ends in the pause"
    );
    let third = world
        .produce_to(&orders, 2, batches::plain(&numbers(0..1)))
        .await;
    assert_eq!(base(&third), 0, "the pause is over in time");
}

#[tokio::test(start_paused = true)]
async fn a_client_without_patience_gets_a_second() {
    let mut world = World::new();
    world.timeout = Duration::ZERO;
    let orders = topic("orders");
    world
        .queen
        .script("push", [Fault::Slow(Duration::from_millis(800))]);
    let stored = world.produce(&orders, batches::plain(&numbers(0..1))).await;
    assert_eq!(base(&stored), 0);
    world.queen.script("push", vec![Fault::Status(503); 99]);
    let started = world.host.clock.monotonic();
    let refused = world.produce(&orders, batches::plain(&numbers(1..2))).await;
    assert_eq!(code(&refused), ErrorCode::RequestTimedOut);
    assert!(world.host.clock.monotonic() - started <= Duration::from_secs(1));
}

#[rstest]
#[case(401, ErrorCode::TopicAuthorizationFailed)]
#[case(403, ErrorCode::TopicAuthorizationFailed)]
#[case(404, ErrorCode::UnknownTopicOrPartition)]
#[case(413, ErrorCode::MessageTooLarge)]
#[tokio::test(start_paused = true)]
async fn a_refusal_keeps_its_kafka_code(#[case] status: u16, #[case] expected: ErrorCode) {
    let world = World::new();
    world.queen.script("push", [Fault::Status(status)]);
    let refused = world
        .produce(&topic("orders"), batches::plain(&numbers(0..1)))
        .await;
    assert_eq!(code(&refused), expected);
    assert_eq!(world.queen.calls("push").len(), 1);
}

#[rstest]
#[case::crc(|batch: &mut Vec<u8>| *batch.last_mut().unwrap() ^= 1, ErrorCode::CorruptMessage)]
#[case::cut(|batch: &mut Vec<u8>| batch.truncate(batch.len() - 1), ErrorCode::CorruptMessage)]
#[case::half_a_header(|batch: &mut Vec<u8>| batch.truncate(30), ErrorCode::CorruptMessage)]
#[case::magic_1(|batch: &mut Vec<u8>| batch[16] = 1, ErrorCode::InvalidRecord)]
#[case::magic_3(|batch: &mut Vec<u8>| batch[16] = 3, ErrorCode::CorruptMessage)]
#[case::codec_7(|batch: &mut Vec<u8>| { batch[22] |= 7; seal(batch).unwrap(); }, ErrorCode::UnsupportedCompressionType)]
#[case::lies_about_gzip(|batch: &mut Vec<u8>| { batch[22] |= 1; seal(batch).unwrap(); }, ErrorCode::CorruptMessage)]
#[case::control(|batch: &mut Vec<u8>| { batch[22] |= 0x20; seal(batch).unwrap(); }, ErrorCode::InvalidRecord)]
#[case::append_time(|batch: &mut Vec<u8>| { batch[22] |= 8; seal(batch).unwrap(); }, ErrorCode::InvalidTimestamp)]
#[case::two_batches(|batch: &mut Vec<u8>| batch.extend(batch.clone()), ErrorCode::InvalidRecord)]
#[tokio::test(start_paused = true)]
async fn bytes_that_are_no_batch_are_refused(
    #[case] damage: impl FnOnce(&mut Vec<u8>),
    #[case] expected: ErrorCode,
) {
    let world = World::new();
    let mut batch = batches::plain(&numbers(0..3)).to_vec();
    damage(&mut batch);
    let refused = world.produce(&topic("orders"), batch.into()).await;
    assert_eq!(code(&refused), expected);
    assert!(world.queen.calls("push").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_transactional_batch_needs_a_transaction() {
    let world = World::new();
    let options = BatchOptions {
        transactional: true,
        producer: ProducerFields {
            id: 1,
            epoch: 0,
            base_sequence: 0,
        },
        timestamps: Timestamps::CreateTime,
        ..BatchOptions::default()
    };
    let batch = batches::build(&numbers(0..1), options);
    let refused = world.produce(&topic("orders"), batch).await;
    assert_eq!(
        code(&refused),
        ErrorCode::TransactionalIdAuthorizationFailed
    );
}

#[tokio::test(start_paused = true)]
async fn a_topic_may_bound_its_batches() {
    let world = World::new();
    let mut orders = topic("orders");
    let batch = batches::plain(&numbers(0..3));
    orders.max_message_bytes = i32::try_from(batch.len()).ok();
    assert_eq!(base(&world.produce(&orders, batch).await), 0);
    let larger = batches::plain(&numbers(0..4));
    assert_eq!(
        code(&world.produce(&orders, larger).await),
        ErrorCode::MessageTooLarge
    );
}

#[tokio::test(start_paused = true)]
async fn no_batch_is_refused_as_two_are() {
    let world = World::new();
    let empty = world.produce(&topic("orders"), Bytes::new()).await;
    assert_eq!(code(&empty), ErrorCode::InvalidRecord);
    assert!(world.queen.calls("push").is_empty());
}

#[rstest]
#[case(Compression::Gzip)]
#[case(Compression::Snappy)]
#[case(Compression::Lz4)]
#[case(Compression::Zstd)]
#[tokio::test(start_paused = true)]
async fn every_codec_is_stored_the_same_and_remembered(#[case] codec: Compression) {
    let world = World::new();
    let orders = topic("orders");
    let values = vec!["compress me, compress me, compress me".to_owned(); 50];
    let stored = world
        .produce(&orders, batches::compressed(&values, codec))
        .await;
    assert_eq!(base(&stored), 0);
    assert_eq!(world.values(&orders, 0), values);
    assert_eq!(world.produce.codecs.of(orders.id), codec);
}

#[tokio::test(start_paused = true)]
async fn zstd_needs_the_version_that_brought_it() {
    let mut world = World::new();
    world.version = 6;
    let values = vec!["compress me, compress me, compress me".to_owned(); 50];
    let refused = world
        .produce(
            &topic("orders"),
            batches::compressed(&values, Compression::Zstd),
        )
        .await;
    assert_eq!(code(&refused), ErrorCode::UnsupportedCompressionType);
}

#[tokio::test(start_paused = true)]
async fn a_compression_bomb_costs_its_sender_only() {
    let world = World::new();
    let orders = topic("orders");
    let bomb = batches::compressed(&vec!["\0".repeat(60 << 20); 2], Compression::Zstd);
    assert!(bomb.len() < 1 << 20, "{} bytes on the wire", bomb.len());
    let request = vec![
        (&orders, 0, bomb.clone()),
        (&orders, 1, batches::plain(&numbers(0..1))),
    ];
    let mut codes = Vec::new();
    for admitted in world.admit(request).await {
        codes.push(code(&outcome(admitted).await));
    }
    assert_eq!(codes, [ErrorCode::MessageTooLarge, ErrorCode::None]);
    // What it reserved is free again: many bombs don't wear the budget down.
    for _ in 0..10 {
        let refused = world.produce(&orders, bomb.clone()).await;
        assert_eq!(code(&refused), ErrorCode::MessageTooLarge);
    }
    let stored = world.produce(&orders, batches::plain(&numbers(0..1))).await;
    assert_eq!(base(&stored), 0);
}
