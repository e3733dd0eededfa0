//! Those who have not proved who they are.

use std::time::Duration;

use futures::future::join_all;
use kafka_wire::header::put_request_header;
use kafka_wire::{ApiKey, ErrorCode};
use tokio::time::sleep;

use super::{CLOSES_WITHIN, failed, is_served, stranger};
use crate::bad_input::{Honest, Watch};
use crate::cx::Cx;
use crate::spec::{Lane, Spec, Stop, Verdict, WIRE, ensure, expect_eq};
use crate::wire::{Access, AuthenticateError, Connection, Reply, handshake_frame, plain_frame};

/// ApiVersions v0, correlation id 7, client id "nobody".
const API_VERSIONS: &[u8] = b"\x00\x12\x00\x00\x00\x00\x00\x07\x00\x06nobody";
/// The head of a TLS record that says it holds 512 bytes of a handshake, of which one comes.
const HALF_A_HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01";
/// How many come at once. More than the node lets in.
const CROWD: usize = 300;
/// What they may cost, in KiB.
const MAY_COST_KIB: u64 = 64 * 1024;
/// How long the node of the check about time waits for a stranger.
const AUTH_TIME_OUT: Duration = Duration::from_secs(2);

pub(super) fn specs() -> Vec<Spec> {
    vec![
        Spec::new(
            "secure/plaintext-to-the-tls-port",
            "Who speaks plaintext to the TLS port is closed, and others don't notice",
            WIRE,
            plaintext,
        )
        .apis([ApiKey::API_VERSIONS])
        .lane(Lane::OwnNode)
        .within(Duration::from_secs(40)),
        Spec::new(
            "secure/handshakes-that-never-end",
            "Three hundred TLS handshakes that never end are ended, and who is known is served",
            WIRE,
            |cx| never_ending(cx, false),
        )
        .lane(Lane::OwnNode)
        .within(Duration::from_secs(40)),
        Spec::new(
            "secure/authentications-that-never-come",
            "Three hundred strangers who say nothing are closed, and who is known is served",
            WIRE,
            |cx| never_ending(cx, true),
        )
        .lane(Lane::OwnNode)
        .within(Duration::from_secs(40)),
        Spec::new(
            "secure/unauthenticated-flood",
            "Three hundred strangers who ask at once are closed unanswered, for a bounded amount of memory",
            WIRE,
            flood,
        )
        .apis([ApiKey::METADATA])
        .lane(Lane::OwnNode)
        .within(Duration::from_secs(40)),
        Spec::new(
            "secure/strangers-get-nothing",
            "A stranger may negotiate and authenticate; every other API closes the connection",
            WIRE,
            nothing,
        )
        .within(Duration::from_secs(40)),
        Spec::new(
            "secure/large-frame-of-a-stranger",
            "A stranger's frame of 1 MiB is closed by its length",
            WIRE,
            large_frame,
        ),
        Spec::new(
            "secure/authentication-in-pieces",
            "An authentication that comes one byte at a time is one",
            WIRE,
            in_pieces,
        )
        .apis([ApiKey::SASL_HANDSHAKE, ApiKey::SASL_AUTHENTICATE]),
        Spec::new(
            "secure/wrong-token",
            "A token that Queen does not know is SASL_AUTHENTICATION_FAILED, then a close, and is not repeated",
            WIRE,
            wrong_token,
        )
        .apis([ApiKey::SASL_AUTHENTICATE]),
    ]
}

async fn bare(server: &Access) -> Result<Connection, Stop> {
    Connection::open_bare(server)
        .await
        .map_err(failed("cannot connect"))
}

async fn must_close(connection: &mut Connection, what: &str) -> Verdict {
    let read = connection.read_to_end(CLOSES_WITHIN).await;
    ensure(read.closed, || format!("{what} is not closed"))
}

async fn plaintext(cx: Cx) -> Verdict {
    const EACH: usize = 50;
    let node = cx.own_node(&[]).await?;
    let honest = Honest::start(node.bootstrap()).await?;
    for _ in 0..EACH {
        let mut connection = bare(node.bootstrap()).await?;
        // A server that closes while it is still being written to is right.
        let _ = connection.send(API_VERSIONS).await;
        must_close(&mut connection, "plaintext").await?;
    }
    honest.was_well(&cx).await
}

/// Strangers that stop before their handshake has ended, or before their authentication has begun.
async fn never_ending(cx: Cx, shake_hands: bool) -> Verdict {
    let limit = AUTH_TIME_OUT.as_millis().to_string();
    let node = cx
        .own_node(&[("QUEEN_KAFKA_AUTH_TIMEOUT_MS", &limit)])
        .await?;
    let honest = Honest::start(node.bootstrap()).await?;
    let watch = Watch::start(&node).await?;
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        if shake_hands {
            // The node may have its fill of strangers.
            crowd.extend(
                Connection::open_unauthenticated(node.bootstrap())
                    .await
                    .ok(),
            );
        } else {
            let mut connection = bare(node.bootstrap()).await?;
            let _ = connection.send_raw(HALF_A_HELLO).await;
            crowd.push(connection);
        }
    }
    cx.record.fact("strangers", crowd.len());
    ensure(crowd.len() > 50, || "hardly a stranger got in".into())?;
    let closed = join_all(crowd.iter_mut().map(|one| one.read_to_end(CLOSES_WITHIN))).await;
    let open = closed.iter().filter(|read| !read.closed).count();
    ensure(open == 0, || {
        format!("{open} of {} strangers may stay", closed.len())
    })?;
    let mut new = Connection::open(node.bootstrap())
        .await
        .map_err(failed("nobody is let in behind the strangers"))?;
    ensure(is_served(&mut new).await?, || {
        "nobody is served behind the strangers".into()
    })?;
    watch.grew_at_most(&cx, &node, MAY_COST_KIB).await?;
    honest.was_well(&cx).await
}

