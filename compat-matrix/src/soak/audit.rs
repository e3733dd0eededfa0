//! Counts what is there, and how often.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::Message as _;
use rdkafka::{Offset, TopicPartitionList};
use tokio::time::{Instant, sleep};

use super::writer::Acknowledged;
use super::{GROUP, MADE, PARTITIONS, SOURCE, Shared, failed};
use crate::spec::Stop;

/// How long one call may take.
const CALL: Duration = Duration::from_secs(20);
/// How long a topic may be silent before its end, which is known.
const SILENCE: Duration = Duration::from_secs(30);

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// How often a node was killed or stopped.
    pub deaths: u64,
    /// Records that were acknowledged.
    pub acknowledged: u64,
    /// Transactions that were committed.
    pub commits: u64,
    /// Transactions that were aborted.
    pub aborts: u64,
    /// Applications that began anew.
    pub anew: u64,
    /// What is wrong with what was written.
    pub source: Faults,
    /// What is wrong with what was made of it.
    pub made: Faults,
}

/// What is wrong with a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Acknowledged, and not there.
    pub lost: u64,
    /// There more than once.
    pub doubled: u64,
    /// There behind a later one of its partition.
    pub late: u64,
}

impl Faults {
    /// Judges the numbers of each partition. One that was not acknowledged may be there.
    fn of(found: &BTreeMap<i32, Vec<u64>>, acknowledged: &[bool]) -> Self {
        let mut times: BTreeMap<u64, u64> = BTreeMap::new();
        let mut late = 0;
        for numbers in found.values() {
            let mut highest = None;
            for number in numbers {
                *times.entry(*number).or_default() += 1;
                late += u64::from(highest.is_some_and(|highest| highest > *number));
                highest = highest.max(Some(*number));
            }
        }
        let lost = (0..)
            .zip(acknowledged)
            .filter(|(number, told)| **told && !times.contains_key(number));
        let doubled = times.values().filter(|times| **times > 1);
        Self {
            lost: lost.count() as u64,
            doubled: doubled.count() as u64,
            late,
        }
    }

    /// Whether nothing is.
    pub fn is_clean(&self) -> bool {
        *self == Self::default()
    }
}

impl Audit {
    /// Reads both topics.
    pub(super) async fn of(shared: &Shared, acknowledged: &Acknowledged) -> Result<Self, Stop> {
        let read = |topic| {
            let config = shared.client();
            tokio::task::spawn_blocking(move || read(config, topic))
        };
        let (source, made) = tokio::join!(read(SOURCE), read(MADE));
        let (source, made) = (source.map_err(failed)??, made.map_err(failed)??);
        Ok(Self {
            deaths: 0,
            acknowledged: acknowledged.iter().filter(|told| **told).count() as u64,
            commits: shared.commits.load(Ordering::Relaxed),
            aborts: shared.aborts.load(Ordering::Relaxed),
            anew: shared.anew.load(Ordering::Relaxed),
            source: Faults::of(&source, acknowledged),
            made: Faults::of(&made, acknowledged),
        })
    }

    /// Whether nothing is wrong, and something was tried.
    pub fn is_clean(&self) -> bool {
        self.source.is_clean() && self.made.is_clean() && self.commits > 0 && self.deaths > 0
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            lost,
            doubled,
            late,
        } = self;
        write!(f, "{lost} lost, {doubled} doubled, {late} out of order")
    }
}

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} records acknowledged, {} transactions committed, {} aborted; nodes ended {} times, \
             applications began anew {} times",
            self.acknowledged, self.commits, self.aborts, self.deaths, self.anew
        )?;
        writeln!(f, "written: {}", self.source)?;
        write!(f, "made: {}", self.made)
    }
}

/// Waits until the group stands at the end of everything written.
pub(super) async fn all_made(shared: &Shared, within: Duration) -> Result<(), Stop> {
    let end = Instant::now() + within;
    loop {
        let config = shared.client();
        let behind = tokio::task::spawn_blocking(move || behind(config));
        match behind.await.map_err(failed)? {
            Ok(0) => return Ok(()),
            told if Instant::now() >= end => {
                let told = told.map_or_else(|error| error, |left| format!("{left} records behind"));
                return Err(failed(format!("the loop did not come to its end: {told}")));
            }
            _ => sleep(Duration::from_secs(1)).await,
        }
    }
}

/// How many records the group has not made yet.
fn behind(mut config: rdkafka::ClientConfig) -> Result<i64, String> {
    let told = |error: rdkafka::error::KafkaError| error.to_string();
    let consumer: BaseConsumer = config.set("group.id", GROUP).create().map_err(told)?;
    let mut asked = TopicPartitionList::new();
    asked.add_partition_range(SOURCE, 0, PARTITIONS - 1);
    let committed = consumer.committed_offsets(asked, CALL).map_err(told)?;
    let mut behind = 0;
    for place in committed.elements() {
        let (_, high) = consumer
            .fetch_watermarks(SOURCE, place.partition(), CALL)
            .map_err(told)?;
        let at = match place.offset() {
            Offset::Offset(at) => at,
            _ => 0,
        };
        behind += high - at;
    }
    Ok(behind)
}

/// The numbers in each partition of a topic, as readers of committed records see them.
fn read(mut config: rdkafka::ClientConfig, topic: &str) -> Result<BTreeMap<i32, Vec<u64>>, Stop> {
    let consumer: BaseConsumer = config
        .set("group.id", "audit")
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", "read_committed")
        .create()
        .map_err(failed)?;
    let mut places = TopicPartitionList::new();
    let mut left = BTreeMap::new();
    for partition in 0..PARTITIONS {
        let (low, high) = consumer
            .fetch_watermarks(topic, partition, CALL)
            .map_err(failed)?;
        if high > low {
            left.insert(partition, high);
        }
        places
            .add_partition_offset(topic, partition, Offset::Beginning)
            .map_err(failed)?;
    }
    consumer.assign(&places).map_err(failed)?;
    let mut found: BTreeMap<i32, Vec<u64>> = BTreeMap::new();
    let mut heard = std::time::Instant::now();
    while !left.is_empty() {
        match consumer.poll(Duration::from_millis(500)) {
            Some(Ok(message)) => {
                heard = std::time::Instant::now();
                let text = std::str::from_utf8(message.payload().unwrap_or_default());
                let number = text.ok().and_then(|text| text.parse().ok());
                let number = number.ok_or_else(|| failed("a record that nobody wrote"))?;
                found.entry(message.partition()).or_default().push(number);
                if left.get(&message.partition()) == Some(&(message.offset() + 1)) {
                    left.remove(&message.partition());
                }
            }
            _ if heard.elapsed() > SILENCE => {
                return Err(failed(format!(
                    "{topic} could not be read to its end: {left:?}"
                )));
            }
            _ => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_counted() {
        let acknowledged = [true, true, true, false, true];
        let clean: BTreeMap<i32, Vec<u64>> = [(0, vec![0, 2, 4]), (1, vec![1, 3])].into();
        assert!(Faults::of(&clean, &acknowledged).is_clean());
        let faulty: BTreeMap<i32, Vec<u64>> = [(0, vec![2, 0, 2]), (1, vec![1])].into();
        let found = Faults::of(&faulty, &acknowledged);
        let expected = Faults {
            lost: 1,
            doubled: 1,
            late: 1,
        };
        assert_eq!(found, expected);
        assert_eq!(found.to_string(), "1 lost, 1 doubled, 1 out of order");
    }
}
