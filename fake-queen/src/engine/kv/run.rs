//! Running a KV call over a view: single-key operations in key order, then bulk reads, which so see
//! the call's own writes (contract section 7.3).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::call::{Action, Call, KeyRow, Loss, Operation, Outcome, Precondition, Write};
use super::view::View;
use crate::engine::batch::Batch;
use crate::engine::change::{KvKey, KvRow};
use crate::ids::TenantId;

/// Data that one call may read in bulk.
const READ_BUDGET_BYTES: usize = 4 << 20;

/// What a run needs beside the rows.
pub struct Context<'a> {
    /// The one clock reading.
    pub now_ms: i64,
    /// Draws a version no row had before.
    pub next_version: &'a mut dyn FnMut() -> u64,
    /// A `getMany` shows at most this many rows (a fault to be injected).
    pub truncate_get_many: Option<usize>,
}

/// Runs `call`. Outcomes are in request order; what was written is in the view.
///
/// # Errors
/// A lost `required` condition: the view's writes must be thrown away.
pub fn run(
    call: &Call,
    view: &mut View<'_>,
    context: &mut Context<'_>,
) -> Result<Vec<Outcome>, Precondition> {
    let operations = &call.operations;
    let mut outcomes: Vec<Option<Outcome>> = operations.iter().map(|_| None).collect();
    let mut singles: Vec<(usize, &Arc<str>)> = operations
        .iter()
        .enumerate()
        .filter_map(|(index, operation)| match &operation.action {
            Action::Get { key } | Action::Write { key, .. } => Some((index, key)),
            Action::GetMany { .. } | Action::GetPrefix { .. } => None,
        })
        .collect();
    singles.sort_by_key(|(index, key)| (&operations[*index].namespace, *key, *index));
    for (index, key) in singles {
        outcomes[index] = Some(single(index, &operations[index], key, view, context)?);
    }
    let mut budget = READ_BUDGET_BYTES;
    Ok(operations
        .iter()
        .zip(outcomes)
        .filter_map(|(operation, done)| {
            done.or_else(|| bulk(operation, view, context, &mut budget))
        })
        .collect())
}

/// What a call wrote.
pub type Writes = BTreeMap<KvKey, Option<KvRow>>;

/// Runs `call` over a batch, and returns what it wrote instead of staging it.
///
/// # Errors
/// A lost `required` condition.
pub fn over_batch(
    batch: &mut Batch<'_>,
    tenant: TenantId,
    call: &Call,
    truncate_get_many: Option<usize>,
) -> Result<(Vec<Outcome>, Writes), Precondition> {
    // Drawn ahead, because the view borrows the batch that versions are drawn from.
    let mut versions: Vec<u64> = call
        .operations
        .iter()
        .filter(|operation| matches!(operation.action, Action::Write { .. }))
        .map(|_| batch.next_version())
        .collect();
    let mut view = View::new(tenant, batch.state, Some(batch.staged_kv()));
    let mut context = Context {
        now_ms: batch.now.epoch_ms(),
        // One was drawn for each write.
        next_version: &mut || versions.pop().unwrap_or_default(),
        truncate_get_many,
    };
    let outcomes = run(call, &mut view, &mut context)?;
    Ok((outcomes, view.into_writes()))
}

fn single(
    index: usize,
    operation: &Operation,
    key: &Arc<str>,
    view: &mut View<'_>,
    context: &mut Context<'_>,
) -> Result<Outcome, Precondition> {
    let address = view.key(&operation.namespace, key);
    let row = view.live(&address, context.now_ms).cloned();
    let Action::Write {
        write,
        expect,
        required,
        ..
    } = &operation.action
    else {
        return Ok(Outcome::Get {
            key: key.clone(),
            row,
        });
    };
    match apply(&address, write, *expect, row, view, context) {
        Ok((value, version)) => Ok(Outcome::Applied {
            key: key.clone(),
            value,
            version,
        }),
        Err(loss) if *required => Err(Precondition { index, loss }),
        Err(loss) => Ok(Outcome::Lost {
            key: key.clone(),
            loss,
        }),
    }
}

