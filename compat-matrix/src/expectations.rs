//! Which checks a target refuses, and how. Two-sided: a refusal that is promised but does not come is
//! as unexpected as one that comes without being promised, so the file cannot rot.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use reports::Outcome;
use serde::Deserialize;

use crate::files::{FileError, parse_toml, read};
use crate::spec::{Failure, Stop, Verdict};

/// The files that are part of this program.
const BUILT_IN: [(&str, &str); 5] = [
    ("facade", include_str!("../expectations/facade.toml")),
    (
        "facade-sasl-tls",
        include_str!("../expectations/facade-sasl-tls.toml"),
    ),
    (
        "facade-cloud",
        include_str!("../expectations/facade-cloud.toml"),
    ),
    ("bootstrap", include_str!("../expectations/bootstrap.toml")),
    (
        "apache-kafka",
        include_str!("../expectations/apache-kafka.toml"),
    ),
];

/// What clients do by themselves, whatever the target.
const OF_CLIENTS: (&str, &str) = ("clients", include_str!("../expectations/clients.toml"));

/// An expectations file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectations {
    /// Whether a check may be skipped without an entry.
    #[serde(default)]
    pub undeclared_skips: UndeclaredSkips,
    /// The entries. The first whose pattern matches a check's id counts.
    #[serde(default, rename = "expect")]
    pub entries: Vec<Entry>,
    /// What clients do by themselves. Counts where no entry of the target does.
    #[serde(skip)]
    of_clients: Vec<Entry>,
}

/// What a skip that no entry foresees means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndeclaredSkips {
    /// Nobody knows what an arbitrary server offers.
    #[default]
    Allowed,
    /// Everything is to be run.
    Unexpected,
}

/// One foreseen outcome.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// A check id in which `*` stands for any text.
    pub checks: String,
    /// What is foreseen.
    pub outcome: Foreseen,
    /// For a refusal: the Kafka error code's name, or `closed`. Several are alternatives.
    #[serde(default)]
    pub codes: Vec<String>,
    /// For [`Foreseen::Unable`]: it does not happen each time.
    #[serde(default)]
    pub sometimes: bool,
    /// Why, for the report's readers.
    pub reason: String,
}

/// Outcomes that a file may foresee. A failure of the target is none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Foreseen {
    /// The target says no, in one of the entry's words.
    Refused,
    /// The check is not made.
    Skipped,
    /// The client fails by itself, as it does against Apache Kafka.
    Unable,
}

/// Why an expectations file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read, or is not an expectations file.
    #[error(transparent)]
    File(#[from] FileError),
    /// An entry says too little.
    #[error("{path}: the entry for {checks} foresees a refusal but names no code", path = path.display())]
    NoCode {
        /// The file.
        path: PathBuf,
        /// The entry's pattern.
        checks: String,
    },
}

/// What a check came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The outcome.
    pub outcome: Outcome,
    /// Whether the target's file foresees it.
    pub expected: bool,
    /// Why, for every outcome but a plain pass.
    pub reason: Option<String>,
}

impl Expectations {
    /// A file that is part of this program (the name of a target, or `apache-kafka`), else one of the
    /// user's own.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is no expectations file.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        let name = path.display().to_string();
        let mut loaded = match BUILT_IN.iter().find(|(built_in, _)| *built_in == name) {
            Some((_, text)) => Self::parse(path, text)?,
            None => Self::parse(path, &read(path)?)?,
        };
        let (name, text) = OF_CLIENTS;
        loaded.of_clients = Self::parse(Path::new(name), text)?.entries;
        Ok(loaded)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, LoadError> {
        let parsed: Self = parse_toml(path, text)?;
        match parsed
            .entries
            .iter()
            .find(|entry| entry.outcome == Foreseen::Refused && entry.codes.is_empty())
        {
            Some(entry) => Err(LoadError::NoCode {
                path: path.to_path_buf(),
                checks: entry.checks.clone(),
            }),
            None => Ok(parsed),
        }
    }

    /// The entry for a check.
    pub fn entry(&self, id: &str) -> Option<&Entry> {
        self.entries
            .iter()
            .chain(&self.of_clients)
            .find(|entry| matches(&entry.checks, id))
    }

