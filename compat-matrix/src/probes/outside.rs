//! What no client may ask for: versions outside a window, keys that are not advertised. Kafka has no
//! words for these; it closes the connection.

use std::time::Duration;

use kafka_wire::ApiKey;
use kafka_wire::header::put_request_header;
use kafka_wire::schema;
use reports::{Exchange, Frame, Received, Window};

use super::id_of;
use super::probe::CLIENT_ID;
use crate::cx::{Cx, api_name};
use crate::spec::{Spec, Stop, Verdict, WIRE};
use crate::wire::codec::encode;
use crate::wire::{ANSWER_WITHIN, Connection, Reply};

/// Keys that are asked about. All that Kafka defines, and as many that it does not.
const KEYS: std::ops::Range<i16> = 0..128;

/// Versions just outside the window, and at the ends of what a version can be.
pub(super) fn window(window: &Window) -> Spec {
    let key = ApiKey(window.key);
    let mut versions = vec![window.max.saturating_add(1), i16::MAX, -1, i16::MIN];
    if window.min > 0 {
        versions.push(window.min - 1);
    }
    Spec::new(
        format!("{}/outside-window", id_of(key)),
        format!(
            "{key} outside v{}–v{} closes the connection",
            window.min, window.max
        ),
        WIRE,
        move |cx| {
            let versions = versions.clone();
            async move {
                for version in versions {
                    if key == ApiKey::API_VERSIONS {
                        unsupported_api_versions(&cx, version).await?;
                    } else {
                        closes(&cx, key, version, &body(key, version)).await?;
                    }
                }
                Ok(())
            }
        },
    )
    .apis([key])
    .kips([35])
}

/// A version that is advertised although the schema has dropped it: Produce 0 to 2, which Kafka 4
/// advertises because an old client takes their absence for a broker without compression
/// (KAFKA-18659), and closes when used.
pub(super) fn retired(key: ApiKey, version: i16) -> Spec {
    Spec::new(
        format!("{}/v{version}/retired", id_of(key)),
        format!("{key} v{version} is advertised for old clients' sake and closes the connection"),
        WIRE,
        move |cx| async move {
            cx.record.seen(key, version);
            closes(&cx, key, version, &[0; 12]).await
        },
    )
    .apis([key])
    .kips([896])
}

/// Every key that is not advertised.
pub(super) fn keys(advertised: &[Window]) -> Vec<Spec> {
    KEYS.filter(|key| !advertised.iter().any(|window| window.key == *key))
        .map(|number| {
            let key = ApiKey(number);
            Spec::new(
                format!("wire/key-{number:03}/unadvertised"),
                format!(
                    "{} is not advertised and closes the connection",
                    api_name(key)
                ),
                WIRE,
                move |cx| async move {
                    let newest = schema::request(key).map_or(0, |request| request.versions.max);
                    for version in [0, newest] {
                        closes(&cx, key, version, &body(key, version)).await?;
                    }
                    Ok(())
                },
            )
            .apis([key])
        })
        .collect()
}

/// A body of neutral values where the schema knows the version, else nothing.
fn body(key: ApiKey, version: i16) -> Vec<u8> {
    schema::request(key)
        .and_then(|request| encode(request, version, &serde_json::json!({})).ok())
        .map(|encoded| encoded.body)
        .unwrap_or_default()
}

/// Sends one request on a connection of its own and demands that the connection is closed.
async fn closes(cx: &Cx, key: ApiKey, version: i16, body: &[u8]) -> Verdict {
    let mut request = Vec::new();
    put_request_header(&mut request, key, version, 7, Some(CLIENT_ID));
    request.extend(body);
    let reply = send(cx, &request).await?;
    let verdict = match &reply {
        Reply::Closed(_) => Ok(()),
        Reply::Frame(_) => Err(Stop::refused(
            format!("{key} v{version} was answered"),
            "answered",
        )),
        Reply::Silence => Err(Stop::fail(format!(
            "{key} v{version}: neither an answer nor a close within {} s",
            ANSWER_WITHIN.as_secs()
        ))),
    };
    record(cx, &format!("{key} v{version}"), &request, reply);
    verdict
}

/// ApiVersions is the exception (KIP-511): a version that the server does not know is answered in
/// version 0, with code 35 and the server's own window of ApiVersions, so that the client can ask
/// again; the connection stays.
async fn unsupported_api_versions(cx: &Cx, version: i16) -> Verdict {
    let mut request = Vec::new();
    put_request_header(
        &mut request,
        ApiKey::API_VERSIONS,
        version,
        7,
        Some(CLIENT_ID),
    );
    let reply = send(cx, &request).await?;
    let verdict = match &reply {
        Reply::Frame(frame) => match frame.get(..6) {
            Some([0, 0, 0, 7, 0, 35]) if lists_itself(&frame[6..]) => Ok(()),
            _ => Err(Stop::fail(format!(
                "v{version}: not a version 0 answer with UNSUPPORTED_VERSION and the window of ApiVersions"
            ))),
        },
        Reply::Closed(how) => Err(Stop::refused(format!("v{version}: {how}"), "closed")),
        Reply::Silence => Err(Stop::fail(format!("v{version}: no answer"))),
    };
    record(cx, &format!("ApiVersions v{version}"), &request, reply);
    verdict
}

/// Whether a version 0 array of windows holds that of ApiVersions (key 18).
fn lists_itself(array: &[u8]) -> bool {
    let Some((count, windows)) = array.split_at_checked(4) else {
        return false;
    };
    windows.len() == 6 * usize::from(count[3]) && windows.chunks(6).any(|w| w[..2] == [0, 18])
}

async fn send(cx: &Cx, request: &[u8]) -> Result<Reply, Stop> {
    let mut connection = Connection::open(cx.bootstrap())
        .await
        .map_err(|error| Stop::fail(format!("cannot connect: {error}")))?;
    connection
        .send(request)
        .await
        .map_err(|error| Stop::fail(format!("cannot send: {error}")))?;
    Ok(connection
        .reply(ANSWER_WITHIN + Duration::from_secs(1))
        .await)
}

fn record(cx: &Cx, what: &str, request: &[u8], reply: Reply) {
    cx.record.exchange(Exchange {
        what: what.to_owned(),
        sent: Frame::new(request, None),
        received: match reply {
            Reply::Frame(frame) => Received::Frame(Frame::new(&frame, None)),
            Reply::Closed(how) => Received::Closed(how),
            Reply::Silence => Received::Nothing("neither an answer nor a close".into()),
        },
        after_ms: 0,
    });
}
