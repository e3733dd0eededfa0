use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::client::profile::{FRANZ_GO, JAVA};

#[derive(Debug)]
struct NoJitter;

impl Entropy for NoJitter {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

const EAGER: GroupRules = JAVA.group;
const COOPERATIVE: GroupRules = GroupRules {
    max_poll_interval: Some(Duration::from_secs(300)),
    ..FRANZ_GO.group
};

struct Rig {
    member: Membership,
    now: Monotonic,
}

fn partitions(numbers: &[i32]) -> BTreeSet<TopicPartition> {
    let partition = |number: &i32| TopicPartition::new("t", *number);
    numbers.iter().map(partition).collect()
}

impl Rig {
    fn new(rules: GroupRules) -> Self {
        Self::of(rules, None)
    }

    fn of(rules: GroupRules, instance: Option<&str>) -> Self {
        let now = Monotonic::from_origin(Duration::from_secs(1));
        let retry = BackoffRule::fixed(Duration::from_millis(100));
        let topics = BTreeSet::from([Name::from("t")]);
        let instance = instance.map(Name::from);
        Self {
            member: Membership::new(rules, retry, Arc::new(NoJitter), topics, instance, now),
            now,
        }
    }

    fn wait(&mut self, wait: Duration) {
        self.now = self.now + wait;
    }

    fn ask(&mut self) -> Option<Ask> {
        self.member.poll_ask(self.now, true, true)
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.member.poll_event()).collect()
    }

    fn joins(&mut self) -> Subscription {
        match self.ask() {
            Some(Ask::Join { subscription, .. }) => subscription,
            other => panic!("{other:?} is no JoinGroup"),
        }
    }

    fn syncs(&mut self) {
        let ask = self.ask();
        assert!(matches!(ask, Some(Ask::Sync { .. })), "{ask:?}");
    }

    fn joined(&mut self, generation: i32, assignor: Assignor) {
        self.member.handle_join(
            self.now,
            Ok(Joined {
                member: "m-1".into(),
                generation,
                assignor,
                members: None,
            }),
        );
    }

    /// Joins as a follower and gets `numbers`.
    fn settle(&mut self, generation: i32, numbers: &[i32]) {
        self.joins();
        self.joined(generation, Assignor::Range);
        self.syncs();
        self.member.handle_sync(self.now, Ok(partitions(numbers)));
    }

    fn heartbeat(&mut self, answer: Result<(), Trouble>) {
        self.wait(Duration::from_secs(3));
        let Some(Ask::Heartbeat { identity }) = self.ask() else {
            panic!("no heartbeat after its interval");
        };
        self.member
            .handle_heartbeat(self.now, identity.generation, answer);
    }
}

fn code<T>(code: ErrorCode) -> Result<T, Trouble> {
    Err(Trouble::Code(code))
}

#[test]
fn a_member_takes_the_id_it_is_given_and_beats_in_its_generation() {
    let mut rig = Rig::new(EAGER);
    rig.joins();
    let required = Trouble::Code(ErrorCode::MemberIdRequired);
    rig.member
        .handle_join(rig.now, Err((required, "m-1".into())));
    let Some(Ask::Join { identity, .. }) = rig.ask() else {
        panic!("it joins at once");
    };
    assert_eq!(identity.member.as_str(), "m-1");
    rig.joined(4, Assignor::Range);
    rig.syncs();
    assert_eq!(rig.ask(), None, "nothing beside the sync");
    rig.member.handle_sync(rig.now, Ok(partitions(&[0, 1])));
    assert_eq!(rig.events(), [Event::Assigned(partitions(&[0, 1]))]);
    assert!(rig.member.is_stable());
    assert_eq!(
        rig.member.next_deadline(rig.now),
        Some(rig.now + Duration::from_secs(3))
    );
    rig.heartbeat(Ok(()));
    assert_eq!(rig.ask(), None);
}

