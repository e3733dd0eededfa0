//! What clients were told that is wrong by itself.

use super::index::Index;
use super::{Anomaly, Verdict};
use crate::call::{Call, Reply};
use crate::event::{Event, Mark, Promise};

pub(super) fn check(index: &Index<'_>, found: &mut Vec<Verdict>) {
    let (mut sent, mut stored) = (0_usize, false);
    let mut unfinished = 0_usize;
    for (_, operation) in index.operations() {
        let refusal = operation
            .failed()
            .filter(|_| index.promised(operation.who, Promise::NeverRefused));
        if let (Call::Poll { .. }, Some((at, failure))) = (operation.call, refusal) {
            let what = format!("a poll of {}: {}", operation.who, failure.what);
            let proof = [operation.began, at];
            found.push(Verdict::new(Anomaly::Refused, proof, what));
        }
        let Call::Produce { batch, .. } = operation.call else {
            continue;
        };
        sent += 1;
        unfinished += usize::from(operation.ended.is_none());
        if let Some((_, Reply::Stored { .. })) = operation.ok() {
            stored = true;
        }
        if let Some((at, failure)) = refusal {
            let what = format!("{batch} of {}: {}", operation.who, failure.what);
            let proof = [operation.began, at];
            found.push(Verdict::new(Anomaly::Refused, proof, what));
        }
    }
    for (at, who, event) in index.events() {
        match event {
            Event::Malformed { what } => {
                let what = format!("{who} was told {what}");
                found.push(Verdict::new(Anomaly::Malformed, [at], what));
            }
            Event::Mark(Mark::Stuck) => {
                let what = format!(
                    "the clients did not finish after the heal; \
                     {unfinished} of {sent} batches were not answered"
                );
                found.push(Verdict::new(Anomaly::Stuck, [at], what));
            }
            Event::Mark(Mark::Broken { what }) => {
                found.push(Verdict::new(Anomaly::Broken, [at], what.as_str()));
            }
            _ => {}
        }
    }
    if sent > 0 && !stored {
        let what = format!("none of {sent} batches was acknowledged");
        found.push(Verdict::new(Anomaly::Vacuous, [], what));
    } else if index.entries.is_empty() {
        found.push(Verdict::new(Anomaly::Vacuous, [], "nothing happened"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Story;
    use crate::call::Failure;
    use crate::event::{Event, Mark, Promise};

    #[test]
    fn a_history_that_stored_nothing_proves_nothing() {
        assert_eq!(Story::default().names(), ["vacuous"]);
        let mut story = Story::default();
        let op = story.produce("p", 0, 1);
        assert_eq!(story.names(), ["vacuous"]);
        story.stored(op, 0);
        assert!(story.names().is_empty());
    }

    #[test]
    fn a_refusal_breaks_a_promise_only_where_one_was_made() {
        let mut story = Story::acknowledged();
        let op = story.produce("p", 1, 1);
        story.fail(op, Failure::code(10, "MESSAGE_TOO_LARGE"));
        assert!(story.names().is_empty());
        story.promise("p", [Promise::NeverRefused]);
        let verdicts = story.verdicts();
        assert_eq!(story.names(), ["refused"]);
        assert_eq!(verdicts[0].proof.len(), 2);
    }

    #[test]
    fn the_worlds_complaints_are_verdicts() {
        let mut story = Story::acknowledged();
        let _open = story.produce("p", 1, 1);
        story.event("world", Event::Mark(Mark::Stuck));
        story.event(
            "world",
            Event::Mark(Mark::Broken {
                what: "panicked".into(),
            }),
        );
        story.event(
            "p",
            Event::Malformed {
                what: "half a frame".into(),
            },
        );
        assert_eq!(story.names(), ["malformed", "stuck", "broken"]);
        assert!(story.verdicts()[1].what.contains("1 of 2 batches"));
    }
}
