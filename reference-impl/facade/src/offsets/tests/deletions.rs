//! Offsets and groups that are deleted.

use super::*;

#[tokio::test(start_paused = true)]
async fn deletions_and_commits_keep_their_order() {
    let world = World::new();
    world
        .queen
        .script("kv", [Fault::Slow(Duration::from_millis(50))]);
    let mut receipts = vec![world.commit("g", &[1, 1])];
    tokio::time::sleep(Duration::from_millis(1)).await;
    let mut delete = commit(tenant("token"), "g", &[0, 0]);
    for (_, change) in &mut delete.changes {
        *change = Change::Delete;
    }
    receipts.push(world.offsets.commit(delete));
    receipts.push(world.commit("g", &[2]));
    for receipt in receipts {
        assert!(all_written(&receipt.verdicts().await));
    }
    assert_eq!(world.stored("g", "t", 0), Some(2));
    assert_eq!(world.stored("g", "t", 1), None);
}

#[tokio::test(start_paused = true)]
async fn deleting_an_offset_that_is_not_there_succeeds() {
    let world = World::new();
    let mut delete = commit(tenant("token"), "g", &[0]);
    delete.changes[0].1 = Change::Delete;
    assert!(all_written(&world.offsets.commit(delete).verdicts().await));
    assert_eq!(
        world.queen.rows("qk:groups:"),
        vec![],
        "a deletion does not list the group"
    );
}

#[tokio::test(start_paused = true)]
async fn a_deleted_group_leaves_nothing_and_begins_anew() {
    let world = World::new();
    let offsets: Vec<i64> = (0..1500).collect();
    world.commit("g", &offsets).verdicts().await;
    world.commit("other", &[1]).verdicts().await;
    let tenant = tenant("token");
    assert!(world.offsets.delete_group(&tenant, "g").await.is_ok());
    assert_eq!(world.queen.rows("qk:group:g:"), vec![]);
    assert_eq!(
        world
            .offsets
            .group_indexes(&tenant, &["g", "other"])
            .await
            .unwrap()[0],
        None
    );
    assert_eq!(world.stored("other", "t", 0), Some(1));
    let again = world.offsets.delete_group(&tenant, "g").await;
    assert!(matches!(again, Err(SweepError::Unknown)), "{again:?}");
    world.commit("g", &[9]).verdicts().await;
    let listed = world.offsets.list_groups(&tenant).await.unwrap();
    let names: Vec<&str> = listed
        .groups
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(names, ["g", "other"]);
    assert_eq!(listed.groups[0].1.pt, "consumer");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_half_way_says_so_and_can_be_repeated() {
    let world = World::new();
    world.commit("g", &[1, 2]).verdicts().await;
    let tenant = tenant("token");
    // The scans work, the deletion of the rows does not.
    let faults = [Fault::None, Fault::None, Fault::Status(503)];
    world.queen.script("kv", faults);
    let deleted = world.offsets.delete_group(&tenant, "g").await;
    assert!(matches!(deleted, Err(SweepError::Write(_))), "{deleted:?}");
    assert!(world.offsets.group_indexes(&tenant, &["g"]).await.unwrap()[0].is_some());
    assert!(world.offsets.delete_group(&tenant, "g").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_commit_in_the_middle_of_a_deletion_stays_listed() {
    let world = World::new();
    world.commit("g", &[1, 2]).verdicts().await;
    let tenant = tenant("token");
    // Two scans; the rows are deleted, and the answer takes its time.
    let faults = [
        Fault::None,
        Fault::None,
        Fault::Slow(Duration::from_secs(1)),
    ];
    world.queen.script("kv", faults);
    let commit = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        world.commit("g", &[3]).verdicts().await
    };
    let (deleted, committed) = tokio::join!(world.offsets.delete_group(&tenant, "g"), commit);
    assert!(deleted.is_ok(), "{deleted:?}");
    assert!(all_written(&committed));
    assert_eq!(world.stored("g", "t", 0), Some(3));
    let listed = world.offsets.list_groups(&tenant).await.unwrap();
    let groups: Vec<_> = listed.groups.iter().map(|(name, _)| name).collect();
    assert_eq!(groups, ["g"]);
}
