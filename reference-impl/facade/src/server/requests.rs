//! What the loop decides about a request before its handler runs, and after.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use host::Monotonic;
use host::budget::Reservation;
use kafka_protocol::messages::ApiVersionsResponse;
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_wire::header::{RequestHeader, put_request_header};
use kafka_wire::{ApiKey, ErrorCode, VersionRange};

use crate::context::Node;
use crate::dispatch::{self, EncodeError};
use crate::windows::WINDOWS;

/// A request whose header was read.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) header: RequestHeader,
    pub(super) received: Monotonic,
    pub(super) reservation: Reservation,
    /// It came without a header: the message of SASL behind SaslHandshake 0.
    pub(super) bare: bool,
}

/// What is left of a request while it runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag {
    pub(super) key: ApiKey,
    pub(super) version: i16,
    pub(super) received: Monotonic,
    /// Answered without a header, too.
    pub(super) bare: bool,
}

/// A request that is running or waits for its answer; counted until it is dropped.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) tag: Tag,
    node: Arc<Node>,
}

impl Flight {
    pub(super) fn new(node: &Arc<Node>, request: &Request) -> Self {
        let tag = request.tag();
        node.metrics.received(tag.key, request.header.body.len());
        Self {
            tag,
            node: Arc::clone(node),
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let elapsed = self.node.host.clock.monotonic() - self.tag.received;
        self.node.metrics.ended(self.tag.key, elapsed);
    }
}

/// What is done with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// Its handler runs.
    Handle,
    /// ApiVersions in a version that is not served: the one refusal Kafka has words for.
    UnsupportedApiVersions,
    /// The connection closes.
    Close,
}

impl Request {
    pub(super) fn tag(&self) -> Tag {
        Tag {
            key: self.header.api_key,
            version: self.header.api_version,
            received: self.received,
            bare: self.bare,
        }
    }

    pub(super) fn course(&self) -> Course {
        let (key, version) = (self.header.api_key, self.header.api_version);
        match WINDOWS.serves(key, version) {
            true => Course::Handle,
            false if key == ApiKey::API_VERSIONS => Course::UnsupportedApiVersions,
            false => Course::Close,
        }
    }
}

impl Tag {
    /// Whether the handler is dropped when the peer is gone.
    ///
    /// One that may wait for something other than Queen's answer to one call (records, other members)
    /// has nobody to tell. One that ends a transaction, or adds offsets to it, comes too late: its
    /// client asks again elsewhere, goes on to the next transaction under the same epoch, and nothing
    /// in the request says which one is meant (before KIP-890). What it has begun to write by then is
    /// carried out.
    pub(super) fn is_abandoned(self) -> bool {
        matches!(
            self.key,
            ApiKey::FETCH
                | ApiKey::JOIN_GROUP
                | ApiKey::SYNC_GROUP
                | ApiKey::END_TXN
                | ApiKey::TXN_OFFSET_COMMIT
        )
    }

    /// Whether it may start while requests of the same kind in front of it are not answered.
    pub(super) fn pipelines(self) -> bool {
        self.key == ApiKey::PRODUCE
    }
}

/// The frame of a bare SASL message as the SaslAuthenticate 0 that says the same: there, too, the
/// bytes stand behind their length.
pub(super) fn sasl_authenticate(message: &[u8]) -> BytesMut {
    let mut frame = BytesMut::with_capacity(16 + message.len());
    put_request_header(&mut frame, ApiKey::SASL_AUTHENTICATE, 0, 0, None);
    // A frame is shorter than its limit, which fits.
    frame.put_u32(message.len() as u32);
    frame.put_slice(message);
    frame
}

/// The answer to ApiVersions in a version that is not served: version 0 of the response, which
/// every client reads, with the code and the one entry that lets the client choose again (KIP-511).
///
/// # Errors
///
/// [`EncodeError`]; never in fact, for the response is a constant.
pub(super) fn unsupported_api_versions(correlation_id: i32) -> Result<Bytes, EncodeError> {
    let VersionRange { min, max } = WINDOWS
        .get(ApiKey::API_VERSIONS)
        .unwrap_or(VersionRange::NONE);
    let own = ApiVersion::default()
        .with_api_key(ApiKey::API_VERSIONS.0)
        .with_min_version(min)
        .with_max_version(max);
    let response = ApiVersionsResponse::default()
        .with_error_code(ErrorCode::UnsupportedVersion.code())
        .with_api_keys(vec![own]);
    dispatch::encode(ApiKey::API_VERSIONS, 0, correlation_id, &response)
}
