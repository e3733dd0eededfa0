//! Connections that are refused, die, stall or promise too much.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ::host::net::{BoxStream, Connect, Listener};
use ::host::pipe::{PipeListener, pipe};
use futures::FutureExt;
use futures::future::BoxFuture;
use rstest::rstest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

const LIST: &str = "HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n{\"queues\":[]}";

/// What a scripted peer does with one request on a connection.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Sends these bytes and keeps the connection.
    Say(&'static str),
    /// Sends these bytes and closes.
    SayAndClose(&'static str),
    /// Reads the request and closes.
    Close,
    /// Reads the request and does nothing more.
    Stall,
}

/// Serves one connection after the other by the script; counts requests.
fn scripted(mut listener: PipeListener, connections: Vec<Vec<Act>>) -> Arc<AtomicUsize> {
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requests);
    tokio::spawn(async move {
        for acts in connections {
            let mut stream = listener.accept().await.expect("a connection");
            let counter = Arc::clone(&counter);
            tokio::spawn(async move {
                for act in acts {
                    if !read_request(&mut stream).await {
                        return;
                    }
                    counter.fetch_add(1, Ordering::SeqCst);
                    match act {
                        Act::Say(text) => stream.write_all(text.as_bytes()).await.expect("open"),
                        Act::SayAndClose(text) => {
                            stream.write_all(text.as_bytes()).await.expect("open");
                            return;
                        }
                        Act::Close => return,
                        Act::Stall => std::future::pending().await,
                    }
                }
            });
        }
        std::future::pending::<()>().await;
    });
    requests
}

/// Reads one request with its body; `false` at the end of the stream.
async fn read_request(stream: &mut BoxStream) -> bool {
    let mut seen = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&seen).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.parse().expect("a number"));
            if body.len() >= length {
                return true;
            }
        }
        let mut chunk = [0; 1024];
        match stream.read(&mut chunk).await {
            Ok(read) if read > 0 => seen.extend_from_slice(&chunk[..read]),
            _ => return false,
        }
    }
}

fn client(connector: Arc<dyn Connect>) -> Client {
    Client::new(&host(), connector, "queen").expect("a legal authority")
}

async fn list(client: &Client) -> Result<Vec<Queue>, Error> {
    client.list_queues(&Credential::default()).await
}

