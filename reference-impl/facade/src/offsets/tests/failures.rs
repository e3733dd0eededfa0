//! Calls that fail, and writers that leave: who hears of it, and who does not.

use super::*;

#[rstest]
#[case::refused(Fault::Status(403), Class::Forbidden, false)]
#[case::unavailable(Fault::Status(503), Class::Unavailable, false)]
#[case::throttled(Fault::Throttled(20), Class::Throttled, false)]
#[case::failed(Fault::Status(500), Class::Unknown, false)]
#[tokio::test(start_paused = true)]
async fn a_failed_call_fails_everybody_in_it_and_nobody_after(
    #[case] fault: Fault,
    #[case] class: Class,
    #[case] applied: bool,
) {
    let world = World::new();
    world
        .queen
        .script("kv", [Fault::Slow(Duration::from_millis(50)), fault]);
    let before = world.commit("a", &[1]);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let failed = [world.commit("b", &[2, 3]), world.commit("c", &[4])];
    assert!(all_written(&before.verdicts().await));
    for receipt in failed {
        for verdict in receipt.verdicts().await {
            let Err(WriteError::Queen(error)) = verdict else {
                panic!("{verdict:?}")
            };
            assert_eq!(error.class(), class);
        }
    }
    assert_eq!(world.stored("b", "t", 0).is_some(), applied);
    assert!(all_written(&world.commit("d", &[5]).verdicts().await));
}

#[tokio::test(start_paused = true)]
async fn a_long_throttle_of_queen_is_told_and_holds_the_next_call_back() {
    let world = World::new();
    world.queen.script("kv", [Fault::Throttled(20)]);
    assert!(!all_written(&world.commit("g", &[1]).verdicts().await));
    let start = tokio::time::Instant::now();
    assert!(all_written(&world.commit("g", &[1]).verdicts().await));
    assert_eq!(start.elapsed(), Duration::from_secs(5));
}

#[rstest]
#[case::once(&[2], Some(2000))]
#[case::again(&[1, 3], Some(4000))]
#[case::at_once(&[0], Some(100))]
#[case::too_often(&[1, 2, 2], None)]
#[case::too_long(&[5], None)]
#[tokio::test(start_paused = true)]
async fn a_short_throttle_of_queen_is_waited_out(
    #[case] seconds: &[u64],
    #[case] written_after_ms: Option<u128>,
) {
    let world = World::new();
    world
        .queen
        .script("kv", seconds.iter().copied().map(Fault::Throttled));
    let start = tokio::time::Instant::now();
    let written = all_written(&world.commit("g", &[1]).verdicts().await);
    let took = start.elapsed().as_millis();
    assert_eq!(written.then_some(took), written_after_ms);
    assert_eq!(world.stored("g", "t", 0), written.then_some(1));
}

#[tokio::test(start_paused = true)]
async fn an_answer_lost_after_the_rows_were_stored_is_a_failure_that_can_be_repeated() {
    let world = World::new();
    world.queen.script("kv", [Fault::LostAfter]);
    let verdicts = world.commit("g", &[7]).verdicts().await;
    let Err(WriteError::Queen(error)) = &verdicts[0] else {
        panic!("{verdicts:?}")
    };
    assert_eq!(error.class(), Class::Unknown);
    assert_eq!(world.stored("g", "t", 0), Some(7));
    assert!(all_written(&world.commit("g", &[7]).verdicts().await));
}

#[tokio::test(start_paused = true)]
async fn a_call_refused_for_its_content_is_halved_until_only_the_offender_hears() {
    let world = World::new();
    // Five rows: index and four offsets. Halves: [index, 0], [1, 2, 3]; then [1], [2, 3].
    let refused = Fault::Status(400);
    world.queen.script(
        "kv",
        [
            refused.clone(),
            Fault::None,
            refused.clone(),
            refused,
            Fault::None,
        ],
    );
    let verdicts = world.commit("g", &[10, 11, 12, 13]).verdicts().await;
    let written: Vec<bool> = verdicts.iter().map(Result::is_ok).collect();
    assert_eq!(written, [true, false, true, true]);
    assert_eq!(world.stored("g", "t", 1), None);
    assert_eq!(world.stored("g", "t", 3), Some(13));
}

#[tokio::test(start_paused = true)]
async fn too_much_waiting_is_refused_at_once() {
    let world = World::new();
    world
        .queen
        .script("kv", [Fault::Slow(Duration::from_secs(1))]);
    let first = world.commit("g", &[1]);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let offsets: Vec<i64> = (0..40_000).collect();
    let waiting = world.commit("wide", &offsets);
    let refused = world.commit("wide", &offsets).verdicts().await;
    // Others are not refused for it.
    let other = world.commit("other", &offsets[..1]);
    assert_eq!(refused.len(), offsets.len());
    assert!(
        refused
            .iter()
            .all(|verdict| matches!(verdict, Err(WriteError::Busy)))
    );
    assert!(all_written(&first.verdicts().await));
    assert!(all_written(&other.verdicts().await));
    assert!(
        all_written(&waiting.verdicts().await),
        "what was accepted is written"
    );
    assert!(all_written(&world.commit("wide", &[1]).verdicts().await));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_left_does_not_take_its_commit_back() {
    let world = World::new();
    drop(world.commit("g", &[7]));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.stored("g", "t", 0), Some(7));
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_what_was_accepted() {
    let world = World::new();
    world
        .queen
        .script("kv", [Fault::Slow(Duration::from_millis(700))]);
    let receipt = world.commit("g", &[7]);
    let start = tokio::time::Instant::now();
    assert!(world.stop.stop(Duration::from_secs(2)).await);
    assert_eq!(start.elapsed(), Duration::from_millis(700));
    assert!(all_written(&receipt.verdicts().await));
}
