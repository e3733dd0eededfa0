//! Proves a body well-formed before anything is allocated for it: every declared length fits in the
//! frame, nulls stand only where the schema allows them, strings are UTF-8, tagged fields ascend and
//! have the size they declare, and the frame ends where the schema ends (or, where
//! [`Limits::max_trailing_bytes`] allows it, says how much is left).
//!
//! Walking allocates nothing. Recursion follows the schema, which is finite and at most
//! [`MAX_DEPTH`] deep, never the bytes. Cost is one step per field present, plus reading the
//! strings; records and other byte fields are skipped.
//!
//! [`request`] and [`response`] answer yes or no. [`visit`] also hands the values of chosen roles
//! to a [`Visitor`]; `splice` and `names` are built on it.

mod engine;
mod error;
mod layout;
mod place;

use std::convert::Infallible;

use crate::api::ApiKey;
use crate::schema::{self, Message, RoleSet};

pub use crate::cursor::Malformed;
pub use engine::{Halt, NoVisitor, Visitor};
pub use error::{Trail, WalkError};
pub use place::{Datum, Decider, Place, Value};

/// Structures inside structures, arrays included, in the deepest message Kafka defines. A test
/// holds the table to it, so recursion needs no check at run time.
pub const MAX_DEPTH: usize = 6;

/// What a frame may hold. The frame's size itself is limited by [`crate::frame`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Elements of all arrays together, unknown tagged fields included. Each becomes an object of
    /// about 50 to 250 bytes when the message is decoded, however few bytes it takes on the wire.
    /// Arrays of numbers are not counted: they do not grow.
    pub max_elements: u32,
    /// Bytes that may follow the end of a message.
    ///
    /// Apache Kafka reads what its schema names and ignores what is left, and a client that people
    /// run depends on it: librdkafka 2.x leaves three bytes behind a Metadata request (version 9 and
    /// up) for all topics. Doors tolerate what comes from clients; whoever forwards a body forwards
    /// them too.
    pub max_trailing_bytes: u32,
}

impl Limits {
    /// For clients that said who they are: 2^20 elements, an order above the widest real request
    /// (a fetch of 100,000 partitions), at most some 250 MB decoded.
    pub const DEFAULT: Limits = Limits {
        max_elements: 1 << 20,
        max_trailing_bytes: 0,
    };

    /// For requests of clients: 2^17 elements, just above the widest real one (a fetch of 100,000
    /// partitions), because a decoded element outweighs its bytes up to a hundred times; and bytes
    /// may be left behind the end.
    pub const CLIENT: Limits = Limits {
        max_elements: 1 << 17,
        max_trailing_bytes: u32::MAX,
    };

    /// Before authentication: ApiVersions and SASL messages hold a few hundred elements at most.
    pub const UNAUTHENTICATED: Limits = Limits {
        max_elements: 1 << 10,
        max_trailing_bytes: u32::MAX,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Limits::DEFAULT
    }
}

/// What a walk saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Elements of arrays, and unknown tagged fields, as [`Limits::max_elements`] counts them.
    pub elements: u32,
    /// Bytes behind the end of the message, at most [`Limits::max_trailing_bytes`].
    pub trailing_bytes: u32,
}

/// Proves the body of a request well-formed.
///
/// # Errors
///
/// [`WalkError`]: unknown key or version, or what is wrong and where.
pub fn request(
    key: ApiKey,
    version: i16,
    body: &[u8],
    limits: &Limits,
) -> Result<Summary, WalkError> {
    let message = schema::request(key).ok_or(WalkError::UnknownApi { key })?;
    plain(message, version, body, limits)
}

/// Proves the body of a response well-formed.
///
/// # Errors
///
/// [`WalkError`]: unknown key or version, or what is wrong and where.
pub fn response(
    key: ApiKey,
    version: i16,
    body: &[u8],
    limits: &Limits,
) -> Result<Summary, WalkError> {
    let message = schema::response(key).ok_or(WalkError::UnknownApi { key })?;
    plain(message, version, body, limits)
}

fn plain(
    message: &'static Message,
    version: i16,
    body: &[u8],
    limits: &Limits,
) -> Result<Summary, WalkError> {
    match visit(message, version, body, limits, &mut NoVisitor) {
        Ok(summary) => Ok(summary),
        Err(VisitError::Walk(error)) => Err(error),
        Err(VisitError::Stopped(never)) => match never {},
    }
}

/// Why a visit ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VisitError<S> {
    /// The bytes are malformed.
    #[error(transparent)]
    Walk(#[from] WalkError),
    /// The visitor stopped.
    #[error("stopped by the visitor")]
    Stopped(S),
}

/// Walks `body` and hands the values of the roles that `visitor` wants to it, in the order of the
/// wire. A value is handed over before the bytes behind it are proved: a visitor that must not act
/// on half a message acts after `Ok`.
///
/// # Errors
///
/// [`VisitError`]: malformed, or the visitor's own reason to stop.
pub fn visit<V: Visitor>(
    message: &'static Message,
    version: i16,
    body: &[u8],
    limits: &Limits,
    visitor: &mut V,
) -> Result<Summary, VisitError<V::Stop>> {
    if !message.versions.contains(version) {
        return Err(WalkError::UnknownVersion { message, version }.into());
    }
    engine::run(
        message,
        version,
        body,
        0,
        limits,
        visitor,
        engine::End::Exact,
    )
}

/// Bytes of the version in front of a consumer-protocol blob.
pub const BLOB_VERSION_BYTES: usize = 2;

/// Walks a consumer-protocol blob ([`schema::CONSUMER_PROTOCOL_SUBSCRIPTION`] or
/// [`schema::CONSUMER_PROTOCOL_ASSIGNMENT`]): a two-byte version, then the message. As Kafka's own
/// consumer does, a version above the newest is read as the newest, and what follows is left alone.
/// Positions handed to the visitor count from the start of the blob.
///
/// # Errors
///
/// [`VisitError`]: malformed, or the visitor's own reason to stop.
pub fn visit_blob<V: Visitor>(
    message: &'static Message,
    blob: &[u8],
    limits: &Limits,
    visitor: &mut V,
) -> Result<Summary, VisitError<V::Stop>> {
    let Some(version) = blob.first_chunk::<BLOB_VERSION_BYTES>() else {
        let what = crate::cursor::truncated(BLOB_VERSION_BYTES, blob.len());
        return Err(WalkError::blob_version(message, 0, what).into());
    };
    let version = i16::from_be_bytes(*version);
    if version < message.versions.min {
        return Err(WalkError::UnknownVersion { message, version }.into());
    }
    let version = version.min(message.versions.max);
    engine::run(
        message,
        version,
        blob,
        BLOB_VERSION_BYTES,
        limits,
        visitor,
        engine::End::Open,
    )
}

impl Visitor for NoVisitor {
    type Stop = Infallible;

    #[inline]
    fn roles(&self) -> RoleSet {
        RoleSet::EMPTY
    }

    #[inline]
    fn value(&mut self, _: &Place<'_>, _: &Value<'_>) -> Result<(), Infallible> {
        Ok(())
    }
}
