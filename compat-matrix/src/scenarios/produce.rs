//! Producing: codecs, acknowledgements, record corners, idempotence, size, order.

use std::collections::BTreeMap;

use kafka_wire::ApiKey;

use super::client::{from_start, number, record};
use super::{Env, Scenario};
use crate::drivers::protocol::{Acks, Blob, Codec, Incoming, Outgoing, Partitioner, Setting};
use crate::spec::{Verdict, ensure, expect_eq};

const APIS: &[ApiKey] = &[ApiKey::PRODUCE, ApiKey::FETCH, ApiKey::METADATA];
const IDEMPOTENT: &[ApiKey] = &[ApiKey::INIT_PRODUCER_ID, ApiKey::PRODUCE, ApiKey::FETCH];

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut scenarios: Vec<Scenario> = [
        ("produce-uncompressed", Codec::None),
        ("produce-gzip", Codec::Gzip),
        ("produce-snappy", Codec::Snappy),
        ("produce-lz4", Codec::Lz4),
        ("produce-zstd", Codec::Zstd),
    ]
    .into_iter()
    .map(|(name, codec)| {
        Scenario::new(
            name,
            "Records come back byte for byte, whatever the codec",
            APIS,
            move |env| round_trip(env, codec),
        )
    })
    .collect();
    scenarios.extend(
        [
            ("produce-acks-0", Acks::None),
            ("produce-acks-1", Acks::Leader),
            ("produce-acks-all", Acks::All),
        ]
        .map(|(name, acks)| {
            Scenario::new(
                name,
                "Each level of acknowledgement stores every record once, in order",
                APIS,
                move |env| acknowledged(env, acks),
            )
        }),
    );
    scenarios.extend([
        Scenario::new(
            "produce-keys-and-headers",
            "Null, empty and binary keys and repeated, null and empty headers survive",
            APIS,
            keys_and_headers,
        ),
        Scenario::new(
            "produce-null-and-empty-values",
            "A tombstone and an empty value stay different",
            APIS,
            null_and_empty_values,
        ),
        Scenario::new(
            "produce-timestamps",
            "The producer's timestamps come back, in whatever order they are",
            APIS,
            timestamps,
        ),
        Scenario::new(
            "produce-by-key",
            "One key always meets one partition, in order",
            APIS,
            by_key,
        ),
        Scenario::new(
            "produce-to-a-new-topic",
            "Producing to a topic that does not exist creates it",
            APIS,
            to_a_new_topic,
        ),
        Scenario::new(
            "produce-large-records",
            "Records of one and of five megabytes come back whole",
            APIS,
            large_records,
        )
        .within(40),
        Scenario::new(
            "produce-pipelined",
            "With five requests in flight and no lingering, a partition keeps its order",
            APIS,
            pipelined,
        ),
        Scenario::new(
            "produce-idempotent",
            "An idempotent producer gets contiguous offsets on every partition",
            IDEMPOTENT,
            idempotent,
        )
        .kips(&[98, 360]),
        Scenario::new(
            "produce-two-idempotent-producers",
            "Two idempotent producers on one partition keep out of each other's sequences",
            IDEMPOTENT,
            two_idempotent_producers,
        )
        .kips(&[98]),
    ]);
    scenarios
}

/// Reads everything of `topic` from its beginning with another client.
pub(super) async fn read_back(
    env: &Env,
    topic: &str,
    partitions: i32,
    count: usize,
) -> Result<Vec<Incoming>, crate::spec::Stop> {
    let mut reader = env.eyes(env.cx.bootstrap()).await?;
    reader.reader(from_start(topic, partitions)).await?;
    reader.read_exactly(count).await
}

async fn round_trip(env: Env, codec: Codec) -> Verdict {
    let (mut client, topic) = env.topic(1).await?;
    client
        .producer(&[Setting::Compression(codec), Setting::LingerMs(50)])
        .await?;
    let sent: Vec<Outgoing> = (0..300)
        .map(|n: u32| {
            record(
                &topic,
                0,
                format!("{n} the same words again and again {}", "ab".repeat(200)),
            )
        })
        .collect();
    client.produce(sent.clone()).await?;
    let read = read_back(&env, &topic, 1, sent.len()).await?;
    for (at, (sent, read)) in sent.iter().zip(&read).enumerate() {
        expect_eq(&format!("records[{at}].value"), &sent.value, &read.value)?;
        expect_eq(&format!("records[{at}].offset"), &(at as i64), &read.offset)?;
    }
    Ok(())
}

