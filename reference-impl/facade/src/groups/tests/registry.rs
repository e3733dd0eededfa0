//! The life of groups and their tasks.

use std::time::Duration;

use coordinator::classic::{GroupError, LeavingMember, MemberId};
use futures::future::join_all;
use rstest::rstest;

use super::*;
use crate::groups::Overview;
use crate::groups::{InvalidGroupId, MAX_ALL_GROUPS_BYTES, MAX_GROUPS, MAX_MEMBER_BYTES};
use crate::offsets::{Change, Commit, OffsetKey, OffsetRow, Tenant};

fn commit(world: &World, id: &str, offset: i64) -> Commit {
    let session = world.cx(0).session;
    let row = OffsetRow {
        offset,
        metadata: None,
        ts: 0,
    };
    Commit {
        tenant: Tenant {
            scope: session.scope.clone(),
            credential: session.credential.clone(),
        },
        group: id.into(),
        protocol_type: "".into(),
        changes: vec![(OffsetKey::new(id, "t", 0).unwrap(), Change::Put(row))],
    }
}

fn leaving(joined: &Joined) -> Vec<LeavingMember> {
    vec![LeavingMember {
        member_id: joined.member_id.clone(),
        instance_id: None,
        reason: None,
    }]
}

#[rstest]
#[case::empty("", false)]
#[case::shortest("g", true)]
#[case::longest(&"é".repeat(255), true)]
#[case::too_long(&"g".repeat(256), false)]
fn a_group_id_has_1_to_255_characters(#[case] id: &str, #[case] valid: bool) {
    let name = GroupName::new(&Scope::new("s"), id);
    assert_eq!(name.is_ok(), valid);
    assert!(valid || name == Err(InvalidGroupId));
}

