//! Several nodes: any of them stages, the owner of the id ends, and it may be another one each time.

use coordinator::cluster::rendezvous::Item;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::*;
use crate::cluster::{HEARTBEAT, TTL, three_with};

/// Three nodes of a cluster and topic `t`.
struct Nodes {
    rigs: Vec<Rig>,
    lives: Vec<JoinHandle<()>>,
}

impl Nodes {
    async fn new() -> Self {
        let (rigs, lives) = three_with(staged(QUEEN)).await;
        rigs[0].native_queue("t", json!({})).await;
        Self { rigs, lives }
    }

    fn index(&self, item: Item<'_>) -> usize {
        let owner = self.rigs[0].node.view().owner(item).id.0;
        usize::try_from(owner).expect("a number") - 1
    }

    /// The owner of `tx`, and the two others.
    fn of_tx(&self) -> (&Rig, &Rig, &Rig) {
        let at = self.index(Item::Transaction("tx"));
        let other = |n: usize| &self.rigs[(at + n) % 3];
        (other(0), other(1), other(2))
    }

    fn owner_of(&self, group: &str) -> &Rig {
        &self.rigs[self.index(Item::Group(group))]
    }
}

#[tokio::test(start_paused = true)]
async fn batches_of_a_partition_come_through_several_nodes_and_land_in_order() {
    let nodes = Nodes::new().await;
    let (owner, one, other) = nodes.of_tx();
    let mut producer = Producer::new(owner, "tx").await;
    for _ in 0..2 {
        assert_eq!(producer.add(owner, &[0]).await, [ErrorCode::None]);
        let first = producer.batch(0, &["a", "b"]);
        *producer.sequences.entry(0).or_default() += 2;
        let second = producer.batch(0, &["c"]);
        *producer.sequences.entry(0).or_default() += 1;
        // Leadership moved while both were in flight, and the first one's answer was lost.
        for (rig, batch) in [(other, &second), (one, &first), (other, &first)] {
            let staged = producer.resend(rig, 0, batch.clone()).await;
            assert_eq!(staged, (ErrorCode::None, -1));
        }
        producer.produce(owner, 1, &["d"]).await;
        assert_eq!(producer.commit(one).await, ErrorCode::NotCoordinator);
        assert_eq!(producer.commit(owner).await, ErrorCode::None);
    }
    assert_eq!(values(one, 0).await, ["a", "b", "c", "a", "b", "c"]);
    assert_eq!(values(one, 1).await, ["d", "d"]);
}

