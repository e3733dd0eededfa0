//! What each worker of a sweep is at, in a file of its own: a sweep that is killed leaves them, and
//! they tell where it was. One that ends takes them away.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::plan::Task;

/// How such files are called.
const PREFIX: &str = "running-";

/// The note of one run. It is there while this is.
#[derive(Debug)]
pub(super) struct Running {
    path: PathBuf,
}

impl Running {
    /// The worker with this number begins `task`.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub fn begin(out: &Path, worker: usize, task: &Task) -> io::Result<Self> {
        let path = out.join(format!("{PREFIX}{worker}.txt"));
        let Task { scenario, seed } = task;
        let command = format!("cargo run -p sim -- replay {scenario} --seed {seed}\n");
        fs::create_dir_all(out)?;
        fs::write(&path, command)?;
        Ok(Self { path })
    }

    /// Takes away what sweeps that were killed left in `out`.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub fn forget(out: &Path) -> io::Result<()> {
        let entries = match fs::read_dir(out) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| name.starts_with(PREFIX)) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that can't be taken away tells of a run that is over, which harms nobody.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_noted_while_it_lasts_and_what_was_left_is_forgotten() {
        let out = std::env::temp_dir().join(format!("sim-running-{}", std::process::id()));
        Running::forget(&out).unwrap();
        let task = Task {
            scenario: "join-storm".to_owned(),
            seed: 7,
        };
        let running = Running::begin(&out, 1, &task).unwrap();
        let note = out.join("running-1.txt");
        assert_eq!(
            fs::read_to_string(&note).unwrap(),
            "cargo run -p sim -- replay join-storm --seed 7\n"
        );
        drop(running);
        assert!(!note.exists());
        std::mem::forget(Running::begin(&out, 1, &task).unwrap());
        assert!(note.exists(), "as after a kill");
        Running::forget(&out).unwrap();
        assert!(!note.exists());
        fs::remove_dir(&out).unwrap();
    }
}
