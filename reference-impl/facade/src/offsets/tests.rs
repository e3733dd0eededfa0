//! Offsets over a scripted Queen. Time is paused: it moves when everybody waits.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use host::Host;
use host::shutdown::{Trigger, shutdown};
use rstest::rstest;
use serde_json::{Value, json};

mod commits;
mod deletions;
mod failures;
mod fenced;
mod late;
mod reads;

use super::*;
use crate::queen::kv::{MAX_KEYS, MAX_OPERATIONS};
use crate::queen::{Class, Credential, Scope};
use crate::scripted_queen::{Fault, ScriptedQueen, test_host};

struct World {
    queen: ScriptedQueen,
    host: Host,
    offsets: Offsets,
    registry: Registry,
    stop: Trigger,
}

impl World {
    fn new() -> Self {
        Self::over(ScriptedQueen::start())
    }

    /// A fresh process in front of the same Queen.
    fn over(queen: ScriptedQueen) -> Self {
        let host = test_host();
        let registry = Registry::default();
        let (stop, shutdown) = shutdown();
        let offsets = Offsets::new(&host, queen.client(&host), shutdown, &registry);
        Self {
            queen,
            host,
            offsets,
            registry,
            stop,
        }
    }

    fn calls(&self) -> usize {
        self.queen.calls("kv").len()
    }

    fn stored(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        let key = key(group, topic, partition);
        let rows = self.queen.rows(key.as_str());
        rows.iter().find(|(k, _)| k == key.as_str())?.1["offset"].as_i64()
    }

    /// A commit of partition 0.. of topic `t`, at these offsets.
    fn commit(&self, group: &str, offsets: &[i64]) -> Receipt {
        self.offsets.commit(commit(tenant("token"), group, offsets))
    }
}

fn tenant(token: &str) -> Tenant {
    Tenant {
        scope: Scope::new("scope"),
        credential: Credential {
            bearer: Some(host::Secret::new(token.to_owned())),
            host: None,
        },
    }
}

fn key(group: &str, topic: &str, partition: i32) -> OffsetKey {
    OffsetKey::new(group, topic, partition).unwrap()
}

fn row(offset: i64) -> OffsetRow {
    OffsetRow {
        offset,
        metadata: Some("m".into()),
        ts: 1,
    }
}

fn commit(tenant: Tenant, group: &str, offsets: &[i64]) -> Commit {
    let change = |(partition, &offset): (usize, &i64)| {
        (key(group, "t", partition as i32), Change::Put(row(offset)))
    };
    Commit {
        tenant,
        group: group.into(),
        protocol_type: "consumer".into(),
        changes: offsets.iter().enumerate().map(change).collect(),
    }
}

fn all_written(verdicts: &Verdicts) -> bool {
    verdicts.iter().all(Result::is_ok)
}

/// The operations of call `n`.
fn operations(world: &World, n: usize) -> Vec<Value> {
    world.queen.calls("kv")[n].body["operations"]
        .as_array()
        .unwrap()
        .clone()
}
