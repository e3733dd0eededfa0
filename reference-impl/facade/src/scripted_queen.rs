//! For tests: a Queen in memory that does what it's told. It keeps lanes, recognises transaction
//! ids and parks fetches as the contract says; faults are queued per route, first in, first out.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use host::blocking::Blocking;
use host::net::Listener;
use host::shutdown::Trigger;
use host::{Clock, Entropy, Host, Monotonic, WallTime};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::config::Config;
use crate::context::{Context, Node, NodeParts, Session, SessionId};
use crate::queen::Client;

/// What goes wrong with one call.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Nothing: lets a later fault wait for its turn.
    None,
    /// Refused as a whole.
    Status(u16),
    /// 429 with this `Retry-After`.
    Throttled(u64),
    /// The connection ends before anything is applied.
    LostBefore,
    /// Applied, then the connection ends.
    LostAfter,
    /// The connection ends, and this much later the call is applied all the same.
    AppliedLate(Duration),
    /// Answered this much later; applied at once.
    Slow(Duration),
    /// Every item of a push gets this status and no offset.
    Items(&'static str),
}

/// One stored record.
#[derive(Clone, Debug)]
pub struct Stored {
    pub payload: Value,
    /// Its name, when it was pushed with one.
    pub id: Option<String>,
}

/// One call, as it arrived.
#[derive(Clone, Debug)]
pub struct Call {
    pub path: String,
    pub bearer: Option<String>,
    pub body: Value,
    pub bytes: usize,
}

#[derive(Debug, Default)]
struct World {
    queues: BTreeMap<String, BTreeMap<String, Lane>>,
    rows: BTreeMap<String, (Value, u64)>,
    versions: u64,
    faults: BTreeMap<String, VecDeque<Fault>>,
    calls: Vec<Call>,
    max_body_bytes: Option<usize>,
    forbidden_queue: Option<String>,
    broken: Option<Fault>,
    changing: Option<String>,
    pushes_now: usize,
    pushes_at_once: usize,
}

#[derive(Debug, Default)]
struct Lane {
    log_start: i64,
    records: Vec<Stored>,
    by_id: BTreeMap<String, usize>,
}

/// A handle on a scripted Queen. Dropping the last one stops nothing: its tasks end with the
/// runtime.
#[derive(Clone, Debug)]
pub struct ScriptedQueen {
    world: Arc<Mutex<World>>,
    changed: Arc<Notify>,
    connector: Arc<host::pipe::PipeConnector>,
}

