//! The terminal rendering: a table of APIs, then every unexpected outcome, then one line of counts.

use std::fmt::Write as _;

use tabled::builder::Builder;
use tabled::settings::object::{Columns, Rows};
use tabled::settings::themes::BorderCorrection;
use tabled::settings::{Alignment, Color, Modify, Span, Style};

use crate::check::{Check, Outcome};
use crate::run::Run;
use crate::summary::{Cell, Row, Summary, ranges, reading_order};

/// Unexpected outcomes that are told in full. The page has them all.
const TOLD_IN_FULL: usize = 30;

/// The text, without a line feed at its end. `colour` puts escape codes around outcomes.
pub fn render(run: &Run, checks: &[Check], colour: bool) -> String {
    let summary = Summary::new(run, checks);
    let mut text = table(&summary, colour);
    text.push('\n');
    unexpected(&mut text, checks, colour);
    let counts = summary.counts;
    let mut parts: Vec<String> = Outcome::ALL
        .iter()
        .map(|outcome| format!("{} {outcome}", counts.get(*outcome)))
        .collect();
    parts.push(match counts.unexpected {
        0 => "every outcome as expected".to_owned(),
        n => paint(&format!("{n} unexpected"), Outcome::Fail, colour),
    });
    // Writing into a String cannot fail.
    let _ = write!(
        text,
        "{} checks against {} in {}: {}",
        counts.total(),
        run.target,
        duration(run.duration_ms),
        parts.join(", ")
    );
    text
}

fn table(summary: &Summary, colour: bool) -> String {
    let mut builder = Builder::default();
    builder.push_record([
        "Key",
        "API",
        "Advertised",
        "Client",
        "Seen",
        "Pass",
        "Fail",
        "Refused",
        "Skipped",
    ]);
    let nothing = Cell::default();
    let mut marks = Vec::new();
    // What is not advertised and is refused as it should be needs no line.
    let told = |row: &&Row| {
        row.advertised.is_some()
            || row
                .cells
                .values()
                .any(|cell| cell.counts.unexpected > 0 || !cell.versions.is_empty())
    };
    for (key, row) in summary.rows.iter().filter(|(_, row)| told(row)) {
        let advertised = row
            .advertised
            .map_or_else(|| "–".to_owned(), |(min, max)| ranges(min..=max));
        let cells: Vec<(&str, &Cell)> = if row.cells.is_empty() {
            vec![("–", &nothing)]
        } else {
            summary
                .clients
                .iter()
                .filter_map(|client| Some((client.as_str(), row.cells.get(client)?)))
                .collect()
        };
        for (at, (client, cell)) in cells.into_iter().enumerate() {
            let first = at == 0;
            let counts = cell.counts;
            builder.push_record([
                if first {
                    key.to_string()
                } else {
                    String::new()
                },
                if first {
                    row.name.clone()
                } else {
                    String::new()
                },
                if first {
                    advertised.clone()
                } else {
                    String::new()
                },
                client.to_owned(),
                ranges(cell.versions.keys().copied()),
                count(counts.pass),
                count(counts.fail),
                count(counts.refused),
                count(counts.skipped),
            ]);
            for (column, outcome) in [
                (5, Outcome::Pass),
                (6, Outcome::Fail),
                (7, Outcome::Refused),
                (8, Outcome::Skipped),
            ] {
                if counts.get(outcome) > 0 {
                    marks.push((builder.count_records() - 1, column, outcome));
                }
            }
        }
    }
    let empty = summary.rows.is_empty();
    if empty {
        builder.push_record(["no API was seen"]);
    }
    let mut table = builder.build();
    table.with(Style::rounded());
    if empty {
        table.modify((1, 0), Span::column(9));
        table.with(BorderCorrection::span());
    }
    table.modify(Columns::one(0), Alignment::right());
    table.modify(Columns::new(5..), Alignment::right());
    table.modify(Rows::first(), Alignment::left());
    if colour {
        for (row, column, outcome) in marks {
            table.with(Modify::new((row, column)).with(color(outcome)));
        }
    }
    table.to_string()
}

fn count(n: usize) -> String {
    if n == 0 {
        "·".to_owned()
    } else {
        n.to_string()
    }
}

fn unexpected(text: &mut String, checks: &[Check], colour: bool) {
    let all: Vec<&Check> = reading_order(checks)
        .into_iter()
        .filter(|check| !check.expected)
        .collect();
    for check in all.iter().take(TOLD_IN_FULL) {
        let _ = writeln!(
            text,
            "{}  {}  [{}]\n    {}",
            paint(check.outcome.word(), check.outcome, colour),
            check.id,
            check.client,
            check.reason.as_deref().unwrap_or("no reason was given"),
        );
        if let Some(difference) = &check.evidence.difference
            && !check
                .reason
                .as_ref()
                .is_some_and(|reason| reason.contains(&difference.path))
        {
            let _ = writeln!(text, "    {difference}");
        }
    }
    if all.len() > TOLD_IN_FULL {
        let _ = writeln!(
            text,
            "… and {} more unexpected outcomes",
            all.len() - TOLD_IN_FULL
        );
    }
}

fn color(outcome: Outcome) -> Color {
    match outcome {
        Outcome::Pass => Color::FG_GREEN,
        Outcome::Fail => Color::FG_RED | Color::BOLD,
        Outcome::Refused => Color::FG_BLUE,
        Outcome::Skipped => Color::FG_YELLOW,
    }
}

fn paint(text: &str, outcome: Outcome, colour: bool) -> String {
    if colour {
        color(outcome).colorize(text)
    } else {
        text.to_owned()
    }
}

/// `830 ms`, `12.4 s`, `2 min 5 s`.
pub fn duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
    }
}
