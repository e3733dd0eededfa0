use crate::call::{Admin, Call, Failure, Producer, Reply};
use crate::check::testing::{Story, at};
use crate::event::{Event, Op};

fn commit(offset: i64, reset: bool) -> Call {
    Call::Commit {
        group: "g".into(),
        member: "m".into(),
        generation: 1,
        offsets: vec![(at(), offset)],
        reset,
    }
}

fn send_offsets(transaction: u64, offset: i64) -> Call {
    Call::SendOffsets {
        transaction,
        group: "g".into(),
        member: "m".into(),
        generation: 1,
        offsets: vec![(at(), offset)],
    }
}

fn committed() -> Reply {
    Reply::Committed {
        refused: Vec::new(),
    }
}

fn told(story: &mut Story, offset: Option<i64>) {
    let call = Call::FetchOffsets {
        group: "g".into(),
        partitions: vec![at()],
    };
    story.done("b", call, Reply::Offsets(vec![(at(), offset)]));
}

fn story(offset: i64) -> Story {
    let mut story = Story::acknowledged();
    story.done("a", commit(offset, false), committed());
    story
}

#[test]
fn commits_go_forward_unless_reset() {
    let mut story = story(5);
    story.done("a", commit(5, false), committed());
    let mut reset = story.clone();
    story.done("b", commit(4, false), committed());
    assert_eq!(story.names(), ["commit-back"]);
    reset.done("b", commit(4, true), committed());
    told(&mut reset, Some(4));
    reset.done("b", commit(4, false), committed());
    assert!(reset.names().is_empty());
}

#[test]
fn who_was_a_member_commits_as_nobody_and_may_go_back() {
    let nobody = Call::Commit {
        group: "g".into(),
        member: "".into(),
        generation: -1,
        offsets: vec![(at(), 4)],
        reset: false,
    };
    let join = Call::Join {
        group: "g".into(),
        member: "".into(),
        instance: None,
    };
    let joined = Reply::Joined {
        generation: 1,
        member: "m".into(),
        leader: "m".into(),
        protocol: "range".into(),
        members: Vec::new(),
    };
    let mut never = story(5);
    never.done("b", nobody.clone(), committed());
    assert_eq!(never.names(), ["commit-back"]);
    let mut once = Story::acknowledged();
    once.done("b", join, joined);
    once.done("a", commit(5, false), committed());
    once.done("b", nobody, committed());
    told(&mut once, Some(4));
    assert!(once.names().is_empty());
    told(&mut once, Some(3));
    assert_eq!(once.names(), ["phantom-commit"]);
}

#[test]
fn commits_that_overlap_or_failed_or_are_unknown_prove_nothing() {
    let mut overlap = Story::acknowledged();
    let one = overlap.begin("a", commit(5, false));
    let other = overlap.begin("b", commit(4, false));
    overlap.ok(one, committed());
    overlap.ok(other, committed());
    assert!(overlap.names().is_empty());

    let mut failed = story(3);
    let op = failed.begin("a", commit(5, false));
    let mut unknown = failed.clone();
    failed.fail(op, Failure::code(22, "ILLEGAL_GENERATION"));
    told(&mut failed, Some(3));
    assert!(failed.names().is_empty());
    unknown.unknown(op, Failure::here("timeout"));
    told(&mut unknown, Some(3));
    told(&mut unknown, Some(5));
    assert!(unknown.names().is_empty(), "it landed late");
}

#[test]
fn what_was_committed_is_told() {
    for wrong in [Some(4), None] {
        let mut story = story(5);
        story.done("a", commit(4, true), committed());
        story.done("a", commit(5, false), committed());
        told(&mut story, wrong);
        assert_eq!(story.names(), ["commit-back"], "{wrong:?}");
    }
    let mut fine = story(5);
    told(&mut fine, Some(5));
    assert!(fine.names().is_empty());
    told(&mut fine, Some(6));
    assert_eq!(fine.names(), ["phantom-commit"]);
}

#[test]
fn deleted_offsets_are_gone() {
    let mut story = story(5);
    let delete = Admin::DeleteGroup { group: "g".into() };
    story.begin("admin", Call::Admin(delete));
    told(&mut story, None);
    assert!(story.names().is_empty());
}

#[test]
fn a_refused_partition_is_not_committed() {
    let mut story = story(3);
    let refused = vec![(at(), 12)];
    story.done("a", commit(9, false), Reply::Committed { refused });
    told(&mut story, Some(3));
    assert!(story.names().is_empty());
}

#[test]
fn a_transactions_offsets_are_committed_with_it() {
    let sent = |commit: bool| {
        let mut story = story(3);
        story.done("t", send_offsets(1, 9), committed());
        let end = Call::End {
            transaction: 1,
            commit,
        };
        story.done("t", end, Reply::Done);
        told(&mut story, Some(3));
        story.names()
    };
    assert_eq!(sent(true), ["commit-back"]);
    assert!(sent(false).is_empty());
}

