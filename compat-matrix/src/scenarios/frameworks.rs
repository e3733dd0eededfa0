//! Frameworks that bring their own clients: Kafka Connect and Spring Kafka.
//!
//! What a framework cannot do for a scenario, librdkafka does.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kafka_wire::ApiKey;
use tokio::time::{Instant, sleep};

use super::client::{Client, from_start, record};
use super::{Env, Scenario};
use crate::drivers::protocol::{Isolation, Op, Setting};
use crate::spec::{Stop, Verdict, ensure, expect_eq};
use crate::wire::Access;

/// How long something that was started may take until its work is seen.
const DONE_WITHIN: Duration = Duration::from_secs(40);
/// Lines of each half of the file.
const LINES: usize = 50;

pub(super) fn scenarios() -> Vec<Scenario> {
    let connect: &[ApiKey] = &[
        ApiKey::CREATE_TOPICS,
        ApiKey::JOIN_GROUP,
        ApiKey::INIT_PRODUCER_ID,
        ApiKey::TXN_OFFSET_COMMIT,
        ApiKey::OFFSET_COMMIT,
    ];
    vec![
        Scenario::new(
            "connect-file-to-file-restart",
            "Kafka Connect copies a file over a topic, each line exactly once, over an end and a new start",
            connect,
            over_restart,
        )
        .within(180)
        .kips(&[618]),
        Scenario::new(
            "connect-file-to-topic-over-a-kill",
            "Kafka Connect copies a file to a topic, each line exactly once, over a kill of the server",
            connect,
            over_kill,
        )
        .on_its_own_node()
        .within(180)
        .kips(&[618]),
        Scenario::new(
            "spring-listener",
            "A listener of Spring Kafka copies in transactions, and what fails three times is a dead letter",
            &[
                ApiKey::JOIN_GROUP,
                ApiKey::OFFSET_COMMIT,
                ApiKey::INIT_PRODUCER_ID,
                ApiKey::END_TXN,
            ],
            listener,
        )
        .within(120),
    ]
}

/// A worker of Kafka Connect and the files that it works on.
struct FileCopy {
    application: String,
    topic: String,
    folder: tempfile::TempDir,
}

impl FileCopy {
    async fn new(env: &Env, server: &Access) -> Result<Self, Stop> {
        let folder = tempfile::Builder::new()
            .prefix("compat-matrix-connect-")
            .tempdir()
            .map_err(|error| Stop::fail(format!("no folder for files: {error}")))?;
        let this = Self {
            application: env.cx.unique("connect"),
            topic: env.cx.unique("lines"),
            folder,
        };
        env.helper(server)
            .await?
            .create_topic(&this.topic, 1, &[])
            .await?;
        for own in ["config", "offset", "status"] {
            let name = format!("{}-{own}", this.application);
            env.cx.target.remember_topic(&name);
        }
        Ok(this)
    }

    fn from(&self) -> PathBuf {
        self.folder.path().join("from")
    }

    fn to(&self) -> PathBuf {
        self.folder.path().join("to")
    }

    /// The file that is copied gets lines `0..count`, those that it has included.
    fn write(&self, count: usize) -> Verdict {
        let lines: String = lines(count).map(|line| line + "\n").collect();
        std::fs::write(self.from(), lines)
            .map_err(|error| Stop::fail(format!("cannot write lines: {error}")))
    }

    async fn start(&self, client: &mut Client) -> Verdict {
        let text = |path: &Path| path.display().to_string();
        client
            .done(&Op::StartFileCopy {
                application: self.application.clone(),
                from: text(&self.from()),
                topic: self.topic.clone(),
                to: text(&self.to()),
            })
            .await
    }

    /// Waits for `count` lines in the other file, and demands that they are the first ones in order.
    async fn copied(&self, count: usize) -> Verdict {
        let deadline = Instant::now() + DONE_WITHIN;
        loop {
            // It is not there before the first line is.
            let text = std::fs::read_to_string(self.to()).unwrap_or_default();
            let found: Vec<&str> = text.lines().collect();
            if found.len() >= count && text.ends_with('\n') {
                return expect_eq(
                    "the file",
                    &lines(count).collect::<Vec<_>>(),
                    &owned(&found),
                );
            }
            ensure(Instant::now() < deadline, || {
                format!("{} of {count} lines were copied", found.len())
            })?;
            sleep(Duration::from_millis(100)).await;
        }
    }
}

