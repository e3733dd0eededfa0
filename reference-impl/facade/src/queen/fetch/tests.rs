use super::*;
use rstest::rstest;

const ENTRIES: [FetchEntry<'static>; 2] = [
    FetchEntry {
        queue: "orders",
        partition: 3,
        offset: 42,
        max_bytes: 1000,
    },
    FetchEntry {
        queue: "b\"b",
        partition: 0,
        offset: BOUNDS_PROBE,
        max_bytes: 1,
    },
];

fn parsed(answer: &str) -> Result<Fetched, Error> {
    parse(
        &Bytes::copy_from_slice(answer.as_bytes()),
        Echo::of(&ENTRIES),
    )
}

#[test]
fn a_request_is_what_the_contract_says() {
    let body = request(&ENTRIES, Duration::from_millis(500), 7);
    let body: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(
        body,
        serde_json::json!({"entries": [
            {"queue": "orders", "partition": "3", "offset": 42, "maxBytes": 1000},
            {"queue": "b\"b", "partition": "0", "offset": i64::MAX, "maxBytes": 1},
        ], "maxWaitMs": 500, "minBytes": 7})
    );
}

#[test]
fn an_answer_is_read_lane_by_lane() {
    let answer = r#"{"entries":[
        {"queue":"orders","partition":"3","records":[
            {"offset":42,"transactionId":"t","payload":{"h":[{"k":"a","v":"eA=="},{"k":"a","v":null}],"k":"aw==","t":17,"v":"dg=="},"ts":"2026-09-11T08:30:15.123999Z"},
            {"offset":44,"transactionId":"t","payload":{"native": [1, 2]},"ts":"2026-09-11T08:30:15.123999Z"},
            {"offset":45,"payload":null}],
         "highWatermark":46,"logStartOffset":7},
        {"queue":"b\"b","partition":"0","records":[],"highWatermark":9007199254740993,"logStartOffset":2,"error":"OFFSET_OUT_OF_RANGE"}]}"#;
    let fetched = parsed(answer).expect("readable");
    let lane = fetched.lane(0).expect("asked for");
    assert_eq!(
        (
            lane.status(),
            lane.high_watermark(),
            lane.log_start_offset()
        ),
        (LaneStatus::Ok, 46, 7)
    );
    let records: Vec<_> = lane.records().collect();
    assert_eq!(records[0].offset(), 42);
    assert_eq!(records[0].timestamp_ms(), 17);
    assert_eq!(records[0].append_ms(), 1_789_115_415_123);
    assert_eq!(records[0].key(), Some(b"k".as_slice()));
    assert_eq!(records[0].value(), Some(b"v".as_slice()));
    let headers: Vec<_> = records[0].headers().collect();
    assert_eq!(
        headers,
        [
            (b"a".as_slice(), Some(b"x".as_slice())),
            (b"a".as_slice(), None)
        ]
    );
    assert_eq!(records[1].value(), Some(b"{\"native\": [1, 2]}".as_slice()));
    assert_eq!(records[1].timestamp_ms(), 1_789_115_415_123);
    assert_eq!(records[1].headers().len(), 0);
    assert_eq!(records[2].value(), Some(b"null".as_slice()));
    assert_eq!(records[2].timestamp_ms(), -1);
    let probed = fetched.lane(1).expect("asked for");
    assert_eq!(probed.status(), LaneStatus::OffsetOutOfRange);
    assert_eq!(probed.high_watermark(), 9_007_199_254_740_993);
    assert_eq!(probed.records().len(), 0);
    assert!(fetched.lane(2).is_none());
}

#[rstest]
#[case::unknown("UNKNOWN_TOPIC_OR_PARTITION", LaneStatus::Unknown)]
#[case::range("OFFSET_OUT_OF_RANGE", LaneStatus::OffsetOutOfRange)]
#[case::other("SOMETHING_NEW", LaneStatus::Failed)]
fn an_entry_has_its_own_error(#[case] error: &str, #[case] status: LaneStatus) {
    assert_eq!(lane_status(Some(error)), status);
}

const SECOND: &str =
    r#"{"queue":"b\"b","partition":"0","records":[],"highWatermark":0,"logStartOffset":0}"#;

#[rstest]
#[case::no_entries("{}")]
#[case::array("[]")]
#[case::missing_entry(r#"{"entries":[{"queue":"orders","partition":"3","records":[],"highWatermark":0,"logStartOffset":0}]}"#)]
#[case::other_queue(r#"{"entries":[{"queue":"other","partition":"3","records":[],"highWatermark":0,"logStartOffset":0},SECOND]}"#)]
#[case::other_partition(r#"{"entries":[{"queue":"orders","partition":"4","records":[],"highWatermark":0,"logStartOffset":0},SECOND]}"#)]
#[case::extra_entry(r#"{"entries":[{"queue":"orders","partition":"3","records":[],"highWatermark":0,"logStartOffset":0},SECOND,SECOND]}"#)]
#[case::no_bounds(r#"{"entries":[{"queue":"orders","partition":"3","records":[]},SECOND]}"#)]
#[case::no_offset(r#"{"entries":[{"queue":"orders","partition":"3","records":[{"payload":1}],"highWatermark":0,"logStartOffset":0},SECOND]}"#)]
#[case::descending(r#"{"entries":[{"queue":"orders","partition":"3","records":[{"offset":2,"payload":1},{"offset":2,"payload":1}],"highWatermark":0,"logStartOffset":0},SECOND]}"#)]
#[case::offset_beyond_i64(r#"{"entries":[{"queue":"orders","partition":"3","records":[{"offset":9223372036854775808,"payload":1}],"highWatermark":0,"logStartOffset":0},SECOND]}"#)]
#[case::truncated(r#"{"entries":[{"queue":"orders","#)]
fn anything_else_is_unreadable(#[case] answer: &str) {
    let answer = answer.replace("SECOND", SECOND);
    let error = parsed(&answer).expect_err("unreadable");
    assert!(matches!(error, Error::Unreadable(_)), "{error}");
}
