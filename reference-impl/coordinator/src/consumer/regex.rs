//! Subscriptions by pattern (RE2 syntax, KIP-848), through an engine whose time is linear in the
//! text. A pattern matches whole topic names.
//!
//! `regex` reads nearly RE2's syntax. What RE2 reads differently is translated first: `\Q…\E`, set
//! operators and brackets that are plain characters inside a class; flags RE2 lacks are refused.

use std::collections::BTreeSet;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};

use super::topics::Topics;

/// The longest pattern, in bytes. Topic names have at most 249 characters.
pub const MAX_PATTERN_BYTES: usize = 4096;
/// The most memory a compiled pattern may take, and the same again for its cache.
const MAX_COMPILED_BYTES: usize = 1 << 20;
/// How deep groups may nest.
const MAX_NESTING: u32 = 64;

/// The pattern cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegexError {
    /// Longer than [`MAX_PATTERN_BYTES`].
    #[error("SubscribedTopicRegex has more than {MAX_PATTERN_BYTES} bytes.")]
    TooLong,
    /// It would take too much memory.
    #[error("SubscribedTopicRegex is too large when it is compiled.")]
    TooLarge,
    /// Not RE2 syntax.
    #[error("SubscribedTopicRegex is not a valid regular expression: {0}")]
    Syntax(String),
}

/// Compiles `pattern` so that it matches whole names.
pub(super) fn compile(pattern: &str) -> Result<Regex, RegexError> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(RegexError::TooLong);
    }
    let translated = translate(pattern)?;
    // On its own first: a stray parenthesis must not close the group around it.
    build(&translated)?;
    build(&format!(r"\A(?:{translated})\z"))
}

fn build(pattern: &str) -> Result<Regex, RegexError> {
    RegexBuilder::new(pattern)
        .size_limit(MAX_COMPILED_BYTES)
        .dfa_size_limit(MAX_COMPILED_BYTES)
        .nest_limit(MAX_NESTING)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => RegexError::TooLarge,
            // Several lines, the last of which says what is wrong.
            other => {
                let text = other.to_string();
                let what = text.lines().last().unwrap_or_default();
                RegexError::Syntax(what.trim_start_matches("error: ").to_owned())
            }
        })
}

/// The topics whose whole name matches.
pub(super) fn resolve(regex: &Regex, topics: &Topics) -> BTreeSet<Arc<str>> {
    topics
        .iter()
        .filter(|(name, _)| regex.is_match(name))
        .map(|(name, _)| Arc::clone(name))
        .collect()
}

/// `pattern` in the words of the `regex` crate.
fn translate(pattern: &str) -> Result<String, RegexError> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix(r"\Q") {
            let (literal, after) = quoted.split_once(r"\E").unwrap_or((quoted, ""));
            out.push_str(&regex::escape(literal));
            rest = after;
        } else if c == '\\' {
            let taken = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
            out.push_str(&rest[..taken]);
            rest = &rest[taken..];
        } else if c == '[' {
            rest = class(rest, &mut out);
        } else {
            if let Some(flags) = rest.strip_prefix("(?") {
                check_flags(flags)?;
            }
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    Ok(out)
}

/// Copies the class that `rest` begins with; returns what follows it.
fn class<'a>(rest: &'a str, out: &mut String) -> &'a str {
    let mut body = &rest[1..];
    out.push('[');
    if let Some(after) = body.strip_prefix('^') {
        out.push('^');
        body = after;
    }
    // A bracket in the first place is a member.
    if let Some(after) = body.strip_prefix(']') {
        out.push_str(r"\]");
        body = after;
    }
    while let Some(c) = body.chars().next() {
        let mut taken = c.len_utf8();
        match c {
            ']' => {
                out.push(']');
                return &body[1..];
            }
            '\\' => {
                taken += body[1..].chars().next().map_or(0, char::len_utf8);
                out.push_str(&body[..taken]);
            }
            '[' => match body.starts_with("[:").then(|| body.find(":]")).flatten() {
                Some(end) => {
                    taken = end + 2;
                    out.push_str(&body[..taken]);
                }
                None => out.push_str(r"\["),
            },
            '&' | '~' => {
                out.push('\\');
                out.push(c);
            }
            _ => out.push(c),
        }
        body = &body[taken..];
    }
    // Not closed: the compiler says so.
    body
}

