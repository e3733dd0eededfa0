//! Which class a method and a path have (contract section 8). Pure. Paths are compared as they
//! were sent: another spelling of a route is no route.

use http::Method;
use serde::Deserialize;

/// What a plan may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Feature {
    /// The KV store, beyond what Kafka's groups and transactions keep there.
    Kv,
    /// Delayed messages.
    Timers,
    /// Stream processing.
    Streams,
    /// Message traces.
    Traces,
    /// Queues without a log.
    Ephemeral,
}

/// What a route asks of a credential and of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Appends: the `produce` scope.
    Produce,
    /// Delivers or moves a position: the `consume` scope.
    Consume,
    /// Makes and deletes: the `admin` scope.
    QueueAdmin,
    /// Appends what was dead again: the `admin` scope, and stopped by what stops a push.
    Replay,
    /// Looks: the `read` or the `admin` scope.
    Read,
    /// Needs a feature of the plan. A write needs `produce` or `consume`, a read any scope.
    Gated(Feature, Access),
    /// `POST /api/v1/kv`: its body tells whether it is [`Class::Consume`] or gated.
    Kv,
    /// Not for keys.
    Operator,
    /// `GET /auth/me`: answered here.
    Identity,
    /// `GET /health`: answered here, to everybody.
    Health,
    /// Not there.
    Blocked,
}

/// What a gated route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Looks.
    Read,
    /// Stores more, or may.
    Grow,
    /// Removes.
    Shrink,
}

impl Class {
    /// The class of a call.
    pub fn of(method: &Method, path: &str) -> Self {
        let (get, post) = (
            *method == Method::GET || *method == Method::HEAD,
            *method == Method::POST,
        );
        let delete = *method == Method::DELETE;
        let Some(rest) = path.strip_prefix("/api/v1/") else {
            return match path {
                "/auth/me" if get => Self::Identity,
                "/health" if get => Self::Health,
                "/metrics/prometheus" if get => Self::Operator,
                _ => Self::Blocked,
            };
        };
        let segments: Vec<&str> = rest.split('/').collect();
        match segments.as_slice() {
            ["push" | "transaction"] if post => Self::Produce,
            ["fetch"] | ["partitions", "changed"] if post => Self::Consume,
            ["ack"] | ["ack", "batch"] | ["lease", _, "extend"] if post => Self::Consume,
            ["pop", "queue", _] | ["pop", "queue", _, "partition", _] if get => Self::Consume,
            ["configure"] if post => Self::QueueAdmin,
            ["resources", "queues", _, ..] if delete => Self::QueueAdmin,
            ["consumer-groups", _, ..] if delete || post => Self::QueueAdmin,
            ["dlq", ..] if delete => Self::QueueAdmin,
            ["dlq", ..] if post => Self::Replay,
            ["status"] | ["status", "buffers"] if get => Self::Operator,
            ["analytics", "system-metrics" | "worker-metrics"] if get => Self::Operator,
            ["maintenance", ..] => Self::Operator,
            ["kv"] | ["kv", ""] if post => Self::Kv,
            ["kv", _, _, ..] | ["resources", "kv", ..] if get => {
                Self::Gated(Feature::Kv, Access::Read)
            }
            ["resources", "kv", "list"] if post => Self::Gated(Feature::Kv, Access::Read),
            ["kv", _, _, ..] if delete => Self::Gated(Feature::Kv, Access::Shrink),
            ["kv", _, _, ..] if *method == Method::PUT => Self::Gated(Feature::Kv, Access::Grow),
            ["resources" | "status" | "analytics" | "consumer-groups", ..] if get => Self::Read,
            ["dlq" | "traces" | "messages", ..] if get => Self::Read,
            ["timers", ..] => Self::Gated(Feature::Timers, access(get)),
            ["streams", ..] => Self::Gated(Feature::Streams, access(get)),
            ["traces", ..] if post => Self::Gated(Feature::Traces, Access::Grow),
            ["ephemeral", ..] => Self::Gated(Feature::Ephemeral, access(get)),
            _ => Self::Blocked,
        }
    }

    /// Whether a plan's blocks of storage, of the month or by hand stop it.
    pub const fn grows(self) -> bool {
        matches!(
            self,
            Self::Produce | Self::Replay | Self::Gated(_, Access::Grow)
        )
    }
}

const fn access(get: bool) -> Access {
    if get { Access::Read } else { Access::Grow }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("POST", "/api/v1/push", Class::Produce)]
    #[case("POST", "/api/v1/transaction", Class::Produce)]
    #[case("GET", "/api/v1/pop/queue/a%2Fb/partition/0", Class::Consume)]
    #[case("GET", "/api/v1/pop", Class::Blocked)]
    #[case("POST", "/api/v1/fetch", Class::Consume)]
    #[case("GET", "/api/v1/fetch", Class::Blocked)]
    #[case("POST", "/api/v1/fetch/", Class::Blocked)]
    #[case("POST", "/api/v1/fetch/offsets", Class::Blocked)]
    #[case("POST", "/api/v1/%66etch", Class::Blocked)]
    #[case("POST", "/api/v1/partitions/changed", Class::Consume)]
    #[case("POST", "/api/v1/configure", Class::QueueAdmin)]
    #[case("DELETE", "/api/v1/resources/queues/q", Class::QueueAdmin)]
    #[case("DELETE", "/api/v1/consumer-groups/g", Class::QueueAdmin)]
    #[case("POST", "/api/v1/dlq/7/replay", Class::Replay)]
    #[case("GET", "/api/v1/resources/queues", Class::Read)]
    #[case("HEAD", "/api/v1/messages/1/2", Class::Read)]
    #[case("GET", "/api/v1/status/queues", Class::Read)]
    #[case("GET", "/api/v1/status", Class::Operator)]
    #[case("POST", "/api/v1/kv", Class::Kv)]
    #[case("POST", "/api/v1/kv/", Class::Kv)]
    #[case("PUT", "/api/v1/kv/ns/qk:x", Class::Gated(Feature::Kv, Access::Grow))]
    #[case("GET", "/api/v1/kv/ns/k", Class::Gated(Feature::Kv, Access::Read))]
    #[case("POST", "/api/v1/system/kv-timers", Class::Blocked)]
    #[case("GET", "/api/v1/raft/members", Class::Blocked)]
    #[case("GET", "/api/v2/push", Class::Blocked)]
    #[case("POST", "/fake/faults", Class::Blocked)]
    #[case("GET", "/metrics", Class::Blocked)]
    #[case("GET", "/auth/me", Class::Identity)]
    fn routes_have_classes(#[case] method: Method, #[case] path: &str, #[case] class: Class) {
        assert_eq!(Class::of(&method, path), class);
    }
}
