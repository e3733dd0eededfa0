//! What strangers and settings said, as a line of a log or an error may show it. Pure.

use std::borrow::Cow;
use std::iter::Peekable;
use std::str::Chars;

/// The characters of `text` that a terminal only shows: without escape sequences, control characters
/// and the format characters that reorder or hide text. White space stays, line ends included.
pub fn visible(text: &str) -> impl Iterator<Item = char> {
    let mut characters = text.chars().peekable();
    std::iter::from_fn(move || {
        loop {
            let character = characters.next()?;
            if character == '\u{1b}' {
                skip_escape_sequence(&mut characters);
            } else if character.is_whitespace() || !is_unprintable(character) {
                return Some(character);
            }
        }
    })
}

/// `text`, or its beginning and how long it is when it has more than `max_chars` characters.
pub fn cut(text: &str, max_chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max_chars) {
        None => Cow::Borrowed(text),
        Some((at, _)) => {
            let all = max_chars + text[at..].chars().count();
            Cow::Owned(format!("{}… ({all} characters)", &text[..at]))
        }
    }
}

fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Skips the rest of a terminal escape sequence: CSI up to its final byte, OSC up to BEL or ST,
/// any other escape with its one following character.
fn skip_escape_sequence(characters: &mut Peekable<Chars<'_>>) {
    match characters.next() {
        Some('[') => {
            characters.find(|c| ('\u{40}'..='\u{7e}').contains(c));
        }
        Some(']') if characters.find(|c| matches!(c, '\u{7}' | '\u{1b}')) == Some('\u{1b}') => {
            characters.next_if_eq(&'\\');
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::plain("forbidden", "forbidden")]
    #[case::colour("\u{1b}[31mred\u{1b}[0m text", "red text")]
    #[case::title("\u{1b}]0;owned\u{7}after", "after")]
    #[case::title_st("\u{1b}]0;owned\u{1b}\\after", "after")]
    #[case::controls("a\u{0}b\u{7f}c\u{9b}d", "abcd")]
    #[case::bidi("abc\u{202e}def", "abcdef")]
    #[case::lonely_escape("x\u{1b}", "x")]
    #[case::white_space("a\tb\r\n c", "a\tb\r\n c")]
    fn only_what_is_shown_is_left(#[case] dirty: &str, #[case] clean: &str) {
        assert_eq!(visible(dirty).collect::<String>(), clean);
    }

    #[test]
    fn long_text_is_cut_between_characters_and_its_length_told() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöüß", 3), "äöü… (4 characters)");
        assert_eq!(cut(&"x".repeat(40_000), 2), "xx… (40000 characters)");
    }
}
