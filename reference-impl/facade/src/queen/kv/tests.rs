use super::*;
use rstest::rstest;
use serde_json::json;

fn operations(batch: &Batch) -> serde_json::Value {
    let text = format!("[{}]", std::str::from_utf8(&batch.json).expect("UTF-8"));
    serde_json::from_str(&text).expect("JSON")
}

fn sample() -> Batch {
    let mut batch = Batch::new();
    let held = Expect::Version(Version::new(9_007_199_254_740_993));
    batch
        .put(
            "qk:a",
            &json!({"x": 1}),
            Expiry::Forever,
            held,
            OnLoss::RollBack,
        )
        .expect("fits");
    batch
        .put(
            "qk:b",
            &json!(null),
            Expiry::After(Duration::from_millis(200)),
            Expect::Absent,
            OnLoss::Skip,
        )
        .expect("fits");
    batch
        .delete("qk:c", Expect::Any, OnLoss::Skip)
        .expect("fits");
    batch.get_many(&["qk:a", "qk:d", "qk:e"]).expect("fits");
    batch
        .get_prefix("qk:group:", Some("qk:group:x"), 5000, true)
        .expect("fits");
    batch
}

#[test]
fn a_batch_is_what_the_contract_says() {
    assert_eq!(
        operations(&sample()),
        json!([
            {"op": "put", "ns": "queen-kafka", "key": "qk:a", "value": {"x": 1}, "forever": true,
             "expect": 9_007_199_254_740_993_u64, "required": true},
            {"op": "put", "ns": "queen-kafka", "key": "qk:b", "value": null, "ttlSeconds": 1, "expect": 0},
            {"op": "delete", "ns": "queen-kafka", "key": "qk:c"},
            {"op": "getMany", "ns": "queen-kafka", "keys": ["qk:a", "qk:d", "qk:e"]},
            {"op": "getPrefix", "ns": "queen-kafka", "prefix": "qk:group:", "after": "qk:group:x",
             "limit": 1000, "keysOnly": true},
        ])
    );
}

#[test]
fn what_no_call_may_carry_is_refused_and_leaves_no_trace() {
    let mut batch = Batch::new();
    batch.put_forever("qk:a", &1).expect("fits");
    let before = operations(&batch);
    let long = format!("qk:{}", "x".repeat(MAX_KEY_BYTES));
    assert_eq!(batch.put_forever("other", &1), Err(BatchError::ForeignKey));
    assert_eq!(batch.put_forever(&long, &1), Err(BatchError::KeyTooLong));
    assert_eq!(batch.put_forever("qk:a", &2), Err(BatchError::WrittenTwice));
    assert_eq!(
        batch.put_forever("qk:b", &"x".repeat(MAX_VALUE_BYTES)),
        Err(BatchError::BadValue)
    );
    assert_eq!(batch.get_many(&["qk:x", "y"]), Err(BatchError::ForeignKey));
    assert_eq!(
        batch.get_prefix("", None, 1, false),
        Err(BatchError::ForeignKey)
    );
    let keys: Vec<String> = (0..MAX_KEYS).map(|n| format!("qk:{n}")).collect();
    assert_eq!(batch.get_many(&keys), Err(BatchError::Full));
    assert_eq!(operations(&batch), before);
}

#[test]
fn a_batch_is_full_at_its_limit() {
    let mut batch = Batch::new();
    for n in 0..MAX_OPERATIONS {
        assert!(batch.has_room());
        batch.put_forever(&format!("qk:{n}"), &n).expect("fits");
    }
    assert!(!batch.has_room());
    assert_eq!(batch.put_forever("qk:more", &0), Err(BatchError::Full));
}

