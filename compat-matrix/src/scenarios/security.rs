//! Clients with wrong credentials, and with credentials that end.

use std::time::Duration;

use host::Secret;
use kafka_wire::ApiKey;
use tokio::time::{Instant, sleep};

use super::client::{from_start, number};
use super::{Env, Scenario};
use crate::drivers::Refusal;
use crate::drivers::protocol::{Deliveries, Setting};
use crate::spec::{Stop, Verdict, ensure, expect_eq};
use crate::wire::Credentials;

/// How long a client may try before it says that it is not let in. Those that never give up end with
/// the time for delivery.
const TOLD_WITHIN: Duration = Duration::from_secs(30);
/// Connections of one client in that time that are no storm: one each half second.
const NO_STORM: usize = 60;
/// How long an authentication lasts in the scenario about it, and how long the client works.
const LASTS_MS: &str = "2000";
const ROUNDS: u64 = 14;
const PAUSE: Duration = Duration::from_millis(500);

pub(super) fn scenarios(ours: bool) -> Vec<Scenario> {
    let wrong = Scenario::new(
        "security-wrong-password",
        "A client with a wrong password fails in seconds, without a storm of connections",
        &[ApiKey::SASL_HANDSHAKE, ApiKey::SASL_AUTHENTICATE],
        wrong_password,
    )
    .kips(&[152])
    .within(60);
    let again = Scenario::new(
        "security-reauthentication",
        "A client goes on when its authentication ends every two seconds: nothing is lost or doubled",
        &[ApiKey::SASL_AUTHENTICATE, ApiKey::PRODUCE, ApiKey::FETCH],
        reauthentication,
    )
    .kips(&[368])
    .on_its_own_node()
    .within(60);
    // The lifetime is a setting of the node.
    if ours {
        vec![wrong, again]
    } else {
        vec![wrong]
    }
}

async fn wrong_password(env: Env) -> Verdict {
    let server = env.cx.bootstrap();
    let right = server.security().sasl.clone();
    let right = right.ok_or_else(|| Stop::skip("nobody needs a password here"))?;
    let wrong = server.with_credentials(Some(Credentials {
        username: right.username,
        password: Secret::new(format!("{}x", right.password.expose())),
    }));
    let mut client = env.client_as(&wrong).await?;
    client.delivery_ms = 8_000;
    let began = Instant::now();
    let settings = [Setting::DeliveryTimeoutMs(6_000)];
    let opened = client.producer(&settings).await;
    let words = match opened {
        Err(stop @ (Stop::Unable(_) | Stop::Skip(_))) => return Err(stop),
        Err(Stop::Fail(failure)) => failure.reason,
        Ok(()) => {
            let topic = env.cx.unique("topic");
            let sent: Result<Deliveries, Refusal> =
                client.try_numbers(&topic, Some(0), 0, 1, 16).await;
            match sent {
                Ok(Deliveries { failed, .. }) if !failed.is_empty() => failed[0].1.clone(),
                Ok(_) => return Err(Stop::fail("a record was stored with a wrong password")),
                Err(refusal) if refusal.unable => return Err(refusal.into()),
                Err(refusal) => refusal.message,
            }
        }
    };
    let took = began.elapsed();
    let connections = client.relay().connections();
    env.cx.record.fact("the client says", words);
    env.cx.record.fact(
        "told after ms",
        u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
    );
    env.cx.record.fact("connections", connections);
    ensure(connections > 0, || "it never connected".into())?;
    ensure(took <= TOLD_WITHIN, || {
        format!("it took {} s to say so", took.as_secs())
    })?;
    ensure(connections <= NO_STORM, || {
        format!("it connected {connections} times")
    })
}

async fn reauthentication(env: Env) -> Verdict {
    const EACH: u64 = 20;
    let node = env
        .cx
        .own_node(&[("QUEEN_KAFKA_REAUTH_MS", LASTS_MS)])
        .await?;
    // Without an end of its own, so that the node's setting is it.
    let who = env.cx.target.lasting_credentials()?;
    let server = node.bootstrap().with_credentials(Some(who));
    let mut client = env.client_as(&server).await?;
    let topic = env.cx.unique("topic");
    client.create_topic(&topic, 1, &[]).await?;
    client
        .producer(&[
            Setting::Idempotence(true),
            Setting::ReconnectBackoffMs(50),
            Setting::ReconnectBackoffMaxMs(200),
        ])
        .await?;
    for round in 0..ROUNDS {
        client
            .produce_numbers(&topic, Some(0), round * EACH, EACH)
            .await?;
        sleep(PAUSE).await;
    }
    env.cx
        .record
        .fact("connections", client.relay().connections());
    let mut reader = env.client_as(&server).await?;
    reader.reader(from_start(&topic, 1)).await?;
    let all = usize::try_from(ROUNDS * EACH).unwrap_or(usize::MAX);
    for (at, record) in reader.read_exactly(all).await?.iter().enumerate() {
        expect_eq(&format!("records[{at}]"), &(at as u64), &number(record)?)?;
    }
    Ok(())
}
