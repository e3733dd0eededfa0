//! The walk against frames that kafka-clients wrote, and against everything that is wrong with
//! frames.

use std::convert::Infallible;

use bytes::Bytes;
use kafka_wire::api::ApiKey;
use kafka_wire::header::{RequestHeader, ResponseHeader};
use kafka_wire::schema::{self, Role, RoleSet};
use kafka_wire::walk::{
    self, Limits, Malformed, NoVisitor, Place, Summary, Value, VisitError, Visitor, WalkError,
};
use rstest::rstest;

use super::golden::{self, CLIENT_ID, CORRELATION_ID, Golden, Seen, Side};

/// Sees every value of every field, and its role.
#[derive(Default)]
pub struct Everything(pub Vec<Seen>, pub Vec<Role>);

impl Visitor for Everything {
    type Stop = Infallible;

    fn roles(&self) -> RoleSet {
        RoleSet::of(Role::ALL)
    }

    fn value(&mut self, _: &Place<'_>, value: &Value<'_>) -> Result<(), Infallible> {
        self.0.push(Seen {
            field: value.field.name,
            datum: value.datum.into(),
        });
        self.1.push(value.field.role);
        Ok(())
    }
}

pub fn visit<V: Visitor>(
    golden: &Golden,
    body: &[u8],
    visitor: &mut V,
) -> Result<Summary, VisitError<V::Stop>> {
    match golden.side {
        Side::Blob => walk::visit_blob(golden.message, body, &Limits::DEFAULT, visitor),
        _ => walk::visit(
            golden.message,
            golden.version,
            body,
            &Limits::DEFAULT,
            visitor,
        ),
    }
}

#[test]
fn the_corpus_holds_every_message_in_every_version() {
    let corpus = golden::all();
    for key in ApiKey::ALL {
        for message in [schema::request(*key), schema::response(*key)]
            .into_iter()
            .flatten()
        {
            for version in message.versions.iter() {
                let frames = corpus
                    .iter()
                    .filter(|golden| golden.message.name == message.name)
                    .filter(|golden| golden.version == version)
                    .count();
                assert_eq!(frames, 2, "{} v{version}", message.name);
            }
        }
    }
}

#[test]
fn headers_are_kafkas_for_every_api_and_version() {
    for golden in golden::all() {
        let frame = Bytes::from(golden.frame.clone());
        let body = match golden.side {
            Side::Request => {
                let header = RequestHeader::parse(frame).expect("a header");
                assert_eq!(header.api_key, golden.key);
                assert_eq!(header.api_version, golden.version);
                assert_eq!(header.correlation_id, CORRELATION_ID);
                assert_eq!(header.client_id(), Some(CLIENT_ID));
                header.body
            }
            Side::Response => {
                let header = ResponseHeader::parse(frame, golden.key, golden.version);
                let header = header.expect("a header");
                assert_eq!(header.correlation_id, CORRELATION_ID);
                header.body
            }
            Side::Blob => continue,
        };
        assert_eq!(body, golden.body(), "{}", golden.title());
    }
}

#[test]
fn every_value_that_kafka_wrote_is_read_and_the_frame_ends_there() {
    for golden in golden::all() {
        let mut seen = Everything::default();
        let outcome = visit(&golden, golden.body(), &mut seen);
        outcome.unwrap_or_else(|error| panic!("{}: {error:?}", golden.title()));
        if let Some(content) = &golden.content {
            let wanted = golden::values(golden.message.fields, golden.version, content);
            assert_eq!(seen.0, wanted, "{}", golden.title());
        }
    }
}

#[test]
fn a_frame_cut_at_any_byte_is_refused() {
    for golden in golden::all() {
        let body = golden.body();
        for end in 0..body.len() {
            let outcome = visit(&golden, &body[..end], &mut NoVisitor);
            assert!(outcome.is_err(), "{} cut at {end}", golden.title());
        }
    }
}

/// What librdkafka 2.12.1 sends behind the header to ask for all topics in Metadata 9 to 13: it
/// reserves four bytes for the array's length and keeps them all, where one says null.
pub const ALL_TOPICS_OF_LIBRDKAFKA: &[u8] = &[0, 0, 0, 0, 0, 0, 0];

#[test]
fn what_a_client_leaves_behind_the_end_is_told() {
    for version in 9..=13 {
        let walk =
            |limits| walk::request(ApiKey::METADATA, version, ALL_TOPICS_OF_LIBRDKAFKA, limits);
        // Versions 9 and 10 have one more flag.
        let left = if version <= 10 { 2 } else { 3 };
        assert_eq!(
            walk(&Limits::DEFAULT).unwrap_err().malformed(),
            Some(Malformed::Trailing(left))
        );
        assert_eq!(
            walk(&Limits::CLIENT).map(|seen| seen.trailing_bytes),
            Ok(left)
        );
    }
}

