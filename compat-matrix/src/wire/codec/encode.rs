//! JSON into bytes.
//!
//! What the JSON leaves out is neutral: zero, false, an empty string or array, and null where the
//! version allows it; a tagged field that is left out is not written. A probe that needs another
//! value says so.

use kafka_wire::schema::{Field, Kind, Message};
use serde_json::Value as Json;

use super::decode_uuid;

/// Why JSON is not the message. Always a mistake of the probe, never of the target.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EncodeError {
    /// A name that no version of the structure has.
    #[error("{path}: {of} has no field {name} in any version")]
    NoSuchField {
        /// Where.
        path: String,
        /// The structure.
        of: &'static str,
        /// The name.
        name: String,
    },
    /// A value that the field cannot hold.
    #[error("{path}: {value} is not a {kind}")]
    WrongKind {
        /// Where.
        path: String,
        /// The JSON text.
        value: String,
        /// The field's type.
        kind: String,
    },
    /// A version that the message does not have.
    #[error("{message} has no version {version}")]
    NoSuchVersion {
        /// The message.
        message: &'static str,
        /// The version.
        version: i16,
    },
}

/// A body, and where its lengths stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// The bytes.
    pub body: Vec<u8>,
    /// Every length and count, in order.
    pub marks: Vec<Mark>,
}

/// A length or count on the wire: what a hostile client would lie about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its first byte in the body.
    pub at: usize,
    /// How many bytes it takes.
    pub width: usize,
    /// Whether it is an unsigned varint of the value plus one.
    pub compact: bool,
}

/// Writes the body of `message` in `version`.
///
/// # Errors
///
/// [`EncodeError`]: the JSON does not fit the schema.
pub fn encode(message: &Message, version: i16, json: &Json) -> Result<Encoded, EncodeError> {
    encode_with_tag(message, version, json, None)
}

/// As [`encode`], with one more tagged field, of a number that Kafka does not use, at the message's
/// end. Only flexible versions have room for it.
///
/// # Errors
///
/// [`EncodeError`]: the JSON does not fit the schema.
pub fn encode_with_tag(
    message: &Message,
    version: i16,
    json: &Json,
    unknown: Option<(u32, &[u8])>,
) -> Result<Encoded, EncodeError> {
    if !message.versions.contains(version) {
        return Err(EncodeError::NoSuchVersion {
            message: message.name,
            version,
        });
    }
    let mut encoder = Encoder {
        encoded: Encoded::default(),
        version,
        flexible: message.flexible.contains(version),
    };
    encoder.fields("", message.name, message.fields, json, unknown)?;
    Ok(encoder.encoded)
}

struct Encoder {
    encoded: Encoded,
    version: i16,
    flexible: bool,
}

impl Encoder {
    fn fields(
        &mut self,
        path: &str,
        of: &'static str,
        fields: &[Field],
        json: &Json,
        unknown: Option<(u32, &[u8])>,
    ) -> Result<(), EncodeError> {
        let object = json.as_object().ok_or_else(|| wrong(path, json, of))?;
        for name in object.keys() {
            if !fields.iter().any(|field| field.name == name) {
                return Err(EncodeError::NoSuchField {
                    path: path.to_owned(),
                    of,
                    name: name.clone(),
                });
            }
        }
        let version = self.version;
        let present = fields
            .iter()
            .filter(|field| field.versions.contains(version));
        let mut tagged = Vec::new();
        for field in present {
            let value = object.get(field.name);
            let path = join(path, field.name);
            match (field.tag_in(self.version), value) {
                (None, value) => self.field(&path, field, value.unwrap_or(&Json::Null))?,
                (Some(tag), Some(value)) => {
                    let mut inner = Self {
                        encoded: Encoded::default(),
                        ..*self
                    };
                    inner.field(&path, field, value)?;
                    tagged.push((tag, inner.encoded.body));
                }
                (Some(_), None) => {}
            }
        }
        if self.flexible {
            tagged.extend(unknown.map(|(tag, content)| (tag, content.to_vec())));
            tagged.sort_by_key(|(tag, _)| *tag);
            self.varint(tagged.len());
            for (tag, content) in tagged {
                self.varint(tag as usize);
                self.varint(content.len());
                self.encoded.body.extend(content);
            }
        }
        Ok(())
    }

    fn field(&mut self, path: &str, field: &Field, json: &Json) -> Result<(), EncodeError> {
        let nullable = field.nullable.contains(self.version);
        if !field.array {
            return self.single(path, field, json, nullable);
        }
        match json {
            Json::Null if nullable => self.length(4, None),
            Json::Null => self.length(4, Some(0)),
            Json::Array(elements) => {
                self.length(4, Some(elements.len()));
                for (at, element) in elements.iter().enumerate() {
                    self.single(&format!("{path}[{at}]"), field, element, false)?;
                }
            }
            other => return Err(wrong(path, other, "array")),
        }
        Ok(())
    }

