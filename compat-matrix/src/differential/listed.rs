//! `fixtures/oracle/differences.toml`: the reasons of all differences that are known. Two-sided: a
//! difference without a reason fails, and a reason without a difference fails too.

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
    /// What was not recorded.
    #[serde(default)]
    pub unrecorded: Vec<Unrecorded>,
}

/// A family that a version of Kafka was not asked, or whose answers are worth nothing.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unrecorded {
    /// The version.
    pub kafka: String,
    /// The family's word.
    pub family: String,
    /// Why.
    pub reason: String,
}

/// A reason and what it explains. In `checks`, `field` and the values, `*` stands for any text.
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
    /// Whether it may be otherwise in another recording: Kafka's side is the outcome of a race, which the
    /// reason names.
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
    /// A family is left out without a reason.
    #[error("{family} of Kafka {kafka} is left out without a reason")]
    LeftOut {
        /// The version.
        kafka: String,
        /// The family's word.
        family: String,
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
        let silent = parsed
            .unrecorded
            .iter()
            .find(|one| one.reason.trim().is_empty());
        match silent {
            Some(one) => Err(ListError::LeftOut {
                kafka: one.kafka.clone(),
                family: one.family.clone(),
            }),
            None => Ok(parsed),
        }
    }

    /// Why a family of a version is not recorded, where it is not.
    pub fn unrecorded(&self, version: &str, family: Family) -> Option<&str> {
        self.unrecorded
            .iter()
            .find(|one| one.kafka == version && one.family == family.word())
            .map(|one| one.reason.as_str())
    }

    /// Holds what was found against the rows and what is pinned. `anew` is for other recordings than those
    /// that were pinned: races may have ended otherwise there.
    pub fn judge<'a>(
        &'a self,
        version: &str,
        family: Family,
        found: &'a BTreeSet<Divergence>,
        pinned: &'a BTreeSet<Divergence>,
        anew: bool,
    ) -> Judged<'a> {
        let races = |one: &Divergence| {
            let mut rows = self.rows.iter();
            rows.any(|row| row.sometimes && row.foresees(version, one))
        };
        let mut used = BTreeSet::new();
        let mut judged = Judged::default();
        for divergence in found {
            let rows = self.rows.iter().enumerate();
            let fitting: Vec<(usize, &Row)> = rows
                .filter(|(_, row)| row.foresees(version, divergence))
                .collect();
            used.extend(fitting.iter().map(|(at, _)| *at));
            if fitting.is_empty() {
                judged.unlisted.push(divergence);
            } else {
                judged.lasting.insert(divergence.clone());
                let known = pinned.contains(divergence) || (anew && races(divergence));
                if !known {
                    judged.new.push(divergence);
                }
            }
        }
        judged.gone = pinned
            .iter()
            .filter(|one| {
                let known = found.contains(*one) || (anew && races(one));
                one.check.starts_with(family.prefix()) && !known
            })
            .collect();
        let rows = self.rows.iter().enumerate();
        judged.unused = rows
            .filter(|(at, row)| {
                let excused = used.contains(at) || (anew && row.sometimes);
                let asked = row.checks.starts_with(family.prefix());
                asked && row.kafka.contains_key(version) && !excused
            })
            .map(|(_, row)| row)
            .collect();
        judged
    }
}

/// What became of the differences with one version in one family.
#[derive(Debug, Default)]
pub struct Judged<'a> {
    /// No row gives a reason.
    pub unlisted: Vec<&'a Divergence>,
    /// A row gives a reason, but nobody has seen this one yet.
    pub new: Vec<&'a Divergence>,
    /// Pinned, but they do not occur any more.
    pub gone: Vec<&'a Divergence>,
    /// Rows that explain nothing any more.
    pub unused: Vec<&'a Row>,
    /// What is to be pinned.
    pub lasting: BTreeSet<Divergence>,
}

