//! One member of the loop, as an application writes it: what can't be committed is aborted, and read
//! again from where the group stands.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::Message as _;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer as _, ThreadedProducer};
use rdkafka::{Offset, TopicPartitionList};

use super::{GROUP, MADE, SOURCE, Shared};

/// How long one call may take.
const CALL: Duration = Duration::from_secs(30);
/// How long records are waited for.
const POLL: Duration = Duration::from_millis(200);
/// Records of one transaction.
const MOST: usize = 100;
/// Before an application starts again.
const RESTART: Duration = Duration::from_millis(500);

/// A producer whose reports are taken by a thread: without, an abort waits for them for ever.
type Writer = ThreadedProducer<DefaultProducerContext>;

/// What an application does about a failure.
enum Trouble {
    /// Abort, and read again.
    Abort(KafkaError),
    /// Begin anew, with another producer.
    Anew(KafkaError),
}

impl From<KafkaError> for Trouble {
    fn from(error: KafkaError) -> Self {
        match &error {
            KafkaError::Transaction(cause) if cause.txn_requires_abort() => Self::Abort(error),
            _ => Self::Anew(error),
        }
    }
}

/// Until [`Shared::over`].
pub(super) fn run(shared: &Shared, number: usize) {
    while !shared.over.load(Ordering::Relaxed) {
        let error = match live(shared, number) {
            Ok(()) => return,
            Err(Trouble::Abort(error) | Trouble::Anew(error)) => error,
        };
        shared.anew.fetch_add(1, Ordering::Relaxed);
        eprintln!("soak: member {number} begins anew: {error}");
        std::thread::sleep(RESTART);
    }
}

/// One life.
fn live(shared: &Shared, number: usize) -> Result<(), Trouble> {
    let producer: Writer = shared
        .client()
        .set("transactional.id", format!("loop-{number}"))
        .set("transaction.timeout.ms", "30000")
        .create()?;
    producer.init_transactions(CALL)?;
    let mut consumer = None;
    while !shared.over.load(Ordering::Relaxed) {
        let reader = match consumer.take() {
            Some(reader) => reader,
            None => join(shared)?,
        };
        match round(shared, &producer, &reader) {
            Ok(()) => consumer = Some(reader),
            Err(Trouble::Abort(error)) => {
                eprintln!("soak: member {number} aborts: {error}");
                shared.aborts.fetch_add(1, Ordering::Relaxed);
                // Its place in the group goes too: the next one reads where the group stands.
                drop(reader);
                until_known(|| producer.abort_transaction(CALL))?;
            }
            Err(trouble) => return Err(trouble),
        }
    }
    Ok(())
}

fn join(shared: &Shared) -> KafkaResult<BaseConsumer> {
    let consumer: BaseConsumer = shared
        .client()
        .set("group.id", GROUP)
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", "read_committed")
        .set("session.timeout.ms", "6000")
        .create()?;
    consumer.subscribe(&[SOURCE])?;
    Ok(consumer)
}

/// One transaction, if there is something to read.
fn round(shared: &Shared, producer: &Writer, reader: &BaseConsumer) -> Result<(), Trouble> {
    let mut offsets = TopicPartitionList::new();
    let mut read = Vec::new();
    while read.len() < MOST {
        let wait = if read.is_empty() {
            POLL
        } else {
            Duration::ZERO
        };
        match reader.poll(wait) {
            None => break,
            Some(Err(error)) => {
                // Nodes that are away; the client looks for others by itself.
                eprintln!("soak: a read failed: {error}");
            }
            Some(Ok(message)) => {
                let payload = message.payload().unwrap_or_default().to_vec();
                read.push((message.partition(), payload));
                let next = Offset::Offset(message.offset() + 1);
                let (topic, partition) = (message.topic(), message.partition());
                match offsets.find_partition(topic, partition) {
                    Some(mut found) => found.set_offset(next)?,
                    None => offsets.add_partition_offset(topic, partition, next)?,
                }
            }
        }
    }
    if read.is_empty() {
        return Ok(());
    }
    producer.begin_transaction()?;
    for (partition, payload) in &read {
        let record = BaseRecord::<(), _>::to(MADE)
            .partition(*partition)
            .payload(payload);
        if let Err((error, _)) = producer.send(record) {
            return Err(Trouble::Abort(error));
        }
    }
    // A consumer that has left the group is no member whose offsets may be committed.
    let group = reader
        .group_metadata()
        .ok_or(KafkaError::Canceled)
        .map_err(Trouble::Abort)?;
    until_known(|| producer.send_offsets_to_transaction(&offsets, &group, CALL))?;
    until_known(|| producer.commit_transaction(CALL))?;
    shared.commits.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Calls again what says that it may be called again.
fn until_known(mut call: impl FnMut() -> KafkaResult<()>) -> KafkaResult<()> {
    loop {
        match call() {
            Err(KafkaError::Transaction(error)) if error.is_retriable() => {}
            known => return known,
        }
    }
}
