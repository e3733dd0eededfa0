//! Offsets in transactions: the group's rules, few and many, folded and not.

use fake_queen::faults::Rule;
use rstest::rstest;

use super::*;
use crate::rig::refusal;

#[rstest]
#[tokio::test(start_paused = true)]
async fn the_group_and_its_rules_come_first(#[values(MEMORY, QUEEN)] stage: TransactionStage) {
    let rig = rig(stage).await;
    let mut producer = Producer::new(&rig, "tx").await;
    assert_eq!(
        producer.offsets(&rig, "g", 1, 1).await,
        [ErrorCode::TransactionAbortable]
    );
    assert_eq!(producer.add_offsets(&rig, "g").await, ErrorCode::None);
    let stranger = producer.offsets_of(&rig, "g", 1, 1, ("nobody", 3)).await;
    assert_eq!(stranger, [ErrorCode::IllegalGeneration]);
    // As in Kafka, any offset will do.
    assert_eq!(producer.offsets(&rig, "g", 1, -2).await, [ErrorCode::None]);
    assert_eq!(
        producer.offsets(&rig, "", 1, 1).await,
        [ErrorCode::InvalidGroupId]
    );
    // The last one of a partition counts.
    producer.offsets(&rig, "g", 2, 5).await;
    producer.offsets(&rig, "g", 1, 4).await;
    assert_eq!(producer.commit(&rig).await, ErrorCode::None);
    assert_eq!(committed(&rig, "g", 2).await, Ok(vec![4, 5]));
    assert_eq!(rig.rows("qk:groups:").await[0].0, "qk:groups:g");
}

#[tokio::test(start_paused = true)]
async fn a_memory_stage_commits_what_one_bundle_carries() {
    let rig = rig(MEMORY).await;
    let mut producer = Producer::new(&rig, "tx").await;
    producer.add_offsets(&rig, "g").await;
    let refused = producer.offsets(&rig, "g", 63, 1).await;
    assert_eq!(refused, [ErrorCode::InvalidCommitOffsetSize; 63]);
    assert_eq!(
        producer.offsets(&rig, "g", 62, 1).await,
        [ErrorCode::None; 62]
    );
    assert_eq!(producer.commit(&rig).await, ErrorCode::None);
    assert_eq!(
        committed(&rig, "g", 63)
            .await
            .unwrap()
            .iter()
            .filter(|o| **o == 1)
            .count(),
        62
    );
}

#[tokio::test(start_paused = true)]
async fn a_stored_stage_commits_a_thousand_offsets_at_once() {
    let rig = rig(QUEEN).await;
    let mut producer = Producer::new(&rig, "tx").await;
    for offset in [5, 6] {
        producer.produce(&rig, 0, &["a"]).await;
        producer.add_offsets(&rig, "g").await;
        assert_eq!(
            producer.offsets(&rig, "g", 1000, offset).await,
            [ErrorCode::None; 1000]
        );
        assert_eq!(producer.commit(&rig).await, ErrorCode::None);
        assert_eq!(committed(&rig, "g", 1000).await, Ok(vec![offset; 1000]));
        assert_eq!(rig.rows("qk:txnoff:").await, [], "folded before the answer");
    }
    assert_eq!(rig.rows("qk:group:g:").await.len(), 1000);
    assert_eq!(values(&rig, 0).await, ["a", "a"]);
}

/// Commits 100 offsets whose rows can't be folded yet.
async fn unfolded(rig: &Rig) -> Producer {
    let mut producer = Producer::new(rig, "tx").await;
    producer.add_offsets(rig, "g").await;
    producer.offsets(rig, "g", 100, 5).await;
    rig.strike(Rule {
        body_contains: Some("qk:group:g:".to_owned()),
        ..Rule::always("kv", refusal(503, None))
    });
    assert_eq!(
        producer.commit(rig).await,
        ErrorCode::None,
        "it is committed all the same"
    );
    rig.heal();
    assert_ne!(rig.rows("qk:txnoff:").await, []);
    producer
}

#[tokio::test(start_paused = true)]
async fn offsets_that_are_not_folded_yet_are_read_by_everybody_and_folded_by_the_first() {
    let rig = rig(QUEEN).await;
    unfolded(&rig).await;
    let other = rig.beside();
    assert_eq!(committed(&other, "g", 101).await.unwrap()[99..], [5, -1]);
    let all = typed::OffsetFetchRequest::default().with_groups(vec![
        typed::offset_fetch_request::OffsetFetchRequestGroup::default()
            .with_group_id(typed::GroupId(text("g")))
            .with_topics(None),
    ]);
    let response = handlers::offset_fetch::handle(&rig.beside().cx(8), all).await;
    assert_eq!(response.groups[0].topics[0].partitions.len(), 100);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(rig.rows("qk:txnoff:").await, []);
    assert_eq!(rig.rows("qk:group:g:").await.len(), 100);
    assert_eq!(committed(&other, "g", 100).await, Ok(vec![5; 100]));
}

