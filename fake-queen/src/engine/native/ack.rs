//! Acknowledging: moves a cursor, charges failures, gives records up (contract section 4.10). An
//! ack names a record by its transaction id; every record below an acknowledged one is consumed
//! with it, but never past one that the same call says has failed.

use std::sync::Arc;

use indexmap::IndexMap;
use uuid::Uuid;

use super::resolve::{Question, Resolved, resolve};
use super::rows::{CursorRow, DeadLetterRow, LaneAt, Lease};
use crate::engine::Shared;
use crate::engine::batch::Batch;
use crate::engine::queue_options::QueueOptions;
use crate::ids::{self, TenantId};
use crate::store::StoreError;

/// What an ack says of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Give it up now. The first of two signals at one offset in this order counts.
    DeadLetter,
    /// It failed: charge the retry limit.
    Failed,
    /// Hand it out again, charging nothing.
    Retry,
    /// It is consumed.
    Completed,
}

impl Status {
    /// As callers spell it; what they misspell has failed.
    pub fn of(text: Option<&str>) -> Self {
        match text {
            None | Some("completed" | "success" | "acked" | "ok") => Self::Completed,
            Some("retry") => Self::Retry,
            Some("dlq") => Self::DeadLetter,
            Some(_) => Self::Failed,
        }
    }
}

/// One acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The record's transaction id.
    pub transaction_id: String,
    /// The lane's id, as it came.
    pub partition_id: String,
    /// The lease's id, as it came; empty for none.
    pub lease_id: String,
    /// Who.
    pub group: Arc<str>,
    /// What became of the record.
    pub status: Status,
    /// Why.
    pub error: Option<String>,
}

/// Why an ack did nothing. The text is part of the contract.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// The lane's id is none.
    #[error("invalid input syntax for type uuid: \"{0}\"")]
    BadPartition(String),
    /// The group never popped from the lane.
    #[error("consumer not found")]
    ConsumerNotFound,
    /// A lease was shown that isn't the live one.
    #[error("invalid or expired lease")]
    InvalidLease,
    /// A failure of what is consumed already.
    #[error("already committed: the cursor moved past this message before this ack")]
    AlreadyCommitted,
    /// No record that could be acknowledged has the id.
    #[error(
        "unresolvable: transaction not in the ack window (hash purged or never pushed); if leased, the message redelivers"
    )]
    Unresolvable,
}

/// What became of an ack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Why nothing.
    pub rejected: Option<Rejected>,
    /// The lane can be claimed again.
    pub lease_released: bool,
    /// The record was given up.
    pub dead_lettered: bool,
    /// It was consumed before.
    pub noop: bool,
    /// Records passed over because the group takes only the newest.
    pub conflated: Option<u64>,
}

/// Acks of one lane, lease and group, ready to be planned.
#[derive(Debug)]
pub struct Group {
    lane: Result<LaneAt, Rejected>,
    /// `None` for no lease shown; what isn't an id is no live lease either.
    lease: Option<Option<Uuid>>,
    group: Arc<str>,
    items: Vec<Item>,
}

#[derive(Debug)]
struct Item {
    transaction_id: Arc<str>,
    status: Status,
    error: Option<Arc<str>>,
    resolved: Option<Resolved>,
}

