//! Progress: what began ends within its bound, once nothing goes wrong.

use super::index::Index;
use super::{Anomaly, Verdict};

pub(super) fn check(index: &Index<'_>, found: &mut Vec<Verdict>) {
    let Some(last) = index.entries.len().checked_sub(1) else {
        return;
    };
    let (healed_ms, now_ms) = (
        index.healed.map_or(0, |at| index.at_ms(at)),
        index.at_ms(last),
    );
    for (_, operation) in index.operations() {
        let Some(within_ms) = operation.within_ms else {
            continue;
        };
        // A client that is gone ends nothing.
        if operation.ended.is_none() && index.crashed_since(operation.who, operation.began) {
            continue;
        }
        let began_ms = index.at_ms(operation.began).max(healed_ms);
        let ended = operation.ended.unwrap_or(last);
        let took_ms = index.at_ms(ended).max(began_ms) - began_ms;
        if took_ms <= within_ms || (operation.ended.is_none() && now_ms < began_ms + within_ms) {
            continue;
        }
        let since = if began_ms == healed_ms && index.healed.is_some() {
            "after the heal"
        } else {
            "after it began"
        };
        let what = format!(
            "{} of {} {} {took_ms} ms {since}, and had {within_ms}",
            operation.call.name(),
            operation.who,
            if operation.ended.is_some() {
                "ended"
            } else {
                "is open"
            },
        );
        let proof = [operation.began, ended].into_iter().chain(index.healed);
        found.push(Verdict::new(Anomaly::Late, proof, what));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Story, begin_transaction};
    use crate::call::Reply;
    use crate::event::{Event, Mark};

    fn open(within_ms: u64) -> (Story, crate::event::Op) {
        let mut story = Story::acknowledged();
        let op = story.begin_within("a", begin_transaction(0), Some(within_ms));
        (story, op)
    }

    #[test]
    fn what_began_ends_in_time() {
        let (mut story, op) = open(100);
        story.wait(100);
        let mut late = story.clone();
        story.ok(op, Reply::Done);
        assert!(story.names().is_empty(), "just in time");
        late.wait(1);
        let mut open = late.clone();
        late.ok(op, Reply::Done);
        assert_eq!(late.names(), ["late"]);
        open.event("world", Event::Mark(Mark::End));
        assert_eq!(open.names(), ["late"], "never ended");
    }

    #[test]
    fn faults_take_their_time_and_the_heal_starts_the_clock() {
        let (mut story, op) = open(100);
        story.wait(1_000);
        story.event("world", Event::Mark(Mark::Heal));
        story.wait(100);
        let mut late = story.clone();
        story.ok(op, Reply::Done);
        assert!(story.names().is_empty());
        late.wait(1);
        late.ok(op, Reply::Done);
        assert_eq!(late.names(), ["late"]);
        assert_eq!(late.verdicts()[0].proof.len(), 3, "with the heal");
    }

    #[test]
    fn a_client_that_is_gone_ends_nothing() {
        let (mut story, _open) = open(100);
        let gone = Mark::ClientCrash { client: "a".into() };
        story.event("world", Event::Mark(gone));
        story.wait(1_000);
        story.event("world", Event::Mark(Mark::End));
        assert!(story.names().is_empty());
    }
}
