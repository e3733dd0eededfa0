//! Whatever is written is read back, for every codec.

use bytes::BytesMut;
use kafka_wire::records::{
    Attributes, BatchBuilder, BatchHeader, BatchOptions, Batches, Budget, BuildError, Compression,
    Compressor, ControlRecordType, EndTransactionMarker, Header, Headers, MarkerBatch, MarkerKind,
    Record, TimestampType, Timestamps, fuzz, rewrite_base_offset,
};
use proptest::prelude::*;
use rstest::rstest;

use super::arbitrary;

fn text_record(offset: i64, value: &[u8]) -> Record<'_> {
    Record {
        offset,
        timestamp: 1_700_000_000_000 + offset,
        key: Some(b"key"),
        value: Some(value),
        headers: Headers::EMPTY,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn whatever_is_written_is_read_back(
        records in arbitrary::records(true),
        options in arbitrary::options(),
    ) {
        arbitrary::with_records(&records, options.base_offset, |records| {
            fuzz::write_and_read(records, options);
        });
    }

    /// The writer's verdicts on order and range, at the edges of the integers.
    #[test]
    fn any_offsets_and_timestamps_are_written_right_or_refused(
        base_offset in any::<i64>(),
        records in proptest::collection::vec((any::<i64>(), any::<i64>()), 1..5),
        near in any::<bool>(),
    ) {
        let records: Vec<_> = records
            .into_iter()
            .map(|(offset, timestamp)| Record {
                offset: if near { base_offset.wrapping_add(offset % 16) } else { offset },
                timestamp,
                ..Record::default()
            })
            .collect();
        fuzz::write_and_read(&records, BatchOptions { base_offset, ..BatchOptions::default() });
    }

    #[test]
    fn header_fields_survive(
        records in arbitrary::records(true),
        options in arbitrary::options(),
    ) {
        let mut out = BytesMut::new();
        let mut compressor = Compressor::new();
        let summary = arbitrary::with_records(&records, options.base_offset, |records| {
            let mut builder = BatchBuilder::new(&mut out, &mut compressor, options);
            for record in records {
                builder.append(record).unwrap();
            }
            builder.finish().unwrap()
        });
        let header = BatchHeader::parse(&out).unwrap();
        let timestamps = || records.iter().map(|record| record.timestamp);
        let (timestamp_type, base, max) = match options.timestamps {
            Timestamps::CreateTime => (
                TimestampType::CreateTime,
                records[0].timestamp,
                timestamps().max().unwrap(),
            ),
            Timestamps::LogAppendTime(time) => (TimestampType::LogAppendTime, time, time),
        };
        let last_offset_delta = records.last().unwrap().offset_delta;
        prop_assert_eq!(header, BatchHeader {
            base_offset: options.base_offset,
            len_bytes: out.len(),
            partition_leader_epoch: options.partition_leader_epoch,
            crc: crc32c::crc32c(&out[21..]),
            attributes: Attributes::new(
                summary.compression,
                timestamp_type,
                options.transactional,
                false,
            ),
            compression: summary.compression,
            last_offset_delta,
            base_timestamp: base,
            max_timestamp: max,
            producer_id: options.producer.id,
            producer_epoch: options.producer.epoch,
            base_sequence: options.producer.base_sequence,
            count: i32::try_from(records.len()).unwrap(),
        });
        prop_assert_eq!(summary.last_offset, header.last_offset());
        prop_assert_eq!(summary.max_timestamp, max);
    }
}

#[rstest]
fn a_batch_that_shrinks_keeps_its_codec_and_one_that_does_not_goes_without(
    #[values(
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd
    )]
    compression: Compression,
) {
    let options = BatchOptions {
        compression,
        ..BatchOptions::default()
    };
    let mut compressor = Compressor::new();
    for (value, expected) in [(&b"x"[..], Compression::None), (&[b'x'; 5000], compression)] {
        let mut out = BytesMut::new();
        let mut builder = BatchBuilder::new(&mut out, &mut compressor, options);
        builder.append(&text_record(0, value)).unwrap();
        let summary = builder.finish().unwrap();
        assert_eq!(summary.compression, expected);
        let batch = Batches::new(out.freeze()).next().unwrap().unwrap();
        assert_eq!(batch.header().compression, expected);
        assert_eq!(batch.header().attributes.compression_id(), expected.id());
    }
}

