//! Calls that Queen applies after their answer was given up: they change nothing that is younger.

use super::*;

const LATE: Duration = Duration::from_secs(60);

fn late(times: usize) -> Vec<Fault> {
    vec![Fault::AppliedLate(LATE); times]
}

/// Deletes the offset of partition 0 of topic `t`.
fn deletion(group: &str) -> Commit {
    let mut delete = commit(tenant("token"), group, &[0]);
    delete.changes[0].1 = Change::Delete;
    delete
}

async fn all_late_ones_are_applied() {
    tokio::time::sleep(2 * LATE).await;
}

/// A pooled connection that ends without an answer is replaced, and the call repeated: with one late
/// copy the client never learns of it, with two its commit fails.
#[rstest]
#[case::repeated_at_once(1, true)]
#[case::given_up(2, false)]
#[tokio::test(start_paused = true)]
async fn a_late_commit_does_not_move_a_younger_one_back(
    #[case] copies: usize,
    #[case] answered: bool,
) {
    for known in [true, false] {
        let world = World::new();
        let group = if known { "g" } else { "other" };
        assert!(all_written(&world.commit(group, &[1]).verdicts().await));
        world.queen.script("kv", late(copies));
        let first = world.commit("g", &[5]).verdicts().await;
        assert_eq!(all_written(&first), answered);
        assert!(all_written(&world.commit("g", &[9]).verdicts().await));
        all_late_ones_are_applied().await;
        assert_eq!(world.stored("g", "t", 0), Some(9), "known {known}");
        assert!(all_written(&world.commit("g", &[10]).verdicts().await));
        assert_eq!(world.stored("g", "t", 0), Some(10));
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_commit_of_a_process_that_ended_does_not_move_its_successors_back() {
    let old = World::new();
    assert!(all_written(&old.commit("g", &[1]).verdicts().await));
    old.queen.script("kv", late(2));
    assert!(!all_written(&old.commit("g", &[5]).verdicts().await));
    let new = World::over(old.queen.clone());
    assert!(all_written(&new.commit("g", &[9]).verdicts().await));
    all_late_ones_are_applied().await;
    assert_eq!(new.stored("g", "t", 0), Some(9));
}

#[tokio::test(start_paused = true)]
async fn a_late_commit_that_nothing_followed_is_a_commit() {
    let world = World::new();
    assert!(all_written(&world.commit("g", &[1]).verdicts().await));
    world.queen.script("kv", late(2));
    assert!(!all_written(&world.commit("g", &[5]).verdicts().await));
    all_late_ones_are_applied().await;
    assert_eq!(world.stored("g", "t", 0), Some(5));
    // And the next follows it.
    assert!(all_written(&world.commit("g", &[9]).verdicts().await));
    assert_eq!(world.stored("g", "t", 0), Some(9));
}

#[tokio::test(start_paused = true)]
async fn a_late_deletion_does_not_delete_a_younger_commit() {
    let world = World::new();
    assert!(all_written(&world.commit("g", &[1]).verdicts().await));
    world.queen.script("kv", late(2));
    let deleted = world.offsets.commit(deletion("g")).verdicts().await;
    assert!(!all_written(&deleted));
    assert!(all_written(&world.commit("g", &[9]).verdicts().await));
    all_late_ones_are_applied().await;
    assert_eq!(world.stored("g", "t", 0), Some(9));
}

#[tokio::test(start_paused = true)]
async fn a_late_commit_does_not_bring_a_deleted_offset_back() {
    let world = World::new();
    assert!(all_written(&world.commit("g", &[1]).verdicts().await));
    world.queen.script("kv", late(2));
    assert!(!all_written(&world.commit("g", &[5]).verdicts().await));
    let deleted = world.offsets.commit(deletion("g")).verdicts().await;
    assert!(all_written(&deleted));
    all_late_ones_are_applied().await;
    assert_eq!(world.stored("g", "t", 0), None);
}

#[tokio::test(start_paused = true)]
async fn a_late_deletion_of_a_group_leaves_it_listed_once_it_commits_again() {
    let world = World::new();
    let tenant = tenant("token");
    assert!(all_written(&world.commit("g", &[1]).verdicts().await));
    // Its scans and the deletion of its rows work, that of the index row comes late: twice, because
    // it is repeated.
    let mut faults = vec![Fault::None; 4];
    faults.extend(late(2));
    world.queen.script("kv", faults);
    let deleted = world.offsets.delete_group(&tenant, "g").await;
    assert!(matches!(deleted, Err(SweepError::Write(_))), "{deleted:?}");
    assert!(all_written(&world.commit("g", &[9]).verdicts().await));
    all_late_ones_are_applied().await;
    let listed = world.offsets.list_groups(&tenant).await.unwrap();
    let groups: Vec<_> = listed.groups.iter().map(|(name, _)| name).collect();
    assert_eq!(groups, ["g"]);
}

#[tokio::test(start_paused = true)]
async fn an_offset_that_was_read_is_committed_in_one_call() {
    let world = World::new();
    world.commit("g", &[1]).verdicts().await;
    for (read, calls) in [(true, 1), (false, 2)] {
        let fresh = World::over(world.queen.clone());
        // The index row of the group is known then.
        fresh.commit("g", &[1]).verdicts().await;
        fresh
            .queen
            .store_row("qk:group:g:u:0", json!({"offset": 3}));
        let key = key("g", "u", 0);
        if read {
            let offset = fresh
                .offsets
                .read(&tenant("token"), vec![key.clone()])
                .await;
            assert!(matches!(offset.unwrap()[..], [Offset::Committed(_)]));
        }
        let before = fresh.calls();
        let mut next = commit(tenant("token"), "g", &[4]);
        next.changes[0].0 = key;
        assert!(all_written(&fresh.offsets.commit(next).verdicts().await));
        assert_eq!(fresh.calls() - before, calls, "read {read}");
        assert_eq!(fresh.stored("g", "u", 0), Some(4));
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_that_others_keep_writing_is_contended_and_not_for_ever() {
    let world = World::new();
    world.commit("g", &[1]).verdicts().await;
    world.queen.keep_changing("qk:group:g:t:0");
    let before = world.calls();
    let verdicts = world.commit("g", &[2, 3]).verdicts().await;
    assert!(
        matches!(verdicts[0], Err(WriteError::Contended)),
        "{verdicts:?}"
    );
    assert!(verdicts[1].is_ok(), "another row of the call stands alone");
    assert_eq!(world.calls() - before, 8);
}
