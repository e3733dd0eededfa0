//! The loop over in-memory streams, with handlers that do what the client id asks for.

use std::sync::Mutex;

use bytes::{Buf, BufMut, BytesMut};
use host::pipe::{PipeConnector, pipe};
use host::shutdown::{Trigger, shutdown};
use host::{BoxStream, Connect};
use kafka_protocol::messages::ApiVersionsResponse;
use kafka_protocol::protocol::Decodable;
use kafka_wire::ApiKey;
use kafka_wire::header::{put_request_header, put_response_header, response_header_version};
use rstest::rstest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};

mod crowd;

use super::*;
use crate::config::Config;
use crate::context::{Answer, NodeParts};
use crate::metrics::Metrics;

const PIPE_BYTES: usize = 64 * 1024;

struct Rig {
    connector: PipeConnector,
    node: Arc<Node>,
    trigger: Trigger,
}

impl Rig {
    fn new() -> Self {
        Self::with(serve_with, |_| {})
    }

    fn with<F: Future<Output = ()> + Send + 'static>(
        serve: fn(Arc<Node>, Box<dyn Listener>, Dispatch) -> F,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let mut config = Config::local();
        change(&mut config);
        let (trigger, shutdown) = shutdown();
        let (upstream, _) = pipe(1024);
        let node = Node::new(NodeParts {
            host: host::os::host(),
            advertised: config.advertised.clone(),
            config: Arc::new(config),
            upstream: Arc::new(upstream),
            shutdown,
            metrics: Arc::new(Metrics::default()),
        });
        let (connector, listener) = pipe(PIPE_BYTES);
        tokio::spawn(serve(Arc::clone(&node), Box::new(listener), scripted));
        Self {
            connector,
            node,
            trigger,
        }
    }

    async fn client(&self) -> Client {
        Client(self.connector.connect().await.unwrap())
    }

    fn metric(&self, line: &str) -> bool {
        let text = self.node.metrics.registry.render();
        text.lines().any(|shown| shown == line)
    }
}

struct Client(BoxStream);

impl Client {
    async fn send(&mut self, key: ApiKey, version: i16, correlation_id: i32, script: &str) {
        self.raw(&request(key, version, correlation_id, script))
            .await;
    }

    async fn raw(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    /// The correlation id and body of the next response; `None` when the connection ended.
    async fn response(&mut self, key: ApiKey, version: i16) -> Option<(i32, Bytes)> {
        let mut size = [0; 4];
        self.0.read_exact(&mut size).await.ok()?;
        let mut frame = vec![0; u32::from_be_bytes(size) as usize];
        self.0.read_exact(&mut frame).await.unwrap();
        let mut frame = Bytes::from(frame);
        let correlation_id = frame.get_i32();
        frame.advance(usize::from(response_header_version(key, version) >= 1));
        Some((correlation_id, frame))
    }

    async fn answered(&mut self) -> Option<i32> {
        Some(self.response(ApiKey::METADATA, 0).await?.0)
    }

    async fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).await.is_ok() && rest.is_empty()
    }
}

fn request(key: ApiKey, version: i16, correlation_id: i32, script: &str) -> BytesMut {
    let mut frame = BytesMut::new();
    frame.put_u32(0);
    put_request_header(&mut frame, key, version, correlation_id, Some(script));
    let size = u32::try_from(frame.len() - 4).unwrap();
    frame[..4].copy_from_slice(&size.to_be_bytes());
    frame
}

/// What the scripted handlers did, by script.
static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn log(line: String) {
    LOG.lock().unwrap().push(line);
}

fn logged(prefix: &str) -> Vec<String> {
    let log = LOG.lock().unwrap();
    log.iter()
        .filter(|line| line.starts_with(prefix))
        .cloned()
        .collect()
}

/// Logs the drop of a handler that did not end.
struct Ends(String, bool);

impl Drop for Ends {
    fn drop(&mut self) {
        let how = if self.1 { "ended" } else { "dropped" };
        log(format!("{} {how}", self.0));
    }
}

