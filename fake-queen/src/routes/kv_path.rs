//! `GET|PUT|DELETE /api/v1/kv/:ns/*key`: one row by path. Contract section 7.8.
//! A miss is 200 with `found:false`; a hit carries its version as `ETag`.

use http::Method;
use indexmap::IndexMap;
use serde_json::value::{RawValue, to_raw_value};

use super::Call;
use super::kv;
use crate::engine::kv::call::Outcome;
use crate::engine::kv::parse;
use crate::engine::kv::rules::Limits;
use crate::http::error::ApiError;
use crate::http::reply::Reply;

/// Answers.
///
/// # Errors
/// As the KV route, and for what the path already says.
pub async fn handle(
    call: &Call<'_>,
    method: &Method,
    namespace: &str,
    key: &str,
) -> Result<Reply, ApiError> {
    if call.query.is_some() {
        return Err(ApiError::KvPath("kv_no_query_string"));
    }
    let op = match *method {
        Method::PUT => "put",
        Method::DELETE => "delete",
        _ => "get",
    };
    let mut fields: IndexMap<String, Box<RawValue>> = if call.body.is_empty() || op == "get" {
        IndexMap::new()
    } else {
        call.json()?
    };
    for (name, text) in [("op", op), ("ns", namespace), ("key", key)] {
        let text = to_raw_value(text).map_err(|error| ApiError::BadBody(error.to_string()))?;
        if fields.insert(name.to_owned(), text).is_some() {
            return Err(ApiError::KvPath("kv_field_in_path"));
        }
    }
    let operation = to_raw_value(&fields).map_err(|error| ApiError::BadBody(error.to_string()))?;
    let parsed = parse::parse(&[&operation], Limits::CALL)?;
    let ran = kv::admit_and_run(call, parsed).await?;
    Ok(match ran {
        Err(lost) => Reply::ok(kv::lost_call(call, &lost)),
        Ok(outcomes) => {
            let mut out = Vec::new();
            let mut etag = None;
            for outcome in &outcomes {
                kv::write_result(&mut out, 0, op, outcome);
                if let Outcome::Get { row: Some(row), .. } = outcome {
                    etag = Some(format!("\"{}\"", row.version));
                }
            }
            let mut reply = Reply::ok(out);
            reply.etag = etag;
            reply
        }
    })
}
