//! P5: decoding and encoding record batches, per codec, against the record codec of the
//! `kafka-protocol` crate: 100 records of 1 KiB text. Throughput is of record values.
//!
//!     cargo bench -p kafka-wire --bench records

use std::hint::black_box;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use indexmap::IndexMap;
use kafka_protocol::records as theirs;
use kafka_wire::records::{
    BatchBuilder, BatchOptions, Batches, Budget, Compression, Compressor, Record,
};

const RECORDS: usize = 100;
const VALUE_BYTES: usize = 1024;

/// Words in a fixed pseudo-random order: compresses about as text does.
fn values() -> Vec<Bytes> {
    const WORDS: [&str; 24] = [
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
        "member",
        "replica",
        "segment",
        "index",
        "the",
        "of",
        "and",
        "with",
        "42",
        "1970",
        "error",
        "ok",
    ];
    let mut state = 7_u32;
    let mut next = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
    (0..RECORDS)
        .map(|_| {
            let mut text = String::new();
            while text.len() < VALUE_BYTES {
                text.push_str(WORDS[next(24) as usize]);
                text.push(' ');
                if next(8) == 0 {
                    text.push_str(&next(100_000).to_string());
                    text.push('\n');
                }
            }
            text.truncate(VALUE_BYTES);
            Bytes::from(text)
        })
        .collect()
}

fn ours(values: &[Bytes]) -> Vec<Record<'_>> {
    values
        .iter()
        .enumerate()
        .map(|(index, value)| Record {
            offset: index as i64,
            timestamp: 1_700_000_000_000 + index as i64,
            key: Some(b"key"),
            value: Some(value),
            ..Record::default()
        })
        .collect()
}

fn theirs(values: &[Bytes]) -> Vec<theirs::Record> {
    values
        .iter()
        .enumerate()
        .map(|(index, value)| theirs::Record {
            transactional: false,
            control: false,
            delete_horizon: false,
            partition_leader_epoch: -1,
            producer_id: -1,
            producer_epoch: -1,
            timestamp_type: theirs::TimestampType::Creation,
            offset: index as i64,
            // One batch: the sequence follows the offset.
            sequence: index as i32 - 1,
            timestamp: 1_700_000_000_000 + index as i64,
            key: Some(Bytes::from_static(b"key")),
            value: Some(value.clone()),
            headers: IndexMap::new(),
        })
        .collect()
}

fn encode_ours(
    records: &[Record<'_>],
    compression: Compression,
    compressor: &mut Compressor,
    out: &mut BytesMut,
) {
    let options = BatchOptions {
        compression,
        ..BatchOptions::default()
    };
    let mut builder = BatchBuilder::new(out, compressor, options);
    for record in records {
        builder.append(record).expect("records in order");
    }
    builder.finish().expect("a batch of records");
}

fn encode_theirs(records: &[theirs::Record], compression: Compression, out: &mut BytesMut) {
    let compression = match compression {
        Compression::None => theirs::Compression::None,
        Compression::Gzip => theirs::Compression::Gzip,
        Compression::Snappy => theirs::Compression::Snappy,
        Compression::Lz4 => theirs::Compression::Lz4,
        Compression::Zstd => theirs::Compression::Zstd,
    };
    let options = theirs::RecordEncodeOptions {
        version: 2,
        compression,
    };
    theirs::RecordBatchEncoder::encode(out, records, &options).expect("records in order");
}

fn encode(c: &mut Criterion) {
    let values = values();
    let ours = ours(&values);
    let theirs = theirs(&values);
    let mut group = c.benchmark_group("records/encode");
    group.throughput(Throughput::Bytes((RECORDS * VALUE_BYTES) as u64));
    for compression in Compression::ALL {
        let mut out = BytesMut::with_capacity(1 << 18);
        let mut compressor = Compressor::new();
        group.bench_function(BenchmarkId::new("kastellan", compression), |b| {
            b.iter(|| {
                out.clear();
                encode_ours(&ours, compression, &mut compressor, &mut out);
                black_box(out.len())
            });
        });
        let ours_len = out.len();
        group.bench_function(BenchmarkId::new("kafka-protocol", compression), |b| {
            b.iter(|| {
                out.clear();
                encode_theirs(&theirs, compression, &mut out);
                black_box(out.len())
            });
        });
        eprintln!(
            "{compression}: kastellan {ours_len} bytes, kafka-protocol {}",
            out.len()
        );
    }
    group.finish();
}

/// Both read the same batch, written by ours, and touch every key and value.
fn decode(c: &mut Criterion) {
    let values = values();
    let ours = ours(&values);
    let mut group = c.benchmark_group("records/decode");
    group.throughput(Throughput::Bytes((RECORDS * VALUE_BYTES) as u64));
    for compression in Compression::ALL {
        let mut out = BytesMut::new();
        encode_ours(&ours, compression, &mut Compressor::new(), &mut out);
        let field = out.freeze();
        group.bench_function(BenchmarkId::new("kastellan", compression), |b| {
            b.iter(|| {
                let mut budget = Budget::new(1 << 20, 1 << 20);
                let mut len = 0;
                for batch in Batches::new(field.clone()) {
                    let batch = batch.expect("a whole batch");
                    let records = batch.records(&mut budget).expect("within the budget");
                    for record in &records {
                        let record = record.expect("a whole record");
                        len += record.key.map_or(0, <[u8]>::len);
                        len += record.value.map_or(0, <[u8]>::len);
                    }
                }
                black_box(len)
            });
        });
        group.bench_function(BenchmarkId::new("kafka-protocol", compression), |b| {
            b.iter(|| {
                let mut field = field.clone();
                let set = theirs::RecordBatchDecoder::decode(&mut field).expect("a whole batch");
                let mut len = 0;
                for record in &set.records {
                    len += record.key.as_ref().map_or(0, Bytes::len);
                    len += record.value.as_ref().map_or(0, Bytes::len);
                }
                black_box(len)
            });
        });
    }
    group.finish();
}

/// What no codec can do without: one pass of the checksum to decode, and a copy besides to encode.
fn floor(c: &mut Criterion) {
    let values = values();
    let body = values.concat();
    let mut copy = vec![0; body.len()];
    let mut group = c.benchmark_group("records/floor");
    group.throughput(Throughput::Bytes(body.len() as u64));
    group.bench_function("crc32c", |b| b.iter(|| crc32c::crc32c(black_box(&body))));
    group.bench_function("copy+crc32c", |b| {
        b.iter(|| {
            for (target, value) in copy.chunks_mut(VALUE_BYTES).zip(&values) {
                target.copy_from_slice(value);
            }
            crc32c::crc32c(black_box(&copy))
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(50)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = floor, encode, decode
}
criterion_main!(benches);
