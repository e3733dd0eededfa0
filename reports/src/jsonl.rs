//! `checks.jsonl`: one check a line.

use crate::check::Check;

/// Why a line could not be read back.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {source}")]
pub struct ReadError {
    /// The line's number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub source: serde_json::Error,
}

/// One line for each check, each ended by a line feed.
pub fn render(checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        text.push_str(&line(check));
        text.push('\n');
    }
    text
}

/// The JSON form of one check, without a line feed.
pub fn line(check: &Check) -> String {
    // A check is a struct of strings, numbers and JSON values: it always has a JSON form.
    serde_json::to_string(check).unwrap_or_default()
}

/// Reads checks back. Blank lines are allowed.
///
/// # Errors
///
/// The first line that is no check.
pub fn parse(text: &str) -> Result<Vec<Check>, ReadError> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(at, line)| {
            serde_json::from_str(line).map_err(|source| ReadError {
                line: at + 1,
                source,
            })
        })
        .collect()
}
