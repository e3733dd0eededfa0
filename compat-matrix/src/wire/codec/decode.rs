//! Bytes into values. Runs behind `kafka_wire::walk`, which has proved every length; it still never
//! trusts one, because a decoder that needs a proof elsewhere is one refactoring from an abort.

use bytes::Bytes;
use kafka_wire::schema::{Field, Kind, Message, Role};

use super::Value;

/// Why bytes are not the message.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum DecodeError {
    /// They end inside a field.
    #[error("the bytes end inside {0}")]
    Short(&'static str),
    /// A length that cannot be.
    #[error("{0} has a length that cannot be")]
    Length(&'static str),
    /// A null that may not be.
    #[error("{0} is null")]
    Null(&'static str),
    /// Text that is none.
    #[error("{0} is not UTF-8")]
    Text(&'static str),
    /// Bytes behind the end.
    #[error("{0} bytes behind the end")]
    Trailing(usize),
}

/// Reads the body of `message` in `version`.
///
/// # Errors
///
/// [`DecodeError`] when the bytes are not exactly such a body.
pub fn decode(message: &Message, version: i16, body: &Bytes) -> Result<Value, DecodeError> {
    let mut decoder = Decoder {
        rest: body.clone(),
        version,
        flexible: message.flexible.contains(version),
    };
    let value = decoder.fields(message.name, message.fields)?;
    match decoder.rest.len() {
        0 => Ok(value),
        left => Err(DecodeError::Trailing(left)),
    }
}

struct Decoder {
    rest: Bytes,
    version: i16,
    flexible: bool,
}

impl Decoder {
    fn fields(&mut self, of: &'static str, fields: &'static [Field]) -> Result<Value, DecodeError> {
        let mut values = Vec::new();
        for field in fields {
            if field.versions.contains(self.version) && field.tag_in(self.version).is_none() {
                values.push((field.name, self.field(field)?));
            }
        }
        if self.flexible {
            for _ in 0..self.varint(of)? {
                let tag = self.varint(of)?;
                let size = self.varint(of)?;
                let content = self.take(of, size as usize)?;
                let known = fields
                    .iter()
                    .find(|field| field.tag_in(self.version) == Some(tag));
                values.push(match known {
                    Some(field) => {
                        let mut inner = Self {
                            rest: content,
                            ..*self
                        };
                        let value = inner.field(field)?;
                        if !inner.rest.is_empty() {
                            return Err(DecodeError::Trailing(inner.rest.len()));
                        }
                        (field.name, value)
                    }
                    None => ("(unknown tag)", Value::Bytes(content)),
                });
            }
        }
        Ok(Value::Fields(values))
    }

    fn field(&mut self, field: &'static Field) -> Result<Value, DecodeError> {
        let nullable = field.nullable.contains(self.version);
        if !field.array {
            return self.single(field, nullable);
        }
        let Some(count) = self.long_length(field.name)? else {
            return null(field.name, nullable);
        };
        // No element is smaller than a byte.
        if count > self.rest.len() {
            return Err(DecodeError::Short(field.name));
        }
        (0..count)
            .map(|_| self.single(field, false))
            .collect::<Result<_, _>>()
            .map(Value::List)
    }

    fn single(&mut self, field: &'static Field, nullable: bool) -> Result<Value, DecodeError> {
        let name = field.name;
        Ok(match field.kind {
            Kind::Struct(nested) => {
                if nullable && self.number(name, 1)? == -1 {
                    return Ok(Value::Null);
                }
                return self.fields(nested.name, nested.fields);
            }
            Kind::String => match self.short_length(name)? {
                None => return null(name, nullable),
                Some(length) => Value::Text(
                    std::str::from_utf8(&self.take(name, length)?)
                        .map_err(|_| DecodeError::Text(name))?
                        .to_owned(),
                ),
            },
            Kind::Bytes | Kind::Records => match self.long_length(name)? {
                None => return null(name, nullable),
                Some(length) => {
                    let bytes = self.take(name, length)?;
                    if matches!(field.kind, Kind::Records) {
                        Value::Records(bytes)
                    } else {
                        Value::Bytes(bytes)
                    }
                }
            },
            Kind::Bool => Value::Bool(self.number(name, 1)? != 0),
            Kind::Int16 if field.role == Role::ErrorCode => {
                // Two bytes always fit.
                Value::Code(self.number(name, 2)? as i16)
            }
            Kind::Uint16 => Value::Int(self.number(name, 2)? & 0xffff),
            Kind::Uint32 => Value::Int(self.number(name, 4)? & 0xffff_ffff),
            Kind::Int8 => Value::Int(self.number(name, 1)?),
            Kind::Int16 => Value::Int(self.number(name, 2)?),
            Kind::Int32 => Value::Int(self.number(name, 4)?),
            Kind::Int64 => Value::Int(self.number(name, 8)?),
            Kind::Float64 => Value::Float(f64::from_bits(self.number(name, 8)?.cast_unsigned())),
            Kind::Uuid => {
                let bytes = self.take(name, 16)?;
                Value::Uuid(bytes[..].try_into().map_err(|_| DecodeError::Short(name))?)
            }
        })
    }

    fn take(&mut self, name: &'static str, length: usize) -> Result<Bytes, DecodeError> {
        if length > self.rest.len() {
            return Err(DecodeError::Short(name));
        }
        Ok(self.rest.split_to(length))
    }

    /// A big-endian number of `width` bytes, sign extended.
    fn number(&mut self, name: &'static str, width: usize) -> Result<i64, DecodeError> {
        let bytes = self.take(name, width)?;
        let negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
        Ok(bytes
            .iter()
            .fold(if negative { -1 } else { 0 }, |value, byte| {
                value << 8 | i64::from(*byte)
            }))
    }

    fn varint(&mut self, name: &'static str) -> Result<u32, DecodeError> {
        let mut value = 0_u64;
        for shift in (0..35).step_by(7) {
            let byte = self.take(name, 1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(value).map_err(|_| DecodeError::Length(name));
            }
        }
        Err(DecodeError::Length(name))
    }

    /// The length of a string.
    fn short_length(&mut self, name: &'static str) -> Result<Option<usize>, DecodeError> {
        self.length(name, 2)
    }

    /// The length of bytes, or the count of an array.
    fn long_length(&mut self, name: &'static str) -> Result<Option<usize>, DecodeError> {
        self.length(name, 4)
    }

    fn length(&mut self, name: &'static str, width: usize) -> Result<Option<usize>, DecodeError> {
        if self.flexible {
            return Ok((self.varint(name)? as usize).checked_sub(1));
        }
        match self.number(name, width)? {
            -1 => Ok(None),
            length => usize::try_from(length)
                .map(Some)
                .map_err(|_| DecodeError::Length(name)),
        }
    }
}

const fn null(name: &'static str, nullable: bool) -> Result<Value, DecodeError> {
    if nullable {
        Ok(Value::Null)
    } else {
        Err(DecodeError::Null(name))
    }
}
