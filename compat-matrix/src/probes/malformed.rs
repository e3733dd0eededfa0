//! What every API must survive in every version: cuts, surplus bytes, lies about lengths, tags and
//! client ids it does not expect.

use std::collections::BTreeSet;
use std::sync::Arc;

use kafka_wire::header::put_request_header;
use kafka_wire::{ApiKey, schema};
use reports::{Exchange, Frame, Received, Window};
use serde_json::Value as Json;

use super::case::Api;
use super::id_of;
use super::probe::{CLIENT_ID, Probe, read};
use crate::cx::Cx;
use crate::spec::{Spec, Stop, Verdict, WIRE};
use crate::wire::codec::{Encoded, encode, encode_with_tag};
use crate::wire::{ANSWER_WITHIN, Access, Connection, Reply};

/// A tag that no version of any message uses.
const UNUSED_TAG: u32 = 9_999;
/// Lengths that are lied about, per request.
const LIES: usize = 6;

/// The checks of one API in one version.
pub(super) fn specs(api: &Api, version: i16, advertised: &[Window]) -> Vec<Spec> {
    let (key, sample, legal) = (api.key, api.sample, api.legal);
    let advertised: Arc<[Window]> = advertised.into();
    let spec = |name: &str, title: &str| {
        (
            format!("{}/v{version}/{name}", id_of(key)),
            format!("{key} v{version} {title}"),
        )
    };
    let (id, title) = spec("truncated", "cut short closes the connection");
    let mut specs = vec![
        Spec::new(id, title, WIRE, move |cx| {
            truncated(cx, key, version, sample())
        })
        .apis([key]),
    ];
    if parts(key, version, &sample()).is_ok_and(|(_, body)| !body.marks.is_empty()) {
        let (id, title) = spec(
            "huge-lengths",
            "with a length beyond the frame closes the connection",
        );
        specs.push(
            Spec::new(id, title, WIRE, move |cx| {
                huge_lengths(cx, key, version, sample())
            })
            .apis([key]),
        );
    }
    let (id, title) = spec(
        "surplus",
        "with bytes behind its end is answered without them, or closes the connection",
    );
    specs.push(
        Spec::new(id, title, WIRE, move |cx| {
            surplus(cx, key, version, sample())
        })
        .apis([key]),
    );
    if schema::request(key).is_some_and(|request| request.flexible.contains(version)) {
        let (id, title) = spec(
            "unknown-tag",
            "with tagged fields nobody knows is answered as without",
        );
        specs.push(
            Spec::new(id, title, WIRE, move |cx| {
                let probe = Probe::new(cx, key, version, legal, Arc::clone(&advertised));
                unknown_tag(probe, sample())
            })
            .apis([key])
            .kips([482]),
        );
    }
    specs
}

/// Cut in its header, behind its header, in the middle, and before its last byte.
async fn truncated(cx: Cx, key: ApiKey, version: i16, sample: Json) -> Verdict {
    let (header, body) = parts(key, version, &sample)?;
    let whole = [header.as_slice(), &body.body].concat();
    let cuts: BTreeSet<usize> = [
        3,
        9,
        header.len(),
        header.len() + body.body.len() / 2,
        whole.len() - 1,
    ]
    .into_iter()
    .filter(|cut| *cut < whole.len())
    .collect();
    for cut in cuts {
        must_close(
            &cx,
            key,
            version,
            &format!("cut at byte {cut} of {}", whole.len()),
            &whole[..cut],
        )
        .await?;
    }
    still_serves(&cx).await
}

/// Lengths and counts of 2^31 - 1 elements or 32,767 bytes with nothing behind them.
async fn huge_lengths(cx: Cx, key: ApiKey, version: i16, sample: Json) -> Verdict {
    let (header, body) = parts(key, version, &sample)?;
    let step = body.marks.len().div_ceil(LIES);
    for mark in body.marks.iter().step_by(step) {
        let lie = [header.clone(), body.with_huge(*mark)].concat();
        let what = format!("a huge length at byte {} of the body", mark.at);
        must_close(&cx, key, version, &what, &lie).await?;
    }
    still_serves(&cx).await
}

