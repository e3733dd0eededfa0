//! The load of a run: the same records once as Kafka batches and once as the JSON of a push.

use base64_simd::STANDARD;
use bytes::{BufMut as _, Bytes, BytesMut};
use facade::envelope::RecordParts;
use facade::queen::FragmentWriter;
use kafka_protocol::messages::produce_request::{
    PartitionProduceData, ProduceRequest, TopicProduceData,
};
use kafka_protocol::messages::{ApiKey, TopicName};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::records::{BatchBuilder, BatchOptions, Compressor, Record};

use super::kafka;
use crate::spec::Stop;

/// The topic and the queue.
pub(super) const TOPIC: &str = "bench";
/// Connections that produce, and as many that fetch.
pub(super) const CLIENTS: usize = 2;
/// Partitions that each of them works on; nobody shares one.
pub(super) const LANES_PER_CLIENT: usize = 4;
/// Partitions of the topic.
pub(super) const LANES: usize = CLIENTS * LANES_PER_CLIENT;
/// Records of one partition in one request.
const RECORDS_PER_LANE: usize = 100;
/// Records of one request, and of one push.
pub(super) const RECORDS_PER_REQUEST: usize = LANES_PER_CLIENT * RECORDS_PER_LANE;
/// Requests a client has in flight.
pub(super) const IN_FLIGHT: usize = 5;
/// Different requests of one client; they are sent in turn.
const VARIANTS: usize = 4;
/// The Produce version spoken: the newest that names topics.
const PRODUCE_VERSION: i16 = 12;
/// 2023-11-14, a Tuesday.
const FIRST_TIMESTAMP_MS: i64 = 1_700_000_000_000;

/// What one client sends.
#[derive(Debug)]
pub(super) struct Requests {
    /// Kafka frames, length prefix included; their correlation ids are their positions.
    pub(super) frames: Vec<Bytes>,
    /// Push bodies with the same records.
    pub(super) pushes: Vec<Push>,
}

/// The body of a push. The facade names each record it pushes to a topic of its own making, so that
/// Queen recognises a repetition; a body is sent many times, under other names each time.
#[derive(Debug)]
pub(super) struct Push {
    body: Vec<u8>,
    /// Where the names stand.
    names_at: Vec<usize>,
}

/// Bytes of a name before base64: the number of its push, its partition, its position.
const NAME_BYTES: usize = 18;
/// Of these, the number of the push; a multiple of three, so that its base64 stands by itself.
const NUMBER_BYTES: usize = 6;

impl Push {
    fn new(body: Vec<u8>) -> Self {
        const MARK: &[u8] = b"\"transactionId\":\"";
        let names_at = body.windows(MARK.len()).enumerate();
        let names_at = names_at
            .filter(|(_, window)| *window == MARK)
            .map(|(at, _)| at + MARK.len());
        Self {
            names_at: names_at.collect(),
            body,
        }
    }

    /// The body under the names of push `number`.
    pub(super) fn numbered(&self, number: usize) -> Bytes {
        let number = (number as u64).to_be_bytes();
        let text = STANDARD.encode_to_string(&number[number.len() - NUMBER_BYTES..]);
        let mut body = self.body.clone();
        for &at in &self.names_at {
            body[at..at + text.len()].copy_from_slice(text.as_bytes());
        }
        body.into()
    }
}

fn name(lane: usize, index: usize) -> String {
    let mut name = [0; NAME_BYTES];
    name[NUMBER_BYTES..NUMBER_BYTES + 4].copy_from_slice(&(lane as u32).to_be_bytes());
    name[NAME_BYTES - 4..].copy_from_slice(&(index as u32).to_be_bytes());
    STANDARD.encode_to_string(name)
}

/// The partitions of a client.
pub(super) fn lanes_of(client: usize) -> impl Iterator<Item = usize> {
    (0..LANES_PER_CLIENT).map(move |lane| client * LANES_PER_CLIENT + lane)
}

/// What `client` sends, with values of `value_bytes`.
///
/// # Errors
///
/// Records that no batch or no envelope takes: a defect of this program.
pub(super) fn requests(client: usize, value_bytes: usize) -> Result<Requests, Stop> {
    let mut text = Text(client as u32 + 1);
    let (mut frames, mut pushes) = (Vec::new(), Vec::new());
    for variant in 0..VARIANTS {
        let mut partitions = Vec::new();
        let mut push = b"{\"items\":[".to_vec();
        for (position, lane) in lanes_of(client).enumerate() {
            let values: Vec<Vec<u8>> = (0..RECORDS_PER_LANE)
                .map(|_| text.value(value_bytes))
                .collect();
            if position > 0 {
                push.push(b',');
            }
            push.extend_from_slice(&items(lane, &values)?);
            partitions.push(
                PartitionProduceData::default()
                    .with_index(lane as i32)
                    .with_records(Some(batch(&values)?)),
            );
        }
        push.extend_from_slice(b"]}");
        pushes.push(Push::new(push));
        let topic = TopicProduceData::default()
            .with_name(TopicName(StrBytes::from_static_str(TOPIC)))
            .with_partition_data(partitions);
        let request = ProduceRequest::default()
            .with_acks(-1)
            .with_timeout_ms(30_000)
            .with_topic_data(vec![topic]);
        let id = variant as i32;
        frames.push(kafka::frame(
            ApiKey::Produce,
            PRODUCE_VERSION,
            id,
            &request,
        )?);
    }
    Ok(Requests { frames, pushes })
}

