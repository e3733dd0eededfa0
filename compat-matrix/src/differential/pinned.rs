//! `fixtures/oracle/pinned/VERSION.jsonl`: every single difference, by value. The [rows](super::listed)
//! say why; what is pinned here keeps a row from hiding another difference that looks like its own.
//! Written by `differential --accept`, and only read by people to see what a change changed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::compare::Divergence;
use crate::files::{self, FileError};
use crate::ids::{ranges, spelt_out, versioned};

/// The differences of some versions of one check that have the same two values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// A check, or `wire/fetch/v4-11,13/empty` for it in several versions of its API.
    checks: String,
    /// The facade's value.
    facade: String,
    /// Kafka's value.
    kafka: String,
    /// The fields.
    fields: Vec<String>,
}

fn file(folder: &Path, version: &str) -> PathBuf {
    folder.join("pinned").join(format!("{version}.jsonl"))
}

/// What is pinned of a version: nothing where nobody has looked yet.
///
/// # Errors
///
/// A file that cannot be read or holds something else.
pub fn read(folder: &Path, version: &str) -> Result<BTreeSet<Divergence>, FileError> {
    let lines: Vec<Line> = match files::read_json_lines(&file(folder, version)) {
        Err(error) if error.is_missing() => return Ok(BTreeSet::new()),
        lines => lines?,
    };
    let mut pinned = BTreeSet::new();
    for line in lines {
        for check in spelt_out(&line.checks) {
            pinned.extend(line.fields.iter().map(|field| Divergence {
                check: check.clone(),
                field: field.clone(),
                facade: line.facade.clone(),
                kafka: line.kafka.clone(),
            }));
        }
    }
    Ok(pinned)
}

/// Pins these.
///
/// # Errors
///
/// A file that cannot be written.
pub fn write(
    folder: &Path,
    version: &str,
    found: &BTreeSet<Divergence>,
) -> Result<PathBuf, FileError> {
    let path = file(folder, version);
    files::write_json_lines(&path, lines(found))?;
    Ok(path)
}

fn lines(found: &BTreeSet<Divergence>) -> Vec<Line> {
    let mut fields = BTreeMap::<(&str, &str, &str), Vec<String>>::new();
    for one in found {
        let key = (one.check.as_str(), one.facade.as_str(), one.kafka.as_str());
        fields.entry(key).or_default().push(one.field.clone());
    }
    let mut alike = BTreeMap::<_, BTreeSet<u16>>::new();
    let mut lines = Vec::new();
    for ((check, facade, kafka), fields) in fields {
        match versioned(check) {
            Some((before, version, after)) => {
                let key = (before, after, facade, kafka, fields);
                alike.entry(key).or_default().insert(version);
            }
            None => lines.push(Line {
                checks: check.to_owned(),
                facade: facade.to_owned(),
                kafka: kafka.to_owned(),
                fields,
            }),
        }
    }
    lines.extend(
        alike
            .into_iter()
            .map(|((before, after, facade, kafka, fields), versions)| Line {
                checks: format!("{before}/v{}/{after}", ranges(&versions)),
                facade: facade.to_owned(),
                kafka: kafka.to_owned(),
                fields,
            }),
    );
    lines.sort();
    lines
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{lines, read, write};
    use crate::differential::compare::Divergence;

    fn found(check: &str, field: &str, facade: &str) -> Divergence {
        Divergence {
            check: check.into(),
            field: field.into(),
            facade: facade.into(),
            kafka: "k".into(),
        }
    }

    #[test]
    fn what_is_pinned_is_read_back_one_by_one() {
        let all: BTreeSet<Divergence> = [
            found("wire/fetch/v4/empty", "[0].A", "1"),
            found("wire/fetch/v4/empty", "[1].A", "1"),
            found("wire/fetch/v5/empty", "[0].A", "1"),
            found("wire/fetch/v5/empty", "[1].A", "1"),
            // Another value in one of the versions is a line of its own.
            found("wire/fetch/v6/empty", "[0].A", "2"),
            found("sequence/producer/003", "[0].A", "a\"b"),
        ]
        .into();
        assert_eq!(lines(&all).len(), 3);
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "4.4", &all).unwrap();
        assert_eq!(read(folder.path(), "4.4").unwrap(), all);
        assert!(read(folder.path(), "3.9").unwrap().is_empty());
    }
}
