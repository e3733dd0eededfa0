//! Whatever goes wrong, the answer is one that its version can say: every request that Kafka's own
//! classes wrote, in every served version, against a Queen that fails in each of its ways.

use std::time::Duration;

use bytes::Bytes;
use kafka_wire::ApiKey;
use kafka_wire::header::{RequestHeader, response_header_version};
use kafka_wire::walk::{self, Limits};
use rstest::rstest;

use super::dispatch;
use crate::config::Config;
use crate::context::{Answer, Reply};
use crate::scripted_queen::{Fault, ScriptedQueen, node, request};
use crate::windows::WINDOWS;

#[derive(serde::Deserialize)]
struct Golden {
    message: String,
    variant: String,
    frame: String,
}

/// Frames of requests inside the windows, and their count of APIs and versions.
fn served() -> Vec<(ApiKey, i16, String, Bytes)> {
    let mut served = Vec::new();
    for (key, window) in WINDOWS.iter() {
        let file = format!("frames/{}.jsonl", key.name().expect("a known API"));
        let golden: Vec<Golden> = fixtures::lines(&file).expect("the fixture");
        let requests = golden.iter().filter(|g| g.message.ends_with("Request"));
        for golden in requests {
            let frame = base64_simd::STANDARD.decode_to_vec(&golden.frame);
            let frame = Bytes::from(frame.expect("base64"));
            let version = RequestHeader::parse(frame.clone())
                .expect("a header")
                .api_version;
            if window.contains(version) {
                served.push((key, version, golden.variant.clone(), frame));
            }
        }
    }
    served
}

/// What the frame of an answer holds behind its header.
fn body(key: ApiKey, version: i16, frame: &Bytes) -> Bytes {
    let header = 8 + usize::from(response_header_version(key, version) >= 1);
    frame.slice(header..)
}

#[rstest]
#[case::works(None, |_: &mut Config| {})]
#[case::administration_is_off(None, |config: &mut Config| config.admin = false)]
#[case::creates_nothing(None, |config: &mut Config| config.auto_create = false)]
#[case::refuses(Some(Fault::Status(400)), |_: &mut Config| {})]
#[case::knows_no_credential(Some(Fault::Status(401)), |_: &mut Config| {})]
#[case::forbids(Some(Fault::Status(403)), |_: &mut Config| {})]
#[case::has_no_such_route(Some(Fault::Status(404)), |_: &mut Config| {})]
#[case::finds_it_too_large(Some(Fault::Status(413)), |_: &mut Config| {})]
#[case::throttles(Some(Fault::Throttled(30)), |_: &mut Config| {})]
#[case::fails(Some(Fault::Status(500)), |_: &mut Config| {})]
#[case::is_away(Some(Fault::Status(503)), |_: &mut Config| {})]
#[case::loses_its_answer(Some(Fault::LostAfter), |_: &mut Config| {})]
#[tokio::test(start_paused = true)]
async fn every_answer_fits_its_version(
    #[case] fault: Option<Fault>,
    #[case] change: fn(&mut Config),
) {
    let mut unsaid = Vec::new();
    for (key, version, variant, frame) in served() {
        let queen = ScriptedQueen::start();
        let (node, _stop) = node(&queen, change);
        if let Some(fault) = fault.clone() {
            queen.break_down(fault);
        }
        let cx = request(&node, version);
        let asked = RequestHeader::parse(frame).expect("a header");
        let answered = async {
            match dispatch(&cx, asked).await {
                Ok(Reply::Now(answer)) => Ok(answer),
                Ok(Reply::Later(answer)) => Ok(answer.await),
                Err(refusal) => Err(refusal),
            }
        };
        let patience = Duration::from_secs(3600);
        let answered = tokio::time::timeout(patience, answered).await;
        let wrong = match answered.expect("an answer in time") {
            Ok(Answer::Send(frame)) => {
                let body = body(key, version, &frame);
                let walked = walk::response(key, version, &body, &Limits::CLIENT);
                walked.err().map(|error| error.to_string())
            }
            Ok(Answer::Silence) => None,
            Ok(Answer::Close(why)) => {
                // Of the answers only a Produce's without acks may be its connection's end.
                (key != ApiKey::PRODUCE).then(|| why.to_owned())
            }
            Err(refusal) => Some(refusal.to_string()),
        };
        unsaid.extend(wrong.map(|why| format!("{key} {version} {variant}: {why}")));
    }
    assert!(unsaid.is_empty(), "{unsaid:#?}");
}

#[test]
fn every_served_version_is_among_the_requests() {
    let served = served();
    for (key, window) in WINDOWS.iter() {
        for version in window.iter() {
            let has = served.iter().any(|of| (of.0, of.1) == (key, version));
            assert!(has, "{key} {version} is not asked");
        }
    }
}