/// Groups acks and finds their records. The second part tells each ack's group and place there.
///
/// # Errors
/// The store.
pub async fn prepare(
    shared: &Arc<Shared>,
    tenant: TenantId,
    acks: &[Ack],
) -> Result<(Vec<Group>, Vec<(usize, usize)>), StoreError> {
    let mut by_target: IndexMap<(&str, &str, &str), Vec<usize>> = IndexMap::new();
    let mut places = Vec::with_capacity(acks.len());
    for (index, ack) in acks.iter().enumerate() {
        let target = (&*ack.partition_id, &*ack.lease_id, &*ack.group);
        let entry = by_target.entry(target);
        let at = entry.index();
        let indexes = entry.or_default();
        places.push((at, indexes.len()));
        indexes.push(index);
    }
    let mut groups = Vec::with_capacity(by_target.len());
    for ((partition_id, lease_id, group), indexes) in by_target {
        let group: Arc<str> = group.into();
        let lane = find(shared, tenant, partition_id, &group);
        let resolved = match &lane {
            Ok((at, cursor)) => {
                let question = Question {
                    at,
                    committed: cursor.committed,
                    batch_end: cursor.lease.map(|lease| lease.batch_end),
                    ids: indexes.iter().map(|i| &*acks[*i].transaction_id).collect(),
                };
                resolve(shared, &question).await?
            }
            Err(_) => vec![None; indexes.len()],
        };
        let items = indexes.iter().zip(resolved).map(|(index, resolved)| Item {
            transaction_id: acks[*index].transaction_id.as_str().into(),
            status: acks[*index].status,
            error: acks[*index].error.as_deref().map(Into::into),
            resolved,
        });
        groups.push(Group {
            items: items.collect(),
            lane: lane.map(|(at, _)| at),
            lease: (!lease_id.is_empty()).then(|| Uuid::try_parse(lease_id).ok()),
            group,
        });
    }
    Ok((groups, places))
}

fn find(
    shared: &Shared,
    tenant: TenantId,
    partition_id: &str,
    group: &str,
) -> Result<(LaneAt, CursorRow), Rejected> {
    let id = Uuid::try_parse(partition_id)
        .map_err(|_| Rejected::BadPartition(partition_id.to_owned()))?;
    let state = shared.read();
    let known = state.native().lane(tenant, id).and_then(|key| {
        let lane = state.lane(tenant, &key.queue, &key.lane)?;
        let cursor = lane.consumers.cursors.get(group)?;
        let at = LaneAt {
            key: key.clone(),
            uid: lane.row.uid,
        };
        Some((at, cursor.clone()))
    });
    known.ok_or(Rejected::ConsumerNotFound)
}

/// Plans one group of acks; the verdicts stand in its order.
pub fn plan(batch: &mut Batch<'_>, group: &Group) -> Vec<Verdict> {
    let everyone = |rejected: &Rejected| {
        let verdict = Verdict {
            rejected: Some(rejected.clone()),
            ..Verdict::default()
        };
        vec![verdict; group.items.len()]
    };
    let at = match &group.lane {
        Ok(at) => at,
        Err(rejected) => return everyone(rejected),
    };
    let Some(cursor) = batch.native.cursor(batch.state, at, &group.group) else {
        return everyone(&Rejected::ConsumerNotFound);
    };
    let now_ms = batch.now.epoch_ms();
    let holds = |shown: Uuid| {
        cursor
            .live_lease(now_ms)
            .is_some_and(|live| live.id == shown)
    };
    if group.lease.is_some_and(|shown| !shown.is_some_and(holds)) {
        return everyone(&Rejected::InvalidLease);
    }
    let mut verdicts: Vec<Verdict> = group
        .items
        .iter()
        .map(|item| first_look(item, &cursor))
        .collect();
    let outcome = judge(batch, at, group, cursor, &verdicts);
    for (position, verdict) in verdicts.iter_mut().enumerate() {
        if verdict.rejected.is_none() && !verdict.noop {
            verdict.lease_released = outcome.released;
            verdict.conflated = outcome.conflated;
            verdict.dead_lettered = outcome.dead_letter == Some(position);
        }
    }
    verdicts
}

/// What can be said of an item by itself.
fn first_look(item: &Item, cursor: &CursorRow) -> Verdict {
    let mut verdict = Verdict::default();
    let batch_end = cursor.lease.map(|lease| lease.batch_end);
    match &item.resolved {
        None => verdict.rejected = Some(Rejected::Unresolvable),
        Some(resolved) if resolved.offset <= cursor.committed => {
            if item.status == Status::Completed {
                verdict.noop = true;
            } else {
                verdict.rejected = Some(Rejected::AlreadyCommitted);
            }
        }
        Some(resolved) if batch_end.is_some_and(|end| resolved.offset > end) => {
            verdict.rejected = Some(Rejected::Unresolvable);
        }
        Some(_) => {}
    }
    verdict
}

