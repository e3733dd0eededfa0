//! Transaction ids that count up. An idempotent producer names its records so that each id is the
//! one before plus one: a decimal at the end (`7:0:41`, `7:0:42`), or base64 of bytes that end in a
//! counter. A run of such ids is kept as its first and a count, which makes a batch cost as much as
//! a record. Pure; exact: an id belongs to one place only.

/// Digits that surely fit in a `u64`.
const MAX_DECIMAL_DIGITS: usize = 18;
/// Characters of base64 (six bits each) that fit in a `u64`.
const BASE64_TAIL: usize = 10;
/// Shorter texts are no encoded bytes.
const MIN_BASE64_CHARS: usize = 12;

/// How an id counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// It doesn't: the whole id is its prefix.
    Whole,
    /// By a decimal without leading zeros.
    Decimal,
    /// By its last ten characters, digits to the base of 64.
    Base64,
}

/// An id, taken apart. Distinct ids differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// What ids of a run share.
    pub prefix: &'a str,
    /// How they count.
    pub scheme: Scheme,
    /// The count.
    pub number: u64,
}

impl<'a> Name<'a> {
    /// Takes an id apart.
    pub fn of(id: &'a str) -> Self {
        if id.len() >= MIN_BASE64_CHARS && id.len().is_multiple_of(4) {
            let tail = id.as_bytes()[id.len() - BASE64_TAIL..].iter();
            if let Some(number) = tail
                .map(|byte| base64_digit(*byte))
                .try_fold(0, |number, digit| Some(number << 6 | digit?))
            {
                return Self {
                    // Ten characters of the alphabet are ten bytes.
                    prefix: &id[..id.len() - BASE64_TAIL],
                    scheme: Scheme::Base64,
                    number,
                };
            }
        }
        let digits = id
            .bytes()
            .rev()
            .take(MAX_DECIMAL_DIGITS)
            .take_while(u8::is_ascii_digit)
            .count();
        let tail = &id[id.len() - digits..];
        let significant = tail.trim_start_matches('0').len().max(1);
        match tail.get(tail.len().wrapping_sub(significant)..) {
            Some(decimal) if !tail.is_empty() => Self {
                prefix: &id[..id.len() - decimal.len()],
                scheme: Scheme::Decimal,
                number: decimal.parse().unwrap_or_default(),
            },
            _ => Self {
                prefix: id,
                scheme: Scheme::Whole,
                number: 0,
            },
        }
    }

    /// `self` is the id `steps` behind `first`.
    pub fn follows(&self, first: &Name<'_>, steps: u64) -> bool {
        self.scheme == first.scheme
            && self.scheme != Scheme::Whole
            && first.number.checked_add(steps) == Some(self.number)
            && self.prefix == first.prefix
    }
}

fn base64_digit(byte: u8) -> Option<u64> {
    let digit = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u64::from(digit))
}

/// Ids of neighbouring records that count up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdRun {
    /// The first id.
    pub first: Box<str>,
    /// Position of its record among those it was gathered with.
    pub position: u32,
    /// How many.
    pub count: u32,
}

/// Gathers runs from ids given in record order.
#[derive(Clone, Debug, Default)]
pub struct IdRuns {
    runs: Vec<IdRun>,
    records: u32,
}

impl IdRuns {
    /// The next record's id, `None` when it is minted.
    pub fn add(&mut self, id: Option<&str>) {
        let position = self.records;
        self.records += 1;
        let Some(id) = id else { return };
        if let Some(last) = self.runs.last_mut()
            && last.position + last.count == position
            && Name::of(id).follows(&Name::of(&last.first), u64::from(last.count))
        {
            last.count += 1;
            return;
        }
        self.runs.push(IdRun {
            first: id.into(),
            position,
            count: 1,
        });
    }

    /// The runs.
    pub fn finish(self) -> Vec<IdRun> {
        self.runs
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("abc", "abc", Scheme::Whole, 0)]
    #[case("", "", Scheme::Whole, 0)]
    #[case("a-10", "a-", Scheme::Decimal, 10)]
    #[case("a-007", "a-00", Scheme::Decimal, 7)]
    #[case("a-00", "a-0", Scheme::Decimal, 0)]
    #[case("ABCDAAAAAAAAAB", "ABCDAAAAAAAAAB", Scheme::Whole, 0)]
    #[case("AAAAAAAAAAAAAAAAAAAAAABB", "AAAAAAAAAAAAAA", Scheme::Base64, 65)]
    #[case("émissions-1/+Az", "émissions-1/+Az", Scheme::Whole, 0)]
    fn ids_come_apart(
        #[case] id: &str,
        #[case] prefix: &str,
        #[case] scheme: Scheme,
        #[case] number: u64,
    ) {
        let expected = Name {
            prefix,
            scheme,
            number,
        };
        assert_eq!(Name::of(id), expected);
    }

    proptest! {
        #[test]
        fn distinct_ids_have_distinct_names(
            ids in proptest::collection::btree_set("[ab0]{0,2}[0-9]{0,3}|[A-B/+9]{10,14}|.{0,20}", 2..40),
        ) {
            let names: BTreeSet<_> = ids
                .iter()
                .map(|id| {
                    let name = Name::of(id);
                    (name.prefix, name.scheme, name.number)
                })
                .collect();
            prop_assert_eq!(names.len(), ids.len());
        }
    }

    #[test]
    fn runs_end_where_counting_does() {
        let mut runs = IdRuns::default();
        for id in [
            Some("a-8"),
            Some("a-9"),
            Some("a-10"),
            Some("a-12"),
            None,
            Some("a-13"),
            Some("x"),
            Some("x"),
        ] {
            runs.add(id);
        }
        let runs: Vec<_> = runs
            .finish()
            .iter()
            .map(|run| (run.first.to_string(), run.position, run.count))
            .collect();
        let run = |first: &str, position, count| (first.to_owned(), position, count);
        assert_eq!(
            runs,
            [
                run("a-8", 0, 3),
                run("a-12", 3, 1),
                run("a-13", 5, 1),
                run("x", 6, 1),
                run("x", 7, 1)
            ]
        );
    }
}
