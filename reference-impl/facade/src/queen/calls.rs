//! How calls to Queen end and how long they take, by route: the first thing to look at when clients
//! wait. Counts only.

use std::collections::BTreeMap;
use std::time::Duration;

use host::metrics::{Counter, Histogram, Registry, SECONDS};

use super::error::{Class, Error};

/// The routes of the contract that this client calls, as labels.
const ROUTES: [&str; 12] = [
    "configure",
    "fetch",
    "fetch_offsets",
    "health",
    "identity",
    "kv",
    "other",
    "partitions_changed",
    "push",
    "queue",
    "queues",
    "transaction",
];

/// The series of one client.
#[derive(Debug)]
pub(super) struct CallMetrics {
    routes: BTreeMap<&'static str, RouteSeries>,
}

#[derive(Debug)]
struct RouteSeries {
    seconds: Histogram,
    answered: Counter,
    failed: BTreeMap<Class, Counter>,
}

impl CallMetrics {
    /// Registers the series of every route and outcome, so that a rate begins at nought.
    pub(super) fn register(registry: &Registry) -> Self {
        let routes = ROUTES.map(|route| (route, RouteSeries::register(registry, route)));
        Self {
            routes: routes.into(),
        }
    }

    /// Counts the end of a call of `path`.
    pub(super) fn ended<T>(&self, path: &str, elapsed: Duration, answer: &Result<T, Error>) {
        let Some(series) = self.routes.get(route(path)) else {
            return;
        };
        series.seconds.observe(elapsed);
        match answer {
            Ok(_) => series.answered.inc(),
            Err(error) => {
                if let Some(counter) = series.failed.get(&error.class()) {
                    counter.inc();
                }
            }
        }
    }
}

impl Default for CallMetrics {
    fn default() -> Self {
        Self::register(&Registry::default())
    }
}

impl RouteSeries {
    fn register(registry: &Registry, route: &'static str) -> Self {
        let ended = |outcome| {
            let help = "Calls of Queen, by route and by how they ended.";
            let labels = [("route", route), ("outcome", outcome)];
            registry.counter("queen_calls_total", help, &labels)
        };
        let failed = Class::ALL.map(|class| (class, ended(label(class))));
        Self {
            seconds: registry.histogram(
                "queen_call_seconds",
                "Time until Queen answered, by route; a fetch may wait for records meanwhile.",
                SECONDS,
                &[("route", route)],
            ),
            answered: ended("ok"),
            failed: failed.into(),
        }
    }
}

fn route(path: &str) -> &'static str {
    match path {
        "/api/v1/configure" => "configure",
        "/api/v1/fetch" => "fetch",
        "/api/v1/fetch/offsets" => "fetch_offsets",
        "/api/v1/kv" => "kv",
        "/api/v1/partitions/changed" => "partitions_changed",
        "/api/v1/push" => "push",
        "/api/v1/resources/queues" => "queues",
        "/api/v1/transaction" => "transaction",
        "/auth/me" => "identity",
        "/health" => "health",
        _ if path.starts_with("/api/v1/resources/queues/") => "queue",
        _ => "other",
    }
}

const fn label(class: Class) -> &'static str {
    match class {
        Class::Unauthenticated => "unauthenticated",
        Class::Forbidden => "forbidden",
        Class::TooLarge => "too_large",
        Class::Throttled => "throttled",
        Class::NotFound => "not_found",
        Class::Rejected => "rejected",
        Class::Unavailable => "unavailable",
        Class::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use host::metrics::Registry;

    use super::{CallMetrics, ROUTES, route};
    use crate::queen::Error;

    #[test]
    fn calls_are_counted_by_route_and_end() {
        let registry = Registry::default();
        let metrics = CallMetrics::register(&registry);
        let (took, busy) = (Duration::from_millis(200), Err::<(), _>(Error::Busy));
        metrics.ended("/api/v1/push", took, &Ok(()));
        metrics.ended("/api/v1/push", took, &busy);
        metrics.ended("/api/v1/resources/queues/a%2Fb", took, &busy);
        let text = registry.render();
        for line in [
            "queen_calls_total{route=\"push\",outcome=\"ok\"} 1",
            "queen_calls_total{route=\"push\",outcome=\"unavailable\"} 1",
            "queen_calls_total{route=\"push\",outcome=\"throttled\"} 0",
            "queen_calls_total{route=\"queue\",outcome=\"unavailable\"} 1",
            "queen_call_seconds_count{route=\"push\"} 2",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    #[test]
    fn every_path_has_a_route_that_is_registered() {
        for path in ["/api/v1/kv", "/api/v1/resources/queues/x", "/", ""] {
            assert!(ROUTES.contains(&route(path)), "{path}");
        }
    }
}
