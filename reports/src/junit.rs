//! `junit.xml`: one suite for each client, one case for each check.
//!
//! A case fails when its outcome was not expected, so a build server agrees with the exit code.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::check::{Check, Outcome};
use crate::run::Run;
use crate::summary::Counts;

/// The document.
pub fn render(run: &Run, checks: &[Check]) -> String {
    let mut suites = BTreeMap::<&str, Vec<&Check>>::new();
    for check in checks {
        suites.entry(&check.client).or_default().push(check);
    }
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let all = Counts::of(checks);
    line(
        &mut xml,
        format_args!(
            "<testsuites name=\"{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\" time=\"{}\">",
            escape(&run.target),
            all.total(),
            all.unexpected,
            quietly_skipped(checks.iter()),
            seconds(run.duration_ms),
        ),
    );
    for (client, checks) in suites {
        let counts = Counts::of(checks.iter().copied());
        line(
            &mut xml,
            format_args!(
                "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\" time=\"{}\">",
                escape(client),
                counts.total(),
                counts.unexpected,
                quietly_skipped(checks.iter().copied()),
                seconds(checks.iter().map(|check| check.duration_ms).sum()),
            ),
        );
        if !run.suite.is_empty() {
            line(
                &mut xml,
                format_args!(
                    "    <properties><property name=\"suite\" value=\"{}\"/></properties>",
                    escape(&run.suite)
                ),
            );
        }
        for check in checks {
            case(&mut xml, check);
        }
        xml.push_str("  </testsuite>\n");
    }
    xml.push_str("</testsuites>\n");
    xml
}

/// Skipped cases that are not shown as failures.
fn quietly_skipped<'a>(checks: impl Iterator<Item = &'a Check>) -> usize {
    checks
        .filter(|check| check.expected && check.outcome == Outcome::Skipped)
        .count()
}

fn case(xml: &mut String, check: &Check) {
    let reason = check.reason.as_deref().unwrap_or_default();
    line(
        xml,
        format_args!(
            "    <testcase classname=\"{}\" name=\"{}\" time=\"{}\">",
            escape(&format!("{}.{}", check.target, check.client)),
            escape(&check.id),
            seconds(check.duration_ms),
        ),
    );
    match (check.expected, check.outcome) {
        (false, outcome) => line(
            xml,
            format_args!(
                "      <failure type=\"unexpected {outcome}\" message=\"{}\">{}</failure>",
                escape(reason),
                escape(&failure_text(check)),
            ),
        ),
        (true, Outcome::Skipped) => line(
            xml,
            format_args!("      <skipped message=\"{}\"/>", escape(reason)),
        ),
        (true, Outcome::Refused | Outcome::Fail) => line(
            xml,
            format_args!(
                "      <system-out>{}: {}</system-out>",
                check.outcome,
                escape(reason)
            ),
        ),
        (true, Outcome::Pass) => {}
    }
    xml.push_str("    </testcase>\n");
}

fn failure_text(check: &Check) -> String {
    match &check.evidence.difference {
        Some(difference) => format!("{}\n{difference}", check.title),
        None => check.title.clone(),
    }
}

fn line(xml: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing into a String cannot fail.
    let _ = writeln!(xml, "{arguments}");
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

/// Text for an attribute or an element. Characters that XML 1.0 cannot hold at all are replaced.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\n' => escaped.push_str("&#10;"),
            '\r' => escaped.push_str("&#13;"),
            '\t' => escaped.push_str("&#9;"),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}