fn lines(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|line| format!("line {line}"))
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Waits until `count` committed values are in a topic of one partition, and answers them with what
/// came in the second after.
async fn values(helper: &mut Client, topic: &str, count: usize) -> Result<Vec<String>, Stop> {
    helper
        .reader_with(
            from_start(topic, 1),
            &[Setting::Isolation(Isolation::ReadCommitted)],
        )
        .await?;
    let deadline = Instant::now() + DONE_WITHIN;
    while helper.held() < count && Instant::now() < deadline {
        helper.pump(500, count).await?;
    }
    helper.pump(1_000, count).await?;
    helper.close_consumer().await?;
    let records = helper.take_records();
    Ok(records.iter().map(|r| r.value.text().to_owned()).collect())
}

async fn over_restart(env: Env) -> Verdict {
    let mut client = env.client().await?;
    client.require("start_file_copy")?;
    let copy = FileCopy::new(&env, env.cx.bootstrap()).await?;
    copy.write(LINES)?;
    copy.start(&mut client).await?;
    copy.copied(LINES).await?;
    client.done(&Op::StopFileCopy).await?;
    copy.write(2 * LINES)?;
    copy.start(&mut client).await?;
    copy.copied(2 * LINES).await?;
    client.done(&Op::StopFileCopy).await?;
    let mut helper = env.helper(env.cx.bootstrap()).await?;
    let found = values(&mut helper, &copy.topic, 2 * LINES).await?;
    expect_eq("the topic", &lines(2 * LINES).collect::<Vec<_>>(), &found)
}

async fn over_kill(env: Env) -> Verdict {
    let node = env.cx.own_node(&[]).await?;
    let mut client = env.client_of(&node).await?;
    client.require("start_file_copy")?;
    let copy = FileCopy::new(&env, node.bootstrap()).await?;
    copy.write(LINES)?;
    copy.start(&mut client).await?;
    copy.copied(LINES).await?;
    // Some of the second half is read, some is sent, some is in a transaction.
    copy.write(2 * LINES)?;
    node.kill().await?;
    node.start().await?;
    let mut helper = env.helper(node.bootstrap()).await?;
    let found = values(&mut helper, &copy.topic, 2 * LINES).await?;
    expect_eq("the topic", &lines(2 * LINES).collect::<Vec<_>>(), &found)?;
    client.done(&Op::StopFileCopy).await
}

async fn listener(env: Env) -> Verdict {
    let mut client = env.client().await?;
    client.require("start_listener")?;
    let mut helper = env.helper(env.cx.bootstrap()).await?;
    let [input, output, dead] = ["input", "output", "dead"].map(|stem| env.cx.unique(stem));
    for topic in [&input, &output, &dead] {
        helper.create_topic(topic, 1, &[]).await?;
    }
    let start = Op::StartListener {
        group: env.cx.unique("listener"),
        input: input.clone(),
        output: output.clone(),
        dead: dead.clone(),
    };
    helper.producer(&[]).await?;
    let send = |values: &[&str]| values.iter().map(|v| record(&input, 0, v)).collect();
    client.done(&start).await?;
    helper
        .produce(send(&["good 0", "bad 0", "good 1", "good 2"]))
        .await?;
    let copied = values(&mut helper, &output, 3).await?;
    expect_eq("copied", &owned(&["good 0", "good 1", "good 2"]), &copied)?;
    client.done(&Op::StopListener).await?;
    helper.produce(send(&["bad 1", "good 3"])).await?;
    client.done(&start).await?;
    let copied = values(&mut helper, &output, 4).await?;
    let good = owned(&["good 0", "good 1", "good 2", "good 3"]);
    expect_eq("copied after a new start", &good, &copied)?;
    let dead = values(&mut helper, &dead, 2).await?;
    expect_eq("dead letters", &owned(&["bad 0", "bad 1"]), &dead)?;
    client.done(&Op::StopListener).await
}
