//! Hostile bytes: nothing panics, nothing that is damaged is taken for whole.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_wire::ErrorCode;
use kafka_wire::records::{Batches, Budget, Compression, RecordFault, RecordsError, fuzz, seal};
use proptest::prelude::*;
use rstest::rstest;

use super::golden::{BATCHES, golden};

/// A sealed, uncompressed batch of `count` records whose body is `body`.
pub fn batch_with_body(count: i32, body: &[u8]) -> Bytes {
    compressed_batch(Compression::None, count, body)
}

/// A sealed batch whose body is `stream`, whatever the codec makes of it.
pub fn compressed_batch(compression: Compression, count: i32, stream: &[u8]) -> Bytes {
    let mut batch = BytesMut::zeroed(61);
    batch[22] = compression.id();
    batch[23..27].copy_from_slice(&(count.max(1) - 1).to_be_bytes());
    batch[57..61].copy_from_slice(&count.to_be_bytes());
    batch.extend_from_slice(stream);
    seal(&mut batch).unwrap();
    batch.freeze()
}

/// The first fault met by reading everything.
fn read_all(field: Bytes) -> Result<usize, RecordsError> {
    let mut budget = Budget::new(1 << 20, 1 << 20);
    let mut count = 0;
    for batch in Batches::new(field) {
        let opened = batch?.records(&mut budget)?;
        for record in &opened {
            record?;
            count += 1;
        }
    }
    Ok(count)
}

#[test]
fn every_truncation_is_a_fault_whether_sealed_again_or_not() {
    for name in BATCHES {
        let whole = golden(name);
        assert_eq!(read_all(whole.clone()), Ok(4), "{name}");
        for cut in 1..whole.len() {
            assert!(read_all(whole.slice(..cut)).is_err(), "{name} cut at {cut}");
            let mut sealed = whole[..cut].to_vec();
            if seal(&mut sealed).is_ok() {
                assert!(
                    read_all(sealed.into()).is_err(),
                    "{name} cut at {cut} and sealed"
                );
            }
        }
    }
}

#[test]
fn every_flipped_byte_under_a_right_crc_is_read_without_panic() {
    for name in BATCHES {
        let whole = golden(name);
        for at in 0..whole.len().min(400) {
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = whole.to_vec();
                damaged[at] ^= flip;
                fuzz::read(&damaged);
                seal(&mut damaged).unwrap();
                fuzz::read(&damaged);
            }
        }
    }
}

#[test]
fn bytes_behind_the_records_are_refused() {
    for compression in Compression::ALL {
        let body = [&one_record()[..], &[0]].concat();
        let mut stream = BytesMut::new();
        match compression {
            Compression::None => stream.extend_from_slice(&body),
            // Literals only.
            Compression::Snappy => {
                stream.put_u8(body.len() as u8);
                stream.put_u8((body.len() as u8 - 1) << 2);
                stream.extend_from_slice(&body);
            }
            Compression::Gzip | Compression::Lz4 | Compression::Zstd => continue,
        }
        assert_eq!(
            read_all(compressed_batch(compression, 1, &stream)),
            Err(RecordsError::Record {
                index: 1,
                fault: RecordFault::TrailingBytes
            })
        );
    }
}

/// A whole record: no key, no value, no headers.
fn one_record() -> [u8; 7] {
    [0x0c, 0, 0, 0, 0x01, 0x01, 0]
}

const HUGE_VARINT: [u8; 5] = [0xfe, 0xff, 0xff, 0xff, 0x0f];
const OVERLONG_VARINT: [u8; 6] = [0x80, 0x80, 0x80, 0x80, 0x80, 0x00];

fn record_with(fields: &[&[u8]]) -> Vec<u8> {
    let fields = fields.concat();
    assert!(fields.len() < 64);
    let mut record = vec![(fields.len() as u8) << 1];
    record.extend_from_slice(&fields);
    record
}