/// Apache Kafka reads what it knows and ignores the rest; a stricter server may close. Both are
/// judged: an answer must be well-formed.
async fn surplus(cx: Cx, key: ApiKey, version: i16, sample: Json) -> Verdict {
    let (header, body) = parts(key, version, &sample)?;
    let whole = [header.as_slice(), &body.body, b"surplus"].concat();
    cx.record.seen(key, version);
    let reply = send(&cx, &whole).await?;
    let verdict = match &reply {
        Reply::Closed(_) => {
            cx.record.fact("surplus", "closed");
            Ok(())
        }
        Reply::Frame(frame) => {
            cx.record.fact("surplus", "ignored");
            read(key, version, CORRELATION, frame.clone()).map(|_| ())
        }
        Reply::Silence => Err(Stop::fail("neither an answer nor a close")),
    };
    record(
        &cx,
        format!("{key} v{version}, 7 surplus bytes"),
        &whole,
        reply,
    );
    verdict?;
    still_serves(&cx).await
}

async fn unknown_tag(probe: Probe, sample: Json) -> Verdict {
    let (key, version) = (probe.key, probe.version);
    let plain = probe.ask(sample.clone()).await?;
    let message = schema::request(key).ok_or_else(|| Stop::fail("no schema"))?;
    let body = encode_with_tag(message, version, &sample, Some((UNUSED_TAG, b"unknown")))
        .map_err(|error| Stop::fail(format!("the probe is wrong: {error}")))?;
    let mut request = Vec::new();
    put_request_header(&mut request, key, version, CORRELATION, Some(CLIENT_ID));
    // The header's own tags end it: one tag, 9,999, of three bytes.
    request.pop();
    request.extend([1, 0x8f, 0x4e, 3]);
    request.extend(b"tag");
    request.extend(&body.body);
    let mut connection = open(&probe.bootstrap.at(&probe.route().await)).await?;
    connection
        .send(&request)
        .await
        .map_err(|error| Stop::fail(format!("cannot send: {error}")))?;
    let reply = connection.reply(ANSWER_WITHIN).await;
    let (received, answer) = probe.judge(key, version, CORRELATION, reply);
    probe.cx.record.exchange(Exchange {
        what: format!("{key} v{version}, with unknown tags"),
        sent: Frame::new(&request, None),
        received,
        after_ms: 0,
    });
    let codes = |codes: Vec<(String, i16)>| {
        codes
            .into_iter()
            .map(|(_, code)| code)
            .collect::<BTreeSet<_>>()
    };
    crate::spec::expect_eq(
        "error codes with and without tags",
        &codes(plain.value.codes()),
        &codes(answer?.value.codes()),
    )
}

const CORRELATION: i32 = 7;

fn parts(key: ApiKey, version: i16, sample: &Json) -> Result<(Vec<u8>, Encoded), Stop> {
    let message = schema::request(key).ok_or_else(|| Stop::fail("no schema"))?;
    let body = encode(message, version, sample)
        .map_err(|error| Stop::fail(format!("the probe is wrong: {error}")))?;
    let mut header = Vec::new();
    put_request_header(&mut header, key, version, CORRELATION, Some(CLIENT_ID));
    Ok((header, body))
}

async fn must_close(cx: &Cx, key: ApiKey, version: i16, what: &str, request: &[u8]) -> Verdict {
    cx.record.seen(key, version);
    let reply = send(cx, request).await?;
    let verdict = match &reply {
        Reply::Closed(_) => Ok(()),
        Reply::Frame(_) => Err(Stop::fail(format!("{what}: it was answered"))),
        Reply::Silence => Err(Stop::fail(format!("{what}: neither an answer nor a close"))),
    };
    record(cx, format!("{key} v{version}, {what}"), request, reply);
    verdict
}

async fn open(address: &Access) -> Result<Connection, Stop> {
    Connection::open(address)
        .await
        .map_err(|error| Stop::fail(format!("cannot connect: {error}")))
}

async fn send(cx: &Cx, request: &[u8]) -> Result<Reply, Stop> {
    let mut connection = open(cx.bootstrap()).await?;
    connection
        .send(request)
        .await
        .map_err(|error| Stop::fail(format!("cannot send: {error}")))?;
    Ok(connection.reply(ANSWER_WITHIN).await)
}

/// A request that must be closed must hurt nobody else.
async fn still_serves(cx: &Cx) -> Verdict {
    Connection::ask_api_versions(cx.bootstrap())
        .await
        .map_err(|why| {
            Stop::fail(format!(
                "after that, the server did not answer others: {why}"
            ))
        })
}

fn record(cx: &Cx, what: String, request: &[u8], reply: Reply) {
    cx.record.exchange(Exchange {
        what,
        sent: Frame::new(request, None),
        received: match reply {
            Reply::Frame(frame) => Received::Frame(Frame::new(&frame, None)),
            Reply::Closed(how) => Received::Closed(how),
            Reply::Silence => Received::Nothing("neither an answer nor a close".into()),
        },
        after_ms: 0,
    });
}
