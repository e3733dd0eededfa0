//! The site over in-memory streams, in front of a Queen that says what the test wants.

use std::sync::atomic::{AtomicUsize, Ordering};

use host::pipe::{PipeConnector, PipeListener, pipe};
use host::shutdown::{Trigger, shutdown};
use host::{Connect, Listener};
use rstest::rstest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use super::*;
use crate::config::{ClusterConfig, Config};
use crate::context::NodeParts;
use crate::metrics::Metrics;
use coordinator::cluster::NodeId;

struct Rig {
    connector: PipeConnector,
    calls: Arc<AtomicUsize>,
    trigger: Trigger,
}

/// A site in front of a Queen that answers every request with `queen`, or nobody at all.
fn rig(queen: Option<&'static str>, queen_url: QueenUrl) -> Rig {
    rig_with(queen, |config| config.queen_url = queen_url)
}

fn rig_with(queen: Option<&'static str>, change: impl FnOnce(&mut Config)) -> Rig {
    let (trigger, shutdown) = shutdown();
    let (upstream, far) = pipe(64 * 1024);
    let calls = Arc::new(AtomicUsize::new(0));
    if let Some(answer) = queen {
        tokio::spawn(queen_that_says(answer, far, Arc::clone(&calls)));
    }
    let mut config = Config::local();
    change(&mut config);
    let node = Node::new(NodeParts {
        host: host::os::host(),
        advertised: config.advertised.clone(),
        config: Arc::new(config),
        upstream: Arc::new(upstream),
        shutdown,
        metrics: Arc::new(Metrics::default()),
    });
    let (connector, listener) = pipe(64 * 1024);
    tokio::spawn(serve(node, Box::new(listener)));
    Rig {
        connector,
        calls,
        trigger,
    }
}

async fn queen_that_says(answer: &'static str, mut far: PipeListener, calls: Arc<AtomicUsize>) {
    loop {
        let mut stream = far.accept().await.unwrap();
        let calls = Arc::clone(&calls);
        tokio::spawn(async move {
            let mut head = vec![0; 4096];
            loop {
                let read = stream.read(&mut head).await.unwrap();
                if read == 0 {
                    return;
                }
                calls.fetch_add(1, Ordering::Relaxed);
                let (status, body) = answer.split_once('\n').unwrap();
                let asked = String::from_utf8_lossy(&head[..read]).into_owned();
                let path = asked.split(' ').nth(1).unwrap_or_default().to_owned();
                let body = body.replace("{path}", &path);
                let length = body.len();
                let text = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {length}\r\n\r\n{body}"
                );
                stream.write_all(text.as_bytes()).await.unwrap();
            }
        });
    }
}

fn embedded() -> QueenUrl {
    QueenUrl::Embedded { dir: None }
}

fn remote() -> QueenUrl {
    QueenUrl::parse("http://queen").unwrap()
}

async fn ask(rig: &Rig, method: &str, path: &str) -> (u16, String) {
    let mut stream = rig.connector.connect().await.unwrap();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    (status, body.to_owned())
}

const HEALTHY: &str = "200 OK\n{\"status\":\"healthy\",\"version\":\"1.6.0\"}";

#[rstest]
#[case::healthy(
    Some(HEALTHY),
    200,
    "{\"status\":\"ready\",\"queen\":\"healthy, version 1.6.0\"}\n"
)]
#[case::unwell(
    Some("200 OK\n{\"status\":\"starting\"}"),
    200,
    "{\"status\":\"degraded\",\"queen\":\"calls itself unhealthy\"}\n"
)]
#[tokio::test(start_paused = true)]
async fn readiness_says_how_queen_is(
    #[case] queen: Option<&'static str>,
    #[case] status: u16,
    #[case] body: &str,
) {
    let rig = rig(queen, remote());
    assert_eq!(ask(&rig, "GET", "/readyz").await, (status, body.to_owned()));
}