/// Refuses flags that RE2 does not know. `rest` follows `(?`.
fn check_flags(rest: &str) -> Result<(), RegexError> {
    let flags = rest.split([':', ')']).next().unwrap_or_default();
    // A name, which the compiler reads.
    if flags.starts_with(['P', '<']) {
        return Ok(());
    }
    match flags.chars().find(|flag| !"imsU-".contains(*flag)) {
        Some(flag) => Err(RegexError::Syntax(format!(
            "invalid or unsupported group flag {flag:?}"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{MAX_PATTERN_BYTES, RegexError, compile};

    #[rstest]
    #[case::whole_names_only("orders", "orders", true)]
    #[case::no_prefix("orders", "orders-eu", false)]
    #[case::no_suffix("orders", "my-orders", false)]
    #[case::alternation_is_whole("a|bc", "bc", true)]
    #[case::alternation_is_not_half("a|bc", "bcd", false)]
    #[case::everything(".*", "any.thing_1", true)]
    #[case::anchors("^a.*z$", "a-z", true)]
    #[case::classes("t[0-9]+", "t42", true)]
    #[case::named_classes("[[:alpha:]]+", "abc", true)]
    #[case::quoted(r"\Qa.b\E.*", "a.bc", true)]
    #[case::quoted_is_literal(r"\Qa.b\E", "axb", false)]
    #[case::quoted_to_the_end(r"\Qa.b", "a.b", true)]
    #[case::bracket_in_a_class("[[a]+", "a", true)]
    #[case::closing_bracket_first("[]a]", "a", true)]
    #[case::no_set_operators("[a-c&&b]", "a", true)]
    #[case::case_insensitive("(?i)orders", "ORDERS", true)]
    #[case::ungreedy("(?U)a+", "aaa", true)]
    #[case::named_group("(?P<x>a)b", "ab", true)]
    #[case::empty_text("", "a", false)]
    fn a_pattern_matches_as_in_re2(
        #[case] pattern: &str,
        #[case] topic: &str,
        #[case] matches: bool,
    ) {
        assert_eq!(compile(pattern).unwrap().is_match(topic), matches);
    }

    #[rstest]
    #[case::open_group("(")]
    #[case::closes_the_group_around_it("a)(b")]
    #[case::open_class("[a")]
    #[case::nothing_to_repeat("*")]
    #[case::back_reference(r"(a)\1")]
    #[case::look_ahead("(?=a)")]
    #[case::verbose_flag("(?x)a b")]
    fn what_re2_refuses_is_refused(#[case] pattern: &str) {
        assert!(
            matches!(compile(pattern), Err(RegexError::Syntax(_))),
            "{pattern}"
        );
    }

    #[test]
    fn size_is_bounded() {
        let long = "a".repeat(MAX_PATTERN_BYTES + 1);
        assert_eq!(compile(&long).unwrap_err(), RegexError::TooLong);
        let large = r"((\w{50}){50}){50}";
        assert_eq!(compile(large).unwrap_err(), RegexError::TooLarge);
        let nested = format!("{}a{}", "(".repeat(200), ")".repeat(200));
        assert!(matches!(compile(&nested), Err(RegexError::Syntax(_))));
    }

    #[test]
    fn a_pattern_that_backtracks_elsewhere_takes_no_time() {
        let regex = compile("(a+)+b").unwrap();
        assert!(!regex.is_match(&"a".repeat(100_000)));
    }
}
