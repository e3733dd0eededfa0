use super::*;
use crate::client::profile::JAVA_CONSUMER_PROTOCOL;

#[derive(Debug)]
struct NoJitter;

impl Entropy for NoJitter {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

const INTERVAL: Duration = Duration::from_millis(500);
const WAIT: Duration = Duration::from_millis(100);

struct Rig {
    member: Reconciler,
    now: Monotonic,
}

fn partitions(numbers: &[i32]) -> BTreeSet<TopicPartition> {
    let partition = |number: &i32| TopicPartition::new("t", *number);
    numbers.iter().map(partition).collect()
}

impl Rig {
    fn new() -> Self {
        Self::of(None)
    }

    fn of(instance: Option<&str>) -> Self {
        let now = Monotonic::from_origin(Duration::from_secs(1));
        let rules = JAVA_CONSUMER_PROTOCOL.group;
        let retry = BackoffRule::fixed(WAIT);
        let instance = instance.map(Name::from);
        Self {
            member: Reconciler::new(rules, retry, Arc::new(NoJitter), instance, now),
            now,
        }
    }

    fn wait(&mut self, wait: Duration) {
        self.now = self.now + wait;
    }

    /// The heartbeat that is due: its epoch, whether it says all, what it owns.
    fn beats(&mut self) -> Option<(i32, bool, Option<BTreeSet<TopicPartition>>)> {
        match self.member.poll_ask(self.now, true, true)? {
            Ask::Beat { identity, says } => Some((identity.generation, says.all, says.owned)),
            other => panic!("{other:?} is no heartbeat"),
        }
    }

    fn told(&mut self, epoch: i32, assignment: Option<&[i32]>) {
        let beat = Beat {
            member: self.member.identity().member.clone(),
            epoch,
            interval: INTERVAL,
            assignment: assignment.map(partitions),
        };
        self.member.handle_beat(self.now, Ok(beat));
    }

    fn refused(&mut self, code: ErrorCode) {
        let trouble = Trouble::Code(code);
        self.member.handle_beat(self.now, Err(trouble));
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.member.poll_event()).collect()
    }

    /// Joins, gets `numbers` at epoch 1 and says so.
    fn settle(&mut self, numbers: &[i32]) {
        assert_eq!(self.beats(), Some((0, true, Some(partitions(&[])))));
        self.told(1, Some(numbers));
        assert_eq!(self.beats(), Some((1, false, Some(partitions(numbers)))));
        self.told(1, None);
        assert_eq!(self.events(), [Event::Assigned(partitions(numbers))]);
        assert!(self.member.is_stable());
    }
}

#[test]
fn a_member_says_what_it_got_and_then_only_that_it_lives() {
    let mut rig = Rig::new();
    assert!(!rig.member.identity().member.is_empty(), "it chose its id");
    assert_eq!(rig.member.identity().generation, -1);
    rig.settle(&[0, 1]);
    assert_eq!(rig.beats(), None);
    assert_eq!(rig.member.next_deadline(rig.now), Some(rig.now + INTERVAL));
    rig.wait(INTERVAL);
    assert_eq!(rig.beats(), Some((1, false, None)));
    assert_eq!(rig.beats(), None, "one at a time");
    rig.told(2, None);
    assert_eq!(rig.member.identity().generation, 2);
}

#[test]
fn what_is_taken_is_given_up_before_anything_is_said() {
    let mut rig = Rig::new();
    rig.settle(&[0, 1]);
    rig.wait(INTERVAL);
    rig.beats();
    rig.told(1, Some(&[1, 2]));
    assert_eq!(rig.events(), [Event::Revoke(partitions(&[0]))]);
    assert!(!rig.member.is_stable());
    // It lives while its application is slow.
    rig.wait(INTERVAL);
    assert_eq!(rig.beats(), Some((1, false, None)));
    rig.told(1, None);
    assert_eq!(rig.beats(), None, "nothing to tell yet");
    rig.member.revoked();
    assert_eq!(rig.events(), [Event::Assigned(partitions(&[2]))]);
    assert_eq!(rig.beats(), Some((1, false, Some(partitions(&[1, 2])))));
}

#[test]
fn who_is_fenced_comes_again_under_its_id_once_its_application_knows() {
    for code in [ErrorCode::FencedMemberEpoch, ErrorCode::UnknownMemberId] {
        let mut rig = Rig::new();
        rig.settle(&[0]);
        let id = rig.member.identity().member.clone();
        rig.wait(INTERVAL);
        rig.beats();
        rig.refused(code);
        assert_eq!(rig.events(), [Event::Lost(partitions(&[0]))]);
        assert_eq!(rig.member.identity().generation, -1);
        assert_eq!(rig.member.poll_ask(rig.now, false, true), None);
        assert_eq!(rig.beats(), Some((0, true, Some(partitions(&[])))));
        assert_eq!(rig.member.identity().member, id);
    }
}

#[test]
fn after_trouble_everything_is_said_again_and_later() {
    let mut rig = Rig::new();
    rig.settle(&[0]);
    rig.wait(INTERVAL);
    rig.beats();
    rig.member.handle_beat(rig.now, Err(Trouble::NoAnswer));
    assert_eq!(rig.events(), [Event::CoordinatorWrong]);
    assert_eq!(rig.beats(), None, "it waits");
    rig.wait(WAIT);
    assert_eq!(rig.beats(), Some((1, true, Some(partitions(&[0])))));
    rig.refused(ErrorCode::UnreleasedInstanceId);
    let lost = Event::Lost(partitions(&[0]));
    let fatal = Event::Fatal(ErrorCode::UnreleasedInstanceId);
    assert_eq!(rig.events(), [lost, fatal]);
    rig.wait(INTERVAL);
    assert_eq!(rig.beats(), None, "for good");
}

#[test]
fn an_application_that_does_not_poll_is_left_and_comes_back() {
    let limit = JAVA_CONSUMER_PROTOCOL.group.max_poll_interval;
    let mut rig = Rig::new();
    rig.settle(&[0]);
    rig.wait(limit.expect("watched") + Duration::from_millis(1));
    let ask = rig.member.poll_ask(rig.now, false, false);
    let Some(Ask::Leave { identity }) = ask else {
        panic!("{ask:?}");
    };
    assert_eq!(identity.generation, -1);
    assert_eq!(rig.member.poll_ask(rig.now, false, false), None);
    assert!(!rig.member.is_losing());
    rig.member.handle_poll(rig.now);
    assert!(
        rig.member.is_losing(),
        "nothing is handed out until it hears"
    );
    assert_eq!(rig.events(), [Event::Lost(partitions(&[0]))]);
    assert_eq!(rig.beats(), Some((0, true, Some(partitions(&[])))));
}

#[test]
fn an_answer_to_who_has_left_means_nothing() {
    let mut rig = Rig::of(Some("i"));
    rig.settle(&[0]);
    rig.wait(INTERVAL);
    rig.beats();
    rig.member.close();
    rig.told(2, Some(&[0, 1]));
    assert!(rig.events().is_empty() && rig.member.owned().is_empty());
    let ask = rig.member.poll_ask(rig.now, true, false);
    let Some(Ask::Leave { identity }) = ask else {
        panic!("{ask:?}");
    };
    assert_eq!(identity.generation, -2, "a static member may come again");
}
