//! What the page shows, gathered under the state's lock: one screenful of each list.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::engine::native::state::backlog;
use crate::engine::state::{Queue, Tenant};
use crate::routes::Call;
use crate::routes::groups::{Kind, positions_without_ages};
use crate::time;

/// Rows of a list on one page.
pub const PAGE_ROWS: usize = 50;

/// Longest queue name, namespace or key, in bytes: 255 characters of four.
const MAX_NAME_BYTES: usize = 1020;

/// Which screenful of each list; from the query.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Queues behind so many.
    pub queues_from: usize,
    /// The queue whose lanes are shown.
    pub queue: Option<String>,
    /// Lanes behind so many.
    pub lanes_from: usize,
    /// Groups behind so many.
    pub groups_from: usize,
    /// The namespace whose rows are shown.
    pub namespace: Option<String>,
    /// Rows behind this key.
    pub keys_after: Option<String>,
}

impl Asked {
    /// Reads a query; what it doesn't say is the first screenful.
    pub fn of(call: &Call<'_>) -> Self {
        let number = |name| {
            call.parameter(name)
                .and_then(|text| text.parse().ok())
                .unwrap_or(0)
        };
        // Every link repeats what is chosen: longer than any name is nobody's.
        let name = |name| {
            call.parameter(name)
                .filter(|text| text.len() <= MAX_NAME_BYTES)
        };
        Self {
            queues_from: number("queues"),
            queue: name("queue"),
            lanes_from: number("lanes"),
            groups_from: number("groups"),
            namespace: name("ns"),
            keys_after: name("keys"),
        }
    }
}

/// A screenful of rows, and whether more follow.
#[derive(Debug)]
pub struct Rows<T> {
    pub rows: Vec<T>,
    pub total: usize,
    pub more: bool,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            total: 0,
            more: false,
        }
    }
}

/// Everything on the page.
#[derive(Debug, Default)]
pub struct View {
    pub version: &'static str,
    pub storage: String,
    pub healthy: bool,
    pub now: String,
    pub records: u64,
    pub bytes: u64,
    pub lanes_total: u64,
    pub kv_rows: u64,
    pub kv_bytes: u64,
    pub queues: Rows<QueueLine>,
    pub queue: Option<String>,
    pub lanes: Rows<LaneLine>,
    pub groups: Rows<GroupLine>,
    pub namespaces: Vec<(String, usize)>,
    pub namespace: Option<String>,
    pub keys: Rows<KvLine>,
}

#[derive(Debug)]
pub struct QueueLine {
    pub name: String,
    pub lanes: usize,
    pub records: u64,
    pub pending: u64,
    pub processing: u64,
    pub bytes: u64,
    pub dead_letters: usize,
    pub created: String,
}

#[derive(Debug)]
pub struct LaneLine {
    pub name: String,
    pub log_start: i64,
    pub high_watermark: i64,
    pub segments: u64,
    pub bytes: u64,
    pub last_append: String,
}

#[derive(Clone, Debug)]
pub struct GroupLine {
    pub name: String,
    pub kind: Kind,
    pub queue: String,
    pub lanes: usize,
    pub lagging: usize,
    pub lag: u64,
    pub leased: usize,
}

#[derive(Debug)]
pub struct KvLine {
    pub key: String,
    pub value: String,
    pub version: u64,
    pub updated: String,
    pub expires: Option<String>,
}

impl View {
    /// Looks.
    pub fn gather(call: &Call<'_>, asked: &Asked) -> Self {
        let node = call.node;
        let now_ms = node.host.clock.wall().epoch_ms();
        let groups = groups(call, asked);
        let shared = &node.engine.shared;
        let state = shared.read();
        let mut view = Self {
            version: node.options.version.text(),
            storage: node.storage.clone(),
            healthy: !shared.is_broken(),
            now: time::millis_string(now_ms),
            groups,
            ..Self::default()
        };
        let Some(tenant) = state.tenant(call.tenant) else {
            return view;
        };
        for queue in tenant.queues.values() {
            view.records += queue.totals.messages;
            view.bytes += queue.totals.bytes;
            view.lanes_total += queue.lanes.len() as u64;
        }
        view.kv_rows = tenant.kv_rows;
        view.kv_bytes = tenant.kv_bytes;
        let queues = newest_first(tenant);
        view.queues = Rows {
            total: queues.len(),
            more: queues.len() > asked.queues_from.saturating_add(PAGE_ROWS),
            rows: queues
                .iter()
                .skip(asked.queues_from)
                .take(PAGE_ROWS)
                .map(|queue| queue_line(queue, now_ms))
                .collect(),
        };
        let chosen = match &asked.queue {
            Some(name) => tenant.queues.get(name.as_str()),
            None => queues.get(asked.queues_from).copied(),
        };
        if let Some(queue) = chosen {
            view.queue = Some(queue.row.name.to_string());
            view.lanes = lanes(queue, asked);
        }
        view.namespaces = tenant
            .kv
            .iter()
            .take(PAGE_ROWS)
            .map(|(name, rows)| (name.to_string(), rows.len()))
            .collect();
        view.namespace = asked
            .namespace
            .clone()
            .or_else(|| tenant.kv.keys().next().map(ToString::to_string));
        view.keys = keys(tenant, view.namespace.as_deref(), asked, now_ms);
        view
    }
}