#[rstest]
#[case::refuses(
    Some("503 Service Unavailable\n{\"status\":\"unhealthy\"}"),
    200,
    "{\"status\":\"degraded\""
)]
#[case::gone(None, 503, "{\"status\":\"unavailable\"")]
#[tokio::test(start_paused = true)]
async fn a_queen_that_refuses_is_degraded_and_one_that_is_gone_is_unavailable(
    #[case] queen: Option<&'static str>,
    #[case] status: u16,
    #[case] begins: &str,
) {
    let rig = rig(queen, remote());
    let (said, body) = ask(&rig, "GET", "/readyz").await;
    assert_eq!(said, status, "{body}");
    assert!(body.starts_with(begins), "{body}");
    assert_eq!(ask(&rig, "GET", "/livez").await, (200, "ok\n".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn many_probes_are_one_call_a_second() {
    let rig = rig(Some(HEALTHY), remote());
    let asks = (0..20).map(|_| ask(&rig, "GET", "/readyz"));
    futures::future::join_all(asks).await;
    assert_eq!(rig.calls.load(Ordering::Relaxed), 1);
    sleep(Duration::from_millis(1100)).await;
    ask(&rig, "GET", "/readyz").await;
    assert_eq!(rig.calls.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn a_draining_facade_is_not_ready() {
    let rig = rig(Some(HEALTHY), remote());
    // Kept open: the first answer says that it is served.
    let mut stream = rig.connector.connect().await.unwrap();
    stream
        .write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    let mut some = [0; 512];
    assert!(stream.read(&mut some).await.unwrap() > 0);
    assert!(
        rig.trigger.stop(Duration::from_secs(2)).await,
        "nothing keeps it"
    );
    assert_eq!(stream.read(&mut some).await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn metrics_are_prometheus_text() {
    let rig = rig(None, remote());
    let (status, body) = ask(&rig, "GET", "/metrics").await;
    assert_eq!(status, 200);
    assert!(
        body.contains("# TYPE queen_kafka_requests_total counter\n"),
        "{body}"
    );
    assert!(
        body.contains("queen_kafka_requests_total{api=\"Fetch\"} 0\n"),
        "{body}"
    );
}

#[rstest]
#[case::console("/", "200 OK\nconsole at {path}", (200, "console at /"))]
#[case::query("/?after=a%20b", "200 OK\n{path}", (200, "/?after=a%20b"))]
#[case::status("/?", "404 Not Found\nno", (404, "no"))]
#[tokio::test(start_paused = true)]
async fn the_root_is_the_embedded_queens_console(
    #[case] path: &str,
    #[case] queen: &'static str,
    #[case] expected: (u16, &str),
) {
    let rig = rig(Some(queen), embedded());
    let answer = ask(&rig, "GET", path).await;
    assert_eq!(answer, (expected.0, expected.1.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn nothing_but_get_is_taken_and_no_remote_queen_is_shown() {
    let rig_embedded = rig(Some("200 OK\nno"), embedded());
    for method in ["POST", "DELETE", "PUT"] {
        assert_eq!(ask(&rig_embedded, method, "/api/v1/push").await.0, 405);
    }
    for path in ["/api/v1/pop/queue/orders", "/health", "//", "/%2e"] {
        assert_eq!(ask(&rig_embedded, "GET", path).await.0, 404, "{path}");
    }
    assert_eq!(rig_embedded.calls.load(Ordering::Relaxed), 0);
    let rig_remote = rig(Some("200 OK\nno"), remote());
    assert_eq!(ask(&rig_remote, "GET", "/").await.0, 404);
    assert_eq!(rig_remote.calls.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_node_without_its_place_in_the_cluster_is_degraded_and_says_so() {
    let rig = rig_with(Some(HEALTHY), |config| {
        config.queen_url = remote();
        config.node = Some(ClusterConfig {
            id: NodeId(3),
            heartbeat: Duration::from_secs(2),
            ttl: Duration::from_secs(10),
        });
    });
    let (status, body) = ask(&rig, "GET", "/readyz").await;
    // Records are served, so a balancer leaves it where it is.
    assert_eq!(status, 200);
    let report: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(report["status"], "degraded");
    let place = serde_json::json!({
        "node_id": 3, "standing": "claiming", "live": [],
        "reason": "the node id is not this node's yet"
    });
    assert_eq!(report["cluster"], place);
}

#[tokio::test(start_paused = true)]
async fn half_requests_keep_no_health_check_out() {
    let rig = rig(Some(HEALTHY), remote());
    let mut half = Vec::new();
    for _ in 0..10 {
        for _ in 0..MAX_WAITING {
            let mut stream = rig.connector.connect().await.unwrap();
            let head = b"GET /livez HTTP/1.1\r\nHost: x\r\n";
            // One that had to make room for others is closed.
            let _ = stream.write_all(head).await;
            half.push(stream);
        }
        assert_eq!(ask(&rig, "GET", "/livez").await.0, 200);
        assert_eq!(ask(&rig, "GET", "/readyz").await.0, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn two_hosts_are_refused() {
    let rig = rig(None, remote());
    let mut stream = rig.connector.connect().await.unwrap();
    let head = b"GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}