#[test]
fn null_and_empty_and_duplicate_headers_are_kept_apart() {
    let headers = [
        Header {
            key: b"a",
            value: None,
        },
        Header {
            key: b"a",
            value: Some(b""),
        },
        Header {
            key: b"",
            value: Some(b"1"),
        },
        Header {
            key: b"\xff\xfe",
            value: Some(b"2"),
        },
        Header {
            key: b"a",
            value: None,
        },
    ];
    let records = [
        Record {
            offset: 0,
            headers: Headers::new(&headers),
            ..Record::default()
        },
        Record {
            offset: 1,
            key: Some(b""),
            value: Some(b""),
            ..Record::default()
        },
    ];
    let mut out = BytesMut::new();
    let mut compressor = Compressor::new();
    let mut builder = BatchBuilder::new(&mut out, &mut compressor, BatchOptions::default());
    for record in &records {
        builder.append(record).unwrap();
    }
    builder.finish().unwrap();

    let batch = Batches::new(out.freeze()).next().unwrap().unwrap();
    let opened = batch.records(&mut Budget::new(0, 2)).unwrap();
    let read: Vec<_> = opened.iter().map(Result::unwrap).collect();
    assert_eq!(read[0].key, None);
    assert_eq!(read[0].value, None);
    assert_eq!(read[0].headers.iter().collect::<Vec<_>>(), headers);
    assert_eq!(read[1].key, Some(&b""[..]));
    assert_eq!(read[1].value, Some(&b""[..]));
    assert!(read[1].headers.is_empty());

    // Shared, not copied: the same bytes under another count.
    let shared = opened.share(read[0].headers.iter().nth(3).unwrap().key);
    assert_eq!(shared, &b"\xff\xfe"[..]);
    assert_eq!(
        shared.as_ptr(),
        read[0].headers.iter().nth(3).unwrap().key.as_ptr()
    );
    assert_eq!(opened.share(b"from elsewhere"), &b"from elsewhere"[..]);
}

#[test]
fn refused_records_leave_the_batch_as_it_was() {
    let mut out = BytesMut::new();
    let mut compressor = Compressor::new();
    let options = BatchOptions {
        base_offset: 10,
        ..BatchOptions::default()
    };
    let mut builder = BatchBuilder::new(&mut out, &mut compressor, options);
    assert_eq!(
        builder.append(&text_record(9, b"before the base")),
        Err(BuildError::OffsetOrder {
            offset: 9,
            previous: 9
        })
    );
    builder.append(&text_record(12, b"a gap first")).unwrap();
    assert_eq!(
        builder.append(&text_record(12, b"twice")),
        Err(BuildError::OffsetOrder {
            offset: 12,
            previous: 12
        })
    );
    let far = 10 + i64::from(i32::MAX) + 1;
    assert_eq!(
        builder.append(&text_record(far, b"too far")),
        Err(BuildError::OffsetDelta)
    );
    let early = Record {
        timestamp: i64::MIN,
        ..text_record(13, b"too early")
    };
    assert_eq!(builder.append(&early), Err(BuildError::TimestampDelta));
    builder
        .append(&text_record(far - 1, b"as far as can be"))
        .unwrap();
    let summary = builder.finish().unwrap();
    assert_eq!(summary.count, 2);
    assert_eq!(summary.last_offset, far - 1);

    let batch = Batches::new(out.freeze()).next().unwrap().unwrap();
    let opened = batch.records(&mut Budget::new(0, 2)).unwrap();
    let offsets: Vec<_> = opened.iter().map(|record| record.unwrap().offset).collect();
    assert_eq!(offsets, [12, far - 1]);
}

#[test]
fn an_empty_or_dropped_builder_leaves_the_buffer_as_it_was() {
    let mut out = BytesMut::from(&b"kept"[..]);
    let mut compressor = Compressor::new();
    let builder = BatchBuilder::new(&mut out, &mut compressor, BatchOptions::default());
    assert_eq!(builder.finish(), Err(BuildError::Empty));
    assert_eq!(out, &b"kept"[..]);

    let mut builder = BatchBuilder::new(&mut out, &mut compressor, BatchOptions::default());
    builder.append(&text_record(0, b"lost")).unwrap();
    drop(builder);
    assert_eq!(out, &b"kept"[..]);
}

