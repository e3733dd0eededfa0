//! Batches that Kafka's own clients wrote (`tests/golden/records`).

use bytes::Bytes;
use kafka_wire::ErrorCode;
use kafka_wire::records::{
    BatchHeader, Batches, Budget, Compression, EndTransactionMarker, Header, MarkerKind,
    RecordsError, TimestampType,
};
use rstest::rstest;

const TIMESTAMP: i64 = 1_700_000_000_000;

/// The bytes of one golden file.
pub fn golden(name: &str) -> Bytes {
    let path = format!(
        "{}/tests/golden/records/{name}.hex",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let digits: Vec<u8> = text
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .map(|digit| digit as u8)
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

/// Every golden batch of format v2 that holds application records.
pub const BATCHES: [&str; 13] = [
    "java-none",
    "java-gzip",
    "java-snappy",
    "java-lz4",
    "java-zstd",
    "java-log-append-time",
    "java-transactional",
    "librdkafka-none",
    "librdkafka-gzip",
    "librdkafka-snappy",
    "librdkafka-lz4",
    "librdkafka-zstd",
    "librdkafka-idempotent",
];

/// A record with its bytes, to compare.
type Plain = (
    i64,
    i64,
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    Vec<(Vec<u8>, Option<Vec<u8>>)>,
);

fn open(name: &str) -> (BatchHeader, Vec<Plain>) {
    let mut batches = Batches::new(golden(name));
    let batch = batches.next().unwrap().unwrap();
    assert!(batches.next().is_none());
    let opened = batch.records(&mut Budget::new(1 << 16, 10)).unwrap();
    let records = opened
        .iter()
        .map(|record| {
            let record = record.unwrap();
            let own = |Header { key, value }| (key.to_vec(), value.map(<[u8]>::to_vec));
            (
                record.offset,
                record.timestamp,
                record.key.map(<[u8]>::to_vec),
                record.value.map(<[u8]>::to_vec),
                record.headers.iter().map(own).collect(),
            )
        })
        .collect();
    (*batch.header(), records)
}

fn long_value() -> Vec<u8> {
    (0..200)
        .flat_map(|number| format!("line {number};").into_bytes())
        .collect()
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    Some(text.as_bytes().to_vec())
}

fn java_records(append_time: Option<i64>) -> Vec<Plain> {
    let at = |delta| append_time.unwrap_or(TIMESTAMP + delta);
    let headers = vec![
        (b"h".to_vec(), None),
        (b"h".to_vec(), bytes("")),
        ("ü".as_bytes().to_vec(), bytes("x")),
    ];
    vec![
        (100, at(0), None, bytes("first"), vec![]),
        (101, at(5), bytes(""), None, headers),
        (102, at(-5), bytes("key"), bytes(""), vec![]),
        (103, at(70_000), bytes("long"), Some(long_value()), vec![]),
    ]
}

#[rstest]
#[case("java-none", Compression::None)]
#[case("java-gzip", Compression::Gzip)]
#[case("java-snappy", Compression::Snappy)]
#[case("java-lz4", Compression::Lz4)]
#[case("java-zstd", Compression::Zstd)]
fn java_batches_of_every_codec(#[case] name: &str, #[case] compression: Compression) {
    let (header, records) = open(name);
    assert_eq!(header.compression, compression);
    assert_eq!(records, java_records(None));
    assert_eq!((header.base_offset, header.last_offset()), (100, 103));
    assert_eq!(header.partition_leader_epoch, 7);
    assert_eq!(header.base_timestamp, TIMESTAMP);
    assert_eq!(header.max_timestamp, TIMESTAMP + 70_000);
    assert!(!header.has_producer_id());
    assert_eq!(header.validate_from_client(), Ok(()));
}

#[test]
fn java_log_append_time_is_every_records_time() {
    let (header, records) = open("java-log-append-time");
    assert_eq!(header.timestamp_type(), TimestampType::LogAppendTime);
    assert_eq!(records, java_records(Some(TIMESTAMP + 1000)));
}

#[test]
fn java_transactional_batch_wraps_its_sequence() {
    let (header, records) = open("java-transactional");
    assert_eq!(records, java_records(None));
    assert!(header.attributes.is_transactional());
    assert_eq!((header.producer_id, header.producer_epoch), (9000, 5));
    assert_eq!(header.base_sequence, i32::MAX - 1);
    // MAX - 1, MAX, 0, 1.
    assert_eq!(header.last_sequence(), 1);
}

#[rstest]
#[case("java-marker-commit", MarkerKind::Commit)]
#[case("java-marker-abort", MarkerKind::Abort)]
fn java_markers(#[case] name: &str, #[case] kind: MarkerKind) {
    let expected = EndTransactionMarker {
        kind,
        coordinator_epoch: 42,
    };
    let batch = Batches::new(golden(name)).next().unwrap().unwrap();
    assert!(batch.header().attributes.is_control());
    let opened = batch.records(&mut Budget::new(0, 1)).unwrap();
    let record = opened.iter().next().unwrap().unwrap();
    assert_eq!(record.offset, 77);
    assert_eq!(EndTransactionMarker::parse(&record), Ok(expected));

    // Ours is the same, byte for byte.
    let place = kafka_wire::records::MarkerBatch {
        offset: 77,
        partition_leader_epoch: 3,
        timestamp: TIMESTAMP,
        producer_id: 9000,
        producer_epoch: 5,
    };
    let mut out = bytes::BytesMut::new();
    expected.encode(&place, &mut out).unwrap();
    assert_eq!(out, golden(name));
}

#[rstest]
#[case("java-magic-0", 0)]
#[case("java-magic-1", 1)]
fn message_sets_of_before_batches_are_refused(#[case] name: &str, #[case] magic: i8) {
    let error = Batches::new(golden(name)).next().unwrap().unwrap_err();
    assert_eq!(error, RecordsError::LegacyMagic(magic));
    assert_eq!(error.error_code(), ErrorCode::InvalidRecord);
}

#[rstest]
#[case("librdkafka-none", Compression::None)]
#[case("librdkafka-gzip", Compression::Gzip)]
#[case("librdkafka-snappy", Compression::Snappy)]
#[case("librdkafka-lz4", Compression::Lz4)]
#[case("librdkafka-zstd", Compression::Zstd)]
#[case("librdkafka-idempotent", Compression::None)]
fn librdkafka_batches_of_every_codec(#[case] name: &str, #[case] compression: Compression) {
    let (header, records) = open(name);
    assert_eq!(header.compression, compression);
    assert_eq!(header.validate_from_client(), Ok(()));
    let producer = (
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
    );
    if name == "librdkafka-idempotent" {
        assert_eq!(producer, (9000, 5, 0));
    } else {
        assert_eq!(producer, (-1, -1, -1));
    }

    let headers = vec![(b"h".to_vec(), bytes("1")), (b"h".to_vec(), bytes("2"))];
    let contents: Vec<_> = records
        .into_iter()
        .map(|(offset, _, key, value, headers)| (offset, key, value, headers))
        .collect();
    assert_eq!(
        contents,
        [
            (0, bytes("key"), bytes("first"), headers.clone()),
            // kcat's -Z makes empty keys and values null.
            (1, None, bytes("empty key"), headers.clone()),
            (2, bytes("null"), None, headers.clone()),
            (3, bytes("long"), Some(long_value()), headers),
        ]
    );
}