impl Row {
    /// Whether this is what the row explains.
    pub fn foresees(&self, version: &str, found: &Divergence) -> bool {
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

    /// Unlisted, new, gone and unused.
    fn counts(
        list: &Differences,
        version: &str,
        family: Family,
        found: &[&str],
        pinned: &[&str],
        anew: bool,
    ) -> [usize; 4] {
        let of = |values: &[&str]| values.iter().map(|value| self::found(value)).collect();
        let (found, pinned) = (of(found), of(pinned));
        let judged = list.judge(version, family, &found, &pinned, anew);
        [
            judged.unlisted.len(),
            judged.new.len(),
            judged.gone.len(),
            judged.unused.len(),
        ]
    }

    const OUT: &str = "OFFSET_OUT_OF_RANGE";
    const MOVED: &str = "NOT_LEADER_OR_FOLLOWER";

    #[rstest]
    #[case("4.4", &[OUT], &[OUT], [0, 0, 0, 0])]
    // A row alone does not cover what nobody has seen.
    #[case("4.4", &[OUT], &[], [0, 1, 0, 0])]
    // Another value than the one that is listed is another difference, and the listed one is gone.
    #[case("4.4", &[MOVED], &[OUT], [1, 0, 1, 1])]
    #[case("4.4", &[], &[OUT], [0, 0, 1, 1])]
    // At 3.9 none is listed.
    #[case("3.9", &[OUT], &[OUT], [1, 0, 0, 0])]
    #[case("3.9", &[], &[], [0, 0, 0, 0])]
    fn a_list_is_judged_from_both_sides(
        #[case] version: &str,
        #[case] found: &[&str],
        #[case] pinned: &[&str],
        #[case] expected: [usize; 4],
    ) {
        let list = Differences::parse(ROW).unwrap();
        let got = counts(&list, version, Family::Wire, found, pinned, false);
        assert_eq!(got, expected);
        let other = counts(&list, version, Family::Transaction, &[], pinned, false);
        assert_eq!(other, [0; 4], "that family does not run these checks");
    }

    #[rstest]
    #[case(&[OUT], &[], false, [0, 1, 0, 0])]
    #[case(&[], &[OUT], false, [0, 0, 1, 1])]
    #[case(&[OUT], &[], true, [0, 0, 0, 0])]
    #[case(&[], &[OUT], true, [0, 0, 0, 0])]
    #[case(&[MOVED], &[OUT], true, [1, 0, 0, 0])]
    fn a_race_may_end_otherwise_in_another_recording_only(
        #[case] found: &[&str],
        #[case] pinned: &[&str],
        #[case] anew: bool,
        #[case] expected: [usize; 4],
    ) {
        let list = Differences::parse(&format!("{ROW}\nsometimes = true")).unwrap();
        let got = counts(&list, "4.4", Family::Wire, found, pinned, anew);
        assert_eq!(got, expected);
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
    fn what_was_not_recorded_has_a_reason_too() {
        let text = |reason: &str| {
            format!("[[unrecorded]]\nkafka = '3.9'\nfamily = 'producer'\nreason = '{reason}'")
        };
        assert!(Differences::parse(&text(" ")).is_err());
        let list = Differences::parse(&text("a preview")).unwrap();
        let of = |version, family| list.unrecorded(version, family);
        assert_eq!(of("3.9", Family::Producer), Some("a preview"));
        assert_eq!(of("4.4", Family::Producer), None);
        assert_eq!(of("3.9", Family::Wire), None);
    }

    #[test]
    fn a_proposal_lacks_nothing_but_its_reason() {
        let versions = [
            ("3.9".to_owned(), vec![found("A")]),
            ("4.4".to_owned(), vec![found(OUT)]),
        ];
        let text = propose(&versions.into());
        assert!(Differences::parse(&text).is_err(), "it has no reason yet");
        let filled = text.replace("reason = \"\"", "reason = \"because\"");
        let list = Differences::parse(&filled).unwrap();
        assert_eq!(list.rows.len(), 1);
        for (version, kafka) in [("3.9", "A"), ("4.4", OUT)] {
            let judged = counts(&list, version, Family::Wire, &[kafka], &[kafka], false);
            assert_eq!(judged, [0; 4], "{version}");
        }
    }
}
