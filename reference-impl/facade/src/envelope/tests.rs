use super::*;
use proptest::prelude::*;
use rstest::rstest;

/// A record with everything owned, as a test wants to compare it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owned {
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    timestamp_ms: Option<i64>,
    headers: Vec<(String, Option<Vec<u8>>)>,
}

fn decode(payload: &str) -> Owned {
    let (mut arena, mut headers) = (b"before".to_vec(), Vec::new());
    let decoded = read(payload, &mut arena, &mut headers);
    assert_eq!(headers.len(), decoded.header_count);
    let bytes = |span: Option<Span>| span.map(|span| span.of(&arena).to_vec());
    Owned {
        key: bytes(decoded.key),
        value: bytes(decoded.value),
        timestamp_ms: decoded.timestamp_ms,
        headers: headers
            .iter()
            .map(|header| {
                let name = String::from_utf8(header.name.of(&arena).to_vec()).expect("UTF-8");
                (name, bytes(header.value))
            })
            .collect(),
    }
}

fn encode(record: &Owned) -> String {
    let mut out = Vec::new();
    write(
        &mut out,
        RecordParts {
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            timestamp_ms: record.timestamp_ms.unwrap_or(-1),
        },
        record
            .headers
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_deref())),
    )
    .expect("names are UTF-8");
    String::from_utf8(out).expect("JSON is UTF-8")
}

fn native(text: &str) -> Owned {
    Owned {
        key: None,
        value: Some(text.as_bytes().to_vec()),
        timestamp_ms: None,
        headers: Vec::new(),
    }
}

proptest! {
    #[test]
    fn a_record_comes_back_as_it_went(
        key in any::<Option<Vec<u8>>>(),
        value in any::<Option<Vec<u8>>>(),
        timestamp_ms in proptest::option::of(0..i64::MAX),
        headers in proptest::collection::vec(any::<(String, Option<Vec<u8>>)>(), 0..4),
    ) {
        let record = Owned { key, value, timestamp_ms, headers };
        let text = encode(&record);
        prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
        prop_assert_eq!(decode(&text), record);
    }

    /// The short way reads what it takes exactly as JSON reads it: white space ahead shuts it out.
    #[test]
    fn both_ways_of_reading_agree(
        parts in proptest::collection::vec(
            proptest::sample::select(vec![
                "{\"k\":", ",\"t\":", ",\"v\":", "null", "\"\"", "\"YQ==\"", "\"YQ\"", "\"\\/\\/\\/\\/\"",
                "\"a", "\"", "0", "01", "-0", "-1", "+1", "12", "1e3", "9223372036854775807",
                "9223372036854775808", "}", " ", ",", "\u{e9}",
            ]),
            0..8,
        ),
    ) {
        let text = parts.concat();
        prop_assert_eq!(decode(&text), decode(&format!(" {text}")));
    }

    /// As above, of what begins as an envelope does.
    #[test]
    fn both_ways_of_reading_envelopes_agree(
        key in proptest::sample::select(vec!["null", "\"\"", "\"YQ==\"", "\"Y\"", "\"\\u0059Q==\"", "1"]),
        time in proptest::sample::select(vec![
            "", ",\"t\":0", ",\"t\":7", ",\"t\":07", ",\"t\":-7", ",\"t\":-0", ",\"t\":+7", ",\"t\":7.0",
            ",\"t\":9223372036854775807", ",\"t\":9223372036854775808", ",\"t\":", ",\"t\":null",
        ]),
        value in proptest::sample::select(vec!["null", "\"\"", "\"AAAA\"", "\"AAA=\"", "\"AAB=\"", "\"A=A=\"", "nul"]),
        end in proptest::sample::select(vec!["}", "", "}}", "} ", ",\"x\":1}", ",\"h\":[]}"]),
    ) {
        let text = format!("{{\"k\":{key}{time},\"v\":{value}{end}");
        prop_assert_eq!(decode(&text), decode(&format!(" {text}")));
    }

    #[test]
    fn no_payload_panics(text in ".{0,64}") {
        decode(&text);
    }
}