/// Scripts are `name:verb:number`: `wait` sleeps so many milliseconds and answers, `later` does so
/// after it was admitted, `bytes` answers with so many, `room` takes room for them first, `silence`, `close` and `malformed` at once.
fn scripted(cx: Context, header: RequestHeader) -> BoxFuture<'static, Handled> {
    let script = header.client_id().unwrap_or_default().to_owned();
    let mut words = script.split(':');
    let name = words.next().unwrap_or_default().to_owned();
    let verb = words.next().unwrap_or_default().to_owned();
    let number: u64 = words.next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let frame = move |body: usize| {
        let mut frame = BytesMut::new();
        frame.put_u32(u32::try_from(4 + body).unwrap());
        put_response_header(&mut frame, ApiKey::METADATA, 0, header.correlation_id);
        frame.put_bytes(7, body);
        frame.freeze()
    };
    async move {
        log(format!("{name} started"));
        let mut ends = Ends(name, false);
        let reply = match verb.as_str() {
            "later" => {
                return Ok(Reply::later(async move {
                    // Whole: captured by its field, it would be dropped here and now.
                    let mut ends = ends;
                    sleep(Duration::from_millis(number)).await;
                    ends.1 = true;
                    Answer::Send(frame(0))
                }));
            }
            "room" => {
                let bytes = usize::try_from(number).unwrap();
                match cx.room.take(bytes).await {
                    Ok(()) => Ok(Reply::now(frame(bytes))),
                    Err(_) => Ok(Reply::Now(Answer::Close("no room"))),
                }
            }
            "bytes" => Ok(Reply::now(frame(usize::try_from(number).unwrap()))),
            "silence" => Ok(Reply::none()),
            "close" => Ok(Reply::Now(Answer::Close("the script says so"))),
            "malformed" => Err(Refusal::Malformed("the script says so".to_owned())),
            _ => {
                sleep(Duration::from_millis(number)).await;
                Ok(Reply::now(frame(0)))
            }
        };
        ends.1 = true;
        reply
    }
    .boxed()
}

#[tokio::test(start_paused = true)]
async fn requests_of_a_connection_run_one_at_a_time_and_in_order() {
    let rig = Rig::new();
    let mut client = rig.client().await;
    let first = request(ApiKey::METADATA, 0, 1, "serial-1:wait:50");
    let second = request(ApiKey::HEARTBEAT, 0, 2, "serial-2:wait:1");
    let third = request(ApiKey::PRODUCE, 3, 3, "serial-3:silence");
    let fourth = request(ApiKey::METADATA, 0, 4, "serial-4:wait:1");
    client.raw(&[first, second, third, fourth].concat()).await;
    for expected in [1, 2, 4] {
        assert_eq!(client.answered().await, Some(expected));
    }
    let steps = logged("serial-");
    let expected = [
        "1 started",
        "1 ended",
        "2 started",
        "2 ended",
        "3 started",
        "3 ended",
        "4 started",
        "4 ended",
    ];
    assert_eq!(steps, expected.map(|step| format!("serial-{step}")));
    assert!(rig.metric("queen_kafka_requests_in_flight 0"));
    assert!(rig.metric("queen_kafka_in_flight_bytes 0"));
    assert!(rig.metric("queen_kafka_requests_total{api=\"Metadata\"} 2"));
}

#[tokio::test(start_paused = true)]
async fn produces_share_their_wait_and_are_answered_in_order() {
    let rig = Rig::new();
    let mut client = rig.client().await;
    for (id, millis) in [(1, 300), (2, 100), (3, 200)] {
        let script = format!("piped-{id}:later:{millis}");
        client.send(ApiKey::PRODUCE, 9, id, &script).await;
    }
    client.send(ApiKey::METADATA, 0, 4, "piped-4:wait:0").await;
    let started = Instant::now();
    for expected in 1..=4 {
        assert_eq!(client.answered().await, Some(expected));
    }
    assert_eq!(started.elapsed(), Duration::from_millis(300));
    let steps = logged("piped-");
    let expected = [
        "1 started",
        "2 started",
        "3 started",
        "2 ended",
        "3 ended",
        "1 ended",
        "4 started",
        "4 ended",
    ];
    assert_eq!(steps, expected.map(|step| format!("piped-{step}")));
}

#[rstest]
#[case::fetch(ApiKey::FETCH, 4)]
#[case::join(ApiKey::JOIN_GROUP, 5)]
#[case::sync(ApiKey::SYNC_GROUP, 3)]
#[case::end(ApiKey::END_TXN, 3)]
#[case::offsets(ApiKey::TXN_OFFSET_COMMIT, 3)]
#[tokio::test(start_paused = true)]
async fn what_parks_or_comes_too_late_is_dropped_when_the_peer_closes(
    #[case] key: ApiKey,
    #[case] version: i16,
) {
    let rig = Rig::new();
    let mut client = rig.client().await;
    let name = format!("parked-{key}");
    client
        .send(key, version, 1, &format!("{name}:wait:30000"))
        .await;
    // Behind it: the end of the stream is seen all the same.
    client
        .send(ApiKey::METADATA, 0, 2, "parked-behind:wait:0")
        .await;
    sleep(Duration::from_millis(10)).await;
    assert_eq!(logged(&name), [format!("{name} started")]);
    drop(client);
    sleep(Duration::from_millis(10)).await;
    assert_eq!(logged(&name)[1..], [format!("{name} dropped")]);
    assert!(rig.metric("queen_kafka_connections 0"));
    assert!(rig.metric("queen_kafka_requests_in_flight 0"));
}