#[test]
fn results_keep_their_order_and_what_was_not_read() {
    let answer = json!({"results": [
        {"index": 0, "op": "put", "applied": true, "key": "qk:a", "value": {"x": 1}, "version": 9_007_199_254_740_995_u64},
        {"index": 1, "op": "put", "applied": false, "reason": "exists", "value": {"who": "other"}, "version": 7},
        {"index": 2, "op": "delete", "applied": false, "reason": "absent", "value": null, "version": 0},
        {"index": 3, "op": "getMany", "rows": [{"key": "qk:a", "value": {"x": 1}, "version": 3, "expiresAt": null, "updatedAt": "…"}],
         "missing": ["qk:e"], "truncated": true},
        {"index": 4, "op": "getPrefix", "rows": [{"key": "qk:group:y", "version": 4}], "truncated": true, "nextAfter": "qk:group:y"},
    ]});
    let outcome =
        answer::parse_outcome(answer.to_string().as_bytes(), &sample()).expect("readable");
    let Outcome::Done(results) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(matches!(
        results[0],
        OpResult::Applied(Version(9_007_199_254_740_995))
    ));
    let OpResult::Lost(Loss::Exists, winner) = &results[1] else {
        panic!("{:?}", results[1]);
    };
    assert_eq!(winner.version, Some(Version(7)));
    assert_eq!(
        winner.value::<serde_json::Value>(),
        Some(json!({"who": "other"}))
    );
    let OpResult::Lost(Loss::Absent, winner) = &results[2] else {
        panic!("{:?}", results[2]);
    };
    assert_eq!(winner.version, None);
    let OpResult::Rows {
        rows,
        missing,
        unread,
    } = &results[3]
    else {
        panic!("{:?}", results[3]);
    };
    assert_eq!(
        (rows.len(), missing.as_slice(), unread.as_slice()),
        (
            1,
            ["qk:e".to_owned()].as_slice(),
            ["qk:d".to_owned()].as_slice()
        )
    );
    let OpResult::Page { rows, next_after } = &results[4] else {
        panic!("{:?}", results[4]);
    };
    assert_eq!(
        (rows[0].json(), next_after.as_deref()),
        ("null", Some("qk:group:y"))
    );
}

#[rstest]
#[case::whole(r#"{"ok":false,"reason":"kv_precondition","failedIndex":0,"kvReason":"version","version":5,"value":{"n":1}}"#, Some(0), Loss::Version, Some(5))]
#[case::cut(r#"{"ok":false,"reason":"kv_precondition"}"#, None, Loss::Other, None)]
#[case::absent(r#"{"ok":false,"reason":"kv_precondition","failedIndex":0,"kvReason":"absent","version":0,"value":null}"#, Some(0), Loss::Absent, None)]
fn a_lost_requirement_is_its_own_outcome(
    #[case] answer: &str,
    #[case] operation: Option<usize>,
    #[case] loss: Loss,
    #[case] version: Option<u64>,
) {
    let outcome = answer::parse_outcome(answer.as_bytes(), &sample()).expect("readable");
    let Outcome::Precondition(lost) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(
        (
            lost.operation,
            lost.loss,
            lost.winner.version.map(Version::number)
        ),
        (operation, loss, version)
    );
}

#[rstest]
#[case::no_results("{}")]
#[case::too_few(r#"{"results":[]}"#)]
#[case::other_failure(r#"{"ok":false,"reason":"else"}"#)]
#[case::not_json("nope")]
#[case::fractional_version(r#"{"results":[{"index":0,"op":"put","applied":true,"version":1.5}]}"#)]
#[case::silent_write(r#"{"results":[{"index":0,"op":"put"}]}"#)]
#[case::other_op(r#"{"results":[{"index":0,"op":"delete","applied":true,"version":1}]}"#)]
#[case::other_index(r#"{"results":[{"index":1,"op":"put","applied":true,"version":1}]}"#)]
fn anything_else_is_unreadable(#[case] answer: &str) {
    let mut batch = Batch::new();
    batch.put_forever("qk:a", &1).expect("fits");
    let error = answer::parse_outcome(answer.as_bytes(), &batch).expect_err("unreadable");
    assert!(matches!(error, Error::Unreadable(_)), "{error}");
}

#[rstest]
#[case("orders", "orders")]
#[case("a.b_c-9", "a.b_c-9")]
#[case("a:b c", "a%3Ab%20c")]
#[case("é%", "%C3%A9%25")]
#[case("", "")]
fn escaping_is_reversible(#[case] plain: &str, #[case] escaped: &str) {
    assert_eq!(escape(plain), escaped);
    assert_eq!(unescape(escaped), plain);
    assert_eq!(unescape(&escaped.to_lowercase()), plain.to_lowercase());
}

#[rstest]
#[case("%", "%")]
#[case("a%2", "a%2")]
#[case("%zz", "%zz")]
#[case("%+1", "%+1")]
#[case("%ff", "%ff")]
fn malformed_escapes_stay(#[case] text: &str, #[case] same: &str) {
    assert_eq!(unescape(text), same);
}
