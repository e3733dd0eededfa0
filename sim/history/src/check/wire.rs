//! Connections and listeners: answers in the order of their requests, throttling as KIP-219 has it,
//! memory within its bound.

use std::collections::{BTreeMap, VecDeque};

use super::index::Index;
use super::{Anomaly, Verdict};
use crate::event::{Event, Promise};
use crate::value::Name;

/// Two answers may be under way for times that differ by so much: a broker that kept its mute to
/// the millisecond can look so much too fast.
const NETWORK_SLACK_MS: u64 = 250;

/// What a client knows of one connection.
#[derive(Default)]
struct Connection {
    open: VecDeque<(i32, usize)>,
    /// The answer that throttled it, and when that ends.
    throttled: Option<(usize, u64)>,
}

pub(super) fn check(index: &Index<'_>, found: &mut Vec<Verdict>) {
    let mut connections: BTreeMap<(&Name, u64), Connection> = BTreeMap::new();
    for (at, who, event) in index.events() {
        match event {
            Event::Asked {
                connection,
                correlation,
                ..
            } => {
                let state = connections.entry((who, *connection)).or_default();
                state.open.push_back((*correlation, at));
                if index.promised(who, Promise::ObeysThrottle) {
                    ignored_throttle(index, at, who, state, found);
                }
            }
            Event::Answered {
                connection,
                correlation,
                throttle_ms,
                ..
            } => {
                let state = connections.entry((who, *connection)).or_default();
                answered(at, who, *correlation, state, found);
                if index.promised(who, Promise::MutedWhenThrottled) {
                    not_muted(index, at, who, state, found);
                }
                if *throttle_ms > 0 {
                    let until = index.at_ms(at) + u64::from(*throttle_ms);
                    state.throttled = Some((at, until));
                }
            }
            Event::Memory {
                node,
                used_bytes,
                bound_bytes,
            } if used_bytes > bound_bytes => {
                let what = format!("{node} holds {used_bytes} bytes and may hold {bound_bytes}");
                found.push(Verdict::new(Anomaly::MemoryBound, [at], what));
            }
            _ => {}
        }
    }
}

fn answered(
    at: usize,
    who: &Name,
    correlation: i32,
    state: &mut Connection,
    found: &mut Vec<Verdict>,
) {
    let position = state.open.iter().position(|(open, _)| *open == correlation);
    match position {
        Some(0) => {
            state.open.pop_front();
        }
        Some(position) => {
            let what = format!("{who} was answered {correlation} before an earlier request");
            let overtaken = state.open.front().map(|(_, asked)| *asked);
            let own = state.open.get(position).map(|(_, asked)| *asked);
            let proof = [at].into_iter().chain(overtaken).chain(own);
            found.push(Verdict::new(Anomaly::AnswerOrder, proof, what));
            state.open.remove(position);
        }
        None => {
            let what = format!("{who} was answered {correlation}, which it did not ask");
            found.push(Verdict::new(Anomaly::AnswerOrder, [at], what));
        }
    }
}

fn ignored_throttle(
    index: &Index<'_>,
    at: usize,
    who: &Name,
    state: &Connection,
    found: &mut Vec<Verdict>,
) {
    let Some((by, until)) = state.throttled else {
        return;
    };
    let now = index.at_ms(at);
    if now < until {
        let what = format!(
            "{who} asked on {} ms before its throttle ended",
            until - now
        );
        found.push(Verdict::new(Anomaly::ThrottleIgnored, [by, at], what));
    }
}

fn not_muted(
    index: &Index<'_>,
    at: usize,
    who: &Name,
    state: &Connection,
    found: &mut Vec<Verdict>,
) {
    let Some((by, until)) = state.throttled else {
        return;
    };
    let now = index.at_ms(at);
    if now + NETWORK_SLACK_MS < until {
        let what = format!(
            "{who} was answered {} ms before its connection was to be heard again",
            until - now
        );
        found.push(Verdict::new(Anomaly::NotMuted, [by, at], what));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Story;
    use crate::event::{Event, Promise};

    fn asked(story: &mut Story, correlation: i32) {
        let event = Event::Asked {
            connection: 1,
            api: 0,
            version: 9,
            correlation,
        };
        story.event("c", event);
    }

    fn answered(story: &mut Story, correlation: i32, throttle_ms: u32) {
        let event = Event::Answered {
            connection: 1,
            api: 0,
            version: 9,
            correlation,
            throttle_ms,
        };
        story.event("c", event);
    }

    #[test]
    fn answers_come_in_the_order_of_their_requests() {
        let mut story = Story::acknowledged();
        asked(&mut story, 1);
        asked(&mut story, 2);
        asked(&mut story, 3);
        let mut fine = story.clone();
        answered(&mut fine, 1, 0);
        answered(&mut fine, 2, 0);
        assert!(fine.names().is_empty(), "the last one may be open");
        answered(&mut fine, 4, 0);
        assert_eq!(fine.names(), ["answer-order"]);
        answered(&mut story, 2, 0);
        assert_eq!(story.names(), ["answer-order"]);
        assert_eq!(story.verdicts()[0].proof.len(), 3);
    }

    fn throttled(promise: Promise) -> Story {
        let mut story = Story::acknowledged();
        story.promise("c", [promise]);
        asked(&mut story, 1);
        asked(&mut story, 2);
        answered(&mut story, 1, 1_000);
        story
    }

    #[test]
    fn a_client_that_obeys_waits_for_the_end_of_its_throttle() {
        let mut story = throttled(Promise::ObeysThrottle);
        story.wait(999);
        let mut patient = story.clone();
        asked(&mut story, 3);
        assert_eq!(story.names(), ["throttle-ignored"]);
        story.forget_promises();
        assert!(story.names().is_empty());
        patient.wait(1);
        asked(&mut patient, 3);
        assert!(patient.names().is_empty());
    }

    #[test]
    fn a_broker_that_throttles_hears_nothing_until_the_end() {
        let mut story = throttled(Promise::MutedWhenThrottled);
        story.wait(700);
        let mut late = story.clone();
        answered(&mut story, 2, 0);
        assert_eq!(story.names(), ["not-muted"]);
        late.wait(100);
        answered(&mut late, 2, 0);
        assert!(late.names().is_empty(), "within what the network explains");
    }

    #[test]
    fn a_listener_keeps_its_bound() {
        let memory = |used_bytes| {
            let mut story = Story::acknowledged();
            let event = Event::Memory {
                node: "facade".into(),
                used_bytes,
                bound_bytes: 100,
            };
            story.event("world", event);
            story.names()
        };
        assert!(memory(100).is_empty());
        assert_eq!(memory(101), ["memory-bound"]);
    }
}
