//! `POST /api/v1/lease/:leaseId/extend`: holds a batch for longer. Contract section 4.10.
//! Always 200; `renewed` tells whether anything was. A body that isn't one asks for 60 seconds.

use serde_json::{Value, json};
use uuid::Uuid;

use super::Call;
use crate::engine::native::lease;
use crate::http::error::ApiError;
use crate::http::reply::Reply;
use crate::time;

/// Seconds when the body names none.
const DEFAULT_SECONDS: i64 = 60;

/// Answers.
///
/// # Errors
/// 500 for the store.
pub async fn handle(call: &Call<'_>, id: &str) -> Result<Reply, ApiError> {
    let seconds = serde_json::from_slice::<Value>(&call.body)
        .ok()
        .and_then(|body| body.get("seconds")?.as_i64())
        .unwrap_or(DEFAULT_SECONDS)
        .max(1);
    let tenant = call.tenant;
    let renewed = match Uuid::try_parse(id) {
        Ok(id) => {
            call.node
                .engine
                .writer()
                .write(0, move |batch| lease::extend(batch, tenant, id, seconds))
                .await?
        }
        Err(_) => lease::Renewed::default(),
    };
    let expires = renewed.expires_ms.map(time::millis_string);
    Ok(Reply::value(&json!({
        "leaseId": id,
        "success": renewed.count > 0,
        "renewed": renewed.count,
        "newExpiresAt": expires,
        "expiresAt": expires,
        "lease_expires_at": expires,
    })))
}
