//! The result of checks, and its renderings.
//!
//! A [`Check`] is the one value that probes, client scenarios and simulations emit. Everything here
//! turns a list of them, with what is known of the [`Run`], into something to read: a terminal
//! table, a self-contained page, Markdown, JUnit XML and JSON lines. This crate knows no target, no
//! client and no protocol; it touches the disk only in [`write_all`].

pub mod api_table;
pub mod badge;
pub mod changes;
pub mod check;
pub mod evidence;
pub mod html;
pub mod jsonl;
pub mod junit;
pub mod markdown;
pub mod run;
pub mod summary;
pub mod terminal;

use std::io;
use std::path::{Path, PathBuf};

pub use check::{ApiUse, Check, Outcome};
pub use evidence::{Decoded, Difference, Evidence, Exchange, Frame, Received};
pub use run::{Run, Window};
pub use summary::{Counts, Summary};

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {source}", path = path.display())]
pub struct WriteError {
    /// The file or folder.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// Writes `index.html`, `report.md`, `junit.xml`, `checks.jsonl` and `run.json` into `folder`, which is made
/// when it is absent.
///
/// # Errors
///
/// The first file that could not be written.
pub fn write_all(folder: &Path, run: &Run, checks: &[Check]) -> Result<(), WriteError> {
    let at = |path: &Path| {
        let path = path.to_path_buf();
        move |source| WriteError { path, source }
    };
    std::fs::create_dir_all(folder).map_err(at(folder))?;
    for (name, text) in [
        ("index.html", html::render(run, checks)),
        ("report.md", markdown::render(run, checks)),
        ("junit.xml", junit::render(run, checks)),
        ("checks.jsonl", jsonl::render(checks)),
        ("run.json", run.json()),
    ] {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(at(&path))?;
    }
    Ok(())
}
