//! The JSON envelope in which a Kafka record lives in a Queen queue: `{"h":…,"k":…,"t":…,"v":…}`
//! (key, value and header values in base64, null kept apart from empty).
//!
//! Writing appends to a body buffer, reading decodes into an arena; neither makes a string per
//! record. Recognition is strict: every other payload is a native one and is served as its text.

use std::borrow::Cow;
use std::fmt;

use base64_simd::STANDARD;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::queen::json;

/// A record cannot be stored: the envelope keeps header names as strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a header name is not UTF-8")]
pub struct HeaderNameNotUtf8;

/// The parts of a record that are stored. Headers are given apart, as an iterator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordParts<'a> {
    /// The key; `None` is Kafka's null.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is Kafka's null (a tombstone).
    pub value: Option<&'a [u8]>,
    /// CreateTime in milliseconds since the Unix epoch; −1 (Kafka's "none") is not stored.
    pub timestamp_ms: i64,
}

/// Appends the envelope of one record to `out`, headers in their order, repeated names kept.
///
/// # Errors
///
/// [`HeaderNameNotUtf8`], with `out` as it was.
pub fn write<'h>(
    out: &mut Vec<u8>,
    record: RecordParts<'_>,
    headers: impl IntoIterator<Item = (&'h [u8], Option<&'h [u8]>)>,
) -> Result<(), HeaderNameNotUtf8> {
    let start = out.len();
    out.push(b'{');
    let mut separator: &[u8] = b"\"h\":[";
    let mut any_header = false;
    for (name, value) in headers {
        let Ok(name) = std::str::from_utf8(name) else {
            out.truncate(start);
            return Err(HeaderNameNotUtf8);
        };
        any_header = true;
        out.extend_from_slice(separator);
        separator = b",";
        out.extend_from_slice(b"{\"k\":");
        json::write_str(out, name);
        out.extend_from_slice(b",\"v\":");
        write_bytes(out, value);
        out.push(b'}');
    }
    out.extend_from_slice(if any_header { b"],\"k\":" } else { b"\"k\":" });
    write_bytes(out, record.key);
    if record.timestamp_ms != -1 {
        out.extend_from_slice(b",\"t\":");
        json::write_display(out, record.timestamp_ms);
    }
    out.extend_from_slice(b",\"v\":");
    write_bytes(out, record.value);
    out.push(b'}');
    Ok(())
}

fn write_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => out.extend_from_slice(b"null"),
        Some(bytes) => {
            out.push(b'"');
            STANDARD.encode_append(bytes, out);
            out.push(b'"');
        }
    }
}

/// A stretch of an arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    start: usize,
    end: usize,
}

impl Span {
    /// The bytes, out of the arena that this span was made in.
    pub fn of(self, arena: &[u8]) -> &[u8] {
        &arena[self.start..self.end]
    }
}

/// Where the decoded parts of one payload are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// The key, `None` for null.
    pub key: Option<Span>,
    /// The value, `None` for null.
    pub value: Option<Span>,
    /// CreateTime, when the producer gave one.
    pub timestamp_ms: Option<i64>,
    /// How many headers this record appended to the list of headers.
    pub header_count: usize,
}

/// Where one header is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodedHeader {
    /// The name (UTF-8).
    pub name: Span,
    /// The value, `None` for null.
    pub value: Option<Span>,
}

/// Decodes one payload (JSON text) into `arena` and `headers`: as an envelope when it is exactly
/// one, else as a native payload, whose value is its text and whose key is null.
pub fn read(payload: &str, arena: &mut Vec<u8>, headers: &mut Vec<DecodedHeader>) -> Decoded {
    let (arena_mark, headers_mark) = (arena.len(), headers.len());
    let mut sink = Sink { arena, headers };
    if let Some(decoded) = plain(payload, &mut sink) {
        return decoded;
    }
    sink.arena.truncate(arena_mark);
    let mut json = serde_json::Deserializer::from_str(payload);
    match EnvelopeSeed(&mut sink).deserialize(&mut json) {
        Ok(decoded) if json.end().is_ok() => decoded,
        _ => {
            sink.arena.truncate(arena_mark);
            sink.headers.truncate(headers_mark);
            let value = sink.append(payload.trim_ascii().as_bytes());
            Decoded {
                value: Some(value),
                ..Decoded::default()
            }
        }
    }
}

/// An envelope without headers, spelled exactly as [`write`] spells it: what nearly every record is,
/// and several times cheaper to read than any JSON. `None` says nothing about the payload, and leaves
/// bytes behind in the arena.
fn plain(payload: &str, sink: &mut Sink<'_>) -> Option<Decoded> {
    let rest = payload.strip_prefix("{\"k\":")?;
    let (key, rest) = plain_bytes(rest, sink)?;
    let (timestamp_ms, rest) = match rest.strip_prefix(",\"t\":") {
        Some(rest) => {
            let (digits, rest) = rest.split_at(rest.find(',')?);
            (Some(plain_number(digits)?), rest)
        }
        None => (None, rest),
    };
    let (value, rest) = plain_bytes(rest.strip_prefix(",\"v\":")?, sink)?;
    (rest == "}").then_some(Decoded {
        key,
        value,
        timestamp_ms,
        header_count: 0,
    })
}

