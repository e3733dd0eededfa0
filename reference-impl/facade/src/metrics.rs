//! The series of one facade.
//!
//! `registry` takes more series from any module, by their bare names: it puts [`PREFIX`] before all of
//! them. Label values come from closed sets only.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use host::budget::BudgetMetrics;
use host::gate::GateMetrics;
use host::metrics::{Counter, Gauge, Histogram, Registry, SECONDS};
use kafka_wire::schema::{self, Role, RoleSet};
use kafka_wire::walk::{self, Datum, Limits, Place, Value, Visitor};
use kafka_wire::{ApiKey, ErrorCode};

use crate::windows::WINDOWS;

/// What the names of all series of this program begin with.
pub const PREFIX: &str = "queen_kafka";

/// Names and meanings of series that appear with the first they count.
const RESPONSE_ERRORS: (&str, &str) = ("response_errors_total", "Error codes in responses.");
const CONNECTIONS_CLOSED: (&str, &str) = (
    "connections_closed_total",
    "Connections that ended, by reason.",
);
const SASL_AUTHENTICATIONS: (&str, &str) = (
    "sasl_authentications_total",
    "SASL authentications, by outcome.",
);

/// All series of one facade that its listener writes.
#[derive(Debug)]
pub struct Metrics {
    /// Where every series is registered and rendered.
    pub registry: Registry,
    /// Connections.
    pub gate: GateMetrics,
    /// The byte budget.
    pub budget: BudgetMetrics,
    /// Requests that are running.
    pub in_flight: Gauge,
    apis: BTreeMap<ApiKey, ApiSeries>,
}

#[derive(Debug)]
struct ApiSeries {
    requests: Counter,
    seconds: Histogram,
    received_bytes: Counter,
    sent_bytes: Counter,
    throttled: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(Registry::named(PREFIX))
    }
}

impl Metrics {
    /// Registers the series of the listener and of every served API.
    pub fn new(registry: Registry) -> Self {
        let apis = WINDOWS
            .iter()
            .map(|(key, _)| (key, ApiSeries::new(&registry, key)));
        let apis = apis.collect();
        for (name, help) in [RESPONSE_ERRORS, CONNECTIONS_CLOSED, SASL_AUTHENTICATIONS] {
            registry.declare_counter(name, help);
        }
        let in_flight = "Requests that were read and are not answered.";
        Self {
            gate: GateMetrics::register(&registry),
            budget: BudgetMetrics::register(&registry),
            in_flight: registry.gauge("requests_in_flight", in_flight, &[]),
            apis,
            registry,
        }
    }

    /// Counts a request of `bytes`.
    pub fn received(&self, key: ApiKey, bytes: usize) {
        self.in_flight.add(1);
        if let Some(series) = self.apis.get(&key) {
            series.requests.inc();
            series.received_bytes.add(bytes as u64);
        }
    }

    /// Counts the end of a request, answered or not.
    pub fn ended(&self, key: ApiKey, elapsed: Duration) {
        self.in_flight.add(-1);
        if let Some(series) = self.apis.get(&key) {
            series.seconds.observe(elapsed);
        }
    }

    /// Counts the response `body` (without its header): bytes, error codes, throttles. Found by
    /// their roles in the schema, so that no handler counts for itself.
    pub fn answered(&self, key: ApiKey, version: i16, body: &[u8]) {
        let (Some(series), Some(message)) = (self.apis.get(&key), schema::response(key)) else {
            return;
        };
        series.sent_bytes.add(body.len() as u64);
        let unlimited = Limits {
            max_elements: u32::MAX,
            ..Limits::DEFAULT
        };
        let mut codes = Codes::default();
        // Our own encoder's bytes; a defect there is a failing test, not a missing count.
        let _ = walk::visit(message, version, body, &unlimited, &mut codes);
        if codes.throttled {
            series.throttled.inc();
        }
        for (code, count) in codes.errors {
            let name = ErrorCode::from_code(code).map_or("UNKNOWN", ErrorCode::name);
            let api = key.name().unwrap_or("unknown");
            self.count(RESPONSE_ERRORS, &[("api", api), ("error", name)], count);
        }
    }

    /// Counts a connection that ended; `reason` is one of a closed set.
    pub fn closed(&self, reason: &'static str) {
        self.count(CONNECTIONS_CLOSED, &[("reason", reason)], 1);
    }

    /// Counts an authentication; `outcome` is one of a closed set.
    pub fn authentication(&self, outcome: &'static str) {
        self.count(SASL_AUTHENTICATIONS, &[("outcome", outcome)], 1);
    }

    fn count(&self, family: (&'static str, &'static str), labels: &[(&str, &str)], n: u64) {
        let (name, help) = family;
        self.registry.counter(name, help, labels).add(n);
    }
}

impl ApiSeries {
    fn new(registry: &Registry, key: ApiKey) -> Self {
        let labels = [("api", key.name().unwrap_or("unknown"))];
        let counter = |name, help| registry.counter(name, help, &labels);
        Self {
            requests: counter("requests_total", "Requests, by API."),
            seconds: registry.histogram(
                "request_seconds",
                "From the last byte of a request to its response, by API.",
                SECONDS,
                &labels,
            ),
            received_bytes: counter("request_bytes_total", "Bytes of requests, by API."),
            sent_bytes: counter("response_bytes_total", "Bytes of responses, by API."),
            throttled: counter(
                "throttled_responses_total",
                "Responses that told the client to wait, by API.",
            ),
        }
    }
}

#[derive(Default)]
struct Codes {
    errors: BTreeMap<i16, u64>,
    throttled: bool,
}

impl Visitor for Codes {
    type Stop = Infallible;

    fn roles(&self) -> RoleSet {
        RoleSet::of(&[Role::ErrorCode, Role::ThrottleMs])
    }

    fn value(&mut self, _: &Place<'_>, value: &Value<'_>) -> Result<(), Infallible> {
        match (value.field.role, value.datum) {
            (_, Datum::Int(0)) => {}
            (Role::ThrottleMs, _) => self.throttled = true,
            (_, Datum::Int(code)) => {
                let code = i16::try_from(code).unwrap_or(i16::MIN);
                *self.errors.entry(code).or_default() += 1;
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::HeartbeatResponse;
    use kafka_protocol::protocol::Encodable;

    use super::*;

    #[test]
    fn codes_and_throttles_are_found_in_the_bytes() {
        let metrics = Metrics::default();
        let response = HeartbeatResponse::default()
            .with_throttle_time_ms(100)
            .with_error_code(ErrorCode::RebalanceInProgress.code());
        let mut body = Vec::new();
        response.encode(&mut body, 4).unwrap();
        metrics.answered(ApiKey::HEARTBEAT, 4, &body);
        let text = metrics.registry.render();
        for line in [
            "queen_kafka_response_errors_total{api=\"Heartbeat\",error=\"REBALANCE_IN_PROGRESS\"} 1",
            "queen_kafka_throttled_responses_total{api=\"Heartbeat\"} 1",
            "queen_kafka_response_bytes_total{api=\"Heartbeat\"} 7",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
