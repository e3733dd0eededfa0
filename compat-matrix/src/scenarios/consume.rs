//! Consuming without a group's assignment: where to start, limits, positions, waiting.

use std::time::Duration;

use kafka_wire::ApiKey;
use tokio::time::Instant;

use super::client::{Client, from_start, number, record};
use super::{Env, Scenario};
use crate::drivers::protocol::{Codec, Event, OffsetReset, Outgoing, Place, Setting};
use crate::spec::{Stop, Verdict, ensure, expect_eq};

const APIS: &[ApiKey] = &[ApiKey::FETCH, ApiKey::LIST_OFFSETS];

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "consume-from-beginning",
            "A reader at the beginning sees every record of every partition in order",
            APIS,
            from_beginning,
        ),
        Scenario::new(
            "consume-from-end",
            "A reader at the end sees only what comes after it",
            APIS,
            from_end,
        ),
        Scenario::new(
            "consume-from-offset",
            "A reader at an offset starts exactly there",
            APIS,
            from_offset,
        ),
        Scenario::new(
            "consume-from-time",
            "A time finds the first record, in offset order, that is not older",
            APIS,
            from_time,
        )
        .kips(&[79]),
        Scenario::new(
            "consume-out-of-range",
            "An offset past the end is told, and resets where the client asks for it",
            APIS,
            out_of_range,
        ),
        Scenario::new(
            "consume-pause-and-resume",
            "A paused partition is silent while the others go on, and misses nothing after",
            APIS,
            pause_and_resume,
        ),
        Scenario::new("consume-seek", "A seek moves back and forth", APIS, seek),
        Scenario::new(
            "consume-watermarks",
            "Watermarks are the first readable and the next offset",
            APIS,
            watermarks,
        ),
        Scenario::new(
            "consume-record-over-the-limit",
            "A record larger than the fetch limit still comes, alone",
            APIS,
            record_over_the_limit,
        ),
        Scenario::new(
            "consume-wakes-on-produce",
            "A waiting reader is woken by a record, long before its wait is over",
            APIS,
            wakes_on_produce,
        ),
        Scenario::new(
            "consume-compressed-and-plain",
            "One partition with batches of every codec reads as one log",
            APIS,
            every_codec_in_one_log,
        ),
    ]
}

async fn filled(env: &Env, partitions: i32, each: u64) -> Result<(Client, String), Stop> {
    let (mut client, topic) = env.topic(partitions).await?;
    client.producer(&[]).await?;
    for partition in 0..partitions {
        client
            .produce_numbers(&topic, Some(partition), 0, each)
            .await?;
    }
    Ok((client, topic))
}

async fn from_beginning(env: Env) -> Verdict {
    let (_producer, topic) = filled(&env, 3, 200).await?;
    let mut reader = env.client().await?;
    reader.reader(from_start(&topic, 3)).await?;
    let mut next = [0_i64; 3];
    for record in reader.read_exactly(600).await? {
        let at = usize::try_from(record.partition).unwrap_or_default();
        expect_eq("offset", &next[at], &record.offset)?;
        expect_eq("number", &(next[at] as u64), &number(&record)?)?;
        next[at] += 1;
    }
    Ok(())
}

async fn from_end(env: Env) -> Verdict {
    let (mut producer, topic) = filled(&env, 1, 50).await?;
    let mut reader = env.client().await?;
    reader.reader(vec![Place::new(&topic, 0, -1)]).await?;
    // The end is looked up when the reader first polls.
    reader.pump(500, 1).await?;
    expect_eq("records before", &0, &reader.held())?;
    producer.produce_numbers(&topic, Some(0), 50, 10).await?;
    let read = reader.read_exactly(10).await?;
    expect_eq("first", &50, &read[0].offset)
}

async fn from_offset(env: Env) -> Verdict {
    let (_producer, topic) = filled(&env, 1, 100).await?;
    for start in [0, 1, 57, 99, 100] {
        let mut reader = env.client().await?;
        reader.reader(vec![Place::new(&topic, 0, start)]).await?;
        let read = reader
            .read_exactly(usize::try_from(100 - start).unwrap_or_default())
            .await?;
        if let Some(first) = read.first() {
            expect_eq("first offset", &start, &first.offset)?;
        }
    }
    Ok(())
}

async fn from_time(env: Env) -> Verdict {
    let (mut client, topic) = env.topic(1).await?;
    client.producer(&[]).await?;
    // Not monotone: plain binary search is wrong here.
    let times = [1_000_i64, 5_000, 2_000, 3_000, 9_000, 4_000];
    for time in times {
        client
            .produce(vec![Outgoing {
                timestamp_ms: Some(time),
                ..record(&topic, 0, "x")
            }])
            .await?;
    }
    client.reader(vec![]).await?;
    for asked in [0, 1_000, 1_001, 4_500, 5_001, 9_000, 9_001] {
        let expected = times
            .iter()
            .position(|time| *time >= asked)
            .map_or(-1, |at| at as i64);
        let found = client
            .offsets_for_times(vec![Place::new(&topic, 0, asked)])
            .await?;
        expect_eq(&format!("offset at {asked}"), &expected, &found[0].offset)?;
    }
    Ok(())
}