#[tokio::test(start_paused = true)]
async fn a_commit_takes_what_other_nodes_staged_and_the_owner_never_saw() {
    let nodes = Nodes::new().await;
    let (owner, one, other) = nodes.of_tx();
    let mut producer = Producer::new(owner, "tx").await;
    producer.v2 = true;
    for round in 0..3 {
        producer.produce(one, 0, &["a"]).await;
        producer.produce(other, 1, &["b"]).await;
        let staged = producer.offsets(nodes.owner_of("g"), "g", 1, round).await;
        assert_eq!(staged, [ErrorCode::None]);
        assert_eq!(producer.commit(owner).await, ErrorCode::None);
        assert_eq!(committed(other, "g", 1).await, Ok(vec![round]));
    }
    assert_eq!(values(owner, 0).await, ["a"; 3]);
    assert_eq!(values(owner, 1).await, ["b"; 3]);
    producer.produce(one, 0, &["never"]).await;
    assert_eq!(producer.abort(owner).await, ErrorCode::None);
    producer.produce(one, 1, &["c"]).await;
    assert_eq!(producer.commit(owner).await, ErrorCode::None);
    assert_eq!(values(owner, 0).await, ["a"; 3]);
    assert_eq!(values(owner, 1).await, ["b", "b", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn an_offset_that_waits_is_unstable_at_every_node_until_its_transaction_ends() {
    let nodes = Nodes::new().await;
    let (owner, _, _) = nodes.of_tx();
    let mut producer = Producer::new(owner, "tx").await;
    let (waits, none) = ((-1, ErrorCode::UnstableOffsetCommit), (-1, ErrorCode::None));
    for (commits, then) in [(false, none), (true, (7, ErrorCode::None))] {
        assert_eq!(producer.add_offsets(owner, "g").await, ErrorCode::None);
        let group = nodes.owner_of("g");
        assert_eq!(producer.offsets(group, "g", 1, 7).await, [ErrorCode::None]);
        for rig in &nodes.rigs {
            let told = offsets_told(rig, "g", 2, true).await;
            assert_eq!(told, Ok(vec![waits, none]));
            let told = offsets_told(rig, "other", 1, true).await;
            assert_eq!(told, Ok(vec![none]));
        }
        assert_eq!(producer.end(owner, commits).await, ErrorCode::None);
        for rig in &nodes.rigs {
            let told = offsets_told(rig, "g", 2, true).await;
            assert_eq!(told, Ok(vec![then, none]));
        }
    }
    assert_eq!(
        owner.rows("qk:txnpend:").await,
        [],
        "the commit took it along"
    );
}

#[tokio::test(start_paused = true)]
async fn a_group_takes_offsets_of_a_transaction_at_its_owner_only() {
    let nodes = Nodes::new().await;
    let (owner, ..) = nodes.of_tx();
    let producer = Producer::new(owner, "tx").await;
    producer.add_offsets(owner, "g").await;
    let at = nodes.index(Item::Group("g"));
    for (n, rig) in nodes.rigs.iter().enumerate() {
        let expected = match n == at {
            true => ErrorCode::None,
            false => ErrorCode::NotCoordinator,
        };
        assert_eq!(producer.offsets(rig, "g", 1, 7).await, [expected]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_elsewhere_takes_offsets_of_the_living_producer_only() {
    let nodes = Nodes::new().await;
    let (owner, one, _) = nodes.of_tx();
    // A group that the coordinator of the id does not own: only the marker can tell who lives.
    let group = (0..)
        .map(|n| format!("g{n}"))
        .find(|group| std::ptr::eq(nodes.owner_of(group), one))
        .expect("a group of every node");
    let old = Producer::new(owner, "tx").await;
    let mut new = old.clone();
    assert_eq!(new.init(owner).await, ErrorCode::None);
    let mut stranger = new.clone();
    stranger.pid += 1;
    for v2 in [false, true] {
        let judged = async |mut producer: Producer| {
            producer.v2 = v2;
            producer.offsets(one, &group, 1, 7).await
        };
        let fenced = [ErrorCode::InvalidProducerEpoch];
        assert_eq!(judged(old.clone()).await, fenced, "v2: {v2}");
        let unknown = [ErrorCode::InvalidProducerIdMapping];
        assert_eq!(judged(stranger.clone()).await, unknown, "v2: {v2}");
        assert_eq!(judged(new.clone()).await, [ErrorCode::None], "v2: {v2}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_dies_is_followed_in_every_phase() {
    let nodes = Nodes::new().await;
    let at = nodes.index(Item::Transaction("tx"));
    let (owner, one, other) = nodes.of_tx();
    let mut producer = Producer::new(owner, "tx").await;
    producer.produce(owner, 0, &["a"]).await;
    let staged = (ErrorCode::None, -1);
    assert_eq!(producer.send(one, 0, &["b"]).await, staged);
    nodes.lives[at].abort();
    sleep(TTL + 2 * HEARTBEAT).await;
    let owned = one.node.view().owner(Item::Transaction("tx")).id;
    let next = if one.node.node_id == owned {
        one
    } else {
        other
    };
    producer.produce(next, 0, &["c"]).await;
    assert_eq!(producer.commit(next).await, ErrorCode::None);
    // Its answer was lost.
    assert_eq!(producer.commit(next).await, ErrorCode::None);
    assert_eq!(values(one, 0).await, ["a", "b", "c"]);
    // The old one doesn't know that it is dead: it coordinates nothing, and what it stages is
    // judged by the marker as everybody's.
    assert_eq!(
        producer.commit(owner).await,
        ErrorCode::CoordinatorNotAvailable
    );
    let old = producer.clone();
    assert_eq!(producer.init(next).await, ErrorCode::None);
    let late = old.resend(owner, 0, old.batch(0, &["late"])).await.0;
    assert_eq!(late, ErrorCode::InvalidProducerEpoch);
    assert_eq!(producer.add(next, &[1]).await, [ErrorCode::None]);
    assert_eq!(producer.send(owner, 1, &["d"]).await, staged);
    assert_eq!(producer.commit(next).await, ErrorCode::None);
    assert_eq!(values(one, 0).await, ["a", "b", "c"]);
    assert_eq!(values(one, 1).await, ["d"]);
}

#[tokio::test(start_paused = true)]
async fn offsets_don_t_wait_for_ever_for_a_producer_that_is_gone() {
    let nodes = Nodes::new().await;
    let (owner, ..) = nodes.of_tx();
    let mut producer = Producer::new(owner, "tx").await;
    producer.v2 = true;
    let group = nodes.owner_of("g");
    assert_eq!(producer.offsets(group, "g", 1, 7).await, [ErrorCode::None]);
    sleep(Duration::from_secs(61)).await;
    let told = offsets_told(group, "g", 1, true).await;
    assert_eq!(told, Ok(vec![(-1, ErrorCode::UnstableOffsetCommit)]));
    sleep(Duration::from_secs(1)).await;
    let told = offsets_told(group, "g", 1, true).await;
    assert_eq!(told, Ok(vec![(-1, ErrorCode::None)]), "its time was over");
    assert_eq!(producer.commit(owner).await, ErrorCode::ProducerFenced);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_serves_none_makes_the_cluster_serve_none() {
    let nodes = Nodes::new().await;
    let (owner, one, _) = nodes.of_tx();
    let mut producer = Producer::new(owner, "tx").await;
    let foreign = json!({"nodeId": 9, "host": "h", "port": 1, "incarnation": 1});
    one.put_row("qk:node:queen:9", &foreign).await;
    sleep(2 * HEARTBEAT).await;
    let refused = ErrorCode::TransactionalIdAuthorizationFailed;
    assert_eq!(producer.init(owner).await, refused);
    let request = typed::FindCoordinatorRequest::default()
        .with_key(text("tx"))
        .with_key_type(1);
    let found = handlers::find_coordinator::handle(&one.cx(3), request).await;
    assert_eq!(code(found.error_code), refused);
}
