//! A listener under TLS and SASL: who is a stranger gets nothing and hurts nobody, who is known stays
//! known as long as agreed, and a certificate is exchanged without a dropped connection.
//!
//! Only for nodes of ours: the checks need their secrets, and another server has other limits.

mod certificate;
mod lifetime;
pub mod printed;
mod strangers;

use std::time::Duration;

use kafka_wire::ApiKey;

use crate::bad_input::METADATA_REQUEST;
use crate::spec::{Lane, Spec, Stop, WIRE};
use crate::wire::{Access, Connection, Reply};

/// When a server must have closed whom it does not serve.
const CLOSES_WITHIN: Duration = Duration::from_secs(10);

/// Every check of a secure listener.
pub fn specs() -> Vec<Spec> {
    let strangers = strangers::specs();
    let others = vec![
        Spec::new(
            "secure/lifetime",
            "Who authenticates again in time stays (KIP-368); who does not is closed when the token ends",
            WIRE,
            lifetime::run,
        )
        .apis([ApiKey::SASL_AUTHENTICATE])
        .kips([368]),
        Spec::new(
            "secure/certificate-exchanged",
            "A new certificate serves the next connections, and no connection that is open is dropped",
            WIRE,
            certificate::run,
        )
        .lane(Lane::OwnNode)
        .within(Duration::from_secs(40)),
    ];
    strangers.into_iter().chain(others).collect()
}

fn failed(what: &str) -> impl Fn(std::io::Error) -> Stop {
    move |error| Stop::fail(format!("{what}: {error}"))
}

/// A connection that speaks TLS and has not authenticated.
async fn stranger(server: &Access) -> Result<Connection, Stop> {
    Connection::open_unauthenticated(server)
        .await
        .map_err(failed("a stranger cannot connect"))
}

/// Asks for metadata, as somebody who is known may.
async fn is_served(connection: &mut Connection) -> Result<bool, Stop> {
    if connection.send(METADATA_REQUEST).await.is_err() {
        return Ok(false);
    }
    match connection.reply(CLOSES_WITHIN).await {
        Reply::Frame(_) => Ok(true),
        Reply::Closed(_) => Ok(false),
        Reply::Silence => Err(Stop::fail("Metadata is neither answered nor closed")),
    }
}