async fn push(client: &Client) -> Result<Vec<Pushed>, Error> {
    client
        .push(&Credential::default(), &[one_record()], Repeat::Unsafe)
        .await
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_used_again() {
    let (connector, listener) = pipe(1 << 16);
    let requests = scripted(listener, vec![vec![Act::Say(LIST), Act::Say(LIST)]]);
    let client = client(Arc::new(connector));
    for _ in 0..2 {
        list(&client).await.expect("answered");
    }
    assert_eq!(requests.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn an_old_unused_connection_is_not_used_again() {
    let (connector, listener) = pipe(1 << 16);
    let connections = vec![vec![Act::Say(LIST), Act::Close], vec![Act::Say(LIST)]];
    let requests = scripted(listener, connections);
    let client = client(Arc::new(connector));
    list(&client).await.expect("answered");
    tokio::time::sleep(Duration::from_secs(31)).await;
    push(&client).await.expect_err("a list is no push answer");
    assert_eq!(requests.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_connection_the_peer_closed_while_unused_costs_nothing() {
    let (connector, listener) = pipe(1 << 16);
    let connections = vec![
        vec![Act::SayAndClose(LIST)],
        vec![Act::Say(
            "HTTP/1.1 201 Created\r\ncontent-length: 31\r\n\r\n[{\"index\":0,\"status\":\"queued\"}]",
        )],
    ];
    scripted(listener, connections);
    let client = client(Arc::new(connector));
    list(&client).await.expect("answered");
    tokio::time::sleep(Duration::from_secs(1)).await;
    // Even a push that must not be repeated: it had not left.
    let verdicts = push(&client).await.expect("answered");
    assert_eq!(verdicts, [Pushed::Queued(None)]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_died_on_a_used_connection_is_repeated_only_where_that_is_safe() {
    let dying = || vec![Act::Say(LIST), Act::Close];
    let (connector, listener) = pipe(1 << 16);
    let requests = scripted(listener, vec![dying(), vec![Act::Say(LIST)]]);
    let safe = client(Arc::new(connector));
    list(&safe).await.expect("answered");
    list(&safe).await.expect("answered on a second connection");
    assert_eq!(requests.load(Ordering::SeqCst), 3);

    let (connector, listener) = pipe(1 << 16);
    let requests = scripted(listener, vec![dying(), vec![Act::Say(LIST)]]);
    let client = client(Arc::new(connector));
    list(&client).await.expect("answered");
    let error = push(&client).await.expect_err("lost");
    assert!(matches!(error, Error::Lost(_)), "{error}");
    assert_eq!(error.effect(), Effect::Unknown);
    assert_eq!(requests.load(Ordering::SeqCst), 2);
}

#[rstest]
#[case::no_answer(Act::Close)]
#[case::half_a_head(Act::SayAndClose("HTTP/1.1 200 OK\r\ncontent-le"))]
#[case::half_a_body(Act::SayAndClose("HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n{\"que"))]
#[case::no_http(Act::SayAndClose("SSH-2.0-OpenSSH\r\n\r\n"))]
#[tokio::test(start_paused = true)]
async fn a_lost_answer_leaves_the_effect_unknown(#[case] act: Act) {
    let (connector, listener) = pipe(1 << 16);
    scripted(listener, vec![vec![act], vec![Act::Stall]]);
    let client = client(Arc::new(connector));
    let error = push(&client).await.expect_err("lost");
    assert!(matches!(error, Error::Lost(_)), "{error}");
    assert_eq!(error.effect(), Effect::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_leaves_the_effect_unknown() {
    let (connector, listener) = pipe(1 << 16);
    scripted(listener, vec![vec![Act::Stall]]);
    let client = client(Arc::new(connector));
    let started = tokio::time::Instant::now();
    let error = push(&client).await.expect_err("late");
    assert!(matches!(error, Error::TimedOut(CALL_TIMEOUT)), "{error}");
    assert_eq!(error.effect(), Effect::Unknown);
    assert_eq!(started.elapsed(), CALL_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn a_fetch_has_its_own_wait_on_top() {
    let (connector, listener) = pipe(1 << 16);
    scripted(listener, vec![vec![Act::Stall]]);
    let client = client(Arc::new(connector));
    let entry = FetchEntry {
        queue: "q",
        partition: 0,
        offset: 0,
        max_bytes: 1,
    };
    let started = tokio::time::Instant::now();
    let day = Duration::from_secs(86_400);
    let fetched = client.fetch(&Credential::default(), &[entry], day, 1).await;
    assert!(matches!(fetched, Err(Error::TimedOut(_))));
    assert_eq!(started.elapsed(), CALL_TIMEOUT + MAX_FETCH_WAIT);
}

/// Refuses, or never answers, a connection.
#[derive(Debug)]
enum Nobody {
    Refuses,
    Hangs,
}

impl Connect for Nobody {
    fn connect(&self) -> BoxFuture<'_, io::Result<BoxStream>> {
        match self {
            Self::Refuses => {
                futures::future::ready(Err(io::ErrorKind::ConnectionRefused.into())).boxed()
            }
            Self::Hangs => futures::future::pending().boxed(),
        }
    }
}

#[rstest]
#[case::refused(Nobody::Refuses, Duration::ZERO)]
#[case::hanging(Nobody::Hangs, CONNECT_TIMEOUT)]
#[tokio::test(start_paused = true)]
async fn without_a_connection_nothing_was_applied(
    #[case] connector: Nobody,
    #[case] after: Duration,
) {
    let client = client(Arc::new(connector));
    let started = tokio::time::Instant::now();
    let error = push(&client).await.expect_err("unreachable");
    assert!(matches!(error, Error::Unreachable(_)), "{error}");
    assert_eq!(error.effect(), Effect::None);
    assert_eq!(error.class(), Class::Unavailable);
    assert_eq!(started.elapsed(), after);
}

#[rstest]
#[case::declared("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n{")]
#[tokio::test(start_paused = true)]
async fn an_answer_beyond_the_bound_is_not_read(#[case] answer: &'static str) {
    let (connector, listener) = pipe(1 << 16);
    scripted(listener, vec![vec![Act::Say(answer), Act::Stall]]);
    let client = client(Arc::new(connector));
    let started = tokio::time::Instant::now();
    let error = list(&client).await.expect_err("too long");
    assert!(matches!(error, Error::Unreadable(_)), "{error}");
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn parked_fetches_never_keep_a_prompt_call_waiting() {
    let (connector, listener) = pipe(1 << 12);
    let parked = MAX_PROMPT_CONNECTIONS + 8;
    let mut connections = vec![vec![Act::Stall]; parked];
    connections.push(vec![Act::Say(LIST)]);
    let requests = scripted(listener, connections);
    let client = Arc::new(client(Arc::new(connector)));
    for _ in 0..parked {
        let client = Arc::clone(&client);
        tokio::spawn(async move {
            let entry = FetchEntry {
                queue: "q",
                partition: 0,
                offset: 0,
                max_bytes: 1,
            };
            let credential = Credential::default();
            client
                .fetch(&credential, &[entry], Duration::from_secs(30), 1)
                .await
        });
    }
    while requests.load(Ordering::SeqCst) < parked {
        tokio::task::yield_now().await;
    }
    let started = tokio::time::Instant::now();
    list(&client).await.expect("answered");
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_bound_wait_and_then_were_never_sent() {
    let (connector, listener) = pipe(1 << 12);
    let requests = scripted(listener, vec![vec![Act::Stall]; MAX_PROMPT_CONNECTIONS]);
    let client = Arc::new(client(Arc::new(connector)));
    for _ in 0..MAX_PROMPT_CONNECTIONS {
        let client = Arc::clone(&client);
        tokio::spawn(async move { push(&client).await });
    }
    while requests.load(Ordering::SeqCst) < MAX_PROMPT_CONNECTIONS {
        tokio::task::yield_now().await;
    }
    // The ones before end at the same time as this one's patience.
    let error = tokio::time::timeout(CALL_TIMEOUT * 2, push(&client)).await;
    let error = error.expect("bounded").expect_err("busy");
    assert_eq!(error.effect(), Effect::None);
}
