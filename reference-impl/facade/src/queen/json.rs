//! The few JSON writers of the hot path. Everything else goes through `serde_json`.

use std::io::Write;

/// Appends `text` as a JSON string.
pub(crate) fn write_str(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut clean_from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            0..=0x1f => b"",
            _ => continue,
        };
        out.extend_from_slice(&text.as_bytes()[clean_from..at]);
        if escape.is_empty() {
            write_fmt(out, format_args!("\\u{byte:04x}"));
        } else {
            out.extend_from_slice(escape);
        }
        clean_from = at + 1;
    }
    out.extend_from_slice(&text.as_bytes()[clean_from..]);
    out.push(b'"');
}

/// Appends a number (or anything else whose text is JSON).
pub(crate) fn write_display(out: &mut Vec<u8>, value: impl std::fmt::Display) {
    write_fmt(out, format_args!("{value}"));
}

fn write_fmt(out: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    #[expect(clippy::expect_used, reason = "a Vec takes every write")]
    out.write_fmt(arguments).expect("a Vec takes every write");
}

#[cfg(test)]
mod tests {
    use super::write_str;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn strings_are_read_back_by_serde_json(text in any::<String>()) {
            let mut out = Vec::new();
            write_str(&mut out, &text);
            prop_assert_eq!(serde_json::from_slice::<String>(&out).expect("JSON"), text);
        }
    }
}
