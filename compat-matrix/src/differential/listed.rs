//! `fixtures/oracle/differences.toml`: every difference that is known, with its reason. Two-sided: one
//! that is not listed fails, and one that is listed but does not occur any more fails too.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Deserialize;

use super::Family;
use super::compare::Divergence;
use crate::expectations::matches;

/// The file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Differences {
    /// The rows.
    #[serde(default, rename = "difference")]
    pub rows: Vec<Row>,
}

/// One difference. In `checks`, `field` and the values, `*` stands for any text.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The checks in which it occurs.
    pub checks: String,
    /// Where: `[2].Topics[0].ErrorCode`, the step's number before the path; or `verdict`.
    pub field: String,
    /// The facade's value.
    pub facade: String,
    /// Kafka's, by version. A version that is not named agrees with the facade.
    pub kafka: BTreeMap<String, String>,
    /// Why it is so.
    pub reason: String,
    /// Whether it may also not occur: the outcome of a race, which the reason names.
    #[serde(default)]
    pub sometimes: bool,
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// It is no list of differences.
    #[error(transparent)]
    Parse(#[from] Box<toml::de::Error>),
    /// A row says too little.
    #[error("the row for {checks} {field} gives no reason")]
    NoReason {
        /// Its checks.
        checks: String,
        /// Its field.
        field: String,
    },
    /// A row is of no family, so nobody would notice when it no longer occurs.
    #[error("the row for {checks} begins with no family's name")]
    NoFamily {
        /// Its checks.
        checks: String,
    },
    /// A row names no version.
    #[error("the row for {checks} {field} names no version of Kafka")]
    NoVersion {
        /// Its checks.
        checks: String,
        /// Its field.
        field: String,
    },
}

impl Differences {
    /// Reads the file's text.
    ///
    /// # Errors
    ///
    /// A row that is none.
    pub fn parse(text: &str) -> Result<Self, ListError> {
        let parsed: Self = toml::from_str(text).map_err(Box::new)?;
        for row in &parsed.rows {
            let (checks, field) = (row.checks.clone(), row.field.clone());
            if row.reason.trim().is_empty() {
                return Err(ListError::NoReason { checks, field });
            }
            if row.kafka.is_empty() {
                return Err(ListError::NoVersion { checks, field });
            }
            if !Family::ALL
                .iter()
                .any(|family| checks.starts_with(family.prefix()))
            {
                return Err(ListError::NoFamily { checks });
            }
        }
        Ok(parsed)
    }

    /// What is not listed, and which rows do not occur any more.
    pub fn judge<'a>(
        &self,
        version: &str,
        family: Family,
        found: &'a [Divergence],
    ) -> (Vec<&'a Divergence>, Vec<&Row>) {
        let mut used = BTreeSet::new();
        let mut unlisted = Vec::new();
        for divergence in found {
            let mut listed = false;
            for (at, row) in self.rows.iter().enumerate() {
                if row.foresees(version, divergence) {
                    used.insert(at);
                    listed = true;
                }
            }
            if !listed {
                unlisted.push(divergence);
            }
        }
        let rows = self.rows.iter().enumerate();
        let gone = rows
            .filter(|(at, row)| {
                !row.sometimes
                    && row.checks.starts_with(family.prefix())
                    && row.kafka.contains_key(version)
                    && !used.contains(at)
            })
            .map(|(_, row)| row)
            .collect();
        (unlisted, gone)
    }
}

impl Row {
    fn foresees(&self, version: &str, found: &Divergence) -> bool {
        self.kafka
            .get(version)
            .is_some_and(|kafka| matches(kafka, &found.kafka))
            && matches(&self.facade, &found.facade)
            && matches(&self.field, &found.field)
            && matches(&self.checks, &found.check)
    }
}

