//! Batch headers: what is refused, and with which code.

use bytes::Bytes;
use kafka_wire::ErrorCode;
use kafka_wire::records::{
    BatchHeader, Batches, ClientFault, CodecFault, Compression, ControlFault, EndTransactionMarker,
    HeaderFault, Record, RecordFault, RecordsError, seal,
};
use rstest::rstest;

use super::golden::golden;

/// The golden batch with `bytes` at `at`, its length, magic and CRC made right again.
fn edited(at: usize, bytes: &[u8]) -> Bytes {
    let mut batch = golden("java-transactional").to_vec();
    batch[at..at + bytes.len()].copy_from_slice(bytes);
    seal(&mut batch).unwrap();
    batch.into()
}

fn error(batch: Bytes) -> RecordsError {
    Batches::new(batch).next().unwrap().unwrap_err()
}

#[rstest]
#[case::count_negative(57, -1, HeaderFault::NegativeCount(-1))]
#[case::count_least(57, i32::MIN, HeaderFault::NegativeCount(i32::MIN))]
#[case::count_huge(57, i32::MAX, HeaderFault::MoreRecordsThanOffsets { count: i32::MAX, offsets: 4 })]
#[case::delta_negative(23, -1, HeaderFault::NegativeLastOffsetDelta(-1))]
fn contradictions_are_invalid_records(
    #[case] at: usize,
    #[case] value: i32,
    #[case] fault: HeaderFault,
) {
    let error = error(edited(at, &value.to_be_bytes()));
    assert_eq!(error, RecordsError::Header(fault));
    assert_eq!(error.error_code(), ErrorCode::InvalidRecord);
}

#[test]
fn offsets_past_the_largest_are_refused() {
    let error = error(edited(0, &(i64::MAX - 2).to_be_bytes()));
    assert_eq!(error, RecordsError::Header(HeaderFault::OffsetOverflow));
}

#[rstest]
fn unknown_codecs_are_unsupported(#[values(5, 6, 7)] id: u8) {
    let error = error(edited(21, &[0, id]));
    assert_eq!(error, RecordsError::UnknownCompression(id));
    assert_eq!(error.error_code(), ErrorCode::UnsupportedCompressionType);
}

#[rstest]
fn unknown_magics_are_corrupt(#[values(3, 127, -1, -128)] magic: i8) {
    let mut batch = golden("java-none").to_vec();
    batch[16] = magic as u8;
    let error = error(batch.into());
    assert_eq!(error, RecordsError::UnknownMagic(magic));
    assert_eq!(error.error_code(), ErrorCode::CorruptMessage);
}

#[rstest]
#[case::negative(-1)]
#[case::least(i32::MIN)]
#[case::zero(0)]
#[case::one_less_than_a_header(48)]
fn lengths_below_a_header_are_corrupt(#[case] length: i32) {
    let mut batch = golden("java-none").to_vec();
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    let error = error(batch.into());
    assert_eq!(error, RecordsError::BatchLength(length));
    assert_eq!(error.error_code(), ErrorCode::CorruptMessage);
}

