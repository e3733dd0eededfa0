//! Recorded answers: one folder for each version of Apache Kafka, one file for each family, one line
//! for each check.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::Family;

/// What one check asked and heard, normalised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Told {
    /// The check's id.
    pub check: String,
    /// How it ended.
    pub verdict: String,
    /// In the order of the asking.
    pub steps: Vec<Answered>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    /// `Fetch v12`.
    pub asked: String,
    /// The answer's fields, or a word where there was none.
    pub answer: Json,
}

/// Why there is no recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// It cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A line is no check.
    #[error("{path}, line {line}: {source}", path = path.display())]
    Line {
        /// Which file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

fn file(folder: &Path, version: &str, family: Family) -> PathBuf {
    folder
        .join(format!("kafka-{version}"))
        .join(format!("{}.jsonl", family.word()))
}

/// The versions that are recorded, ascending.
///
/// # Errors
///
/// A folder that cannot be read.
pub fn versions(folder: &Path) -> Result<Vec<String>, RecordingError> {
    let failed = |source| RecordingError::File {
        path: folder.to_path_buf(),
        source,
    };
    let mut versions = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if let Some(version) = name.to_str().and_then(|name| name.strip_prefix("kafka-")) {
            versions.push(version.to_owned());
        }
    }
    versions.sort();
    Ok(versions)
}

/// Whether a family of a version is recorded.
pub fn is_there(folder: &Path, version: &str, family: Family) -> bool {
    file(folder, version, family).exists()
}

/// Reads what was recorded of a family, by check.
///
/// # Errors
///
/// A file that is not there or is no recording.
pub fn read(
    folder: &Path,
    version: &str,
    family: Family,
) -> Result<BTreeMap<String, Told>, RecordingError> {
    let path = file(folder, version, family);
    let text = std::fs::read_to_string(&path).map_err(|source| RecordingError::File {
        path: path.clone(),
        source,
    })?;
    text.lines()
        .enumerate()
        .map(|(at, line)| {
            let told: Told = serde_json::from_str(line).map_err(|source| RecordingError::Line {
                path: path.clone(),
                line: at + 1,
                source,
            })?;
            Ok((told.check.clone(), told))
        })
        .collect()
}

/// Writes what a family heard, in the order of the ids.
///
/// # Errors
///
/// A file that cannot be written.
pub fn write(
    folder: &Path,
    version: &str,
    family: Family,
    told: &BTreeMap<String, Told>,
) -> Result<PathBuf, RecordingError> {
    let path = file(folder, version, family);
    let failed = |source| RecordingError::File {
        path: path.clone(),
        source,
    };
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    let mut text = String::new();
    for told in told.values() {
        // Strings and JSON values always have a JSON form, and a string takes every line.
        let line = serde_json::to_string(told).unwrap_or_default();
        let _ = writeln!(text, "{line}");
    }
    std::fs::write(&path, text).map_err(failed)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Answered, Told, read, versions, write};
    use crate::differential::Family;

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let told = Told {
            check: "wire/x/v0/y".into(),
            verdict: "pass".into(),
            steps: vec![Answered {
                asked: "X v0".into(),
                answer: json!({"A": [1, null, "b"]}),
            }],
        };
        let all = [(told.check.clone(), told)].into();
        write(folder.path(), "4.4", Family::Wire, &all).unwrap();
        assert_eq!(read(folder.path(), "4.4", Family::Wire).unwrap(), all);
        assert_eq!(versions(folder.path()).unwrap(), ["4.4"]);
        let missing = read(folder.path(), "4.4", Family::Transaction).unwrap_err();
        assert!(
            missing.to_string().contains("transaction.jsonl"),
            "{missing}"
        );
    }
}
