//! SaslAuthenticate, versions 0 to 2.
//!
//! - The password of the PLAIN message is a Queen bearer; the username is a label that is logged.
//!   One queue listing as that bearer decides.
//! - Queen's 401 and 403 are `SASL_AUTHENTICATION_FAILED` with the reason, told after a short delay
//!   and followed by the end of the connection: clients take it as final.
//! - When Queen cannot say (unreachable, 429, 5xx), the connection closes without an answer: clients
//!   take that as a reason to try again.
//! - Re-authentication keeps the connection; another username is refused, as in Kafka.
//! - `ILLEGAL_SASL_STATE` where no message is due.
//!
//! v1 tells how long the session lasts (KIP-368): until the `exp` of a JWT, else
//! `QUEEN_KAFKA_REAUTH_MS`, else for ever (0). v2 is flexible.

use std::time::Duration;

use kafka_protocol::messages::{SaslAuthenticateRequest, SaslAuthenticateResponse};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ErrorCode;

use crate::context::{Answer, Context, Reply};
use crate::logging::printable;
use crate::queen::Credential;
use crate::security::{Plain, Unproven, expiry};

/// How long a refusal is held back, as Kafka's `connection.failed.authentication.delay.ms`: guessing
/// is slow, and a client that is told at once and closed may lose the answer.
pub const REFUSAL_DELAY: Duration = Duration::from_millis(100);

/// Answers a SaslAuthenticate request.
pub async fn handle(
    cx: &Context,
    request: SaslAuthenticateRequest,
) -> Reply<SaslAuthenticateResponse> {
    let authentication = &cx.session.authentication;
    if !authentication.expects_message() {
        return Reply::now(refusal(
            ErrorCode::IllegalSaslState,
            "SaslAuthenticate request received after successful authentication",
        ));
    }
    let plain = match Plain::parse(&request.auth_bytes) {
        Ok(plain) => plain,
        Err(error) => return refuse(cx, "", &error.to_string()).await,
    };
    if let Some(known) = authentication.username()
        && known != plain.username
    {
        let words = "Cannot change principals during re-authentication";
        return refuse(cx, &plain.username, words).await;
    }
    let credential = Credential {
        bearer: Some(plain.password),
        host: cx.session.credential.host.clone(),
    };
    let scope = match cx.node.identities.identify(&credential).await {
        Ok(scope) => scope,
        Err(Unproven::Refused(words)) => return refuse(cx, &plain.username, &words).await,
        Err(Unproven::Unknown(error)) => {
            cx.node.metrics.authentication("unknown");
            tracing::debug!(session = %cx.session.id, %error, "a credential could not be checked");
            authentication.refuse();
            return Reply::Now(Answer::Close("Queen could not check the credential"));
        }
    };
    let lifetime = lifetime(cx, &credential);
    let now = cx.node.host.clock.monotonic();
    let until = lifetime.map(|lifetime| now + lifetime);
    let session = cx.session.authenticated(credential, scope, now);
    cx.node.metrics.authentication("accepted");
    tracing::info!(
        session = %session.id, peer = %session.peer, user = %printable(&plain.username),
        "authenticated"
    );
    authentication.succeed(plain.username, until, session);
    let lifetime_ms = lifetime.map_or(0, |lifetime| {
        i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX)
    });
    Reply::now(SaslAuthenticateResponse::default().with_session_lifetime_ms(lifetime_ms))
}

/// How long the session lasts; `None` is for ever.
fn lifetime(cx: &Context, credential: &Credential) -> Option<Duration> {
    let bearer = credential.bearer.as_ref()?;
    let left = expiry(bearer.expose()).and_then(|at| {
        let left = at.saturating_sub(cx.node.host.clock.wall().epoch_ms());
        u64::try_from(left).ok().filter(|left| *left > 0)
    });
    // A date in the past that Queen let pass tells nothing.
    left.map(Duration::from_millis)
        .or(cx.node.config.security.reauth)
}

async fn refuse(cx: &Context, username: &str, words: &str) -> Reply<SaslAuthenticateResponse> {
    cx.session.authentication.refuse();
    cx.node.metrics.authentication("refused");
    let now = cx.node.host.clock.monotonic();
    if let Some(suppressed) = cx.node.identities.refusals.pass(now) {
        tracing::warn!(
            session = %cx.session.id, peer = %cx.session.peer, user = %printable(username),
            reason = words, suppressed, "authentication refused"
        );
    }
    tokio::time::sleep(REFUSAL_DELAY).await;
    Reply::now(refusal(ErrorCode::SaslAuthenticationFailed, words))
}

fn refusal(code: ErrorCode, words: &str) -> SaslAuthenticateResponse {
    SaslAuthenticateResponse::default()
        .with_error_code(code.code())
        .with_error_message(Some(StrBytes::from_string(words.to_owned())))
}
