//! `report.md`: what the page says, for a place that shows Markdown.

use std::fmt::Write as _;

use crate::api_table;
use crate::check::{Check, Outcome};
use crate::run::Run;
use crate::summary::{Counts, reading_order};
use crate::terminal::duration;

/// The document.
pub fn render(run: &Run, checks: &[Check]) -> String {
    let counts = Counts::of(checks);
    let mut text = format!("# Kafka compatibility of {}\n\n", escape(&run.target));
    // Writing into a String cannot fail.
    let _ = writeln!(
        text,
        "{}. {} checks in {}: {}.\n",
        escape(&run.describes),
        counts.total(),
        duration(run.duration_ms),
        Outcome::ALL
            .iter()
            .map(|outcome| format!("{} {outcome}", counts.get(*outcome)))
            .collect::<Vec<_>>()
            .join(", "),
    );
    let _ = writeln!(
        text,
        "{}\n",
        match counts.unexpected {
            0 => "Every outcome is the expected one.".to_owned(),
            1 => "**One outcome is unexpected.**".to_owned(),
            n => format!("**{n} outcomes are unexpected.**"),
        }
    );
    let _ = writeln!(text, "Repeat with `{}`.\n", run.command.replace('`', "'"));
    if !run.suite.is_empty() {
        let _ = writeln!(text, "Suite {}.\n", escape(&run.suite));
    }
    text.push_str("## APIs\n\n");
    text.push_str(&api_table::markdown(&run.advertised, checks, &[]));
    let ordered = reading_order(checks);
    section(
        &mut text,
        "Unexpected",
        ordered.iter().copied().filter(|check| !check.expected),
    );
    section(
        &mut text,
        "Refused as documented",
        ordered
            .iter()
            .copied()
            .filter(|check| check.expected && check.outcome == Outcome::Refused),
    );
    section(
        &mut text,
        "Not run",
        ordered
            .iter()
            .copied()
            .filter(|check| check.expected && check.outcome == Outcome::Skipped),
    );
    text
}

fn section<'a>(text: &mut String, title: &str, checks: impl Iterator<Item = &'a Check>) {
    let mut checks = checks.peekable();
    if checks.peek().is_none() {
        return;
    }
    let _ = writeln!(
        text,
        "\n## {title}\n\n| Check | Client | Outcome | Why |\n|---|---|---|---|"
    );
    for check in checks {
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            check.id.replace('|', "\\|").replace('`', "'"),
            escape(&check.client),
            check.outcome,
            escape(&why(check)),
        );
    }
}

fn why(check: &Check) -> String {
    let reason = check.reason.clone().unwrap_or_default();
    match &check.evidence.difference {
        Some(difference) if !reason.contains(&difference.path) => {
            format!("{reason} ({difference})")
        }
        _ => reason,
    }
}

/// Text inside a table cell: nothing in it is markup.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '|' | '\\' | '*' | '_' | '`' | '[' | ']' | '#' | '~' => {
                escaped.push('\\');
                escaped.push(character);
            }
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\n' | '\r' => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}