async fn acknowledged(env: Env, acks: Acks) -> Verdict {
    let (mut client, topic) = env.topic(1).await?;
    client.producer(&[Setting::Acks(acks)]).await?;
    client.produce_numbers(&topic, Some(0), 0, 500).await?;
    let read = read_back(&env, &topic, 1, 500).await?;
    for (at, record) in read.iter().enumerate() {
        expect_eq(&format!("records[{at}]"), &(at as u64), &number(record)?)?;
    }
    Ok(())
}

async fn keys_and_headers(env: Env) -> Verdict {
    let (mut client, topic) = env.topic(1).await?;
    client.producer(&[]).await?;
    let every_byte: Vec<u8> = (0..=255).collect();
    let header = |name: &str, value: Blob| (name.to_owned(), value);
    let sent = vec![
        record(&topic, 0, "no key, no headers"),
        Outgoing {
            key: Blob::of(""),
            headers: vec![header("one", Blob::of("1"))],
            ..record(&topic, 0, "empty key")
        },
        Outgoing {
            key: Blob(Some(every_byte.clone())),
            headers: vec![
                header("twice", Blob::of("a")),
                header("other", Blob(Some(every_byte))),
                header("twice", Blob::of("b")),
                header("null", Blob(None)),
                header("empty", Blob::of("")),
                header("", Blob::of("no name")),
                header("größe", Blob::of("not ASCII")),
            ],
            ..record(&topic, 0, "every byte")
        },
    ];
    client.produce(sent.clone()).await?;
    let read = read_back(&env, &topic, 1, sent.len()).await?;
    for (at, (sent, read)) in sent.iter().zip(&read).enumerate() {
        expect_eq(&format!("records[{at}].key"), &sent.key, &read.key)?;
        expect_eq(
            &format!("records[{at}].headers"),
            &sent.headers,
            &read.headers,
        )?;
    }
    Ok(())
}

async fn null_and_empty_values(env: Env) -> Verdict {
    let (mut client, topic) = env.topic(1).await?;
    client.producer(&[]).await?;
    let with = |value: Blob| Outgoing {
        key: Blob::of("k"),
        value,
        ..record(&topic, 0, "")
    };
    let sent = vec![with(Blob(None)), with(Blob::of("")), with(Blob::of("v"))];
    client.produce(sent.clone()).await?;
    let read = read_back(&env, &topic, 1, sent.len()).await?;
    for (at, (sent, read)) in sent.iter().zip(&read).enumerate() {
        expect_eq(&format!("records[{at}].value"), &sent.value, &read.value)?;
    }
    Ok(())
}

async fn timestamps(env: Env) -> Verdict {
    let (mut client, topic) = env.topic(1).await?;
    client.producer(&[]).await?;
    // Backwards and long ago: CreateTime need not be monotone. Not far ahead: a broker may refuse what
    // is an hour ahead of it (message.timestamp.after.max.ms, KIP-937).
    let times = [
        1_700_000_000_000_i64,
        1_600_000_000_123,
        1,
        1_700_000_000_001,
    ];
    let sent = times
        .iter()
        .map(|time| Outgoing {
            timestamp_ms: Some(*time),
            ..record(&topic, 0, time.to_string())
        })
        .collect();
    client.produce(sent).await?;
    let read = read_back(&env, &topic, 1, times.len()).await?;
    let came: Vec<i64> = read
        .iter()
        .filter_map(|record| record.timestamp_ms)
        .collect();
    expect_eq("timestamps", &times.to_vec(), &came)
}

async fn by_key(env: Env) -> Verdict {
    let (mut client, topic) = env.topic(6).await?;
    client
        .producer(&[Setting::Partitioner(Partitioner::Murmur2)])
        .await?;
    let sent: Vec<Outgoing> = (0..240)
        .map(|n: u32| Outgoing {
            partition: None,
            key: Blob::of(format!("key-{}", n % 24)),
            ..record(&topic, 0, n.to_string())
        })
        .collect();
    client.produce(sent).await?;
    let mut last: BTreeMap<Blob, (i32, u64)> = BTreeMap::new();
    let mut used = std::collections::BTreeSet::new();
    for record in read_back(&env, &topic, 6, 240).await? {
        let n = number(&record)?;
        used.insert(record.partition);
        if let Some((partition, before)) = last.insert(record.key.clone(), (record.partition, n)) {
            expect_eq("partition of one key", &partition, &record.partition)?;
            ensure(before < n, || {
                format!("{n} came after {before} of the same key")
            })?;
        }
    }
    ensure(used.len() > 2, || {
        format!("24 keys met only partitions {used:?}")
    })
}

