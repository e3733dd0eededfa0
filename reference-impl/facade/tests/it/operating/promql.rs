//! As much of PromQL as it takes to see what a query names.

use std::collections::BTreeSet;

/// What a query names.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Named {
    pub series: BTreeSet<String>,
    pub labels: BTreeSet<String>,
    pub functions: BTreeSet<String>,
}

/// Words that stand before a list of labels.
const LISTS: [&str; 6] = [
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
];
const WORDS: [&str; 5] = ["and", "or", "unless", "bool", "offset"];

/// Reads `query`.
///
/// # Panics
///
/// On brackets or quotes that do not close.
pub fn named(query: &str) -> Named {
    let mut named = Named::default();
    let mut rest = query;
    // Whether a parenthesis that opens now holds labels.
    let mut is_list = false;
    while let Some(first) = rest.chars().next() {
        if first.is_ascii_alphabetic() || first == '_' || first == ':' {
            let end = rest
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':')
                .unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            rest = behind;
            if LISTS.contains(&word) {
                is_list = true;
            } else if WORDS.contains(&word) {
            } else if behind.trim_start().starts_with('(') {
                named.functions.insert(word.to_owned());
            } else if let Some(list) = behind.trim_start().strip_prefix(LISTS[0]) {
                // `sum by (label) (query)`: the function stands before the list.
                assert!(list.trim_start().starts_with('('), "{query}");
                named.functions.insert(word.to_owned());
            } else {
                named.series.insert(word.to_owned());
            }
            continue;
        }
        let skip = match first {
            '{' => {
                let inner = between(rest, '}', query);
                for matcher in inner.split(',').filter(|matcher| !matcher.is_empty()) {
                    let end = matcher.find(['=', '!']).expect("a matcher compares");
                    named.labels.insert(matcher[..end].trim().to_owned());
                }
                inner.len() + 2
            }
            '[' => between(rest, ']', query).len() + 2,
            '"' => between(rest, '"', query).len() + 2,
            '(' if is_list => {
                is_list = false;
                let inner = between(rest, ')', query);
                let labels = inner.split(',').map(|label| label.trim().to_owned());
                named
                    .labels
                    .extend(labels.filter(|label| !label.is_empty()));
                inner.len() + 2
            }
            c if c.is_ascii_digit() => {
                let is_number = |c: char| c.is_ascii_alphanumeric() || c == '.';
                rest.find(|c| !is_number(c)).unwrap_or(rest.len())
            }
            c => c.len_utf8(),
        };
        rest = &rest[skip..];
    }
    named
}

/// What stands behind the first character and before the next `close`.
fn between<'a>(text: &'a str, close: char, query: &str) -> &'a str {
    let inner = &text[1..];
    let end = inner.find(close);
    &inner[..end.unwrap_or_else(|| panic!("no {close} in {query}"))]
}

#[test]
fn a_query_is_read() {
    let set = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let query = "histogram_quantile(0.99, sum by (le, api) (rate(a_bucket{api=~\"F.*\",job!=\"x\"}[5m]))) \
                 > 2e3 and on (instance) max(b) offset 5m";
    let expected = Named {
        series: set(&["a_bucket", "b"]),
        labels: set(&["le", "api", "job", "instance"]),
        functions: set(&["histogram_quantile", "sum", "rate", "max"]),
    };
    assert_eq!(named(query), expected);
}
