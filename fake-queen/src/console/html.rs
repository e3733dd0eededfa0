//! Text and addresses inside a page: everything that callers named is escaped here. Pure.

use std::fmt::Write;

/// Characters of a name or value that are shown; the rest is left out.
pub const SHOWN_CHARS: usize = 200;

/// Appends text so that it is text and nothing else, also inside quotes, cut to what is shown.
pub fn text(out: &mut String, text: &str) {
    for (nth, c) in text.chars().enumerate() {
        if nth == SHOWN_CHARS {
            out.push('…');
            break;
        }
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // What a page must not hold, or would let text run backwards.
            c if c.is_control()
                || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
            {
                out.push('\u{fffd}');
            }
            c => out.push(c),
        }
    }
}

/// Appends a query value, whole: an address that is cut leads nowhere.
pub fn query_value(out: &mut String, value: &str) {
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            byte => {
                // Writing into a string doesn't fail.
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
}

/// A count with its thousands apart.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// A size in the largest unit that leaves something in front of the point.
pub fn bytes(value: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut scaled = value as f64;
    while scaled >= 1024.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    let places = usize::from(unit > 0);
    format!("{scaled:.places$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("<script>'\"&", "&lt;script&gt;&#39;&quot;&amp;")]
    #[case("a\u{202e}b\n", "a\u{fffd}b\u{fffd}")]
    fn text_is_only_text(#[case] from: &str, #[case] to: &str) {
        let mut out = String::new();
        text(&mut out, from);
        assert_eq!(out, to);
    }

    #[test]
    fn long_text_is_cut_and_addresses_are_not() {
        let long = "x".repeat(1000);
        let (mut shown, mut address) = (String::new(), String::new());
        text(&mut shown, &long);
        query_value(&mut address, &long);
        assert_eq!(shown.chars().count(), SHOWN_CHARS + 1);
        assert_eq!(address, long);
    }

    #[rstest]
    #[case(0, "0 B", "0")]
    #[case(1023, "1023 B", "1\u{202f}023")]
    #[case(1536, "1.5 KiB", "1\u{202f}536")]
    #[case(
        u64::MAX,
        "16777216.0 TiB",
        "18\u{202f}446\u{202f}744\u{202f}073\u{202f}709\u{202f}551\u{202f}615"
    )]
    fn numbers_are_readable(#[case] value: u64, #[case] size: &str, #[case] grouped: &str) {
        assert_eq!(bytes(value), size);
        assert_eq!(count(value), grouped);
    }
}
