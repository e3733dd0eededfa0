//! What the group and offset APIs answer, beyond the shape of each version.

use kafka_protocol::messages as typed;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ErrorCode;
use rstest::rstest;

use super::versions::commit_request;
use super::*;
use crate::handlers;
use crate::scripted_queen::Fault;

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn group(id: &str) -> typed::GroupId {
    typed::GroupId(text(id))
}

fn name(name: &str) -> typed::TopicName {
    typed::TopicName(text(name))
}

fn partition(index: i32, offset: i64, metadata: usize) -> OffsetCommitRequestPartition {
    OffsetCommitRequestPartition::default()
        .with_partition_index(index)
        .with_committed_offset(offset)
        .with_committed_metadata(Some(text(&"m".repeat(metadata))))
}

fn topic(topic: &str, partitions: Vec<OffsetCommitRequestPartition>) -> OffsetCommitRequestTopic {
    OffsetCommitRequestTopic::default()
        .with_name(name(topic))
        .with_partitions(partitions)
}

fn request(id: &str, topics: Vec<OffsetCommitRequestTopic>) -> typed::OffsetCommitRequest {
    typed::OffsetCommitRequest::default()
        .with_group_id(group(id))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(topics)
}

async fn commit(world: &World, request: typed::OffsetCommitRequest) -> Vec<ErrorCode> {
    let response = handlers::offset_commit::handle(&world.cx(8), request).await;
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    partitions
        .map(|partition| ErrorCode::from_code(partition.error_code).unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn each_partition_of_a_commit_is_judged_alone() {
    let world = World::new();
    world.queen.create("t");
    // A queue that declares no width has the default one.
    let width = Config::local().default_partitions.get();
    let partitions = vec![
        partition(0, 5, 4096),
        partition(1, 5, 4097),
        partition(2, -2, 0),
        partition(width - 1, -1, 0),
        partition(-1, 5, 0),
        partition(width, 5, 0),
    ];
    let absent = vec![partition(0, 5, 0)];
    let topics = vec![
        topic("t", partitions),
        topic("absent", absent.clone()),
        topic("no/topic", absent.clone()),
        topic("__internal", absent),
    ];
    use ErrorCode as E;
    let expected = [
        E::None,
        E::OffsetMetadataTooLarge,
        E::None,
        E::None,
        E::UnknownTopicOrPartition,
        E::UnknownTopicOrPartition,
        E::UnknownTopicOrPartition,
        E::UnknownTopicOrPartition,
        E::UnknownTopicOrPartition,
    ];
    assert_eq!(commit(&world, request("g", topics)).await, expected);
    assert_eq!(world.queen.rows("qk:group:").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_offset_below_none_is_kept_as_kafka_keeps_it() {
    let world = World::new();
    world.queen.create("t");
    let topics = vec![topic("t", vec![partition(0, -2, 0)])];
    assert_eq!(
        commit(&world, request("g", topics)).await,
        [ErrorCode::None]
    );
    let asked = typed::offset_fetch_request::OffsetFetchRequestTopic::default()
        .with_name(name("t"))
        .with_partition_indexes(vec![0]);
    let fetch = typed::OffsetFetchRequest::default()
        .with_group_id(group("g"))
        .with_topics(Some(vec![asked]));
    let fetched = handlers::offset_fetch::handle(&world.cx(7), fetch).await;
    let partition = &fetched.topics[0].partitions[0];
    assert_eq!((partition.committed_offset, partition.error_code), (-2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_name_too_long_for_queens_keys_is_refused_and_never_found() {
    let world = World::new();
    world.queen.create("t");
    let id = "ü".repeat(100);
    let topics = vec![topic("t", vec![partition(0, 5, 0)])];
    let codes = commit(&world, request(&id, topics)).await;
    assert_eq!(codes, [ErrorCode::InvalidCommitOffsetSize]);
    let asked = typed::offset_fetch_request::OffsetFetchRequestTopic::default()
        .with_name(name("t"))
        .with_partition_indexes(vec![0]);
    let fetch = typed::OffsetFetchRequest::default()
        .with_group_id(group(&id))
        .with_topics(Some(vec![asked]));
    let fetched = handlers::offset_fetch::handle(&world.cx(7), fetch).await;
    let partition = &fetched.topics[0].partitions[0];
    assert_eq!((partition.committed_offset, partition.error_code), (-1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_topic_made_by_another_process_is_known_at_its_first_commit() {
    let world = World::new();
    world.queen.create("t");
    let topics = |name: &str| vec![topic(name, vec![partition(0, 5, 0)])];
    commit(&world, request("g", topics("t"))).await;
    world.queen.create("fresh");
    assert_eq!(
        commit(&world, request("g", topics("fresh"))).await,
        [ErrorCode::None]
    );
}

#[tokio::test(start_paused = true)]
async fn commits_are_accepted_while_the_topics_cannot_be_read() {
    let world = World::new();
    let faults = (0..10).map(|_| Fault::Status(503));
    world.queen.script("resources/queues", faults);
    let topics = vec![topic("t", vec![partition(0, 5, 0)])];
    assert_eq!(
        commit(&world, request("g", topics)).await,
        [ErrorCode::None]
    );
}

#[rstest]
#[case::denied(Fault::Status(403), ErrorCode::GroupAuthorizationFailed)]
#[case::unauthenticated(Fault::Status(401), ErrorCode::GroupAuthorizationFailed)]
#[case::throttled(Fault::Throttled(20), ErrorCode::CoordinatorNotAvailable)]
#[case::unavailable(Fault::Status(503), ErrorCode::CoordinatorNotAvailable)]
#[case::failed(Fault::Status(500), ErrorCode::CoordinatorNotAvailable)]
#[tokio::test(start_paused = true)]
async fn a_failure_of_queen_has_its_code(#[case] fault: Fault, #[case] code: ErrorCode) {
    let world = World::new();
    world.queen.create("t");
    // The first request also reads the topics.
    let warm = commit(&world, commit_request("g", 1)).await;
    assert_eq!(warm, [ErrorCode::None; 2]);
    world.queen.script("kv", [fault]);
    assert_eq!(commit(&world, commit_request("g", 2)).await, [code; 2]);
    assert_eq!(
        commit(&world, commit_request("g", 3)).await,
        [ErrorCode::None; 2]
    );
}

#[tokio::test(start_paused = true)]
async fn the_groups_refusal_stands_for_every_known_topic() {
    let world = World::new();
    world.queen.create("t");
    let joined = world.stable("g").await;
    let mut request = request(
        "g",
        vec![
            topic("t", vec![partition(0, 5, 0), partition(1, 5, 5000)]),
            topic("absent", vec![partition(0, 5, 0)]),
        ],
    );
    request.member_id = text(joined.member_id.as_str());
    request.generation_id_or_member_epoch = joined.generation_id.0 + 1;
    use ErrorCode as E;
    let expected = [
        E::IllegalGeneration,
        E::IllegalGeneration,
        E::UnknownTopicOrPartition,
    ];
    assert_eq!(commit(&world, request).await, expected);
    assert_eq!(
        world
            .queen
            .calls("kv")
            .iter()
            .filter(|c| c.body.to_string().contains("put"))
            .count(),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn a_fetch_asks_for_several_groups_in_shared_calls() {
    let world = World::new();
    world.queen.create("t");
    commit(&world, commit_request("a", 1)).await;
    commit(&world, commit_request("b", 2)).await;
    let before = world.queen.calls("kv").len();
    let of_group = |id: &str| {
        let asked = typed::offset_fetch_request::OffsetFetchRequestTopics::default()
            .with_name(name("t"))
            .with_partition_indexes(vec![0]);
        typed::offset_fetch_request::OffsetFetchRequestGroup::default()
            .with_group_id(group(id))
            .with_topics(Some(vec![asked]))
    };
    let request = typed::OffsetFetchRequest::default()
        .with_require_stable(true)
        .with_groups(vec![
            of_group("b"),
            of_group(""),
            of_group("nobody"),
            of_group("a"),
        ]);
    let fetched = handlers::offset_fetch::handle(&world.cx(8), request).await;
    let answers: Vec<(i16, Option<i64>)> = fetched
        .groups
        .iter()
        .map(|group| {
            let first = group
                .topics
                .first()
                .map(|topic| topic.partitions[0].committed_offset);
            (group.error_code, first)
        })
        .collect();
    let invalid = ErrorCode::InvalidGroupId.code();
    assert_eq!(
        answers,
        [(0, Some(2)), (invalid, None), (0, Some(-1)), (0, Some(1))]
    );
    assert!(world.queen.calls("kv").len() - before <= 3);
}

#[rstest]
#[case::all(&[], &[], &["live", "stored"])]
#[case::by_state(&["stable"], &[], &["live"])]
#[case::by_empty_state(&["Empty"], &[], &["stored"])]
#[case::by_unknown_state(&["Assigning"], &[], &[])]
#[case::by_type(&[], &["Classic"], &["live", "stored"])]
#[case::by_other_type(&[], &["consumer"], &[])]
#[tokio::test(start_paused = true)]
async fn groups_are_filtered_without_regard_to_case(
    #[case] states: &[&str],
    #[case] types: &[&str],
    #[case] expected: &[&str],
) {
    let world = World::new();
    world.queen.create("t");
    world.stable("live").await;
    commit(&world, commit_request("stored", 1)).await;
    let texts = |all: &[&str]| all.iter().map(|one| text(one)).collect();
    let request = typed::ListGroupsRequest::default()
        .with_states_filter(texts(states))
        .with_types_filter(texts(types));
    let listed = handlers::list_groups::handle(&world.cx(5), request).await;
    let names: Vec<&str> = listed.groups.iter().map(|g| &**g.group_id).collect();
    assert_eq!(names, expected);
    assert!(listed.groups.iter().all(|g| &*g.group_type == "classic"));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_cannot_be_read_is_an_error_and_not_shorter() {
    let world = World::new();
    world.stable("live").await;
    world
        .queen
        .script("kv", [Fault::Status(403), Fault::Status(503)]);
    for code in [
        ErrorCode::GroupAuthorizationFailed,
        ErrorCode::CoordinatorNotAvailable,
    ] {
        let listed = handlers::list_groups::handle(&world.cx(5), Default::default()).await;
        assert_eq!(listed.error_code, code.code());
    }
}

fn delete_request(id: &str, topics: &[&str]) -> typed::OffsetDeleteRequest {
    let partition = OffsetDeleteRequestPartition::default().with_partition_index(0);
    let topic = |topic: &&str| {
        OffsetDeleteRequestTopic::default()
            .with_name(name(topic))
            .with_partitions(vec![partition.clone()])
    };
    typed::OffsetDeleteRequest::default()
        .with_group_id(group(id))
        .with_topics(topics.iter().map(topic).collect())
}

async fn delete(world: &World, request: typed::OffsetDeleteRequest) -> (i16, Vec<i16>) {
    let response = handlers::offset_delete::handle(&world.cx(0), request).await;
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    (
        response.error_code,
        partitions.map(|p| p.error_code).collect(),
    )
}

#[tokio::test(start_paused = true)]
async fn offsets_of_subscribed_topics_are_kept() {
    let world = World::new();
    for topic in ["t", "other"] {
        world.queen.create(topic);
    }
    commit(&world, commit_request("g", 1)).await;
    world.stable("g").await;
    let request = delete_request("g", &["t", "other", "absent"]);
    let subscribed = ErrorCode::GroupSubscribedToTopic.code();
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    assert_eq!(
        delete(&world, request).await,
        (0, vec![subscribed, 0, unknown])
    );
    assert_eq!(world.queen.rows("qk:group:g:t:0").len(), 1);
    // The session ends, and nobody subscribes any more.
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(
        delete(&world, delete_request("g", &["t"])).await,
        (0, vec![0])
    );
    assert_eq!(world.queen.rows("qk:group:g:t:0").len(), 0);
    assert_eq!(
        world.queen.rows("qk:groups:g").len(),
        1,
        "the group stays listed"
    );
}

#[tokio::test(start_paused = true)]
async fn offsets_of_a_group_that_is_not_live_are_deleted_if_it_ever_committed() {
    let world = World::new();
    world.queen.create("t");
    let request = || delete_request("g", &["t"]);
    let not_found = ErrorCode::GroupIdNotFound.code();
    assert_eq!(delete(&world, request()).await, (not_found, vec![]));
    commit(&world, commit_request("g", 1)).await;
    assert_eq!(delete(&world, request()).await, (0, vec![0]));
    assert_eq!(
        delete(&world, request()).await,
        (0, vec![0]),
        "absent is deleted"
    );
}

#[tokio::test(start_paused = true)]
async fn without_admin_nothing_is_deleted() {
    let world = World::with(Config {
        admin: false,
        ..Config::local()
    });
    world.queen.create("t");
    commit(&world, commit_request("g", 1)).await;
    let denied = ErrorCode::GroupAuthorizationFailed.code();
    assert_eq!(
        delete(&world, delete_request("g", &["t"])).await,
        (denied, vec![])
    );
    let request = typed::DeleteGroupsRequest::default().with_groups_names(vec![group("g")]);
    let deleted = handlers::delete_groups::handle(&world.cx(2), request).await;
    assert_eq!(deleted.results[0].error_code, denied);
    assert_eq!(world.queen.rows("qk:group").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn one_request_deletes_a_bounded_number_of_groups() {
    let world = World::new();
    let names = (0..150).map(|n| group(&format!("g-{n}"))).collect();
    let request = typed::DeleteGroupsRequest::default().with_groups_names(names);
    let deleted = handlers::delete_groups::handle(&world.cx(2), request).await;
    let count = |code: ErrorCode| {
        deleted
            .results
            .iter()
            .filter(|result| result.error_code == code.code())
            .count()
    };
    assert_eq!(count(ErrorCode::GroupIdNotFound), 100);
    assert_eq!(count(ErrorCode::CoordinatorLoadInProgress), 50);
}

#[tokio::test(start_paused = true)]
async fn a_live_group_without_offsets_is_deleted_too() {
    let world = World::new();
    let joined = world.stable("g").await;
    let leave = typed::LeaveGroupRequest::default()
        .with_group_id(group("g"))
        .with_member_id(text(joined.member_id.as_str()));
    handlers::leave_group::handle(&world.cx(0), leave).await;
    let request = || typed::DeleteGroupsRequest::default().with_groups_names(vec![group("g")]);
    let deleted = handlers::delete_groups::handle(&world.cx(2), request()).await;
    assert_eq!(deleted.results[0].error_code, 0);
    let again = handlers::delete_groups::handle(&world.cx(2), request()).await;
    assert_eq!(
        again.results[0].error_code,
        ErrorCode::GroupIdNotFound.code()
    );
}

#[tokio::test(start_paused = true)]
async fn a_join_at_version_0_rebalances_within_its_session_timeout() {
    let world = World::new();
    let protocol = typed::join_group_request::JoinGroupRequestProtocol::default()
        .with_name(text("range"))
        .with_metadata(subscription(&["t"]).into());
    let request = typed::JoinGroupRequest::default()
        .with_group_id(group("g"))
        .with_session_timeout_ms(6_000)
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol]);
    let joined = handlers::join_group::handle(&world.cx(0), request.clone()).await;
    assert_eq!(joined.error_code, 0);
    // The first never syncs: it is evicted after its session timeout, not after minutes.
    let start = tokio::time::Instant::now();
    let second = handlers::join_group::handle(&world.cx(0), request).await;
    assert_eq!(second.members.len(), 1);
    assert_eq!(start.elapsed(), Duration::from_secs(6));
}

#[tokio::test(start_paused = true)]
async fn a_negative_session_timeout_is_refused() {
    let world = World::new();
    let request = typed::JoinGroupRequest::default()
        .with_group_id(group("g"))
        .with_session_timeout_ms(-1);
    let refused = handlers::join_group::handle(&world.cx(9), request).await;
    assert_eq!(refused.error_code, ErrorCode::InvalidSessionTimeout.code());
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_named_often_is_described_once() {
    let world = World::new();
    world.stable("g-1").await;
    let groups = ["g-1", "g-2", "g-1", "g-2"].map(group).to_vec();
    let request = typed::DescribeGroupsRequest::default().with_groups(groups);
    let described = handlers::describe_groups::handle(&world.cx(5), request).await;
    let told: Vec<_> = described
        .groups
        .iter()
        .map(|group| (&**group.group_id, &*group.group_state))
        .collect();
    assert_eq!(told, [("g-1", "Stable"), ("g-2", "Dead")]);
}

#[tokio::test(start_paused = true)]
async fn asking_for_very_many_offsets_is_refused() {
    let world = World::new();
    let topic = typed::offset_fetch_request::OffsetFetchRequestTopics::default()
        .with_name(crate::topics::wire_name("t"))
        .with_partition_indexes(vec![0; (1 << 17) + 1]);
    let asked = typed::offset_fetch_request::OffsetFetchRequestGroup::default()
        .with_group_id(group("g"))
        .with_topics(Some(vec![topic]));
    let request = typed::OffsetFetchRequest::default().with_groups(vec![asked]);
    let response = handlers::offset_fetch::handle(&world.cx(8), request).await;
    let code = response.groups[0].error_code;
    assert_eq!(code, ErrorCode::InvalidRequest.code());
}

#[tokio::test(start_paused = true)]
async fn describing_many_groups_reads_the_index_once() {
    let world = World::new();
    let groups = (0..200).map(|n| group(&format!("g-{n}"))).collect();
    let request = typed::DescribeGroupsRequest::default().with_groups(groups);
    let described = handlers::describe_groups::handle(&world.cx(5), request.clone()).await;
    assert!(
        described
            .groups
            .iter()
            .all(|group| &*group.group_state == "Dead")
    );
    assert_eq!(world.queen.calls("kv").len(), 1);
    world.queen.script("kv", [Fault::Status(503)]);
    let described = handlers::describe_groups::handle(&world.cx(5), request).await;
    let code = ErrorCode::CoordinatorNotAvailable.code();
    assert!(
        described
            .groups
            .iter()
            .all(|group| group.error_code == code)
    );
}