    fn single(
        &mut self,
        path: &str,
        field: &Field,
        json: &Json,
        nullable: bool,
    ) -> Result<(), EncodeError> {
        let kind = || format!("{:?}", field.kind);
        match (field.kind, json) {
            (Kind::Struct(_), Json::Null) if nullable => self.number(-1, 1),
            (Kind::Struct(nested), json) => {
                if nullable {
                    self.number(1, 1);
                }
                let empty = Json::Object(serde_json::Map::new());
                let json = if json.is_null() { &empty } else { json };
                self.fields(path, nested.name, nested.fields, json, None)?;
            }
            (Kind::String, Json::Null) => self.length(2, (!nullable).then_some(0)),
            (Kind::String, Json::String(text)) => {
                self.length(2, Some(text.len()));
                self.encoded.body.extend(text.as_bytes());
            }
            (Kind::Bytes | Kind::Records, Json::Null) => self.length(4, (!nullable).then_some(0)),
            (Kind::Bytes | Kind::Records, Json::String(text)) => {
                let bytes = match text.strip_prefix("hex:") {
                    Some(hex) => from_hex(hex).ok_or_else(|| wrong(path, json, &kind()))?,
                    None => text.clone().into_bytes(),
                };
                self.length(4, Some(bytes.len()));
                self.encoded.body.extend(bytes);
            }
            (Kind::Uuid, Json::Null) => self.encoded.body.extend([0; 16]),
            (Kind::Uuid, Json::String(text)) => {
                let uuid = decode_uuid(text).ok_or_else(|| wrong(path, json, &kind()))?;
                self.encoded.body.extend(uuid);
            }
            (Kind::Float64, Json::Null) => self.number(0, 8),
            (Kind::Float64, Json::Number(number)) => {
                let float = number.as_f64().ok_or_else(|| wrong(path, json, &kind()))?;
                self.encoded.body.extend(float.to_be_bytes());
            }
            (kind, Json::Null) => self.number(0, kind.fixed_bytes().unwrap_or(0)),
            (Kind::Bool, Json::Bool(value)) => self.number(i64::from(*value), 1),
            (
                Kind::Int8 | Kind::Int16 | Kind::Uint16 | Kind::Int32 | Kind::Uint32 | Kind::Int64,
                Json::Number(value),
            ) => {
                let value = value.as_i64().ok_or_else(|| wrong(path, json, &kind()))?;
                self.number(value, field.kind.fixed_bytes().unwrap_or(0));
            }
            (_, other) => return Err(wrong(path, other, &kind())),
        }
        Ok(())
    }

    /// The low `width` bytes of `value`, big-endian.
    fn number(&mut self, value: i64, width: usize) {
        let bytes = value.to_be_bytes();
        self.encoded.body.extend(&bytes[bytes.len() - width..]);
    }

    fn length(&mut self, width: usize, length: Option<usize>) {
        let at = self.encoded.body.len();
        if self.flexible {
            self.varint(length.map_or(0, |length| length + 1));
        } else {
            // A probe's message is far below 2^31 bytes.
            self.number(length.map_or(-1, |length| length as i64), width);
        }
        self.encoded.marks.push(Mark {
            at,
            width: self.encoded.body.len() - at,
            compact: self.flexible,
        });
    }

    fn varint(&mut self, mut value: usize) {
        while value >= 0x80 {
            self.encoded.body.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.encoded.body.push(value as u8);
    }
}

impl Encoded {
    /// The body with the length at `mark` replaced by the largest there is, and what follows as it was.
    pub fn with_huge(&self, mark: Mark) -> Vec<u8> {
        let mut body = self.body[..mark.at].to_vec();
        match (mark.compact, mark.width) {
            // 2^31 - 1 elements, as an unsigned varint of that plus one.
            (true, _) => body.extend([0x80, 0x80, 0x80, 0x80, 0x08]),
            (false, 2) => body.extend(i16::MAX.to_be_bytes()),
            (false, _) => body.extend(i32::MAX.to_be_bytes()),
        }
        body.extend(&self.body[mark.at + mark.width..]);
        body
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

fn wrong(path: &str, json: &Json, kind: &str) -> EncodeError {
    EncodeError::WrongKind {
        path: path.to_owned(),
        value: json.to_string(),
        kind: kind.to_owned(),
    }
}

fn from_hex(hex: &str) -> Option<Vec<u8>> {
    if !hex.len().is_multiple_of(2) {
        return None;
    }
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok())
        .collect()
}
