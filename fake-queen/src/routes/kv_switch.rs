//! `POST /api/v1/system/kv-timers`: the KV kill switch. Contract section 7.7. Effective on the next
//! call. Grants, which a real Queen reads from a table, come the same way here: `grantTenant` and
//! `revokeTenant` name a tenant.

use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use super::Call;
use crate::http::error::ApiError;
use crate::http::reply::Reply;
use crate::ids::TenantId;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    kv_enabled: Option<bool>,
    grant_tenant: Option<Uuid>,
    revoke_tenant: Option<Uuid>,
}

/// Answers.
///
/// # Errors
/// 400 for the body.
pub fn handle(call: &Call<'_>) -> Result<Reply, ApiError> {
    let body: Body = call.json()?;
    let admission = &call.node.admission;
    if let Some(enabled) = body.kv_enabled {
        admission.set_enabled(enabled);
    }
    if let Some(tenant) = body.grant_tenant {
        admission.set_granted(TenantId(tenant), true);
    }
    if let Some(tenant) = body.revoke_tenant {
        admission.set_granted(TenantId(tenant), false);
    }
    Ok(Reply::value(&json!({"kvEnabled": admission.is_enabled()})))
}
