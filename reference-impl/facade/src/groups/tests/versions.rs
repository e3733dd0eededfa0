//! Every version of every group API: what the handlers answer can be said in that version.

use kafka_protocol::messages as typed;
use kafka_protocol::protocol::{Encodable, StrBytes};
use kafka_wire::{ApiKey, ErrorCode, VersionRange};

use super::*;
use crate::dispatch::encode;
use crate::handlers;
use crate::scripted_queen::id_of;
use crate::windows::WINDOWS;

fn window(key: ApiKey) -> VersionRange {
    WINDOWS.get(key).unwrap()
}

fn versions(key: ApiKey) -> std::ops::RangeInclusive<i16> {
    window(key).min..=window(key).max
}

fn check(key: ApiKey, version: i16, response: &impl Encodable) {
    if let Err(error) = encode(key, version, 1, response) {
        panic!("{key} v{version}: {error}");
    }
}

fn text(text: &'static str) -> StrBytes {
    StrBytes::from_static_str(text)
}

fn group(id: &'static str) -> typed::GroupId {
    typed::GroupId(text(id))
}

fn topic(name: &'static str) -> typed::TopicName {
    typed::TopicName(text(name))
}

fn join_request(id: &'static str, member_id: StrBytes) -> typed::JoinGroupRequest {
    let protocol = typed::join_group_request::JoinGroupRequestProtocol::default()
        .with_name(text("range"))
        .with_metadata(subscription(&["t"]).into());
    typed::JoinGroupRequest::default()
        .with_group_id(group(id))
        .with_session_timeout_ms(10_000)
        .with_rebalance_timeout_ms(60_000)
        .with_member_id(member_id)
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol])
}