/// The version that [`Requests::frames`] speak.
pub(super) const fn produce_version() -> i16 {
    PRODUCE_VERSION
}

fn record(index: usize, value: &[u8]) -> Record<'_> {
    Record {
        offset: index as i64,
        timestamp: FIRST_TIMESTAMP_MS + index as i64,
        value: Some(value),
        ..Record::default()
    }
}

fn batch(values: &[Vec<u8>]) -> Result<Bytes, Stop> {
    let mut out = BytesMut::new();
    let mut compressor = Compressor::new();
    let mut builder = BatchBuilder::new(&mut out, &mut compressor, BatchOptions::default());
    for (index, value) in values.iter().enumerate() {
        builder
            .append(&record(index, value))
            .map_err(|error| Stop::fail(format!("no batch: {error}")))?;
    }
    builder
        .finish()
        .map_err(|error| Stop::fail(format!("no batch: {error}")))?;
    Ok(out.freeze())
}

/// The items as the facade itself writes them.
fn items(lane: usize, values: &[Vec<u8>]) -> Result<Vec<u8>, Stop> {
    let bytes = values.iter().map(|value| value.len() * 4 / 3 + 160).sum();
    let mut writer = FragmentWriter::new(TOPIC, lane as i32, bytes);
    for (index, value) in values.iter().enumerate() {
        let parts = RecordParts {
            key: None,
            value: Some(value),
            timestamp_ms: FIRST_TIMESTAMP_MS + index as i64,
        };
        writer
            .record(Some(&name(lane, index)), parts, [])
            .map_err(|error| Stop::fail(format!("no item: {error}")))?;
    }
    Ok(writer.finish().json().to_vec())
}

/// Words in a fixed pseudo-random order: compresses about as text does, and is the same in each run.
struct Text(u32);

impl Text {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) % bound
    }

    fn value(&mut self, bytes: usize) -> Vec<u8> {
        const WORDS: [&str; 16] = [
            "broker",
            "offset",
            "partition",
            "leader",
            "epoch",
            "record",
            "batch",
            "commit",
            "fetch",
            "produce",
            "topic",
            "group",
            "the",
            "of",
            "error",
            "ok",
        ];
        let mut value = Vec::with_capacity(bytes + 16);
        while value.len() < bytes {
            let word = WORDS[self.below(WORDS.len() as u32) as usize];
            value.extend_from_slice(word.as_bytes());
            value.put_u8(b' ');
            if self.below(6) == 0 {
                value.extend_from_slice(self.below(100_000).to_string().as_bytes());
            }
        }
        value.truncate(bytes);
        value
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kafka_wire::records::Batches;

    use super::{
        CLIENTS, LANES_PER_CLIENT, RECORDS_PER_LANE, RECORDS_PER_REQUEST, VARIANTS, requests,
    };

    #[test]
    fn both_sides_carry_the_same_records() {
        let load = requests(1, 256).unwrap();
        assert_eq!((load.frames.len(), load.pushes.len()), (VARIANTS, VARIANTS));
        for (frame, push) in load.frames.iter().zip(&load.pushes) {
            let push: serde_json::Value = serde_json::from_slice(&push.numbered(7)).unwrap();
            let items = push["items"].as_array().unwrap();
            assert_eq!(items.len(), RECORDS_PER_REQUEST);
            let partitions = super::super::kafka::tests::produced(frame);
            assert_eq!(partitions.len(), LANES_PER_CLIENT);
            let mut items = items.iter();
            for (lane, records) in partitions {
                let batch = Batches::new(records).next().unwrap().unwrap();
                assert_eq!(batch.header().count as usize, RECORDS_PER_LANE);
                let mut budget = kafka_wire::records::Budget::new(1 << 20, 1 << 20);
                for record in &batch.records(&mut budget).unwrap() {
                    let item = items.next().unwrap();
                    assert_eq!(item["partition"], lane.to_string());
                    let value = record.unwrap().value.unwrap();
                    assert_eq!(value.len(), 256);
                    assert_eq!(
                        item["payload"]["v"],
                        base64_simd::STANDARD.encode_to_string(value)
                    );
                }
            }
        }
    }

    #[test]
    fn no_name_comes_twice() {
        let mut names = BTreeSet::new();
        let mut pushed = 0;
        for client in 0..CLIENTS {
            let load = requests(client, 1).unwrap();
            for number in 0..3 {
                let body = load.pushes[number % VARIANTS].numbered(number);
                let push: serde_json::Value = serde_json::from_slice(&body).unwrap();
                for item in push["items"].as_array().unwrap() {
                    names.insert(item["transactionId"].as_str().unwrap().to_owned());
                    pushed += 1;
                }
            }
        }
        assert_eq!(
            (names.len(), pushed),
            (pushed, 3 * CLIENTS * RECORDS_PER_REQUEST)
        );
        assert!(names.iter().all(|name| name.len() == 24));
    }
}
