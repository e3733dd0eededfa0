//! Owned records for the property tests, and what they borrow as.

use kafka_wire::records::{
    BatchOptions, Compression, Header, Headers, ProducerFields, Record, Timestamps,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// A header that owns its bytes.
pub type OwnedHeader = (Vec<u8>, Option<Vec<u8>>);

/// A record that owns its bytes; its offset counts from the batch's base.
#[derive(Clone, Debug)]
pub struct OwnedRecord {
    pub offset_delta: i32,
    pub timestamp: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<OwnedHeader>,
}

/// Lends `records` to `with`, at offsets from `base_offset` on.
pub fn with_records<T>(
    records: &[OwnedRecord],
    base_offset: i64,
    with: impl FnOnce(&[Record<'_>]) -> T,
) -> T {
    let headers: Vec<Vec<Header<'_>>> = records
        .iter()
        .map(|record| {
            let headers = record.headers.iter();
            headers
                .map(|(key, value)| Header {
                    key,
                    value: value.as_deref(),
                })
                .collect()
        })
        .collect();
    let lent: Vec<_> = records
        .iter()
        .zip(&headers)
        .map(|(record, headers)| Record {
            offset: base_offset + i64::from(record.offset_delta),
            timestamp: record.timestamp,
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: Headers::new(headers),
        })
        .collect();
    with(&lent)
}

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..max),
        // What compresses.
        (any::<u8>(), 0..max).prop_map(|(byte, len)| vec![byte; len]),
    ]
}

fn timestamp() -> impl Strategy<Value = i64> {
    prop_oneof![
        8 => 1_700_000_000_000..1_800_000_000_000_i64,
        1 => Just(-1),
        1 => 0..1000_i64,
    ]
}

/// Records with rising offset deltas, with gaps where `gaps`.
pub fn records(gaps: bool) -> impl Strategy<Value = Vec<OwnedRecord>> {
    let record = (
        0..if gaps { 1000 } else { 1 },
        timestamp(),
        proptest::option::of(bytes(40)),
        proptest::option::of(bytes(600)),
        vec((bytes(12), proptest::option::of(bytes(20))), 0..4),
    );
    vec(record, 1..40).prop_map(|records| {
        let mut next = 0;
        records
            .into_iter()
            .map(|(gap, timestamp, key, value, headers)| {
                let offset_delta = next + gap;
                next = offset_delta + 1;
                OwnedRecord {
                    offset_delta,
                    timestamp,
                    key,
                    value,
                    headers,
                }
            })
            .collect()
    })
}

pub fn compression() -> impl Strategy<Value = Compression> {
    proptest::sample::select(&Compression::ALL[..])
}

pub fn options() -> impl Strategy<Value = BatchOptions> {
    let producer = proptest::option::of((0..i64::MAX, 0..i16::MAX, 0..i32::MAX));
    let timestamps = prop_oneof![
        3 => Just(Timestamps::CreateTime),
        1 => any::<i64>().prop_map(Timestamps::LogAppendTime),
    ];
    (
        0..i64::from(u32::MAX),
        -1..1000_i32,
        compression(),
        timestamps,
        any::<bool>(),
        producer,
    )
        .prop_map(
            |(base_offset, epoch, compression, timestamps, transactional, producer)| BatchOptions {
                base_offset,
                partition_leader_epoch: epoch,
                compression,
                timestamps,
                transactional,
                control: false,
                producer: producer.map_or_else(ProducerFields::default, |(id, epoch, sequence)| {
                    ProducerFields {
                        id,
                        epoch,
                        base_sequence: sequence,
                    }
                }),
            },
        )
}
