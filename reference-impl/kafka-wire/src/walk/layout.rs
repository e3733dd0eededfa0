//! How each type is laid out on the wire, and the look-up of the field that decides what a name
//! names. Reads what it is given, allocates nothing.

use super::place::{Datum, Decider, Place};
use crate::cursor::{Cursor, Malformed};
use crate::schema::{Field, Kind};

/// The byte in front of a nullable structure.
#[inline]
pub(super) fn present(cursor: &mut Cursor<'_>) -> Result<bool, Malformed> {
    match cursor.i8()? {
        1 => Ok(true),
        -1 => Ok(false),
        other => Err(Malformed::PresenceByte(other)),
    }
}

/// Kafka's limit of a string, which the two-byte length of the old layout set.
const MAX_STRING_BYTES: usize = i16::MAX as usize;

/// The length of a string; `None` for null.
#[inline]
pub(super) fn string_length(
    cursor: &mut Cursor<'_>,
    flexible: bool,
) -> Result<Option<usize>, Malformed> {
    if !flexible {
        return Cursor::length(i32::from(cursor.i16()?));
    }
    match cursor.compact_length()? {
        Some(length) if length > MAX_STRING_BYTES => Err(Malformed::StringTooLong(length as u32)),
        length => Ok(length),
    }
}

/// The length of bytes or the count of an array; `None` for null.
#[inline]
pub(super) fn bytes_length(
    cursor: &mut Cursor<'_>,
    flexible: bool,
) -> Result<Option<usize>, Malformed> {
    if flexible {
        cursor.compact_length()
    } else {
        Cursor::length(cursor.i32()?)
    }
}

/// The value of a kind of fixed width; `bytes` has that width.
pub(super) fn number(bytes: &[u8], kind: Kind) -> Datum<'static> {
    if let Ok(uuid) = bytes.try_into() {
        return Datum::Uuid(uuid);
    }
    let unsigned = bytes
        .iter()
        .fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    let signed = !matches!(kind, Kind::Uint16 | Kind::Uint32);
    let unused = 64 - 8 * bytes.len().clamp(1, 8) as u32;
    match signed {
        // Shifting up and back extends the sign.
        true => Datum::Int((unsigned << unused) as i64 >> unused),
        false => Datum::Int(unsigned as i64),
    }
}

/// Reads `wanted` behind `before`, from `start` on. Steps over strings without checking them: the
/// walk has checked, or will check, what it passes.
pub(super) fn decider<'a>(
    place: &Place<'a>,
    start: usize,
    before: &'static [Field],
    wanted: &'static Field,
) -> Option<Decider<'a>> {
    let mut cursor = Cursor::at(place.body, start);
    for field in before {
        if field.versions.contains(place.version) && field.tag_in(place.version).is_none() {
            step(&mut cursor, field, place)?;
        }
    }
    match step(&mut cursor, wanted, place)? {
        Some(content) if wanted.kind.fixed_bytes().is_none() => Some(Decider::Text(content)),
        Some(content) => match number(content, wanted.kind) {
            Datum::Int(value) => Some(Decider::Int(value)),
            _ => None,
        },
        None => Some(Decider::Null),
    }
}

/// Steps over one field that is no array and no structure; `Some(None)` for null, `None` when the
/// bytes end.
fn step<'a>(
    cursor: &mut Cursor<'a>,
    field: &'static Field,
    place: &Place<'a>,
) -> Option<Option<&'a [u8]>> {
    if field.array {
        return None;
    }
    let length = match field.kind {
        Kind::String => string_length(cursor, place.flexible).ok()?,
        Kind::Bytes | Kind::Records => bytes_length(cursor, place.flexible).ok()?,
        Kind::Struct(_) => return None,
        kind => kind.fixed_bytes(),
    };
    match length {
        Some(length) => cursor.take(length).ok().map(Some),
        None => Some(None),
    }
}
