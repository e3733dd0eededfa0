//! Queen's own client and Kafka's on the same topics.
//!
//! The clients of Kafka are librdkafka's; what the driver does goes past the facade.

use kafka_wire::ApiKey;
use serde_json::{Value as Json, json};

use super::client::{Client, from_start, record};
use super::{Env, Scenario};
use crate::drivers::protocol::{Blob, Incoming, Isolation, Op, Outgoing, Payloads, Setting};
use crate::spec::{Stop, Verdict, expect_eq};
use crate::target::{Kind, Node, QueenOptions, QueenProcess};

const GROUP: &str = "natives";
/// Silence after which a reader has read all.
const SILENCE_MS: u64 = 1_500;

pub(super) fn scenarios() -> Vec<Scenario> {
    let produce: &[ApiKey] = &[ApiKey::PRODUCE];
    let fetch: &[ApiKey] = &[ApiKey::FETCH];
    vec![
        Scenario::new(
            "queen-reads-kafka",
            "Queen's own client sees each record of a Kafka client as an envelope, byte for byte",
            produce,
            reads_kafka,
        ),
        Scenario::new(
            "queen-writes-for-kafka",
            "A Kafka client sees what Queen's own client pushed as JSON text, and an envelope as the record it is",
            fetch,
            writes_for_kafka,
        ),
        Scenario::new(
            "queen-transaction-over-kafka",
            "What Queen's own client moves in a transaction of Queen's a Kafka client reads once, unchanged",
            &[ApiKey::PRODUCE, ApiKey::FETCH],
            moves,
        ),
        Scenario::new(
            "queen-sees-kafka-transactions",
            "Queen's own client sees what a Kafka client has committed, and nothing that is open or aborted",
            &[ApiKey::INIT_PRODUCER_ID, ApiKey::END_TXN],
            sees_transactions,
        ),
    ]
    .into_iter()
    .map(|scenario| scenario.on_its_own_node().within(60))
    .collect()
}

/// A Queen, a facade over it, a client of each.
struct Both {
    native: Client,
    kafka: Client,
    node: Node,
    _queen: QueenProcess,
}

async fn both(env: &Env) -> Result<Both, Stop> {
    let mut native = env.client().await?;
    native.require("open_queen")?;
    if !matches!(env.cx.target.kind(), Kind::Facade) {
        return Err(Stop::Unable(
            "the client is given no token and no key of a tenant".into(),
        ));
    }
    let queen = QueenProcess::start(&QueenOptions::default(), None).await?;
    let url = format!("http://{}", queen.addr);
    let node = env.cx.own_node(&[("QUEEN_URL", &url)]).await?;
    native.done(&Op::OpenQueen { url }).await?;
    let mut kafka = env.helper(node.bootstrap()).await?;
    kafka.create_topic("shared", 1, &[]).await?;
    Ok(Both {
        native,
        kafka,
        node,
        _queen: queen,
    })
}

async fn pop(native: &mut Client, queue: &str, max: usize) -> Result<Vec<Json>, Stop> {
    let op = Op::QueenPop {
        queue: queue.into(),
        group: GROUP.into(),
        max,
    };
    let popped: Payloads = native.call(&op).await?;
    Ok(popped.payloads)
}

/// Everything committed in a topic of one partition.
async fn read(kafka: &mut Client, topic: &str) -> Result<Vec<Incoming>, Stop> {
    let committed = [Setting::Isolation(Isolation::ReadCommitted)];
    kafka.reader_with(from_start(topic, 1), &committed).await?;
    kafka.pump(SILENCE_MS, 1_000).await?;
    kafka.close_consumer().await?;
    Ok(kafka.take_records())
}

fn outgoing(value: Option<&[u8]>, key: Option<&[u8]>) -> Outgoing {
    Outgoing {
        key: key.map_or_else(Blob::default, Blob::of),
        value: value.map_or_else(Blob::default, Blob::of),
        timestamp_ms: Some(1_700_000_000_000),
        ..record("shared", 0, "")
    }
}

fn base64(bytes: &[u8]) -> String {
    base64_simd::STANDARD.encode_to_string(bytes)
}