    /// The entries that no check of a whole run fits, when everything is to be run: what was promised
    /// is not even asked any more. An entry behind a broader one fits nothing either.
    pub fn unused(&self, ids: &[&str]) -> Vec<&Entry> {
        if self.undeclared_skips == UndeclaredSkips::Allowed {
            return Vec::new();
        }
        let counts = |id: &str| {
            self.entries
                .iter()
                .position(|entry| matches(&entry.checks, id))
        };
        let used: BTreeSet<usize> = ids.iter().filter_map(|id| counts(id)).collect();
        let entries = self.entries.iter().enumerate();
        entries
            .filter(|(at, _)| !used.contains(at))
            .map(|(_, entry)| entry)
            .collect()
    }

    /// Judges how a check ended.
    pub fn judge(&self, id: &str, verdict: &Verdict) -> Judgement {
        let entry = self.entry(id);
        let foreseen = entry.map(|entry| entry.outcome);
        match verdict {
            Ok(()) => Judgement {
                outcome: Outcome::Pass,
                expected: entry.is_none_or(|entry| entry.sometimes),
                reason: entry.filter(|entry| !entry.sometimes).map(|entry| {
                    format!(
                        "passed, but is foreseen to be {}: {}",
                        match entry.outcome {
                            Foreseen::Refused => "refused",
                            Foreseen::Skipped => "skipped",
                            Foreseen::Unable => "beyond the client",
                        },
                        entry.reason
                    )
                }),
            },
            Err(Stop::Skip(why)) => Judgement {
                outcome: Outcome::Skipped,
                expected: match foreseen {
                    Some(foreseen) => foreseen != Foreseen::Refused,
                    None => self.undeclared_skips == UndeclaredSkips::Allowed,
                },
                reason: Some(why.clone()),
            },
            // What a client lacks is not the target's doing.
            Err(Stop::Unable(why)) => Judgement {
                outcome: Outcome::Skipped,
                expected: true,
                reason: Some(why.clone()),
            },
            Err(Stop::Fail(failure)) => match entry {
                Some(entry) if entry.foresees(failure) => Judgement {
                    outcome: Outcome::Refused,
                    expected: true,
                    reason: Some(format!(
                        "{} ({})",
                        entry.reason,
                        failure.refusal.as_deref().unwrap_or_default()
                    )),
                },
                Some(entry) if entry.outcome == Foreseen::Unable => Judgement {
                    outcome: Outcome::Skipped,
                    expected: true,
                    reason: Some(format!("{} ({})", entry.reason, failure.reason)),
                },
                _ => Judgement {
                    outcome: Outcome::Fail,
                    expected: false,
                    reason: Some(failure.reason.clone()),
                },
            },
        }
    }
}

impl Entry {
    fn foresees(&self, failure: &Failure) -> bool {
        self.outcome == Foreseen::Refused
            && failure
                .refusal
                .as_ref()
                .is_some_and(|refusal| self.codes.contains(refusal))
    }
}