#[test]
fn the_leader_computes_before_it_syncs() {
    let mut rig = Rig::new(EAGER);
    rig.joins();
    let members = BTreeMap::from([(Name::from("m-1"), Subscription::default())]);
    let joined = Joined {
        member: "m-1".into(),
        generation: 1,
        assignor: Assignor::Range,
        members: Some(members.clone()),
    };
    rig.member.handle_join(rig.now, Ok(joined));
    let lead = Event::Lead {
        assignor: Assignor::Range,
        members,
    };
    assert_eq!(rig.events(), [lead]);
    assert_eq!(rig.ask(), None);
    let shares = Assignment::from([(Name::from("m-1"), partitions(&[0]))]);
    rig.member.assigned(shares.clone());
    let ask = rig.ask();
    assert!(
        matches!(&ask, Some(Ask::Sync { assignment, .. }) if *assignment == shares),
        "{ask:?}"
    );
}

#[test]
fn an_eager_member_gives_everything_up_before_it_joins_again() {
    let mut rig = Rig::new(EAGER);
    rig.settle(1, &[0, 1]);
    rig.events();
    rig.heartbeat(code(ErrorCode::RebalanceInProgress));
    assert_eq!(rig.ask(), None);
    assert_eq!(rig.events(), [Event::Revoke(partitions(&[0, 1]))]);
    // It stays a member meanwhile.
    rig.heartbeat(code(ErrorCode::RebalanceInProgress));
    rig.member.revoked(rig.now);
    assert!(rig.joins().owned.is_empty());
}

#[test]
fn a_cooperative_member_keeps_what_it_can_and_joins_again_after_a_loss() {
    let mut rig = Rig::new(COOPERATIVE);
    rig.settle(1, &[0, 1]);
    rig.events();
    rig.heartbeat(code(ErrorCode::RebalanceInProgress));
    let subscription = rig.joins();
    assert_eq!(subscription.owned, partitions(&[0, 1]));
    assert_eq!(subscription.generation, 1);
    rig.joined(2, Assignor::CooperativeSticky);
    rig.syncs();
    rig.member.handle_sync(rig.now, Ok(partitions(&[1, 2])));
    assert_eq!(rig.events(), [Event::Revoke(partitions(&[0]))]);
    assert_eq!(rig.ask(), None, "it waits for the application");
    rig.member.revoked(rig.now);
    assert_eq!(rig.events(), [Event::Assigned(partitions(&[2]))]);
    assert_eq!(rig.joins().owned, partitions(&[1, 2]));
}

#[test]
fn an_unknown_member_has_lost_everything_and_its_id() {
    let mut rig = Rig::new(EAGER);
    rig.settle(1, &[0]);
    rig.events();
    rig.heartbeat(code(ErrorCode::UnknownMemberId));
    assert_eq!(rig.events(), [Event::Lost(partitions(&[0]))]);
    assert_eq!(rig.ask(), None, "it backs off");
    rig.wait(Duration::from_millis(100));
    let Some(Ask::Join { identity, .. }) = rig.ask() else {
        panic!("no JoinGroup");
    };
    assert!(identity.member.is_empty());
}

#[test]
fn an_old_generation_keeps_the_id() {
    let mut rig = Rig::new(EAGER);
    rig.settle(1, &[0]);
    rig.events();
    rig.member
        .handle_commit_refused(rig.now, 1, ErrorCode::IllegalGeneration);
    assert_eq!(rig.events(), [Event::Lost(partitions(&[0]))]);
    assert_eq!(rig.member.identity().member.as_str(), "m-1");
    assert_eq!(rig.member.identity().generation, -1);
}

#[test]
fn an_answer_of_another_generation_changes_nothing() {
    let mut rig = Rig::new(EAGER);
    rig.settle(2, &[0]);
    rig.events();
    let fenced = code(ErrorCode::FencedInstanceId);
    rig.member.handle_heartbeat(rig.now, 1, fenced);
    rig.member
        .handle_commit_refused(rig.now, 1, ErrorCode::UnknownMemberId);
    assert!(rig.events().is_empty() && rig.member.is_stable());
}

