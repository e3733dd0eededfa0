//! Several nodes over one Queen: the registry, who answers for a group, and what a stop and a crash
//! leave behind.

mod strangers;
mod takeover;

use std::time::Duration;

use coordinator::cluster::{NodeId, Standing};
use facade::cluster::Cluster;
use facade::config::{ClusterConfig, Config, HostPort};
use facade::context::{Answer, Reply};
use facade::handlers;
use host::Secret;
use kafka_protocol::messages as typed;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::{GroupId, TopicName};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ErrorCode;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::rig::Rig;

pub const HEARTBEAT: Duration = Duration::from_secs(2);
pub const TTL: Duration = Duration::from_secs(10);
const A_MOMENT: Duration = Duration::from_millis(100);
/// Of nodes 1, 2 and 3 its owner is 2; of 1 and 3 it is 3 (contract, section 9.5).
const GROUP: &str = "orders-consumer";

fn node(id: i32) -> impl FnOnce(&mut Config) {
    move |config| {
        config.queen_token = Some(Secret::new("t".to_owned()));
        config.advertised = HostPort::new("unused", 1);
        config.groups.initial_rebalance_delay = Duration::ZERO;
        config.node = Some(ClusterConfig {
            id: NodeId(id),
            heartbeat: HEARTBEAT,
            ttl: TTL,
        });
    }
}

fn cluster(rig: &Rig) -> &Cluster {
    rig.node.cluster.as_ref().expect("in a cluster")
}

/// Claims the node's number and keeps it; the handle is its life.
async fn join(rig: &Rig) -> JoinHandle<()> {
    cluster(rig).claim().await.expect("no duplicate");
    let running = cluster(rig).clone();
    tokio::spawn(async move {
        let _ = running.run().await;
    })
}

async fn three() -> (Vec<Rig>, Vec<JoinHandle<()>>) {
    three_with(|_| {}).await
}

/// Nodes 1, 2 and 3, and their lives.
pub async fn three_with(change: impl Fn(&mut Config) + Copy) -> (Vec<Rig>, Vec<JoinHandle<()>>) {
    let node = |id| {
        move |config: &mut Config| {
            node(id)(config);
            change(config);
        }
    };
    let first = Rig::start_with(fake_queen::Options::default(), node(1)).await;
    let (second, third) = (first.beside_with(node(2)), first.beside_with(node(3)));
    let rigs = vec![first, second, third];
    let mut lives = Vec::new();
    for rig in &rigs {
        lives.push(join(rig).await);
    }
    sleep(HEARTBEAT * 2).await;
    (rigs, lives)
}

async fn join_group(rig: &Rig) -> typed::JoinGroupResponse {
    let protocol = JoinGroupRequestProtocol::default().with_name(StrBytes::from_static_str("p"));
    let request = typed::JoinGroupRequest::default()
        .with_group_id(GroupId(StrBytes::from_static_str(GROUP)))
        .with_session_timeout_ms(10_000)
        .with_rebalance_timeout_ms(10_000)
        .with_protocol_type(StrBytes::from_static_str("consumer"))
        .with_protocols(vec![protocol]);
    handlers::join_group::handle(&rig.cx(3), request).await
}

/// Of each node, whether it takes the group's members.
async fn takers(rigs: &[Rig]) -> Vec<ErrorCode> {
    let mut codes = Vec::new();
    for rig in rigs {
        let code = join_group(rig).await.error_code;
        codes.push(ErrorCode::from_code(code).expect("known"));
    }
    codes
}

#[tokio::test(start_paused = true)]
async fn nodes_see_each_other_and_one_answers_for_a_group() {
    let (rigs, _lives) = three().await;
    for rig in &rigs {
        let ids: Vec<i32> = rig.node.view().brokers().iter().map(|b| b.id.0).collect();
        assert_eq!(ids, [1, 2, 3]);
        assert_eq!(rig.node.view().controller(), NodeId(1));
        assert_eq!(rig.node.view().leader("orders", 7), NodeId(1));
    }
    use ErrorCode::{None, NotCoordinator};
    assert_eq!(takers(&rigs).await, [NotCoordinator, None, NotCoordinator]);
    let describe = typed::DescribeClusterRequest::default().with_endpoint_type(1);
    let answer = handlers::describe_cluster::handle(&rigs[2].cx(1), describe).await;
    assert_eq!((answer.brokers.len(), answer.controller_id.0), (3, 1));
}

