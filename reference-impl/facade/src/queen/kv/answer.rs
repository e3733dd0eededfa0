//! Reads the answer of a KV call, and the KV part of a transaction's.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Batch, Loss, OpResult, Operation, Outcome, Precondition, Row, Version, Winner};
use crate::queen::Error;

/// `200` of the KV route: results, or a lost precondition.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    #[serde(default)]
    ok: Option<bool>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    failed_index: Option<usize>,
    #[serde(default)]
    kv_reason: Option<String>,
    #[serde(default)]
    version: Option<u64>,
    #[serde(default)]
    value: Option<Box<RawValue>>,
    #[serde(borrow, default)]
    results: Option<Vec<&'a RawValue>>,
}

/// One result; which fields are there depends on the operation.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawResult {
    #[serde(default)]
    op_index: Option<usize>,
    #[serde(default)]
    index: Option<usize>,
    op: String,
    #[serde(default)]
    applied: Option<bool>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    version: Option<u64>,
    #[serde(default)]
    value: Option<Box<RawValue>>,
    #[serde(default)]
    rows: Option<Vec<RawRow>>,
    #[serde(default)]
    missing: Option<Vec<String>>,
    #[serde(default)]
    truncated: bool,
    #[serde(default)]
    next_after: Option<String>,
}

#[derive(Deserialize)]
struct RawRow {
    key: String,
    #[serde(default)]
    value: Option<Box<RawValue>>,
    version: u64,
}

impl From<RawRow> for Row {
    fn from(row: RawRow) -> Self {
        Self {
            key: row.key,
            version: Version(row.version),
            value: row.value.unwrap_or_else(|| RawValue::NULL.to_owned()),
        }
    }
}

pub(super) fn parse_outcome(answer: &[u8], batch: &Batch) -> Result<Outcome, Error> {
    let answer: Answer<'_> = serde_json::from_slice(answer).map_err(Error::unreadable)?;
    if answer.ok == Some(false) {
        if answer.reason.as_deref() != Some("kv_precondition") {
            return Err(Error::unreadable("a KV call failed without a known reason"));
        }
        return Ok(Outcome::Precondition(Precondition {
            operation: answer.failed_index,
            loss: loss(answer.kv_reason.as_deref()),
            winner: parse_winner(answer.version, answer.value),
        }));
    }
    let results = answer
        .results
        .ok_or_else(|| Error::unreadable("a KV answer without results"))?;
    parse_results(&results, batch, |result| result.index).map(Outcome::Done)
}

/// Reads one result per operation of `batch`, each at its own position and of its own kind.
fn parse_results_by(
    results: &[&RawValue],
    batch: &Batch,
    position: impl Fn(&RawResult) -> Option<usize>,
) -> Result<Vec<OpResult>, Error> {
    if results.len() != batch.operations().len() {
        return Err(Error::unreadable("not one result per KV operation"));
    }
    let mut asked = batch.asked().iter();
    let mut parsed = Vec::with_capacity(results.len());
    for (index, (result, &operation)) in results.iter().zip(batch.operations()).enumerate() {
        let result: RawResult = serde_json::from_str(result.get()).map_err(Error::unreadable)?;
        if position(&result) != Some(index) || result.op != operation.name() {
            return Err(Error::unreadable("KV results in another order"));
        }
        parsed.push(match operation {
            Operation::Put | Operation::Delete => write_result(result)?,
            Operation::GetMany => {
                let asked = asked
                    .next()
                    .ok_or_else(|| Error::unreadable("KV rows nobody asked for"))?;
                rows_result(result, asked)?
            }
            Operation::GetPrefix => page_result(result)?,
        });
    }
    Ok(parsed)
}

/// As the KV route (`index`) or a transaction (`opIndex`) numbers them.
pub(in crate::queen) fn parse_results(
    results: &[&RawValue],
    batch: &Batch,
    position: fn(&Numbered) -> Option<usize>,
) -> Result<Vec<OpResult>, Error> {
    parse_results_by(results, batch, |result| {
        position(&Numbered {
            index: result.index,
            op_index: result.op_index,
        })
    })
}

/// The two numberings of a KV result.
pub(in crate::queen) struct Numbered {
    /// Position in the whole answer.
    pub(in crate::queen) index: Option<usize>,
    /// Position among the KV operations of a transaction.
    pub(in crate::queen) op_index: Option<usize>,
}

fn write_result(result: RawResult) -> Result<OpResult, Error> {
    match (result.applied, result.version) {
        (Some(true), Some(version)) => Ok(OpResult::Applied(Version(version))),
        (Some(false), version) => Ok(OpResult::Lost(
            loss(result.reason.as_deref()),
            parse_winner(version, result.value),
        )),
        _ => Err(Error::unreadable("a KV write that doesn't say what it did")),
    }
}

fn rows_result(result: RawResult, asked: &[String]) -> Result<OpResult, Error> {
    let (Some(rows), Some(missing)) = (result.rows, result.missing) else {
        return Err(Error::unreadable("a KV read without its lists"));
    };
    let rows: Vec<Row> = rows.into_iter().map(Row::from).collect();
    let unread = if rows.len() + missing.len() == asked.len() {
        Vec::new()
    } else {
        let read: std::collections::BTreeSet<&str> = rows
            .iter()
            .map(|row| row.key.as_str())
            .chain(missing.iter().map(String::as_str))
            .collect();
        asked
            .iter()
            .filter(|key| !read.contains(key.as_str()))
            .cloned()
            .collect()
    };
    Ok(OpResult::Rows {
        rows,
        missing,
        unread,
    })
}

fn page_result(result: RawResult) -> Result<OpResult, Error> {
    let rows = result
        .rows
        .ok_or_else(|| Error::unreadable("a KV page without rows"))?;
    if result.truncated && result.next_after.is_none() {
        return Err(Error::unreadable("a KV page cut without a way on"));
    }
    Ok(OpResult::Page {
        rows: rows.into_iter().map(Row::from).collect(),
        next_after: result.next_after.filter(|_| result.truncated),
    })
}

fn loss(reason: Option<&str>) -> Loss {
    match reason {
        Some("exists") => Loss::Exists,
        Some("absent") => Loss::Absent,
        Some("version") => Loss::Version,
        _ => Loss::Other,
    }
}

/// The row a write lost against; version 0 means there is none.
pub(in crate::queen) fn parse_winner(version: Option<u64>, value: Option<Box<RawValue>>) -> Winner {
    Winner {
        version: version.filter(|&version| version != 0).map(Version),
        value,
    }
}
