//! Writing JSON by hand: the message plane renders thousands of records a call and never builds a
//! tree of them. Pure functions over byte buffers.

use serde::de::{Deserialize, Deserializer, Error};
use serde_json::value::RawValue;

/// A structure that is written as an object. Serde also takes an array for one, whose elements it
/// would read as the fields in the order of the code: not as any other reader reads them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = <&'de RawValue>::deserialize(from)?;
        if !raw.get().starts_with('{') {
            return Err(D::Error::custom("not an object"));
        }
        serde_json::from_str(raw.get())
            .map(Self)
            .map_err(D::Error::custom)
    }
}

/// Appends `text` as a JSON string with its quotes.
pub fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    escaped(out, text);
    out.push(b'"');
}

/// Appends `text` escaped, without quotes.
fn escaped(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let mut clean_from = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[clean_from..at]);
        clean_from = at + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 15)]);
            }
        }
    }
    out.extend_from_slice(&bytes[clean_from..]);
}

/// Appends a signed number.
pub fn int(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    uint(out, value.unsigned_abs());
}

/// Appends an unsigned number.
pub fn uint(out: &mut Vec<u8>, mut value: u64) {
    // u64::MAX has 20 digits.
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        // A remainder of ten fits in a byte.
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends `true` or `false`.
pub fn boolean(out: &mut Vec<u8>, value: bool) {
    raw(out, if value { "true" } else { "false" });
}

/// Appends `text`, which is JSON already.
pub fn raw(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// The JSON text of a value without the whitespace between its tokens.
pub fn compact(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let (mut in_string, mut after_backslash) = (false, false);
    for c in value.chars() {
        if in_string {
            out.push(c);
            in_string = after_backslash || c != '"';
            after_backslash = !after_backslash && c == '\\';
        } else if !matches!(c, ' ' | '\t' | '\n' | '\r') {
            out.push(c);
            in_string = c == '"';
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn strings_read_back(text in any::<String>()) {
            let mut out = Vec::new();
            string(&mut out, &text);
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }

        #[test]
        fn numbers_read_back(value in any::<i64>()) {
            let mut out = Vec::new();
            int(&mut out, value);
            prop_assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
        }
    }

    #[test]
    fn compact_drops_only_what_lies_between_tokens() {
        assert_eq!(
            compact("{ \"a b\" : [ 1 , \"\\\" \\\\\" , null ] }\n"),
            "{\"a b\":[1,\"\\\" \\\\\",null]}"
        );
    }
}