#[test]
fn a_byte_behind_the_end_is_refused() {
    for golden in golden::all()
        .into_iter()
        .filter(|golden| golden.side != Side::Blob)
    {
        let body = [golden.body(), &[0]].concat();
        match visit(&golden, &body, &mut NoVisitor) {
            Err(VisitError::Walk(error)) => {
                assert_eq!(error.malformed(), Some(Malformed::Trailing(1)), "{error}")
            }
            other => panic!("{}: {other:?}", golden.title()),
        }
    }
}

#[test]
fn no_byte_that_is_changed_makes_it_panic() {
    for golden in golden::all() {
        let mut body = golden.body().to_vec();
        for at in 0..body.len() {
            let was = body[at];
            for hostile in [0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff] {
                body[at] = hostile;
                let mut seen = Everything::default();
                let _ = visit(&golden, &body, &mut seen);
                // Nothing is seen that the frame does not hold: every value takes a byte.
                assert!(seen.0.len() <= body.len());
            }
            body[at] = was;
        }
    }
}

fn refusal(key: ApiKey, version: i16, body: &[u8]) -> Malformed {
    match walk::request(key, version, body, &Limits::DEFAULT) {
        Err(WalkError::Malformed { what, .. }) => what,
        other => panic!("{other:?}"),
    }
}

#[rstest]
// Metadata v1: an array of topic names.
#[case::array_of_two_thousand_million(
    ApiKey::METADATA, 1, &[0x7f, 0xff, 0xff, 0xff],
    Malformed::Truncated { needed: 0x7fff_ffff, left: 0 }
)]
#[case::array_of_minus_two(
    ApiKey::METADATA, 1, &[0xff, 0xff, 0xff, 0xfe], Malformed::NegativeLength(-2)
)]
#[case::null_array_in_a_version_without(
    ApiKey::METADATA, 0, &[0xff, 0xff, 0xff, 0xff], Malformed::Null
)]
#[case::string_longer_than_the_frame(
    ApiKey::METADATA, 1, &[0, 0, 0, 1, 0x7f, 0xff, b'a'],
    Malformed::Truncated { needed: 0x7fff, left: 1 }
)]
#[case::null_string_in_a_version_without(
    ApiKey::METADATA, 1, &[0, 0, 0, 1, 0xff, 0xff], Malformed::Null
)]
#[case::string_of_minus_three(
    ApiKey::METADATA, 1, &[0, 0, 0, 1, 0xff, 0xfd], Malformed::NegativeLength(-3)
)]
#[case::string_that_is_not_utf8(
    ApiKey::METADATA, 1, &[0, 0, 0, 1, 0, 2, 0xc3, 0x28], Malformed::NotUtf8
)]
// Metadata v9: compact.
#[case::compact_array_of_four_thousand_million(
    ApiKey::METADATA, 9, &[0xff, 0xff, 0xff, 0xff, 0x0f],
    Malformed::Truncated { needed: 0xffff_fffe, left: 0 }
)]
#[case::varint_of_six_bytes(
    ApiKey::METADATA, 9, &[0x80, 0x80, 0x80, 0x80, 0x80, 0x01], Malformed::VarintTooLong
)]
#[case::varint_of_33_bits(
    ApiKey::METADATA, 9, &[0xff, 0xff, 0xff, 0xff, 0x7f], Malformed::VarintTooLong
)]
#[case::compact_string_above_kafkas_limit(
    ApiKey::METADATA, 9, &[2, 0x81, 0x80, 0x02], Malformed::StringTooLong(0x8000)
)]
#[case::two_tags_of_one_number(
    ApiKey::METADATA, 9, &[1, 0, 0, 0, 2, 7, 0, 7, 0],
    Malformed::TagOrder { tag: 7, previous: 7 }
)]
#[case::tags_that_descend(
    ApiKey::METADATA, 9, &[1, 0, 0, 0, 2, 9, 0, 7, 0],
    Malformed::TagOrder { tag: 7, previous: 9 }
)]
#[case::unknown_tag_larger_than_the_frame(
    ApiKey::METADATA, 9, &[1, 0, 0, 0, 1, 7, 0xff, 0xff, 0xff, 0xff, 0x07],
    Malformed::Truncated { needed: 0x7fff_ffff, left: 0 }
)]
#[case::more_tags_than_bytes(
    ApiKey::METADATA, 9, &[1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f],
    Malformed::Truncated { needed: 1, left: 0 }
)]
// DescribeTopicPartitions v0: topics, limit, nullable cursor.
#[case::presence_byte_of_two(
    ApiKey::DESCRIBE_TOPIC_PARTITIONS, 0, &[1, 0, 0, 0, 1, 2], Malformed::PresenceByte(2)
)]
fn what_is_wrong_is_named(
    #[case] key: ApiKey,
    #[case] version: i16,
    #[case] body: &[u8],
    #[case] what: Malformed,
) {
    assert_eq!(refusal(key, version, body), what);
}

