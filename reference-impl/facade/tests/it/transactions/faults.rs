//! Answers that get lost, refusals, outages: nothing twice, nothing lost, nobody fenced by a retry.

use fake_queen::faults::{Effect, Rule};
use rstest::rstest;

use super::*;
use crate::rig::refusal;

#[rstest]
#[case::cut(Effect::DropAfter)]
#[case::gateway(Effect::StatusAfter { code: 504 })]
#[tokio::test(start_paused = true)]
async fn a_commit_whose_answer_is_lost_has_landed_once(
    #[values(MEMORY, QUEEN)] stage: TransactionStage,
    #[case] effect: Effect,
) {
    let rig = rig(stage).await;
    let mut producer = Producer::new(&rig, "tx").await;
    for (n, value) in ["a", "b"].into_iter().enumerate() {
        producer.produce(&rig, 0, &[value]).await;
        producer.add_offsets(&rig, "g").await;
        producer.offsets(&rig, "g", 1, n as i64).await;
        rig.strike(Rule::once("transaction", effect.clone()));
        assert_eq!(producer.commit(&rig).await, ErrorCode::None);
        rig.heal();
    }
    assert_eq!(values(&rig, 0).await, ["a", "b"]);
    assert_eq!(committed(&rig, "g", 1).await, Ok(vec![1]));
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn answers_stay_away_for_long_and_the_commit_is_carried_on(
    #[values(MEMORY, QUEEN)] stage: TransactionStage,
) {
    let rig = rig(stage).await;
    let mut producer = Producer::new(&rig, "tx").await;
    producer.produce(&rig, 0, &["a"]).await;
    rig.strike(Rule::always("transaction", Effect::DropAfter));
    let later = ErrorCode::CoordinatorNotAvailable;
    assert_eq!(producer.commit(&rig).await, later);
    // Nobody takes the decision back, and a new instance waits for it.
    assert_eq!(producer.abort(&rig).await, ErrorCode::InvalidTxnState);
    let mut new = producer.clone();
    assert_eq!(new.init(&rig).await, ErrorCode::ConcurrentTransactions);
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(
        producer.commit(&rig).await,
        later,
        "its time doesn't end it"
    );
    rig.heal();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(values(&rig, 0).await, ["a"], "though nobody asked again");
    assert_eq!(producer.commit(&rig).await, ErrorCode::None);
    assert_eq!(new.init(&rig).await, ErrorCode::None);
}

#[rstest]
#[case::unavailable(503)]
#[case::full(507)]
#[case::throttled(429)]
#[tokio::test(start_paused = true)]
async fn a_commit_waits_for_a_short_outage_and_survives_a_long_one(
    #[values(MEMORY, QUEEN)] stage: TransactionStage,
    #[case] status: u16,
) {
    let rig = rig(stage).await;
    let mut producer = Producer::new(&rig, "tx").await;
    producer.produce(&rig, 0, &["a"]).await;
    rig.strike(Rule {
        count: Some(3),
        ..Rule::always("transaction", refusal(status, Some(1)))
    });
    assert_eq!(producer.commit(&rig).await, ErrorCode::None);
    rig.heal();
    producer.produce(&rig, 0, &["b"]).await;
    rig.refuse("transaction", status);
    assert_eq!(
        producer.commit(&rig).await,
        ErrorCode::CoordinatorNotAvailable
    );
    rig.heal();
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(
        producer.commit(&rig).await,
        ErrorCode::None,
        "the stage was kept"
    );
    assert_eq!(values(&rig, 0).await, ["a", "b"]);
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn a_refused_credential_keeps_the_stage(#[values(MEMORY, QUEEN)] stage: TransactionStage) {
    let rig = rig(stage).await;
    let mut producer = Producer::new(&rig, "tx").await;
    producer.produce(&rig, 0, &["a"]).await;
    rig.refuse("transaction", 403);
    let denied = ErrorCode::TransactionalIdAuthorizationFailed;
    assert_eq!(producer.commit(&rig).await, denied);
    rig.heal();
    assert_eq!(producer.commit(&rig).await, ErrorCode::None);
    assert_eq!(values(&rig, 0).await, ["a"]);
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn claims_and_aborts_survive_lost_answers(#[values(MEMORY, QUEEN)] stage: TransactionStage) {
    let rig = rig(stage).await;
    rig.strike(Rule {
        body_contains: Some("qk:txn:".to_owned()),
        skip: 1,
        ..Rule::once("kv", Effect::DropAfter)
    });
    let mut producer = Producer::new(&rig, "tx").await;
    assert_eq!(producer.epoch, 0, "its own retry didn't fence it");
    rig.heal();
    producer.produce(&rig, 0, &["a"]).await;
    rig.strike(Rule {
        body_contains: Some("\"op\":\"put\"".to_owned()),
        ..Rule::once("kv", Effect::DropAfter)
    });
    assert_eq!(producer.abort(&rig).await, ErrorCode::None);
    rig.heal();
    producer.produce(&rig, 0, &["b"]).await;
    assert_eq!(producer.commit(&rig).await, ErrorCode::None);
    assert_eq!(values(&rig, 0).await, ["b"]);
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn the_winner_is_read_again_when_the_answer_hides_it(
    #[values(MEMORY, QUEEN)] stage: TransactionStage,
) {
    let rig = rig(stage).await;
    let mut producer = Producer::new(&rig, "tx").await;
    producer.produce(&rig, 0, &["a"]).await;
    rig.strike(Rule::once("transaction", Effect::DropAfter));
    rig.strike(Rule::always("transaction", Effect::OmitWinner));
    assert_eq!(producer.commit(&rig).await, ErrorCode::None);
    assert_eq!(values(&rig, 0).await, ["a"]);
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn a_time_that_ends_while_queen_is_away_fences_all_the_same(
    #[values(MEMORY, QUEEN)] stage: TransactionStage,
) {
    let rig = rig(stage).await;
    let mut producer = Producer::new(&rig, "tx").await;
    producer.produce(&rig, 0, &["late"]).await;
    rig.refuse("kv", 503);
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_ne!(producer.commit(&rig).await, ErrorCode::None);
    rig.heal();
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(producer.commit(&rig).await, ErrorCode::ProducerFenced);
    assert_eq!(values(&rig, 0).await, Vec::<String>::new());
}
