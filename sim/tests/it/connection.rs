//! What a connection does with a broker that throttles, stays silent, or answers nonsense. The
//! broker is a script.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use host::BoxStream;
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::{
    ApiVersionsResponse, FindCoordinatorRequest, FindCoordinatorResponse,
};
use kafka_protocol::protocol::Encodable;
use kafka_wire::ApiKey;
use kafka_wire::header::{RequestHeader, put_response_header};
use sim::client::profile::{FRANZ_GO, JAVA, LIBRDKAFKA};
use sim::client::{Access, CallError, Client, Connection, Profile};
use sim::history::{Event, Recorder};
use sim::machine::Machine;
use sim::trace::{Node, Trace};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

/// How the broker answers FindCoordinator.
#[derive(Clone, Copy)]
enum Script {
    /// With this throttle time, in milliseconds.
    Throttle(i32),
    /// Not at all.
    Silence,
    /// With another correlation id.
    Crossed,
    /// With a length that the frame doesn't hold.
    Torn,
}

/// A request that can be asked in any version that says something about throttling.
const KEY: ApiKey = ApiKey::FIND_COORDINATOR;

async fn read(stream: &mut BoxStream) -> Option<RequestHeader> {
    let length = stream.read_i32().await.ok()?;
    let mut frame = vec![0; usize::try_from(length).expect("a length")];
    stream.read_exact(&mut frame).await.ok()?;
    Some(RequestHeader::parse(frame.into()).expect("a request"))
}

async fn answer(
    stream: &mut BoxStream,
    request: &RequestHeader,
    crossed: i32,
    body: impl Encodable,
) {
    let mut frame = BytesMut::new();
    let (key, version) = (request.api_key, request.api_version);
    put_response_header(&mut frame, key, version, request.correlation_id + crossed);
    body.encode(&mut frame, version).expect("encodable");
    send(stream, &frame).await;
}

async fn send(stream: &mut BoxStream, frame: &[u8]) {
    let length = i32::try_from(frame.len()).expect("a length");
    // The client may be gone.
    let _ = stream.write_i32(length).await;
    let _ = stream.write_all(frame).await;
}

async fn broker(mut stream: BoxStream, script: Script) {
    while let Some(request) = read(&mut stream).await {
        if request.api_key == ApiKey::API_VERSIONS {
            let offered = [ApiKey::API_VERSIONS, KEY].map(|key| {
                ApiVersion::default()
                    .with_api_key(key.0)
                    .with_max_version(3)
            });
            let versions = ApiVersionsResponse::default().with_api_keys(offered.to_vec());
            answer(&mut stream, &request, 0, versions).await;
            continue;
        }
        let response = FindCoordinatorResponse::default();
        match script {
            Script::Throttle(millis) => {
                let response = response.with_throttle_time_ms(millis);
                answer(&mut stream, &request, 0, response).await;
            }
            Script::Silence => {}
            Script::Crossed => answer(&mut stream, &request, 1, response).await,
            Script::Torn => {
                let mut frame = BytesMut::new();
                put_response_header(&mut frame, request.api_key, 3, request.correlation_id);
                frame.put_slice(&[0xff; 12]);
                send(&mut stream, &frame).await;
            }
        }
    }
}

/// Runs `work` with a connection of `profile` to a broker that follows `script`.
fn with_a_broker<F>(
    profile: &'static Profile,
    script: Script,
    work: impl FnOnce(Connection) -> F + 'static,
) -> Vec<Event>
where
    F: Future<Output = ()> + 'static,
{
    let mut sim = turmoil::Builder::new()
        .rng_seed(1)
        .tick_duration(Duration::from_millis(10))
        .simulation_duration(Duration::from_secs(600))
        .build();
    sim.host(Node::Facade.name(), move || async move {
        let host = Machine::new(Node::Facade, 1, Trace::default()).boot();
        let mut listener = host.net.bind("0.0.0.0:9092".parse()?).await?;
        loop {
            let stream = listener.accept().await?;
            tokio::spawn(broker(stream, script));
        }
    });
    let recorder = Recorder::new(Trace::default());
    let history = recorder.clone();
    sim.client(Node::Clients.name(), async move {
        let client = Client {
            host: Machine::new(Node::Clients, 1, Trace::default()).boot(),
            profile,
            id: "a".into(),
            bootstrap: (Node::Facade.name().to_owned(), 9092),
            recorder,
            access: Access::default(),
        };
        let address = client.bootstrap.clone();
        let connection = Connection::open(&client, &address).await?;
        work(connection).await;
        Ok(())
    });
    sim.run().expect("the work is done");
    history
        .entries()
        .into_iter()
        .map(|entry| entry.event)
        .collect()
}

fn request() -> FindCoordinatorRequest {
    FindCoordinatorRequest::default()
}

/// How long the second of two requests takes when the first is throttled for five seconds.
fn second_takes(profile: &'static Profile) -> Duration {
    let taken = Arc::new(Mutex::new(Duration::ZERO));
    let told = Arc::clone(&taken);
    let history = with_a_broker(profile, Script::Throttle(5_000), async move |connection| {
        connection.call(&request()).await.expect("answered");
        let begun = Instant::now();
        connection.call(&request()).await.expect("answered");
        *told.lock().expect("free") = begun.elapsed();
    });
    let throttles: Vec<_> = history
        .iter()
        .filter_map(|event| match event {
            Event::Answered { throttle_ms, .. } => Some(*throttle_ms),
            _ => None,
        })
        .collect();
    assert_eq!(throttles, [0, 5_000, 5_000], "the history tells");
    *taken.lock().expect("free")
}

#[test]
fn some_keep_quiet_while_they_are_throttled_and_some_do_not() {
    let (quiet, soon) = (Duration::from_secs(5), Duration::from_secs(1));
    assert!(second_takes(&JAVA) >= quiet);
    assert!(second_takes(&FRANZ_GO) >= quiet);
    assert!(second_takes(&LIBRDKAFKA) < soon);
}

#[test]
fn an_overdue_answer_ends_the_connection_for_everybody() {
    with_a_broker(&JAVA, Script::Silence, async |connection| {
        let mut first = connection.send(&request()).expect("sent");
        tokio::time::sleep(Duration::from_secs(10)).await;
        let mut second = connection.send(&request()).expect("sent");
        let begun = Instant::now();
        assert_eq!(first.answer().await, Err(CallError::TimedOut));
        assert_eq!(begun.elapsed(), Duration::from_secs(20), "30 s in all");
        assert!(matches!(second.answer().await, Err(CallError::Lost(_))));
        assert!(!connection.is_open());
        assert!(connection.send(&request()).is_err());
    });
}

#[test]
fn nonsense_is_malformed_and_ends_the_connection() {
    for script in [Script::Crossed, Script::Torn] {
        with_a_broker(&JAVA, script, async |connection| {
            let answer = connection.call(&request()).await;
            assert!(matches!(answer, Err(CallError::Malformed(_))), "{answer:?}");
            // The task that read it may still have to say so.
            tokio::task::yield_now().await;
            assert!(!connection.is_open());
        });
    }
}
