//! The series of transactions.

use host::metrics::{Counter, Gauge, Registry};

#[derive(Debug)]
pub(super) struct Metrics {
    open: Gauge,
    staged: Gauge,
    pub(super) refused: Counter,
    pub(super) committed: Counter,
    pub(super) aborted: Counter,
    pub(super) expired: Counter,
    pub(super) fenced: Counter,
    pub(super) landed: Counter,
}

impl Metrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let counter = |name, help| registry.counter(name, help, &[]);
        let gauge = |name, help| registry.gauge(name, help, &[]);
        Self {
            open: gauge("transactions_open", "Open transactions"),
            staged: gauge(
                "transaction_staged_bytes",
                "Bytes of open transactions that wait in this process",
            ),
            refused: counter(
                "transactions_refused_total",
                "Transactions not begun because too many were open",
            ),
            committed: counter("transactions_committed_total", "Transactions committed"),
            aborted: counter(
                "transactions_aborted_total",
                "Transactions aborted by their producers",
            ),
            expired: counter(
                "transactions_expired_total",
                "Transactions aborted because their time was over",
            ),
            fenced: counter(
                "transactions_fenced_total",
                "Ends and claims that met the marker of another process",
            ),
            landed: counter(
                "transactions_landed_total",
                "Writes whose answer was lost and that were found applied",
            ),
        }
    }

    pub(super) fn open(&self, open: usize) {
        self.open.set(i64::try_from(open).unwrap_or(i64::MAX));
    }

    pub(super) fn staged(&self, bytes: usize) {
        self.staged.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
}
