//! Nothing lost, nothing twice, in order: across lost answers, restarts and retries.

use std::time::Duration;

use kafka_wire::ErrorCode;
use proptest::prelude::*;

use super::*;
use crate::scripted_queen::Fault;

#[tokio::test(start_paused = true)]
async fn a_batch_whose_answer_was_lost_is_stored_once() {
    let world = World::new();
    let orders = topic("orders");
    let mut producer = producer(7);
    let first = world.produce(&orders, producer.batch(&numbers(0..3))).await;
    world.queen.script("push", [Fault::LostAfter]);
    let second = world.produce(&orders, producer.batch(&numbers(3..5))).await;
    assert_eq!((base(&first), base(&second)), (0, 3));
    assert_eq!(world.values(&orders, 0), numbers(0..5));
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_recognised_by_another_process() {
    let world = World::new();
    let orders = topic("orders");
    let mut sent = producer(7);
    let batches = [sent.batch(&numbers(0..3)), sent.batch(&numbers(3..5))];
    for batch in &batches {
        world.produce(&orders, batch.clone()).await;
    }
    // The answers never reached the client, and the process is gone: it sends both again.
    let restarted = World::over(world.queen.clone());
    let again = restarted.produce(&orders, batches[1].clone()).await;
    assert_eq!(base(&again), 3, "an unknown producer may start anywhere");
    assert_eq!(restarted.values(&orders, 0), numbers(0..5));
}

#[tokio::test(start_paused = true)]
async fn a_repeated_batch_is_answered_with_its_offset_and_not_pushed() {
    let world = World::new();
    let orders = topic("orders");
    let mut sent = producer(7);
    let batch = sent.batch(&numbers(0..3));
    world.produce(&orders, batch.clone()).await;
    let again = world.produce(&orders, batch).await;
    assert_eq!(base(&again), 0);
    assert_eq!(world.queen.calls("push").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_batch_sent_again_while_in_flight_shares_the_answer() {
    let world = World::new();
    let orders = topic("orders");
    let batch = producer(7).batch(&numbers(0..3));
    world
        .queen
        .script("push", [Fault::Slow(Duration::from_secs(3))]);
    let first = world
        .admit(vec![(&orders, 0, batch.clone())])
        .await
        .remove(0);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let again = world.admit(vec![(&orders, 0, batch)]).await.remove(0);
    assert_eq!(base(&outcome(first).await), 0);
    assert_eq!(base(&outcome(again).await), 0);
    assert_eq!(world.queen.calls("push").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_new_epoch_starts_at_sequence_zero() {
    let world = World::new();
    let orders = topic("orders");
    let mut sent = producer(7);
    world.produce(&orders, sent.batch(&numbers(0..3))).await;
    sent.epoch = 1;
    let gap = world.produce(&orders, sent.batch(&numbers(3..4))).await;
    assert_eq!(code(&gap), ErrorCode::OutOfOrderSequenceNumber);
    sent.sequence = 0;
    let fresh = world.produce(&orders, sent.batch(&numbers(3..4))).await;
    assert_eq!(base(&fresh), 3);
    sent.epoch = 0;
    let fenced = world.produce(&orders, sent.batch(&numbers(4..5))).await;
    assert_eq!(code(&fenced), ErrorCode::InvalidProducerEpoch);
    assert_eq!(world.values(&orders, 0), numbers(0..4));
}

#[tokio::test(start_paused = true)]
async fn what_stands_behind_a_failed_batch_fails_too() {
    let world = World::new();
    let orders = topic("orders");
    let mut sent = producer(7);
    let batches: Vec<_> = (0..4).map(|n| sent.batch(&numbers(n..n + 1))).collect();
    // The first is in flight when the others arrive; Queen doesn't store it.
    world.queen.script("push", [Fault::Items("failed")]);
    let mut admitted = Vec::new();
    for batch in &batches {
        admitted.extend(world.admit(vec![(&orders, 0, batch.clone())]).await);
    }
    let mut codes = Vec::new();
    for admitted in admitted {
        codes.push(code(&outcome(admitted).await));
    }
    assert_eq!(codes[0], ErrorCode::RequestTimedOut);
    assert_eq!(codes[1..], [ErrorCode::OutOfOrderSequenceNumber; 3]);
    assert_eq!(world.values(&orders, 0), Vec::<String>::new());
    for batch in batches {
        world.produce(&orders, batch).await;
    }
    assert_eq!(world.values(&orders, 0), numbers(0..4));
}

#[tokio::test(start_paused = true)]
async fn a_plain_batch_is_repeated_only_where_queen_recognises_it() {
    let world = World::new();
    let mut native = topic("native");
    native.deduplicates = false;
    world.queen.script("push", [Fault::LostAfter]);
    let lost = world.produce(&native, batches::plain(&numbers(0..2))).await;
    assert_eq!(code(&lost), ErrorCode::RequestTimedOut);
    assert_eq!(world.values(&native, 0), numbers(0..2));
    assert_eq!(world.queen.calls("push").len(), 1);

    let ours = topic("ours");
    world.queen.script("push", [Fault::LostAfter]);
    let stored = world.produce(&ours, batches::plain(&numbers(0..2))).await;
    assert_eq!(base(&stored), 0);
    assert_eq!(world.values(&ours, 0), numbers(0..2));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_closed_its_connection_has_its_records_stored() {
    let world = World::new();
    let orders = topic("orders");
    drop(
        world
            .admit(vec![(&orders, 0, batches::plain(&numbers(0..2)))])
            .await,
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.values(&orders, 0), numbers(0..2));
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        4 => Just(Fault::None),
        2 => Just(Fault::LostAfter),
        1 => Just(Fault::LostBefore),
        1 => Just(Fault::Status(503)),
        1 => Just(Fault::Status(500)),
        1 => Just(Fault::Throttled(1)),
        1 => Just(Fault::Throttled(20)),
        1 => Just(Fault::Items("failed")),
        1 => Just(Fault::Items("buffered")),
        1 => Just(Fault::Slow(Duration::from_secs(4))),
        1 => Just(Fault::Slow(Duration::from_secs(11))),
        1 => Just(Fault::Status(413)),
    ]
}

/// An idempotent client with five requests in flight: sends in order, and sends everything from
/// the first failure on again, as Kafka's clients do.
async fn client(world: &World, topic: &Topic, partition: i32, id: i64, records: usize) {
    let mut sent = producer(id);
    let mut waiting: std::collections::VecDeque<Bytes> = (0..records)
        .map(|n| sent.batch(&[format!("{id}-{n}")]))
        .collect();
    for _ in 0..1000 {
        if waiting.is_empty() {
            return;
        }
        let window: Vec<Bytes> = waiting.iter().take(5).cloned().collect();
        let mut admitted = Vec::new();
        for batch in window {
            admitted.extend(world.admit(vec![(topic, partition, batch)]).await);
        }
        let mut stored = 0;
        let mut failed = false;
        for admitted in admitted {
            let outcome = outcome(admitted).await;
            match code(&outcome) {
                ErrorCode::None if !failed => stored += 1,
                // Stored behind one that isn't: would be a gap.
                ErrorCode::None => panic!("stored behind a failed batch"),
                ErrorCode::RequestTimedOut | ErrorCode::MessageTooLarge => failed = true,
                ErrorCode::OutOfOrderSequenceNumber if failed => {}
                other => panic!("{other:?}"),
            }
        }
        waiting.drain(..stored);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("never done");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Whatever befalls the pushes, clients that retry see each record stored once and in order.
    #[test]
    fn retrying_clients_store_everything_once_in_order(
        faults in prop::collection::vec(fault(), 0..25),
        records in 1..12_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let world = World::new();
            let (orders, mails) = (topic("orders"), topic("mails"));
            world.queen.script("push", faults);
            tokio::join!(
                client(&world, &orders, 0, 1, records),
                client(&world, &orders, 0, 2, records),
                client(&world, &orders, 1, 3, records),
                client(&world, &mails, 0, 4, records),
            );
            let of = |topic, partition, id: i64| -> Vec<String> {
                let prefix = format!("{id}-");
                let values = world.values(topic, partition).into_iter();
                values.filter(|value| value.starts_with(&prefix)).collect()
            };
            for (topic, partition, id) in [(&orders, 0, 1), (&orders, 0, 2), (&orders, 1, 3), (&mails, 0, 4)] {
                let expected: Vec<_> = (0..records).map(|n| format!("{id}-{n}")).collect();
                assert_eq!(of(topic, partition, id), expected);
            }
            assert_eq!(world.produce.shared.table.unresolved(), 0, "nothing is left behind");
        });
    }
}

#[tokio::test(start_paused = true)]
async fn topics_without_ids_keep_windows_of_their_own() {
    let world = World::new();
    let (mut orders, mut bills) = (topic("orders"), topic("bills"));
    orders.id = uuid::Uuid::nil();
    bills.id = uuid::Uuid::nil();
    let (mut to_orders, mut to_bills) = (producer(7), producer(7));
    assert_eq!(
        base(
            &world
                .produce(&orders, to_orders.batch(&numbers(0..3)))
                .await
        ),
        0
    );
    assert_eq!(
        base(&world.produce(&bills, to_bills.batch(&numbers(0..3))).await),
        0
    );
    assert_eq!(world.values(&orders, 0), numbers(0..3));
    assert_eq!(world.values(&bills, 0), numbers(0..3));
}
