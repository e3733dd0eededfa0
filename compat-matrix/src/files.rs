//! Files that this program reads whole and writes whole: text, JSON, TOML, lines of checks. Every
//! failure names its file.

use std::io;
use std::path::{Path, PathBuf};

use reports::{Check, jsonl};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It holds no checks.
    #[error("{path}: {source}", path = path.display())]
    Checks {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        source: jsonl::ReadError,
    },
    /// It is not JSON of the right shape.
    #[error("{path}: {source}", path = path.display())]
    Json {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A line of it is not JSON of the right shape.
    #[error("{path}, line {line}: {source}", path = path.display())]
    Line {
        /// Which file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// It is not TOML of the right shape.
    #[error("{path}: {source}", path = path.display())]
    Toml {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<toml::de::Error>,
    },
}

impl FileError {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        Self::Io { path, source }
    }

    /// Whether the file is not there.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

pub(crate) fn read(path: &Path) -> Result<String, FileError> {
    std::fs::read_to_string(path).map_err(|source| FileError::io(path, source))
}

pub(crate) fn read_checks(path: &Path) -> Result<Vec<Check>, FileError> {
    jsonl::parse(&read(path)?).map_err(|source| FileError::Checks {
        path: path.to_path_buf(),
        source,
    })
}

pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, FileError> {
    serde_json::from_str(&read(path)?).map_err(|source| FileError::Json {
        path: path.to_path_buf(),
        source,
    })
}

/// Each line as a value of its own.
pub(crate) fn read_json_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, FileError> {
    let lines = read(path)?;
    let parsed = lines.lines().enumerate().map(|(at, line)| {
        serde_json::from_str(line).map_err(|source| FileError::Line {
            path: path.to_path_buf(),
            line: at + 1,
            source,
        })
    });
    parsed.collect()
}

pub(crate) fn parse_toml<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, FileError> {
    toml::from_str(text).map_err(|source| FileError::Toml {
        path: path.to_path_buf(),
        source: Box::new(source),
    })
}

/// Writes each value on a line of its own. They must have a JSON form, as strings and numbers do.
pub(crate) fn write_json_lines<T: Serialize>(
    path: &Path,
    values: impl IntoIterator<Item = T>,
) -> Result<(), FileError> {
    let mut text = String::new();
    for value in values {
        let line = serde_json::to_string(&value).map_err(|source| FileError::Json {
            path: path.to_path_buf(),
            source,
        })?;
        text.push_str(&line);
        text.push('\n');
    }
    write(path, &text)
}

/// Writes a file, and the folder it stands in when that is not there.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), FileError> {
    let written = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    written
        .and_then(|()| std::fs::write(path, text))
        .map_err(|source| FileError::io(path, source))
}