#[rstest]
#[case::array("[1,2,3]")]
#[case::string("\"text\"")]
#[case::null("null")]
#[case::empty_object("{}")]
#[case::no_value(r#"{"k":null}"#)]
#[case::no_key(r#"{"v":"YQ=="}"#)]
#[case::other_key(r#"{"k":null,"v":null,"x":1}"#)]
#[case::twice(r#"{"k":null,"v":null,"v":null}"#)]
#[case::number_value(r#"{"k":null,"v":1}"#)]
#[case::not_base64(r#"{"k":null,"v":"~~~~"}"#)]
#[case::no_padding(r#"{"k":null,"v":"YQ"}"#)]
#[case::url_alphabet(r#"{"k":null,"v":"-_-_"}"#)]
#[case::white_space_in_base64(r#"{"k":null,"v":"YW Jj"}"#)]
#[case::fractional_time(r#"{"k":null,"t":1.5,"v":null}"#)]
#[case::null_time(r#"{"k":null,"t":null,"v":null}"#)]
#[case::string_time(r#"{"k":null,"t":"1","v":null}"#)]
#[case::time_beyond_i64(r#"{"k":null,"t":9223372036854775808,"v":null}"#)]
#[case::null_headers(r#"{"h":null,"k":null,"v":null}"#)]
#[case::header_not_object(r#"{"h":["a"],"k":null,"v":null}"#)]
#[case::header_without_value(r#"{"h":[{"k":"a"}],"k":null,"v":null}"#)]
#[case::header_with_more(r#"{"h":[{"k":"a","v":null,"z":0}],"k":null,"v":null}"#)]
#[case::header_null_name(r#"{"h":[{"k":null,"v":null}],"k":null,"v":null}"#)]
#[case::header_name_twice(r#"{"h":[{"k":"a","k":"a","v":null}],"k":null,"v":null}"#)]
#[case::nested(r#"{"k":{"k":null},"v":null}"#)]
fn anything_else_is_native(#[case] text: &str) {
    assert_eq!(decode(text), native(text));
}

#[rstest]
#[case::other_order(r#"{"v":"YQ==","k":null}"#)]
#[case::white_space("{ \"k\" : null ,\n \"v\" : \"YQ==\" }")]
#[case::escaped(r#"{"k":null,"v":"\u0059Q=="}"#)]
#[case::escaped_name(r#"{"\u006b":null,"v":"YQ=="}"#)]
fn json_spelling_does_not_matter(#[case] text: &str) {
    assert_eq!(
        decode(text),
        Owned {
            value: Some(b"a".to_vec()),
            ..native("")
        }
    );
}

#[test]
fn a_slash_may_be_escaped() {
    assert_eq!(
        decode(r#"{"k":null,"v":"\/\/\/\/"}"#).value,
        Some(vec![0xff; 3])
    );
}

#[test]
fn null_and_empty_stay_apart() {
    let text = r#"{"h":[{"k":"","v":""},{"k":"","v":null}],"k":"","v":null}"#;
    let record = decode(text);
    assert_eq!(record.key, Some(Vec::new()));
    assert_eq!(record.value, None);
    assert_eq!(
        record.headers,
        [(String::new(), Some(Vec::new())), (String::new(), None)]
    );
}

#[test]
fn a_header_name_that_is_not_utf8_leaves_no_trace() {
    let mut out = b"kept".to_vec();
    let refused = write(
        &mut out,
        RecordParts::default(),
        [(b"ok".as_slice(), None), (b"\xff".as_slice(), None)],
    );
    assert_eq!(
        (refused, out.as_slice()),
        (Err(HeaderNameNotUtf8), b"kept".as_slice())
    );
}

/// A golden record, bytes in hex.
#[derive(serde::Deserialize)]
struct Golden {
    name: String,
    record: GoldenRecord,
    payload: String,
}

#[derive(serde::Deserialize)]
struct GoldenRecord {
    key_hex: Option<String>,
    value_hex: Option<String>,
    timestamp_ms: Option<i64>,
    headers: Vec<(String, Option<String>)>,
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex"))
        .collect()
}

#[test]
fn golden_envelopes_are_written_and_read_to_the_byte() {
    let golden: Vec<Golden> = fixtures::json("envelopes/records.json").expect("the fixture");
    for golden in golden {
        let record = Owned {
            key: golden.record.key_hex.as_deref().map(unhex),
            value: golden.record.value_hex.as_deref().map(unhex),
            timestamp_ms: golden.record.timestamp_ms,
            headers: golden
                .record
                .headers
                .into_iter()
                .map(|(name, value)| (name, value.as_deref().map(unhex)))
                .collect(),
        };
        assert_eq!(encode(&record), golden.payload, "{}", golden.name);
        assert_eq!(decode(&golden.payload), record, "{}", golden.name);
    }
}

#[test]
fn golden_native_payloads_are_served_as_their_text() {
    let payloads: Vec<String> = fixtures::json("envelopes/native.json").expect("the fixture");
    for payload in payloads {
        assert_eq!(decode(&payload), native(&payload));
    }
}
