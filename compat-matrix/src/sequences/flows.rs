//! The flows, each of a fresh client with librdkafka's defaults, one after the other: the first
//! makes the topic that the others use.

use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rdkafka::{Offset, TopicPartitionList};
use tokio::runtime::Handle;

use crate::spec::Stop;

/// The topic of all flows. It has one partition.
const TOPIC: &str = "sequences";
/// Records that each producing flow writes, and each consuming flow waits for.
const RECORDS: usize = 3;
/// The longest that a flow may take.
const WITHIN: Duration = Duration::from_secs(20);

/// What a client does.
pub(super) type Flow = fn(&str, &Handle) -> Result<(), KafkaError>;

/// Every flow, in alphabetical order.
pub(super) const ALL: &[(&str, Flow)] = &[
    ("1 create a topic", create_topic),
    ("2 produce", produce),
    ("3 produce idempotently", produce_idempotently),
    ("4 consume assigned", consume_assigned),
    ("5 join a group and commit", join_and_commit),
];

/// Runs `flow` against `bootstrap` on a thread of its own: librdkafka's calls block.
pub(super) async fn run(flow: Flow, bootstrap: String) -> Result<(), Stop> {
    let runtime = Handle::current();
    let (done, heard) = tokio::sync::oneshot::channel();
    std::thread::Builder::new()
        .name("librdkafka-flow".into())
        .spawn(move || done.send(flow(&bootstrap, &runtime)))
        .map_err(|error| Stop::fail(format!("no thread for a client: {error}")))?;
    match heard.await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Stop::fail(format!("librdkafka: {error}"))),
        Err(_) => Err(Stop::fail("a flow's thread has died")),
    }
}

fn config(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap);
    config
}

fn create_topic(bootstrap: &str, runtime: &Handle) -> Result<(), KafkaError> {
    let admin: AdminClient<DefaultClientContext> = config(bootstrap).create()?;
    let topic = NewTopic::new(TOPIC, 1, TopicReplication::Fixed(1));
    let options = AdminOptions::new().request_timeout(Some(WITHIN));
    let created = runtime.block_on(admin.create_topics([&topic], &options))?;
    for result in created {
        result.map_err(|(_, code)| KafkaError::AdminOp(code))?;
    }
    Ok(())
}

fn write(producer: &BaseProducer) -> Result<(), KafkaError> {
    for number in 0..RECORDS {
        let value = number.to_string();
        let record = BaseRecord::<(), _>::to(TOPIC).partition(0).payload(&value);
        producer.send(record).map_err(|(error, _)| error)?;
    }
    producer.flush(WITHIN)
}

fn produce(bootstrap: &str, _: &Handle) -> Result<(), KafkaError> {
    write(&config(bootstrap).create()?)
}

fn produce_idempotently(bootstrap: &str, _: &Handle) -> Result<(), KafkaError> {
    let mut config = config(bootstrap);
    config.set("enable.idempotence", "true");
    write(&config.create()?)
}

fn read(consumer: &BaseConsumer) -> Result<(), KafkaError> {
    // Both producing flows have written.
    let mut missing = 2 * RECORDS;
    let until = Instant::now() + WITHIN;
    while missing > 0 {
        match consumer.poll(Duration::from_millis(100)) {
            Some(record) => {
                drop(record?);
                missing -= 1;
            }
            None if Instant::now() < until => {}
            None => return Err(KafkaError::NoMessageReceived),
        }
    }
    Ok(())
}

fn consume_assigned(bootstrap: &str, _: &Handle) -> Result<(), KafkaError> {
    let mut config = config(bootstrap);
    // librdkafka wants a group for a consumer that assigns itself, too.
    config.set("group.id", "nobody");
    config.set("enable.auto.commit", "false");
    let consumer: BaseConsumer = config.create()?;
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition_offset(TOPIC, 0, Offset::Beginning)?;
    consumer.assign(&partitions)?;
    read(&consumer)
}

fn join_and_commit(bootstrap: &str, _: &Handle) -> Result<(), KafkaError> {
    let mut config = config(bootstrap);
    config.set("group.id", "somebody");
    config.set("enable.auto.commit", "false");
    config.set("auto.offset.reset", "earliest");
    let consumer: BaseConsumer = config.create()?;
    consumer.subscribe(&[TOPIC])?;
    read(&consumer)?;
    consumer.commit_consumer_state(CommitMode::Sync)
}