#[tokio::test(start_paused = true)]
async fn a_later_commit_by_hand_is_not_overwritten_by_the_fold() {
    let rig = rig(QUEEN).await;
    unfolded(&rig).await;
    let partition = typed::offset_commit_request::OffsetCommitRequestPartition::default()
        .with_partition_index(7)
        .with_committed_offset(2);
    let of_topic = typed::offset_commit_request::OffsetCommitRequestTopic::default()
        .with_name(topic("t"))
        .with_partitions(vec![partition]);
    let request = typed::OffsetCommitRequest::default()
        .with_group_id(typed::GroupId(text("g")))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![of_topic]);
    let response = handlers::offset_commit::handle(&rig.cx(8), request).await;
    assert_eq!(response.topics[0].partitions[0].error_code, 0);
    let read = committed(&rig, "g", 100).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(committed(&rig.beside(), "g", 100).await.unwrap(), read);
    assert_eq!((read[6], read[7], read[8]), (5, 2, 5));
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_deleted_stays_deleted() {
    let rig = rig(QUEEN).await;
    unfolded(&rig).await;
    let request =
        typed::DeleteGroupsRequest::default().with_groups_names(vec![typed::GroupId(text("g"))]);
    let response = handlers::delete_groups::handle(&rig.cx(2), request).await;
    assert_eq!(response.results[0].error_code, 0);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(committed(&rig, "g", 100).await, Ok(vec![-1; 100]));
    assert_eq!(rig.rows("qk:txnoff:").await, []);
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn an_offset_that_waits_is_not_stable(#[values(MEMORY, QUEEN)] stage: TransactionStage) {
    let rig = rig(stage).await;
    let mut producer = Producer::new(&rig, "tx").await;
    producer.add_offsets(&rig, "g").await;
    producer.offsets(&rig, "g", 1, 7).await;
    let waits = (-1, ErrorCode::UnstableOffsetCommit);
    let none = (-1, ErrorCode::None);
    let stable = offsets_told(&rig, "g", 2, true).await;
    assert_eq!(stable, Ok(vec![waits, none]), "whoever takes it over waits");
    let any = offsets_told(&rig, "g", 2, false).await;
    assert_eq!(any, Ok(vec![none, none]));
    let others = offsets_told(&rig, "h", 2, true).await;
    assert_eq!(others, Ok(vec![none, none]), "another group");
    assert_eq!(producer.commit(&rig).await, ErrorCode::None);
    let stable = offsets_told(&rig, "g", 2, true).await;
    assert_eq!(stable, Ok(vec![(7, ErrorCode::None), none]));
}

/// Clients before version 7 cannot ask for stable offsets: they are told the offset before.
#[rstest]
#[tokio::test(start_paused = true)]
async fn whoever_cannot_ask_for_stable_offsets_is_told_the_one_before(
    #[values(MEMORY, QUEEN)] stage: TransactionStage,
) {
    let rig = rig(stage).await;
    let mut producer = Producer::new(&rig, "tx").await;
    producer.add_offsets(&rig, "g").await;
    producer.offsets(&rig, "g", 1, 3).await;
    assert_eq!(producer.commit(&rig).await, ErrorCode::None);
    producer.add_offsets(&rig, "g").await;
    producer.offsets(&rig, "g", 1, 7).await;
    let before = (3, ErrorCode::None);
    for version in 1..=7 {
        let told = single_offset_told(&rig, version, false).await;
        assert_eq!(told, before, "version {version}");
    }
    let waits = (-1, ErrorCode::UnstableOffsetCommit);
    assert_eq!(single_offset_told(&rig, 7, true).await, waits);
    assert_eq!(producer.commit(&rig).await, ErrorCode::None);
    for version in 1..=7 {
        let told = single_offset_told(&rig, version, version == 7).await;
        assert_eq!(told, (7, ErrorCode::None), "version {version}");
    }
}

/// Partition 0 of `t` in group `g`, asked for in the form of versions that know one group.
async fn single_offset_told(rig: &Rig, version: i16, require_stable: bool) -> (i64, ErrorCode) {
    let asked = typed::offset_fetch_request::OffsetFetchRequestTopic::default()
        .with_name(topic("t"))
        .with_partition_indexes(vec![0]);
    let request = typed::OffsetFetchRequest::default()
        .with_group_id(typed::GroupId(text("g")))
        .with_require_stable(require_stable)
        .with_topics(Some(vec![asked]));
    let response = handlers::offset_fetch::handle(&rig.cx(version), request).await;
    let response = crate::rig::encodable(response, version);
    let partition = &response.topics[0].partitions[0];
    (partition.committed_offset, code(partition.error_code))
}