/// Fetch v12 up to its tagged fields, then `tags`.
fn fetch_v12(tags: &[u8]) -> Vec<u8> {
    // replica, wait, min, max bytes, isolation, session, epoch, no topics, none forgotten, no rack
    let mut body = vec![0; 4 + 4 + 4 + 4 + 1 + 4 + 4];
    body.extend([1, 1, 1]);
    body.extend(tags);
    body
}

#[test]
fn known_tags_have_the_size_they_declare_and_the_version_they_belong_to() {
    // Tag 0, the cluster id "abc".
    let good = fetch_v12(&[1, 0, 4, 4, b'a', b'b', b'c']);
    assert_eq!(
        walk::request(ApiKey::FETCH, 12, &good, &Limits::DEFAULT),
        Ok(Summary {
            elements: 0,
            trailing_bytes: 0
        })
    );
    let long = fetch_v12(&[1, 0, 5, 4, b'a', b'b', b'c', 0]);
    assert_eq!(
        refusal(ApiKey::FETCH, 12, &long),
        Malformed::TagSize {
            declared: 5,
            actual: 4
        }
    );
    let short = fetch_v12(&[1, 0, 3, 4, b'a', b'b', b'c']);
    assert_eq!(
        refusal(ApiKey::FETCH, 12, &short),
        Malformed::TagSize {
            declared: 3,
            actual: 4
        }
    );
    // Tag 1 came with version 15.
    let early = fetch_v12(&[1, 1, 1, 0]);
    assert_eq!(refusal(ApiKey::FETCH, 12, &early), Malformed::TagVersion(1));
}

#[test]
fn elements_and_unknown_tags_are_counted_against_the_limit() {
    let limits = Limits {
        max_elements: 3,
        ..Limits::DEFAULT
    };
    let topics = |count: u8| {
        let mut body = vec![0, 0, 0, count];
        body.extend([0, 1, b'a'].repeat(count.into()));
        body
    };
    let walked = |count| walk::request(ApiKey::METADATA, 1, &topics(count), &limits);
    assert_eq!(
        walked(3),
        Ok(Summary {
            elements: 3,
            trailing_bytes: 0
        })
    );
    assert_eq!(
        walked(4).unwrap_err().malformed(),
        Some(Malformed::TooManyElements(3))
    );
    let tagged = |count: u8| {
        let mut body = vec![1, 0, 0, 0, count];
        body.extend((0..count).flat_map(|tag| [tag, 0]));
        walk::request(ApiKey::METADATA, 9, &body, &limits)
    };
    assert_eq!(
        tagged(3),
        Ok(Summary {
            elements: 3,
            trailing_bytes: 0
        })
    );
    assert_eq!(
        tagged(4).unwrap_err().malformed(),
        Some(Malformed::TooManyElements(3))
    );
}

#[test]
fn a_fault_is_placed_by_byte_and_field() {
    // Produce v3: transactional id null, acks, timeout, one topic "t", one partition, null index.
    let mut body = vec![
        0xff, 0xff, 0, 1, 0, 0, 0, 9, 0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1,
    ];
    body.extend([0, 0, 0, 0, 0, 0, 0, 5, 1, 2]);
    let error = walk::request(ApiKey::PRODUCE, 3, &body, &Limits::DEFAULT).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ProduceRequest v3, byte 27 in TopicData.PartitionData.Records: \
         ends inside a value: 5 bytes needed, 2 left"
    );
    let error = walk::request(ApiKey::PRODUCE, 2, &body, &Limits::DEFAULT).unwrap_err();
    assert_eq!(error.to_string(), "ProduceRequest has no version 2: 3-13");
    let error = walk::request(ApiKey(4), 0, &body, &Limits::DEFAULT).unwrap_err();
    assert_eq!(
        error.to_string(),
        "LeaderAndIsr(4) is not an API of Kafka 4.4"
    );
}

#[test]
fn blobs_newer_than_the_newest_are_read_as_the_newest_and_keep_their_rest() {
    let walked = |blob: &[u8]| {
        walk::visit_blob(
            schema::CONSUMER_PROTOCOL_ASSIGNMENT,
            blob,
            &Limits::DEFAULT,
            &mut Everything::default(),
        )
    };
    let known = [0, 3, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
    assert!(walked(&known).is_ok());
    assert!(walked(&[&[0, 9], &known[2..], b"rest"].concat()).is_ok());
    assert!(walked(&[&[0xff, 0xff], &known[2..]].concat()).is_err());
    assert!(walked(&[0]).is_err());
}

#[test]
fn a_run_of_numbers_that_is_cut_names_the_one_it_is_cut_in() {
    // Produce v3: transactional id null, acks, then half a timeout.
    let error = walk::request(
        ApiKey::PRODUCE,
        3,
        &[0xff, 0xff, 0, 1, 0, 0],
        &Limits::DEFAULT,
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "ProduceRequest v3, byte 4 in TimeoutMs: ends inside a value: 4 bytes needed, 2 left"
    );
}