async fn flood(cx: Cx) -> Verdict {
    let node = cx.own_node(&[]).await?;
    let honest = Honest::start(node.bootstrap()).await?;
    let watch = Watch::start(&node).await?;
    let asked = join_all((0..CROWD).map(|_| ask_as_stranger(node.bootstrap()))).await;
    for served in asked {
        ensure(!served?, || "a stranger is told of topics".into())?;
    }
    watch.grew_at_most(&cx, &node, MAY_COST_KIB).await?;
    honest.was_well(&cx).await
}

/// Whether a stranger is told of topics.
async fn ask_as_stranger(server: &Access) -> Result<bool, Stop> {
    match Connection::open_unauthenticated(server).await {
        Ok(mut connection) => is_served(&mut connection).await,
        // There is no room for more strangers.
        Err(_) => Ok(false),
    }
}

async fn nothing(cx: Cx) -> Verdict {
    let allowed = [
        ApiKey::API_VERSIONS,
        ApiKey::SASL_HANDSHAKE,
        ApiKey::SASL_AUTHENTICATE,
    ];
    let server = cx.bootstrap();
    let mut connection = stranger(server).await?;
    connection
        .send(API_VERSIONS)
        .await
        .map_err(failed("cannot send"))?;
    let told = connection.reply(CLOSES_WITHIN).await;
    ensure(matches!(told, Reply::Frame(_)), || {
        format!("a stranger may not negotiate versions: {told:?}")
    })?;
    for key in ApiKey::ALL.iter().filter(|key| !allowed.contains(key)) {
        let mut frame = Vec::new();
        put_request_header(&mut frame, *key, 0, 7, Some("nobody"));
        let mut connection = stranger(server).await?;
        // A server that closes while it is still being written to is right.
        let _ = connection.send(&frame).await;
        match connection.reply(CLOSES_WITHIN).await {
            Reply::Closed(_) => {}
            other => return Err(Stop::fail(format!("a stranger's {key}: {other:?}"))),
        }
    }
    Ok(())
}

async fn large_frame(cx: Cx) -> Verdict {
    let mut connection = stranger(cx.bootstrap()).await?;
    let mut start = (1_i32 << 20).to_be_bytes().to_vec();
    start.extend(API_VERSIONS);
    let _ = connection.send_raw(&start).await;
    must_close(&mut connection, "a frame of 1 MiB").await
}

async fn in_pieces(cx: Cx) -> Verdict {
    cx.record.seen(ApiKey::SASL_HANDSHAKE, 1);
    cx.record.seen(ApiKey::SASL_AUTHENTICATE, 1);
    let who = cx.target.guard()?.credentials();
    let mut connection = stranger(cx.bootstrap()).await?;
    let message = plain_frame(&who).map_err(failed("no frame"))?;
    for frame in [handshake_frame("PLAIN"), message] {
        let length = u32::try_from(frame.len()).unwrap_or_default();
        for byte in length.to_be_bytes().iter().chain(&frame) {
            connection
                .send_raw(&[*byte])
                .await
                .map_err(failed("cannot send"))?;
            sleep(Duration::from_millis(1)).await;
        }
        match connection.reply(CLOSES_WITHIN).await {
            // Correlation id, code.
            Reply::Frame(answer) => expect_eq("the code", &Some(&[0, 0][..]), &answer.get(4..6))?,
            other => return Err(Stop::fail(format!("no answer but {other:?}"))),
        }
    }
    ensure(is_served(&mut connection).await?, || {
        "who authenticated is not served".into()
    })
}

async fn wrong_token(cx: Cx) -> Verdict {
    cx.record.seen(ApiKey::SASL_AUTHENTICATE, 1);
    let nobody = cx.target.guard()?.nobody();
    let mut connection = stranger(cx.bootstrap()).await?;
    match connection.authenticate(&nobody).await {
        Err(AuthenticateError::Refused { code, message }) => {
            expect_eq(
                "the code",
                &Some(ErrorCode::SaslAuthenticationFailed),
                &ErrorCode::from_code(code),
            )?;
            ensure(!message.is_empty(), || {
                "it is refused without a word".into()
            })?;
            ensure(!message.contains(nobody.password.expose()), || {
                "the refusal repeats the token".into()
            })?;
        }
        Err(other) => return Err(Stop::fail(other.to_string())),
        Ok(_) => return Err(Stop::fail("another Queen's token opens this one")),
    }
    must_close(&mut connection, "who is refused").await
}
