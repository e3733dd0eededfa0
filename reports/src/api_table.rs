//! The table of supported APIs that README and docs show: made from what a server advertises and
//! from checks, never typed.

use std::fmt::Write as _;

use crate::check::{Check, Outcome};
use crate::markdown::escape;
use crate::run::{Run, Window};
use crate::summary::{Cell, Summary, ranges};

/// A Markdown table: one row for each advertised API, one column for each client of `checks`.
///
/// A client's cell shows the versions it really used; versions with a failing or a refused check are
/// named after them. With `remarks` (by API key) there is one more column.
pub fn markdown(advertised: &[Window], checks: &[Check], remarks: &[(i16, &str)]) -> String {
    let run = Run {
        target: String::new(),
        describes: String::new(),
        command: String::new(),
        started_epoch_ms: 0,
        duration_ms: 0,
        advertised: advertised.to_vec(),
        suite: String::new(),
    };
    let summary = Summary::new(&run, checks);
    let mut text = String::from("| Key | API | Versions |");
    for client in &summary.clients {
        let heading = if client == "wire" {
            "Wire probes"
        } else {
            client
        };
        // Writing into a String cannot fail.
        let _ = write!(text, " {} |", escape(heading));
    }
    if !remarks.is_empty() {
        text.push_str(" Remarks |");
    }
    text.push_str("\n|---:|---|---|");
    text.push_str(&"---|".repeat(summary.clients.len() + usize::from(!remarks.is_empty())));
    text.push('\n');
    for (key, row) in &summary.rows {
        let Some((min, max)) = row.advertised else {
            continue;
        };
        let _ = write!(
            text,
            "| {key} | {} | {} |",
            escape(&row.name),
            ranges(min..=max)
        );
        for client in &summary.clients {
            let _ = write!(
                text,
                " {} |",
                row.cells.get(client).map_or("–".into(), cell)
            );
        }
        if !remarks.is_empty() {
            let of_row: Vec<String> = remarks
                .iter()
                .filter(|(of, _)| of == key)
                .map(|(_, remark)| escape(remark))
                .collect();
            let _ = write!(text, " {} |", of_row.join("; "));
        }
        text.push('\n');
    }
    text
}

fn cell(cell: &Cell) -> String {
    let of = |outcome: Outcome| {
        ranges(
            cell.versions
                .iter()
                .filter(move |(_, worst)| **worst == outcome)
                .map(|(version, _)| *version),
        )
    };
    let mut parts = Vec::new();
    let good = of(Outcome::Pass);
    if !good.is_empty() {
        parts.push(format!("✓ {good}"));
    }
    for (outcome, word) in [(Outcome::Refused, "refused"), (Outcome::Fail, "**fails**")] {
        let versions = of(outcome);
        if !versions.is_empty() {
            parts.push(format!("{word} {versions}"));
        }
    }
    if parts.is_empty() {
        parts.push("not run".to_owned());
    }
    parts.join("; ")
}
