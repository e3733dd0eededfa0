//! Each situation is seen where it is, and not where it nearly is.

use super::*;
use crate::call::Failure;
use crate::check::testing::{Story, at};
use crate::event::Op;

fn met(story: &Story) -> Vec<String> {
    let coverage = Coverage::of(story.entries());
    coverage.0.keys().map(ToString::to_string).collect()
}

fn attempt(story: &mut Story, op: Op, attempt: u32) {
    let event = Event::Attempt {
        op,
        attempt,
        producer: None,
        sequence: None,
    };
    story.event("p", event);
}

fn crash(story: &mut Story) {
    let node = "facade".into();
    story.event("world", Event::Mark(Mark::Crash { node }));
}

fn call(group_call: fn(Name) -> Call) -> Call {
    group_call("g".into())
}

fn join(group: Name) -> Call {
    Call::Join {
        group,
        member: "m".into(),
        instance: None,
    }
}

fn beat(group: Name) -> Call {
    Call::Heartbeat {
        group,
        member: "m".into(),
        generation: 1,
        instance: None,
    }
}

fn commit(group: Name) -> Call {
    Call::Commit {
        group,
        member: "m".into(),
        generation: 1,
        offsets: vec![(at(), 1)],
        reset: false,
    }
}

fn joined() -> Reply {
    Reply::Joined {
        generation: 1,
        member: "m".into(),
        leader: "m".into(),
        protocol: "range".into(),
        members: Vec::new(),
    }
}

#[test]
fn a_quiet_history_meets_nothing() {
    assert!(met(&Story::acknowledged()).is_empty());
}

#[test]
fn names_are_unique_and_no_mark_is_lost() {
    let names: BTreeSet<_> = ALL.iter().map(|one| one.name).collect();
    assert_eq!(names.len(), ALL.len());
    let mut story = Story::acknowledged();
    let name = FETCH_SESSION_EVICTED.into();
    story.event("world", Event::Mark(Mark::Situation { name }));
    assert_eq!(met(&story), [FETCH_SESSION_EVICTED]);
}

#[test]
fn a_batch_sent_again_may_have_landed() {
    let mut story = Story::default();
    let op = story.produce("p", 0, 1);
    attempt(&mut story, op, 1);
    assert!(met(&story).is_empty());
    let mut unseen = story.clone();
    attempt(&mut unseen, op, 2);
    assert_eq!(met(&unseen), ["batch-sent-again"]);
    story.polled("r", 0, 1, &[(0, 0)]);
    attempt(&mut story, op, 2);
    assert_eq!(met(&story), ["batch-sent-again", "retry-of-a-landed-push"]);
    // Without a reader: something behind it was acknowledged before.
    let behind = unseen.produce("q", 1, 1);
    unseen.stored(behind, 1);
    let mut late = unseen.clone();
    unseen.stored(op, 0);
    assert_eq!(
        met(&unseen),
        ["batch-sent-again"],
        "it went out before that"
    );
    attempt(&mut late, op, 3);
    late.stored(op, 0);
    assert_eq!(met(&late), ["batch-sent-again", "retry-of-a-landed-push"]);
}

#[test]
fn five_in_flight_are_five() {
    let mut story = Story::default();
    for number in 0..5 {
        let op = story.produce("p", number, 1);
        let mut four = story.clone();
        crash(&mut four);
        assert!(met(&four).is_empty(), "{number} went out");
        attempt(&mut story, op, 1);
    }
    crash(&mut story);
    assert_eq!(met(&story), ["five-in-flight-at-a-crash"]);
}

#[test]
fn a_rebalance_is_anothers() {
    let mut story = Story::acknowledged();
    let op = story.begin("b", call(join));
    let refused = Vec::new();
    let mut own = story.clone();
    own.done(
        "b",
        call(commit),
        Reply::Committed {
            refused: refused.clone(),
        },
    );
    assert!(met(&own).is_empty());
    story.done(
        "a",
        call(commit),
        Reply::Committed {
            refused: refused.clone(),
        },
    );
    assert_eq!(met(&story), ["commit-during-rebalance"]);
    let mut after = Story::acknowledged();
    let joining = after.begin("b", call(join));
    assert_eq!(joining, op);
    after.ok(joining, joined());
    after.done("a", call(commit), Reply::Committed { refused });
    assert!(met(&after).is_empty());
}