/// Whether `text` fits `pattern`, in which `*` stands for any text, also none.
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    // `split` yields at least one part.
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{Entry, Expectations, Foreseen, UndeclaredSkips, matches};
    use crate::spec::Stop;
    use reports::Outcome;

    #[rstest]
    #[case("a", "a", true)]
    #[case("a", "ab", false)]
    #[case("a*", "ab", true)]
    #[case("*b", "ab", true)]
    #[case("a*a", "a", false)]
    #[case("a*b*c", "a-b-b-c", true)]
    #[case("a*b*c", "a-c-b", false)]
    #[case("*", "", true)]
    #[case("", "", true)]
    #[case("", "a", false)]
    fn patterns(#[case] pattern: &str, #[case] text: &str, #[case] fits: bool) {
        assert_eq!(matches(pattern, text), fits);
    }

    fn refuses() -> Expectations {
        Expectations {
            undeclared_skips: UndeclaredSkips::Unexpected,
            entries: vec![Entry {
                checks: "wire/create-acls/*".into(),
                outcome: Foreseen::Refused,
                codes: vec!["SECURITY_DISABLED".into()],
                sometimes: false,
                reason: "no ACLs here".into(),
            }],
            of_clients: vec![Entry {
                checks: "scenario/one/groups".into(),
                outcome: Foreseen::Unable,
                codes: Vec::new(),
                sometimes: false,
                reason: "it never leaves".into(),
            }],
        }
    }

    #[test]
    fn what_a_client_does_everywhere_is_no_failure_of_the_target_and_told_when_it_ends() {
        let fails = Err(Stop::fail("still there"));
        let judged = refuses().judge("scenario/one/groups", &fails);
        assert_eq!((judged.outcome, judged.expected), (Outcome::Skipped, true));
        let why = judged.reason.unwrap();
        assert!(
            why.contains("never leaves") && why.contains("still there"),
            "{why}"
        );
        let other = refuses().judge("scenario/two/groups", &fails);
        assert_eq!((other.outcome, other.expected), (Outcome::Fail, false));
        assert!(!refuses().judge("scenario/one/groups", &Ok(())).expected);
        let mut sometimes = refuses();
        sometimes.of_clients[0].sometimes = true;
        let judged = sometimes.judge("scenario/one/groups", &Ok(()));
        assert_eq!((judged.outcome, judged.expected), (Outcome::Pass, true));
    }

    #[test]
    fn a_promised_refusal_is_expected_in_its_own_words_only() {
        let id = "wire/create-acls/v3/creates";
        let judged = refuses().judge(id, &Err(Stop::refused("no", "SECURITY_DISABLED")));
        assert_eq!((judged.outcome, judged.expected), (Outcome::Refused, true));
        let judged = refuses().judge(id, &Err(Stop::refused("no", "closed")));
        assert_eq!((judged.outcome, judged.expected), (Outcome::Fail, false));
        let judged = refuses().judge(id, &Err(Stop::fail("broken")));
        assert_eq!((judged.outcome, judged.expected), (Outcome::Fail, false));
    }

    #[test]
    fn an_entry_that_fits_no_check_is_unused_where_everything_is_to_be_run() {
        let mut file = refuses();
        file.entries.push(Entry {
            checks: "wire/create-acls/v3/*".into(),
            ..file.entries[0].clone()
        });
        let unused = |file: &Expectations, ids: &[&str]| -> Vec<String> {
            let unused = file.unused(ids).into_iter();
            unused.map(|entry| entry.checks.clone()).collect()
        };
        let ids = ["other", "wire/create-acls/v3/creates"];
        assert_eq!(unused(&file, &ids), ["wire/create-acls/v3/*"]);
        assert_eq!(unused(&refuses(), &["other"]), ["wire/create-acls/*"]);
        assert_eq!(unused(&refuses(), &ids), [""; 0]);
        file.undeclared_skips = UndeclaredSkips::Allowed;
        assert_eq!(unused(&file, &["other"]), [""; 0]);
    }

    #[test]
    fn a_refusal_that_does_not_come_is_unexpected() {
        let judged = refuses().judge("wire/create-acls/v3/creates", &Ok(()));
        assert_eq!((judged.outcome, judged.expected), (Outcome::Pass, false));
        assert!(judged.reason.is_some_and(|why| why.contains("no ACLs")));
    }

    #[test]
    fn skips_are_judged_by_the_files_policy() {
        let skip = Err(Stop::skip("not here"));
        assert!(!refuses().judge("other", &skip).expected);
        assert!(Expectations::default().judge("other", &skip).expected);
        assert!(!refuses().judge("wire/create-acls/v1/x", &skip).expected);
        let unable = Err(Stop::Unable("no zstd".into()));
        let judged = refuses().judge("other", &unable);
        assert_eq!((judged.outcome, judged.expected), (Outcome::Skipped, true));
    }

    #[test]
    fn an_undeclared_refusal_is_a_failure() {
        let judged = refuses().judge("other", &Err(Stop::refused("no", "closed")));
        assert_eq!((judged.outcome, judged.expected), (Outcome::Fail, false));
    }

    #[test]
    fn built_in_files_parse() {
        for (name, _) in super::BUILT_IN {
            Expectations::load(std::path::Path::new(name)).unwrap();
        }
    }

    #[test]
    fn a_refusal_without_a_code_is_no_entry() {
        let text = "[[expect]]\nchecks='x'\noutcome='refused'\nreason='y'\n";
        let error = Expectations::parse("t".as_ref(), text).unwrap_err();
        assert!(error.to_string().contains("names no code"), "{error}");
    }
}
