//! The produce path against a scripted Queen. Time is paused: it moves when everybody waits.

mod batches;
mod exactly_once;
mod gathering;
mod handler;
mod leaders;
mod refusals;
mod times;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use host::Host;
use kafka_wire::ErrorCode;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::admit::{Admission, Admitted, Request, Topic};
use super::{Failure, Outcome, Produce, Tolerance};
use crate::queen::{Credential, Scope};
use crate::scripted_queen::{ScriptedQueen, test_host};
use crate::time_index::TimeIndex;
use batches::Producer;

/// A node's produce path over a scripted Queen, and one credential.
struct World {
    queen: ScriptedQueen,
    host: Host,
    produce: Produce,
    credential: Credential,
    _stop: host::shutdown::Trigger,
    version: i16,
    timeout: Duration,
}

impl World {
    fn new() -> Self {
        Self::over(ScriptedQueen::start())
    }

    /// A fresh process in front of the same Queen.
    fn over(queen: ScriptedQueen) -> Self {
        Self::node(queen, false)
    }

    /// One node of several in front of the same Queen.
    fn node(queen: ScriptedQueen, clustered: bool) -> Self {
        let host = test_host();
        let registry = host::metrics::Registry::default();
        let client = queen.client(&host);
        let (stop, shutdown) = host::shutdown::shutdown();
        let index = Arc::new(TimeIndex::new());
        let produce = Produce::new(&host, (client, clustered), index, shutdown, &registry);
        Self {
            queen,
            host,
            produce,
            credential: Credential::default(),
            _stop: stop,
            version: 9,
            timeout: Duration::from_secs(30),
        }
    }

    /// Admits one request; the outcomes come later.
    async fn admit(&self, batches: Vec<(&Topic, i32, Bytes)>) -> Vec<Admitted> {
        let request = Request {
            scope: Scope::new("tenant"),
            version: self.version,
            received: self.host.clock.monotonic(),
            received_at: self.host.clock.wall(),
            timeout: self.timeout,
        };
        let mut admission = Admission::new(
            &self.produce,
            self.produce.gatherer(&self.credential),
            request,
            Arc::clone(&self.host.entropy),
            self.host.blocking,
        );
        let mut admitted = Vec::new();
        for (topic, partition, records) in batches {
            admitted.push(admission.partition(topic, partition, Some(records)).await);
        }
        admission.finish();
        admitted
    }

    /// One batch to partition 0 of `topic`, from admission to outcome.
    async fn produce(&self, topic: &Topic, records: Bytes) -> Outcome {
        self.produce_to(topic, 0, records).await
    }

    async fn produce_to(&self, topic: &Topic, partition: i32, records: Bytes) -> Outcome {
        let mut admitted = self.admit(vec![(topic, partition, records)]).await;
        outcome(admitted.remove(0)).await
    }

    /// The values stored in a lane, decoded.
    fn values(&self, topic: &Topic, partition: i32) -> Vec<String> {
        let stored = self.queen.stored(&topic.name, partition);
        let values = stored.iter().map(|record| {
            let text = record.payload["v"].as_str().expect("an envelope");
            let bytes = base64_simd::STANDARD.decode_to_vec(text).expect("base64");
            String::from_utf8(bytes).expect("text")
        });
        values.collect()
    }
}

async fn outcome(admitted: Admitted) -> Outcome {
    match admitted {
        Admitted::Pending(outcome) => settled(outcome).await,
        Admitted::Refused(failure) => Outcome {
            result: Err(failure),
            throttle: Duration::ZERO,
        },
        Admitted::Stored { base_offset } => Outcome {
            result: Ok(base_offset),
            throttle: Duration::ZERO,
        },
    }
}

async fn settled(outcome: oneshot::Receiver<Outcome>) -> Outcome {
    // Far beyond every time the path allows itself: a lost answer fails instead of hanging.
    let patience = Duration::from_secs(120);
    let settled = tokio::time::timeout(patience, outcome).await;
    settled.expect("an answer in time").expect("an answer")
}

fn topic(name: &str) -> Topic {
    Topic {
        name: Arc::from(name),
        id: Uuid::parse_str(&crate::scripted_queen::id_of(name)).expect("a uuid"),
        deduplicates: true,
        max_message_bytes: None,
        timestamps: Tolerance::ANY,
    }
}

fn code(outcome: &Outcome) -> ErrorCode {
    match &outcome.result {
        Ok(_) => ErrorCode::None,
        Err(Failure { code, .. }) => *code,
    }
}

fn base(outcome: &Outcome) -> i64 {
    *outcome.result.as_ref().expect("stored")
}

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|n| n.to_string()).collect()
}

fn producer(id: i64) -> Producer {
    Producer {
        id,
        epoch: 0,
        sequence: 0,
    }
}