fn apply(
    address: &KvKey,
    write: &Write,
    expect: Option<u64>,
    row: Option<KvRow>,
    view: &mut View<'_>,
    context: &mut Context<'_>,
) -> Result<(Option<Arc<str>>, u64), Loss> {
    let lost = |reason| Loss {
        reason,
        value: row.as_ref().map(|row| row.value.clone()),
        version: row.as_ref().map_or(0, |row| row.version),
    };
    match (expect, &row) {
        (Some(0), Some(_)) => return Err(lost("exists")),
        (Some(1..), None) => return Err(lost("absent")),
        (Some(expected @ 1..), Some(row)) if row.version != expected => {
            return Err(lost("version"));
        }
        _ => {}
    }
    let expires = |ttl: &Option<u64>| {
        ttl.map(|ttl| {
            let ms = i64::try_from(ttl).unwrap_or(i64::MAX).saturating_mul(1000);
            context.now_ms.saturating_add(ms)
        })
    };
    let (value, expires_ms) = match write {
        Write::Delete => {
            return match row {
                Some(row) => {
                    view.put(address.clone(), None);
                    Ok((Some(row.value), row.version))
                }
                None if expect == Some(0) => Ok((None, 0)),
                None => Err(lost("absent")),
            };
        }
        Write::Put { value, ttl_seconds } => (value.clone(), expires(ttl_seconds)),
        Write::Incr {
            delta,
            min,
            max,
            ttl_seconds,
        } => {
            let current = match &row {
                None => 0,
                Some(row) => row.value.parse::<i64>().map_err(|_| lost("type"))?,
            };
            let sum = current
                .checked_add(*delta)
                .filter(|sum| min.is_none_or(|min| *sum >= min))
                .filter(|sum| max.is_none_or(|max| *sum <= max))
                .ok_or_else(|| lost("limit"))?;
            let expires_ms = match &row {
                // The expiry of an existing row stays as it is.
                Some(row) => row.expires_ms,
                None => expires(ttl_seconds),
            };
            (sum.to_string().into(), expires_ms)
        }
    };
    let version = (context.next_version)();
    let row = KvRow {
        value: value.clone(),
        version,
        expires_ms,
        updated_ms: context.now_ms,
    };
    view.put(address.clone(), Some(row));
    Ok((Some(value), version))
}

fn bulk(
    operation: &Operation,
    view: &View<'_>,
    context: &Context<'_>,
    budget: &mut usize,
) -> Option<Outcome> {
    Some(match &operation.action {
        Action::GetMany { keys } => {
            let (mut rows, mut missing) = (Vec::new(), Vec::new());
            let mut truncated = false;
            for key in keys {
                let address = view.key(&operation.namespace, key);
                match view.live(&address, context.now_ms) {
                    None => missing.push(key.clone()),
                    Some(row)
                        if context
                            .truncate_get_many
                            .is_some_and(|most| rows.len() >= most)
                            || !spend(budget, row) =>
                    {
                        truncated = true;
                    }
                    Some(row) => rows.push((key.clone(), row.clone())),
                }
            }
            rows.sort_by(|(a, _), (b, _)| a.cmp(b));
            rows.dedup_by(|(a, _), (b, _)| a == b);
            Outcome::Many {
                rows,
                missing,
                truncated,
            }
        }
        Action::GetPrefix {
            prefix,
            after,
            limit,
            keys_only,
            include_expired,
        } => {
            let mut rows: Vec<KeyRow> = Vec::new();
            let mut truncated = false;
            let live = view
                .range(&operation.namespace, prefix, after.as_deref())
                .filter(|(_, row)| *include_expired || row.is_live(context.now_ms));
            for (key, row) in live {
                if rows.len() == *limit || (!keys_only && !spend(budget, &row)) {
                    truncated = true;
                    break;
                }
                rows.push((key, row));
            }
            let next_after = match rows.last() {
                _ if !truncated => None,
                Some((key, _)) => Some(key.clone()),
                // Nothing fitted in what the call had left to read.
                None => after.clone(),
            };
            Outcome::Prefix {
                rows,
                truncated,
                next_after,
                keys_only: *keys_only,
            }
        }
        Action::Get { .. } | Action::Write { .. } => return None,
    })
}

fn spend(budget: &mut usize, row: &KvRow) -> bool {
    match budget.checked_sub(row.value.len()) {
        Some(left) => {
            *budget = left;
            true
        }
        None => {
            *budget = 0;
            false
        }
    }
}
