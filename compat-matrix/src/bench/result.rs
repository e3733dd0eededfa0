//! What was measured, as plain data, and its two renderings: JSON and Markdown.

use std::fmt::Write as _;

use serde::Serialize;

use super::median;

/// One result page.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Results {
    /// The command that measured, as it was given.
    pub(super) command: String,
    /// When, in milliseconds since 1970.
    pub(super) started_epoch_ms: u64,
    /// Whether this was a smoke run, whose numbers mean nothing.
    pub(super) quick: bool,
    /// On what.
    pub(super) machine: Machine,
    /// What was measured.
    pub(super) sections: Vec<Section>,
}

/// Where it ran.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Machine {
    /// Processors this process may use.
    pub(super) processors: usize,
    /// Their model.
    pub(super) model: String,
    /// The kernel.
    pub(super) kernel: String,
    /// One-minute load before and after; other work on the machine shows in the first.
    pub(super) load: (String, String),
}

/// One goal of the performance table.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Section {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) goal: &'static str,
    pub(super) method: String,
    pub(super) series: Vec<Series>,
    pub(super) comparisons: Vec<Comparison>,
}

/// One thing measured several times.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Series {
    pub(super) case: String,
    pub(super) what: String,
    pub(super) unit: Unit,
    pub(super) median: f64,
    /// In the order they were measured.
    pub(super) values: Vec<f64>,
}

/// What medians say together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Comparison {
    pub(super) case: String,
    pub(super) what: String,
    pub(super) value: f64,
    /// `None` where it is only told.
    pub(super) goal: Option<f64>,
    /// Whether the goal is a floor; else it is a ceiling.
    pub(super) at_least: bool,
}

/// Units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Unit {
    #[serde(rename = "records/s")]
    RecordsPerSecond,
    #[serde(rename = "records/CPU s")]
    RecordsPerCpuSecond,
    #[serde(rename = "1/s")]
    PerSecond,
    #[serde(rename = "ms")]
    Milliseconds,
    #[serde(rename = "MiB")]
    Mebibytes,
    #[serde(rename = "MB/s")]
    MegabytesPerSecond,
    #[serde(rename = "")]
    Ratio,
}

impl Unit {
    const fn text(self) -> &'static str {
        match self {
            Self::RecordsPerSecond => "records/s",
            Self::RecordsPerCpuSecond => "records/CPU s",
            Self::PerSecond => "1/s",
            Self::Milliseconds => "ms",
            Self::Mebibytes => "MiB",
            Self::MegabytesPerSecond => "MB/s",
            Self::Ratio => "",
        }
    }

    fn number(self, value: f64) -> String {
        match self {
            Self::RecordsPerSecond
            | Self::RecordsPerCpuSecond
            | Self::PerSecond
            | Self::MegabytesPerSecond => grouped(value),
            Self::Milliseconds | Self::Mebibytes | Self::Ratio => format!("{value:.2}"),
        }
    }
}

impl Section {
    pub(super) fn new(
        id: &'static str,
        title: &'static str,
        goal: &'static str,
        method: String,
    ) -> Self {
        Self {
            id,
            title,
            goal,
            method,
            series: Vec::new(),
            comparisons: Vec::new(),
        }
    }

    /// Adds one measurement.
    pub(super) fn add(&mut self, case: &str, what: &str, unit: Unit, value: f64) {
        let known = |series: &&mut Series| series.case == case && series.what == what;
        let series = match self.series.iter_mut().find(known) {
            Some(series) => series,
            None => {
                self.series.push(Series {
                    case: case.into(),
                    what: what.into(),
                    unit,
                    median: f64::NAN,
                    values: Vec::new(),
                });
                let last = self.series.len() - 1;
                &mut self.series[last]
            }
        };
        series.values.push(value);
        series.median = median(&series.values);
    }

    /// The median of a series; not a number when nothing was measured.
    pub(super) fn median_of(&self, case: &str, what: &str) -> f64 {
        let mut series = self.series.iter();
        series
            .find(|series| series.case == case && series.what == what)
            .map_or(f64::NAN, |series| series.median)
    }

    /// Adds what medians say together.
    pub(super) fn compare(&mut self, comparison: Comparison) {
        self.comparisons.push(comparison);
    }
}

