//! Files that this program reads whole and writes whole: text, JSON, TOML, lines of checks. Every
//! failure names its file.

use std::io;
use std::path::{Path, PathBuf};

use reports::{Check, jsonl};
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

pub(crate) fn parse_toml<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, FileError> {
    toml::from_str(text).map_err(|source| FileError::Toml {
        path: path.to_path_buf(),
        source: Box::new(source),
    })
}

/// Writes a file, and the folder it stands in when that is not there.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), FileError> {
    let written = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    written
        .and_then(|()| std::fs::write(path, text))
        .map_err(|source| FileError::io(path, source))
}
