//! Who a credential is, and how Queen is.

use serde::Deserialize;
use serde_json::Value;

use super::error::scrub;
use super::{Client, Credential, Error};

/// Longest tenant id taken from Queen.
const MAX_TENANT_ID_CHARS: usize = 128;

#[derive(Deserialize)]
struct Identity {
    #[serde(default)]
    acting_cluster: Option<ActingCluster>,
}

#[derive(Deserialize)]
struct ActingCluster {
    #[serde(default)]
    id: Option<Value>,
}

/// How Queen says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Whether it calls itself healthy.
    pub healthy: bool,
    /// Its version, scrubbed.
    pub version: Option<String>,
}

#[derive(Deserialize)]
struct HealthAnswer {
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    version: Option<String>,
}

impl Client {
    /// The tenant that the credential acts for; `None` when Queen names none. Credentials of one
    /// tenant share their topic list and groups.
    ///
    /// # Errors
    ///
    /// All of [`Error`]: 401 is usual where Queen's identity surface knows no bearer.
    pub async fn auth_me(&self, credential: &Credential) -> Result<Option<String>, Error> {
        let answer = self.get("/auth/me", credential).await?;
        let identity: Identity = serde_json::from_slice(&answer).map_err(Error::unreadable)?;
        let id = match identity.acting_cluster.and_then(|cluster| cluster.id) {
            Some(Value::String(id)) => id,
            _ => return Ok(None),
        };
        let id = id.trim();
        let legal = !id.is_empty()
            && id.len() <= MAX_TENANT_ID_CHARS
            && id
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte));
        Ok(legal.then(|| id.to_owned()))
    }

    /// Queen's own report of its health.
    ///
    /// # Errors
    ///
    /// All of [`Error`]; an unhealthy Queen answers 503.
    pub async fn health(&self) -> Result<Health, Error> {
        let answer = self.get("/health", &Credential::default()).await?;
        let answer: HealthAnswer = serde_json::from_slice(&answer).map_err(Error::unreadable)?;
        Ok(Health {
            healthy: answer
                .status
                .is_none_or(|status| matches!(status.as_str(), "healthy" | "ok")),
            version: answer.version.as_deref().map(scrub),
        })
    }
}