#[test]
fn a_length_beyond_the_field_is_truncated() {
    let mut batch = golden("java-none").to_vec();
    batch[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
    let expected = RecordsError::Truncated {
        declared_bytes: i32::MAX as usize + 12,
        remaining_bytes: batch.len(),
    };
    let error = error(batch.into());
    assert_eq!(error, expected);
    assert_eq!(error.error_code(), ErrorCode::CorruptMessage);
}

#[test]
fn the_crc_covers_every_byte_from_the_attributes_on_and_none_before() {
    let batch = golden("java-snappy");
    for at in 0..batch.len() {
        let mut damaged = batch.to_vec();
        damaged[at] ^= 0x01;
        let outcome = Batches::new(damaged.into()).next().unwrap();
        match at {
            // Base offset and leader epoch.
            0..8 | 12..16 => assert!(outcome.is_ok(), "byte {at}"),
            // Length and magic have faults of their own.
            8..12 | 16 => assert!(outcome.is_err(), "byte {at}"),
            _ => {
                let error = outcome.unwrap_err();
                assert!(
                    matches!(
                        error,
                        RecordsError::Crc { .. }
                            | RecordsError::Header(_)
                            | RecordsError::UnknownCompression(_)
                    ),
                    "byte {at}: {error}"
                );
            }
        }
    }
}

#[rstest]
#[case::control(edited(21, &[0, 0b11_0000]), ClientFault::ControlBatch)]
#[case::empty(edited(57, &[0; 4]), ClientFault::Empty)]
#[case::gaps(edited(57, &[0, 0, 0, 3]), ClientFault::OffsetGaps { count: 3, offsets: 4 })]
#[case::no_sequence(edited(53, &[0xff; 4]), ClientFault::ProducerFields)]
#[case::no_epoch(edited(51, &[0xff; 2]), ClientFault::ProducerFields)]
#[case::no_producer_id(edited(43, &[0xff; 8]), ClientFault::TransactionalWithoutProducerId)]
fn what_no_client_may_send(#[case] batch: Bytes, #[case] fault: ClientFault) {
    let header = BatchHeader::parse(&batch).unwrap();
    let error = header.validate_from_client().unwrap_err();
    assert_eq!(error, RecordsError::Client(fault));
    assert_eq!(error.error_code(), ErrorCode::InvalidRecord);
}

#[rstest]
#[case::null_key(None, Some(&[0; 6][..]), ControlFault::Truncated)]
#[case::short_key(Some(&[0, 0, 0][..]), Some(&[0; 6][..]), ControlFault::Truncated)]
#[case::null_value(Some(&[0; 4][..]), None, ControlFault::Truncated)]
#[case::short_value(Some(&[0; 4][..]), Some(&[0; 5][..]), ControlFault::Truncated)]
#[case::key_version(Some(&[0xff, 0xff, 0, 0][..]), Some(&[0; 6][..]), ControlFault::Version(-1))]
#[case::value_version(Some(&[0; 4][..]), Some(&[0x80, 0, 0, 0, 0, 0][..]), ControlFault::Version(i16::MIN))]
#[case::leader_change(Some(&[0, 0, 0, 2][..]), Some(&[0; 6][..]), ControlFault::NotAMarker(2))]
fn malformed_markers(
    #[case] key: Option<&[u8]>,
    #[case] value: Option<&[u8]>,
    #[case] fault: ControlFault,
) {
    let record = Record {
        key,
        value,
        ..Record::default()
    };
    assert_eq!(
        EndTransactionMarker::parse(&record),
        Err(RecordsError::Control(fault))
    );
}

#[test]
fn markers_of_later_versions_only_append() {
    let record = Record {
        key: Some(&[0, 9, 0, 1, 0xaa]),
        value: Some(&[0, 9, 0, 0, 0, 42, 0xaa, 0xbb]),
        ..Record::default()
    };
    assert_eq!(
        EndTransactionMarker::parse(&record)
            .unwrap()
            .coordinator_epoch,
        42
    );
}

/// The codes that no golden or hostile batch of the other tests asks for.
#[rstest]
#[case(RecordsError::Codec { compression: Compression::Zstd, fault: CodecFault::Block }, ErrorCode::CorruptMessage)]
#[case(RecordsError::BytesOverBudget { remaining_bytes: 0 }, ErrorCode::MessageTooLarge)]
#[case(RecordsError::RecordsOverBudget { declared: 2, remaining: 1 }, ErrorCode::MessageTooLarge)]
#[case(RecordsError::Record { index: 0, fault: RecordFault::Count }, ErrorCode::InvalidRecord)]
fn each_kind_of_fault_has_its_code(#[case] error: RecordsError, #[case] code: ErrorCode) {
    assert_eq!(error.error_code(), code);
}
