//! A relay between a raw client and a server of the tests.

use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use kafka_wire::header::put_request_header;
use kafka_wire::{ApiKey, schema};
use serde_json::{Value as Json, json};
use tokio::time::Instant;

use super::{Act, Relay, Rule, Side};
use crate::cx::Recorder;
use crate::target::Authority;
use crate::testing::{response, serve};
use crate::wire::codec::{decode, encode};
use crate::wire::{Access, Connection, Reply, Security, Trust};

const SOON: Duration = Duration::from_secs(5);
const MOMENT: Duration = Duration::from_millis(200);

fn request(
    key: ApiKey,
    version: i16,
    correlation_id: i32,
    client_id: &str,
    body: &Json,
) -> Vec<u8> {
    let mut out = Vec::new();
    put_request_header(&mut out, key, version, correlation_id, Some(client_id));
    out.extend(
        encode(schema::request(key).unwrap(), version, body)
            .unwrap()
            .body,
    );
    out
}

fn metadata(correlation_id: i32) -> Vec<u8> {
    request(
        ApiKey::METADATA,
        12,
        correlation_id,
        "me",
        &json!({"Topics": null}),
    )
}

async fn frame(connection: &mut Connection) -> Bytes {
    match connection.reply(SOON).await {
        Reply::Frame(frame) => frame,
        other => panic!("{other:?}"),
    }
}

/// One broker that nobody can reach, and no coordinator.
fn far_away(request: &[u8]) -> Option<Vec<u8>> {
    match request[1] {
        3 => response(
            request,
            json!({"Brokers": [{"NodeId": 1, "Host": "broker.example", "Port": 9092}], "ClusterId": "c"}),
        ),
        10 => response(
            request,
            json!({"Coordinators": [{"Key": "g", "NodeId": -1, "Host": "", "Port": -1, "ErrorCode": 15}]}),
        ),
        _ => None,
    }
}

async fn open(relay: &Relay) -> std::io::Result<Connection> {
    Connection::open(&Access::plain(relay.bootstrap())).await
}

async fn relay_to(server: &str) -> (Relay, Recorder, Connection) {
    let record = Recorder::default();
    let relay = Relay::start(&Access::plain(server), record.clone(), "me", None).unwrap();
    let connection = open(&relay).await.unwrap();
    (relay, record, connection)
}

#[tokio::test]
async fn addresses_become_the_relays_and_what_is_none_stays_none() {
    let (relay, record, mut connection) = relay_to(&serve(far_away).await).await;
    let mut ports = Vec::new();
    for correlation_id in [7, 8] {
        connection.send(&metadata(correlation_id)).await.unwrap();
        let answer = frame(&mut connection).await;
        assert_eq!(answer[..4], i32::to_be_bytes(correlation_id));
        let body = decode(
            schema::response(ApiKey::METADATA).unwrap(),
            12,
            &answer.slice(5..),
        )
        .unwrap();
        assert_eq!(
            body.get("Brokers[0].Host").unwrap().text(),
            Some("127.0.0.1")
        );
        ports.push(body.get("Brokers[0].Port").unwrap().int().unwrap());
        assert_eq!(body.get("ClusterId").unwrap().text(), Some("c"));
    }
    assert_eq!(ports[0], ports[1], "one server, one port");
    assert_ne!(format!("127.0.0.1:{}", ports[0]), relay.bootstrap());

    let ask = request(
        ApiKey::FIND_COORDINATOR,
        4,
        9,
        "somebody",
        &json!({"CoordinatorKeys": ["g"]}),
    );
    connection.send(&ask).await.unwrap();
    let answer = frame(&mut connection).await;
    let body = decode(
        schema::response(ApiKey::FIND_COORDINATOR).unwrap(),
        4,
        &answer.slice(5..),
    )
    .unwrap();
    assert_eq!(body.get("Coordinators[0].Host").unwrap().text(), Some(""));

    let (evidence, seen) = record.take();
    let seen: Vec<(i16, Vec<i16>)> = seen
        .into_iter()
        .map(|api| (api.key, api.versions))
        .collect();
    assert_eq!(seen, [(3, vec![12]), (10, vec![4])]);
    assert_eq!(
        evidence.facts["requests of me"],
        "Metadata v12 ×2, FindCoordinator v4"
    );
    assert_eq!(evidence.log, ["me sends requests as \"somebody\""]);
}

