//! Whether a client would be served: asked of Queen, at most once a second.

use std::time::Duration;

use host::Monotonic;
use host::shutdown::Phase;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::{Body, text};
use crate::context::Node;
use crate::queen::Error;

/// How long Queen may take to say how it is.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long an answer is good for: probes of many balancers are one call.
const FRESH: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Readiness {
    last: Mutex<Option<(Monotonic, Report)>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Report {
    status: Status,
    /// What Queen said, or why it said nothing.
    queen: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ready,
    Degraded,
    Unavailable,
    Draining,
}

impl Readiness {
    pub(super) async fn answer(&self, node: &Node) -> Response<Body> {
        let report = if node.shutdown.phase() == Phase::Running {
            self.report(node).await
        } else {
            Report {
                status: Status::Draining,
                queen: String::new(),
            }
        };
        let status = match report.status {
            Status::Ready | Status::Degraded => StatusCode::OK,
            Status::Unavailable | Status::Draining => StatusCode::SERVICE_UNAVAILABLE,
        };
        // A structure of two strings always serialises.
        let mut json = serde_json::to_string(&report).unwrap_or_default();
        json.push('\n');
        let mut response = text(status, json);
        let format = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, format);
        response
    }

    async fn report(&self, node: &Node) -> Report {
        // Held through the probe: who comes meanwhile shares its answer.
        let mut last = self.last.lock().await;
        let now = node.host.clock.monotonic();
        if let Some((at, report)) = &*last
            && now - *at < FRESH
        {
            return report.clone();
        }
        let report = probe(node).await;
        *last = Some((node.host.clock.monotonic(), report.clone()));
        report
    }
}

async fn probe(node: &Node) -> Report {
    let (status, queen) = match timeout(PROBE_TIMEOUT, node.queen.health()).await {
        Ok(Ok(health)) if health.healthy => {
            let version = health.version.map(|version| format!(", version {version}"));
            (
                Status::Ready,
                format!("healthy{}", version.unwrap_or_default()),
            )
        }
        Ok(Ok(_)) => (Status::Degraded, "calls itself unhealthy".to_owned()),
        Ok(Err(error @ Error::Refused(_))) => (Status::Degraded, error.to_string()),
        Ok(Err(error)) => (Status::Unavailable, error.to_string()),
        Err(_) => (
            Status::Unavailable,
            format!("no answer within {PROBE_TIMEOUT:?}"),
        ),
    };
    Report { status, queen }
}