async fn out_of_range(env: Env) -> Verdict {
    let (_producer, topic) = filled(&env, 1, 20).await?;
    let mut strict = env.client().await?;
    strict
        .reader_with(
            vec![Place::new(&topic, 0, 5_000)],
            &[Setting::OffsetReset(OffsetReset::Error)],
        )
        .await?;
    strict.pump(1_500, 1).await?;
    ensure(
        strict
            .events
            .iter()
            .any(|event| matches!(event, Event::Error { .. })),
        || format!("nothing was told: {:?}", strict.events),
    )?;
    let mut lenient = env.client().await?;
    lenient
        .reader_with(
            vec![Place::new(&topic, 0, 5_000)],
            &[Setting::OffsetReset(OffsetReset::Earliest)],
        )
        .await?;
    let read = lenient.read_exactly(20).await?;
    expect_eq("first offset after the reset", &0, &read[0].offset)
}

async fn pause_and_resume(env: Env) -> Verdict {
    let (mut producer, topic) = filled(&env, 2, 10).await?;
    let mut reader = env.client().await?;
    reader.reader(from_start(&topic, 2)).await?;
    reader.read_exactly(20).await?;
    reader.pause(vec![Place::new(&topic, 0, 0)]).await?;
    producer.produce_numbers(&topic, Some(0), 10, 10).await?;
    producer.produce_numbers(&topic, Some(1), 10, 10).await?;
    let read = reader.read_exactly(10).await?;
    ensure(read.iter().all(|record| record.partition == 1), || {
        "a paused partition spoke".into()
    })?;
    reader.resume(vec![Place::new(&topic, 0, 0)]).await?;
    let read = reader.read_exactly(10).await?;
    expect_eq("first offset after the pause", &10, &read[0].offset)
}

async fn seek(env: Env) -> Verdict {
    let (_producer, topic) = filled(&env, 1, 60).await?;
    let mut reader = env.client().await?;
    reader.reader(from_start(&topic, 1)).await?;
    reader.read_exactly(60).await?;
    for start in [10_i64, 55, 0] {
        reader.seek(Place::new(&topic, 0, start)).await?;
        let read = reader
            .read_exactly(usize::try_from(60 - start).unwrap_or_default())
            .await?;
        expect_eq("first offset after the seek", &start, &read[0].offset)?;
    }
    let position = reader.position().await?;
    expect_eq("position", &60, &position[0].offset)
}

async fn watermarks(env: Env) -> Verdict {
    let (mut client, topic) = filled(&env, 2, 33).await?;
    client.reader(vec![]).await?;
    expect_eq("watermarks", &(0, 33), &client.watermarks(&topic, 0).await?)?;
    let (mut fresh, empty) = env.topic(1).await?;
    fresh.reader(vec![]).await?;
    expect_eq(
        "of an empty partition",
        &(0, 0),
        &fresh.watermarks(&empty, 0).await?,
    )
}

async fn record_over_the_limit(env: Env) -> Verdict {
    let (mut client, topic) = env.topic(1).await?;
    client.producer(&[Setting::LingerMs(0)]).await?;
    for n in 0..4_u8 {
        client
            .produce(vec![record(&topic, 0, vec![n; 300_000])])
            .await?;
    }
    let mut reader = env.client().await?;
    reader
        .reader_with(from_start(&topic, 1), &[Setting::FetchMaxBytes(1_000)])
        .await?;
    for (at, record) in reader.read_exactly(4).await?.iter().enumerate() {
        expect_eq(
            "length",
            &Some(300_000),
            &record.value.0.as_ref().map(Vec::len),
        )?;
        expect_eq("offset", &(at as i64), &record.offset)?;
    }
    Ok(())
}

async fn wakes_on_produce(env: Env) -> Verdict {
    let (mut producer, topic) = filled(&env, 1, 1).await?;
    let mut reader = env.client().await?;
    reader
        .reader_with(from_start(&topic, 1), &[Setting::FetchMaxWaitMs(20_000)])
        .await?;
    reader.read_exactly(1).await?;
    // Its fetch is parked by now.
    reader.pump(300, 1).await?;
    let began = Instant::now();
    producer.produce_numbers(&topic, Some(0), 1, 1).await?;
    reader.pump(5_000, 1).await?;
    expect_eq("records", &1, &reader.held())?;
    env.cx.record.fact(
        "woken_after_ms",
        u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    );
    ensure(began.elapsed() < Duration::from_secs(5), || {
        format!("it took {:?} of a wait of 20 s", began.elapsed())
    })
}

async fn every_codec_in_one_log(env: Env) -> Verdict {
    let (_creator, topic) = env.topic(1).await?;
    let codecs = [
        Codec::None,
        Codec::Gzip,
        Codec::Snappy,
        Codec::Lz4,
        Codec::Zstd,
    ];
    for (at, codec) in codecs.into_iter().enumerate() {
        let mut producer = env.client().await?;
        producer.producer(&[Setting::Compression(codec)]).await?;
        producer
            .produce_numbers(&topic, Some(0), at as u64 * 100, 100)
            .await?;
    }
    let mut reader = env.client().await?;
    reader.reader(from_start(&topic, 1)).await?;
    for (at, record) in reader.read_exactly(500).await?.iter().enumerate() {
        expect_eq(&format!("records[{at}]"), &(at as u64), &number(record)?)?;
    }
    Ok(())
}
