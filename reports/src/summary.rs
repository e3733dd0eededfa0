//! Counts, and the grid API × client × version that every rendering shows.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::{Check, Outcome};
use crate::run::Run;

/// How many checks had which outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// [`Outcome::Pass`].
    pub pass: usize,
    /// [`Outcome::Fail`].
    pub fail: usize,
    /// [`Outcome::Refused`].
    pub refused: usize,
    /// [`Outcome::Skipped`].
    pub skipped: usize,
    /// Of all these, the outcomes that nobody expected.
    pub unexpected: usize,
}

impl Counts {
    /// Counts `checks`.
    pub fn of<'a>(checks: impl IntoIterator<Item = &'a Check>) -> Self {
        let mut counts = Self::default();
        for check in checks {
            counts.add(check);
        }
        counts
    }

    /// Counts one more.
    pub fn add(&mut self, check: &Check) {
        *match check.outcome {
            Outcome::Pass => &mut self.pass,
            Outcome::Fail => &mut self.fail,
            Outcome::Refused => &mut self.refused,
            Outcome::Skipped => &mut self.skipped,
        } += 1;
        self.unexpected += usize::from(!check.expected);
    }

    /// The count of one outcome.
    pub const fn get(&self, outcome: Outcome) -> usize {
        match outcome {
            Outcome::Pass => self.pass,
            Outcome::Fail => self.fail,
            Outcome::Refused => self.refused,
            Outcome::Skipped => self.skipped,
        }
    }

    /// All checks, run or not.
    pub const fn total(&self) -> usize {
        self.pass + self.fail + self.refused + self.skipped
    }
}

/// One cell: what one client's checks say about one API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// The checks that name the API.
    pub counts: Counts,
    /// The worst outcome of each version seen.
    pub versions: BTreeMap<i16, Outcome>,
}

/// One row: one API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The API's name.
    pub name: String,
    /// The advertised versions.
    pub advertised: Option<(i16, i16)>,
    /// By client.
    pub cells: BTreeMap<String, Cell>,
}

/// The grid of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Over all checks.
    pub counts: Counts,
    /// Every client, probes (`wire`) first.
    pub clients: Vec<String>,
    /// By API key: every API that is advertised or that a check names.
    pub rows: BTreeMap<i16, Row>,
}

impl Summary {
    /// Builds the grid.
    pub fn new(run: &Run, checks: &[Check]) -> Self {
        let mut rows = BTreeMap::<i16, Row>::new();
        for window in &run.advertised {
            rows.insert(
                window.key,
                Row {
                    name: window.name.clone(),
                    advertised: Some((window.min, window.max)),
                    cells: BTreeMap::new(),
                },
            );
        }
        let mut clients = BTreeSet::new();
        for check in checks {
            clients.insert(check.client.as_str());
            for api in &check.apis {
                let row = rows.entry(api.key).or_insert_with(|| Row {
                    name: api.name.clone(),
                    ..Row::default()
                });
                let cell = row.cells.entry(check.client.clone()).or_default();
                cell.counts.add(check);
                if check.outcome == Outcome::Skipped {
                    continue;
                }
                for version in &api.versions {
                    let worst = cell.versions.entry(*version).or_insert(check.outcome);
                    *worst = (*worst).max(check.outcome);
                }
            }
        }
        let (wire, others): (Vec<&str>, Vec<&str>) =
            clients.into_iter().partition(|client| *client == "wire");
        Self {
            counts: Counts::of(checks),
            clients: wire.into_iter().chain(others).map(String::from).collect(),
            rows,
        }
    }
}

/// `0, 3–5, 9` for ascending versions.
pub fn ranges(versions: impl IntoIterator<Item = i16>) -> String {
    let mut text = String::new();
    let mut versions = versions.into_iter().peekable();
    while let Some(first) = versions.next() {
        let mut last = first;
        while let Some(next) = versions.next_if(|next| *next == last + 1) {
            last = next;
        }
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&first.to_string());
        if last > first {
            text.push('–');
            text.push_str(&last.to_string());
        }
    }
    text
}

/// The checks in the order in which people want to read them: unexpected ones first, else by id.
pub fn reading_order(checks: &[Check]) -> Vec<&Check> {
    let mut ordered: Vec<&Check> = checks.iter().collect();
    ordered.sort_by(|a, b| a.expected.cmp(&b.expected).then_with(|| a.id.cmp(&b.id)));
    ordered
}
