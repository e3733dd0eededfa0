//! How long an authentication lasts (KIP-368).

use std::time::Duration;

use kafka_wire::ApiKey;
use tokio::time::{Instant, sleep, sleep_until};

use super::{is_served, stranger};
use crate::cx::Cx;
use crate::spec::{Stop, Verdict, ensure};
use crate::wire::{Connection, Credentials};

/// How long the token lasts.
const LASTS: Duration = Duration::from_secs(4);
/// When the one that stays authenticates again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

pub(super) async fn run(cx: Cx) -> Verdict {
    cx.record.seen(ApiKey::SASL_AUTHENTICATE, 1);
    let guard = cx.target.guard()?;
    let server = cx.bootstrap();
    let who = guard.somebody("admin", Some(LASTS));
    let ends = Instant::now() + LASTS;
    let mut stays = stranger(server).await?;
    let mut lingers = stranger(server).await?;
    for connection in [&mut stays, &mut lingers] {
        let lifetime = authenticate(connection, &who).await?;
        cx.record.fact("lifetime, ms", lifetime);
        ensure(
            u128::try_from(lifetime).is_ok_and(|ms| ms > 0 && ms <= LASTS.as_millis()),
            || {
                format!(
                    "a token of {} ms gives a session of {lifetime} ms",
                    LASTS.as_millis()
                )
            },
        )?;
        ensure(is_served(connection).await?, || {
            "who is known is not served".into()
        })?;
    }
    sleep(AGAIN_AFTER).await;
    let lasting = guard.somebody("admin", None);
    let lifetime = stays.authenticate(&lasting).await;
    lifetime.map_err(|error| Stop::fail(format!("it may not authenticate again: {error}")))?;
    sleep_until(ends + Duration::from_secs(1)).await;
    ensure(is_served(&mut stays).await?, || {
        "it authenticated again, and is closed all the same".into()
    })?;
    ensure(!is_served(&mut lingers).await?, || {
        "it is served behind the end of its token".into()
    })
}

async fn authenticate(connection: &mut Connection, who: &Credentials) -> Result<i64, Stop> {
    let lifetime = connection.authenticate(who).await;
    lifetime.map_err(|error| Stop::fail(format!("a good token is refused: {error}")))
}
