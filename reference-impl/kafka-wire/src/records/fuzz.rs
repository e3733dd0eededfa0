//! What the fuzz targets and the bounded tests of this module run on arbitrary bytes. Panics where
//! a promise of the reader or the writer does not hold.

use bytes::{Bytes, BytesMut};

use super::{
    BatchBuilder, BatchOptions, Batches, Budget, Compression, Compressor, EndTransactionMarker,
    ProducerFields, Record, Records, TimestampType, Timestamps, seal,
};

/// Small enough that a fuzzer finds what lies beyond it.
const MAX_BYTES: usize = 1 << 20;
const MAX_RECORDS: usize = 1 << 16;

/// Reads arbitrary bytes as a RECORDS field. What parses must survive being written again.
pub fn read(input: &[u8]) {
    let mut budget = Budget::new(MAX_BYTES, MAX_RECORDS);
    for batch in Batches::new(Bytes::copy_from_slice(input)) {
        let Ok(batch) = batch else { return };
        let before = budget.remaining_bytes();
        let Ok(records) = batch.records(&mut budget) else {
            continue;
        };
        assert!(before - budget.remaining_bytes() <= MAX_BYTES);
        let header = *batch.header();
        if records.iter().any(|record| record.is_err()) {
            continue;
        }
        let parsed: Vec<_> = records.iter().flatten().collect();
        assert_eq!(parsed.len(), records.len());
        for record in &parsed {
            let _outcome = EndTransactionMarker::parse(record);
            assert_eq!(record.headers.iter().count(), record.headers.len());
        }
        if parsed.is_empty() {
            continue;
        }
        let options = BatchOptions {
            base_offset: header.base_offset,
            partition_leader_epoch: header.partition_leader_epoch,
            compression: header.compression,
            timestamps: match header.timestamp_type() {
                TimestampType::CreateTime => Timestamps::CreateTime,
                TimestampType::LogAppendTime => Timestamps::LogAppendTime(header.max_timestamp),
            },
            transactional: header.attributes.is_transactional(),
            control: header.attributes.is_control(),
            producer: ProducerFields {
                id: header.producer_id,
                epoch: header.producer_epoch,
                base_sequence: header.base_sequence,
            },
        };
        write_and_read(&parsed, options);
    }
}

/// Makes the bytes a batch (length, magic, CRC, and a codec that exists), so that what lies behind
/// the checks of the header is reached, and reads it.
pub fn read_sealed(input: &[u8]) {
    let mut batch = input.to_vec();
    if seal(&mut batch).is_err() {
        return;
    }
    read(&batch);
    for codec in Compression::ALL {
        // The low byte of the attributes.
        batch[22] = batch[22] & !0b111 | codec.id();
        if seal(&mut batch).is_ok() {
            read(&batch);
        }
    }
}

/// Writes `records` and reads them back: whatever the writer accepts, the reader returns.
pub fn write_and_read(records: &[Record<'_>], options: BatchOptions) {
    let mut out = BytesMut::from(&b"before"[..]);
    let mut compressor = Compressor::new();
    let mut builder = BatchBuilder::new(&mut out, &mut compressor, options);
    let mut accepted = Vec::new();
    for record in records {
        let bound = builder.len_upper_bound_with(record);
        if builder.append(record).is_ok() {
            assert_eq!(builder.len_upper_bound(), bound);
            accepted.push(*record);
        }
    }
    let bound = builder.len_upper_bound();
    let Ok(summary) = builder.finish() else {
        assert_eq!(&out[..], b"before");
        return;
    };
    assert!(summary.len_bytes <= bound);
    assert_eq!(&out[..6], b"before");
    assert_eq!(out.len(), 6 + summary.len_bytes);

    let field = out.freeze().slice(6..);
    let mut batches = Batches::new(field);
    let Some(Ok(batch)) = batches.next() else {
        panic!("the writer's own batch does not parse");
    };
    assert!(batches.next().is_none());
    let records = batch.records(&mut Budget::new(usize::MAX, usize::MAX));
    let Ok(records) = records else {
        panic!("the writer's own batch does not open: {records:?}");
    };
    assert_same(&records, &accepted, options.timestamps);
}

fn assert_same(records: &Records, accepted: &[Record<'_>], timestamps: Timestamps) {
    assert_eq!(records.len(), accepted.len());
    for (read, written) in records.iter().zip(accepted) {
        let timestamp = match timestamps {
            Timestamps::CreateTime => written.timestamp,
            Timestamps::LogAppendTime(append_time) => append_time,
        };
        let expected = Record {
            timestamp,
            ..*written
        };
        assert_eq!(read, Ok(expected));
    }
}
