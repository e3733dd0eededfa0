//! The loop that keeps this node's row and view young.

use std::sync::Arc;

use coordinator::cluster::{Answer, DuplicateNode, Standing};
use tokio::time::{sleep, timeout};

use super::registry::{self, RELEASE_BUDGET};
use super::{Inner, View};

/// What is worth a line in the log when it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    standing: Standing,
    live: Vec<i32>,
    /// Another node that tells clients this node's own address.
    twin: Option<i32>,
}

pub(super) async fn claim(cluster: &Inner) -> Result<(), DuplicateNode> {
    loop {
        let reached = beat(cluster).await?;
        let now = cluster.clock.monotonic();
        let standing = cluster.membership().standing(now);
        if standing == Standing::Coordinating {
            return Ok(());
        }
        if !reached {
            tracing::error!(
                node_id = cluster.me.id.0,
                error = cluster.why(),
                "the registry cannot be reached: records are served, and every group is answered \
                 COORDINATOR_NOT_AVAILABLE until it can"
            );
            return Ok(());
        }
        if standing == Standing::Claiming {
            tracing::info!(
                node_id = cluster.me.id.0,
                "the registry holds a row of this node id: watching whether it is alive"
            );
        }
        wait(cluster).await;
    }
}

pub(super) async fn run(cluster: &Inner) -> Result<(), DuplicateNode> {
    let mut seen = look(cluster);
    if let Some(twin) = seen.twin {
        tell_twin(cluster, twin);
    }
    loop {
        wait(cluster).await;
        beat(cluster).await?;
        let now_seen = look(cluster);
        if now_seen != seen {
            tell(cluster, &seen, &now_seen);
            seen = now_seen;
        }
        if seen.standing == Standing::Released {
            return Ok(());
        }
    }
}

pub(super) async fn release(cluster: &Inner) {
    let call = cluster.membership().release();
    cluster.changed();
    if let Some(call) = call {
        // Late is only slower: the row expires by itself.
        let _ = timeout(RELEASE_BUDGET, registry::call(cluster, call)).await;
    }
}

/// Makes the call that is due; whether the registry answered it.
async fn beat(cluster: &Inner) -> Result<bool, DuplicateNode> {
    let called = cluster.clock.monotonic();
    let call = cluster.membership().poll(called);
    let Some(call) = call else {
        return Ok(true);
    };
    let answer = registry::call(cluster, call).await;
    let reached = answer != Answer::Unreachable;
    let result = cluster.membership().answered(called, answer);
    cluster.changed();
    result.map(|()| reached)
}

async fn wait(cluster: &Inner) {
    let due = cluster.membership().due();
    sleep(due - cluster.clock.monotonic()).await;
}

fn look(cluster: &Inner) -> Seen {
    let now = cluster.clock.monotonic();
    let membership = cluster.membership();
    let view = View::new(cluster.me.clone(), Some(Arc::clone(membership.nodes())));
    Seen {
        standing: membership.standing(now),
        live: membership.nodes().keys().map(|id| id.0).collect(),
        twin: view.twin().map(|id| id.0),
    }
}

fn tell_twin(cluster: &Inner, twin: i32) {
    tracing::error!(
        node_id = cluster.me.id.0, other_node_id = twin,
        host = %cluster.me.host, port = cluster.me.port,
        "another node of the cluster advertises this node's address: clients are sent in a circle; \
         set QUEEN_KAFKA_ADVERTISED_ADDR to an address of its own at each node"
    );
}

fn tell(cluster: &Inner, before: &Seen, after: &Seen) {
    if let Some(twin) = after.twin
        && before.twin != after.twin
    {
        tell_twin(cluster, twin);
    }
    let Seen { standing, live, .. } = after;
    match standing {
        Standing::Latched if before.standing != Standing::Latched => tracing::error!(
            "another process took this node's id: it serves records and coordinates no group \
             until it is restarted; give each facade an id of its own"
        ),
        Standing::Blind if before.standing != Standing::Blind => tracing::error!(
            error = cluster.why(),
            "the registry has not confirmed this node for one TTL: groups are answered \
             COORDINATOR_NOT_AVAILABLE until it does"
        ),
        _ => tracing::info!(?standing, ?live, "the cluster has changed"),
    }
}

impl Inner {
    /// Brings gauges up to date, and wakes whoever depends on the view.
    fn changed(&self) {
        let now = self.clock.monotonic();
        let (live, standing) = {
            let membership = self.membership();
            (membership.nodes().len(), membership.standing(now))
        };
        self.metrics.live.set(live as i64);
        let coordinating = standing == Standing::Coordinating;
        self.metrics.coordinating.set(i64::from(coordinating));
        self.changes.send_modify(|count| *count += 1);
    }
}
