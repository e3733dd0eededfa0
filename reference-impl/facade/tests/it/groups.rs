//! Groups and offsets over a faithful Queen, its limits of calls included.

use facade::config::{Config, PartitionCount};
use facade::handlers;
use fake_queen::faults::{Effect, Rule};
use futures::future::join_all;
use kafka_protocol::messages as typed;
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ErrorCode;
use serde_json::json;

use crate::rig::{Rig, encodable};

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn group(id: &str) -> typed::GroupId {
    typed::GroupId(text(id))
}

fn topic(name: &str) -> typed::TopicName {
    typed::TopicName(text(name))
}

/// Commits `offset` for partitions `0..partitions` of `t`; the codes.
async fn commit(rig: &Rig, id: &str, partitions: i32, offset: i64) -> Vec<ErrorCode> {
    let partition = |index| {
        typed::offset_commit_request::OffsetCommitRequestPartition::default()
            .with_partition_index(index)
            .with_committed_offset(offset)
            .with_committed_metadata(Some(text("m")))
    };
    let topic = typed::offset_commit_request::OffsetCommitRequestTopic::default()
        .with_name(topic("t"))
        .with_partitions((0..partitions).map(partition).collect());
    let request = typed::OffsetCommitRequest::default()
        .with_group_id(group(id))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic]);
    let response = encodable(
        handlers::offset_commit::handle(&rig.cx(8), request).await,
        8,
    );
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    partitions
        .map(|partition| ErrorCode::from_code(partition.error_code).expect("a known code"))
        .collect()
}

/// The offsets of partitions `0..partitions` of `t`, or the group's code.
async fn fetch(rig: &Rig, id: &str, partitions: i32) -> Result<Vec<i64>, ErrorCode> {
    let asked = OffsetFetchRequestTopics::default()
        .with_name(topic("t"))
        .with_partition_indexes((0..partitions).collect());
    let of_group = OffsetFetchRequestGroup::default()
        .with_group_id(group(id))
        .with_topics(Some(vec![asked]));
    let request = typed::OffsetFetchRequest::default().with_groups(vec![of_group]);
    let response = encodable(handlers::offset_fetch::handle(&rig.cx(8), request).await, 8);
    let fetched = &response.groups[0];
    match ErrorCode::from_code(fetched.error_code) {
        Some(ErrorCode::None) => Ok(fetched.topics[0]
            .partitions
            .iter()
            .map(|partition| partition.committed_offset)
            .collect()),
        code => Err(code.expect("a known code")),
    }
}

