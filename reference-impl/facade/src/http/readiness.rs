//! Whether a client would be served: asked of Queen, at most once a second. In a cluster, also what
//! this node sees of it.

use std::time::Duration;

use coordinator::cluster::Standing;
use host::Monotonic;
use host::shutdown::Phase;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::{Body, text};
use crate::cluster::Cluster;
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
    /// This node among the others; absent outside a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<Place>,
}

/// This node's place in its cluster, as it sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Place {
    node_id: i32,
    standing: &'static str,
    /// The ids of the live nodes in its newest view.
    live: Vec<i32>,
    /// Why it is not served as it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

impl Place {
    fn of(cluster: &Cluster) -> Self {
        let live = cluster.live();
        let (standing, reason) = said(cluster.standing(), live.contains(&cluster.id()));
        Self {
            node_id: cluster.id().0,
            standing,
            live: live.iter().map(|id| id.0).collect(),
            reason,
        }
    }
}

/// What a standing is called, and why the node is not served as it should be; `is_seen` when the own
/// row is among those that were read.
const fn said(standing: Standing, is_seen: bool) -> (&'static str, Option<&'static str>) {
    match standing {
        Standing::Claiming => ("claiming", Some("the node id is not this node's yet")),
        // Written and not read back: peers do not see this node either.
        Standing::Coordinating if !is_seen => (
            "coordinating",
            Some("this node's own row is not among those that the registry shows"),
        ),
        Standing::Coordinating => ("coordinating", None),
        Standing::Blind => (
            "blind",
            Some("the registry has not confirmed this node's row for one TTL"),
        ),
        Standing::Latched => ("latched", Some("another process took this node's id")),
        Standing::Released => ("released", Some("this node gave its id back")),
    }
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
                cluster: node.cluster.as_ref().map(Place::of),
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
    let cluster = node.cluster.as_ref().map(Place::of);
    // Records are served still: a balancer that took every such node away would turn an outage of
    // the registry into one of the whole door.
    let status = match (status, &cluster) {
        (Status::Ready, Some(place)) if place.reason.is_some() => Status::Degraded,
        (status, _) => status,
    };
    Report {
        status,
        queen,
        cluster,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_node_that_coordinates_and_is_seen_is_as_it_should_be() {
        use Standing::{Blind, Claiming, Coordinating, Latched, Released};
        for standing in [Blind, Claiming, Coordinating, Latched, Released] {
            for is_seen in [true, false] {
                let is_well = said(standing, is_seen).1.is_none();
                let expected = standing == Coordinating && is_seen;
                assert_eq!(is_well, expected, "{standing:?} {is_seen}");
            }
        }
    }
}
