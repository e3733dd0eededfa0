//! Which run comes next: families take turns, and within a family its scenarios.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sim::scenario::{self, Family, Scenario};

use super::Arguments;
use crate::cli::{Error, unknown};

/// How long a sweep goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Span {
    /// So many runs.
    Runs(u64),
    /// So long.
    Time(Duration),
}

/// One run to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Task {
    /// The scenario's name.
    pub scenario: String,
    /// The seed.
    pub seed: u64,
}

/// The runs of a sweep, in order.
#[derive(Debug)]
pub(super) struct Plan {
    families: Vec<Vec<&'static Scenario>>,
    first: u64,
    span: Span,
    given: u64,
}

impl Plan {
    /// The runs that `arguments` ask for.
    pub fn new(arguments: &Arguments, span: Span) -> Result<Self, Error> {
        let families = match &arguments.scenario {
            Some(name) => vec![vec![scenario::named(name).ok_or_else(|| unknown(name))?]],
            None => chosen(arguments.family),
        };
        if families.is_empty() {
            let why = arguments.family.and_then(Family::why_empty);
            return Err(format!("nothing to sweep: {}", why.unwrap_or("no scenario")).into());
        }
        Ok(Self {
            families,
            first: arguments.first,
            span,
            given: 0,
        })
    }

    /// How long it goes on.
    pub const fn span(&self) -> Span {
        self.span
    }

    /// The next run; `None` when there are enough.
    pub fn next(&mut self) -> Option<Task> {
        if matches!(self.span, Span::Runs(runs) if self.given >= runs) {
            return None;
        }
        let (turn, round) = (
            usize::try_from(self.given).ok()? % self.families.len(),
            usize::try_from(self.given).ok()? / self.families.len(),
        );
        let family = self.families.get(turn)?;
        let scenario = family.get(round % family.len())?;
        let seed = self.first + self.given;
        self.given += 1;
        Some(Task {
            scenario: scenario.name.to_owned(),
            seed,
        })
    }
}

/// The scenarios to be swept, by family: a planted fault only when it is asked for.
fn chosen(only: Option<Family>) -> Vec<Vec<&'static Scenario>> {
    Family::ALL
        .into_iter()
        .filter(|family| only.map_or(*family != Family::Planted, |only| only == *family))
        .map(|family| scenario::all().filter(|one| one.family == family).collect())
        .filter(|members: &Vec<_>| !members.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn families_share_the_runs_and_no_fault_is_planted() {
        let mut plan = Plan {
            families: chosen(None),
            first: 100,
            span: Span::Runs(60),
            given: 0,
        };
        let mut of: BTreeMap<&str, u64> = BTreeMap::new();
        let mut seeds = Vec::new();
        while let Some(task) = plan.next() {
            let scenario = scenario::named(&task.scenario).unwrap();
            *of.entry(scenario.family.name()).or_default() += 1;
            assert_eq!(scenario.planted, None);
            seeds.push(task.seed);
        }
        assert_eq!(seeds, (100..160).collect::<Vec<_>>());
        let (least, most) = (of.values().min().unwrap(), of.values().max().unwrap());
        assert!(most - least <= 1, "{of:?}");
    }
}
