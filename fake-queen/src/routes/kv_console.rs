//! `GET /api/v1/resources/kv/namespaces` and `POST /api/v1/resources/kv/list`: what a console
//! shows of the KV store. Contract section 7.8. 1.6 and later; no token is taken.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, kv};
use crate::engine::kv::call::{self, Action, Operation};
use crate::engine::kv::rules;
use crate::engine::kv::run::{self, Context};
use crate::engine::kv::view::View;
use crate::http::error::ApiError;
use crate::http::reply::Reply;
use crate::options::Version;

/// Rows shown when no limit is named.
const DEFAULT_LIMIT: u64 = 100;

/// Answers with the namespaces.
///
/// # Errors
/// 404 before 1.6.
pub fn namespaces(call: &Call<'_>) -> Result<Reply, ApiError> {
    since_1_6(call)?;
    let state = call.node.engine.shared.read();
    let namespaces: Vec<Value> = state
        .tenant(call.tenant)
        .into_iter()
        .flat_map(|tenant| &tenant.kv)
        .map(|(name, rows)| {
            let bytes: usize = rows.values().map(|row| row.value.len()).sum();
            json!({"namespace": &**name, "rows": rows.len(), "bytes": bytes})
        })
        .collect();
    Ok(Reply::value(&json!({ "namespaces": namespaces })))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct List {
    namespace: String,
    #[serde(default)]
    prefix: String,
    after: Option<String>,
    limit: Option<u64>,
    #[serde(default)]
    keys_only: bool,
    #[serde(default)]
    include_expired: bool,
}

/// Answers with rows; unlike `getPrefix` an empty prefix is allowed.
///
/// # Errors
/// 404 before 1.6; 400 for the body or the namespace.
pub fn list(call: &Call<'_>) -> Result<Reply, ApiError> {
    since_1_6(call)?;
    let list: List = call.json()?;
    let state = call.node.engine.shared.read();
    let mut view = View::new(call.tenant, &state, None);
    let asked = call::Call {
        operations: vec![Operation {
            name: "getPrefix",
            namespace: rules::namespace(&list.namespace)?,
            action: Action::GetPrefix {
                prefix: list.prefix.into(),
                after: list.after.map(Into::into),
                limit: rules::clamp_limit(list.limit.unwrap_or(DEFAULT_LIMIT)),
                keys_only: list.keys_only,
                include_expired: list.include_expired,
            },
        }],
    };
    let mut context = Context {
        now_ms: call.node.host.clock.wall().epoch_ms(),
        next_version: &mut || 0,
        truncate_get_many: None,
    };
    let mut out = b"{\"namespace\":".to_vec();
    crate::json::string(&mut out, &list.namespace);
    // A call without writes loses no condition.
    for outcome in run::run(&asked, &mut view, &mut context).unwrap_or_default() {
        kv::write_outcome(&mut out, &outcome);
    }
    out.push(b'}');
    Ok(Reply::ok(out))
}

fn since_1_6(call: &Call<'_>) -> Result<(), ApiError> {
    if call.node.options.version < Version::V1_6 {
        return Err(ApiError::NoSuchRoute);
    }
    Ok(())
}
