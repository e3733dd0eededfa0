//! P4: walk and splice over Produce requests and Fetch responses, against a memcpy of the body.
//! `splice` prefixes every topic name and leaves a list of slices, ready for a vectored write.
//!
//!     cargo bench -p kafka-wire --bench splice

use std::convert::Infallible;
use std::fmt;
use std::hint::black_box;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{FetchResponse, ProduceRequest, TopicName};
use kafka_protocol::protocol::{Encodable, StrBytes};
use kafka_wire::ApiKey;
use kafka_wire::schema::{Role, RoleSet};
use kafka_wire::splice::{self, Edit, Editor, Spliced};
use kafka_wire::walk::{self, Datum, Limits, Place, Value};

const PRODUCE_VERSION: i16 = 9;
const FETCH_VERSION: i16 = 12;

/// Topics, partitions of each, and bytes of records in each partition.
#[derive(Clone, Copy)]
struct Shape {
    topics: usize,
    partitions: usize,
    record_bytes: usize,
}

/// From few large batches to many tiny ones, where fields outweigh records.
const SHAPES: [Shape; 6] = [
    Shape {
        topics: 1,
        partitions: 1,
        record_bytes: 64 << 10,
    },
    Shape {
        topics: 4,
        partitions: 4,
        record_bytes: 4 << 10,
    },
    Shape {
        topics: 4,
        partitions: 4,
        record_bytes: 64 << 10,
    },
    Shape {
        topics: 4,
        partitions: 16,
        record_bytes: 1 << 10,
    },
    Shape {
        topics: 8,
        partitions: 128,
        record_bytes: 1 << 10,
    },
    Shape {
        topics: 8,
        partitions: 128,
        record_bytes: 64,
    },
];

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x", self.topics, self.partitions)?;
        match self.record_bytes {
            bytes @ ..1024 => write!(f, "{bytes}B"),
            bytes => write!(f, "{}KiB", bytes >> 10),
        }
    }
}

impl Shape {
    fn topic(index: usize) -> TopicName {
        TopicName(StrBytes::from(format!("orders.region-{index}.v1")))
    }

    fn records(&self) -> Bytes {
        Bytes::from(vec![0x5a; self.record_bytes])
    }

    fn produce(&self) -> Bytes {
        let partition = |index| {
            PartitionProduceData::default()
                .with_index(index as i32)
                .with_records(Some(self.records()))
        };
        let topic = |index| {
            TopicProduceData::default()
                .with_name(Self::topic(index))
                .with_partition_data((0..self.partitions).map(partition).collect())
        };
        let request = ProduceRequest::default()
            .with_acks(-1)
            .with_timeout_ms(30_000)
            .with_topic_data((0..self.topics).map(topic).collect());
        encode(&request, PRODUCE_VERSION)
    }

    fn fetch(&self) -> Bytes {
        let partition = |index| {
            PartitionData::default()
                .with_partition_index(index as i32)
                .with_records(Some(self.records()))
        };
        let topic = |index| {
            FetchableTopicResponse::default()
                .with_topic(Self::topic(index))
                .with_partitions((0..self.partitions).map(partition).collect())
        };
        let response =
            FetchResponse::default().with_responses((0..self.topics).map(topic).collect());
        encode(&response, FETCH_VERSION)
    }
}

fn encode(message: &impl Encodable, version: i16) -> Bytes {
    let mut out = BytesMut::new();
    message
        .encode(&mut out, version)
        .expect("fields of this version");
    out.freeze()
}

/// What the gateway does to a request.
struct Prefix;

impl Editor for Prefix {
    type Refusal = Infallible;

    fn roles(&self) -> RoleSet {
        RoleSet::of(&[Role::Topic])
    }

    fn edit<'e>(
        &'e mut self,
        _: &'e Place<'_>,
        value: &'e Value<'_>,
    ) -> Result<Edit<'e>, Infallible> {
        Ok(match value.datum {
            Datum::Text(name) => Edit::Joined("tenant-one.", name),
            _ => Edit::Keep,
        })
    }
}

type Walk = fn(&Bytes) -> u32;
type Splice = fn(&Bytes) -> Spliced;

fn compare(c: &mut Criterion, name: &str, body: fn(&Shape) -> Bytes, walk: Walk, splice: Splice) {
    let mut group = c.benchmark_group(name);
    for shape in SHAPES {
        let body = body(&shape);
        assert!(splice(&body).len() > body.len());
        group.throughput(Throughput::Bytes(body.len() as u64));
        let mut copy = vec![0; body.len()];
        group.bench_function(BenchmarkId::new("memcpy", shape), |b| {
            b.iter(|| {
                copy.copy_from_slice(black_box(&body));
                black_box(&mut copy);
            });
        });
        group.bench_function(BenchmarkId::new("walk", shape), |b| {
            b.iter(|| walk(black_box(&body)));
        });
        group.bench_function(BenchmarkId::new("splice", shape), |b| {
            b.iter(|| splice(black_box(&body)));
        });
    }
    group.finish();
}

fn produce(c: &mut Criterion) {
    compare(
        c,
        "splice/produce",
        Shape::produce,
        |body| {
            walk::request(ApiKey::PRODUCE, PRODUCE_VERSION, body, &Limits::DEFAULT)
                .expect("a whole body")
                .elements
        },
        |body| {
            let limits = Limits::DEFAULT;
            splice::request(ApiKey::PRODUCE, PRODUCE_VERSION, body, &limits, &mut Prefix)
                .expect("a whole body")
        },
    );
}

fn fetch(c: &mut Criterion) {
    compare(
        c,
        "splice/fetch",
        Shape::fetch,
        |body| {
            walk::response(ApiKey::FETCH, FETCH_VERSION, body, &Limits::DEFAULT)
                .expect("a whole body")
                .elements
        },
        |body| {
            let limits = Limits::DEFAULT;
            splice::response(ApiKey::FETCH, FETCH_VERSION, body, &limits, &mut Prefix)
                .expect("a whole body")
        },
    );
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(50)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = produce, fetch
}
criterion_main!(benches);
