//! Whether Queen answers, and lets this facade in.

use std::sync::Arc;

use host::{Connect, Host};
use tokio::time::timeout;

use super::{Findings, PATIENCE};
use crate::config::{Config, QueenUrl};
use crate::queen::{Class, Client, Credential, Error};

/// A row that nobody has: reading it asks whether rows may be read.
const NO_ROW: &str = "qk:check";

pub(super) fn embedded(config: &Config, can_embed: bool, findings: &mut Findings) {
    if !can_embed {
        findings
            .wrong("QUEEN_URL asks for an embedded Queen, which this binary was built without.");
        return;
    }
    let QueenUrl::Embedded { dir } = &config.queen_url else {
        return;
    };
    let Some(dir) = dir else {
        findings.note(
            "Queen runs in this process and forgets everything with it (QUEEN_URL=embedded:).",
        );
        return;
    };
    let shown = dir.display();
    match std::fs::metadata(dir) {
        Ok(found) if !found.is_dir() => findings.wrong(format!(
            "QUEEN_URL: {shown} is no folder, so the embedded Queen cannot store there."
        )),
        Ok(_) => findings.right(format!("The embedded Queen stores in {shown}.")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => findings.note(format!(
            "The embedded Queen makes the folder {shown} when it starts."
        )),
        Err(error) => findings.wrong(format!("QUEEN_URL: {shown} cannot be used: {error}.")),
    }
}

pub(super) async fn remote(
    config: &Config,
    host: &Host,
    upstream: Arc<dyn Connect>,
    findings: &mut Findings,
) {
    let client = Client::for_url(host, upstream, &config.queen_url);
    let url = &config.queen_url;
    match within(client.health()).await {
        Ok(health) if health.healthy => {
            let version = health.version.map(|version| format!(", version {version}"));
            let version = version.unwrap_or_default();
            findings.right(format!("Queen at {url} is healthy{version}."));
        }
        Ok(_) => findings.wrong(format!(
            "Queen at {url} answers and calls itself unhealthy."
        )),
        Err(error) => {
            findings.wrong(format!("Queen at {url} (QUEEN_URL) is not well: {error}."));
            return;
        }
    }
    credential(config, &client, findings).await;
}

async fn credential(config: &Config, client: &Client, findings: &mut Findings) {
    if config.security.sasl.is_some() {
        findings.note(
            "Clients bring their own tokens (QUEEN_KAFKA_SASL): whether Queen knows them shows when \
             they connect.",
        );
    }
    let has_token = config.queen_token.is_some();
    if config.security.sasl.is_some() && !has_token {
        return;
    }
    let who = if has_token {
        "QUEEN_TOKEN"
    } else {
        "a call without a token"
    };
    let credential = Credential {
        bearer: config.queen_token.clone(),
        host: None,
    };
    let checks = [
        (
            "list queues",
            within(client.check_credential(&credential)).await,
        ),
        (
            "read the rows of groups and offsets",
            within(client.kv_read(&credential, &[NO_ROW]))
                .await
                .map(drop),
        ),
    ];
    for (what, result) in checks {
        match result {
            Ok(()) => findings.right(format!("Queen lets {who} {what}.")),
            Err(error) if error.class() == Class::Unauthenticated && !has_token => {
                findings.wrong(
                    "Queen asks for a token, and there is neither QUEEN_TOKEN nor \
                     QUEEN_KAFKA_SASL=plain: every call will be answered 401.",
                );
                return;
            }
            Err(error) => findings.wrong(format!("Queen does not let {who} {what}: {error}.")),
        }
    }
}

async fn within<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    timeout(PATIENCE, call)
        .await
        .unwrap_or(Err(Error::TimedOut(PATIENCE)))
}