/// `null` or base64 in quotes, and what follows. A string with an escape is not base64.
fn plain_bytes<'t>(text: &'t str, sink: &mut Sink<'_>) -> Option<(Option<Span>, &'t str)> {
    if let Some(rest) = text.strip_prefix("null") {
        return Some((None, rest));
    }
    let text = text.strip_prefix('"')?;
    let (base64, rest) = text.split_at(text.find('"')?);
    Some((Some(sink.append_base64(base64)?), &rest[1..]))
}

/// A number as JSON and [`write`] spell it, not negative.
fn plain_number(digits: &str) -> Option<i64> {
    let is_json = digits == "0" || !digits.starts_with('0');
    let is_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_json && is_digits).then(|| digits.parse().ok())?
}

struct Sink<'s> {
    arena: &'s mut Vec<u8>,
    headers: &'s mut Vec<DecodedHeader>,
}

impl Sink<'_> {
    fn append(&mut self, bytes: &[u8]) -> Span {
        let start = self.arena.len();
        self.arena.extend_from_slice(bytes);
        Span {
            start,
            end: self.arena.len(),
        }
    }

    fn append_base64(&mut self, text: &str) -> Option<Span> {
        let start = self.arena.len();
        STANDARD.decode_append(text, self.arena).ok()?;
        Some(Span {
            start,
            end: self.arena.len(),
        })
    }
}

/// The whole envelope: an object with `k` and `v`, perhaps `h` and `t`, and nothing else.
struct EnvelopeSeed<'a, 's>(&'a mut Sink<'s>);

impl<'de> DeserializeSeed<'de> for EnvelopeSeed<'_, '_> {
    type Value = Decoded;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Decoded, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EnvelopeSeed<'_, '_> {
    type Value = Decoded;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record envelope")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Decoded, A::Error> {
        let (mut key, mut value, mut timestamp, mut headers) = (None, None, None, None);
        let sink = self.0;
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            match name.as_ref() {
                "k" if key.is_none() => key = Some(map.next_value_seed(BytesSeed(sink))?),
                "v" if value.is_none() => value = Some(map.next_value_seed(BytesSeed(sink))?),
                "t" if timestamp.is_none() => timestamp = Some(map.next_value::<i64>()?),
                "h" if headers.is_none() => headers = Some(map.next_value_seed(HeadersSeed(sink))?),
                _ => return Err(de::Error::custom("not an envelope")),
            }
        }
        match (key, value) {
            (Some(key), Some(value)) => Ok(Decoded {
                key,
                value,
                timestamp_ms: timestamp,
                header_count: headers.unwrap_or(0),
            }),
            _ => Err(de::Error::custom("not an envelope")),
        }
    }
}

/// A base64 string or null.
struct BytesSeed<'a, 's>(&'a mut Sink<'s>);

impl<'de> DeserializeSeed<'de> for BytesSeed<'_, '_> {
    type Value = Option<Span>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for BytesSeed<'_, '_> {
    type Value = Option<Span>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("base64 or null")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        self.0
            .append_base64(text)
            .map(Some)
            .ok_or_else(|| E::custom("not base64"))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// The array of headers; yields how many there are.
struct HeadersSeed<'a, 's>(&'a mut Sink<'s>);

impl<'de> DeserializeSeed<'de> for HeadersSeed<'_, '_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for HeadersSeed<'_, '_> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of headers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<usize, A::Error> {
        let mut count = 0;
        while let Some(header) = seq.next_element_seed(HeaderSeed(self.0))? {
            self.0.headers.push(header);
            count += 1;
        }
        Ok(count)
    }
}

/// One header: an object with exactly `k` and `v`.
struct HeaderSeed<'a, 's>(&'a mut Sink<'s>);

impl<'de> DeserializeSeed<'de> for HeaderSeed<'_, '_> {
    type Value = DecodedHeader;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for HeaderSeed<'_, '_> {
    type Value = DecodedHeader;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a header")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DecodedHeader, A::Error> {
        let (mut name, mut value) = (None, None);
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match key.as_ref() {
                "k" if name.is_none() => name = Some(map.next_value_seed(NameSeed(self.0))?),
                "v" if value.is_none() => value = Some(map.next_value_seed(BytesSeed(self.0))?),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    return Err(de::Error::custom("not a header"));
                }
            }
        }
        match (name, value) {
            (Some(name), Some(value)) => Ok(DecodedHeader { name, value }),
            _ => Err(de::Error::custom("not a header")),
        }
    }
}

/// A header's name.
struct NameSeed<'a, 's>(&'a mut Sink<'s>);

impl<'de> DeserializeSeed<'de> for NameSeed<'_, '_> {
    type Value = Span;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Span, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for NameSeed<'_, '_> {
    type Value = Span;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
        Ok(self.0.append(text.as_bytes()))
    }
}

#[cfg(test)]
mod tests;
