//! The record codec of the `kafka-protocol` crate as second opinion, in both directions. It keeps
//! one header per key and wants UTF-8 keys, so the records here do, too.

use bytes::{Bytes, BytesMut};
use indexmap::IndexMap;
use kafka_protocol::records as theirs;
use kafka_wire::records::{
    BatchBuilder, BatchOptions, Batches, Budget, Compression, Compressor, ProducerFields, Record,
    Timestamps,
};
use proptest::prelude::*;

use super::arbitrary::{self, OwnedRecord};

/// Makes header keys distinct and ASCII.
fn tame(mut records: Vec<OwnedRecord>) -> Vec<OwnedRecord> {
    for record in &mut records {
        for (index, (key, _)) in record.headers.iter_mut().enumerate() {
            *key = format!("header {index}").into_bytes();
        }
    }
    records
}

fn their_compression(compression: Compression) -> theirs::Compression {
    match compression {
        Compression::None => theirs::Compression::None,
        Compression::Gzip => theirs::Compression::Gzip,
        Compression::Snappy => theirs::Compression::Snappy,
        Compression::Lz4 => theirs::Compression::Lz4,
        Compression::Zstd => theirs::Compression::Zstd,
    }
}

fn their_record(record: &Record<'_>, options: &BatchOptions) -> theirs::Record {
    let delta = i32::try_from(record.offset - options.base_offset).unwrap();
    let headers: IndexMap<_, _> = record
        .headers
        .iter()
        .map(|header| {
            let key = std::str::from_utf8(header.key).unwrap().to_owned();
            (key.into(), header.value.map(Bytes::copy_from_slice))
        })
        .collect();
    theirs::Record {
        transactional: options.transactional,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: options.partition_leader_epoch,
        producer_id: options.producer.id,
        producer_epoch: options.producer.epoch,
        timestamp_type: match options.timestamps {
            Timestamps::CreateTime => theirs::TimestampType::Creation,
            Timestamps::LogAppendTime(_) => theirs::TimestampType::LogAppend,
        },
        offset: record.offset,
        // Theirs keeps a batch together only where the sequence follows the offset.
        sequence: options.producer.base_sequence.wrapping_add(delta),
        timestamp: record.timestamp,
        key: record.key.map(Bytes::copy_from_slice),
        value: record.value.map(Bytes::copy_from_slice),
        headers,
    }
}

/// Theirs does not know log append time on reading, nor wrapping sequences.
fn options() -> impl Strategy<Value = BatchOptions> {
    arbitrary::options().prop_map(|options| BatchOptions {
        timestamps: Timestamps::CreateTime,
        producer: ProducerFields {
            base_sequence: options.producer.base_sequence / 2,
            ..options.producer
        },
        ..options
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn theirs_reads_what_we_write(
        records in arbitrary::records(true).prop_map(tame),
        options in options(),
    ) {
        arbitrary::with_records(&records, options.base_offset, |records| {
            let mut out = BytesMut::new();
            let mut compressor = Compressor::new();
            let mut builder = BatchBuilder::new(&mut out, &mut compressor, options);
            for record in records {
                builder.append(record).unwrap();
            }
            builder.finish().unwrap();
            let read = theirs::RecordBatchDecoder::decode(&mut out.freeze()).unwrap();
            let expected: Vec<_> = records
                .iter()
                .map(|record| their_record(record, &options))
                .collect();
            assert_eq!(read.records, expected);
        });
    }

    #[test]
    fn we_read_what_theirs_writes(
        records in arbitrary::records(true).prop_map(tame),
        options in options(),
    ) {
        arbitrary::with_records(&records, options.base_offset, |records| {
            let written: Vec<_> = records
                .iter()
                .map(|record| their_record(record, &options))
                .collect();
            let mut out = BytesMut::new();
            let encode_options = theirs::RecordEncodeOptions {
                version: 2,
                compression: their_compression(options.compression),
            };
            theirs::RecordBatchEncoder::encode(&mut out, &written, &encode_options).unwrap();

            let mut budget = Budget::new(1 << 20, 1000);
            let mut read = Vec::new();
            for batch in Batches::new(out.freeze()) {
                let batch = batch.unwrap();
                assert_eq!(batch.header().producer_id, options.producer.id);
                assert_eq!(batch.header().compression, options.compression);
                let opened = batch.records(&mut budget).unwrap();
                for record in &opened {
                    read.push(their_record(&record.unwrap(), &options));
                }
            }
            assert_eq!(read, written);
        });
    }
}