async fn to_a_new_topic(env: Env) -> Verdict {
    let topic = env.cx.unique("made-by-producing");
    env.cx.target.remember_topic(&topic);
    let mut client = env.client().await?;
    client.producer(&[]).await?;
    let places = client
        .produce(vec![Outgoing {
            partition: None,
            key: Blob::of("k"),
            ..record(&topic, 0, "first")
        }])
        .await?;
    expect_eq(
        "offset",
        &vec![0],
        &places.iter().map(|(_, o)| *o).collect(),
    )?;
    let width = client.metadata(Some(&topic)).await?.topics[&topic];
    let read = read_back(&env, &topic, i32::try_from(width).unwrap_or(1), 1).await?;
    expect_eq("value", &Blob::of("first"), &read[0].value)
}

async fn large_records(env: Env) -> Verdict {
    let (mut client, topic) = env.topic(1).await?;
    client
        .producer(&[Setting::MaxRequestBytes(9_000_000), Setting::LingerMs(0)])
        .await?;
    // Not compressible, so that the size is the size.
    let noise = |len: usize, mut state: u32| -> Vec<u8> {
        (0..len)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect()
    };
    for (at, bytes) in [900_000, 5_000_000].into_iter().enumerate() {
        let value = noise(bytes, 7);
        let places = match client.produce(vec![record(&topic, 0, &value)]).await {
            Ok(places) => places,
            // A server may have a limit of its own below five megabytes; Kafka's default is one.
            Err(_) if bytes > 1_000_000 && !is_facade(&env) => return Ok(()),
            Err(why) => return Err(why),
        };
        expect_eq("offset", &vec![(0, at as i64)], &places)?;
        let mut reader = env.eyes(env.cx.bootstrap()).await?;
        reader
            .reader(vec![crate::drivers::protocol::Place::new(
                &topic, 0, at as i64,
            )])
            .await?;
        let read = reader.read_exactly(1).await?;
        ensure(read[0].value.0.as_deref() == Some(&value), || {
            format!("{bytes} bytes came back changed")
        })?;
    }
    Ok(())
}

fn is_facade(env: &Env) -> bool {
    env.cx.target.kind().is_ours()
}

async fn pipelined(env: Env) -> Verdict {
    let (mut client, topic) = env.topic(1).await?;
    client
        .producer(&[
            Setting::LingerMs(0),
            Setting::BatchRecords(7),
            Setting::MaxInFlight(5),
        ])
        .await?;
    client.produce_numbers(&topic, Some(0), 0, 3_000).await?;
    for (at, record) in read_back(&env, &topic, 1, 3_000).await?.iter().enumerate() {
        expect_eq(&format!("records[{at}]"), &(at as u64), &number(record)?)?;
    }
    Ok(())
}

async fn idempotent(env: Env) -> Verdict {
    let (mut client, topic) = env.topic(3).await?;
    client
        .producer(&[Setting::Idempotence(true), Setting::BatchRecords(50)])
        .await?;
    for partition in 0..3 {
        let places = client
            .produce_numbers(&topic, Some(partition), 0, 1_000)
            .await?;
        let expected: Vec<(i32, i64)> = (0..1_000).map(|offset| (partition, offset)).collect();
        expect_eq("places", &expected, &places)?;
    }
    read_back(&env, &topic, 3, 3_000).await.map(drop)
}

async fn two_idempotent_producers(env: Env) -> Verdict {
    let (mut one, topic) = env.topic(1).await?;
    let mut two = env.client().await?;
    one.producer(&[Setting::Idempotence(true)]).await?;
    two.producer(&[Setting::Idempotence(true)]).await?;
    for round in 0..20 {
        one.produce_numbers(&topic, Some(0), round * 10, 10).await?;
        two.produce_numbers(&topic, Some(0), round * 10, 10).await?;
    }
    let read = read_back(&env, &topic, 1, 400).await?;
    for n in 0..200 {
        let times = read
            .iter()
            .filter(|record| number(record).ok() == Some(n))
            .count();
        expect_eq(&format!("how often {n} was stored"), &2, &times)?;
    }
    Ok(())
}