#[test]
fn rewriting_the_base_offset_keeps_the_crc() {
    let mut out = BytesMut::new();
    let mut compressor = Compressor::new();
    let mut builder = BatchBuilder::new(&mut out, &mut compressor, BatchOptions::default());
    builder.append(&text_record(0, b"first")).unwrap();
    builder.append(&text_record(5, b"second")).unwrap();
    builder.finish().unwrap();

    let before = out.clone();
    assert!(rewrite_base_offset(&mut out, i64::MAX - 4, 7).is_err());
    assert_eq!(out, before);
    let header = rewrite_base_offset(&mut out, 1000, 7).unwrap();
    assert_eq!(header.last_offset(), 1005);

    let batch = Batches::new(out.freeze()).next().unwrap().unwrap();
    assert_eq!(batch.header(), &header);
    assert_eq!(batch.header().partition_leader_epoch, 7);
    let opened = batch.records(&mut Budget::new(0, 2)).unwrap();
    let offsets: Vec<_> = opened.iter().map(|record| record.unwrap().offset).collect();
    assert_eq!(offsets, [1000, 1005]);
}

#[test]
fn batches_follow_one_another_and_share_the_budget() {
    let mut out = BytesMut::new();
    let mut compressor = Compressor::new();
    for (index, compression) in Compression::ALL.into_iter().enumerate() {
        let options = BatchOptions {
            base_offset: index as i64,
            compression,
            ..BatchOptions::default()
        };
        let mut builder = BatchBuilder::new(&mut out, &mut compressor, options);
        builder
            .append(&text_record(index as i64, &[b'x'; 2000]))
            .unwrap();
        builder.finish().unwrap();
    }
    let mut budget = Budget::new(1 << 20, 5);
    for (index, batch) in Batches::new(out.freeze()).enumerate() {
        let opened = batch.unwrap().records(&mut budget).unwrap();
        let record = opened.iter().next().unwrap().unwrap();
        assert_eq!(record.offset, index as i64);
        assert_eq!(opened.iter().count(), 1);
    }
    assert_eq!(budget.remaining_records(), 0);
    let record_bytes = 2000 + 3 + 14;
    assert!((1 << 20) - budget.remaining_bytes() > 4 * 2000);
    assert!((1 << 20) - budget.remaining_bytes() < 4 * record_bytes);
}

#[rstest]
fn markers_are_control_batches_of_their_own(
    #[values(MarkerKind::Commit, MarkerKind::Abort)] kind: MarkerKind,
) {
    let marker = EndTransactionMarker {
        kind,
        coordinator_epoch: 42,
    };
    let place = MarkerBatch {
        offset: 77,
        partition_leader_epoch: 3,
        timestamp: 1_700_000_000_000,
        producer_id: 9000,
        producer_epoch: 5,
    };
    let mut out = BytesMut::new();
    marker.encode(&place, &mut out).unwrap();
    // 61 of header, and a record of 6 + 4 + 6 bytes behind its length, as Kafka's own.
    assert_eq!(out.len(), 61 + 17);

    let batch = Batches::new(out.freeze()).next().unwrap().unwrap();
    let header = *batch.header();
    assert!(header.attributes.is_control() && header.attributes.is_transactional());
    assert_eq!((header.producer_id, header.producer_epoch), (9000, 5));
    assert_eq!(header.last_sequence(), -1);
    assert!(header.validate_from_client().is_err());
    let opened = batch.records(&mut Budget::new(0, 1)).unwrap();
    let record = opened.iter().next().unwrap().unwrap();
    assert_eq!(record.offset, 77);
    assert_eq!(EndTransactionMarker::parse(&record), Ok(marker));
    let expected = match kind {
        MarkerKind::Commit => ControlRecordType::Commit,
        MarkerKind::Abort => ControlRecordType::Abort,
    };
    assert_eq!(ControlRecordType::parse(record.key), Ok(expected));
}