fn newest_first(tenant: &Tenant) -> Vec<&Queue> {
    let mut queues: Vec<&Queue> = tenant.queues.values().collect();
    queues.sort_by_key(|queue| std::cmp::Reverse((queue.row.created_ms, queue.row.seq)));
    queues
}

fn queue_line(queue: &Queue, now_ms: i64) -> QueueLine {
    let backlog = backlog(queue, now_ms);
    let letters = queue
        .lanes
        .values()
        .map(|lane| lane.consumers.dead_letters.len());
    QueueLine {
        name: queue.row.name.to_string(),
        lanes: queue.lanes.len(),
        records: queue.totals.messages,
        pending: backlog.pending,
        processing: backlog.processing,
        bytes: queue.totals.bytes,
        dead_letters: letters.sum(),
        created: time::millis_string(queue.row.created_ms),
    }
}

fn lanes(queue: &Queue, asked: &Asked) -> Rows<LaneLine> {
    // In the order of their numbers, as Kafka's partitions are read; other names behind them.
    let mut names: Vec<(u64, &str)> = queue
        .lanes
        .keys()
        .map(|name| (name.parse().unwrap_or(u64::MAX), &**name))
        .collect();
    names.sort_unstable();
    let shown = names.iter().skip(asked.lanes_from).take(PAGE_ROWS);
    let rows = shown.filter_map(|(_, name)| {
        let row = &queue.lanes.get(*name)?.row;
        Some(LaneLine {
            // A lane's name may be long; what is shown is cut anyway.
            name: name.chars().take(super::html::SHOWN_CHARS + 1).collect(),
            log_start: row.log_start,
            high_watermark: row.high_watermark,
            segments: row.segments,
            bytes: row.bytes,
            last_append: time::millis_string(row.last_append_us / 1000),
        })
    });
    Rows {
        rows: rows.collect(),
        total: names.len(),
        more: names.len() > asked.lanes_from.saturating_add(PAGE_ROWS),
    }
}

fn groups(call: &Call<'_>, asked: &Asked) -> Rows<GroupLine> {
    let mut lines: BTreeMap<(String, Kind, String), GroupLine> = BTreeMap::new();
    for position in positions_without_ages(call) {
        let at = (
            position.group.clone(),
            position.kind,
            position.queue.clone(),
        );
        let line = lines.entry(at).or_insert_with(|| GroupLine {
            name: position.group,
            kind: position.kind,
            queue: position.queue,
            lanes: 0,
            lagging: 0,
            lag: 0,
            leased: 0,
        });
        line.lanes += 1;
        line.lagging += usize::from(position.lag > 0);
        line.lag += position.lag;
        line.leased += usize::from(position.lease_active);
    }
    Rows {
        total: lines.len(),
        more: lines.len() > asked.groups_from.saturating_add(PAGE_ROWS),
        rows: lines
            .into_values()
            .skip(asked.groups_from)
            .take(PAGE_ROWS)
            .collect(),
    }
}

fn keys(tenant: &Tenant, namespace: Option<&str>, asked: &Asked, now_ms: i64) -> Rows<KvLine> {
    let Some(rows) = namespace.and_then(|namespace| tenant.kv.get(namespace)) else {
        return Rows::default();
    };
    let after = match &asked.keys_after {
        Some(key) => Bound::Excluded(key.as_str()),
        None => Bound::Unbounded,
    };
    let mut live = rows
        .range::<str, _>((after, Bound::Unbounded))
        .filter(|(_, row)| row.is_live(now_ms));
    let lines: Vec<KvLine> = live
        .by_ref()
        .take(PAGE_ROWS)
        .map(|(key, row)| KvLine {
            key: key.to_string(),
            // What is shown is cut anyway; a value may be large.
            value: row
                .value
                .chars()
                .take(super::html::SHOWN_CHARS + 1)
                .collect(),
            version: row.version,
            updated: time::millis_string(row.updated_ms),
            expires: row.expires_ms.map(time::millis_string),
        })
        .collect();
    Rows {
        total: rows.len(),
        more: live.next().is_some(),
        rows: lines,
    }
}
