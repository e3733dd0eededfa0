//! What the owner of a server knows and has accepted for a while: failures with a reason and an end date.
//!
//! An expectations file says how a server is meant to be; a waiver says that it is not, yet.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use reports::{Check, Outcome};
use serde::Deserialize;
use toml::value::Date;

use crate::expectations::matches;
use crate::files::{FileError, parse_toml, read};

/// A file of waivers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waivers {
    #[serde(default, rename = "waiver")]
    entries: Vec<Entry>,
}

/// One waiver.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// A check id in which `*` stands for any text.
    checks: String,
    /// Why the failure is accepted.
    reason: String,
    /// The last day on which it is: a date of TOML, `2027-01-31`.
    until: toml::value::Datetime,
}

/// Why a file of waivers is none.
#[derive(Debug, thiserror::Error)]
pub enum WaiversError {
    /// It cannot be read, or is not TOML of this shape.
    #[error(transparent)]
    File(#[from] FileError),
    /// A waiver without a reason, or whose end is not a day.
    #[error("{path}: the waiver for {checks} needs a reason, and a day as its end", path = path.display())]
    Incomplete {
        /// The file.
        path: PathBuf,
        /// The waiver's pattern.
        checks: String,
    },
}

impl Waivers {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`WaiversError`].
    pub fn load(file: &Path) -> Result<Self, WaiversError> {
        Self::parse(file, &read(file)?)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, WaiversError> {
        let waivers: Self = parse_toml(path, text)?;
        let incomplete =
            |entry: &&Entry| entry.reason.trim().is_empty() || entry.until.date.is_none();
        match waivers.entries.iter().find(incomplete) {
            Some(entry) => Err(WaiversError::Incomplete {
                path: path.to_path_buf(),
                checks: entry.checks.clone(),
            }),
            None => Ok(waivers),
        }
    }

    /// Marks failures as expected that a waiver of `today` covers, and says of the others when theirs
    /// ended.
    pub fn apply(&self, checks: &mut [Check], today: Date) {
        let unforeseen = |check: &&mut Check| check.outcome == Outcome::Fail && !check.expected;
        for check in checks.iter_mut().filter(unforeseen) {
            let entries = self.entries.iter();
            let fitting = entries.filter(|entry| matches(&entry.checks, &check.id));
            // The one that lasts longest.
            let Some(entry) = fitting.max_by_key(|entry| entry.until.date.map(day)) else {
                continue;
            };
            check.expected = entry
                .until
                .date
                .is_some_and(|until| day(until) >= day(today));
            let state = if check.expected {
                "waived until"
            } else {
                "no longer waived since"
            };
            let found = check.reason.as_deref().unwrap_or_default();
            check.reason = Some(format!(
                "{state} {}: {}; {found}",
                entry.until, entry.reason
            ));
        }
    }
}

const fn day(date: Date) -> (u16, u8, u8) {
    (date.year, date.month, date.day)
}

/// The day it is, in UTC.
pub fn today() -> Date {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    civil(since.as_secs() / 86_400)
}

/// The date of a day since 1970-01-01, in the Gregorian calendar.
fn civil(days: u64) -> Date {
    // Years of March to February, in eras of 400 years (146,097 days).
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    Date {
        year: u16::try_from(year).unwrap_or(u16::MAX),
        // At most 12 and 31.
        month: month as u8,
        day: (day_of_year - (153 * shifted + 2) / 5 + 1) as u8,
    }
}

#[cfg(test)]
mod tests {
    use reports::{Check, Evidence, Outcome};
    use rstest::rstest;

    use super::{Waivers, civil, day};

    #[rstest]
    #[case(0, (1970, 1, 1))]
    #[case(11_016, (2000, 2, 29))]
    #[case(11_017, (2000, 3, 1))]
    #[case(20_788, (2026, 12, 1))]
    fn days_have_dates(#[case] days: u64, #[case] date: (u16, u8, u8)) {
        assert_eq!(day(civil(days)), date);
    }

    fn failed(id: &str) -> Check {
        Check {
            id: id.into(),
            title: String::new(),
            target: "bootstrap".into(),
            client: "wire".into(),
            apis: Vec::new(),
            kips: Vec::new(),
            observed: Vec::new(),
            outcome: Outcome::Fail,
            reason: Some("it said no".into()),
            expected: false,
            evidence: Evidence::default(),
            duration_ms: 0,
        }
    }

    const FILE: &str = "[[waiver]]\nchecks = 'a/*'\nreason = 'ticket 7'\nuntil = 2026-12-01\n";

    #[test]
    fn a_failure_is_waived_to_the_end_of_its_last_day() {
        let waivers = Waivers::parse("w".as_ref(), FILE).unwrap();
        let mut checks = [failed("a/1"), failed("b/1")];
        waivers.apply(&mut checks, civil(20_788));
        assert!(checks[0].expected && !checks[1].expected);
        let reason = checks[0].reason.as_deref();
        assert_eq!(
            reason,
            Some("waived until 2026-12-01: ticket 7; it said no")
        );
        let mut late = [failed("a/1")];
        waivers.apply(&mut late, civil(20_789));
        assert!(!late[0].expected);
        assert!(
            late[0]
                .reason
                .as_deref()
                .is_some_and(|why| why.contains("no longer waived"))
        );
    }

    #[test]
    fn what_passes_is_left_alone_and_a_waiver_without_reason_or_day_is_none() {
        let mut passes = [Check {
            outcome: Outcome::Pass,
            expected: true,
            reason: None,
            ..failed("a/1")
        }];
        Waivers::parse("w".as_ref(), FILE)
            .unwrap()
            .apply(&mut passes, civil(0));
        assert_eq!(passes[0].reason, None);
        for bad in [
            FILE.replace("ticket 7", " "),
            FILE.replace("2026-12-01", "07:00:00"),
        ] {
            let error = Waivers::parse("w".as_ref(), &bad).unwrap_err();
            assert!(error.to_string().contains("the waiver for a/*"), "{error}");
        }
    }
}
