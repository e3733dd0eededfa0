//! Nodes over a registry that is a map: what holds whatever is lost, late or frozen.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use host::Monotonic;
use proptest::prelude::*;

use super::*;

const SETTINGS: Settings = Settings {
    heartbeat: Duration::from_millis(2_000),
    ttl: Duration::from_millis(10_000),
};

fn at(ms: u64) -> Monotonic {
    Monotonic::from_origin(Duration::from_millis(ms))
}

/// Queen's rows, with versions and expiry.
#[derive(Default)]
struct Registry {
    versions: u64,
    rows: BTreeMap<NodeId, (u64, Row, Monotonic)>,
}

impl Registry {
    fn call(&mut self, id: NodeId, row: &Row, call: Call, now: Monotonic) -> Answer {
        self.rows.retain(|_, (_, _, until)| *until > now);
        let current = self
            .rows
            .get(&id)
            .map(|(version, row, _)| (*version, row.clone()));
        let write = match call {
            Call::Heartbeat(write) => write,
            Call::Release(version) => {
                if current.is_some_and(|(held, _)| held == version) {
                    self.rows.remove(&id);
                }
                return Answer::Unreachable;
            }
        };
        let wins = match (write, &current) {
            (Write::Fresh, None) => true,
            (Write::Over(expected), Some((version, _))) => expected == *version,
            _ => false,
        };
        let claimed = if wins {
            self.versions += 1;
            let until = now + SETTINGS.ttl;
            self.rows.insert(id, (self.versions, row.clone(), until));
            Claimed::Applied(self.versions)
        } else if write == Write::No {
            Claimed::NotAsked
        } else {
            Claimed::Lost(match current {
                None => Lost::Absent,
                Some((version, row)) => Lost::Row {
                    version,
                    incarnation: Some(row.incarnation),
                },
            })
        };
        let rows = self.rows.iter().map(|(id, (_, row, _))| (*id, row.clone()));
        Answer::Heartbeat(claimed, rows.collect())
    }
}

struct Node {
    id: NodeId,
    row: Row,
    membership: Membership,
    dead: bool,
}

impl Node {
    fn start(id: i32, life: &str, now: Monotonic) -> Self {
        let incarnation: Arc<str> = life.into();
        Self {
            id: NodeId(id),
            row: Row {
                host: "h".into(),
                port: 9092,
                incarnation: Arc::clone(&incarnation),
                serves_transactions: true,
            },
            membership: Membership::new(NodeId(id), incarnation, SETTINGS, now),
            dead: false,
        }
    }

    fn beat(&mut self, registry: &mut Registry, now: Monotonic, fate: Fate) {
        let Some(call) = self.membership.poll(now) else {
            return;
        };
        let answer = match fate {
            Fate::Unreachable => Answer::Unreachable,
            Fate::AnswerLost => {
                registry.call(self.id, &self.row, call, now);
                Answer::Unreachable
            }
            Fate::Answered => registry.call(self.id, &self.row, call, now),
        };
        if self.membership.answered(now, answer).is_err() {
            self.dead = true;
        }
    }

    fn coordinates(&self, now: Monotonic) -> bool {
        !self.dead && self.membership.standing(now) == Standing::Coordinating
    }
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Answered,
    AnswerLost,
    Unreachable,
}

#[test]
fn a_fresh_node_takes_its_number_at_once_and_sees_the_others() {
    let mut registry = Registry::default();
    let (mut a, mut b) = (Node::start(1, "a", at(0)), Node::start(2, "b", at(0)));
    a.beat(&mut registry, at(0), Fate::Answered);
    b.beat(&mut registry, at(0), Fate::Answered);
    assert!(a.coordinates(at(0)) && b.coordinates(at(0)));
    assert_eq!(
        a.membership.nodes().len(),
        1,
        "it asked before the other came"
    );
    a.beat(&mut registry, at(2_000), Fate::Answered);
    assert_eq!(a.membership.nodes().len(), 2);
}

#[test]
fn a_successor_waits_a_dead_nodes_row_out() {
    let mut registry = Registry::default();
    let mut old = Node::start(1, "old", at(0));
    old.beat(&mut registry, at(0), Fate::Answered);
    let mut new = Node::start(1, "new", at(1_000));
    for ms in (1_000..=9_000).step_by(2_000) {
        new.beat(&mut registry, at(ms), Fate::Answered);
        assert_eq!(new.membership.standing(at(ms)), Standing::Claiming, "{ms}");
    }
    new.beat(&mut registry, at(11_000), Fate::Answered);
    assert!(new.coordinates(at(11_000)), "the row has expired");
}

#[test]
fn a_row_that_never_expires_is_taken_over_when_nobody_moves_it() {
    let mut node = Node::start(1, "new", at(0));
    let theirs = |version| {
        let lost = Lost::Row {
            version,
            incarnation: Some("old".into()),
        };
        Answer::Heartbeat(Claimed::Lost(lost), BTreeMap::new())
    };
    for ms in (0..12_000).step_by(2_000) {
        let call = node.membership.poll(at(ms));
        assert_eq!(call, Some(Call::Heartbeat(Write::Fresh)), "{ms}");
        node.membership.answered(at(ms), theirs(7)).unwrap();
    }
    let call = node.membership.poll(at(12_000));
    assert_eq!(call, Some(Call::Heartbeat(Write::Over(7))));
}

