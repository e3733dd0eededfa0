//! How a client behaves where clients differ. Data only.

use std::time::Duration;

use kafka_wire::ApiKey;

/// The choices of one client library.
#[derive(Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// The highest version it speaks of the APIs it uses; others it doesn't call.
    pub ceilings: &'static [(ApiKey, i16)],
    /// How long it waits for a connection.
    pub connect_timeout: Duration,
    /// `request.timeout.ms`: how long it waits for an answer before it drops the connection.
    pub request_timeout: Duration,
    /// `retry.backoff.ms`.
    pub retry_backoff: Duration,
    /// `max.in.flight.requests.per.connection`.
    pub max_in_flight: usize,
    /// `enable.idempotence`.
    pub idempotent: bool,
    /// `fetch.max.wait.ms`.
    pub fetch_max_wait: Duration,
}

impl Profile {
    /// The highest version of `key` it speaks.
    pub fn ceiling(&self, key: ApiKey) -> Option<i16> {
        self.ceilings
            .iter()
            .find(|(known, _)| *known == key)
            .map(|(_, version)| *version)
    }
}

/// Versions that name topics, not their ids.
const BY_NAME: &[(ApiKey, i16)] = &[
    (ApiKey::API_VERSIONS, 3),
    (ApiKey::METADATA, 12),
    (ApiKey::INIT_PRODUCER_ID, 4),
    (ApiKey::PRODUCE, 11),
    (ApiKey::FETCH, 12),
    (ApiKey::LIST_OFFSETS, 7),
];

/// Kafka's defaults, with waits short enough that one run sees several of them: an idempotent
/// producer with five requests in flight.
pub const IDEMPOTENT: Profile = Profile {
    name: "idempotent",
    ceilings: BY_NAME,
    connect_timeout: Duration::from_secs(2),
    request_timeout: Duration::from_secs(3),
    retry_backoff: Duration::from_millis(100),
    max_in_flight: 5,
    idempotent: true,
    fetch_max_wait: Duration::from_millis(500),
};

/// The same without idempotence: what it sends again is stored again.
pub const PLAIN: Profile = Profile {
    name: "plain",
    idempotent: false,
    ..IDEMPOTENT
};
