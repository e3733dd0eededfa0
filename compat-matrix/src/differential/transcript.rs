//! What a check asked and what came back, step by step, to be compared with another server's.
//!
//! A step is taken when its request goes out, so that the order is that of the asking even where
//! several requests wait for their answers at once.

use std::sync::{Arc, Mutex, PoisonError};

use crate::spec::{Stop, Verdict};
use crate::wire::codec::Value;

/// The steps of one check. Cheap to clone; all clones share it.
#[derive(Clone, Debug, Default)]
pub struct Transcript(Arc<Mutex<Told>>);

#[derive(Debug, Default)]
struct Told {
    steps: Vec<Step>,
    /// Names that the check made, in order.
    names: Vec<String>,
}

/// One request and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// `Fetch v12`.
    pub asked: String,
    /// What came.
    pub came: Came,
}

/// What came back.
#[derive(Clone, Debug, PartialEq)]
pub enum Came {
    /// Nothing so far, or nothing in time.
    Nothing,
    /// A well-formed answer.
    Answer(Value),
    /// The connection was closed.
    Closed,
    /// An answer that cannot be read.
    Malformed(String),
}

/// The place of a step whose answer is due.
#[derive(Clone, Copy, Debug)]
pub struct Place(usize);

impl Transcript {
    fn with<T>(&self, change: impl FnOnce(&mut Told) -> T) -> T {
        // Steps and names are pushed whole.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A request goes out.
    pub fn asks(&self, asked: String) -> Place {
        self.with(|told| {
            told.steps.push(Step {
                asked,
                came: Came::Nothing,
            });
            Place(told.steps.len() - 1)
        })
    }

    /// This is what came back.
    pub fn hears(&self, place: Place, came: Came) {
        self.with(|told| {
            if let Some(step) = told.steps.get_mut(place.0) {
                step.came = came;
            }
        });
    }

    /// Something that is no answer but is to be compared like one.
    pub fn notes(&self, what: &str, value: Value) {
        let place = self.asks(what.to_owned());
        self.hears(place, Came::Answer(value));
    }

    /// The check made a name that no other check uses.
    pub fn names(&self, name: &str) {
        self.with(|told| told.names.push(name.to_owned()));
    }

    /// The steps and the names so far.
    pub fn take(&self) -> (Vec<Step>, Vec<String>) {
        self.with(|told| {
            (
                std::mem::take(&mut told.steps),
                std::mem::take(&mut told.names),
            )
        })
    }
}

/// How a check ended, in a word that is compared like an answer.
pub(super) fn word(verdict: &Verdict) -> String {
    match verdict {
        Ok(()) => "pass".into(),
        Err(Stop::Skip(_) | Stop::Unable(_)) => "skipped".into(),
        Err(Stop::Fail(failure)) => match &failure.refusal {
            Some(refusal) => format!("failed with {refusal}"),
            None => "failed".into(),
        },
    }
}