#[rstest]
#[case::end(ApiKey::END_TXN, 3)]
#[case::offsets(ApiKey::TXN_OFFSET_COMMIT, 3)]
#[tokio::test(start_paused = true)]
async fn what_comes_too_late_is_not_begun(#[case] key: ApiKey, #[case] version: i16) {
    let rig = Rig::new();
    let mut client = rig.client().await;
    let name = format!("late-{key}");
    client
        .send(key, version, 1, &format!("{name}:wait:0"))
        .await;
    drop(client);
    sleep(Duration::from_millis(10)).await;
    assert!(logged(&name).is_empty());
    assert!(rig.metric("queen_kafka_requests_in_flight 0"));
}

#[tokio::test(start_paused = true)]
async fn what_the_peer_sent_before_it_closed_is_done() {
    let rig = Rig::new();
    let mut client = rig.client().await;
    client
        .send(ApiKey::OFFSET_COMMIT, 2, 1, "last-1:wait:100")
        .await;
    client.send(ApiKey::PRODUCE, 3, 2, "last-2:silence").await;
    client.send(ApiKey::PRODUCE, 3, 3, "last-3:silence").await;
    drop(client);
    sleep(Duration::from_millis(200)).await;
    let done = logged("last-");
    let ended = done.iter().filter(|step| step.ends_with(" ended"));
    assert_eq!(ended.count(), 3, "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_is_closed_and_costs_one_answer() {
    let rig = Rig::new();
    let mut client = rig.client().await;
    let large = 8 * 1024 * 1024;
    for id in 1..=5 {
        let script = format!("unread-{id}:bytes:{large}");
        client.send(ApiKey::METADATA, 0, id, &script).await;
    }
    sleep(Duration::from_secs(1)).await;
    assert_eq!(
        logged("unread-").len(),
        2,
        "the second waits for the first to be read"
    );
    let mut other = rig.client().await;
    other.send(ApiKey::METADATA, 0, 9, "others:wait:0").await;
    assert_eq!(other.answered().await, Some(9));
    sleep(Duration::from_secs(30)).await;
    assert!(rig.metric("queen_kafka_connections_closed_total{reason=\"unread_response\"} 1"));
    assert!(rig.metric("queen_kafka_in_flight_bytes 0"));
}

#[rstest]
#[case::negative_length(&[0xff, 0xff, 0xff, 0xff], "frame_length")]
#[case::two_gib(&[0x7f, 0xff, 0xff, 0xff], "frame_length")]
#[case::above_the_ceiling(&[0x06, 0x40, 0, 1], "frame_length")]
#[case::empty_frame(&[0, 0, 0, 0], "header")]
#[case::half_a_header(&[0, 0, 0, 5, 0, 3, 0, 0, 0], "header")]
#[case::http(b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n", "frame_length")]
#[case::tls(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00], "frame_length")]
#[case::unknown_key(&request(ApiKey(127), 0, 1, "x"), "unserved")]
#[case::negative_key(&request(ApiKey(-1), 0, 1, "x"), "unserved")]
#[case::absent_api(&request(ApiKey::ELECT_LEADERS, 0, 1, "x"), "unserved")]
#[case::produce_before_batches(&request(ApiKey::PRODUCE, 2, 1, "x"), "unserved")]
#[case::version_above(&request(ApiKey::METADATA, 14, 1, "x"), "unserved")]
#[case::negative_version(&request(ApiKey::METADATA, -1, 1, "x"), "unserved")]
#[case::malformed_body(&request(ApiKey::METADATA, 0, 1, "bad:malformed"), "malformed")]
#[case::handler_closes(&request(ApiKey::PRODUCE, 3, 1, "bad:close"), "handler")]
#[tokio::test(start_paused = true)]
async fn bad_input_closes_its_connection_and_no_other(#[case] bytes: &[u8], #[case] reason: &str) {
    let rig = Rig::new();
    let (mut good, mut bad) = (rig.client().await, rig.client().await);
    good.send(ApiKey::METADATA, 0, 1, "good:wait:5").await;
    bad.raw(bytes).await;
    assert!(
        timeout(Duration::from_secs(1), bad.is_closed())
            .await
            .unwrap()
    );
    assert_eq!(good.answered().await, Some(1));
    let line = format!("queen_kafka_connections_closed_total{{reason=\"{reason}\"}} 1");
    assert!(rig.metric(&line), "{}", rig.node.metrics.registry.render());
}

#[tokio::test(start_paused = true)]
async fn what_stands_before_bad_input_is_answered() {
    let rig = Rig::new();
    let mut client = rig.client().await;
    client.send(ApiKey::PRODUCE, 3, 1, "before:later:50").await;
    client.raw(&[0xff; 4]).await;
    assert_eq!(client.answered().await, Some(1));
    assert!(client.is_closed().await);
}

#[rstest]
#[case(5)]
#[case(i16::MAX)]
#[case(-1)]
#[tokio::test(start_paused = true)]
async fn api_versions_outside_the_window_is_answered_in_version_0(#[case] version: i16) {
    let rig = Rig::new();
    let mut client = rig.client().await;
    client.send(ApiKey::API_VERSIONS, version, 1, "x").await;
    let (id, mut body) = client.response(ApiKey::API_VERSIONS, 0).await.unwrap();
    assert_eq!(body, [0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4][..]);
    let answer = ApiVersionsResponse::decode(&mut body, 0).unwrap();
    assert_eq!((id, answer.api_keys.len()), (1, 1));
    client.send(ApiKey::METADATA, 0, 2, "usable:wait:0").await;
    assert_eq!(client.answered().await, Some(2));
}

#[tokio::test(start_paused = true)]
async fn the_real_dispatch_answers_api_versions_and_remembers_nothing_of_a_bad_name() {
    let rig = Rig::with(|node, listener, _| serve(node, listener), |_| {});
    for version in 0..=4 {
        let mut client = rig.client().await;
        let mut frame = request(ApiKey::API_VERSIONS, version, 7, "rig");
        if version >= 3 {
            // Compact strings `a b` and `1`, no tags: a name outside Kafka's alphabet.
            frame.put_slice(&[4, b'a', b' ', b'b', 2, b'1', 0]);
        }
        let size = u32::try_from(frame.len() - 4).unwrap();
        frame[..4].copy_from_slice(&size.to_be_bytes());
        client.raw(&frame).await;
        let (id, mut body) = client
            .response(ApiKey::API_VERSIONS, version)
            .await
            .unwrap();
        let answer = ApiVersionsResponse::decode(&mut body, version).unwrap();
        assert_eq!((id, body.len()), (7, 0));
        let all = crate::windows::WINDOWS.iter().count();
        let (code, served) = if version >= 3 { (42, 0) } else { (0, all) };
        assert_eq!((answer.error_code, answer.api_keys.len()), (code, served));
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_client_leaves_behind_its_request_is_ignored() {
    let rig = Rig::with(|node, listener, _| serve(node, listener), |_| {});
    let mut client = rig.client().await;
    let mut frame = request(ApiKey::API_VERSIONS, 0, 7, "rig");
    frame.put_u8(0);
    frame[3] += 1;
    client.raw(&frame).await;
    let (id, _) = client.response(ApiKey::API_VERSIONS, 0).await.unwrap();
    assert_eq!(id, 7);
    assert!(!rig.metric("queen_kafka_connections_closed_total{reason=\"malformed\"} 1"));
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_closes_after_ten_minutes_but_not_while_it_waits_for_us() {
    let rig = Rig::new();
    let (mut idle, mut busy) = (rig.client().await, rig.client().await);
    busy.send(ApiKey::JOIN_GROUP, 5, 1, "patient:wait:1100000")
        .await;
    let started = Instant::now();
    assert!(idle.is_closed().await);
    assert_eq!(started.elapsed(), IDLE);
    assert_eq!(busy.answered().await, Some(1));
    assert!(busy.is_closed().await);
    assert_eq!(started.elapsed(), Duration::from_secs(1100) + IDLE);
}

#[tokio::test(start_paused = true)]
async fn a_drain_answers_what_is_in_flight_and_reads_nothing_more() {
    let rig = Rig::new();
    let mut client = rig.client().await;
    client
        .send(ApiKey::METADATA, 0, 1, "drain-1:wait:500")
        .await;
    sleep(Duration::from_millis(10)).await;
    let stopping = tokio::spawn(rig.trigger.stop(Duration::from_secs(2)));
    sleep(Duration::from_millis(10)).await;
    client.send(ApiKey::METADATA, 0, 2, "drain-2:wait:0").await;
    assert_eq!(client.answered().await, Some(1));
    assert!(client.is_closed().await);
    assert!(stopping.await.unwrap(), "everything ended inside the drain");
    assert!(logged("drain-2").is_empty());
}

#[tokio::test(start_paused = true)]
async fn past_the_maximum_a_connection_is_closed_at_once() {
    let rig = Rig::with(serve_with, |config| config.listener.max_connections = 16);
    let mut clients = Vec::new();
    for _ in 0..16 {
        clients.push(rig.client().await);
    }
    assert!(rig.client().await.is_closed().await);
    assert!(rig.metric("queen_kafka_connections_refused_total{reason=\"connections\"} 1"));
    clients[0]
        .send(ApiKey::METADATA, 0, 1, "served:wait:0")
        .await;
    assert_eq!(clients[0].answered().await, Some(1));
}
