use crate::call::{Call, Reply};
use crate::check::testing::{Story, at};
use crate::event::{Event, Mark};
use crate::value::TopicPartition;

fn join(story: &mut Story, who: &str, generation: i32) {
    join_as(story, who, who, None, generation);
}

fn join_as(story: &mut Story, who: &str, member: &str, instance: Option<&str>, generation: i32) {
    let call = Call::Join {
        group: "g".into(),
        member: "".into(),
        instance: instance.map(Into::into),
    };
    let reply = Reply::Joined {
        generation,
        member: member.into(),
        leader: member.into(),
        protocol: "range".into(),
        members: Vec::new(),
    };
    story.done(who, call, reply);
}

fn sync(story: &mut Story, who: &str, generation: i32, partitions: &[i32]) {
    let call = Call::Sync {
        group: "g".into(),
        member: who.into(),
        generation,
    };
    let assignment = topic(partitions);
    story.done(who, call, Reply::Synced { assignment });
}

fn topic(partitions: &[i32]) -> Vec<TopicPartition> {
    let new = |partition: &i32| TopicPartition::new("orders", *partition);
    partitions.iter().map(new).collect()
}

fn commit(story: &mut Story, member: &str, generation: i32) {
    let call = Call::Commit {
        group: "g".into(),
        member: member.into(),
        generation,
        offsets: vec![(at(), 1)],
        reset: false,
    };
    let refused = Vec::new();
    story.done("c", call, Reply::Committed { refused });
}

#[test]
fn a_partition_has_one_owner_in_a_generation() {
    let mut story = Story::acknowledged();
    sync(&mut story, "a", 1, &[0]);
    sync(&mut story, "b", 1, &[1]);
    sync(&mut story, "b", 2, &[0, 1]);
    assert!(story.names().is_empty());
    let mut crashed = story.clone();
    sync(&mut story, "c", 2, &[1]);
    assert_eq!(story.names(), ["two-owners"]);
    assert_eq!(story.verdicts()[0].proof.len(), 2);
    let node = "facade".into();
    crashed.event("world", Event::Mark(Mark::Crash { node }));
    sync(&mut crashed, "c", 2, &[1]);
    assert!(crashed.names().is_empty(), "counted anew");
}

#[test]
fn a_member_of_kip_848_hears_after_a_crash_what_it_was_given_before() {
    let beat = |epoch| Call::ConsumerHeartbeat {
        group: "g".into(),
        member: "a".into(),
        instance: None,
        epoch,
        owned: None,
    };
    let given = |member: &str| Reply::Beat {
        member: member.into(),
        epoch: 1,
        assignment: Some(topic(&[0])),
    };
    let assigned = |member: &str| Event::Assigned {
        group: "g".into(),
        member: member.into(),
        generation: 1,
        partitions: topic(&[0]),
    };
    let heard = |crashes: bool, again: bool| {
        let mut story = Story::acknowledged();
        let op = story.begin("a", beat(0));
        if crashes {
            let node = "facade".into();
            story.event("world", Event::Mark(Mark::Crash { node }));
        }
        story.ok(op, given("a"));
        story.event("a", assigned("a"));
        if again {
            // The coordinator that came after the crash gives it as well.
            story.done("a", beat(1), given("a"));
            story.event("a", assigned("a"));
        }
        story.event("b", assigned("b"));
        story.names()
    };
    assert!(heard(true, false).is_empty());
    assert!(heard(false, false).contains(&"two-owners"));
    assert!(heard(true, true).contains(&"two-owners"));
}

#[test]
fn what_a_member_hears_after_a_crash_it_may_have_been_given_before() {
    let assigned = |member: &str| Event::Assigned {
        group: "g".into(),
        member: member.into(),
        generation: 1,
        partitions: topic(&[0]),
    };
    let mut story = Story::acknowledged();
    join(&mut story, "a", 1);
    let mut alive = story.clone();
    let node = "facade".into();
    story.event("world", Event::Mark(Mark::Crash { node }));
    for story in [&mut story, &mut alive] {
        story.event("a", assigned("a"));
        join(story, "b", 1);
        story.event("b", assigned("b"));
    }
    assert!(story.names().is_empty(), "counted anew");
    assert!(alive.names().contains(&"two-owners"));
    // Told by a SyncGroup after the crash, and by its own word before it.
    let mut story = Story::acknowledged();
    join(&mut story, "a", 1);
    story.event("a", assigned("a"));
    let node = "facade".into();
    story.event("world", Event::Mark(Mark::Crash { node }));
    join(&mut story, "b", 1);
    sync(&mut story, "b", 1, &[0]);
    assert!(story.names().is_empty(), "in the order in which they heard");
}

