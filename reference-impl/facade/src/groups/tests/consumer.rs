//! Groups of the consumer protocol (KIP-848) over a scripted Queen.

use coordinator::consumer::MigrationPolicy;
use kafka_protocol::messages as typed;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_wire::ApiKey;

use super::*;
use crate::dispatch::encode;
use crate::handlers;
use crate::scripted_queen::{Fault, id_of};

type Owned = Vec<(String, Vec<i32>)>;

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn group(id: &str) -> typed::GroupId {
    typed::GroupId(text(id))
}

fn world() -> World {
    let mut config = Config::local();
    config.default_partitions = crate::config::PartitionCount(4);
    World::with(config)
}

fn joining(member: &str, topics: &[&str]) -> typed::ConsumerGroupHeartbeatRequest {
    let names = topics.iter().map(|name| typed::TopicName(text(name)));
    beat(member, 0)
        .with_rebalance_timeout_ms(60_000)
        .with_subscribed_topic_names(Some(names.collect()))
        .with_topic_partitions(Some(vec![]))
}

fn beat(member: &str, epoch: i32) -> typed::ConsumerGroupHeartbeatRequest {
    typed::ConsumerGroupHeartbeatRequest::default()
        .with_group_id(group("g"))
        .with_member_id(text(member))
        .with_member_epoch(epoch)
}

/// `beat` with what the member owns.
fn owning(member: &str, epoch: i32, owned: &Owned) -> typed::ConsumerGroupHeartbeatRequest {
    let topic = |(id, numbers): &(String, Vec<i32>)| {
        typed::consumer_group_heartbeat_request::TopicPartitions::default()
            .with_topic_id(uuid::Uuid::parse_str(id).unwrap())
            .with_partitions(numbers.clone())
    };
    let topics = owned.iter().map(topic).collect();
    beat(member, epoch).with_topic_partitions(Some(topics))
}

fn assigned(answer: &typed::ConsumerGroupHeartbeatResponse) -> Option<Owned> {
    let topics = &answer.assignment.as_ref()?.topic_partitions;
    let topic = topics
        .iter()
        .map(|topic| (topic.topic_id.to_string(), topic.partitions.clone()));
    Some(topic.collect())
}

async fn heartbeat(
    world: &World,
    request: typed::ConsumerGroupHeartbeatRequest,
) -> typed::ConsumerGroupHeartbeatResponse {
    let answer = handlers::consumer_group_heartbeat::handle(&world.cx(1), request).await;
    for version in 0..=1 {
        encode(ApiKey::CONSUMER_GROUP_HEARTBEAT, version, 1, &answer).unwrap();
    }
    answer
}

async fn code(world: &World, request: typed::ConsumerGroupHeartbeatRequest) -> ErrorCode {
    let answer = heartbeat(world, request).await;
    assert_eq!(answer.error_message.is_some(), answer.error_code != 0);
    ErrorCode::from_code(answer.error_code).unwrap()
}

/// The code of a commit of partition 0 of `t`.
async fn commit(world: &World, version: i16, member: &str, epoch: i32) -> ErrorCode {
    let partition = OffsetCommitRequestPartition::default().with_committed_offset(7);
    let id = uuid::Uuid::parse_str(&id_of("t")).unwrap();
    let name = match version {
        10.. => id.simple().to_string(),
        _ => "t".to_owned(),
    };
    let topic = OffsetCommitRequestTopic::default()
        .with_name(typed::TopicName(text(&name)))
        .with_partitions(vec![partition]);
    let request = typed::OffsetCommitRequest::default()
        .with_group_id(group("g"))
        .with_member_id(text(member))
        .with_generation_id_or_member_epoch(epoch)
        .with_topics(vec![topic]);
    let answer = handlers::offset_commit::handle(&world.cx(version), request).await;
    ErrorCode::from_code(answer.topics[0].partitions[0].error_code).unwrap()
}

async fn fetch_code(world: &World, member: Option<&str>, epoch: i32) -> ErrorCode {
    let of_group = typed::offset_fetch_request::OffsetFetchRequestGroup::default()
        .with_group_id(group("g"))
        .with_member_id(member.map(text))
        .with_member_epoch(epoch)
        .with_topics(None);
    let request = typed::OffsetFetchRequest::default().with_groups(vec![of_group]);
    let answer = handlers::offset_fetch::handle(&world.cx(9), request).await;
    ErrorCode::from_code(answer.groups[0].error_code).unwrap()
}

