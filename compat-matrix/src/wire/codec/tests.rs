//! The codec against itself and against `kafka-protocol`.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{MetadataResponse, metadata_response};
use kafka_protocol::protocol::{Encodable as _, StrBytes};
use kafka_wire::{ApiKey, schema};
use rstest::rstest;
use serde_json::json;

use super::{Value, compare, decode, encode, encode_with_tag};

fn metadata(version: i16) -> Bytes {
    let mut partition = metadata_response::MetadataResponsePartition::default()
        .with_partition_index(1)
        .with_replica_nodes(vec![0.into()]);
    if version >= 7 {
        partition = partition.with_leader_epoch(-1);
    }
    let mut topic = metadata_response::MetadataResponseTopic::default()
        .with_error_code(3)
        .with_name(Some(StrBytes::from_static_str("t").into()))
        .with_partitions(vec![partition]);
    if version >= 8 {
        topic = topic.with_topic_authorized_operations(i32::MIN);
    }
    let mut out = BytesMut::new();
    MetadataResponse::default()
        .with_topics(vec![topic])
        .encode(&mut out, version)
        .unwrap();
    out.freeze()
}

#[rstest]
fn a_typed_response_decodes_to_its_fields(#[values(1, 5, 8, 9, 12)] version: i16) {
    let message = schema::response(ApiKey::METADATA).unwrap();
    let value = decode(message, version, &metadata(version)).unwrap();
    assert_eq!(value.get("Topics[0].ErrorCode"), Some(&Value::Code(3)));
    assert_eq!(
        value.get("Topics[0].Partitions[0].ReplicaNodes[0]"),
        Some(&Value::Int(0))
    );
    compare(
        message,
        version,
        &json!({
            "ThrottleTimeMs": 0,
            "Brokers": [],
            "Topics": [{
                "ErrorCode": "UNKNOWN_TOPIC_OR_PARTITION",
                "Name": "t",
                "Partitions": {"<count>": 1, "<each>": {"PartitionIndex": "<at least 1>"}},
            }],
        }),
        &value,
    )
    .unwrap();
}

#[rstest]
fn no_cut_of_a_response_decodes(#[values(1, 9)] version: i16) {
    let message = schema::response(ApiKey::METADATA).unwrap();
    let body = metadata(version);
    for cut in 0..body.len() {
        assert!(decode(message, version, &body.slice(..cut)).is_err());
    }
    let mut longer = BytesMut::from(&body[..]);
    longer.extend_from_slice(&[0]);
    assert!(decode(message, version, &longer.freeze()).is_err());
}

#[rstest]
#[case(json!({"Topics": [{"ErrorCode": "NONE"}]}), "Topics[0].ErrorCode", "NONE")]
#[case(json!({"Topics": []}), "Topics", "0 elements")]
#[case(json!({"Topics": [{"Name": "u"}]}), "Topics[0].Name", "u")]
#[case(json!({"Topics": {"<each>": {"Name": "u"}}}), "Topics[0].Name", "u")]
#[case(json!({"Topics": {"<some>": {"Name": "u"}}}), "Topics", "some element")]
#[case(json!({"Topics": {"<some>": {"Naem": "u"}}}), "Topics.Naem", "a field of the schema")]
#[case(json!({"Topics": {"<count>": 2}}), "Topics", "2 elements")]
#[case(json!({"Topics": {"<cuont>": 2}}), "Topics", "a word")]
#[case(json!({"ControllerId": "<at least 1>"}), "ControllerId", "<at least 1>")]
#[case(json!({"ClusterId": "<not null>"}), "ClusterId", "<not null>")]
#[case(json!({"ClusterId": "<sometimes>"}), "ClusterId", "a word")]
#[case(json!({"Misspelt": 1}), "Misspelt", "a field of the schema")]
fn the_first_difference_is_named(
    #[case] expected: serde_json::Value,
    #[case] path: &str,
    #[case] wanted: &str,
) {
    let message = schema::response(ApiKey::METADATA).unwrap();
    let value = decode(message, 9, &metadata(9)).unwrap();
    let difference = compare(message, 9, &expected, &value).unwrap_err();
    assert_eq!(difference.path, path);
    assert!(difference.expected.contains(wanted), "{difference}");
}

#[test]
fn one_expectation_serves_versions_that_lack_a_field() {
    let message = schema::response(ApiKey::METADATA).unwrap();
    // ClusterId came with version 2.
    let value = decode(message, 1, &metadata(1)).unwrap();
    compare(message, 1, &json!({"ClusterId": "kafka"}), &value).unwrap();
}

/// Every request of every version can be written with neutral values, is walked to its end, and reads
/// back as what was written.
#[test]
fn neutral_requests_of_every_api_and_version_are_well_formed() {
    for key in ApiKey::ALL {
        let Some(message) = schema::request(*key) else {
            continue;
        };
        for version in message.versions.iter() {
            let encoded = encode(message, version, &json!({})).unwrap();
            kafka_wire::walk::request(*key, version, &encoded.body, &Default::default())
                .unwrap_or_else(|error| panic!("{key} v{version}: {error}"));
            decode(message, version, &encoded.body.clone().into()).unwrap();
            for mark in &encoded.marks {
                let lie = encoded.with_huge(*mark);
                let walked = kafka_wire::walk::request(*key, version, &lie, &Default::default());
                assert!(walked.is_err(), "{key} v{version} {mark:?}");
            }
            if message.flexible.contains(version) {
                let tagged = encode_with_tag(message, version, &json!({}), Some((9_999, b"x")));
                let body = tagged.unwrap().body;
                kafka_wire::walk::request(*key, version, &body, &Default::default()).unwrap();
            }
        }
    }
}

#[rstest]
#[case(json!({"Topics": [{"Naem": "x"}]}), "Topics[0]: MetadataRequestTopic has no field Naem")]
#[case(json!({"Topics": "x"}), "Topics: \"x\" is not a array")]
#[case(json!({"Topics": [{"Name": 5}]}), "Topics[0].Name: 5 is not a String")]
#[case(json!([]), "[] is not a MetadataRequest")]
fn mistakes_of_a_probe_are_told(#[case] json: serde_json::Value, #[case] words: &str) {
    let message = schema::request(ApiKey::METADATA).unwrap();
    let error = encode(message, 9, &json).unwrap_err();
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn a_request_reads_back_as_it_was_written() {
    let message = schema::request(ApiKey::METADATA).unwrap();
    let json = json!({"Topics": [{"Name": "é", "TopicId": "_____________________w"}], "AllowAutoTopicCreation": true});
    let body = encode(message, 12, &json).unwrap().body.into();
    compare(message, 12, &json, &decode(message, 12, &body).unwrap()).unwrap();
    let none = encode(message, 12, &json!({"Topics": null}))
        .unwrap()
        .body
        .into();
    let none = decode(message, 12, &none).unwrap();
    assert_eq!(none.get("Topics"), Some(&Value::Null));
}