#[test]
fn a_static_member_hands_its_place_on() {
    let mut story = Story::acknowledged();
    join_as(&mut story, "a", "m1", Some("i"), 1);
    join_as(&mut story, "b", "m2", Some("i"), 1);
    sync(&mut story, "m1", 1, &[0]);
    // m1 was replaced before it synced: only this is wrong.
    sync(&mut story, "m2", 1, &[0]);
    assert_eq!(story.names(), ["zombie"]);
}

#[test]
fn a_member_of_an_old_generation_does_nothing() {
    let mut story = Story::acknowledged();
    join(&mut story, "a", 1);
    commit(&mut story, "a", 1);
    join(&mut story, "b", 2);
    let mut late = story.clone();
    commit(&mut story, "b", 2);
    assert!(story.names().is_empty());
    commit(&mut late, "a", 1);
    assert_eq!(late.names(), ["zombie"]);
    let refused = vec![(at(), 22)];
    let mut told = story.clone();
    let call = Call::Commit {
        group: "g".into(),
        member: "a".into(),
        generation: 1,
        offsets: vec![(at(), 2)],
        reset: false,
    };
    told.done("a", call, Reply::Committed { refused });
    assert!(told.names().is_empty(), "refused in the answer");
}

#[test]
fn a_commit_that_began_before_the_generation_may_land() {
    let mut story = Story::acknowledged();
    join(&mut story, "a", 1);
    let call = Call::Commit {
        group: "g".into(),
        member: "a".into(),
        generation: 1,
        offsets: vec![(at(), 1)],
        reset: false,
    };
    let op = story.begin("a", call);
    join(&mut story, "b", 2);
    let refused = Vec::new();
    story.ok(op, Reply::Committed { refused });
    assert!(story.names().is_empty());
}

#[test]
fn a_member_that_left_or_was_replaced_is_fenced() {
    let mut left = Story::acknowledged();
    join(&mut left, "a", 1);
    let leave = Call::Leave {
        group: "g".into(),
        member: "a".into(),
        instance: None,
    };
    left.done("a", leave, Reply::Done);
    commit(&mut left, "a", 1);
    assert_eq!(left.names(), ["zombie"]);

    let mut replaced = Story::acknowledged();
    join_as(&mut replaced, "a", "m1", Some("i"), 1);
    join_as(&mut replaced, "b", "m2", Some("i"), 1);
    commit(&mut replaced, "m2", 1);
    assert!(replaced.names().is_empty());
    commit(&mut replaced, "m1", 1);
    assert_eq!(replaced.names(), ["zombie"]);
}

fn settle(story: &mut Story, partitions: &[i32]) -> Vec<&'static str> {
    let settled = Mark::Settled {
        group: "g".into(),
        partitions: topic(partitions),
    };
    story.event("world", Event::Mark(settled));
    story.names()
}

#[test]
fn a_settled_group_is_in_one_generation_and_owns_everything() {
    let mut story = Story::acknowledged();
    sync(&mut story, "a", 1, &[0, 1]);
    let mut apart = story.clone();
    sync(&mut story, "a", 2, &[0]);
    sync(&mut story, "b", 2, &[1]);
    let (mut orphan, mut joining, mut left) = (story.clone(), story.clone(), story.clone());
    assert!(settle(&mut story, &[0, 1]).is_empty());
    assert_eq!(settle(&mut orphan, &[0, 1, 2]), ["not-converged"]);
    sync(&mut apart, "b", 2, &[1]);
    assert_eq!(settle(&mut apart, &[0, 1]), ["not-converged"]);
    let call = Call::Join {
        group: "g".into(),
        member: "a".into(),
        instance: None,
    };
    joining.begin("a", call);
    assert_eq!(settle(&mut joining, &[0, 1]), ["not-converged"]);
    let client = "b".into();
    left.event("world", Event::Mark(Mark::ClientCrash { client }));
    assert_eq!(
        settle(&mut left, &[0, 1]),
        ["not-converged"],
        "1 is orphaned"
    );
}

#[test]
fn owners_of_their_own_word_may_hand_over_within_an_epoch() {
    let assigned = |member: &str| Event::Assigned {
        group: "g".into(),
        member: member.into(),
        generation: 3,
        partitions: topic(&[0]),
    };
    let mut story = Story::acknowledged();
    story.event("a", assigned("a"));
    let mut both = story.clone();
    both.event("b", assigned("b"));
    assert_eq!(both.names(), ["two-owners"]);
    let revoked = Event::Revoked {
        group: "g".into(),
        member: "a".into(),
        generation: 3,
        partitions: topic(&[0]),
    };
    story.event("a", revoked);
    story.event("b", assigned("b"));
    assert!(story.names().is_empty());
}