#[tokio::test(start_paused = true)]
async fn members_are_assigned_by_topic_id_and_share_when_another_comes() {
    let world = world();
    world.queen.create("t");
    let first = heartbeat(&world, joining("a", &["t"])).await;
    assert_eq!((first.error_code, first.member_epoch), (0, 1));
    assert_eq!(first.heartbeat_interval_ms, 5_000);
    let all = assigned(&first).unwrap();
    assert_eq!(all, [(id_of("t"), vec![0, 1, 2, 3])]);

    let second = heartbeat(&world, joining("b", &["t"])).await;
    assert_eq!((second.member_epoch, assigned(&second)), (2, Some(vec![])));
    let told = heartbeat(&world, owning("a", 1, &all)).await;
    let kept = assigned(&told).unwrap();
    assert_eq!(kept[0].1.len(), 2);
    let moved = heartbeat(&world, owning("a", 1, &kept)).await;
    assert_eq!(moved.member_epoch, 2);
    let got = assigned(&heartbeat(&world, owning("b", 2, &vec![])).await).unwrap();
    assert_eq!(got[0].1.len(), 2);
    let silent = heartbeat(&world, beat("a", 2)).await;
    assert_eq!((silent.member_epoch, assigned(&silent)), (2, None));
}

#[tokio::test(start_paused = true)]
async fn a_member_of_a_group_that_is_not_here_is_told_to_join() {
    let world = world();
    world.queen.create("t");
    assert_eq!(code(&world, beat("a", 5)).await, ErrorCode::UnknownMemberId);
    assert_eq!(
        code(&world, beat("a", -1)).await,
        ErrorCode::UnknownMemberId
    );
    assert_eq!(commit(&world, 9, "a", 5).await, ErrorCode::UnknownMemberId);
    assert_eq!(
        commit(&world, 8, "a", 5).await,
        ErrorCode::IllegalGeneration
    );
    assert_eq!(
        fetch_code(&world, Some("a"), 5).await,
        ErrorCode::UnknownMemberId
    );
    assert_eq!(fetch_code(&world, None, -1).await, ErrorCode::None);
    assert_eq!(world.node.groups.list(&world.name("g").scope), vec![]);
    // Also when classic members were faster to make it again.
    world.stable("g").await;
    assert_eq!(code(&world, beat("a", 5)).await, ErrorCode::UnknownMemberId);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_makes_no_group() {
    let world = world();
    let refused = code(&world, beat("", 0)).await;
    assert_eq!(refused, ErrorCode::InvalidRequest);
    let no_group = joining("a", &["t"]).with_group_id(group(""));
    assert_eq!(code(&world, no_group).await, ErrorCode::InvalidRequest);
    let assignor = joining("a", &["t"]).with_server_assignor(Some(text("sticky")));
    assert_eq!(code(&world, assignor).await, ErrorCode::UnsupportedAssignor);
    let regex = joining("a", &["t"]).with_subscribed_topic_regex(Some(text("(")));
    assert_eq!(
        code(&world, regex).await,
        ErrorCode::InvalidRegularExpression
    );
    tokio::task::yield_now().await;
    assert_eq!(world.node.groups.list(&world.name("g").scope), vec![]);
}

#[tokio::test(start_paused = true)]
async fn offsets_follow_the_members_epoch() {
    let world = world();
    world.queen.create("t");
    let all = assigned(&heartbeat(&world, joining("a", &["t"])).await).unwrap();
    for version in [9, 10] {
        assert_eq!(commit(&world, version, "a", 1).await, ErrorCode::None);
        assert_eq!(
            commit(&world, version, "a", 2).await,
            ErrorCode::StaleMemberEpoch
        );
        assert_eq!(
            commit(&world, version, "x", 1).await,
            ErrorCode::UnknownMemberId
        );
        assert_eq!(
            commit(&world, version, "", -1).await,
            ErrorCode::UnknownMemberId
        );
    }
    assert_eq!(
        commit(&world, 8, "a", 1).await,
        ErrorCode::UnsupportedVersion
    );
    assert_eq!(fetch_code(&world, Some("a"), 1).await, ErrorCode::None);
    assert_eq!(
        fetch_code(&world, Some("a"), 2).await,
        ErrorCode::StaleMemberEpoch
    );
    assert_eq!(
        fetch_code(&world, Some("x"), 1).await,
        ErrorCode::UnknownMemberId
    );
    assert_eq!(
        fetch_code(&world, None, -1).await,
        ErrorCode::None,
        "an administrator"
    );

    // Partition 0 is kept or given up: a commit of the epoch before counts for what is kept.
    heartbeat(&world, joining("b", &["t"])).await;
    let kept = assigned(&heartbeat(&world, owning("a", 1, &all)).await).unwrap();
    heartbeat(&world, owning("a", 1, &kept)).await;
    let expected = match kept[0].1.contains(&0) {
        true => ErrorCode::None,
        false => ErrorCode::StaleMemberEpoch,
    };
    assert_eq!(commit(&world, 9, "a", 1).await, expected);
}

#[tokio::test(start_paused = true)]
async fn topics_are_noticed_as_they_come_and_grow() {
    let world = world();
    let pattern = joining("a", &[])
        .with_subscribed_topic_names(None)
        .with_subscribed_topic_regex(Some(text("t-.*")));
    let first = heartbeat(&world, pattern).await;
    assert_eq!(assigned(&first), Some(vec![]));
    world.queen.create("t-1");
    world.queen.create("u");
    tokio::time::sleep(Duration::from_secs(11)).await;
    let got = assigned(&heartbeat(&world, owning("a", 1, &vec![])).await).unwrap();
    assert_eq!(got, [(id_of("t-1"), vec![0, 1, 2, 3])]);
    // Topics that can't be read are not topics that are gone.
    world.queen.script("queues", vec![Fault::Status(500); 50]);
    tokio::time::sleep(Duration::from_secs(11)).await;
    let same = heartbeat(&world, beat("a", 2)).await;
    assert_eq!((same.error_code, assigned(&same)), (0, None));
}

#[tokio::test(start_paused = true)]
async fn a_group_is_listed_and_described_by_its_type() {
    let world = world();
    world.queen.create("t");
    heartbeat(&world, joining("a", &["t"])).await;
    let types = typed::ListGroupsRequest::default().with_types_filter(vec![text("Consumer")]);
    let listed = handlers::list_groups::handle(&world.cx(5), types).await;
    encode(ApiKey::LIST_GROUPS, 5, 1, &listed).unwrap();
    assert_eq!(&*listed.groups[0].group_type, "consumer");
    assert_eq!(&*listed.groups[0].group_state, "Stable");
    assert_eq!(&*listed.groups[0].protocol_type, "consumer");
    let classic = typed::ListGroupsRequest::default().with_types_filter(vec![text("classic")]);
    let none = handlers::list_groups::handle(&world.cx(5), classic).await;
    assert!(none.groups.is_empty());

    for version in 0..=1 {
        let request = typed::ConsumerGroupDescribeRequest::default().with_group_ids(vec![
            group("g"),
            group("nobody"),
            group(""),
        ]);
        let cx = world.cx(version);
        let described = handlers::consumer_group_describe::handle(&cx, request).await;
        encode(ApiKey::CONSUMER_GROUP_DESCRIBE, version, 1, &described).unwrap();
        let live = &described.groups[0];
        assert_eq!((live.group_epoch, live.assignment_epoch), (1, 1));
        assert_eq!(&*live.assignor_name, "uniform");
        let member = &live.members[0];
        assert_eq!(member.member_type, if version == 0 { -1 } else { 1 });
        assert_eq!(&*member.client_id, "app");
        assert_eq!(
            member.subscribed_topic_regex,
            Some(text("")),
            "as Kafka: none, and not null"
        );
        assert_eq!(member.assignment, member.target_assignment);
        let topic = &member.assignment.topic_partitions[0];
        assert_eq!((&**topic.topic_name, topic.partitions.len()), ("t", 4));
        let codes = [ErrorCode::GroupIdNotFound, ErrorCode::InvalidGroupId];
        for (refused, code) in described.groups[1..].iter().zip(codes) {
            assert_eq!(refused.error_code, code.code());
            assert!(refused.error_message.is_some());
        }
    }
    for version in 0..=6 {
        let request = typed::DescribeGroupsRequest::default().with_groups(vec![group("g")]);
        let described = handlers::describe_groups::handle(&world.cx(version), request).await;
        encode(ApiKey::DESCRIBE_GROUPS, version, 1, &described).unwrap();
        let expected = match version {
            6.. => ErrorCode::GroupIdNotFound,
            _ => ErrorCode::None,
        };
        assert_eq!(described.groups[0].error_code, expected.code());
        assert_eq!(&*described.groups[0].group_state, "Dead");
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_with_members_is_not_deleted_and_an_empty_one_is() {
    let world = world();
    world.queen.create("t");
    heartbeat(&world, joining("a", &["t"])).await;
    let delete = || async {
        let request = typed::DeleteGroupsRequest::default().with_groups_names(vec![group("g")]);
        let deleted = handlers::delete_groups::handle(&world.cx(2), request).await;
        ErrorCode::from_code(deleted.results[0].error_code).unwrap()
    };
    assert_eq!(delete().await, ErrorCode::NonEmptyGroup);
    heartbeat(&world, beat("a", -1)).await;
    assert_eq!(delete().await, ErrorCode::None);
    tokio::task::yield_now().await;
    assert_eq!(delete().await, ErrorCode::GroupIdNotFound);
}

#[tokio::test(start_paused = true)]
async fn a_live_classic_group_is_upgraded_and_comes_back() {
    let world = world();
    world.queen.create("t");
    let classic = world.stable("g").await;
    let name = world.name("g");
    let parked = {
        // Somebody waits in the group while it is turned.
        let (node, name) = (Arc::clone(&world.node), name.clone());
        let request = JoinRequest {
            client_id: "late".into(),
            ..world.request()
        };
        tokio::spawn(async move { node.groups.join(&name, request, None).await })
    };
    tokio::task::yield_now().await;
    let joined = heartbeat(&world, joining("a", &["t"])).await;
    assert_eq!(joined.error_code, 0, "{:?}", joined.error_message);
    let refused = parked.await.unwrap().unwrap_err();
    assert_eq!(refused.error, GroupError::RebalanceInProgress);
    let listed = world.node.groups.list(&name.scope);
    assert_eq!(listed[0].1.group_type, super::super::GroupType::Consumer);
    assert_eq!(
        world.heartbeat(&name, member(&classic)).await,
        Err(GroupError::RebalanceInProgress)
    );
    let rejoin = JoinRequest {
        member_id: classic.member_id.clone(),
        ..world.request()
    };
    let rejoined = world.join(&name, rejoin).await.unwrap();
    assert!(rejoined.leader.is_unknown());
    let synced = world.node.groups.sync(&name, sync(&rejoined)).await;
    assert!(synced.is_ok());

    heartbeat(&world, beat("a", -1)).await;
    tokio::task::yield_now().await;
    let listed = world.node.groups.list(&name.scope);
    assert_eq!(listed[0].1.group_type, super::super::GroupType::Classic);
    assert_eq!(listed[0].1.state, "PreparingRebalance");
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_forbids_it_refuses_the_newcomer_and_leaves_the_group() {
    let mut config = Config::local();
    config.groups.migration_policy = MigrationPolicy::Disabled;
    let world = World::with(config);
    world.queen.create("t");
    let classic = world.stable("g").await;
    let refused = code(&world, joining("a", &["t"])).await;
    assert_eq!(refused, ErrorCode::GroupIdNotFound);
    let name = world.name("g");
    assert_eq!(world.heartbeat(&name, member(&classic)).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn an_empty_group_is_of_the_type_of_whoever_joins_it() {
    let world = world();
    world.queen.create("t");
    heartbeat(&world, joining("a", &["t"])).await;
    heartbeat(&world, beat("a", -1)).await;
    world.stable("g").await;
    let name = world.name("g");
    let listed = world.node.groups.list(&name.scope);
    assert_eq!(listed[0].1.group_type, super::super::GroupType::Classic);
}

#[tokio::test(start_paused = true)]
async fn a_silent_member_is_forgotten_and_then_its_group() {
    let world = world();
    world.queen.create("t");
    heartbeat(&world, joining("a", &["t"])).await;
    tokio::time::sleep(Duration::from_secs(44)).await;
    assert_eq!(
        world.node.groups.list(&world.name("g").scope)[0].1.members,
        1
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    let listed = world.node.groups.list(&world.name("g").scope);
    assert_eq!((listed[0].1.members, listed[0].1.state), (0, "Empty"));
    assert_eq!(code(&world, beat("a", 1)).await, ErrorCode::UnknownMemberId);
    tokio::time::sleep(Duration::from_secs(301)).await;
    assert_eq!(world.node.groups.list(&world.name("g").scope), vec![]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stops_sends_members_to_look_for_their_group() {
    let world = world();
    world.queen.create("t");
    heartbeat(&world, joining("a", &["t"])).await;
    let guard = world.node.shutdown.guard();
    let World { queen, node, stop } = world;
    tokio::spawn(async move { stop.stop(Duration::from_secs(2)).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let (stop, _) = shutdown();
    let world = World { queen, node, stop };
    let refused = code(&world, beat("a", 1)).await;
    assert_eq!(refused, ErrorCode::CoordinatorNotAvailable);
    assert_eq!(commit(&world, 9, "a", 1).await, ErrorCode::None);
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn capped_to_nothing_the_consumer_protocol_is_not_spoken() {
    let mut config = Config::local();
    config.features = crate::config::FeatureCaps::parse("group.version=0").unwrap();
    let world = World::with(config);
    world.queen.create("t");
    let request = joining("m", &["t"]);
    let answer = handlers::consumer_group_heartbeat::handle(&world.cx(1), request).await;
    let unsupported = ErrorCode::UnsupportedVersion.code();
    assert_eq!((answer.error_code, answer.member_epoch), (unsupported, 0));
    let request = typed::ConsumerGroupDescribeRequest::default().with_group_ids(vec![group("g")]);
    let answer = handlers::consumer_group_describe::handle(&world.cx(1), request).await;
    assert_eq!(answer.groups[0].error_code, unsupported);
}