/// Rows for what is not listed, with everything but the reasons: equal ones of an API's versions are
/// one row.
pub fn propose(unlisted: &BTreeMap<String, Vec<Divergence>>) -> String {
    type Where = (String, String, String);
    let mut rows = BTreeMap::<Where, BTreeMap<String, String>>::new();
    for (version, found) in unlisted {
        for one in found {
            let key = (
                any_version(&one.check),
                one.field.clone(),
                one.facade.clone(),
            );
            rows.entry(key)
                .or_default()
                .insert(version.clone(), one.kafka.clone());
        }
    }
    let mut text = String::new();
    for ((checks, field, facade), kafka) in rows {
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let kafka: Vec<String> = kafka
            .iter()
            .map(|(version, value)| format!("{} = {}", quoted(version), quoted(value)))
            .collect();
        // A string takes every line.
        let _ = writeln!(
            text,
            "[[difference]]\nchecks = {}\nfield = {}\nfacade = {}\nkafka = {{ {} }}\nreason = \"\"\n",
            quoted(&checks),
            quoted(&field),
            quoted(&facade),
            kafka.join(", "),
        );
    }
    text
}

/// `wire/fetch/v12/empty` as `wire/fetch/v*/empty`.
fn any_version(check: &str) -> String {
    let parts = check.split('/').map(|part| {
        let digits = part.strip_prefix('v').unwrap_or_default();
        let is_version = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if is_version { "v*" } else { part }
    });
    parts.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{Differences, propose};
    use crate::differential::Family;
    use crate::differential::compare::Divergence;

    const ROW: &str = r#"
        [[difference]]
        checks = "wire/fetch/v*/empty"
        field = "[0].ErrorCode"
        facade = "NONE"
        kafka = { "4.4" = "OFFSET_OUT_OF_RANGE" }
        reason = "there is no end"
    "#;

    fn found(kafka: &str) -> Divergence {
        Divergence {
            check: "wire/fetch/v12/empty".into(),
            field: "[0].ErrorCode".into(),
            facade: "NONE".into(),
            kafka: kafka.into(),
        }
    }

    #[rstest]
    #[case("4.4", &["OFFSET_OUT_OF_RANGE"], 0, 0)]
    // Another value than the one that is listed is another difference, and the listed one is gone.
    #[case("4.4", &["NOT_LEADER_OR_FOLLOWER"], 1, 1)]
    #[case("4.4", &[], 0, 1)]
    // At 3.9 none is listed.
    #[case("3.9", &["OFFSET_OUT_OF_RANGE"], 1, 0)]
    #[case("3.9", &[], 0, 0)]
    fn a_list_is_judged_from_both_sides(
        #[case] version: &str,
        #[case] kafka: &[&str],
        #[case] unlisted: usize,
        #[case] gone: usize,
    ) {
        let list = Differences::parse(ROW).unwrap();
        let found: Vec<Divergence> = kafka.iter().map(|value| found(value)).collect();
        let judged = list.judge(version, Family::Wire, &found);
        assert_eq!((judged.0.len(), judged.1.len()), (unlisted, gone));
        let other = list.judge(version, Family::Transaction, &[]);
        assert_eq!(other.1.len(), 0, "that family does not run these checks");
    }

    #[rstest]
    #[case(ROW.replace("there is no end", " "), "no reason")]
    #[case(ROW.replace("wire/fetch", "*/fetch"), "no family")]
    #[case(ROW.replace(r#""4.4" = "OFFSET_OUT_OF_RANGE""#, ""), "no version")]
    fn rows_say_enough(#[case] text: String, #[case] expected: &str) {
        let error = Differences::parse(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn a_proposal_lacks_nothing_but_its_reason() {
        let versions = [
            ("3.9".to_owned(), vec![found("A")]),
            ("4.4".to_owned(), vec![found("B\"")]),
        ];
        let text = propose(&versions.into());
        assert!(Differences::parse(&text).is_err(), "it has no reason yet");
        let filled = text.replace("reason = \"\"", "reason = \"because\"");
        let list = Differences::parse(&filled).unwrap();
        assert_eq!(list.rows.len(), 1);
        for (version, kafka) in [("3.9", "A"), ("4.4", "B\"")] {
            let found = [found(kafka)];
            let judged = list.judge(version, Family::Wire, &found);
            assert_eq!((judged.0.len(), judged.1.len()), (0, 0), "{version}");
        }
    }
}
