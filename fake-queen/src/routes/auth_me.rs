//! `GET /auth/me`: who the caller is. Contract section 3.5. Public. A broker without JWT answers a
//! standalone document; a fault makes it answer as a proxy does for an API key, or 401.

use http::StatusCode;
use serde_json::json;

use super::Call;
use crate::faults::AuthMe;
use crate::http::reply::Reply;

/// Answers.
pub fn handle(call: &Call<'_>) -> Reply {
    let tenant = call.tenant.0;
    let usual = match call.node.options.jwt {
        None => AuthMe::Standalone,
        // It knows no bearer: only logins.
        Some(_) => AuthMe::Unauthorized,
    };
    match call.injected.auth_me().unwrap_or(usual) {
        AuthMe::Standalone => Reply::value(&json!({
            "user_id": "standalone",
            "email": null,
            "tenant_slug": "local",
            "tenant_id": tenant,
            "is_operator": true,
            "operator_enabled": true,
            "operator_live": true,
            "acting_cluster": {"id": "local", "slug": "local"},
            "clusters": [{
                "id": "local", "slug": "local", "role": "admin", "tenant_slug": "local",
                "tenant_id": tenant, "status": "active", "cell_slug": "local",
            }],
            "act_cluster_header": "x-queen-act-cluster",
            "role": "admin",
            "cluster": null,
            "standalone": true,
        })),
        AuthMe::ApiKey => Reply::value(&json!({
            "user_id": null,
            "email": null,
            "tenant_slug": null,
            "is_operator": false,
            "acting_cluster": {"id": tenant, "slug": "main"},
            "clusters": [{
                "id": tenant, "slug": "main", "role": null, "tenant_slug": null,
                "tenant_id": tenant, "status": "active", "cell_slug": "local",
            }],
            "principal": "api_key",
            "key_id": "key-1",
            "scopes": {"produce": true, "consume": true, "admin": true, "read": true},
        })),
        AuthMe::Unauthorized => Reply::json(
            StatusCode::UNAUTHORIZED,
            json!({"error": "auth_required", "code": "auth_required"}).to_string(),
        ),
    }
}
