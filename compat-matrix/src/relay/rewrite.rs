//! Puts the relay's ports in the place of the servers' addresses.

use std::borrow::Cow;
use std::io;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use kafka_wire::ApiKey;
use kafka_wire::header::ResponseHeader;
use kafka_wire::schema::{self, Field, Kind, Role, RoleSet};
use kafka_wire::splice::{self, Edit, Editor};
use kafka_wire::walk::{Datum, Decider, Limits, Place, Value};

use super::{Address, FRONT, Shared};

/// Answers come from the server under test and are bounded in bytes by whoever reads them.
const LIMITS: Limits = Limits {
    max_elements: 1 << 22,
    max_trailing_bytes: u32::MAX,
};

/// The APIs whose answers name brokers.
static WITH_ADDRESSES: LazyLock<Vec<ApiKey>> = LazyLock::new(|| {
    ApiKey::ALL
        .iter()
        .copied()
        .filter(|key| schema::response(*key).is_some_and(|message| any_host(message.fields)))
        .collect()
});

fn any_host(fields: &[Field]) -> bool {
    fields.iter().any(|field| match field.kind {
        Kind::Struct(inner) => any_host(inner.fields),
        _ => field.role == Role::Host,
    })
}

/// Whether answers of this API name brokers in any version.
pub(super) fn names_brokers(key: ApiKey) -> bool {
    WITH_ADDRESSES.contains(&key)
}

/// The answer `frame` (without its length) with the relay's addresses in it. One that cannot be read
/// comes back as it is: what is wrong with it is the client's to find.
pub(super) fn rewrite(shared: &Arc<Shared>, key: ApiKey, version: i16, frame: &Bytes) -> Bytes {
    match rewritten(shared, key, version, frame) {
        Ok(bytes) => bytes,
        Err(why) => {
            shared.record.note(format!(
                "relay: an answer of {} v{version} was passed on as it came: {why}",
                crate::cx::api_name(key)
            ));
            frame.clone()
        }
    }
}

fn rewritten(
    shared: &Arc<Shared>,
    key: ApiKey,
    version: i16,
    frame: &Bytes,
) -> Result<Bytes, String> {
    let header =
        ResponseHeader::parse(frame.clone(), key, version).map_err(|error| error.to_string())?;
    let mut fronts = Fronts { shared };
    let spliced =
        splice::response(key, version, &header.body, &LIMITS, &mut fronts).map_err(|error| {
            match error {
                splice::SpliceError::Refused(error) => format!("no port for a broker: {error}"),
                other => other.to_string(),
            }
        })?;
    let head = frame.len() - header.body.len();
    let mut out = Vec::with_capacity(head + spliced.len());
    out.extend_from_slice(&frame[..head]);
    out.extend_from_slice(&spliced.to_bytes());
    Ok(out.into())
}

struct Fronts<'s> {
    shared: &'s Arc<Shared>,
}

impl Editor for Fronts<'_> {
    type Refusal = io::Error;

    fn roles(&self) -> RoleSet {
        RoleSet::of(&[Role::Host, Role::Port])
    }

    fn edit<'e>(
        &'e mut self,
        place: &'e Place<'_>,
        value: &'e Value<'_>,
    ) -> Result<Edit<'e>, io::Error> {
        // In every message the two stand side by side under these names.
        let (host, port) = match value.datum {
            Datum::Text(host) => (Some(host), place.sibling("Port")),
            Datum::Int(port) => (
                match place.sibling("Host") {
                    Some(Decider::Text(host)) => std::str::from_utf8(host).ok(),
                    _ => None,
                },
                Some(Decider::Int(port)),
            ),
            _ => (None, None),
        };
        let (Some(host), Some(Decider::Int(port))) = (host, port) else {
            return Ok(Edit::Keep);
        };
        // No broker: an empty host and port -1.
        let Some(port) = u16::try_from(port).ok().filter(|port| *port > 0) else {
            return Ok(Edit::Keep);
        };
        let front = self.shared.front_of(Address {
            host: host.to_owned(),
            port,
        })?;
        Ok(match value.datum {
            Datum::Text(_) => Edit::Text(Cow::Borrowed(FRONT)),
            _ => Edit::Int(i64::from(front)),
        })
    }
}

#[cfg(test)]
mod tests {
    use kafka_wire::ApiKey;

    use super::{WITH_ADDRESSES, names_brokers};

    #[test]
    fn the_apis_that_name_brokers_are_known_by_their_schema() {
        for key in [
            ApiKey::METADATA,
            ApiKey::FIND_COORDINATOR,
            ApiKey::DESCRIBE_CLUSTER,
            ApiKey::PRODUCE,
            ApiKey::FETCH,
        ] {
            assert!(names_brokers(key), "{key:?}");
        }
        assert!(!names_brokers(ApiKey::DESCRIBE_GROUPS), "members' hosts");
        assert!(WITH_ADDRESSES.len() < 15, "{:?}", *WITH_ADDRESSES);
    }
}
