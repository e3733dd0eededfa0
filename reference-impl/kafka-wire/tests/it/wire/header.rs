//! Headers where they are not what the golden frames show: unknown keys, versions nobody knows, the
//! one request without a client id, and what a client writes.

use bytes::Bytes;
use kafka_wire::api::ApiKey;
use kafka_wire::header::{
    RequestHeader, put_request_header, put_response_header, request_header_version,
    response_header_version,
};
use kafka_wire::schema;
use kafka_wire::walk::Malformed;
use rstest::rstest;

fn request(key: i16, version: i16, rest: &[u8]) -> Vec<u8> {
    [
        &key.to_be_bytes()[..],
        &version.to_be_bytes(),
        &[0, 0, 0, 9],
        rest,
    ]
    .concat()
}

#[test]
fn an_unknown_key_is_read_up_to_its_client_id() {
    let frame = request(9999, 77, &[0, 1, b'c', 5, 6]);
    let header = RequestHeader::parse(frame.into()).expect("a header");
    assert_eq!((header.api_key, header.api_version), (ApiKey(9999), 77));
    assert_eq!((header.correlation_id, header.client_id()), (9, Some("c")));
    assert_eq!(&header.body[..], [5, 6]);
}

#[test]
fn a_version_above_the_newest_has_the_header_of_the_newest() {
    // A client newer than we are asks for ApiVersions: it must hear what we have.
    let frame = request(18, 99, &[0xff, 0xff, 0, 7]);
    let header = RequestHeader::parse(frame.into()).expect("a header");
    assert_eq!((header.api_version, header.client_id()), (99, None));
    assert_eq!(&header.body[..], [7]);
}

#[test]
fn controlled_shutdown_v0_alone_has_no_client_id() {
    let header = RequestHeader::parse(request(7, 0, &[1, 2]).into()).expect("a header");
    assert_eq!((header.client_id(), &header.body[..]), (None, &[1, 2][..]));
    assert_eq!(request_header_version(ApiKey::CONTROLLED_SHUTDOWN, 1), 1);
}

#[rstest]
#[case::client_id_longer_than_the_frame(3, 1, &[0x7f, 0xff, b'c'], Malformed::Truncated { needed: 0x7fff, left: 1 })]
#[case::client_id_of_minus_two(3, 1, &[0xff, 0xfe], Malformed::NegativeLength(-2))]
#[case::client_id_that_is_not_utf8(3, 1, &[0, 1, 0xff], Malformed::NotUtf8)]
#[case::tags_that_descend(3, 9, &[0, 0, 2, 5, 0, 4, 0], Malformed::TagOrder { tag: 4, previous: 5 })]
#[case::tag_larger_than_the_frame(3, 9, &[0, 0, 1, 5, 0x7f], Malformed::Truncated { needed: 0x7f, left: 0 })]
fn what_is_wrong_is_named(
    #[case] key: i16,
    #[case] version: i16,
    #[case] rest: &[u8],
    #[case] what: Malformed,
) {
    let fault = RequestHeader::parse(request(key, version, rest).into());
    assert_eq!(fault.expect_err("malformed").what, what);
}

#[test]
fn what_a_client_writes_is_read_back() {
    for key in ApiKey::ALL.iter().copied() {
        let Some(message) = schema::request(key) else {
            continue;
        };
        for version in message.versions.iter() {
            for client_id in [None, Some(""), Some("gölden")] {
                let mut frame = Vec::new();
                put_request_header(&mut frame, key, version, 42, client_id);
                frame.extend([1, 2, 3]);
                let header = RequestHeader::parse(Bytes::from(frame)).expect("a header");
                assert_eq!((header.api_key, header.api_version), (key, version));
                assert_eq!((header.correlation_id, header.client_id()), (42, client_id));
                assert_eq!(&header.body[..], [1, 2, 3]);
            }
        }
    }
}

#[test]
fn a_client_id_too_long_to_say_is_cut_at_a_character() {
    let long = "é".repeat(20_000);
    let mut frame = Vec::new();
    put_request_header(&mut frame, ApiKey::METADATA, 1, 0, Some(&long));
    let header = RequestHeader::parse(frame.into()).expect("a header");
    assert_eq!(header.client_id().map(str::len), Some(32_766));
}

#[test]
fn answers_to_api_versions_never_have_a_flexible_header() {
    for version in 0..=5 {
        assert_eq!(response_header_version(ApiKey::API_VERSIONS, version), 0);
        let mut header = Vec::new();
        put_response_header(&mut header, ApiKey::API_VERSIONS, version, 7);
        assert_eq!(header, [0, 0, 0, 7]);
    }
    let mut header = Vec::new();
    put_response_header(&mut header, ApiKey::METADATA, 9, 7);
    assert_eq!(header, [0, 0, 0, 7, 0]);
}

#[test]
fn keys_and_messages_have_one_name() {
    for key in ApiKey::ALL.iter().copied() {
        let name = key.name().expect("known");
        for (message, side) in [
            (schema::request(key), "Request"),
            (schema::response(key), "Response"),
        ] {
            let Some(message) = message else {
                // Removed with ZooKeeper.
                assert!((4..=7).contains(&key.0), "{key}");
                continue;
            };
            assert_eq!(message.name, format!("{name}{side}"));
        }
    }
}
