//! The differential: the same questions put to the facade and to Apache Kafka, and their answers
//! compared by value.
//!
//! The corpus is every wire probe, and generated [`sequences`] for what has a state. Kafka's answers
//! are recorded (`fixtures/oracle`), so that a comparison needs no Kafka; what may differ by its nature
//! is [normalised away](normalise); what differs all the same is [listed] with its reason, and [pinned]
//! one by one, so that no reason covers more than what was looked at.

pub mod compare;
pub mod listed;
mod normalise;
pub mod pinned;
pub mod recording;
pub mod sequences;
pub mod transcript;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use futures::StreamExt as _;
use reports::Window;

use crate::cx::Cx;
use crate::probes;
use crate::runner::guarded;
use crate::spec::{Lane, Spec};

use compare::Divergence;
use recording::{Answered, Told};

/// Checks that are compared together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Family {
    /// Every wire probe.
    Wire,
    /// Sequences of members of a classic group.
    ClassicGroup,
    /// Sequences of members of a KIP-848 group.
    ConsumerGroup,
    /// Sequences of idempotent producers.
    Producer,
    /// Sequences of transactional producers.
    Transaction,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Wire,
        Self::ClassicGroup,
        Self::ConsumerGroup,
        Self::Producer,
        Self::Transaction,
    ];

    /// Its word on the command line and in file names.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Wire => "wire",
            Self::ClassicGroup => "classic-group",
            Self::ConsumerGroup => "consumer-group",
            Self::Producer => "producer",
            Self::Transaction => "transaction",
        }
    }

    /// How the ids of its checks begin.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Wire => "wire/",
            Self::ClassicGroup => "sequence/classic-group/",
            Self::ConsumerGroup => "sequence/consumer-group/",
            Self::Producer => "sequence/producer/",
            Self::Transaction => "sequence/transaction/",
        }
    }

    /// Its checks for a server that advertises this.
    pub fn specs(self, advertised: &[Window]) -> Vec<Spec> {
        match self {
            Self::Wire => probes::specs(advertised),
            Self::ClassicGroup => sequences::classic::specs(advertised),
            Self::ConsumerGroup => sequences::consumer::specs(advertised),
            Self::Producer => sequences::producer::specs(advertised),
            Self::Transaction => sequences::transaction::specs(advertised),
        }
    }
}

/// Runs the checks and answers what each asked and heard, normalised, by check.
pub async fn run(cx: &Cx, specs: &[Spec]) -> BTreeMap<String, Told> {
    let one = |spec: &Spec| {
        let (spec, cx) = (spec.clone(), cx.for_comparison());
        async move { (spec.id.clone(), tell(&spec, cx).await) }
    };
    let (alone, shared): (Vec<&Spec>, Vec<&Spec>) =
        specs.iter().partition(|spec| spec.lane == Lane::Alone);
    let mut told: BTreeMap<String, Told> = futures::stream::iter(shared.into_iter().map(one))
        .buffer_unordered(cx.target.at_once())
        .collect()
        .await;
    for spec in alone {
        let (id, heard) = one(spec).await;
        told.insert(id, heard);
    }
    told
}

async fn tell(spec: &Spec, cx: Cx) -> Told {
    let record = cx.record.clone();
    let run_id = cx.run_id().to_owned();
    let time_out = spec.time_out * cx.target.patience();
    let verdict = guarded(spec, cx, time_out).await;
    let (steps, names) = record
        .transcript()
        .map(transcript::Transcript::take)
        .unwrap_or_default();
    let run = normalise::Run {
        id: &run_id,
        now_ms: now_ms(),
    };
    let answers = normalise::normalise(run, &steps, &names);
    Told {
        check: spec.id.clone(),
        verdict: transcript::word(&verdict),
        steps: steps
            .into_iter()
            .zip(answers)
            .map(|(step, answer)| Answered {
                asked: step.asked,
                answer,
            })
            .collect(),
    }
}

fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        })
}

/// The field of a check that only one of the two was asked.
pub(crate) const WHOLE_CHECK: &str = "<check>";

/// Every difference of two runs. A check that only one of them was asked is a difference as a whole.
pub fn compare(
    facade: &BTreeMap<String, Told>,
    kafka: &BTreeMap<String, Told>,
) -> BTreeSet<Divergence> {
    let asked = |whether: bool| if whether { "asked" } else { "not asked" }.to_owned();
    let ids: BTreeSet<&String> = facade.keys().chain(kafka.keys()).collect();
    ids.into_iter()
        .flat_map(|id| match (facade.get(id), kafka.get(id)) {
            (Some(mine), Some(theirs)) => compare::compare(mine, theirs),
            (mine, theirs) => vec![Divergence {
                check: id.clone(),
                field: WHOLE_CHECK.into(),
                facade: asked(mine.is_some()),
                kafka: asked(theirs.is_some()),
            }],
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::compare;
    use super::recording::{Answered, Told};

    fn told(check: &str) -> (String, Told) {
        let told = Told {
            check: check.into(),
            verdict: "pass".into(),
            steps: vec![Answered {
                asked: "X v0".into(),
                answer: json!(1),
            }],
        };
        (check.into(), told)
    }

    #[rstest]
    #[case(&["a"], &["a"], &[])]
    #[case(&["a", "b"], &["a"], &[("b", "asked", "not asked")])]
    #[case(&["a"], &["a", "b"], &[("b", "not asked", "asked")])]
    fn a_check_that_one_was_not_asked_is_a_difference(
        #[case] facade: &[&str],
        #[case] kafka: &[&str],
        #[case] expected: &[(&str, &str, &str)],
    ) {
        let run = |ids: &[&str]| ids.iter().map(|id| told(id)).collect();
        let found = compare(&run(facade), &run(kafka));
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.check.as_str(), one.facade.as_str(), one.kafka.as_str()))
            .collect();
        assert_eq!(found, expected);
    }
}