fn held_bytes(world: &World) -> usize {
    let text = world.node.metrics.registry.render();
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix("queen_kafka_group_bytes "));
    line.unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn all_groups_together_hold_a_bounded_amount() {
    let world = World::new();
    let join = |group: usize| {
        let request = JoinRequest {
            protocols: weighing(1_000_000),
            ..world.request()
        };
        let name = world.name(&format!("large-{group}"));
        let groups = world.node.groups.clone();
        async move { groups.join(&name, request, None).await }
    };
    let mut refused = 0;
    let mut joined = Vec::new();
    for answer in join_all((0..200).map(join)).await {
        match answer {
            Ok(answer) => joined.push(answer),
            Err(refusal) => {
                assert_eq!(refusal.error, GroupError::CoordinatorNotAvailable);
                refused += 1;
            }
        }
    }
    assert!((60..80).contains(&refused), "{refused}");
    assert!(held_bytes(&world) <= MAX_ALL_GROUPS_BYTES);
    assert!(held_bytes(&world) > 100 << 20);
    // Small members are taken all the same.
    world.stable("small").await;
    // Sessions end, and with them what was held.
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(held_bytes(&world), 0);
    join(0).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_member_brings_at_most_a_mebibyte() {
    let world = World::new();
    let request = JoinRequest {
        protocols: weighing(MAX_MEMBER_BYTES),
        ..world.request()
    };
    let refusal = world.join(&world.name("g"), request).await;
    assert_eq!(refusal.unwrap_err().error, GroupError::GroupMaxSizeReached);
    assert_eq!(held_bytes(&world), 0);
}

#[tokio::test(start_paused = true)]
async fn assignments_are_counted_and_bounded_with_the_metadata() {
    let world = World::new();
    let mut refused = 0;
    for group in 0..6 {
        let id = format!("assigned-{group}");
        let joined = world.stable(&id).await;
        let name = world.name(&id);
        let again = JoinRequest {
            member_id: joined.member_id.clone(),
            protocols: weighing(1_000),
            ..world.request()
        };
        let joined = world.join(&name, again).await.unwrap();
        let mut assigns = sync(&joined);
        assigns.assignments = vec![(joined.member_id.clone(), vec![0; 30 << 20].into())];
        match world.node.groups.sync(&name, assigns).await {
            Ok(synced) => assert_eq!(synced.assignment.len(), 30 << 20),
            Err(error) => {
                assert_eq!(error, GroupError::CoordinatorNotAvailable);
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 2);
}

#[tokio::test(start_paused = true)]
async fn the_initial_delay_passes_and_the_group_forms() {
    let world = World::new();
    let start = tokio::time::Instant::now();
    let joins = (0..50).map(|_| {
        let name = world.name("g");
        let world = &world;
        async move { world.join(&name, world.request()).await.unwrap() }
    });
    let joined = join_all(joins).await;
    assert!(
        joined
            .iter()
            .all(|joined| joined.generation_id == GenerationId(1))
    );
    assert_eq!(
        joined
            .iter()
            .filter(|joined| joined.members.len() == 50)
            .count(),
        1
    );
    // One delay, and one more for the members that came during it.
    assert_eq!(start.elapsed(), Duration::from_secs(6));
}

#[tokio::test(start_paused = true)]
async fn heartbeats_never_touch_queen() {
    let world = World::new();
    let joined = world.stable("g").await;
    for _ in 0..100 {
        let beat = world.heartbeat(&world.name("g"), member(&joined)).await;
        assert_eq!(beat, Ok(()));
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    for route in ["kv", "fetch", "push", "configure", "resources/queues"] {
        assert_eq!(world.queen.calls(route).len(), 0, "{route}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_member_is_out_after_its_session() {
    let world = World::new();
    let joined = world.stable("g").await;
    tokio::time::sleep(Duration::from_secs(11)).await;
    let beat = world.heartbeat(&world.name("g"), member(&joined)).await;
    assert_eq!(beat, Err(GroupError::UnknownMemberId));
}

#[tokio::test(start_paused = true)]
async fn unknown_groups_answer_without_being_made() {
    let world = World::new();
    let groups = &world.node.groups;
    let name = world.name("g");
    let unknown = Err(GroupError::UnknownMemberId);
    let stranger = MemberRef {
        member_id: MemberId::new("m"),
        ..anonymous()
    };
    assert_eq!(world.heartbeat(&name, stranger.clone()).await, unknown);
    let request = JoinRequest {
        member_id: MemberId::new("m"),
        ..world.request()
    };
    let refusal = world.join(&name, request).await.unwrap_err();
    assert_eq!(refusal.error, GroupError::UnknownMemberId);
    let leaving = vec![LeavingMember {
        member_id: MemberId::new("m"),
        instance_id: None,
        reason: None,
    }];
    assert_eq!(groups.leave(&name, leaving).await, Ok(vec![unknown]));
    assert!(groups.describe(&name).await.is_none());
    assert!(groups.delete(&name).await.is_none());
    assert!(groups.subscriptions(&name, vec![]).await.is_none());
    let old = MemberRef {
        generation_id: GenerationId(3),
        ..stranger
    };
    let refused = world.commit(&name, old, commit(&world, "g", 1)).await;
    assert_eq!(refused.unwrap_err(), ErrorCode::IllegalGeneration);
    assert_eq!(groups.list(&name.scope), vec![]);
}

#[tokio::test(start_paused = true)]
async fn who_only_stores_offsets_needs_no_group() {
    let world = World::new();
    let name = world.name("g");
    let groups = &world.node.groups;
    let receipt = world
        .commit(&name, anonymous(), commit(&world, "g", 7))
        .await
        .unwrap();
    assert!(receipt.verdicts().await[0].is_ok());
    assert_eq!(groups.list(&name.scope), vec![]);
    world.stable("g").await;
    let refused = world
        .commit(&name, anonymous(), commit(&world, "g", 8))
        .await;
    assert_eq!(refused.unwrap_err(), ErrorCode::UnknownMemberId);
}

#[tokio::test(start_paused = true)]
async fn commits_are_stored_in_the_order_in_which_the_group_accepted_them() {
    let world = World::new();
    let joined = world.stable("g").await;
    let name = world.name("g");
    let mut receipts = Vec::new();
    for n in 0..500 {
        let commit = commit(&world, "g", n);
        let accepted = world.commit(&name, member(&joined), commit).await;
        receipts.push(accepted.unwrap());
    }
    for receipt in join_all(receipts.into_iter().map(|receipt| receipt.verdicts())).await {
        assert!(receipt[0].is_ok());
    }
    let rows = world.queen.rows("qk:group:g:t:0");
    assert_eq!(rows[0].1["offset"], 499);
    let index = world.queen.rows("qk:groups:g");
    assert_eq!(
        index[0].1["pt"], "consumer",
        "the group knows its protocol type"
    );
}

#[tokio::test(start_paused = true)]
async fn a_join_whose_connection_dies_leaves_no_member_behind() {
    let world = World::new();
    let name = world.name("g");
    {
        let gone = world.join(&name, world.request());
        let gone = tokio::time::timeout(Duration::from_secs(1), gone).await;
        assert!(gone.is_err(), "still parked");
    }
    let joined = world.join(&name, world.request()).await.unwrap();
    assert_eq!(joined.members.len(), 1);
    assert_eq!(joined.leader, joined.member_id);
}

#[tokio::test(start_paused = true)]
async fn tenants_have_groups_of_their_own() {
    let world = World::new();
    let ours = world.stable("g").await;
    let theirs = world
        .join(&other_scope("g"), world.request())
        .await
        .unwrap();
    assert_eq!(theirs.members.len(), 1);
    let stranger = world.heartbeat(&other_scope("g"), member(&ours)).await;
    assert_eq!(stranger, Err(GroupError::UnknownMemberId));
    assert_eq!(world.node.groups.list(&world.name("g").scope).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn groups_are_listed_with_state_and_size_in_order() {
    let world = World::new();
    for id in ["b", "a", "c"] {
        world.stable(id).await;
    }
    let joined = world.stable("d").await;
    let left = world
        .node
        .groups
        .leave(&world.name("d"), leaving(&joined))
        .await;
    assert_eq!(left, Ok(vec![Ok(())]));
    let listed = world.node.groups.list(&world.name("a").scope);
    let states: Vec<(&str, &str, usize)> = listed
        .iter()
        .map(|(id, Overview { state, members, .. })| (&**id, *state, *members))
        .collect();
    assert_eq!(
        states,
        [
            ("a", "Stable", 1),
            ("b", "Stable", 1),
            ("c", "Stable", 1),
            ("d", "Empty", 0),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_empty_group_is_forgotten_after_five_minutes() {
    let world = World::new();
    let joined = world.stable("g").await;
    let name = world.name("g");
    world
        .node
        .groups
        .leave(&name, leaving(&joined))
        .await
        .unwrap()
        .remove(0)
        .unwrap();
    tokio::time::sleep(Duration::from_secs(299)).await;
    assert_eq!(world.node.groups.list(&name.scope).len(), 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.node.groups.list(&name.scope), vec![]);
    let joined = world.stable("g").await;
    assert_eq!(joined.generation_id, GenerationId(1), "it begins anew");
}

#[tokio::test(start_paused = true)]
async fn a_group_that_never_formed_is_not_kept() {
    let world = World::new();
    let name = world.name("g");
    let request = JoinRequest {
        session_timeout: Duration::ZERO,
        ..world.request()
    };
    let refusal = world.join(&name, request).await.unwrap_err();
    assert_eq!(refusal.error, GroupError::InvalidSessionTimeout);
    tokio::task::yield_now().await;
    assert_eq!(world.node.groups.list(&name.scope), vec![]);
}

#[tokio::test(start_paused = true)]
async fn there_is_room_for_a_bounded_number_of_groups() {
    let world = World::new();
    let waiting = JoinRequest {
        require_known_member_id: true,
        ..world.request()
    };
    for n in 0..MAX_GROUPS {
        let name = world.name(&format!("g-{n}"));
        let refusal = world.join(&name, waiting.clone()).await.unwrap_err();
        assert_eq!(refusal.error, GroupError::MemberIdRequired);
    }
    let one_more = world.name("one more");
    let refusal = world.join(&one_more, world.request()).await.unwrap_err();
    assert_eq!(refusal.error, GroupError::CoordinatorNotAvailable);
    // The ids expire, and with them the groups.
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(world.join(&one_more, world.request()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_group_is_gone_and_its_name_free() {
    let world = World::new();
    let joined = world.stable("g").await;
    let name = world.name("g");
    assert_eq!(
        world.node.groups.delete(&name).await,
        Some(Err(GroupError::NonEmptyGroup))
    );
    world
        .node
        .groups
        .leave(&name, leaving(&joined))
        .await
        .unwrap()
        .remove(0)
        .unwrap();
    assert_eq!(world.node.groups.delete(&name).await, Some(Ok(())));
    assert_eq!(world.stable("g").await.generation_id, GenerationId(1));
}

#[tokio::test(start_paused = true)]
async fn a_drain_tells_members_to_rejoin_elsewhere() {
    let world = World::new();
    let joined = world.stable("stable").await;
    let name = world.name("stable");
    let node = Arc::clone(&world.node);
    let (parked, request) = (world.name("parked"), world.request());
    let parked = tokio::spawn(async move { node.groups.join(&parked, request, None).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let guard = world.node.shutdown.guard();
    let request = world.request();
    let World { queen, node, stop } = world;
    let stopping = tokio::spawn(async move { stop.stop(Duration::from_secs(2)).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let refusal = parked.await.unwrap().unwrap_err();
    assert_eq!(refusal.error, GroupError::RebalanceInProgress);
    let (stop, _) = shutdown();
    let world = World { queen, node, stop };
    let beat = world.heartbeat(&name, member(&joined)).await;
    assert_eq!(beat, Err(GroupError::RebalanceInProgress));
    let again = world.join(&name, request.clone()).await.unwrap_err();
    assert_eq!(again.error, GroupError::CoordinatorNotAvailable);
    let fresh = GroupName {
        id: "fresh".into(),
        ..name
    };
    let fresh = world.join(&fresh, request).await.unwrap_err();
    assert_eq!(fresh.error, GroupError::CoordinatorNotAvailable);
    drop(guard);
    assert!(stopping.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_commit_during_the_drain_is_still_stored() {
    let world = World::new();
    let joined = world.stable("g").await;
    let name = world.name("g");
    let guard = world.node.shutdown.guard();
    let commit = commit(&world, "g", 5);
    let World { queen, node, stop } = world;
    tokio::spawn(async move { stop.stop(Duration::from_secs(2)).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let (stop, _) = shutdown();
    let world = World { queen, node, stop };
    let receipt = world.commit(&name, member(&joined), commit).await.unwrap();
    assert!(receipt.verdicts().await[0].is_ok());
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn gauges_follow_groups_and_members() {
    let world = World::new();
    let registry = &world.node.metrics.registry;
    let groups = registry.gauge("groups", "", &[]);
    let members = registry.gauge("group_members", "", &[]);
    let joined = world.stable("g").await;
    assert_eq!((groups.get(), members.get()), (1, 1));
    world
        .node
        .groups
        .leave(&world.name("g"), leaving(&joined))
        .await
        .unwrap()
        .remove(0)
        .unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((groups.get(), members.get()), (1, 0));
    tokio::time::sleep(Duration::from_secs(301)).await;
    assert_eq!((groups.get(), members.get()), (0, 0));
}