static OWN_PORT: AtomicU16 = AtomicU16::new(0);

fn its_own_broker(request: &[u8]) -> Option<Vec<u8>> {
    let port = OWN_PORT.load(Ordering::SeqCst);
    response(
        request,
        json!({"Brokers": [{"NodeId": 1, "Host": "127.0.0.1", "Port": port}]}),
    )
}

#[tokio::test]
async fn a_client_that_follows_an_address_stays_on_the_relay() {
    let server = serve(its_own_broker).await;
    OWN_PORT.store(
        server.rsplit_once(':').unwrap().1.parse().unwrap(),
        Ordering::SeqCst,
    );
    let (relay, record, mut connection) = relay_to(&server).await;
    connection.send(&metadata(1)).await.unwrap();
    let answer = frame(&mut connection).await;
    let body = decode(
        schema::response(ApiKey::METADATA).unwrap(),
        12,
        &answer.slice(5..),
    )
    .unwrap();
    let port = body.get("Brokers[0].Port").unwrap().int().unwrap();
    assert_eq!(format!("127.0.0.1:{port}"), relay.bootstrap());
    let mut again = open(&relay).await.unwrap();
    again.send(&metadata(1)).await.unwrap();
    frame(&mut again).await;
    let (evidence, _) = record.take();
    assert_eq!(evidence.facts["requests of me"], "Metadata v12 ×2");
}

static ANSWERED: AtomicU32 = AtomicU32::new(0);

fn counts(request: &[u8]) -> Option<Vec<u8>> {
    ANSWERED.fetch_add(1, Ordering::SeqCst);
    far_away(request)
}

#[tokio::test]
async fn requests_and_answers_are_cut_where_a_rule_says() {
    let server = serve(counts).await;
    let (relay, _, mut connection) = relay_to(&server).await;
    relay.add(Rule::new(
        Side::Request,
        ApiKey::METADATA,
        Act::Cut { after_bytes: 9 },
    ));
    relay.add(Rule::new(
        Side::Answer,
        ApiKey::METADATA,
        Act::Cut { after_bytes: 0 },
    ));
    connection.send(&metadata(1)).await.unwrap();
    assert!(matches!(connection.reply(SOON).await, Reply::Closed(_)));
    assert_eq!(
        ANSWERED.load(Ordering::SeqCst),
        0,
        "the server never had it whole"
    );
    let mut connection = open(&relay).await.unwrap();
    connection.send(&metadata(2)).await.unwrap();
    assert!(matches!(connection.reply(SOON).await, Reply::Closed(_)));
    assert_eq!(ANSWERED.load(Ordering::SeqCst), 1, "the server had done it");
    let mut connection = open(&relay).await.unwrap();
    connection.send(&metadata(3)).await.unwrap();
    frame(&mut connection).await;
    assert_eq!(relay.acted(), 2);
}

#[tokio::test]
async fn a_pulled_cable_closes_nothing_and_a_healed_network_forgets_its_rules() {
    let (relay, _, mut connection) = relay_to(&serve(far_away).await).await;
    relay.add(
        Rule::new(Side::Answer, ApiKey::METADATA, Act::HalfOpen)
            .any_api()
            .times(2),
    );
    connection.send(&metadata(1)).await.unwrap();
    assert_eq!(connection.reply(MOMENT).await, Reply::Silence);
    relay.heal();
    let mut other = open(&relay).await.unwrap();
    other.send(&metadata(2)).await.unwrap();
    frame(&mut other).await;
    assert_eq!(connection.reply(MOMENT).await, Reply::Silence);
}

#[tokio::test]
async fn a_delay_is_one() {
    let (relay, _, mut connection) = relay_to(&serve(far_away).await).await;
    relay.add(Rule::new(Side::Request, ApiKey::METADATA, Act::Delay(MOMENT)).after(1));
    let began = Instant::now();
    for correlation_id in [1, 2] {
        connection.send(&metadata(correlation_id)).await.unwrap();
        frame(&mut connection).await;
    }
    assert!(began.elapsed() >= MOMENT);
}

