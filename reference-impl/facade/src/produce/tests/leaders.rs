//! Several nodes before one Queen: a leader that doesn't know what another one has in flight.

use std::time::Duration;

use kafka_wire::ErrorCode;

use super::*;
use crate::scripted_queen::Fault;

/// Two nodes of one cluster.
fn nodes() -> (World, World) {
    let one = World::node(ScriptedQueen::start(), true);
    let other = World::node(one.queen.clone(), true);
    (one, other)
}

/// Batches of two records each.
fn batches<const N: usize>(sent: &mut Producer) -> [Bytes; N] {
    std::array::from_fn(|n| sent.batch(&numbers(2 * n..2 * n + 2)))
}

#[tokio::test(start_paused = true)]
async fn a_batch_whose_predecessor_is_still_at_the_old_leader_is_out_of_order() {
    let (old, new) = nodes();
    let orders = topic("orders");
    let [first, held, next] = batches(&mut producer(7));
    old.produce(&orders, first).await;
    // The second waits at the old leader, the client has learnt of the new one, and goes on there.
    let early = new.produce(&orders, next.clone()).await;
    assert_eq!(code(&early), ErrorCode::OutOfOrderSequenceNumber);
    old.produce(&orders, held).await;
    assert_eq!(base(&new.produce(&orders, next).await), 4);
    assert_eq!(new.values(&orders, 0), numbers(0..6));
}

#[tokio::test(start_paused = true)]
async fn what_the_old_leader_stored_is_followed_and_known_again() {
    let (old, new) = nodes();
    let orders = topic("orders");
    let sent: [Bytes; 4] = batches(&mut producer(7));
    for batch in &sent[..3] {
        old.produce(&orders, batch.clone()).await;
    }
    // The answer to the third was lost: it comes again, and the one behind it.
    assert_eq!(base(&new.produce(&orders, sent[2].clone()).await), 4);
    assert_eq!(base(&new.produce(&orders, sent[3].clone()).await), 6);
    assert_eq!(new.values(&orders, 0), numbers(0..8));
    // The second one's answer too.
    assert_eq!(base(&new.produce(&orders, sent[1].clone()).await), 2);
    assert_eq!(new.values(&orders, 0), numbers(0..8));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_leads_again_knows_what_others_stored_meanwhile() {
    let (one, other) = nodes();
    let orders = topic("orders");
    let sent: [Bytes; 4] = batches(&mut producer(7));
    one.produce(&orders, sent[0].clone()).await;
    other.produce(&orders, sent[1].clone()).await;
    other.produce(&orders, sent[2].clone()).await;
    assert_eq!(base(&one.produce(&orders, sent[3].clone()).await), 6);
    assert_eq!(one.values(&orders, 0), numbers(0..8));
}

#[tokio::test(start_paused = true)]
async fn an_epoch_that_began_at_another_node_goes_on() {
    let (one, other) = nodes();
    let orders = topic("orders");
    let mut sent = producer(7);
    one.produce(&orders, sent.batch(&numbers(0..1))).await;
    let late = sent.batch(&numbers(9..10));
    (sent.epoch, sent.sequence) = (1, 0);
    let begins = sent.batch(&numbers(1..2));
    let goes_on = sent.batch(&numbers(2..3));
    let early = one.produce(&orders, goes_on.clone()).await;
    assert_eq!(code(&early), ErrorCode::OutOfOrderSequenceNumber);
    other.produce(&orders, begins).await;
    assert_eq!(base(&one.produce(&orders, goes_on).await), 2);
    assert_eq!(
        code(&one.produce(&orders, late).await),
        ErrorCode::InvalidProducerEpoch
    );
    assert_eq!(one.values(&orders, 0), numbers(0..3));
}

#[tokio::test(start_paused = true)]
async fn first_batches_that_are_nowhere_are_waited_for_as_long_as_another_node_may_try() {
    let (_, new) = nodes();
    let orders = topic("orders");
    let [first, next] = batches(&mut producer(7));
    new.queen.create("orders");
    let early = new.produce(&orders, next.clone()).await;
    assert_eq!(code(&early), ErrorCode::NotEnoughReplicas);
    new.produce(&orders, first).await;
    assert_eq!(base(&new.produce(&orders, next).await), 2);
    // The topic was made anew under a producer: nobody brings what came before.
    let orders = topic("payments");
    new.queen.create("payments");
    let mut sent = producer(8);
    sent.sequence = 60;
    let batch = sent.batch(&numbers(0..1));
    let unknown = new.produce(&orders, batch.clone()).await;
    assert_eq!(code(&unknown), ErrorCode::NotEnoughReplicas);
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(base(&new.produce(&orders, batch).await), 0);
}

#[tokio::test(start_paused = true)]
async fn who_is_out_of_sight_is_taken_at_its_word() {
    let (_, new) = nodes();
    let orders = topic("orders");
    for _ in 0..3 {
        new.queen
            .store("orders", 0, serde_json::json!({"v": "MQ=="}));
    }
    new.queen.retain_from("orders", 0, 1);
    let mut sent = producer(7);
    sent.sequence = 60;
    let batch = sent.batch(&numbers(0..1));
    assert_eq!(base(&new.produce(&orders, batch).await), 3);
}

#[tokio::test(start_paused = true)]
async fn a_log_that_cannot_be_read_refuses_for_now_and_who_may_not_read_is_believed() {
    let (old, new) = nodes();
    let orders = topic("orders");
    let sent: [Bytes; 2] = batches(&mut producer(7));
    old.produce(&orders, sent[0].clone()).await;
    new.queen.script("fetch", [Fault::Status(503)]);
    let later = new.produce(&orders, sent[1].clone()).await;
    assert_eq!(code(&later), ErrorCode::RequestTimedOut);
    new.queen.script("fetch", [Fault::Status(403)]);
    assert_eq!(base(&new.produce(&orders, sent[1].clone()).await), 2);
}

#[tokio::test(start_paused = true)]
async fn a_producer_is_found_behind_thousands_of_others() {
    let (old, new) = nodes();
    let orders = topic("orders");
    let sent: [Bytes; 2] = batches(&mut producer(7));
    old.produce(&orders, sent[0].clone()).await;
    let mut other = producer(8);
    for n in 0..5 {
        let many = numbers(1_000 * n..1_000 * (n + 1));
        old.produce(&orders, other.batch(&many)).await;
    }
    new.produce(&orders, sent[1].clone()).await;
    assert!(
        new.queen.calls("fetch").len() > 3,
        "the end alone doesn't show it"
    );
    let mut gap = producer(7);
    gap.sequence = 40;
    let early = World::node(new.queen.clone(), true);
    let early = early.produce(&orders, gap.batch(&numbers(0..1))).await;
    assert_eq!(code(&early), ErrorCode::OutOfOrderSequenceNumber);
}

#[tokio::test(start_paused = true)]
async fn alone_a_node_reads_no_log() {
    let world = World::new();
    let mut sent = producer(7);
    sent.sequence = 60;
    let batch = sent.batch(&numbers(0..1));
    assert_eq!(base(&world.produce(&topic("orders"), batch).await), 0);
    assert_eq!(world.queen.calls("fetch").len(), 0);
}
