//! What changed between two runs: for whoever reads the nightly report, and for its exit status.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::check::{Check, Outcome};
use crate::markdown::escape;

/// A number counts as worse when it is worse by more than this share: below it is noise of the
/// machine.
pub const NOISE: f64 = 0.15;

/// Something that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// What, unique in a run: `P6 produce, 1 KiB, facade`.
    pub what: String,
    /// The number.
    pub value: f64,
    /// Its unit, for people.
    pub unit: String,
    /// Whether less is better, as of a time.
    pub less_is_better: bool,
}

/// What changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// As expected before, not as expected now.
    pub newly_failing: Vec<Change>,
    /// Not as expected before, as expected now.
    pub newly_passing: Vec<Change>,
    /// Ran before and did not now: nobody knows whether they still pass.
    pub not_run: Vec<Change>,
    /// Did not run before, and ran now.
    pub new: Vec<Change>,
    /// Numbers that are worse by more than [`NOISE`], with the old and the new value.
    pub slower: Vec<(Measured, f64)>,
}

/// One check that changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// The target.
    pub target: String,
    /// The check's id.
    pub id: String,
    /// What came out before; `None` where there was no such check.
    pub before: Option<Outcome>,
    /// What came out now; `None` where there is no such check.
    pub now: Option<Outcome>,
    /// Why, where the check says.
    pub reason: Option<String>,
}

impl Changes {
    /// Compares two lists of checks, and two lists of numbers.
    pub fn between(
        before: &[Check],
        now: &[Check],
        numbers_before: &[Measured],
        numbers_now: &[Measured],
    ) -> Self {
        let by_name = |checks: &'_ [Check]| -> BTreeMap<(String, String), Check> {
            let named = checks
                .iter()
                .map(|check| ((check.target.clone(), check.id.clone()), check.clone()));
            named.collect()
        };
        let (old, new) = (by_name(before), by_name(now));
        let mut changes = Self::default();
        for (name, check) in &new {
            changes.judge(old.get(name), check);
        }
        for (name, check) in &old {
            // One that did not run before either is not missed.
            if !new.contains_key(name) && check.outcome != Outcome::Skipped {
                changes.not_run.push(Change::of(Some(check), None));
            }
        }
        for number in numbers_now {
            let known = numbers_before.iter().find(|old| old.what == number.what);
            if let Some(old) = known
                && number.is_worse_than(old.value)
            {
                changes.slower.push((number.clone(), old.value));
            }
        }
        changes
    }

    fn judge(&mut self, old: Option<&Check>, check: &Check) {
        let ran = |check: &Check| check.outcome != Outcome::Skipped;
        let change = Change::of(old, Some(check));
        match old {
            None if !check.expected => self.newly_failing.push(change),
            None => self.new.push(change),
            Some(old) if old.expected && !check.expected => self.newly_failing.push(change),
            Some(old) if ran(old) && !ran(check) => self.not_run.push(change),
            Some(old) if !old.expected && check.expected => self.newly_passing.push(change),
            Some(old) if !ran(old) && ran(check) => self.new.push(change),
            Some(_) => {}
        }
    }

    /// Whether anything got worse.
    pub const fn is_regression(&self) -> bool {
        !self.newly_failing.is_empty() || !self.not_run.is_empty() || !self.slower.is_empty()
    }

    /// The changes as Markdown, worst first.
    pub fn markdown(&self) -> String {
        let mut text = String::from("# What changed\n");
        for (title, changes) in [
            ("Newly failing", &self.newly_failing),
            ("Not run any more", &self.not_run),
        ] {
            table(&mut text, title, changes);
        }
        if !self.slower.is_empty() {
            text.push_str("\n## Slower\n\n| Measured | Before | Now |\n|---|---|---|\n");
            for (number, before) in &self.slower {
                // Writing into a String cannot fail.
                let _ = writeln!(
                    text,
                    "| {} | {before:.2} {unit} | {:.2} {unit} |",
                    escape(&number.what),
                    number.value,
                    unit = number.unit,
                );
            }
        }
        for (title, changes) in [("Newly passing", &self.newly_passing), ("New", &self.new)] {
            table(&mut text, title, changes);
        }
        if *self == Self::default() {
            text.push_str("\nNothing.\n");
        }
        text
    }
}

impl Measured {
    fn is_worse_than(&self, before: f64) -> bool {
        if self.less_is_better {
            self.value > before * (1.0 + NOISE)
        } else {
            self.value < before * (1.0 - NOISE)
        }
    }
}

impl Change {
    fn of(before: Option<&Check>, now: Option<&Check>) -> Self {
        // One of the two is always there.
        let (target, id) = now
            .or(before)
            .map(|check| (check.target.clone(), check.id.clone()))
            .unwrap_or_default();
        Self {
            target,
            id,
            before: before.map(|check| check.outcome),
            now: now.map(|check| check.outcome),
            reason: now.and_then(|check| check.reason.clone()),
        }
    }
}

fn table(text: &mut String, title: &str, changes: &[Change]) {
    if changes.is_empty() {
        return;
    }
    let word = |outcome: Option<Outcome>| outcome.map_or("none", Outcome::word);
    // Writing into a String cannot fail.
    let _ = writeln!(
        text,
        "\n## {title}: {}\n\n| Target | Check | Before | Now | Why |\n|---|---|---|---|---|",
        changes.len()
    );
    for change in changes {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            escape(&change.target),
            escape(&change.id),
            word(change.before),
            word(change.now),
            escape(change.reason.as_deref().unwrap_or_default()),
        );
    }
}
