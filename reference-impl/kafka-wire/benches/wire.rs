//! Walk and splice over Produce and Fetch frames, against a copy of the frame (`memcpy`).
//! `cargo bench -p kafka-wire --bench wire`.

use std::hint::black_box;

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use kafka_wire::api::ApiKey;
use kafka_wire::schema::{Role, RoleSet};
use kafka_wire::splice::{self, Edit, Editor};
use kafka_wire::walk::{self, Datum, Limits, Place, Value};

struct Prefix;

impl Editor for Prefix {
    type Refusal = ();

    fn roles(&self) -> RoleSet {
        const { RoleSet::of(&[Role::Topic, Role::Group, Role::TransactionalId]) }
    }

    fn edit<'e>(&'e mut self, _: &'e Place<'_>, value: &'e Value<'_>) -> Result<Edit<'e>, ()> {
        Ok(match value.datum {
            Datum::Text(name) => Edit::Joined("tenant-0001.", name),
            _ => Edit::Keep,
        })
    }
}

fn varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Produce v9: `partitions` in topics of four, each with `records` bytes.
fn produce(partitions: usize, records: usize) -> Bytes {
    let mut body = vec![0, 0xff, 0xff, 0, 0, 0x75, 0x30];
    varint(&mut body, partitions.div_ceil(4) + 1);
    for topic in (0..partitions).step_by(4) {
        let name = format!("orders-{topic}");
        varint(&mut body, name.len() + 1);
        body.extend(name.bytes());
        let here = (partitions - topic).min(4);
        varint(&mut body, here + 1);
        for partition in 0..here {
            body.extend((partition as i32).to_be_bytes());
            varint(&mut body, records + 1);
            body.extend(std::iter::repeat_n(0x5a, records));
            body.push(0);
        }
        body.push(0);
    }
    body.push(0);
    body.into()
}

/// Fetch response v12: as `produce`.
fn fetch(partitions: usize, records: usize) -> Bytes {
    let mut body = vec![0; 10];
    varint(&mut body, partitions.div_ceil(4) + 1);
    for topic in (0..partitions).step_by(4) {
        let name = format!("orders-{topic}");
        varint(&mut body, name.len() + 1);
        body.extend(name.bytes());
        let here = (partitions - topic).min(4);
        varint(&mut body, here + 1);
        for partition in 0..here {
            body.extend((partition as i32).to_be_bytes());
            // error, high watermark, last stable offset, log start offset, no aborted, replica
            body.extend([0; 2 + 8 + 8 + 8 + 1 + 4]);
            varint(&mut body, records + 1);
            body.extend(std::iter::repeat_n(0x5a, records));
            body.push(0);
        }
        body.push(0);
    }
    body.push(0);
    body.into()
}

fn bench(criterion: &mut Criterion) {
    let limits = Limits::DEFAULT;
    // Few large batches; many of a kilobyte; many tiny ones, where fields outweigh records.
    let shapes = [
        (4, 16 << 10),
        (16, 64 << 10),
        (64, 1 << 10),
        (1024, 1 << 10),
        (1024, 64),
    ];
    for (partitions, records) in shapes {
        let shape = format!("{partitions}x{records}");
        for (api, version, body, request) in [
            (ApiKey::PRODUCE, 9, produce(partitions, records), true),
            (ApiKey::FETCH, 12, fetch(partitions, records), false),
        ] {
            let mut group = criterion.benchmark_group(format!("{api}/{shape}"));
            group.throughput(Throughput::Bytes(body.len() as u64));
            let mut copy = vec![0; body.len()];
            group.bench_function(BenchmarkId::from_parameter("memcpy"), |b| {
                b.iter(|| black_box(&mut copy).copy_from_slice(black_box(&body)));
            });
            let walk = if request {
                walk::request
            } else {
                walk::response
            };
            group.bench_function(BenchmarkId::from_parameter("walk"), |b| {
                b.iter(|| black_box(walk(api, version, black_box(&body), &limits).is_ok()));
            });
            let splice = if request {
                splice::request
            } else {
                splice::response
            };
            group.bench_function(BenchmarkId::from_parameter("splice"), |b| {
                b.iter(|| {
                    let spliced = splice(api, version, black_box(&body), &limits, &mut Prefix);
                    black_box(spliced.is_ok_and(|spliced| spliced.len() > body.len()))
                });
            });
            group.finish();
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(std::time::Duration::from_millis(200))
        .measurement_time(std::time::Duration::from_millis(600));
    targets = bench
}
criterion_main!(benches);
