//! A node over a Queen in this process, its clock tokio's, and requests put to its handlers.

use std::sync::Arc;

use bytes::BytesMut;
use facade::config::Config;
use facade::context::{Context, Node, NodeParts, Session, SessionId};
use facade::queen::{Credential, FragmentWriter, Repeat, Scope};
use fake_queen::faults::{Effect, RetryAfter, Rule};
use fake_queen::{Options, Queen};
use host::blocking::Blocking;
use host::net::Connect;
use host::shutdown::Trigger;
use host::{Clock, Host, Monotonic, WallTime};
use kafka_protocol::protocol::Encodable;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Both clocks are tokio's: rows expire when a paused test says that time has passed.
#[derive(Debug)]
struct TokioClock(tokio::time::Instant);

impl Clock for TokioClock {
    fn monotonic(&self) -> Monotonic {
        Monotonic::from_origin(self.0.elapsed())
    }

    fn wall(&self) -> WallTime {
        let since = i64::try_from(self.0.elapsed().as_millis()).expect("a short test");
        WallTime::from_epoch_ms(1_790_000_000_000 + since)
    }
}

/// The machine, with blocking work in place so that a paused clock stays paused.
pub fn host() -> Host {
    Host {
        clock: Arc::new(TokioClock(tokio::time::Instant::now())),
        blocking: Blocking::Inline,
        ..host::os::host()
    }
}

/// A facade and the Queen behind it.
pub struct Rig {
    pub queen: Queen,
    host: Host,
    pub node: Arc<Node>,
    connector: Arc<dyn Connect>,
    _running: Trigger,
}

impl Rig {
    /// A facade with default settings over Queen 1.6.
    pub async fn start() -> Self {
        Self::start_with(Options::default(), |_| {}).await
    }

    pub async fn start_with(options: Options, change: impl FnOnce(&mut Config)) -> Self {
        let host = host();
        let queen = Queen::start(host.clone(), options)
            .await
            .expect("in memory");
        let connector = queen.clone().in_process().connector;
        Self::over(queen, host, connector, change)
    }

    /// Another facade over the same Queen.
    pub fn beside(&self) -> Self {
        self.beside_with(|_| {})
    }

    pub fn beside_with(&self, change: impl FnOnce(&mut Config)) -> Self {
        let connector = Arc::clone(&self.connector);
        Self::over(self.queen.clone(), self.host.clone(), connector, change)
    }

    /// A facade that reaches `queen` through `connector`.
    pub fn over(
        queen: Queen,
        host: Host,
        connector: Arc<dyn Connect>,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let mut config = Config::local();
        change(&mut config);
        let (running, shutdown) = host::shutdown::shutdown();
        let node = Node::new(NodeParts {
            host: host.clone(),
            advertised: facade::config::HostPort::new("kafka.example", 9092),
            config: Arc::new(config),
            upstream: Arc::clone(&connector),
            shutdown,
            metrics: Arc::default(),
        });
        Self {
            queen,
            host,
            node,
            connector,
            _running: running,
        }
    }

    /// A request of `version` that has just arrived.
    pub fn cx(&self, version: i16) -> Context {
        let nowhere = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        Context {
            node: Arc::clone(&self.node),
            session: Session::new(SessionId(1), nowhere, None),
            version,
            client_id: None,
            received: self.node.host.clock.monotonic(),
            room: facade::room::Room::new(&self.node.budgets.answers, None),
        }
    }

    pub fn scope(&self) -> Scope {
        self.cx(0).session.scope.clone()
    }

    /// Answers the next calls of `route` with `status`.
    pub fn refuse(&self, route: &str, status: u16) {
        self.strike(Rule::always(route, refusal(status, None)));
    }

    /// Answers the calls of `route` with 429 and this `Retry-After`.
    pub fn throttle(&self, route: &str, seconds: u64) {
        self.strike(Rule::always(route, refusal(429, Some(seconds))));
    }

    pub fn strike(&self, rule: Rule) {
        self.queen.faults().add(rule);
    }

    pub fn heal(&self) {
        self.queen.faults().clear();
    }

    /// Counts the calls of `route` from now on; read it with [`Rig::counted`].
    pub fn count(&self, route: &str) {
        self.strike(Rule::always(route, Effect::Delay { ms: 0 }));
    }

    pub fn counted(&self, route: &str) -> u64 {
        let rules = self.queen.faults().rules();
        rules
            .iter()
            .find(|(rule, _)| rule.route.as_deref() == Some(route))
            .map_or(0, |(_, seen)| *seen)
    }

    /// Makes a queue as a native client does.
    pub async fn native_queue(&self, name: &str, options: Value) {
        let options = options.as_object().expect("options").clone();
        self.node
            .queen
            .configure(&Credential::default(), name, &options)
            .await
            .expect("configured");
    }

    /// Pushes one record to partition `partition`.
    pub async fn push(&self, queue: &str, partition: i32) {
        let mut writer = FragmentWriter::new(queue, partition, 64);
        writer
            .record(None, facade::envelope::RecordParts::default(), [])
            .expect("no header");
        self.node
            .queen
            .push(&Credential::default(), &[writer.finish()], Repeat::Unsafe)
            .await
            .expect("pushed");
    }

    /// Pushes one native record to a lane of any name.
    pub async fn push_native(&self, queue: &str, lane: &str) {
        let body =
            serde_json::json!({"items": [{"queue": queue, "partition": lane, "payload": 1}]});
        let body = body.to_string();
        let mut stream = self.connector.connect().await.expect("connected");
        let head = format!(
            "POST /api/v1/push HTTP/1.1\r\nhost: queen\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.expect("open");
        stream.write_all(body.as_bytes()).await.expect("open");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("answered");
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    }

    /// Writes a row of the key/value store.
    pub async fn put_row(&self, key: &str, value: &Value) {
        let mut batch = facade::queen::kv::Batch::new();
        batch.put_forever(key, value).expect("a legal row");
        self.node
            .queen
            .kv(&Credential::default(), &batch, Repeat::Safe)
            .await
            .expect("written");
    }

    /// The rows under `prefix`: key and value.
    pub async fn rows(&self, prefix: &str) -> Vec<(String, Value)> {
        let scan = self
            .node
            .queen
            .kv_scan(&Credential::default(), prefix, false, 100)
            .await
            .expect("read");
        scan.rows
            .into_iter()
            .map(|row| (row.key.clone(), row.value().expect("JSON")))
            .collect()
    }

    /// The options of a queue.
    pub async fn options(&self, queue: &str) -> serde_json::Map<String, Value> {
        self.node
            .queen
            .queue_options(&Credential::default(), queue)
            .await
            .expect("read")
            .expect("1.6 tells them")
    }
}

pub fn refusal(code: u16, retry_after: Option<u64>) -> Effect {
    Effect::Status {
        code,
        retry_after: retry_after.map(RetryAfter::Seconds),
        body: None,
    }
}

/// The response, once it is proven that `version` can carry it.
pub fn encodable<R: Encodable>(response: R, version: i16) -> R {
    let mut bytes = BytesMut::new();
    if let Err(error) = response.encode(&mut bytes, version) {
        panic!("version {version} can't carry the response: {error}");
    }
    response
}
