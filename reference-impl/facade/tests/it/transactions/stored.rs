//! What only a stored stage does: outlive its process, and be finished by another.

use fake_queen::faults::{Effect, Rule};

use super::*;

#[tokio::test(start_paused = true)]
async fn another_process_finishes_what_one_began() {
    let first = rig(QUEEN).await;
    let mut producer = Producer::new(&first, "tx").await;
    producer.produce(&first, 0, &["a", "b"]).await;
    producer.add_offsets(&first, "g").await;
    producer.offsets(&first, "g", 3, 9).await;
    // As a restart, or a sink that resumes with the same id and epoch.
    let second = first.beside_with(staged(QUEEN));
    producer.produce(&second, 1, &["c"]).await;
    let (sent, _) = producer.send(&second, 0, &["d"]).await;
    assert_eq!(
        sent,
        ErrorCode::None,
        "its partition is known from the stage"
    );
    let third = first.beside_with(staged(QUEEN));
    assert_eq!(producer.commit(&third).await, ErrorCode::None);
    let fourth = first.beside_with(staged(QUEEN));
    assert_eq!(producer.commit(&fourth).await, ErrorCode::None, "landed");
    assert_eq!(producer.abort(&fourth).await, ErrorCode::InvalidTxnState);
    assert_eq!(values(&first, 0).await, ["a", "b", "d"]);
    assert_eq!(values(&first, 1).await, ["c"]);
    assert_eq!(committed(&first, "g", 3).await, Ok(vec![9; 3]));
    // The first process believes in its own: the marker says otherwise, and that it's the same.
    assert_eq!(producer.commit(&first).await, ErrorCode::None);
    assert_eq!(values(&first, 0).await, ["a", "b", "d"]);
}

#[tokio::test(start_paused = true)]
async fn an_abort_by_another_process_stands() {
    let first = rig(QUEEN).await;
    let mut producer = Producer::new(&first, "tx").await;
    producer.produce(&first, 0, &["a"]).await;
    let second = first.beside_with(staged(QUEEN));
    assert_eq!(producer.abort(&second).await, ErrorCode::None);
    assert_eq!(producer.commit(&second).await, ErrorCode::InvalidTxnState);
    assert_eq!(
        producer.commit(&first.beside_with(staged(QUEEN))).await,
        ErrorCode::InvalidTxnState
    );
    producer.produce(&second, 0, &["b"]).await;
    assert_eq!(producer.commit(&second).await, ErrorCode::None);
    assert_eq!(values(&first, 0).await, ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_row_whose_answer_was_lost_is_staged_once() {
    let first = rig(QUEEN).await;
    let mut producer = Producer::new(&first, "tx").await;
    assert_eq!(producer.add(&first, &[0]).await, [ErrorCode::None]);
    first.strike(Rule::once("push", Effect::DropAfter));
    let batch = producer.batch(0, &["a"]);
    assert_eq!(
        producer.resend(&first, 0, batch.clone()).await.0,
        ErrorCode::None
    );
    // A retry that arrives in another process.
    let second = first.beside_with(staged(QUEEN));
    assert_eq!(producer.resend(&second, 0, batch).await.0, ErrorCode::None);
    assert_eq!(producer.commit(&second).await, ErrorCode::None);
    assert_eq!(values(&first, 0).await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn large_batches_are_staged_in_parts_and_nothing_waits_in_memory() {
    let rig = rig_with(QUEEN, |config| config.transactions.max_staged_bytes = 1).await;
    let mut producer = Producer::new(&rig, "tx").await;
    let large = "x".repeat(900_000);
    for n in 0..4 {
        producer.produce(&rig, n, &[&large, "end"]).await;
    }
    assert_eq!(producer.commit(&rig).await, ErrorCode::None);
    for n in 0..4 {
        assert_eq!(values(&rig, n).await, [large.as_str(), "end"]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_stage_is_no_loss() {
    let rig = rig(QUEEN).await;
    let mut producer = Producer::new(&rig, "tx").await;
    assert_eq!(producer.add(&rig, &[0]).await, [ErrorCode::None]);
    rig.refuse("push", 503);
    let (sent, _) = producer.send(&rig, 0, &["a"]).await;
    assert_eq!(sent, ErrorCode::RequestTimedOut);
    rig.heal();
    producer.produce(&rig, 0, &["a"]).await;
    rig.refuse("fetch", 503);
    assert_eq!(
        producer.commit(&rig).await,
        ErrorCode::CoordinatorNotAvailable
    );
    rig.heal();
    assert_eq!(producer.commit(&rig).await, ErrorCode::None);
    assert_eq!(values(&rig, 0).await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_left_behind_ends_with_its_time() {
    let first = rig(QUEEN).await;
    let mut producer = Producer::new(&first, "tx").await;
    producer.produce(&first, 0, &["late"]).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let second = first.beside_with(staged(QUEEN));
    let request = typed::DescribeTransactionsRequest::default()
        .with_transactional_ids(vec![producer.transactional_id()]);
    let response = handlers::describe_transactions::handle(&second.cx(0), request).await;
    assert_eq!(
        &*response.transaction_states[0].transaction_state,
        "Ongoing"
    );
    tokio::time::sleep(Duration::from_secs(62)).await;
    assert_eq!(producer.commit(&second).await, ErrorCode::ProducerFenced);
    assert_eq!(values(&first, 0).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn the_hidden_queue_is_hidden_and_bounded() {
    let rig = rig(QUEEN).await;
    let mut producer = Producer::new(&rig, "tx").await;
    producer.produce(&rig, 0, &["a"]).await;
    let options = rig.options("__queen_kafka_stage").await;
    assert_eq!(options["retentionEnabled"], true);
    assert_eq!(options["retentionSeconds"], 14_400);
    let request = typed::MetadataRequest::default().with_topics(None);
    let Reply::Now(Answer::Send(response)) = handlers::metadata::handle(&rig.cx(12), request).await
    else {
        panic!("there is room");
    };
    let names: Vec<String> = response
        .topics
        .iter()
        .filter_map(|topic| topic.name.as_ref().map(|name| name.to_string()))
        .collect();
    assert_eq!(names, ["t"]);
}
