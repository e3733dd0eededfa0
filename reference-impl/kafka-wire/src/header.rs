//! Request headers (versions 0 to 2) and response headers (0 and 1). Reads untrusted bytes without
//! allocating; never panics. Does not judge whether a version is served: that is [`crate::Windows`].

use bytes::{BufMut, Bytes};

use crate::api::ApiKey;
use crate::cursor::{Cursor, Malformed};
use crate::schema;

/// A request's header and, behind it, its body: slices of the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// Which API; may be one this crate does not know.
    pub api_key: ApiKey,
    /// Which version of it; may be one nobody knows.
    pub api_version: i16,
    /// Answered as it came.
    pub correlation_id: i32,
    /// Valid UTF-8, checked by `parse`.
    client_id: Option<Bytes>,
    /// What follows the header.
    pub body: Bytes,
}

/// Why a request header is refused. The connection is closed: Kafka has no answer for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("request header, byte {at}: {what}")]
pub struct HeaderError {
    /// Offset of the fault in the frame.
    pub at: usize,
    /// The fault.
    pub what: Malformed,
}

impl RequestHeader {
    /// Parses the header of `frame` (a frame without its size prefix).
    ///
    /// A key or version that this crate does not know is no error: key, version, correlation id and
    /// client id stand at the same place in every header since version 1, so the caller can name
    /// them in its answer or its log. The body of an unknown key starts behind the client id.
    ///
    /// # Errors
    ///
    /// [`HeaderError`] when the frame ends inside the header, or a length, the client id's UTF-8 or
    /// a tagged field is malformed.
    pub fn parse(frame: Bytes) -> Result<RequestHeader, HeaderError> {
        let mut cursor = Cursor::new(&frame);
        let parsed = Self::fields(&mut cursor);
        let end = cursor.position();
        let (api_key, api_version, correlation_id, client_id) =
            parsed.map_err(|what| HeaderError { at: end, what })?;
        let client_id = client_id.map(|range| frame.slice(range));
        Ok(RequestHeader {
            api_key,
            api_version,
            correlation_id,
            client_id,
            body: frame.slice(end..),
        })
    }

    #[expect(
        clippy::type_complexity,
        reason = "the four fields of the header, named at the one call"
    )]
    fn fields(
        cursor: &mut Cursor<'_>,
    ) -> Result<(ApiKey, i16, i32, Option<std::ops::Range<usize>>), Malformed> {
        let api_key = ApiKey(cursor.i16()?);
        let api_version = cursor.i16()?;
        let correlation_id = cursor.i32()?;
        let header_version = request_header_version(api_key, api_version);
        if header_version == 0 {
            return Ok((api_key, api_version, correlation_id, None));
        }
        // The client id keeps its two-byte length even in flexible headers (KIP-511).
        let length = i32::from(cursor.i16()?);
        let client_id = match Cursor::length(length)? {
            None => None,
            Some(length) => {
                let start = cursor.position();
                std::str::from_utf8(cursor.take(length)?).map_err(|_| Malformed::NotUtf8)?;
                Some(start..start + length)
            }
        };
        if header_version >= 2 {
            cursor.skip_tags()?;
        }
        Ok((api_key, api_version, correlation_id, client_id))
    }

    /// What the client calls itself.
    pub fn client_id(&self) -> Option<&str> {
        self.client_id
            .as_deref()
            .and_then(|id| std::str::from_utf8(id).ok())
    }

    /// The client id as a slice of the frame; valid UTF-8.
    pub fn client_id_bytes(&self) -> Option<&Bytes> {
        self.client_id.as_ref()
    }
}

/// The version of the header in front of a request. A version above those known is taken to be
/// flexible when the API has flexible versions, as Kafka takes it; an unknown key has version 1.
pub fn request_header_version(key: ApiKey, version: i16) -> i16 {
    match schema::request(key) {
        Some(message) if message.flexible.contains(version) => 2,
        // The only request that ever had no client id.
        _ if key == ApiKey::CONTROLLED_SHUTDOWN && version == 0 => 0,
        _ => 1,
    }
}

/// The version of the header in front of a response. ApiVersions always answers with version 0, so
/// that a client which does not know the broker's versions yet can read it (KIP-511).
pub fn response_header_version(key: ApiKey, version: i16) -> i16 {
    match schema::response(key) {
        Some(message) if key != ApiKey::API_VERSIONS && message.flexible.contains(version) => 1,
        _ => 0,
    }
}

/// Writes the header of the response to `version` of `key`.
pub fn put_response_header(out: &mut impl BufMut, key: ApiKey, version: i16, correlation_id: i32) {
    out.put_i32(correlation_id);
    if response_header_version(key, version) >= 1 {
        // No tagged fields.
        out.put_u8(0);
    }
}

/// Writes a request header (version 1 or 2, by key and version), as a client does.
///
/// A `client_id` longer than Kafka can say (32,767 bytes) is cut at a character.
pub fn put_request_header(
    out: &mut impl BufMut,
    key: ApiKey,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
) {
    out.put_i16(key.0);
    out.put_i16(version);
    out.put_i32(correlation_id);
    let header_version = request_header_version(key, version);
    if header_version == 0 {
        return;
    }
    match client_id {
        None => out.put_i16(-1),
        Some(id) => {
            let mut length = id.len().min(i16::MAX as usize);
            while !id.is_char_boundary(length) {
                length -= 1;
            }
            out.put_i16(length as i16);
            out.put_slice(&id.as_bytes()[..length]);
        }
    }
    if header_version >= 2 {
        out.put_u8(0);
    }
}

/// A response's correlation id and, behind its header, its body: for doors that relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHeader {
    /// The correlation id of the request it answers.
    pub correlation_id: i32,
    /// What follows the header.
    pub body: Bytes,
}

impl ResponseHeader {
    /// Parses the header of the response to `version` of `key`.
    ///
    /// # Errors
    ///
    /// [`HeaderError`] when the frame ends inside the header or a tagged field is malformed.
    pub fn parse(frame: Bytes, key: ApiKey, version: i16) -> Result<ResponseHeader, HeaderError> {
        let mut cursor = Cursor::new(&frame);
        let parsed = (|| {
            let correlation_id = cursor.i32()?;
            if response_header_version(key, version) >= 1 {
                cursor.skip_tags()?;
            }
            Ok(correlation_id)
        })();
        let at = cursor.position();
        let correlation_id = parsed.map_err(|what| HeaderError { at, what })?;
        Ok(ResponseHeader {
            correlation_id,
            body: frame.slice(at..),
        })
    }
}