#[test]
fn a_refused_member_joins_again() {
    for (code, name) in [
        (ILLEGAL_GENERATION, "rejoin-with-the-old-generation"),
        (UNKNOWN_MEMBER_ID, "rejoin-as-a-stranger"),
    ] {
        let mut story = Story::acknowledged();
        let op = story.begin("a", call(beat));
        story.fail(op, Failure::code(code, "over"));
        assert!(met(&story).is_empty());
        story.done("a", call(join), joined());
        assert_eq!(met(&story), [name]);
    }
    let mut fenced = Story::acknowledged();
    let op = fenced.begin("a", call(beat));
    fenced.fail(op, Failure::code(FENCED_INSTANCE_ID, "fenced"));
    assert_eq!(met(&fenced), ["static-member-fenced"]);
}

#[test]
fn a_crash_in_each_phase_of_a_rebalance() {
    let mut story = Story::acknowledged();
    let op = story.begin("a", call(join));
    let mut joining = story.clone();
    crash(&mut joining);
    assert_eq!(met(&joining), ["crash-while-joining"]);
    story.ok(op, joined());
    crash(&mut story);
    assert!(met(&story).is_empty());
}

#[test]
fn a_commit_repeated_was_unknown_before() {
    let mut story = Story::acknowledged();
    let op = story.begin("a", call(commit));
    story.unknown(op, Failure::here("timeout"));
    let refused = Vec::new();
    assert!(met(&story).is_empty());
    story.done("a", call(commit), Reply::Committed { refused });
    assert_eq!(met(&story), ["commit-repeated"]);
}

fn authenticated(story: &mut Story, who: &str, connection: u64, principal: &str) {
    let event = Event::Authenticated {
        connection,
        principal: principal.into(),
        tenant: "acme".into(),
    };
    story.event(who, event);
}

fn ends(story: &mut Story, principal: &str, actions: &[&str]) {
    let mark = Mark::Revoke {
        principal: principal.into(),
        within_ms: 0,
        actions: actions.iter().map(|&action| action.into()).collect(),
    };
    story.event("world", Event::Mark(mark));
}

#[test]
fn an_end_is_met_where_its_client_is() {
    let at_an_end = |busy: &[Call]| {
        let mut story = Story::default();
        authenticated(&mut story, "p", 1, "key");
        for call in busy {
            story.begin("p", call.clone());
        }
        ends(&mut story, "key", &[]);
        ends(&mut story, "a key that nobody holds", &[]);
        met(&story)
    };
    let produce = Call::Produce {
        batch: crate::check::testing::batch(0, 1),
        acks: -1,
        transaction: None,
    };
    assert_eq!(at_an_end(&[]), ["revoked-while-idle"]);
    assert_eq!(at_an_end(&[produce]), ["revoked-in-mid-produce"]);
    assert_eq!(at_an_end(&[call(join)]), ["revoked-in-a-rebalance"]);
    let begin = Call::Begin { transaction: 1 };
    assert_eq!(
        at_an_end(std::slice::from_ref(&begin)),
        ["revoked-inside-a-transaction"]
    );
    let end = Call::End {
        transaction: 1,
        commit: true,
    };
    assert!(at_an_end(&[begin, end]).is_empty(), "it is ending");
}

#[test]
fn a_lost_scope_counts_where_it_was_used() {
    let lost = |scope: &str| {
        let mut story = Story::default();
        authenticated(&mut story, "p", 1, "key");
        let served = Event::Served {
            deed: 1,
            principal: "key".into(),
            tenant: "acme".into(),
            action: "Fetch".into(),
            resource: "orders".into(),
            asked_ms: None,
        };
        story.event("p", served);
        ends(&mut story, "key", &[scope]);
        met(&story).contains(&"scope-lost-in-use".to_owned())
    };
    assert!(lost("Fetch") && !lost("Produce"));
}

#[test]
fn a_successor_and_a_second_session_are_seen() {
    let mut story = Story::default();
    authenticated(&mut story, "p", 1, "key");
    ends(&mut story, "key", &[]);
    authenticated(&mut story, "q", 1, "another");
    let successor = "rotated-and-served-again".to_owned();
    assert!(!met(&story).contains(&successor), "somebody else's");
    authenticated(&mut story, "p", 2, "key-2");
    assert!(met(&story).contains(&successor));
    let again = "authenticated-again".to_owned();
    assert!(!met(&story).contains(&again));
    authenticated(&mut story, "p", 2, "key-2");
    assert!(met(&story).contains(&again));
}