/// What the three nodes say to each request about a group that the second one owns.
macro_rules! answers {
    ($rigs:expr, $api:ident, $version:expr, $request:expr, $code:expr) => {{
        let mut codes = Vec::new();
        for rig in $rigs {
            let answer = handlers::$api::handle(&rig.cx($version), $request).await;
            codes.push(ErrorCode::from_code($code(answer)).expect("known"));
        }
        codes
    }};
}

#[tokio::test(start_paused = true)]
async fn every_request_about_a_group_is_sent_to_its_owner_and_reading_offsets_is_not() {
    let (rigs, _lives) = three().await;
    let group = || GroupId(StrBytes::from_static_str(GROUP));
    let is_gated = |codes: &[ErrorCode]| {
        codes[0] == ErrorCode::NotCoordinator
            && codes[1] != ErrorCode::NotCoordinator
            && codes[2] == ErrorCode::NotCoordinator
    };
    let codes = takers(&rigs).await;
    assert!(is_gated(&codes), "JoinGroup {codes:?}");
    let request = typed::SyncGroupRequest::default().with_group_id(group());
    let codes = answers!(
        &rigs,
        sync_group,
        3,
        request.clone(),
        |a: typed::SyncGroupResponse| { a.error_code }
    );
    assert!(is_gated(&codes), "SyncGroup {codes:?}");
    let request = typed::HeartbeatRequest::default().with_group_id(group());
    let codes = answers!(
        &rigs,
        heartbeat,
        3,
        request.clone(),
        |a: typed::HeartbeatResponse| { a.error_code }
    );
    assert!(is_gated(&codes), "Heartbeat {codes:?}");
    let request = typed::LeaveGroupRequest::default().with_group_id(group());
    let codes = answers!(
        &rigs,
        leave_group,
        2,
        request.clone(),
        |a: typed::LeaveGroupResponse| { a.error_code }
    );
    assert!(is_gated(&codes), "LeaveGroup {codes:?}");
    let topic = OffsetCommitRequestTopic::default()
        .with_name(TopicName(StrBytes::from_static_str("orders")))
        .with_partitions(vec![OffsetCommitRequestPartition::default()]);
    let request = typed::OffsetCommitRequest::default()
        .with_group_id(group())
        .with_topics(vec![topic]);
    let codes = answers!(
        &rigs,
        offset_commit,
        7,
        request.clone(),
        |a: typed::OffsetCommitResponse| { a.topics[0].partitions[0].error_code }
    );
    assert!(is_gated(&codes), "OffsetCommit {codes:?}");
    let request = typed::DescribeGroupsRequest::default().with_groups(vec![group()]);
    let codes = answers!(
        &rigs,
        describe_groups,
        4,
        request.clone(),
        |a: typed::DescribeGroupsResponse| { a.groups[0].error_code }
    );
    assert!(is_gated(&codes), "DescribeGroups {codes:?}");
    let request = typed::DeleteGroupsRequest::default().with_groups_names(vec![group()]);
    let codes = answers!(
        &rigs,
        delete_groups,
        2,
        request.clone(),
        |a: typed::DeleteGroupsResponse| { a.results[0].error_code }
    );
    assert!(is_gated(&codes), "DeleteGroups {codes:?}");
    let request = typed::OffsetFetchRequest::default().with_group_id(group());
    let codes = answers!(
        &rigs,
        offset_fetch,
        7,
        request.clone(),
        |a: typed::OffsetFetchResponse| { a.error_code }
    );
    assert_eq!(codes, [ErrorCode::None; 3], "OffsetFetch");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stops_gives_its_groups_away_within_a_heartbeat() {
    let (rigs, _lives) = three().await;
    assert_eq!(takers(&rigs).await[1], ErrorCode::None);
    cluster(&rigs[1]).release().await;
    assert_eq!(cluster(&rigs[1]).standing(), Standing::Released);
    sleep(HEARTBEAT + A_MOMENT).await;
    use ErrorCode::{CoordinatorNotAvailable, None, NotCoordinator};
    let expected = [NotCoordinator, CoordinatorNotAvailable, None];
    assert_eq!(takers(&rigs).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_dies_is_missed_after_one_ttl() {
    let (rigs, lives) = three().await;
    lives[1].abort();
    sleep(TTL + HEARTBEAT + A_MOMENT).await;
    let taken = takers(&rigs).await;
    assert_eq!(
        (taken[0], taken[2]),
        (ErrorCode::NotCoordinator, ErrorCode::None)
    );
    // What is left of it knows that it may not act.
    assert_eq!(cluster(&rigs[1]).standing(), Standing::Blind);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_waits_hears_when_the_group_moves() {
    let first = Rig::start_with(fake_queen::Options::default(), node(1)).await;
    let second = first.beside_with(node(2));
    let _alone = join(&first).await;
    let joined = join_group(&first).await;
    assert_eq!(joined.error_code, 0);
    // A second member waits for the first one to rejoin; meanwhile the owner by hash comes up.
    let waiting = async { join_group(&first).await.error_code };
    let moving = async {
        sleep(Duration::from_millis(100)).await;
        [join(&second).await]
    };
    let (code, _second_life) = tokio::join!(waiting, moving);
    let heard = ErrorCode::from_code(code).expect("known");
    assert!(
        matches!(
            heard,
            ErrorCode::RebalanceInProgress
                | ErrorCode::NotCoordinator
                | ErrorCode::CoordinatorNotAvailable
        ),
        "{heard:?}"
    );
    assert_eq!(
        join_group(&first).await.error_code,
        ErrorCode::NotCoordinator.code()
    );
    assert_eq!(join_group(&second).await.error_code, 0);
}

#[tokio::test(start_paused = true)]
async fn without_a_registry_groups_wait_and_records_do_not() {
    let rig = Rig::start_with(fake_queen::Options::default(), node(1)).await;
    rig.refuse("kv", 503);
    let _life = join(&rig).await;
    assert_eq!(cluster(&rig).standing(), Standing::Claiming);
    let code = join_group(&rig).await.error_code;
    assert_eq!(code, ErrorCode::CoordinatorNotAvailable.code());
    let metadata = typed::MetadataRequest::default().with_topics(Some(vec![]));
    let reply = handlers::metadata::handle(&rig.cx(9), metadata).await;
    assert!(matches!(reply, Reply::Now(_)));
    rig.heal();
    sleep(HEARTBEAT * 2).await;
    assert_eq!(join_group(&rig).await.error_code, 0);
}

#[tokio::test(start_paused = true)]
async fn one_number_twice_refuses_to_start_and_says_what_it_saw() {
    let first = Rig::start_with(fake_queen::Options::default(), node(4)).await;
    let second = first.beside_with(node(4));
    let _life = join(&first).await;
    let error = cluster(&second).claim().await.expect_err("a duplicate");
    assert!(error.to_string().contains("node id 4 is in use"), "{error}");
}

async fn named(rig: &Rig, topic: &str) -> i16 {
    let topic = typed::metadata_request::MetadataRequestTopic::default()
        .with_name(Some(typed::TopicName(StrBytes::from_string(topic.into()))));
    let request = typed::MetadataRequest::default()
        .with_topics(Some(vec![topic]))
        .with_allow_auto_topic_creation(false);
    match handlers::metadata::handle(&rig.cx(9), request).await {
        Reply::Now(Answer::Send(answer)) => answer.topics[0].error_code,
        _ => panic!("there is room"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_one_node_made_is_known_at_the_others() {
    let (rigs, _lives) = three().await;
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    assert_eq!(named(&rigs[0], "orders").await, unknown);
    let topic = typed::create_topics_request::CreatableTopic::default()
        .with_name(typed::TopicName(StrBytes::from_static_str("orders")))
        .with_num_partitions(3)
        .with_replication_factor(1);
    let create = typed::CreateTopicsRequest::default().with_topics(vec![topic]);
    let made = handlers::create_topics::handle(&rigs[1].cx(5), create).await;
    assert_eq!(made.topics[0].error_code, 0);
    sleep(A_MOMENT).await;
    assert_eq!(named(&rigs[0], "orders").await, 0);
    // Who asks for what is not there does not read the list for every question.
    rigs[0].count("queue_list");
    let before = rigs[0].counted("queue_list");
    for _ in 0..100 {
        assert_eq!(named(&rigs[0], "nothing").await, unknown);
    }
    assert!(rigs[0].counted("queue_list") - before <= 2);
}
