//! What reading may allocate, counted by a global allocator for this thread. (The C library behind
//! zstd takes one context of a fixed size by itself; its output is Rust's and counted here.)

use std::io::Write;

use allocation_counter::measure;
use bytes::Bytes;
use kafka_wire::records::{Batches, Budget, Compression, RecordFault, RecordsError};
use rstest::rstest;

use super::golden::{BATCHES, golden};
use super::hostile::{batch_with_body, compressed_batch};

/// What a decoder itself may hold beside its output (gzip's window and tables, most of all).
const STATE_BYTES: u64 = 64 * 1024;

/// Most bytes that were allocated at one time while all batches of `field` were read.
fn peak(field: &Bytes, budget: &mut Budget) -> u64 {
    let info = measure(|| {
        for batch in Batches::new(field.clone()) {
            let Ok(batch) = batch else { return };
            let Ok(records) = batch.records(budget) else {
                return;
            };
            for record in &records {
                let Ok(record) = record else { return };
                assert_eq!(record.headers.iter().count(), record.headers.len());
            }
        }
    });
    info.bytes_max
}

/// A stream that decompresses to `len` zeros.
fn bomb(compression: Compression, len: usize) -> Vec<u8> {
    let zeros = vec![0; len];
    match compression {
        Compression::None => zeros,
        Compression::Gzip => {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            encoder.write_all(&zeros).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Snappy => snap::raw::Encoder::new().compress_vec(&zeros).unwrap(),
        Compression::Lz4 => {
            let info = lz4_flex::frame::FrameInfo::new()
                .block_size(lz4_flex::frame::BlockSize::Max4MB)
                .block_mode(lz4_flex::frame::BlockMode::Linked);
            let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
            encoder.write_all(&zeros).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Zstd => {
            // No declared size, and a window of 128 MiB.
            let mut encoder = zstd::stream::Encoder::new(Vec::new(), 19).unwrap();
            encoder.window_log(27).unwrap();
            encoder.write_all(&zeros).unwrap();
            encoder.finish().unwrap()
        }
    }
}

#[rstest]
fn bombs_cost_no_more_than_the_budget(
    #[values(
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd
    )]
    compression: Compression,
    #[values(0, 1, 10_000, 1 << 20)] limit: usize,
) {
    let stream = bomb(compression, 16 << 20);
    let field = compressed_batch(compression, 1, &stream);
    drop(stream);
    let mut budget = Budget::new(limit, 10);
    let batch = Batches::new(field.clone()).next().unwrap().unwrap();
    assert_eq!(
        batch.records(&mut budget).unwrap_err(),
        RecordsError::BytesOverBudget {
            remaining_bytes: limit
        }
    );
    // What is left pays for no second bomb.
    assert_eq!(budget.remaining_bytes(), 0);
    let peak = peak(&field, &mut Budget::new(limit, 10));
    assert!(
        peak <= limit as u64 + STATE_BYTES,
        "{compression}: {peak} bytes for a budget of {limit}"
    );
}

/// Gzip of many members and with a trailer that lies is the one stream whose size must be measured
/// by decoding.
#[test]
fn a_gzip_stream_of_many_members_stays_within_its_budget() {
    let member = bomb(Compression::Gzip, 1 << 20);
    let field = compressed_batch(Compression::Gzip, 1, &member.repeat(4));
    let limit = 4 << 20;
    let peak_bytes = peak(&field, &mut Budget::new(limit, 10));
    assert!(peak_bytes <= limit as u64 + STATE_BYTES, "{peak_bytes}");
    // The counter counts: what was decompressed was allocated.
    assert!(peak_bytes >= limit as u64, "{peak_bytes}");
    // It did decompress: zeros are records of no length.
    let batch = Batches::new(field).next().unwrap().unwrap();
    let mut budget = Budget::new(limit, 10);
    assert_eq!(batch.records(&mut budget).unwrap().len_bytes(), limit);
    assert_eq!(budget.remaining_bytes(), 0);
}

#[rstest]
#[case::count(batch_with_body(i32::MAX, &[0; 700]), 0)]
#[case::header_count(
    batch_with_body(1, &[0x14, 0, 0, 0, 1, 1, 0x80, 0x80, 0x80, 0x80, 0x08]),
    0
)]
#[case::snappy(
    compressed_batch(Compression::Snappy, 1, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0]),
    0
)]
// The trailer claims 4 GiB: no more is set aside than 30 bytes of DEFLATE can hold.
#[case::gzip_trailer(compressed_batch(Compression::Gzip, 1, &[0xff; 30]), 30 * 1032)]
fn lengths_on_the_wire_allocate_nothing(#[case] field: Bytes, #[case] expands_to: u64) {
    let mut budget = Budget::new(1 << 30, usize::MAX);
    let peak = peak(&field, &mut budget);
    assert!(peak <= STATE_BYTES + expands_to, "{peak} bytes");
}

#[test]
fn honest_batches_cost_what_they_hold() {
    for name in BATCHES {
        let field = golden(name);
        let mut budget = Budget::new(1 << 30, usize::MAX);
        let peak = peak(&field, &mut budget);
        // LZ4 frames count 64 KiB for their last block.
        assert!(peak <= STATE_BYTES + 64 * 1024, "{name}: {peak} bytes");
    }
    // Uncompressed batches are slices of the frame.
    let field = golden("java-none");
    let peak = peak(&field, &mut Budget::new(0, 4));
    assert!(peak <= 64, "{peak} bytes");
}

#[test]
fn reading_records_allocates_nothing() {
    let batch = Batches::new(golden("java-none")).next().unwrap().unwrap();
    let opened = batch.records(&mut Budget::new(0, 4)).unwrap();
    let info = measure(|| {
        for record in &opened {
            let record = record.unwrap();
            assert!(record.headers.iter().all(|header| !header.key.is_empty()));
        }
    });
    assert_eq!(info.count_total, 0);
}

#[test]
fn a_record_that_fails_names_its_position() {
    let fault = RecordFault::Truncated;
    let error = RecordsError::Record { index: 3, fault };
    assert_eq!(error.to_string(), "record 3 of the batch: ends early");
}
