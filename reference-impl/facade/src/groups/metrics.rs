//! The series of the groups of one node.

use host::metrics::{Counter, Gauge, Registry};

#[derive(Debug)]
pub(super) struct Metrics {
    pub(super) groups: Gauge,
    pub(super) members: Gauge,
    pub(super) rebalances: Counter,
    pub(super) refused: Counter,
    pub(super) bytes: Gauge,
    pub(super) crowded: Counter,
}

impl Metrics {
    pub(super) fn new(registry: &Registry) -> Self {
        Self {
            groups: registry.gauge("groups", "Consumer groups this process coordinates", &[]),
            members: registry.gauge("group_members", "Members of all consumer groups", &[]),
            rebalances: registry.counter("group_rebalances_total", "Rebalances that began", &[]),
            refused: registry.counter(
                "groups_refused_total",
                "Groups not made because there are too many",
                &[],
            ),
            bytes: registry.gauge(
                "group_bytes",
                "Bytes of metadata and assignments that all consumer groups hold",
                &[],
            ),
            crowded: registry.counter(
                "group_requests_without_room_total",
                "Joins and assignments refused because all groups together hold too much",
                &[],
            ),
        }
    }
}