async fn reads_kafka(env: Env) -> Verdict {
    let mut both = both(&env).await?;
    both.kafka.producer(&[]).await?;
    let mut with_headers = outgoing(Some(b"v"), Some(b"k"));
    with_headers.headers = vec![
        ("a".into(), Blob::of(b"1")),
        ("a".into(), Blob::of(b"")),
        ("b".into(), Blob::default()),
    ];
    let records = vec![
        outgoing(Some(b"hello"), None),
        outgoing(Some(b""), Some(b"")),
        outgoing(None, Some(b"\x00\xff")),
        outgoing(Some(b"{\"json\":true}"), None),
        with_headers,
    ];
    both.kafka.produce(records).await?;
    let time = 1_700_000_000_000_i64;
    let expected = [
        json!({"k": null, "t": time, "v": base64(b"hello")}),
        json!({"k": "", "t": time, "v": ""}),
        json!({"k": base64(b"\x00\xff"), "t": time, "v": null}),
        json!({"k": null, "t": time, "v": base64(b"{\"json\":true}")}),
        json!({
            "h": [{"k": "a", "v": base64(b"1")}, {"k": "a", "v": ""}, {"k": "b", "v": null}],
            "k": base64(b"k"), "t": time, "v": base64(b"v"),
        }),
    ];
    let popped = pop(&mut both.native, "shared", 10).await?;
    expect_eq("payloads", &expected.as_slice(), &popped.as_slice())?;
    let again = pop(&mut both.native, "shared", 10).await?;
    expect_eq("payloads after they were acknowledged", &Vec::new(), &again)
}

async fn writes_for_kafka(env: Env) -> Verdict {
    let mut both = both(&env).await?;
    let payloads = vec![
        json!({"order": 1}),
        json!(["a", null, 1.5]),
        json!("text"),
        // Not an envelope: one field too many.
        json!({"k": null, "v": base64(b"x"), "z": 1}),
        json!({"k": base64(b"key"), "v": base64(b"value")}),
    ];
    let texts: Vec<String> = payloads.iter().map(Json::to_string).collect();
    let push = Op::QueenPush {
        queue: "shared".into(),
        payloads,
    };
    both.native.done(&push).await?;
    let found = read(&mut both.kafka, "shared").await?;
    expect_eq("records", &5, &found.len())?;
    for (at, text) in texts.iter().take(4).enumerate() {
        let native: Json = serde_json::from_str(found[at].value.text())
            .map_err(|error| Stop::fail(format!("record {at} is no JSON: {error}")))?;
        expect_eq(&format!("record {at}"), text, &native.to_string())?;
        expect_eq(&format!("key {at}"), &Blob::default(), &found[at].key)?;
    }
    expect_eq("the envelope's key", &Blob::of(b"key"), &found[4].key)?;
    expect_eq("the envelope's value", &Blob::of(b"value"), &found[4].value)
}

async fn moves(env: Env) -> Verdict {
    let mut both = both(&env).await?;
    both.kafka.create_topic("moved", 1, &[]).await?;
    both.kafka.producer(&[]).await?;
    let records = vec![
        outgoing(Some(b"one"), Some(b"k")),
        outgoing(None, Some(b"gone")),
        outgoing(Some(b""), None),
    ];
    both.kafka.produce(records).await?;
    let before = read(&mut both.kafka, "shared").await?;
    let op = Op::QueenMove {
        from: "shared".into(),
        to: "moved".into(),
        group: GROUP.into(),
        max: 10,
    };
    for expected in [3, 0] {
        let moved: Payloads = both.native.call(&op).await?;
        expect_eq("messages moved", &expected, &moved.payloads.len())?;
    }
    let mut after = read(&mut both.kafka, "moved").await?;
    for record in &mut after {
        record.topic = "shared".into();
    }
    expect_eq("records", &before, &after)
}

async fn sees_transactions(env: Env) -> Verdict {
    let mut both = both(&env).await?;
    let id = [Setting::TransactionalId("txn".into())];
    both.kafka.producer(&id).await?;
    both.kafka.done(&Op::InitTransactions).await?;
    let mut expected = Vec::new();
    for (round, end) in [Op::AbortTransaction, Op::CommitTransaction]
        .iter()
        .enumerate()
    {
        both.kafka.done(&Op::BeginTransaction).await?;
        let value = format!("round {round}");
        both.kafka
            .produce(vec![outgoing(Some(value.as_bytes()), None)])
            .await?;
        let open = pop(&mut both.native, "shared", 10).await?;
        expect_eq("payloads of an open transaction", &Vec::new(), &open)?;
        both.kafka.done(end).await?;
        if matches!(end, Op::CommitTransaction) {
            expected.push(base64(value.as_bytes()));
        }
        let values: Vec<String> = pop(&mut both.native, "shared", 10)
            .await?
            .iter()
            .map(|payload| payload["v"].as_str().unwrap_or_default().to_owned())
            .collect();
        expect_eq("values after its end", &expected, &values)?;
    }
    both.node.terminate().await?;
    Ok(())
}