#[derive(Debug, Default)]
struct Outcome {
    released: bool,
    dead_letter: Option<usize>,
    conflated: Option<u64>,
}

/// Moves the cursor as the items that count say.
fn judge(
    batch: &mut Batch<'_>,
    at: &LaneAt,
    group: &Group,
    mut cursor: CursorRow,
    verdicts: &[Verdict],
) -> Outcome {
    let mut outcome = Outcome::default();
    let counting = || {
        group
            .items
            .iter()
            .enumerate()
            .filter(|(position, _)| verdicts[*position] == Verdict::default())
            .filter_map(|(position, item)| Some((position, item, item.resolved.as_ref()?)))
    };
    let signal = counting()
        .filter(|(_, item, _)| item.status != Status::Completed)
        .min_by_key(|(_, item, resolved)| (resolved.offset, item.status));
    let completed = counting()
        .filter(|(_, item, _)| item.status == Status::Completed)
        .map(|(_, _, resolved)| resolved.offset)
        .filter(|offset| signal.is_none_or(|(_, _, failed)| *offset < failed.offset))
        .max();
    if signal.is_none() && completed.is_none() {
        return outcome;
    }
    let before = cursor.committed;
    cursor.advance(completed.unwrap_or(before));
    if let Some(lease) = cursor.lease {
        match signal {
            Some((position, item, failed)) => {
                let options = options(batch, at);
                if gives_up(&mut cursor, item.status, &options) {
                    if keeps_dead_letters(item.status, &options) {
                        let row = dead_letter(batch, group, &cursor, item, failed);
                        batch.native.put_dead_letter(at.clone(), row);
                        outcome.dead_letter = Some(position);
                    }
                    cursor.advance(failed.offset);
                    cursor.retries = 0;
                }
                cursor.lease = None;
                outcome.released = true;
            }
            None if cursor.committed >= lease.batch_end => {
                outcome.conflated = conflated(&lease, before);
                cursor.lease = None;
                cursor.retries = 0;
                outcome.released = true;
            }
            None => {}
        }
    }
    batch
        .native
        .put_cursor(at.clone(), group.group.clone(), Some(cursor));
    outcome
}

/// Whether the record is given up; charges a failure that is not the last.
fn gives_up(cursor: &mut CursorRow, status: Status, options: &QueueOptions) -> bool {
    match status {
        Status::DeadLetter => true,
        Status::Failed if cursor.retries >= options.retry_limit => true,
        Status::Failed => {
            cursor.retries += 1;
            false
        }
        Status::Retry | Status::Completed => false,
    }
}

/// A queue drops what it gives up only when both options say so.
fn keeps_dead_letters(status: Status, options: &QueueOptions) -> bool {
    status == Status::DeadLetter || options.dead_letter_queue || options.dlq_after_max_retries
}

fn options(batch: &Batch<'_>, at: &LaneAt) -> QueueOptions {
    batch
        .queue(at.key.tenant, &at.key.queue)
        .map_or_else(QueueOptions::default, |queue| queue.options.clone())
}

fn dead_letter(
    batch: &Batch<'_>,
    group: &Group,
    cursor: &CursorRow,
    item: &Item,
    failed: &Resolved,
) -> DeadLetterRow {
    let any_error = || group.items.iter().find_map(|item| item.error.clone());
    DeadLetterRow {
        id: ids::uuid(batch.entropy()),
        group: group.group.clone(),
        offset: failed.offset,
        message_id: failed.message_id,
        transaction_id: item.transaction_id.clone(),
        payload: failed.payload.clone().unwrap_or_else(|| "null".into()),
        error: item
            .error
            .clone()
            .or_else(any_error)
            .unwrap_or_else(|| "Retries exhausted".into()),
        retries: cursor.retries,
        failed_ms: batch.now.epoch_ms(),
    }
}

fn conflated(lease: &Lease, committed_before: i64) -> Option<u64> {
    lease
        .conflated
        .then(|| lease.batch_end.abs_diff(committed_before).saturating_sub(1))
}
