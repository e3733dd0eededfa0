//! The registry's rows and calls (contract sections 7.9 and 9.4).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coordinator::cluster::{Answer, Call, Claimed, Lost, NodeId, Row, Write};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Inner;
use crate::config::is_tellable;
use crate::queen::kv::{Batch, Expect, Expiry, Loss, OnLoss, OpResult, Outcome, Version};
use crate::queen::{Error, Repeat};

/// How long a stop waits for its row to be deleted.
pub const RELEASE_BUDGET: Duration = Duration::from_secs(2);
/// Node ids are 1 to 64.
const MAX_NODES: i32 = 64;

/// A node's row. Others write fields of their own beside these.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    node_id: i32,
    host: String,
    port: u16,
    /// Any JSON: other implementations choose their own.
    incarnation: Value,
    #[serde(default)]
    since: i64,
    #[serde(default)]
    version: String,
    /// Ours: it serves transactions over several nodes.
    #[serde(default)]
    transactions: bool,
}

/// How an incarnation is compared.
fn life(incarnation: &Value) -> Arc<str> {
    match incarnation {
        Value::String(text) => text.as_str().into(),
        other => other.to_string().into(),
    }
}

fn prefix(cluster: &str) -> String {
    format!("qk:node:{cluster}:")
}

/// Makes `call`.
pub(super) async fn call(cluster: &Inner, call: Call) -> Answer {
    cluster.metrics.calls.inc();
    match made(cluster, call).await {
        Ok(answer) => {
            cluster.reached(None);
            answer
        }
        Err(error) => {
            cluster.metrics.failed.inc();
            cluster.reached(Some(&error));
            tracing::debug!(%error, "the registry gave no answer");
            Answer::Unreachable
        }
    }
}

async fn made(cluster: &Inner, call: Call) -> Result<Answer, Error> {
    let prefix = prefix(&cluster.name);
    let key = format!("{prefix}{}", cluster.me.id.0);
    let mut batch = Batch::new();
    let unsendable = |_| Error::Unsendable("a registry row that Queen would refuse");
    let write = match call {
        Call::Release(version) => {
            let expect = Expect::Version(Version::new(version));
            batch
                .delete(&key, expect, OnLoss::Skip)
                .map_err(unsendable)?;
            run(cluster, &batch).await?;
            return Ok(Answer::Unreachable);
        }
        Call::Heartbeat(write) => write,
    };
    let expect = match write {
        Write::Fresh => Some(Expect::Absent),
        Write::Over(version) => Some(Expect::Version(Version::new(version))),
        Write::No => None,
    };
    if let Some(expect) = expect {
        let row = Stored {
            node_id: cluster.me.id.0,
            host: cluster.me.host.to_string(),
            port: cluster.me.port,
            incarnation: Value::String(cluster.incarnation.to_string()),
            since: cluster.since_ms,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            transactions: cluster.serves_transactions,
        };
        let expiry = Expiry::After(cluster.settings.ttl);
        batch
            .put(&key, &row, expiry, expect, OnLoss::Skip)
            .map_err(unsendable)?;
    }
    // By their names, not by what they begin with: whatever else is written there hides no node.
    let keys: Vec<String> = (1..=MAX_NODES).map(|id| format!("{prefix}{id}")).collect();
    batch.get_many(&keys).map_err(unsendable)?;
    let mut results = run(cluster, &batch).await?.into_iter();
    let claimed = match expect.and_then(|_| results.next()) {
        None => Claimed::NotAsked,
        Some(OpResult::Applied(version)) => Claimed::Applied(version.number()),
        Some(OpResult::Lost(Loss::Absent, _)) => Claimed::Lost(Lost::Absent),
        Some(OpResult::Lost(_, winner)) => match winner.version {
            None => Claimed::Lost(Lost::Absent),
            Some(version) => Claimed::Lost(Lost::Row {
                version: version.number(),
                incarnation: winner.value::<Stored>().map(|row| life(&row.incarnation)),
            }),
        },
        Some(_) => return Err(Error::Unreadable("a write answered with rows".into())),
    };
    let Some(OpResult::Rows {
        mut rows, unread, ..
    }) = results.next()
    else {
        return Err(Error::Unreadable("keys answered without rows".into()));
    };
    if !unread.is_empty() {
        // Rows too large for one answer: a few calls more, each with fewer of them.
        let mut more = cluster.queen.kv_read(&cluster.credential, &unread).await?;
        rows.append(&mut more.rows);
        if !more.unread.is_empty() {
            return Err(Error::Unreadable("rows of nodes were left out".into()));
        }
    }
    let rows = rows.iter().filter_map(|row| {
        // An object: an array would be taken for the fields in their order here.
        let fields = row.value::<Map<String, Value>>().ok()?;
        let stored = serde_json::from_value(Value::Object(fields)).ok()?;
        read(&prefix, &row.key, stored)
    });
    Ok(Answer::Heartbeat(claimed, rows.collect::<BTreeMap<_, _>>()))
}

/// A row that says what its key says, of a node that clients can be told of; others are nobody's.
fn read(prefix: &str, key: &str, stored: Stored) -> Option<(NodeId, Row)> {
    let id: i32 = key.strip_prefix(prefix)?.parse().ok()?;
    let is_legal = id == stored.node_id && (1..=MAX_NODES).contains(&id);
    let is_reachable = is_tellable(&stored.host) && stored.port > 0;
    (is_legal && is_reachable).then(|| {
        let row = Row {
            host: stored.host.into(),
            port: stored.port,
            incarnation: life(&stored.incarnation),
            serves_transactions: stored.transactions,
        };
        (NodeId(id), row)
    })
}

async fn run(cluster: &Inner, batch: &Batch) -> Result<Vec<OpResult>, Error> {
    // A repetition meets its own row, which the membership recognises by its incarnation.
    match cluster
        .queen
        .kv(&cluster.credential, batch, Repeat::Safe)
        .await?
    {
        Outcome::Done(results) => Ok(results),
        Outcome::Precondition(_) => Err(Error::Unreadable("rolled back unasked".into())),
    }
}