#[rstest]
#[case::record_length_negative(&[0x01, 0, 0, 0, 0, 0, 0], RecordFault::Length(-1))]
#[case::record_length_huge(&[&HUGE_VARINT[..], &[0; 9]].concat(), RecordFault::Truncated)]
#[case::record_length_overlong(&[&OVERLONG_VARINT[..], &[0; 9]].concat(), RecordFault::Varint)]
#[case::record_longer_than_its_fields(&[0x0e, 0, 0, 0, 0x01, 0x01, 0, 0], RecordFault::LengthMismatch)]
#[case::record_shorter_than_its_fields(&[0x0a, 0, 0, 0, 0x01, 0x01, 0, 0], RecordFault::LengthMismatch)]
#[case::timestamp_overlong(&record_with(&[&[0], &[0x80; 10], &[0; 5]]), RecordFault::Varint)]
#[case::offset_delta_negative(&record_with(&[&[0, 0, 0x01, 0x01, 0x01, 0]]), RecordFault::OffsetDelta(-1))]
#[case::offset_delta_beyond_last(&record_with(&[&[0, 0, 0x02, 0x01, 0x01, 0]]), RecordFault::OffsetDelta(1))]
#[case::offset_delta_huge(&record_with(&[&[0, 0], &HUGE_VARINT, &[0x01, 0x01, 0]]), RecordFault::OffsetDelta(i32::MAX))]
#[case::key_length_huge(&record_with(&[&[0, 0, 0], &HUGE_VARINT, &[0x01, 0]]), RecordFault::LengthMismatch)]
#[case::key_length_negative(&record_with(&[&[0, 0, 0, 0x03, 0x01, 0]]), RecordFault::Length(-2))]
#[case::key_length_overlong(&record_with(&[&[0, 0, 0], &OVERLONG_VARINT, &[0x01, 0]]), RecordFault::Varint)]
#[case::value_length_huge(&record_with(&[&[0, 0, 0, 0x01], &HUGE_VARINT, &[0]]), RecordFault::LengthMismatch)]
#[case::value_length_least(&record_with(&[&[0, 0, 0, 0x01], &[0xff, 0xff, 0xff, 0xff, 0x0f], &[0]]), RecordFault::Length(i32::MIN))]
#[case::header_count_negative(&record_with(&[&[0, 0, 0, 0x01, 0x01, 0x01]]), RecordFault::HeaderCount(-1))]
#[case::header_count_2_to_30(&record_with(&[&[0, 0, 0, 0x01, 0x01], &[0x80, 0x80, 0x80, 0x80, 0x08]]), RecordFault::HeaderCount(1 << 30))]
#[case::header_count_one_too_many(&record_with(&[&[0, 0, 0, 0x01, 0x01, 0x04, 0, 0x01, 0]]), RecordFault::HeaderCount(2))]
#[case::header_key_null(&record_with(&[&[0, 0, 0, 0x01, 0x01, 0x02, 0x01, 0x01]]), RecordFault::Length(-1))]
#[case::header_key_huge(&record_with(&[&[0, 0, 0, 0x01, 0x01, 0x02], &HUGE_VARINT, &[0]]), RecordFault::LengthMismatch)]
#[case::header_value_negative(&record_with(&[&[0, 0, 0, 0x01, 0x01, 0x02, 0, 0x05]]), RecordFault::Length(-3))]
fn malformed_records(#[case] body: &[u8], #[case] fault: RecordFault) {
    let error = read_all(batch_with_body(1, body)).unwrap_err();
    assert_eq!(error, RecordsError::Record { index: 0, fault });
    assert_eq!(error.error_code(), ErrorCode::InvalidRecord);
}

#[test]
fn offset_deltas_that_do_not_rise_are_refused() {
    let body = one_record().repeat(2);
    assert_eq!(
        read_all(batch_with_body(2, &body)),
        Err(RecordsError::Record {
            index: 1,
            fault: RecordFault::OffsetDelta(0)
        })
    );
}

#[test]
fn timestamps_past_the_largest_are_refused() {
    // Base timestamp i64::MAX, delta 1.
    let mut batch = batch_with_body(1, &[0x0c, 0, 0x02, 0, 0x01, 0x01, 0]).to_vec();
    batch[27..35].copy_from_slice(&i64::MAX.to_be_bytes());
    seal(&mut batch).unwrap();
    assert_eq!(
        read_all(batch.into()),
        Err(RecordsError::Record {
            index: 0,
            fault: RecordFault::TimestampOverflow
        })
    );
}

#[test]
fn a_count_that_the_bytes_cannot_hold_is_refused_before_reading() {
    let batch = batch_with_body(i32::MAX, &one_record());
    let batch = Batches::new(batch).next().unwrap().unwrap();
    assert_eq!(
        batch.records(&mut Budget::new(0, usize::MAX)).unwrap_err(),
        RecordsError::Record {
            index: 0,
            fault: RecordFault::Count
        }
    );
    assert_eq!(
        batch.records(&mut Budget::new(0, 1000)).unwrap_err(),
        RecordsError::RecordsOverBudget {
            declared: i32::MAX as usize,
            remaining: 1000
        }
    );
}

#[test]
fn a_count_below_the_records_leaves_trailing_bytes() {
    let body = [one_record(), [0x0c, 0, 0, 0x02, 0x01, 0x01, 0]].concat();
    assert_eq!(read_all(batch_with_body(2, &body)), Ok(2));
    assert_eq!(
        read_all(batch_with_body(1, &body)),
        Err(RecordsError::Record {
            index: 1,
            fault: RecordFault::TrailingBytes
        })
    );
}

#[test]
fn batches_without_records_are_read() {
    for compression in Compression::ALL {
        assert_eq!(read_all(compressed_batch(compression, 0, &[])), Ok(0));
    }
}

#[test]
fn an_iteration_ends_with_its_first_fault() {
    let good = batch_with_body(1, &one_record());
    let field = [
        &good[..],
        b"garbage of more than seventeen bytes",
        &good[..],
    ]
    .concat();
    let outcomes: Vec<_> = Batches::new(field.into())
        .map(|batch| batch.is_ok())
        .collect();
    assert_eq!(outcomes, [true, false]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn arbitrary_bytes_are_read_without_panic(
        input in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        fuzz::read(&input);
        fuzz::read_sealed(&input);
    }

    #[test]
    fn golden_batches_with_damage_are_read_without_panic(
        name in proptest::sample::select(&BATCHES[..]),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut input = golden(name).to_vec();
        for (at, byte) in damage {
            let at = at.index(input.len());
            input[at] = byte;
        }
        if let Some(cut) = cut {
            input.truncate(cut.index(input.len()));
        }
        fuzz::read(&input);
        fuzz::read_sealed(&input);
    }
}
