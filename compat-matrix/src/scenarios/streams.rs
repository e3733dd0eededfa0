//! Applications of Kafka Streams: groups, transactions and topics as a framework uses them together.

use std::collections::BTreeMap;
use std::time::Duration;

use kafka_wire::ApiKey;
use tokio::time::Instant;

use super::client::{Client, from_start, record};
use super::{Env, Scenario};
use crate::drivers::protocol::{Isolation, Op, Setting};
use crate::spec::{Stop, Verdict, ensure, expect_eq};

const APIS: &[ApiKey] = &[
    ApiKey::CREATE_TOPICS,
    ApiKey::JOIN_GROUP,
    ApiKey::INIT_PRODUCER_ID,
    ApiKey::ADD_PARTITIONS_TO_TXN,
    ApiKey::TXN_OFFSET_COMMIT,
    ApiKey::END_TXN,
];

/// Partitions of both topics.
const PARTITIONS: i32 = 2;
/// Lines of each half of the input.
const LINES: u64 = 100;
/// Each line has the first word, and one of so many others.
const OTHERS: u64 = 7;
/// How long a half may take until its counts are there.
const COUNTED_WITHIN: Duration = Duration::from_secs(40);

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "streams-word-count-restart",
            "Kafka Streams counts each word exactly once, over an end and a new start",
            APIS,
            over_restart,
        )
        .within(120)
        .kips(&[129, 447]),
        Scenario::new(
            "streams-word-count-over-a-kill",
            "Kafka Streams counts each word exactly once, over a kill of its server",
            APIS,
            over_kill,
        )
        .on_its_own_node()
        .within(150)
        .kips(&[129, 447]),
    ]
}

/// An application and the topics that it works on.
struct WordCount {
    application: String,
    input: String,
    output: String,
}

impl WordCount {
    async fn new(env: &Env, client: &mut Client) -> Result<Self, Stop> {
        // What the client can't do is known before anything is made for it.
        client.require("start_word_count")?;
        let this = Self {
            application: env.cx.unique("words"),
            input: env.cx.unique("lines"),
            output: env.cx.unique("counts"),
        };
        for topic in [&this.input, &this.output] {
            client.create_topic(topic, PARTITIONS, &[]).await?;
        }
        client.producer(&[]).await?;
        // Its own topics are named after it and its store.
        for own in ["repartition", "changelog"] {
            let name = format!("{}-counts-{own}", this.application);
            env.cx.target.remember_topic(&name);
        }
        Ok(this)
    }

    async fn start(&self, client: &mut Client) -> Verdict {
        client
            .done(&Op::StartWordCount {
                application: self.application.clone(),
                input: self.input.clone(),
                output: self.output.clone(),
            })
            .await
    }

    async fn write(&self, client: &mut Client, lines: std::ops::Range<u64>) -> Verdict {
        let lines = lines.map(|line| {
            let partition = i32::try_from(line % 2).unwrap_or_default();
            record(
                &self.input,
                partition,
                format!("word other{}", line % OTHERS),
            )
        });
        client.produce(lines.collect()).await?;
        Ok(())
    }

    /// Reads what was committed until the counts of `lines` lines are there, and demands that each
    /// word's counts only grow: one that comes twice was counted twice.
    async fn counts(&self, reader: &mut Client, lines: u64) -> Verdict {
        let mut expected = BTreeMap::from([("word".to_owned(), lines)]);
        for line in 0..lines {
            *expected
                .entry(format!("other{}", line % OTHERS))
                .or_default() += 1;
        }
        let committed = [Setting::Isolation(Isolation::ReadCommitted)];
        let places = from_start(&self.output, PARTITIONS);
        reader.reader_with(places, &committed).await?;
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        let deadline = Instant::now() + COUNTED_WITHIN;
        while counts != expected && Instant::now() < deadline {
            reader.pump(500, 10_000).await?;
            for update in reader.take_records() {
                let word = update.key.text().to_owned();
                let count: u64 = update
                    .value
                    .text()
                    .parse()
                    .map_err(|_| Stop::fail(format!("{word} has a count that is no number")))?;
                let before = counts.insert(word.clone(), count);
                ensure(before < Some(count), || {
                    format!("{word} was counted up to {before:?}, and then to {count}")
                })?;
            }
        }
        reader.close_consumer().await?;
        expect_eq("the counts", &expected, &counts)
    }
}

async fn over_restart(env: Env) -> Verdict {
    let (mut client, mut reader) = (env.client().await?, env.client().await?);
    let words = WordCount::new(&env, &mut client).await?;
    words.start(&mut client).await?;
    words.write(&mut client, 0..LINES).await?;
    words.counts(&mut reader, LINES).await?;
    client.done(&Op::StopWordCount).await?;
    words.write(&mut client, LINES..2 * LINES).await?;
    words.start(&mut client).await?;
    words.counts(&mut reader, 2 * LINES).await?;
    client.done(&Op::StopWordCount).await
}

async fn over_kill(env: Env) -> Verdict {
    let node = env.cx.own_node(&[]).await?;
    let mut client = env.client_of(&node).await?;
    let mut reader = env.client_of(&node).await?;
    let words = WordCount::new(&env, &mut client).await?;
    words.start(&mut client).await?;
    words.write(&mut client, 0..LINES).await?;
    // Some of it is counted, some is not, some is in a transaction.
    node.kill().await?;
    node.start().await?;
    words.write(&mut client, LINES..2 * LINES).await?;
    words.counts(&mut reader, 2 * LINES).await?;
    client.done(&Op::StopWordCount).await
}