/// `a` committed 5, which went out `attempts` times, and then 9.
fn repeated(attempts: u32) -> Story {
    let mut story = Story::acknowledged();
    let op = story.begin("a", commit(5, false));
    for attempt in 1..=attempts {
        story.event("a", attempted(op, attempt));
    }
    story.ok(op, committed());
    story.done("a", commit(9, false), committed());
    story
}

fn attempted(op: Op, attempt: u32) -> Event {
    attempted_as(op, attempt, None)
}

fn attempted_as(op: Op, attempt: u32, producer: Option<Producer>) -> Event {
    Event::Attempt {
        op,
        attempt,
        producer,
        sequence: None,
    }
}

/// `t` commits `offset` in a transaction, under `epoch`; its offsets go out `attempts` times.
fn transaction(story: &mut Story, number: u64, offset: i64, attempts: u32, epoch: i16) {
    let send = send_offsets(number, offset);
    let op = story.begin("t", send);
    for attempt in 1..=attempts {
        story.event(
            "t",
            attempted_as(op, attempt, Some(Producer { id: 7, epoch })),
        );
    }
    story.ok(op, committed());
    let end = Call::End {
        transaction: number,
        commit: true,
    };
    story.done("t", end, Reply::Done);
}

#[test]
fn offsets_of_a_transaction_that_went_out_again_land_in_a_later_one_of_their_epoch() {
    let seen = |attempts: u32, epoch: i16| {
        let mut story = story(3);
        transaction(&mut story, 1, 8, attempts, 0);
        transaction(&mut story, 2, 9, 1, epoch);
        told(&mut story, Some(8));
        story.names()
    };
    assert!(seen(2, 0).is_empty());
    assert_eq!(seen(1, 0), ["commit-back"], "it went out once");
    assert_eq!(seen(2, 1), ["commit-back"], "a raised epoch fences it");
}

#[test]
fn a_commit_that_went_out_again_may_land_once_more() {
    let mut story = repeated(2);
    told(&mut story, Some(9));
    told(&mut story, Some(5));
    // The group goes on from there.
    story.done("b", commit(7, false), committed());
    told(&mut story, Some(7));
    assert!(story.names().is_empty());
    told(&mut story, Some(5));
    assert_eq!(
        story.names(),
        ["commit-back"],
        "two tries land twice at most"
    );
}

#[test]
fn a_commit_that_went_out_once_lands_once() {
    let mut story = repeated(1);
    told(&mut story, Some(5));
    assert_eq!(story.names(), ["commit-back"]);
    let mut silent = repeated(0);
    told(&mut silent, Some(5));
    assert_eq!(
        silent.names(),
        ["commit-back"],
        "nothing was said of its tries"
    );
}

#[test]
fn what_lands_late_is_the_very_offset_that_was_sent_again() {
    for wrong in [Some(4), Some(6), None] {
        let mut story = repeated(2);
        story.done("b", commit(4, true), committed());
        story.done("b", commit(6, false), committed());
        story.done("b", commit(9, false), committed());
        told(&mut story, wrong);
        assert_eq!(story.names(), ["commit-back"], "{wrong:?}");
    }
}

#[test]
fn nobody_commits_back_before_a_late_landing_was_seen() {
    let mut story = repeated(2);
    story.done("b", commit(7, false), committed());
    assert_eq!(story.names(), ["commit-back"]);
    // And after it, no further back than to what landed.
    let mut further = repeated(2);
    told(&mut further, Some(5));
    further.done("b", commit(4, false), committed());
    assert_eq!(further.names(), ["commit-back"]);
}

#[test]
fn readers_at_once_may_see_the_same_late_landing() {
    let fetch = Call::FetchOffsets {
        group: "g".into(),
        partitions: vec![at()],
    };
    let mut story = repeated(2);
    let one = story.begin("b", fetch.clone());
    let other = story.begin("c", fetch);
    story.ok(one, Reply::Offsets(vec![(at(), Some(5))]));
    story.ok(other, Reply::Offsets(vec![(at(), Some(5))]));
    told(&mut story, Some(5));
    assert!(story.names().is_empty());
}

#[test]
fn a_commit_that_nobody_knows_of_lands_once_over_a_later_one() {
    let mut story = story(3);
    let op = story.begin("a", commit(5, false));
    story.unknown(op, Failure::here("timeout"));
    story.done("a", commit(9, false), committed());
    told(&mut story, Some(5));
    assert!(story.names().is_empty(), "it landed late");
    story.done("a", commit(9, false), committed());
    told(&mut story, Some(5));
    assert_eq!(story.names(), ["commit-back"]);
}