#[tokio::test(start_paused = true)]
async fn offsets_outlive_the_process_and_are_shared_with_another() {
    let rig = Rig::start().await;
    rig.native_queue("t", json!({})).await;
    assert_eq!(commit(&rig, "g", 2, 41).await, [ErrorCode::None; 2]);
    let beside = rig.beside();
    assert_eq!(fetch(&beside, "g", 3).await, Ok(vec![41, 41, -1]));
    assert_eq!(commit(&beside, "g", 1, 42).await, [ErrorCode::None]);
    assert_eq!(fetch(&rig, "g", 2).await, Ok(vec![42, 41]));
    let rows = rig.rows("qk:group:g:").await;
    assert_eq!(rows[0].0, "qk:group:g:t:0");
    assert_eq!(rows[0].1["offset"], 42);
    assert_eq!(rig.rows("qk:groups:").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn five_hundred_groups_commit_within_the_calls_queen_grants() {
    let rig = Rig::start().await;
    rig.native_queue("t", json!({})).await;
    commit(&rig, "first", 1, 0).await;
    rig.count("kv");
    let (groups, rounds) = (500, 20);
    let consumer = |n: i64| {
        let rig = &rig;
        async move {
            for round in 0..rounds {
                let codes = commit(rig, &format!("g-{n}"), 1, round).await;
                assert_eq!(codes, [ErrorCode::None], "Queen never has to refuse");
            }
        }
    };
    join_all((0..groups).map(consumer)).await;
    let (commits, calls) = (groups * rounds, rig.counted("kv"));
    assert!(
        commits as u64 >= 50 * calls,
        "{commits} commits in {calls} calls"
    );
    for n in [0, 250, 499] {
        assert_eq!(
            fetch(&rig, &format!("g-{n}"), 1).await,
            Ok(vec![rounds - 1])
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_wide_assignment_is_committed_and_fetched_whole() {
    let wide = |config: &mut Config| config.default_partitions = PartitionCount::MAX;
    let rig = Rig::start_with(fake_queen::Options::default(), wide).await;
    rig.native_queue("t", json!({})).await;
    let codes = commit(&rig, "g", 3000, 7).await;
    assert!(codes.iter().all(|code| *code == ErrorCode::None));
    let offsets = fetch(&rig, "g", 3001).await.expect("read");
    assert!(offsets[..3000].iter().all(|offset| *offset == 7));
    assert_eq!(offsets[3000], -1);
}

#[tokio::test(start_paused = true)]
async fn an_offset_that_queen_leaves_unread_is_never_told_as_none() {
    let rig = Rig::start().await;
    rig.native_queue("t", json!({})).await;
    commit(&rig, "g", 100, 7).await;
    rig.strike(Rule::always("kv", Effect::TruncateGetMany { rows: 40 }));
    assert_eq!(
        fetch(&rig, "g", 100).await,
        Ok(vec![7; 100]),
        "asked for again"
    );
    rig.heal();
    rig.strike(Rule::always("kv", Effect::TruncateGetMany { rows: 0 }));
    assert_eq!(
        fetch(&rig, "g", 100).await,
        Err(ErrorCode::CoordinatorLoadInProgress)
    );
    rig.heal();
    assert_eq!(fetch(&rig, "g", 100).await, Ok(vec![7; 100]));
}

#[tokio::test(start_paused = true)]
async fn a_commit_whose_answer_is_lost_is_retriable_and_lands_once() {
    let rig = Rig::start().await;
    rig.native_queue("t", json!({})).await;
    commit(&rig, "g", 1, 1).await;
    rig.strike(Rule::once("kv", Effect::StatusAfter { code: 502 }));
    let code = commit(&rig, "g", 1, 2).await[0];
    assert!(code.retriable(), "{code}");
    assert_eq!(fetch(&rig, "g", 1).await, Ok(vec![2]), "it was applied");
    assert_eq!(commit(&rig, "g", 1, 2).await, [ErrorCode::None]);
}

#[tokio::test(start_paused = true)]
async fn queens_refusals_reach_the_client_in_kafkas_words() {
    let rig = Rig::start().await;
    rig.native_queue("t", json!({})).await;
    commit(&rig, "g", 1, 1).await;
    for (status, code) in [
        (403, ErrorCode::GroupAuthorizationFailed),
        (503, ErrorCode::CoordinatorNotAvailable),
    ] {
        rig.refuse("kv", status);
        assert_eq!(commit(&rig, "g", 1, 2).await, [code]);
        assert_eq!(fetch(&rig, "g", 1).await, Err(code));
        rig.heal();
    }
    rig.throttle("kv", 1);
    assert_eq!(
        commit(&rig, "g", 1, 2).await,
        [ErrorCode::CoordinatorNotAvailable]
    );
    rig.heal();
    assert_eq!(commit(&rig, "g", 1, 3).await, [ErrorCode::None]);
}

fn join_request(id: &str, member_id: StrBytes) -> typed::JoinGroupRequest {
    let protocol = typed::join_group_request::JoinGroupRequestProtocol::default()
        .with_name(text("range"))
        .with_metadata(vec![0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff].into());
    typed::JoinGroupRequest::default()
        .with_group_id(group(id))
        .with_session_timeout_ms(45_000)
        .with_rebalance_timeout_ms(300_000)
        .with_member_id(member_id)
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol])
}

/// One member from its first join to the offsets of its assignment.
async fn member(rig: &Rig, n: usize) -> (i32, usize) {
    let asked = handlers::join_group::handle(&rig.cx(9), join_request("g", text(""))).await;
    assert_eq!(asked.error_code, ErrorCode::MemberIdRequired.code());
    let request = join_request("g", asked.member_id);
    let joined = handlers::join_group::handle(&rig.cx(9), request).await;
    assert_eq!(joined.error_code, 0, "member {n}");
    let assignment = |member: &typed::join_group_response::JoinGroupResponseMember| {
        typed::sync_group_request::SyncGroupRequestAssignment::default()
            .with_member_id(member.member_id.clone())
            .with_assignment(member.member_id.as_bytes().to_vec().into())
    };
    let sync = typed::SyncGroupRequest::default()
        .with_group_id(group("g"))
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone())
        .with_protocol_type(joined.protocol_type.clone())
        .with_protocol_name(joined.protocol_name.clone())
        .with_assignments(joined.members.iter().map(assignment).collect());
    let synced = handlers::sync_group::handle(&rig.cx(5), sync).await;
    assert_eq!(synced.error_code, 0, "member {n}");
    assert_eq!(&synced.assignment[..], joined.member_id.as_bytes());
    assert_eq!(fetch(rig, "g", 4).await, Ok(vec![7, 7, 7, 7]));
    (joined.generation_id, joined.members.len())
}

#[tokio::test(start_paused = true)]
async fn six_hundred_members_join_in_one_generation_and_share_their_reads() {
    let rig = Rig::start().await;
    rig.native_queue("t", json!({})).await;
    commit(&rig, "g", 4, 7).await;
    rig.count("kv");
    let members = join_all((0..600).map(|n| member(&rig, n))).await;
    assert!(members.iter().all(|(generation, _)| *generation == 1));
    assert_eq!(
        members.iter().filter(|(_, roster)| *roster == 600).count(),
        1
    );
    let calls = rig.counted("kv");
    assert!(calls <= 20, "{calls} calls");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_group_is_gone_for_every_process() {
    let rig = Rig::start().await;
    rig.native_queue("t", json!({})).await;
    commit(&rig, "g", 500, 7).await;
    commit(&rig, "stays", 1, 7).await;
    let request = typed::DeleteGroupsRequest::default().with_groups_names(vec![group("g")]);
    let deleted = handlers::delete_groups::handle(&rig.cx(2), request).await;
    assert_eq!(deleted.results[0].error_code, 0);
    let beside = rig.beside();
    assert_eq!(fetch(&beside, "g", 2).await, Ok(vec![-1, -1]));
    let cx = beside.cx(5);
    let listed = handlers::list_groups::handle(&cx, typed::ListGroupsRequest::default());
    let names: Vec<String> = listed
        .await
        .groups
        .iter()
        .map(|g| g.group_id.to_string())
        .collect();
    assert_eq!(names, ["stays"]);
}

/// The answer of a commit does not come in time, and Queen does what it asks after the next one.
#[tokio::test(start_paused = true)]
async fn a_commit_that_is_applied_late_does_not_move_a_younger_one_back() {
    let rig = Rig::start().await;
    rig.native_queue("t", json!({})).await;
    assert_eq!(commit(&rig, "g", 1, 1).await, [ErrorCode::None]);
    rig.strike(Rule {
        body_contains: Some("\"offset\":5".into()),
        ..Rule::always("kv", Effect::Late { ms: 60_000 })
    });
    assert_ne!(commit(&rig, "g", 1, 5).await, [ErrorCode::None]);
    assert_eq!(commit(&rig, "g", 1, 9).await, [ErrorCode::None]);
    tokio::time::sleep(std::time::Duration::from_secs(120)).await;
    assert_eq!(fetch(&rig, "g", 1).await, Ok(vec![9]));
}
