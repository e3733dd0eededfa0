//! Probes against servers that are wrong: each fault must be caught, by name.

use std::sync::Arc;

use reports::Outcome;
use serde_json::json;

use super::specs;
use crate::cx::Cx;
use crate::expectations::Expectations;
use crate::runner;
use crate::target::{Kind, Target};
use crate::testing::{Answer, response, serve};
use crate::wire::{Access, advertised};

/// Runs one probe against a server.
async fn run(id: &str, answer: Answer) -> reports::Check {
    let address = Access::plain(serve(answer).await);
    let windows = advertised(&address).await.unwrap();
    let target = Target::start(Kind::Bootstrap(address)).await.unwrap();
    let cx = Cx::new(Arc::new(target), "test");
    let specs: Vec<_> = specs(&windows)
        .into_iter()
        .filter(|spec| spec.id == id)
        .collect();
    assert_eq!(specs.len(), 1, "{id}");
    runner::run(&cx, &specs, &Expectations::default(), &|_| {})
        .await
        .remove(0)
}

fn good(request: &[u8]) -> Option<Vec<u8>> {
    response(
        request,
        json!({
            "Brokers": [{"NodeId": 1, "Host": "h", "Port": 9092}],
            "ClusterId": "c",
            "Topics": [],
        }),
    )
}

#[tokio::test]
async fn what_is_right_passes_with_its_frames_as_evidence() {
    let check = run("wire/metadata/v9/no-topics", good).await;
    assert_eq!((check.outcome, check.reason), (Outcome::Pass, None));
    assert_eq!(check.apis[0].versions, [9]);
    let exchange = &check.evidence.exchanges[0];
    assert_eq!(exchange.what, "Metadata v9");
    let reports::Received::Frame(frame) = &exchange.received else {
        panic!("{exchange:?}");
    };
    assert!(
        frame
            .decoded
            .as_ref()
            .unwrap()
            .json()
            .contains("\"Host\":\"h\"")
    );
}

/// A wrong server, and the words that must name what is wrong with it.
const FAULTS: [(Answer, &str); 7] = [
    (
        |request| {
            response(
                request,
                json!({"Brokers": [{"NodeId": 1, "Host": "", "Port": 9092}]}),
            )
        },
        "Brokers[0].Host: expected <not empty>, got ",
    ),
    (
        |request| response(request, json!({"Topics": [{"ErrorCode": 89}]})),
        "Topics[0].ErrorCode is THROTTLING_QUOTA_EXCEEDED, for which clients of Metadata are not prepared",
    ),
    (
        |request| changed(request, |frame| frame[3] ^= 0x40),
        "correlation id",
    ),
    (
        |request| changed(request, |frame| frame.push(0)),
        "1 bytes follow the end of the message",
    ),
    (
        |request| changed(request, |frame| frame.truncate(frame.len() - 1)),
        "is malformed",
    ),
    (|_| Some(vec![0, 0]), "malformed header"),
    (|_| None, "Metadata v9: closed"),
];

fn changed(request: &[u8], change: fn(&mut Vec<u8>)) -> Option<Vec<u8>> {
    let mut frame = good(request)?;
    change(&mut frame);
    Some(frame)
}

#[tokio::test]
async fn each_fault_is_caught() {
    for (answer, words) in FAULTS {
        let check = run("wire/metadata/v9/no-topics", answer).await;
        assert_eq!(
            (check.outcome, check.expected),
            (Outcome::Fail, false),
            "{words}"
        );
        assert!(check.reason.as_ref().unwrap().contains(words), "{check:?}");
    }
}

#[tokio::test]
async fn a_server_that_answers_what_it_must_close_is_caught() {
    for id in [
        "wire/metadata/v9/truncated",
        "wire/metadata/v1/huge-lengths",
        "wire/metadata/outside-window",
        "wire/key-000/unadvertised",
    ] {
        let check = run(id, |request| Some(request.to_vec())).await;
        assert_eq!(check.outcome, Outcome::Fail, "{id}: {check:?}");
    }
}

#[tokio::test]
async fn a_server_that_closes_what_it_must_close_passes() {
    for id in ["wire/metadata/v9/truncated", "wire/key-000/unadvertised"] {
        let check = run(id, |_| None).await;
        assert_eq!(check.outcome, Outcome::Pass, "{id}: {check:?}");
    }
}

#[tokio::test]
async fn api_versions_outside_its_window_must_say_so_in_version_0() {
    let check = run("wire/api-versions/outside-window", |request| {
        let mut answer = request[4..8].to_vec();
        answer.extend([0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4]);
        Some(answer)
    })
    .await;
    assert_eq!(check.outcome, Outcome::Pass, "{check:?}");
    let check = run("wire/api-versions/outside-window", |_| None).await;
    assert_eq!(check.outcome, Outcome::Fail, "{check:?}");
}