impl Comparison {
    /// Whether the goal is reached, where there is one.
    pub(super) fn reached(&self) -> Option<bool> {
        let goal = self.goal?;
        Some(if self.at_least {
            self.value >= goal
        } else {
            self.value <= goal
        })
    }
}

impl Results {
    /// The page.
    pub(super) fn markdown(&self) -> String {
        let mut page = String::from("# Benchmarks\n\n");
        // Writing to a string does not fail.
        let _ = writeln!(page, "Command: `{}`\n", self.command);
        let machine = &self.machine;
        let _ = writeln!(
            page,
            "Machine: {} × {}, {}; load before {}, after {}.\n",
            machine.processors, machine.model, machine.kernel, machine.load.0, machine.load.1
        );
        if self.quick {
            page.push_str(
                "**A smoke run: it shows that everything runs; its numbers mean nothing.**\n\n",
            );
        }
        for section in &self.sections {
            section.render(&mut page);
        }
        page
    }
}

impl Section {
    fn render(&self, page: &mut String) {
        let _ = writeln!(
            page,
            "## {}: {}\n\nGoal: {}.\n",
            self.id, self.title, self.goal
        );
        let _ = writeln!(page, "{}\n", self.method);
        if !self.comparisons.is_empty() {
            page.push_str("| Case | Of medians | Value | Goal | |\n|---|---|--:|--:|---|\n");
        }
        for comparison in &self.comparisons {
            let goal = comparison.goal.map_or_else(String::new, |goal| {
                let sign = if comparison.at_least { '≥' } else { '≤' };
                format!("{sign} {goal}")
            });
            let reached = match comparison.reached() {
                Some(true) => "reached",
                Some(false) => "**missed**",
                None => "",
            };
            let _ = writeln!(
                page,
                "| {} | {} | {:.2} | {goal} | {reached} |",
                comparison.case, comparison.what, comparison.value
            );
        }
        page.push_str(
            "\n| Case | What | Unit | Median | All runs, in order |\n|---|---|---|--:|---|\n",
        );
        for series in &self.series {
            let values = series.values.iter().map(|&value| series.unit.number(value));
            let _ = writeln!(
                page,
                "| {} | {} | {} | {} | {} |",
                series.case,
                series.what,
                series.unit.text(),
                series.unit.number(series.median),
                values.collect::<Vec<_>>().join(" · ")
            );
        }
        page.push('\n');
    }
}

/// A whole number with its thousands apart.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Comparison, Machine, Results, Section, Unit, grouped};

    fn results() -> Results {
        let mut section = Section::new("P0", "Title", "fast", "As it goes.".into());
        for value in [2_000.0, 1_000.0, 3_000.0] {
            section.add("case", "a side", Unit::PerSecond, value);
        }
        section.add("case", "another", Unit::Milliseconds, 1.5);
        section.compare(Comparison {
            case: "case".into(),
            what: "a / b".into(),
            value: 0.5,
            goal: Some(0.9),
            at_least: true,
        });
        Results {
            command: "x bench".into(),
            started_epoch_ms: 0,
            quick: false,
            machine: Machine {
                processors: 2,
                model: "cpu".into(),
                kernel: "linux".into(),
                load: ("0.1".into(), "2.0".into()),
            },
            sections: vec![section],
        }
    }

    #[test]
    fn the_page_says_command_goal_verdict_and_raw_numbers() {
        let page = results().markdown();
        for part in [
            "Command: `x bench`",
            "load before 0.1, after 2.0",
            "Goal: fast.",
            "| case | a / b | 0.50 | ≥ 0.9 | **missed** |",
            "| case | a side | 1/s | 2,000 | 2,000 · 1,000 · 3,000 |",
            "| case | another | ms | 1.50 | 1.50 |",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        assert!(!page.contains("smoke"));
    }

    #[test]
    fn goals_are_floors_or_ceilings() {
        let mut comparison = results().sections[0].comparisons[0].clone();
        assert_eq!(comparison.reached(), Some(false));
        comparison.at_least = false;
        assert_eq!(comparison.reached(), Some(true));
        comparison.value = f64::NAN;
        assert_eq!(
            comparison.reached(),
            Some(false),
            "nothing measured reaches nothing"
        );
        comparison.goal = None;
        assert_eq!(comparison.reached(), None);
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(grouped(7.0), "7");
        assert_eq!(grouped(1234.4), "1,234");
        assert_eq!(grouped(1_234_567.0), "1,234,567");
    }
}