#[tokio::test]
async fn frames_larger_than_a_buffer_pass_whole() {
    fn echo_length(request: &[u8]) -> Option<Vec<u8>> {
        let mut answer = request[4..8].to_vec();
        answer.extend(request);
        Some(answer)
    }
    let (_relay, _, mut connection) = relay_to(&serve(echo_length).await).await;
    let mut large = request(ApiKey::HEARTBEAT, 0, 5, "me", &json!({}));
    large.resize(1_000_000, 0x5a);
    // Two at once, so that one stands behind the other in a buffer.
    connection.send(&large).await.unwrap();
    connection.send(&large).await.unwrap();
    for _ in 0..2 {
        assert_eq!(frame(&mut connection).await[4..], large);
    }
}

#[tokio::test]
async fn the_end_of_a_server_is_the_end_of_the_connection() {
    let (relay, _, mut connection) = relay_to(&serve(|_| None).await).await;
    connection.send(&metadata(1)).await.unwrap();
    assert!(matches!(connection.reply(SOON).await, Reply::Closed(_)));
    drop(relay);
    let nobody = Relay::start(
        &Access::plain("127.0.0.1:1"),
        Recorder::default(),
        "me",
        None,
    )
    .unwrap();
    let mut connection = open(&nobody).await.unwrap();
    assert!(matches!(connection.reply(SOON).await, Reply::Closed(_)));
}

#[tokio::test]
async fn tls_ends_at_a_relay_and_begins_again_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path()).unwrap();
    let trust = Security {
        tls: Some(Trust::of_file(authority.file()).unwrap()),
        sasl: None,
    };
    let start = |server: &Access| {
        let front = Some(authority.acceptor().unwrap());
        Relay::start(server, Recorder::default(), "me", front).unwrap()
    };
    // The first makes the server speak TLS, the second is the one under test.
    let server = start(&Access::plain(serve(far_away).await));
    let relay = start(&Access::new(server.bootstrap(), trust.clone()));
    let front = Access::new(relay.bootstrap(), trust);
    let mut connection = Connection::open(&front).await.unwrap();
    connection.send(&metadata(7)).await.unwrap();
    let answer = frame(&mut connection).await;
    assert_eq!(answer[..4], i32::to_be_bytes(7));
    assert_eq!(relay.connections(), 1);

    let mut plaintext = open(&relay).await.unwrap();
    plaintext.send(&metadata(8)).await.unwrap();
    assert!(plaintext.read_to_end(SOON).await.closed, "it is no TLS");

    let elsewhere = tempfile::tempdir().unwrap();
    let another = Authority::new(elsewhere.path()).unwrap();
    let mistrusting = Access::new(
        relay.bootstrap(),
        Security {
            tls: Some(Trust::of_file(another.file()).unwrap()),
            sasl: None,
        },
    );
    assert!(Connection::open(&mistrusting).await.is_err());
}

#[tokio::test]
async fn the_message_behind_handshake_0_is_no_request() {
    fn speaks_sasl(request: &[u8]) -> Option<Vec<u8>> {
        match request {
            [0, 17, 0, 0, ..] => response(request, json!({"Mechanisms": ["PLAIN"]})),
            [0, b'u', ..] => Some(Vec::new()),
            _ => far_away(request),
        }
    }
    let (_relay, record, mut connection) = relay_to(&serve(speaks_sasl).await).await;
    let ask = request(
        ApiKey::SASL_HANDSHAKE,
        0,
        1,
        "me",
        &json!({"Mechanism": "PLAIN"}),
    );
    connection.send(&ask).await.unwrap();
    frame(&mut connection).await;
    connection.send(b"\0user\0password").await.unwrap();
    assert_eq!(frame(&mut connection).await, Bytes::new());
    connection.send(&metadata(2)).await.unwrap();
    frame(&mut connection).await;
    let (evidence, _) = record.take();
    assert_eq!(
        evidence.facts["requests of me"],
        "SaslHandshake v0, Metadata v12"
    );
}
