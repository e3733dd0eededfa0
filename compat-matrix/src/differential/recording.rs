//! Recorded answers: one folder for each version of Apache Kafka, one file for each family, one line
//! for each check.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::Family;
use crate::files::{self, FileError};

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
pub fn versions(folder: &Path) -> Result<Vec<String>, FileError> {
    let failed = |source| FileError::io(folder, source);
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
) -> Result<BTreeMap<String, Told>, FileError> {
    let told: Vec<Told> = files::read_json_lines(&file(folder, version, family))?;
    Ok(told
        .into_iter()
        .map(|told| (told.check.clone(), told))
        .collect())
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
) -> Result<PathBuf, FileError> {
    let path = file(folder, version, family);
    files::write_json_lines(&path, told.values())?;
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