impl ScriptedQueen {
    /// A Queen with no queues, served over pipes.
    pub fn start() -> Self {
        let (connector, mut listener) = host::pipe::pipe(256 << 10);
        let queen = Self {
            world: Arc::default(),
            changed: Arc::default(),
            connector: Arc::new(connector),
        };
        let serving = queen.clone();
        tokio::spawn(async move {
            while let Ok(stream) = listener.accept().await {
                let serving = serving.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request| serving.clone().serve(request));
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        queen
    }

    /// A client of this Queen on `host`.
    pub fn client(&self, host: &Host) -> Arc<Client> {
        let connector = Arc::clone(&self.connector) as Arc<dyn host::Connect>;
        Arc::new(Client::new(host, connector, "queen").expect("a legal authority"))
    }

    /// Streams to this Queen.
    pub fn connector(&self) -> Arc<dyn host::Connect> {
        Arc::clone(&self.connector) as Arc<dyn host::Connect>
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the next calls of `route` (`push`, `fetch`, `kv`, …) go wrong, in this order.
    pub fn script(&self, route: &str, faults: impl IntoIterator<Item = Fault>) {
        let mut world = self.world();
        world
            .faults
            .entry(route.to_owned())
            .or_default()
            .extend(faults);
    }

    /// Lets every call go wrong for which nothing is scripted.
    pub fn break_down(&self, fault: Fault) {
        self.world().broken = Some(fault);
    }

    /// Refuses bodies beyond this with 413.
    pub fn limit_bodies(&self, max_bytes: usize) {
        self.world().max_body_bytes = Some(max_bytes);
    }

    /// Answers 403 to every push that names this queue.
    pub fn forbid(&self, queue: &str) {
        self.world().forbidden_queue = Some(queue.to_owned());
    }

    /// Makes a queue without lanes.
    pub fn create(&self, queue: &str) {
        self.world().queues.entry(queue.to_owned()).or_default();
    }

    /// Writes a row, as another program would.
    pub fn store_row(&self, key: &str, value: Value) {
        let mut world = self.world();
        world.versions += 1;
        let version = world.versions;
        world.rows.insert(key.to_owned(), (value, version));
    }

    /// Lets another program write the row of this key again before each call.
    pub fn keep_changing(&self, key: &str) {
        self.world().changing = Some(key.to_owned());
    }

    /// Deletes a queue.
    pub fn delete(&self, queue: &str) {
        self.world().queues.remove(queue);
    }

    /// Stores a payload as a native producer would.
    pub fn store(&self, queue: &str, partition: i32, payload: Value) {
        let mut world = self.world();
        let lanes = world.queues.entry(queue.to_owned()).or_default();
        let lane = lanes.entry(partition.to_string()).or_default();
        lane.records.push(Stored { payload, id: None });
        drop(world);
        self.changed.notify_waiters();
    }

    /// Moves the start of a lane's log, as retention does.
    pub fn retain_from(&self, queue: &str, partition: i32, log_start: i64) {
        let mut world = self.world();
        if let Some(lane) = world
            .queues
            .get_mut(queue)
            .and_then(|lanes| lanes.get_mut(&partition.to_string()))
        {
            lane.log_start = log_start;
        }
    }

    /// The records of a lane.
    pub fn stored(&self, queue: &str, partition: i32) -> Vec<Stored> {
        let world = self.world();
        let lane = world
            .queues
            .get(queue)
            .and_then(|lanes| lanes.get(&partition.to_string()));
        lane.map(|lane| lane.records.clone()).unwrap_or_default()
    }

    /// The calls of `route` so far.
    pub fn calls(&self, route: &str) -> Vec<Call> {
        let path = format!("/api/v1/{route}");
        let world = self.world();
        let calls = world.calls.iter().filter(|call| call.path == path);
        calls.cloned().collect()
    }

    /// The most pushes that were in progress at one time.
    pub fn pushes_at_once(&self) -> usize {
        self.world().pushes_at_once
    }

    async fn serve(
        self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, std::io::Error> {
        let path = request.uri().path().to_owned();
        let bearer = request.headers().get("authorization");
        let bearer = bearer.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let lost = || std::io::Error::from(std::io::ErrorKind::ConnectionAborted);
        let bytes = request
            .into_body()
            .collect()
            .await
            .map_err(|_| lost())?
            .to_bytes();
        let body: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let route = path.strip_prefix("/api/v1/").unwrap_or(&path).to_owned();
        let fault = {
            let mut world = self.world();
            world.calls.push(Call {
                path,
                bearer,
                body: body.clone(),
                bytes: bytes.len(),
            });
            if route == "push" {
                world.pushes_now += 1;
                world.pushes_at_once = world.pushes_at_once.max(world.pushes_now);
            }
            let queued = world.faults.get_mut(&route).and_then(VecDeque::pop_front);
            let broken = world.broken.clone();
            queued.or(broken).unwrap_or(Fault::None)
        };
        if let Fault::AppliedLate(delay) = fault {
            let late = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                late.answer(&route, &body, bytes.len(), &Fault::None).await
            });
            return Err(lost());
        }
        let answer = self.answer(&route, &body, bytes.len(), &fault).await;
        if route == "push" {
            self.world().pushes_now -= 1;
        }
        match (fault, answer) {
            (Fault::LostBefore | Fault::LostAfter, _) => Err(lost()),
            (Fault::Throttled(seconds), _) => Ok(Response::builder()
                .status(429)
                .header("retry-after", seconds.to_string())
                .body(Full::default())
                .expect("a response")),
            (_, (status, body)) => Ok(Response::builder()
                .status(status)
                .body(Full::from(body.to_string()))
                .expect("a response")),
        }
    }

    async fn answer(&self, route: &str, body: &Value, bytes: usize, fault: &Fault) -> (u16, Value) {
        match fault {
            Fault::Status(status) => return (*status, json!({"error": "scripted"})),
            Fault::LostBefore | Fault::Throttled(_) => return (500, Value::Null),
            _ => {}
        }
        let answer = match route {
            "push" => self.push(body, bytes, fault),
            "fetch" => self.fetch(body).await,
            "kv" => self.kv(body),
            "configure" => {
                let queue = body["queue"].as_str().unwrap_or_default();
                self.create(queue);
                (
                    200,
                    json!({"configured": true, "queueId": id_of(queue), "queue": queue, "options": {"dedupWindowSeconds": 3600}}),
                )
            }
            "resources/queues" => (200, self.queues()),
            _ => match route.strip_prefix("resources/queues/") {
                Some(queue) if self.world().queues.contains_key(queue) => (
                    200,
                    json!({"name": queue, "id": id_of(queue), "options": {"dedupWindowSeconds": 3600}}),
                ),
                Some(_) => (404, json!({"error": "Queue not found"})),
                None => (404, json!({"error": "Not Found", "code": "no_such_route"})),
            },
        };
        if let Fault::Slow(delay) = fault {
            tokio::time::sleep(*delay).await;
        }
        answer
    }

    fn queues(&self) -> Value {
        let world = self.world();
        let queues = world.queues.iter().map(|(name, lanes)| {
            json!({"id": id_of(name), "name": name, "partitions": lanes.len(), "retainedBytes": 0})
        });
        json!({"queues": queues.collect::<Vec<_>>()})
    }

    fn push(&self, body: &Value, bytes: usize, fault: &Fault) -> (u16, Value) {
        let mut world = self.world();
        if world.max_body_bytes.is_some_and(|max| bytes > max) {
            return (413, json!({"error": "too large"}));
        }
        let Some(items) = body["items"].as_array() else {
            return (400, json!({"error": "bad body: items"}));
        };
        let forbidden = world.forbidden_queue.clone();
        if items
            .iter()
            .any(|item| item["queue"].as_str() == forbidden.as_deref() && forbidden.is_some())
        {
            return (
                403,
                json!({"error": "no produce scope", "code": "forbidden"}),
            );
        }
        let mut verdicts = Vec::new();
        for (index, item) in items.iter().enumerate() {
            if let Fault::Items(status) = fault {
                verdicts.push(json!({"index": index, "status": status}));
                continue;
            }
            let queue = item["queue"].as_str().unwrap_or_default();
            let partition = item["partition"].as_str().unwrap_or("Default");
            let id = item["transactionId"].as_str().map(str::to_owned);
            let lanes = world.queues.entry(queue.to_owned()).or_default();
            let lane = lanes.entry(partition.to_owned()).or_default();
            let known = id.as_ref().and_then(|id| lane.by_id.get(id).copied());
            let (status, offset) = match known {
                Some(at) => ("duplicate", at),
                None => {
                    if let Some(id) = &id {
                        lane.by_id.insert(id.clone(), lane.records.len());
                    }
                    lane.records.push(Stored {
                        payload: item["payload"].clone(),
                        id,
                    });
                    ("queued", lane.records.len() - 1)
                }
            };
            verdicts.push(
                json!({"index": index, "message_id": "m", "transaction_id": "t",
                "queueName": queue, "status": status, "offset": offset}),
            );
        }
        drop(world);
        self.changed.notify_waiters();
        (201, Value::Array(verdicts))
    }

    async fn fetch(&self, body: &Value) -> (u16, Value) {
        let entries = body["entries"].as_array().cloned().unwrap_or_default();
        let refused = entries.len() > 1024
            || entries
                .iter()
                .any(|entry| entry["offset"].as_i64().is_none_or(|offset| offset < 0));
        if refused {
            return (400, json!({"error": "bad body: entries"}));
        }
        let min_bytes = body["minBytes"].as_i64().unwrap_or(1);
        let wait = Duration::from_millis(body["maxWaitMs"].as_u64().unwrap_or(0).min(30_000));
        let deadline = tokio::time::Instant::now() + wait;
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            let (bytes, failed, answer) = self.read(&entries);
            if failed || bytes >= min_bytes || tokio::time::Instant::now() >= deadline {
                return (200, json!({"entries": answer}));
            }
            let _ = tokio::time::timeout_at(deadline, changed).await;
        }
    }

    fn read(&self, entries: &[Value]) -> (i64, bool, Vec<Value>) {
        let world = self.world();
        let (mut bytes, mut failed) = (0, false);
        let mut answers = Vec::new();
        for entry in entries {
            let queue = entry["queue"].as_str().unwrap_or_default();
            let partition = entry["partition"].as_str().unwrap_or_default();
            let offset = entry["offset"].as_i64().unwrap_or_default();
            let max_bytes = entry["maxBytes"].as_i64().unwrap_or(1 << 20);
            let mut answer = json!({"queue": queue, "partition": partition, "records": [],
                "highWatermark": 0, "logStartOffset": 0});
            let Some(lanes) = world.queues.get(queue) else {
                failed = true;
                answer["error"] = json!("UNKNOWN_TOPIC_OR_PARTITION");
                answers.push(answer);
                continue;
            };
            let empty = Lane::default();
            let lane = lanes.get(partition).unwrap_or(&empty);
            let end = i64::try_from(lane.records.len()).expect("a short log");
            answer["highWatermark"] = json!(end);
            answer["logStartOffset"] = json!(lane.log_start);
            if offset < lane.log_start || offset > end {
                failed = true;
                answer["error"] = json!("OFFSET_OUT_OF_RANGE");
            } else {
                let mut records = Vec::new();
                let mut spent = 0;
                for (at, stored) in lane
                    .records
                    .iter()
                    .enumerate()
                    .skip(usize::try_from(offset).expect("not negative"))
                {
                    // Queen counts compressed bytes: something else than its answer, at any rate.
                    let size = i64::try_from(stored.payload.to_string().len() / 2).expect("short");
                    // The first record of the call is delivered whatever it weighs.
                    if spent + size > max_bytes && bytes > 0 {
                        break;
                    }
                    spent += size;
                    bytes += size;
                    records.push(
                        json!({"offset": at, "transactionId": stored.id.as_deref().unwrap_or("t"),
                        "payload": stored.payload,
                        "ts": "2026-09-11T08:30:15.123456Z"}),
                    );
                }
                answer["records"] = Value::Array(records);
            }
            answers.push(answer);
        }
        (bytes, failed, answers)
    }

    fn kv(&self, body: &Value) -> (u16, Value) {
        let mut world = self.world();
        let operations = body["operations"]
            .as_array()
            .or(body.as_array())
            .cloned()
            .unwrap_or_default();
        let mut results = Vec::new();
        if let Some(key) = world.changing.clone() {
            world.versions += 1;
            let version = world.versions;
            world.rows.insert(key, (json!({"offset": 0}), version));
        }
        let before = world.rows.clone();
        for (index, operation) in operations.iter().enumerate() {
            let op = operation["op"].as_str().unwrap_or_default();
            let key = operation["key"].as_str().unwrap_or_default().to_owned();
            results.push(match op {
                "put" | "delete" => {
                    let held = world.rows.get(&key).cloned();
                    let expected = operation.get("expect").and_then(Value::as_u64);
                    let lost = match expected {
                        Some(expected) => held.as_ref().map_or(0, |row| row.1) != expected,
                        None => op == "delete" && held.is_none(),
                    };
                    if lost {
                        let (value, version) = held.unwrap_or((Value::Null, 0));
                        let reason = match (expected, version) {
                            (Some(0), _) => "exists",
                            (_, 0) => "absent",
                            _ => "version",
                        };
                        if operation["required"] == true {
                            world.rows = before;
                            return (200, json!({"ok": false, "reason": "kv_precondition", "failedIndex": index, "kvReason": reason, "version": version, "value": value}));
                        }
                        json!({"index": index, "op": op, "applied": false, "reason": reason, "key": key, "value": value, "version": version})
                    } else if op == "delete" {
                        let (value, version) = world.rows.remove(&key).unwrap_or((Value::Null, 0));
                        json!({"index": index, "op": op, "applied": true, "key": key, "value": value, "version": version})
                    } else {
                        world.versions += 1;
                        let version = world.versions;
                        world.rows.insert(key.clone(), (operation["value"].clone(), version));
                        json!({"index": index, "op": op, "applied": true, "key": key, "value": operation["value"], "version": version})
                    }
                }
                "getMany" => {
                    let keys: Vec<&str> = operation["keys"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                    let rows: Vec<Value> = keys.iter().filter_map(|key| row(&world, key)).collect();
                    let missing: Vec<&&str> = keys.iter().filter(|key| !world.rows.contains_key(**key)).collect();
                    json!({"index": index, "op": op, "rows": rows, "missing": missing, "truncated": false})
                }
                _ => {
                    let prefix = operation["prefix"].as_str().unwrap_or_default();
                    let after = operation["after"].as_str().unwrap_or_default();
                    let limit = usize::try_from(operation["limit"].as_u64().unwrap_or(100)).expect("small");
                    let mut keys: Vec<&String> = world.rows.keys().filter(|key| key.starts_with(prefix) && key.as_str() > after).collect();
                    let truncated = keys.len() > limit;
                    keys.truncate(limit);
                    let next = if truncated { json!(keys.last()) } else { Value::Null };
                    let rows: Vec<Value> = keys.iter().filter_map(|key| row(&world, key)).collect();
                    json!({"index": index, "op": op, "rows": rows, "truncated": truncated, "nextAfter": next})
                }
            });
        }
        (200, json!({"results": results}))
    }

    /// The rows of the KV store whose keys begin with `prefix`.
    pub fn rows(&self, prefix: &str) -> Vec<(String, Value)> {
        let world = self.world();
        let rows = world.rows.iter().filter(|(key, _)| key.starts_with(prefix));
        rows.map(|(key, row)| (key.clone(), row.0.clone()))
            .collect()
    }
}

fn row(world: &World, key: &str) -> Option<Value> {
    let (value, version) = world.rows.get(key)?;
    Some(json!({"key": key, "value": value, "version": version, "expiresAt": null}))
}

/// A queue's id, the same for the same name.
pub fn id_of(queue: &str) -> String {
    let mut bytes = [0x11; 16];
    for (at, byte) in queue.bytes().enumerate() {
        bytes[at % 16] ^= byte;
    }
    uuid::Uuid::from_bytes(bytes).to_string()
}

/// A facade in front of `queen`; it stops when the trigger is dropped.
pub fn node(queen: &ScriptedQueen, change: impl FnOnce(&mut Config)) -> (Arc<Node>, Trigger) {
    let mut config = Config::local();
    change(&mut config);
    let (trigger, shutdown) = host::shutdown::shutdown();
    let node = Node::new(NodeParts {
        host: test_host(),
        advertised: config.advertised.clone(),
        config: Arc::new(config),
        upstream: queen.connector(),
        shutdown,
        metrics: Arc::default(),
    });
    (node, trigger)
}

/// A request of `version` that has just arrived.
pub fn request(node: &Arc<Node>, version: i16) -> Context {
    let nowhere = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    Context {
        node: Arc::clone(node),
        session: Session::new(SessionId(1), nowhere, None),
        version,
        client_id: None,
        received: node.host.clock.monotonic(),
        room: crate::room::Room::new(&node.budgets.answers, None),
    }
}

/// A machine whose clock is tokio's (which tests pause) and whose entropy is a counter.
pub fn test_host() -> Host {
    Host {
        net: host::os::host().net,
        clock: Arc::new(TokioClock(tokio::time::Instant::now())),
        entropy: Arc::new(Counting(Mutex::new(0))),
        blocking: Blocking::Inline,
    }
}

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

#[derive(Debug)]
struct Counting(Mutex<u64>);

impl Entropy for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for byte in bytes {
            // The low bits of a linear congruence are poor; its high byte will do.
            *state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            *byte = (*state >> 56) as u8;
        }
    }
}