#[test]
fn a_second_live_node_of_one_number_refuses_to_start() {
    let mut registry = Registry::default();
    let mut first = Node::start(3, "first", at(0));
    let mut second = Node::start(3, "second", at(500));
    first.beat(&mut registry, at(0), Fate::Answered);
    second.beat(&mut registry, at(500), Fate::Answered);
    first.beat(&mut registry, at(2_000), Fate::Answered);
    let call = second.membership.poll(at(2_500)).unwrap();
    let answer = registry.call(second.id, &second.row, call, at(2_500));
    let error = second.membership.answered(at(2_500), answer).unwrap_err();
    assert_eq!((error.id, error.from, error.to), (3, 1, 2));
    assert!(error.to_string().starts_with("node id 3 is in use"));
}

#[test]
fn a_node_that_lost_its_number_is_latched_and_goes_on_looking() {
    let mut registry = Registry::default();
    let mut node = Node::start(1, "a", at(0));
    node.beat(&mut registry, at(0), Fate::Answered);
    let thief = Node::start(1, "b", at(0));
    registry.rows.insert(NodeId(1), (99, thief.row, at(60_000)));
    node.beat(&mut registry, at(2_000), Fate::Answered);
    assert_eq!(node.membership.standing(at(2_000)), Standing::Latched);
    assert_eq!(
        node.membership.poll(at(4_000)),
        Some(Call::Heartbeat(Write::No))
    );
    assert_eq!(node.membership.release(), None, "not ours to delete");
}

#[test]
fn a_lost_answer_is_recognised_as_our_own_write() {
    let mut registry = Registry::default();
    let mut node = Node::start(1, "a", at(0));
    node.beat(&mut registry, at(0), Fate::AnswerLost);
    node.beat(&mut registry, at(2_000), Fate::Answered);
    // When that write was made it cannot know: it coordinates from the next on, made at once.
    assert!(!node.coordinates(at(2_000)));
    node.beat(&mut registry, at(2_000), Fate::Answered);
    assert!(node.coordinates(at(2_000)));
    node.beat(&mut registry, at(4_000), Fate::AnswerLost);
    node.beat(&mut registry, at(6_000), Fate::Answered);
    node.beat(&mut registry, at(8_000), Fate::Answered);
    assert!(node.coordinates(at(8_000)));
    assert!(matches!(node.membership.release(), Some(Call::Release(_))));
    assert_eq!(node.membership.standing(at(8_000)), Standing::Released);
    assert_eq!(node.membership.poll(at(99_000)), None);
}

#[test]
fn without_an_answer_the_view_grows_blind_after_one_ttl_and_comes_back() {
    let mut registry = Registry::default();
    let mut node = Node::start(1, "a", at(0));
    node.beat(&mut registry, at(0), Fate::Answered);
    for ms in (2_000..12_000).step_by(2_000) {
        node.beat(&mut registry, at(ms), Fate::Unreachable);
    }
    assert!(node.coordinates(at(9_999)));
    assert_eq!(node.membership.standing(at(10_000)), Standing::Blind);
    assert_eq!(node.membership.nodes().len(), 1, "the last view stays");
    // Its row has expired meanwhile: the write over it loses, and a fresh one follows at once.
    node.beat(&mut registry, at(14_000), Fate::Answered);
    node.beat(&mut registry, at(14_000), Fate::Answered);
    assert!(node.coordinates(at(14_000)));
}

#[derive(Clone, Debug)]
enum Event {
    /// A node's turn, if it is due: which, and what becomes of its call.
    Beat(usize, Fate),
    /// Time passes.
    Pass(u64),
    /// Another life of number 1 starts.
    Start,
    /// A node stops in order.
    Release(usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let fate = prop_oneof![
        6 => Just(Fate::Answered),
        1 => Just(Fate::AnswerLost),
        2 => Just(Fate::Unreachable),
    ];
    let event = prop_oneof![
        8 => (0..4_usize, fate).prop_map(|(node, fate)| Event::Beat(node, fate)),
        6 => (100..3_000_u64).prop_map(Event::Pass),
        1 => (9_000..30_000_u64).prop_map(Event::Pass),
        1 => Just(Event::Start),
        1 => (0..4_usize).prop_map(Event::Release),
    ];
    proptest::collection::vec(event, 1..150)
}

proptest! {
    /// Whatever is lost or frozen, two lives of one number never coordinate at one time.
    #[test]
    fn a_number_is_coordinated_by_one_life_at_a_time(events in events()) {
        let (mut registry, mut now) = (Registry::default(), 0);
        let mut nodes = vec![Node::start(1, "0", at(0))];
        for event in events {
            match event {
                Event::Beat(node, fate) => {
                    if let Some(node) = nodes.get_mut(node) && !node.dead {
                        node.beat(&mut registry, at(now), fate);
                    }
                }
                Event::Pass(ms) => now += ms,
                Event::Start if nodes.len() < 4 => {
                    let life = nodes.len().to_string();
                    nodes.push(Node::start(1, &life, at(now)));
                }
                Event::Start => {}
                Event::Release(node) => {
                    if let Some(node) = nodes.get_mut(node)
                        && let Some(call) = node.membership.release()
                    {
                        registry.call(node.id, &node.row, call, at(now));
                    }
                }
            }
            let coordinating = nodes.iter().filter(|node| node.coordinates(at(now))).count();
            prop_assert!(coordinating <= 1, "{coordinating} lives at {now} ms");
        }
    }
}
