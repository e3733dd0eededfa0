//! Record batches as clients send them.

use bytes::{Bytes, BytesMut};
use kafka_wire::records::{
    BatchBuilder, BatchOptions, Compression, Compressor, ProducerFields, Record, increment_sequence,
};

/// An idempotent producer on one partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Producer {
    pub(super) id: i64,
    pub(super) epoch: i16,
    /// The next sequence.
    pub(super) sequence: i32,
}

impl Producer {
    /// The next batch of this producer.
    pub(super) fn batch(&mut self, values: &[String]) -> Bytes {
        let producer = ProducerFields {
            id: self.id,
            epoch: self.epoch,
            base_sequence: self.sequence,
        };
        let count = i32::try_from(values.len()).expect("a few");
        self.sequence = increment_sequence(self.sequence, count);
        build(
            values,
            BatchOptions {
                producer,
                ..BatchOptions::default()
            },
        )
    }
}

/// A batch without a producer.
pub(super) fn plain(values: &[String]) -> Bytes {
    build(values, BatchOptions::default())
}

/// A batch without a producer, compressed.
pub(super) fn compressed(values: &[String], compression: Compression) -> Bytes {
    build(
        values,
        BatchOptions {
            compression,
            ..BatchOptions::default()
        },
    )
}

pub(super) fn build(values: &[String], options: BatchOptions) -> Bytes {
    let timestamps: Vec<i64> = (1_000..).take(values.len()).collect();
    build_at(values, &timestamps, options)
}

/// A batch whose records have these timestamps.
pub(super) fn build_at(values: &[String], timestamps: &[i64], options: BatchOptions) -> Bytes {
    let mut out = BytesMut::new();
    let mut compressor = Compressor::new();
    let mut builder = BatchBuilder::new(&mut out, &mut compressor, options);
    for ((offset, value), &timestamp) in (0..).zip(values).zip(timestamps) {
        let record = Record {
            offset,
            timestamp,
            value: Some(value.as_bytes()),
            ..Record::default()
        };
        builder.append(&record).expect("a record that fits");
    }
    builder.finish().expect("a batch");
    out.freeze()
}
