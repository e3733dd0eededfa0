//! Files that settings name: read whole, below a bound, and only where reading ends by itself.
//! Blocks; not part of any simulation.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system says why.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// A folder, a pipe, a device: reading one may never end, and then no signal ends the process.
    #[error("cannot be read: it is not a regular file")]
    NotRegular,
    /// It is longer than what it is read for can be.
    #[error("cannot be read: it is longer than {0} bytes")]
    TooLong(u64),
}

/// The bytes of a regular file, or of one that a link leads to.
///
/// # Errors
///
/// [`FileError`]; nothing beyond `max_bytes` is read.
pub fn read(path: &Path, max_bytes: u64) -> Result<Vec<u8>, FileError> {
    // Looked at before it is opened: opening a pipe waits for its other end.
    regular(path)?;
    let file = File::open(path)?;
    let mut bytes = Vec::new();
    file.take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(FileError::TooLong(max_bytes));
    }
    Ok(bytes)
}

/// Whether reading `path` would end.
///
/// # Errors
///
/// [`FileError`]; nothing is read.
pub fn regular(path: &Path) -> Result<(), FileError> {
    if std::fs::metadata(path)?.is_file() {
        Ok(())
    } else {
        Err(FileError::NotRegular)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A folder of this test's own.
    struct Folder(std::path::PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_is_read_up_to_its_bound_and_no_further() {
        let folder = Folder::new("host-files-bound");
        let file = folder.0.join("secret");
        std::fs::write(&file, "12345678").unwrap();
        assert_eq!(read(&file, 8).unwrap(), b"12345678");
        assert!(matches!(read(&file, 7), Err(FileError::TooLong(7))));
        let link = folder.0.join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(read(&link, 8).unwrap(), b"12345678");
        assert!(matches!(
            read(&folder.0.join("none"), 8),
            Err(FileError::Io(_))
        ));
    }

    #[test]
    fn what_never_ends_is_not_opened() {
        let folder = Folder::new("host-files-pipe");
        let pipe = folder.0.join("pipe");
        assert!(
            Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        for path in [&pipe, &folder.0, Path::new("/dev/zero")] {
            assert!(
                matches!(read(path, 8), Err(FileError::NotRegular)),
                "{path:?}"
            );
        }
    }
}