/// A member through its whole life at one version of each API.
#[tokio::test(start_paused = true)]
async fn a_member_lives_at_every_version() {
    for version in versions(ApiKey::JOIN_GROUP) {
        let world = World::new();
        world.queen.create("t");
        let cx = world.cx(version);
        let mut joined = handlers::join_group::handle(&cx, join_request("g", text(""))).await;
        check(ApiKey::JOIN_GROUP, version, &joined);
        if version >= 4 {
            assert_eq!(joined.error_code, ErrorCode::MemberIdRequired.code());
            let again = join_request("g", joined.member_id);
            joined = handlers::join_group::handle(&cx, again).await;
            check(ApiKey::JOIN_GROUP, version, &joined);
        }
        assert_eq!(joined.error_code, 0);
        assert_eq!(joined.leader, joined.member_id);
        assert_eq!(joined.members.len(), 1);
        assert_eq!(joined.protocol_name.as_deref(), Some("range"));

        let at = |key| version.clamp(window(key).min, window(key).max);
        let sync_version = at(ApiKey::SYNC_GROUP);
        let mut sync = typed::SyncGroupRequest::default()
            .with_group_id(group("g"))
            .with_generation_id(joined.generation_id)
            .with_member_id(joined.member_id.clone());
        if sync_version >= 5 {
            let cx = world.cx(sync_version);
            let refused = handlers::sync_group::handle(&cx, sync.clone()).await;
            check(ApiKey::SYNC_GROUP, sync_version, &refused);
            let code = ErrorCode::InconsistentGroupProtocol.code();
            assert_eq!(refused.error_code, code, "a member names its protocol");
            sync = sync
                .with_protocol_type(Some(text("consumer")))
                .with_protocol_name(Some(text("range")));
        }
        let synced = handlers::sync_group::handle(&world.cx(sync_version), sync).await;
        check(ApiKey::SYNC_GROUP, sync_version, &synced);
        assert_eq!(synced.error_code, 0);

        let beat_version = at(ApiKey::HEARTBEAT);
        let beat = typed::HeartbeatRequest::default()
            .with_group_id(group("g"))
            .with_generation_id(joined.generation_id)
            .with_member_id(joined.member_id.clone());
        let beat = handlers::heartbeat::handle(&world.cx(beat_version), beat).await;
        check(ApiKey::HEARTBEAT, beat_version, &beat);
        assert_eq!(beat.error_code, 0);

        let leave_version = at(ApiKey::LEAVE_GROUP);
        let identity = typed::leave_group_request::MemberIdentity::default()
            .with_member_id(joined.member_id.clone());
        let leave = typed::LeaveGroupRequest::default().with_group_id(group("g"));
        let leave = if leave_version >= 3 {
            leave.with_members(vec![identity])
        } else {
            leave.with_member_id(joined.member_id.clone())
        };
        let left = handlers::leave_group::handle(&world.cx(leave_version), leave.clone()).await;
        check(ApiKey::LEAVE_GROUP, leave_version, &left);
        assert_eq!(left.error_code, 0);
        let again = handlers::leave_group::handle(&world.cx(leave_version), leave).await;
        check(ApiKey::LEAVE_GROUP, leave_version, &again);
        let unknown = ErrorCode::UnknownMemberId.code();
        if leave_version >= 3 {
            assert_eq!(
                (again.error_code, again.members[0].error_code),
                (0, unknown)
            );
        } else {
            assert_eq!(again.error_code, unknown);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_illegal_group_id_is_refused_at_every_version() {
    let world = World::new();
    world.queen.create("t");
    let code = ErrorCode::InvalidGroupId.code();
    for version in versions(ApiKey::JOIN_GROUP) {
        let cx = world.cx(version);
        let refused = handlers::join_group::handle(&cx, join_request("", text(""))).await;
        check(ApiKey::JOIN_GROUP, version, &refused);
        assert_eq!((refused.error_code, refused.generation_id), (code, -1));
    }
    for version in versions(ApiKey::SYNC_GROUP) {
        let refused = handlers::sync_group::handle(&world.cx(version), Default::default()).await;
        check(ApiKey::SYNC_GROUP, version, &refused);
        assert_eq!(refused.error_code, code);
    }
    for version in versions(ApiKey::HEARTBEAT) {
        let refused = handlers::heartbeat::handle(&world.cx(version), Default::default()).await;
        check(ApiKey::HEARTBEAT, version, &refused);
        assert_eq!(refused.error_code, code);
    }
    for version in versions(ApiKey::LEAVE_GROUP) {
        let refused = handlers::leave_group::handle(&world.cx(version), Default::default()).await;
        check(ApiKey::LEAVE_GROUP, version, &refused);
        assert_eq!(refused.error_code, code);
    }
    for version in versions(ApiKey::DESCRIBE_GROUPS) {
        let request = typed::DescribeGroupsRequest::default().with_groups(vec![group("")]);
        let refused = handlers::describe_groups::handle(&world.cx(version), request).await;
        check(ApiKey::DESCRIBE_GROUPS, version, &refused);
        assert_eq!(refused.groups[0].error_code, code);
    }
    for version in versions(ApiKey::DELETE_GROUPS) {
        let request = typed::DeleteGroupsRequest::default().with_groups_names(vec![group("")]);
        let refused = handlers::delete_groups::handle(&world.cx(version), request).await;
        check(ApiKey::DELETE_GROUPS, version, &refused);
        assert_eq!(refused.results[0].error_code, code);
    }
    for version in versions(ApiKey::OFFSET_DELETE) {
        let refused = handlers::offset_delete::handle(&world.cx(version), Default::default()).await;
        check(ApiKey::OFFSET_DELETE, version, &refused);
        assert_eq!(refused.error_code, code);
    }
}

/// `t` as a request of `version` names it: by its id from 10 on, spelt as dispatch does.
fn topic_at(version: i16) -> typed::TopicName {
    let id = uuid::Uuid::parse_str(&id_of("t")).unwrap();
    match version {
        10.. => typed::TopicName(StrBytes::from_string(id.simple().to_string())),
        _ => topic("t"),
    }
}

/// Offsets of partition 0 and 1 of `t`, at one version.
pub(super) fn commit_request(id: &'static str, offset: i64) -> typed::OffsetCommitRequest {
    commit_request_of(topic("t"), id, offset)
}

fn commit_request_of(
    topic: typed::TopicName,
    id: &'static str,
    offset: i64,
) -> typed::OffsetCommitRequest {
    let partition = |index| {
        typed::offset_commit_request::OffsetCommitRequestPartition::default()
            .with_partition_index(index)
            .with_committed_offset(offset)
            .with_committed_metadata(Some(text("m")))
    };
    let topic = typed::offset_commit_request::OffsetCommitRequestTopic::default()
        .with_name(topic)
        .with_partitions(vec![partition(0), partition(1)]);
    typed::OffsetCommitRequest::default()
        .with_group_id(group(id))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic])
}

#[tokio::test(start_paused = true)]
async fn offsets_go_round_at_every_version() {
    let world = World::new();
    world.queen.create("t");
    for version in versions(ApiKey::OFFSET_COMMIT) {
        let offset = i64::from(version);
        let request = commit_request_of(topic_at(version), "g", offset);
        let committed = handlers::offset_commit::handle(&world.cx(version), request).await;
        check(ApiKey::OFFSET_COMMIT, version, &committed);
        let answered = &committed.topics[0];
        match version {
            10.. => assert_eq!(answered.topic_id.to_string(), id_of("t")),
            _ => assert_eq!(answered.name, topic("t")),
        }
        for partition in &committed.topics[0].partitions {
            assert_eq!(partition.error_code, 0);
        }
        assert_eq!(world.queen.rows("qk:group:g:t:1")[0].1["offset"], offset);
    }
    let offset = i64::from(window(ApiKey::OFFSET_COMMIT).max);
    for version in versions(ApiKey::OFFSET_FETCH) {
        for all in [false, true] {
            let asked = typed::offset_fetch_request::OffsetFetchRequestTopic::default()
                .with_name(topic("t"))
                .with_partition_indexes(vec![1, 7]);
            let asked_in_batch = typed::offset_fetch_request::OffsetFetchRequestTopics::default()
                .with_name(topic_at(version))
                .with_partition_indexes(vec![1, 7]);
            let request = if version >= 8 {
                let of_group = typed::offset_fetch_request::OffsetFetchRequestGroup::default()
                    .with_group_id(group("g"))
                    .with_member_epoch(-1)
                    .with_topics((!all).then_some(vec![asked_in_batch]));
                typed::OffsetFetchRequest::default().with_groups(vec![of_group])
            } else {
                typed::OffsetFetchRequest::default()
                    .with_group_id(group("g"))
                    .with_topics((!all).then_some(vec![asked]))
            };
            let fetched = handlers::offset_fetch::handle(&world.cx(version), request).await;
            check(ApiKey::OFFSET_FETCH, version, &fetched);
            if version >= 10 {
                assert_eq!(fetched.groups[0].topics[0].topic_id.to_string(), id_of("t"));
            }
            let rows: Vec<(i32, i64)> = if version >= 8 {
                let partitions = &fetched.groups[0].topics[0].partitions;
                partitions
                    .iter()
                    .map(|p| (p.partition_index, p.committed_offset))
                    .collect()
            } else {
                let partitions = &fetched.topics[0].partitions;
                partitions
                    .iter()
                    .map(|p| (p.partition_index, p.committed_offset))
                    .collect()
            };
            let expected = if all {
                [(0, offset), (1, offset)]
            } else {
                [(1, offset), (7, -1)]
            };
            assert_eq!(rows, expected, "v{version}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_fetch_is_told_at_every_version() {
    for version in versions(ApiKey::OFFSET_FETCH) {
        let world = World::new();
        world.queen.create("t");
        // Topics are known: the only call left is the one for offsets.
        let session = world.cx(version).session;
        let catalogue = &world.node.catalogue;
        catalogue.view(&session.scope, &session.credential).await;
        world
            .queen
            .script("kv", [crate::scripted_queen::Fault::Status(403)]);
        let asked = typed::offset_fetch_request::OffsetFetchRequestTopic::default()
            .with_name(topic("t"))
            .with_partition_indexes(vec![0]);
        let asked_in_batch = typed::offset_fetch_request::OffsetFetchRequestTopics::default()
            .with_name(topic_at(version))
            .with_partition_indexes(vec![0]);
        let of_group = typed::offset_fetch_request::OffsetFetchRequestGroup::default()
            .with_group_id(group("g"))
            .with_member_epoch(-1)
            .with_topics(Some(vec![asked_in_batch]));
        let request = if version >= 8 {
            typed::OffsetFetchRequest::default().with_groups(vec![of_group])
        } else {
            typed::OffsetFetchRequest::default()
                .with_group_id(group("g"))
                .with_topics(Some(vec![asked]))
        };
        let fetched = handlers::offset_fetch::handle(&world.cx(version), request).await;
        check(ApiKey::OFFSET_FETCH, version, &fetched);
        let code = match version {
            8.. => fetched.groups[0].error_code,
            2.. => fetched.error_code,
            _ => fetched.topics[0].partitions[0].error_code,
        };
        assert_eq!(
            code,
            ErrorCode::GroupAuthorizationFailed.code(),
            "v{version}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn groups_are_described_listed_and_deleted_at_every_version() {
    let world = World::new();
    world.queen.create("t");
    world.stable("live").await;
    let request = commit_request("stored", 1);
    handlers::offset_commit::handle(&world.cx(8), request).await;
    for version in versions(ApiKey::DESCRIBE_GROUPS) {
        let request = typed::DescribeGroupsRequest::default().with_groups(vec![
            group("live"),
            group("stored"),
            group("nobody"),
        ]);
        let described = handlers::describe_groups::handle(&world.cx(version), request).await;
        check(ApiKey::DESCRIBE_GROUPS, version, &described);
        let [live, stored, nobody] = &described.groups[..] else {
            panic!("{described:?}")
        };
        assert_eq!(&*live.group_state, "Stable");
        assert_eq!(&*live.protocol_type, "consumer");
        assert_eq!(&*live.protocol_data, "range");
        assert_eq!(&*live.members[0].client_host, "/127.0.0.1");
        assert_eq!(&*stored.group_state, "Empty");
        assert_eq!(&*nobody.group_state, "Dead");
        if version >= 6 {
            assert_eq!(nobody.error_code, ErrorCode::GroupIdNotFound.code());
            assert_eq!(
                nobody.error_message.as_deref(),
                Some("Group nobody not found.")
            );
        } else {
            assert_eq!(nobody.error_code, 0);
        }
    }
    for version in versions(ApiKey::LIST_GROUPS) {
        let listed = handlers::list_groups::handle(&world.cx(version), Default::default()).await;
        check(ApiKey::LIST_GROUPS, version, &listed);
        let names: Vec<&str> = listed.groups.iter().map(|g| &**g.group_id).collect();
        assert_eq!(names, ["live", "stored"]);
    }
    for version in versions(ApiKey::DELETE_GROUPS) {
        handlers::offset_commit::handle(&world.cx(8), commit_request("stored", 1)).await;
        let request = typed::DeleteGroupsRequest::default().with_groups_names(vec![
            group("live"),
            group("stored"),
            group("nobody"),
        ]);
        let deleted = handlers::delete_groups::handle(&world.cx(version), request).await;
        check(ApiKey::DELETE_GROUPS, version, &deleted);
        let codes: Vec<i16> = deleted.results.iter().map(|r| r.error_code).collect();
        let expected = [
            ErrorCode::NonEmptyGroup,
            ErrorCode::None,
            ErrorCode::GroupIdNotFound,
        ];
        assert_eq!(codes, expected.map(ErrorCode::code));
        assert_eq!(world.queen.rows("qk:group"), vec![]);
    }
}

#[tokio::test(start_paused = true)]
async fn coordinators_are_found_at_every_version() {
    let world = World::new();
    for version in versions(ApiKey::FIND_COORDINATOR) {
        for (key_type, key, code) in [
            (0, "g", ErrorCode::None),
            (0, "", ErrorCode::InvalidGroupId),
            (1, "txn", ErrorCode::None),
            (1, "", ErrorCode::InvalidRequest),
            (2, "g:id:0", ErrorCode::InvalidRequest),
            (9, "g", ErrorCode::InvalidRequest),
        ] {
            if version < 1 && key_type > 0 {
                continue;
            }
            let request = typed::FindCoordinatorRequest::default().with_key_type(key_type);
            let request = if version >= 4 {
                request.with_coordinator_keys(vec![text(key)])
            } else {
                request.with_key(text(key))
            };
            let found = handlers::find_coordinator::handle(&world.cx(version), request).await;
            check(ApiKey::FIND_COORDINATOR, version, &found);
            let (error, node, host, port) = match found.coordinators.first() {
                Some(one) => (one.error_code, one.node_id, one.host.clone(), one.port),
                None => (found.error_code, found.node_id, found.host, found.port),
            };
            assert_eq!(error, code.code(), "v{version} type {key_type}");
            if code == ErrorCode::None {
                assert_eq!((node.0, &*host, port), (0, "kafka.example", 9092));
            } else {
                assert_eq!((node.0, &*host, port), (-1, "", -1));
            }
        }
    }
}
