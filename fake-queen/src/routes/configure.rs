//! `POST /api/v1/configure`: makes a queue or changes its options. Contract section 3.4.
//! 1.6: merges, `mode:"replace"` starts from the defaults; before: always replaces.
//! Never makes a lane.

use serde_json::{Map, Value};

use super::Call;
use crate::engine::configure::{self, Configure};
use crate::engine::queue_options::QueueOptions;
use crate::http::error::ApiError;
use crate::http::reply::Reply;
use crate::options::Version;
use crate::{ids, json};

/// Answers.
///
/// # Errors
/// 400 for the shape of the body or an option, 500 for an option's type or the store.
pub async fn handle(call: &Call<'_>) -> Result<Reply, ApiError> {
    let configure = read(call)?;
    let tenant = call.tenant;
    let row = call
        .node
        .engine
        .writer()
        .write(1024, move |batch| {
            configure::plan(batch, tenant, &configure)
        })
        .await?
        .map_err(ApiError::Configure)?;
    let mut out = b"{\"configured\":true,\"queueId\":".to_vec();
    ids::write_uuid(&mut out, row.id.as_u128());
    json::raw(&mut out, ",\"partitionId\":null");
    for (name, text) in [
        (",\"queue\":", &*row.name),
        (",\"namespace\":", &row.options.namespace),
        (",\"task\":", &row.options.task),
    ] {
        json::raw(&mut out, name);
        json::string(&mut out, text);
    }
    json::raw(&mut out, ",\"storage\":\"segments\",\"options\":");
    row.options.write(&mut out, &QueueOptions::NAMES[2..]);
    out.push(b'}');
    Ok(Reply::ok(out))
}

fn read(call: &Call<'_>) -> Result<Configure, ApiError> {
    let mut body: Map<String, Value> = call.json()?;
    let Some(Value::String(queue)) = body.remove("queue") else {
        return Err(ApiError::BadRequest("queue is required"));
    };
    let merges = call.node.options.version >= Version::V1_6;
    let merge = match body.remove("mode") {
        // Older releases know no mode and replace the whole row.
        _ if !merges => false,
        None => true,
        Some(Value::String(mode)) if mode == "merge" => true,
        Some(Value::String(mode)) if mode == "replace" => false,
        Some(_) => return Err(ApiError::BadRequest("mode must be merge or replace")),
    };
    // Options stand inside `options` or beside it; inside wins.
    if let Some(inner) = body.remove("options") {
        match inner {
            Value::Object(inner) => body.extend(inner),
            Value::Null => {}
            _ => return Err(ApiError::BadRequest("options must be an object")),
        }
    }
    Ok(Configure {
        queue: queue.into(),
        merge,
        options: body,
    })
}
