//! Offsets of a cluster's nodes: whose view is stale writes nothing.

use std::collections::BTreeSet;
use std::sync::Mutex;

use super::*;
use crate::queen::kv::escape;

/// A node that owns what the test says.
#[derive(Debug)]
struct Node {
    number: i32,
    owned: Mutex<BTreeSet<&'static str>>,
}

impl Fencing for Node {
    fn node(&self) -> i32 {
        self.number
    }

    fn incarnation(&self) -> &str {
        "life"
    }

    fn owns(&self, group: &str) -> bool {
        self.owned.lock().expect("whole").contains(group)
    }
}

struct Fenced {
    world: World,
    node: Arc<Node>,
}

impl Fenced {
    fn new(number: i32, queen: ScriptedQueen, owned: &[&'static str]) -> Self {
        let node = Arc::new(Node {
            number,
            owned: Mutex::new(owned.iter().copied().collect()),
        });
        let host = test_host();
        let registry = Registry::default();
        let (stop, shutdown) = shutdown();
        let client = queen.client(&host);
        let fencing = Arc::clone(&node) as Arc<dyn Fencing>;
        let offsets = Offsets::over(&host, client, shutdown, &registry, Some(fencing));
        let world = World {
            queen,
            host,
            offsets,
            registry,
            stop,
        };
        Self { world, node }
    }

    async fn commit(&self, group: &str, offsets: &[i64]) -> Verdicts {
        self.world.commit(group, offsets).verdicts().await
    }

    fn fence(&self, group: &str) -> Value {
        let key = format!("qk:fence:{}", escape(group));
        let rows = self.world.queen.rows(&key);
        rows.into_iter()
            .find(|(k, _)| *k == key)
            .map_or(Value::Null, |(_, row)| row)
    }
}

fn is_not_owner(verdicts: &Verdicts) -> bool {
    verdicts
        .iter()
        .all(|verdict| matches!(verdict, Err(WriteError::NotOwner)))
}

#[tokio::test(start_paused = true)]
async fn each_call_writes_the_fence_and_holds_it() {
    let node = Fenced::new(1, ScriptedQueen::start(), &["g"]);
    assert!(node.commit("g", &[5, 6]).await.iter().all(Result::is_ok));
    let fence = node.fence("g");
    assert_eq!(
        (&fence["node"], &fence["incarnation"]),
        (&json!(1), &json!("life"))
    );
    assert!(node.commit("g", &[7]).await.iter().all(Result::is_ok));
    assert_eq!(node.world.stored("g", "t", 0), Some(7));
    assert_eq!(
        node.world.calls(),
        2,
        "a held fence costs no call of its own"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stale_owner_writes_nothing_and_the_new_one_follows() {
    let queen = ScriptedQueen::start();
    let old = Fenced::new(1, queen.clone(), &["g"]);
    let new = Fenced::new(2, queen, &["g"]);
    assert!(old.commit("g", &[50]).await[0].is_ok());
    // Both believe that they own it: the owner by rendezvous takes the fence over once.
    old.node.owned.lock().unwrap().clear();
    assert!(new.commit("g", &[60]).await[0].is_ok());
    assert!(is_not_owner(&old.commit("g", &[16]).await));
    assert_eq!(
        new.world.stored("g", "t", 0),
        Some(60),
        "never 16 on top of 60"
    );
    assert!(new.commit("g", &[61]).await[0].is_ok());
}

#[tokio::test(start_paused = true)]
async fn another_group_of_the_same_call_is_written() {
    let queen = ScriptedQueen::start();
    let ours = Fenced::new(1, queen.clone(), &["mine"]);
    let theirs = Fenced::new(2, queen, &["yours"]);
    assert!(theirs.commit("yours", &[9]).await[0].is_ok());
    let (mine, yours) = tokio::join!(ours.commit("mine", &[1]), ours.commit("yours", &[2]));
    assert!(mine[0].is_ok() && is_not_owner(&yours));
    assert_eq!(ours.world.stored("mine", "t", 0), Some(1));
    assert_eq!(ours.world.stored("yours", "t", 0), Some(9));
}

#[tokio::test(start_paused = true)]
async fn our_own_fence_behind_a_lost_answer_is_recognised() {
    let node = Fenced::new(1, ScriptedQueen::start(), &[]);
    assert!(node.commit("g", &[1]).await[0].is_ok());
    node.world.queen.script("kv", [Fault::LostAfter]);
    let _unknown = node.commit("g", &[2]).await;
    assert!(node.commit("g", &[3]).await[0].is_ok());
    assert_eq!(node.world.stored("g", "t", 0), Some(3));
}

#[tokio::test(start_paused = true)]
async fn a_commit_of_more_rows_than_a_call_is_fenced_in_each() {
    let node = Fenced::new(1, ScriptedQueen::start(), &["g"]);
    let offsets: Vec<i64> = (0..600).collect();
    assert!(node.commit("g", &offsets).await.iter().all(Result::is_ok));
    assert_eq!(node.world.stored("g", "t", 599), Some(599));
    assert!(node.world.calls() >= 3);
    for call in 0..node.world.calls() {
        let operations = operations(&node.world, call);
        assert!(operations.len() <= MAX_OPERATIONS);
        let fences = operations.iter().filter(|op| op["required"] == true);
        assert_eq!(fences.count(), 1, "{}", operations[0]);
    }
}