#[test]
fn a_fenced_instance_never_comes_back() {
    let mut rig = Rig::of(EAGER, Some("i"));
    rig.settle(1, &[0]);
    rig.events();
    rig.heartbeat(code(ErrorCode::FencedInstanceId));
    let fenced = ErrorCode::FencedInstanceId;
    assert_eq!(
        rig.events(),
        [Event::Lost(partitions(&[0])), Event::Fatal(fenced)]
    );
    rig.wait(Duration::from_secs(60));
    assert_eq!(rig.ask(), None);
}

#[test]
fn whoever_does_not_poll_leaves_and_learns_of_it_at_the_next_poll() {
    let mut rig = Rig::new(EAGER);
    rig.settle(1, &[0]);
    rig.events();
    let mut asked = Vec::new();
    for _ in 0..200 {
        rig.wait(Duration::from_secs(3));
        if let Some(ask) = rig.member.poll_ask(rig.now, false, false) {
            if let Ask::Heartbeat { identity } = &ask {
                let generation = identity.generation;
                rig.member.handle_heartbeat(rig.now, generation, Ok(()));
            }
            asked.push(ask);
        }
    }
    let heartbeats = asked.len() - 1;
    assert_eq!(heartbeats, 100, "three hundred seconds of them");
    assert!(matches!(asked.last(), Some(Ask::Leave { .. })));
    assert!(rig.events().is_empty());
    assert!(!rig.member.is_losing());
    rig.member.handle_poll(rig.now);
    assert!(
        rig.member.is_losing(),
        "nothing is handed out until it hears"
    );
    assert_eq!(rig.events(), [Event::Lost(partitions(&[0]))]);
    assert!(!rig.member.is_losing());
    rig.joins();
}

#[test]
fn a_static_member_is_put_out_and_closed_without_a_word() {
    let mut rig = Rig::of(EAGER, Some("i"));
    rig.settle(1, &[0]);
    rig.wait(Duration::from_secs(301));
    assert_eq!(rig.member.poll_ask(rig.now, false, false), None);
    let mut rig = Rig::of(EAGER, Some("i"));
    rig.settle(1, &[0]);
    rig.member.close();
    assert_eq!(rig.ask(), None);
    let mut rig = Rig::new(EAGER);
    rig.settle(1, &[0]);
    rig.member.close();
    assert!(matches!(rig.ask(), Some(Ask::Leave { .. })));
}

#[test]
fn a_coordinator_that_moves_or_is_silent_is_looked_for() {
    let mut rig = Rig::new(EAGER);
    rig.settle(1, &[0]);
    rig.events();
    rig.heartbeat(code(ErrorCode::NotCoordinator));
    rig.heartbeat(Err(Trouble::NoAnswer));
    assert_eq!(
        rig.events(),
        [Event::CoordinatorWrong, Event::CoordinatorWrong]
    );
    assert!(rig.member.is_stable(), "the membership may be alive");
    rig.member.rejoin(rig.now);
    rig.ask();
    rig.events();
    rig.member.revoked(rig.now);
    rig.joins();
    let silence = Err((Trouble::NoAnswer, Name::default()));
    rig.member.handle_join(rig.now, silence);
    assert_eq!(rig.events(), [Event::CoordinatorWrong]);
    rig.wait(Duration::from_millis(100));
    rig.joins();
}

#[test]
fn join_and_sync_wait_for_the_poll_where_the_library_does() {
    let mut rig = Rig::new(EAGER);
    assert_eq!(rig.member.poll_ask(rig.now, false, false), None);
    rig.joins();
    rig.joined(1, Assignor::Range);
    assert_eq!(rig.member.poll_ask(rig.now, false, false), None);
    rig.syncs();
}
