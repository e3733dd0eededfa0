//! How transactions end: all or nothing, once, and for the right producer.

use rstest::rstest;

use super::*;

#[rstest]
#[tokio::test(start_paused = true)]
async fn records_and_offsets_land_together(#[values(MEMORY, QUEEN)] stage: TransactionStage) {
    let rig = rig(stage).await;
    let mut producer = Producer::new(&rig, "tx").await;
    producer.produce(&rig, 0, &["a", "b"]).await;
    producer.produce(&rig, 1, &["c"]).await;
    assert_eq!(producer.add_offsets(&rig, "g").await, ErrorCode::None);
    assert_eq!(
        producer.offsets(&rig, "g", 2, 7).await,
        [ErrorCode::None; 2]
    );
    assert_eq!(
        values(&rig, 0).await,
        Vec::<String>::new(),
        "not before its time"
    );
    assert_eq!(committed(&rig, "g", 2).await, Ok(vec![-1, -1]));
    assert_eq!(producer.commit(&rig).await, ErrorCode::None);
    assert_eq!(values(&rig, 0).await, ["a", "b"]);
    assert_eq!(values(&rig, 1).await, ["c"]);
    assert_eq!(committed(&rig, "g", 2).await, Ok(vec![7, 7]));
    let row = &rig.rows("qk:txn:").await[0];
    assert_eq!(row.0, "qk:txn:tx");
    assert_eq!(
        (&row.1["state"], &row.1["seq"]),
        (&json!("committed"), &json!(1))
    );
    // The sequence of a partition goes on from one transaction to the next.
    producer.produce(&rig, 0, &["d"]).await;
    assert_eq!(producer.commit(&rig).await, ErrorCode::None);
    assert_eq!(values(&rig, 0).await, ["a", "b", "d"]);
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn an_aborted_transaction_leaves_nothing(#[values(MEMORY, QUEEN)] stage: TransactionStage) {
    let rig = rig(stage).await;
    let mut producer = Producer::new(&rig, "tx").await;
    producer.produce(&rig, 0, &["a"]).await;
    producer.add_offsets(&rig, "g").await;
    producer.offsets(&rig, "g", 1, 7).await;
    assert_eq!(producer.abort(&rig).await, ErrorCode::None);
    assert_eq!(producer.abort(&rig).await, ErrorCode::None, "again");
    assert_eq!(producer.commit(&rig).await, ErrorCode::InvalidTxnState);
    producer.produce(&rig, 0, &["b"]).await;
    assert_eq!(producer.commit(&rig).await, ErrorCode::None);
    assert_eq!(producer.commit(&rig).await, ErrorCode::None, "again");
    assert_eq!(values(&rig, 0).await, ["b"]);
    assert_eq!(committed(&rig, "g", 1).await, Ok(vec![-1]));
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn a_batch_that_comes_again_counts_once(#[values(MEMORY, QUEEN)] stage: TransactionStage) {
    let rig = rig(stage).await;
    let mut producer = Producer::new(&rig, "tx").await;
    assert_eq!(producer.add(&rig, &[0]).await, [ErrorCode::None]);
    let first = producer.batch(0, &["a", "b"]);
    for _ in 0..3 {
        let sent = producer.resend(&rig, 0, first.clone()).await;
        assert_eq!(sent, (ErrorCode::None, -1));
    }
    producer.sequences.insert(0, 9);
    let (gap, _) = producer.send(&rig, 0, &["x"]).await;
    assert_eq!(gap, ErrorCode::OutOfOrderSequenceNumber);
    producer.sequences.insert(0, 2);
    producer.produce(&rig, 0, &["c"]).await;
    assert_eq!(producer.commit(&rig).await, ErrorCode::None);
    assert_eq!(values(&rig, 0).await, ["a", "b", "c"]);
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn an_instance_that_was_replaced_is_fenced_everywhere(
    #[values(MEMORY, QUEEN)] stage: TransactionStage,
    #[values(false, true)] elsewhere: bool,
) {
    let here = rig(stage).await;
    let there = here.beside_with(staged(stage));
    let mut old = Producer::new(&here, "tx").await;
    old.produce(&here, 0, &["zombie"]).await;
    let rig = if elsewhere { &there } else { &here };
    let mut new = Producer::new(rig, "tx").await;
    assert_eq!((new.pid, new.epoch), (old.pid, old.epoch + 1));
    // The process of the old one learns of it at the end at the latest.
    assert_eq!(old.commit(&here).await, ErrorCode::ProducerFenced);
    assert_eq!(old.add(&here, &[0]).await, [ErrorCode::ProducerFenced]);
    assert_eq!(old.add_offsets(&here, "g").await, ErrorCode::ProducerFenced);
    let (sent, _) = old.send(&here, 0, &["zombie"]).await;
    assert_eq!(sent, ErrorCode::InvalidProducerEpoch);
    assert_eq!(
        old.offsets(&here, "g", 1, 1).await,
        [ErrorCode::InvalidProducerEpoch],
        "a group's coordinator knows no fences"
    );
    assert_eq!(old.bump(&here).await, ErrorCode::ProducerFenced);
    new.produce(rig, 0, &["new"]).await;
    assert_eq!(old.abort(&here).await, ErrorCode::ProducerFenced);
    assert_eq!(new.commit(rig).await, ErrorCode::None);
    assert_eq!(values(&here, 0).await, ["new"]);
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn a_transaction_past_its_time_is_aborted_and_fenced(
    #[values(MEMORY, QUEEN)] stage: TransactionStage,
) {
    let rig = rig(stage).await;
    let mut producer = Producer::new(&rig, "tx").await;
    producer.produce(&rig, 0, &["late"]).await;
    tokio::time::sleep(Duration::from_secs(62)).await;
    assert_eq!(producer.commit(&rig).await, ErrorCode::ProducerFenced);
    let (sent, _) = producer.send(&rig, 0, &["late"]).await;
    assert_eq!(sent, ErrorCode::InvalidProducerEpoch);
    assert_eq!(rig.rows("qk:txn:").await[0].1["state"], "aborted");
    assert_eq!(producer.init(&rig).await, ErrorCode::None);
    producer.produce(&rig, 0, &["new"]).await;
    tokio::time::sleep(Duration::from_secs(58)).await;
    assert_eq!(producer.commit(&rig).await, ErrorCode::None);
    assert_eq!(values(&rig, 0).await, ["new"]);
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn transactions_2_add_by_producing_and_raise_the_epoch(
    #[values(MEMORY, QUEEN)] stage: TransactionStage,
) {
    let rig = rig(stage).await;
    let mut producer = Producer::new(&rig, "tx").await;
    producer.v2 = true;
    producer.produce(&rig, 0, &["a"]).await;
    assert_eq!(producer.offsets(&rig, "g", 1, 3).await, [ErrorCode::None]);
    let before = producer.clone();
    assert_eq!(producer.commit(&rig).await, ErrorCode::None);
    assert_eq!(producer.epoch, before.epoch + 1);
    let mut again = before.clone();
    assert_eq!(
        again.commit(&rig).await,
        ErrorCode::None,
        "the answer was lost"
    );
    assert_eq!(again.epoch, producer.epoch);
    let (late, _) = before.clone().send(&rig, 0, &["late"]).await;
    assert_eq!(late, ErrorCode::InvalidProducerEpoch);
    producer.produce(&rig, 0, &["b"]).await;
    assert_eq!(producer.abort(&rig).await, ErrorCode::None);
    producer.produce(&rig, 0, &["c"]).await;
    assert_eq!(producer.commit(&rig).await, ErrorCode::None);
    assert_eq!(values(&rig, 0).await, ["a", "c"]);
    assert_eq!(committed(&rig, "g", 1).await, Ok(vec![3]));
}

#[tokio::test(start_paused = true)]
async fn a_memory_stage_dies_with_its_process_and_says_so() {
    let first = rig(MEMORY).await;
    let mut producer = Producer::new(&first, "tx").await;
    producer.produce(&first, 0, &["a"]).await;
    assert_eq!(producer.commit(&first).await, ErrorCode::None);
    producer.produce(&first, 0, &["lost"]).await;
    let second = first.beside();
    let lost = ErrorCode::InvalidProducerIdMapping;
    assert_eq!(producer.add(&second, &[1]).await, [lost]);
    let (sent, _) = producer.send(&second, 0, &["more"]).await;
    assert_eq!(sent, lost);
    assert_eq!(
        producer.commit(&second).await,
        lost,
        "never a false success"
    );
    assert_eq!(
        producer.bump(&second).await,
        ErrorCode::None,
        "and the way on is open"
    );
    producer.produce(&second, 0, &["b"]).await;
    assert_eq!(producer.commit(&second).await, ErrorCode::None);
    assert_eq!(values(&second, 0).await, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_landed_before_a_restart_is_told_so_and_not_aborted() {
    let first = rig(MEMORY).await;
    let mut producer = Producer::new(&first, "tx").await;
    producer.produce(&first, 0, &["a"]).await;
    assert_eq!(producer.commit(&first).await, ErrorCode::None);
    // As if the answer had been lost with the process.
    let second = first.beside();
    assert_eq!(producer.abort(&second).await, ErrorCode::InvalidTxnState);
    assert_eq!(producer.commit(&second).await, ErrorCode::None);
    producer.produce(&second, 0, &["b"]).await;
    assert_eq!(producer.commit(&second).await, ErrorCode::None);
    assert_eq!(values(&second, 0).await, ["a", "b"]);
}
