//! What an editor says about a value, and how that is laid out on the wire.

use std::borrow::Cow;

use crate::schema::{Kind, RoleSet};
use crate::walk::{Place, Value};

/// Decides what becomes of the values of the roles it asks for.
pub trait Editor {
    /// Why a value, and with it the whole body, is refused.
    type Refusal;

    /// The roles whose values are shown.
    fn roles(&self) -> RoleSet;

    /// Decides about one value.
    ///
    /// # Errors
    ///
    /// The editor's reason to refuse the body.
    fn edit<'e>(
        &'e mut self,
        place: &'e Place<'_>,
        value: &'e Value<'_>,
    ) -> Result<Edit<'e>, Self::Refusal>;
}

/// What becomes of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit<'e> {
    /// Forwarded as it came.
    Keep,
    /// The innermost array element around the value goes, whatever else it holds; for an array of
    /// names, the name itself.
    DropElement,
    /// Null, where this version allows it.
    Null,
    /// Another string.
    Text(Cow<'e, str>),
    /// Two strings, one behind the other: a prefix and a name, without a copy in between.
    Joined(&'e str, &'e str),
    /// Other bytes or records.
    Bytes(Cow<'e, [u8]>),
    /// Another number, of any integer type.
    Int(i64),
    /// Another uuid.
    Uuid([u8; 16]),
}

/// Why an edit does not fit its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// A string for a number, bytes for a string, and so on.
    #[error("the edit is of another type than the field")]
    Type,
    /// Null in a field or a version that has none.
    #[error("the field is not nullable in this version")]
    Null,
    /// A string above 32,767 bytes, or bytes above 2^31 - 1.
    #[error("the value is longer than the field can say")]
    Length,
    /// A number that the field's type cannot hold.
    #[error("the number does not fit the field")]
    Range,
    /// No array around the value.
    #[error("there is no array element around the value to drop")]
    NoElement,
}

/// Appends an unsigned varint.
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the count of an array, or the length of bytes, in the layout of the version.
pub(super) fn put_count(out: &mut Vec<u8>, flexible: bool, count: u32) {
    match flexible {
        true => put_varint(out, count.saturating_add(1)),
        false => out.extend_from_slice(&count.to_be_bytes()),
    }
}

/// Appends `edit` in the layout of `value`'s field. Not for `Keep` and `DropElement`, which insert
/// nothing.
pub(super) fn put(
    out: &mut Vec<u8>,
    place: &Place<'_>,
    value: &Value<'_>,
    edit: &Edit<'_>,
) -> Result<(), Misfit> {
    let (kind, flexible) = (value.field.kind, place.flexible());
    match (edit, kind) {
        (Edit::Keep | Edit::DropElement, _) => Ok(()),
        (Edit::Null, Kind::String | Kind::Bytes | Kind::Records) => {
            // The elements of an array are never nullable; the field's range is the array's.
            if value.field.array || !value.field.nullable.contains(place.version()) {
                return Err(Misfit::Null);
            }
            match (kind, flexible) {
                (_, true) => out.push(0),
                (Kind::String, false) => out.extend_from_slice(&(-1i16).to_be_bytes()),
                (_, false) => out.extend_from_slice(&(-1i32).to_be_bytes()),
            }
            Ok(())
        }
        (Edit::Text(text), Kind::String) => put_text(out, flexible, [text.as_bytes(), &[]]),
        (Edit::Joined(a, b), Kind::String) => put_text(out, flexible, [a.as_bytes(), b.as_bytes()]),
        (Edit::Bytes(bytes), Kind::Bytes | Kind::Records) => {
            let length = i32::try_from(bytes.len()).map_err(|_| Misfit::Length)?;
            put_count(out, flexible, length.unsigned_abs());
            out.extend_from_slice(bytes);
            Ok(())
        }
        (Edit::Uuid(uuid), Kind::Uuid) => {
            out.extend_from_slice(uuid);
            Ok(())
        }
        (Edit::Int(number), kind) => put_int(out, kind, *number),
        _ => Err(Misfit::Type),
    }
}

fn put_text(out: &mut Vec<u8>, flexible: bool, parts: [&[u8]; 2]) -> Result<(), Misfit> {
    let length = parts[0].len().saturating_add(parts[1].len());
    let length = i16::try_from(length).map_err(|_| Misfit::Length)?;
    match flexible {
        true => put_varint(out, u32::from(length.unsigned_abs()) + 1),
        false => out.extend_from_slice(&length.to_be_bytes()),
    }
    parts.iter().for_each(|part| out.extend_from_slice(part));
    Ok(())
}

fn put_int(out: &mut Vec<u8>, kind: Kind, number: i64) -> Result<(), Misfit> {
    macro_rules! put {
        ($type:ty) => {{
            let number = <$type>::try_from(number).map_err(|_| Misfit::Range)?;
            out.extend_from_slice(&number.to_be_bytes());
            Ok(())
        }};
    }
    match kind {
        Kind::Bool if !(0..=1).contains(&number) => Err(Misfit::Range),
        Kind::Bool | Kind::Int8 => put!(i8),
        Kind::Int16 => put!(i16),
        Kind::Uint16 => put!(u16),
        Kind::Int32 => put!(i32),
        Kind::Uint32 => put!(u32),
        Kind::Int64 => put!(i64),
        _ => Err(Misfit::Type),
    }
}
