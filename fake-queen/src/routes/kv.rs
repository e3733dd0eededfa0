//! `POST /api/v1/kv`: operations on rows, all or nothing. Contract sections 7.1 to 7.6.
//! A call of reads is answered from the state; a call with any write goes through the writer.
//! A lost `required` condition is 200 with `ok:false` and no results.

use super::Call;
use super::admission::Kind;
use crate::engine::change::KvRow;
use crate::engine::kv::call::{self, KeyRow, Outcome, Precondition};
use crate::engine::kv::parse;
use crate::engine::kv::rules::Limits;
use crate::engine::kv::run::{self, Context};
use crate::engine::kv::view::View;
use crate::http::error::ApiError;
use crate::http::reply::Reply;
use crate::{json, time};

/// What a call came to.
pub type Ran = Result<Vec<Outcome>, Precondition>;

/// Answers.
///
/// # Errors
/// The rules of section 7.5; 500 for the store.
pub async fn handle(call: &Call<'_>) -> Result<Reply, ApiError> {
    let operations =
        parse::elements(&call.body).map_err(|error| ApiError::BadBody(error.to_string()))?;
    let parsed = parse::parse(&operations, Limits::CALL)?;
    if parsed.operations.is_empty() {
        return Ok(Reply::ok("{\"results\":[]}"));
    }
    let ran = admit_and_run(call, parsed.clone()).await?;
    Ok(Reply::ok(match ran {
        Ok(outcomes) => {
            let mut out = b"{\"results\":[".to_vec();
            for (index, (operation, outcome)) in parsed.operations.iter().zip(&outcomes).enumerate()
            {
                if index > 0 {
                    out.push(b',');
                }
                write_result(&mut out, index, operation.name, outcome);
            }
            json::raw(&mut out, "]}");
            out
        }
        Err(lost) => lost_call(call, &lost),
    }))
}

/// Appends one operation's result.
pub fn write_result(out: &mut Vec<u8>, index: usize, op: &str, outcome: &Outcome) {
    json::raw(out, "{\"index\":");
    json::uint(out, index as u64);
    json::raw(out, ",\"op\":\"");
    json::raw(out, op);
    out.push(b'"');
    write_outcome(out, outcome);
    out.push(b'}');
}

/// The answer of a call whose `required` condition was lost.
pub fn lost_call(call: &Call<'_>, lost: &Precondition) -> Vec<u8> {
    let mut out = b"{\"ok\":false,\"reason\":\"kv_precondition\"".to_vec();
    if !call.injected.omit_winner() {
        write_precondition(&mut out, lost, lost.index);
    }
    out.push(b'}');
    out
}

/// Takes a token and runs a call.
///
/// # Errors
/// Admission, or the store.
pub async fn admit_and_run(call: &Call<'_>, parsed: call::Call) -> Result<Ran, ApiError> {
    let node = call.node;
    let now = node.host.clock.monotonic();
    let kind = if parsed.writes() {
        Kind::Write
    } else {
        Kind::Read
    };
    node.admission.admit(call.tenant, kind, now)?;
    let (tenant, truncate_get_many) = (call.tenant, call.injected.truncate_get_many());
    if kind == Kind::Read {
        let state = node.engine.shared.read();
        let mut view = View::new(tenant, &state, None);
        let mut context = Context {
            now_ms: node.host.clock.wall().epoch_ms(),
            next_version: &mut || 0,
            truncate_get_many,
        };
        return Ok(run::run(&parsed, &mut view, &mut context));
    }
    let ran = node
        .engine
        .writer()
        .write(parsed.bytes(), move |batch| {
            let (outcomes, writes) = run::over_batch(batch, tenant, &parsed, truncate_get_many)?;
            for (key, row) in writes {
                batch.put_kv(key, row);
            }
            Ok(outcomes)
        })
        .await
        .map_err(ApiError::KvWrite)?;
    Ok(ran)
}

/// Appends the fields of an outcome, each behind a comma.
pub fn write_outcome(out: &mut Vec<u8>, outcome: &Outcome) {
    match outcome {
        Outcome::Get { key, row } => {
            json::raw(out, ",\"found\":");
            json::boolean(out, row.is_some());
            json::raw(out, ",\"key\":");
            json::string(out, key);
            if let Some(row) = row {
                out.push(b',');
                write_row(out, row, false);
            }
        }
        Outcome::Many {
            rows,
            missing,
            truncated,
        } => {
            write_rows(out, rows, false);
            json::raw(out, ",\"missing\":[");
            for (at, key) in missing.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                json::string(out, key);
            }
            json::raw(out, "],\"truncated\":");
            json::boolean(out, *truncated);
        }
        Outcome::Prefix {
            rows,
            truncated,
            next_after,
            keys_only,
        } => {
            write_rows(out, rows, *keys_only);
            json::raw(out, ",\"truncated\":");
            json::boolean(out, *truncated);
            json::raw(out, ",\"nextAfter\":");
            optional_string(out, next_after.as_deref());
        }
        Outcome::Applied {
            key,
            value,
            version,
        } => {
            json::raw(out, ",\"applied\":true,\"key\":");
            json::string(out, key);
            write_value(out, value.as_deref(), *version);
        }
        Outcome::Lost { key, loss } => {
            json::raw(out, ",\"applied\":false,\"reason\":\"");
            json::raw(out, loss.reason);
            json::raw(out, "\",\"key\":");
            json::string(out, key);
            write_value(out, loss.value.as_deref(), loss.version);
        }
    }
}

/// Appends the fields of a lost `required` condition, each behind a comma.
pub fn write_precondition(out: &mut Vec<u8>, lost: &Precondition, failed_index: usize) {
    json::raw(out, ",\"failedIndex\":");
    json::uint(out, failed_index as u64);
    json::raw(out, ",\"kvReason\":\"");
    json::raw(out, lost.loss.reason);
    out.push(b'"');
    write_value(out, lost.loss.value.as_deref(), lost.loss.version);
}

/// Appends `,"rows":[…]`.
pub fn write_rows(out: &mut Vec<u8>, rows: &[KeyRow], keys_only: bool) {
    json::raw(out, ",\"rows\":[");
    for (at, (key, row)) in rows.iter().enumerate() {
        json::raw(out, if at > 0 { ",{\"key\":" } else { "{\"key\":" });
        json::string(out, key);
        out.push(b',');
        write_row(out, row, keys_only);
        out.push(b'}');
    }
    out.push(b']');
}

/// Appends a row's fields without its key.
fn write_row(out: &mut Vec<u8>, row: &KvRow, keys_only: bool) {
    if !keys_only {
        json::raw(out, "\"value\":");
        json::raw(out, &row.value);
        out.push(b',');
    }
    json::raw(out, "\"version\":");
    json::uint(out, row.version);
    json::raw(out, ",\"expiresAt\":");
    let expires = row.expires_ms.map(time::millis_string);
    optional_string(out, expires.as_deref());
    json::raw(out, ",\"updatedAt\":\"");
    time::millis(out, row.updated_ms);
    out.push(b'"');
}

fn write_value(out: &mut Vec<u8>, value: Option<&str>, version: u64) {
    json::raw(out, ",\"value\":");
    json::raw(out, value.unwrap_or("null"));
    json::raw(out, ",\"version\":");
    json::uint(out, version);
}

fn optional_string(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) => json::string(out, text),
        None => json::raw(out, "null"),
    }
}
