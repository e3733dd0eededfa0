//! The windows against a model that remembers everything and is too slow to ship.

use std::collections::BTreeMap;
use std::time::Duration;

use host::Monotonic;
use proptest::prelude::*;
use rstest::rstest;

use super::{Lane, Limits, ProducerEpoch, ProducerStates, Refusal, SequenceRange, Ticket, Verdict};

const LANE: Lane = Lane(1);

fn at(ms: u64) -> Monotonic {
    Monotonic::from_origin(Duration::from_millis(ms))
}

fn range(first: i32, count: u32) -> SequenceRange {
    SequenceRange::new(first, count).unwrap()
}

fn epoch(epoch: i16) -> ProducerEpoch {
    ProducerEpoch::new(epoch).unwrap()
}

/// A table with one producer, driven through whole appends.
struct One {
    states: ProducerStates<u8>,
    log_end: i64,
}

impl One {
    fn new() -> Self {
        Self {
            states: ProducerStates::new(Limits::default()),
            log_end: 0,
        }
    }

    fn judge(&mut self, e: i16, first: i32, count: u32) -> Verdict {
        self.states
            .admit(at(0), &0, LANE, epoch(e), range(first, count))
    }

    fn admit(&mut self, e: i16, first: i32, count: u32) -> Ticket {
        match self.judge(e, first, count) {
            Verdict::Admitted(ticket) => ticket,
            other => panic!("{other:?}"),
        }
    }

    fn append(&mut self, e: i16, first: i32, count: u32) -> i64 {
        let ticket = self.admit(e, first, count);
        let base_offset = self.log_end;
        self.log_end += i64::from(count);
        assert!(self.states.acknowledge(at(0), &0, ticket, base_offset));
        base_offset
    }
}

#[test]
fn answers_the_original_offset_for_the_last_five_batches_and_no_offset_before() {
    let mut one = One::new();
    let offsets: Vec<_> = (0..7).map(|n| one.append(0, n * 10, 10)).collect();
    for (n, &base_offset) in offsets.iter().enumerate().skip(2) {
        let first = i32::try_from(n).unwrap() * 10;
        assert_eq!(one.judge(0, first, 10), Verdict::Duplicate { base_offset });
    }
    assert_eq!(
        one.judge(0, 10, 10),
        Verdict::Refused(Refusal::DuplicateSequence)
    );
}

#[rstest]
#[case::a_gap(11, 1, Refusal::OutOfOrderSequence)]
#[case::across_the_end(9, 2, Refusal::OutOfOrderSequence)]
#[case::inside_what_is_stored(3, 4, Refusal::DuplicateSequence)]
#[case::all_but_the_last(0, 9, Refusal::DuplicateSequence)]
fn refuses_what_is_not_next(#[case] first: i32, #[case] count: u32, #[case] refusal: Refusal) {
    let mut one = One::new();
    one.append(0, 0, 10);
    assert_eq!(one.judge(0, first, count), Verdict::Refused(refusal));
}

#[test]
fn demands_sequence_zero_after_an_epoch_change() {
    let mut one = One::new();
    one.append(0, 0, 3);
    assert_eq!(
        one.judge(1, 3, 1),
        Verdict::Refused(Refusal::OutOfOrderSequence)
    );
    one.append(1, 0, 2);
    assert_eq!(
        one.judge(0, 3, 1),
        Verdict::Refused(Refusal::InvalidProducerEpoch)
    );
    assert_eq!(one.judge(1, 0, 2), Verdict::Duplicate { base_offset: 3 });
}

#[test]
fn accepts_an_unknown_producer_at_any_sequence_but_calls_nothing_before_it_a_duplicate() {
    let mut one = One::new();
    one.append(4, 100, 5);
    assert_eq!(
        one.judge(4, 50, 5),
        Verdict::Refused(Refusal::OutOfOrderSequence),
        "never seen here: success would be a lie"
    );
    assert_eq!(
        one.judge(4, 98, 5),
        Verdict::Refused(Refusal::OutOfOrderSequence)
    );
    one.append(4, 105, 1);
}

#[test]
fn wraps_at_the_highest_sequence() {
    let mut one = One::new();
    one.append(0, i32::MAX - 1, 2);
    one.append(0, 0, 3);
    one.append(0, 3, 1);
    assert_eq!(
        one.judge(0, i32::MAX - 1, 2),
        Verdict::Duplicate { base_offset: 0 }
    );
    let mut across = One::new();
    across.append(0, i32::MAX - 1, 4);
    assert_eq!(
        across.judge(0, 3, 1),
        Verdict::Refused(Refusal::OutOfOrderSequence)
    );
    across.append(0, 2, 1);
}

#[test]
fn judges_pipelined_batches_against_those_admitted_before() {
    let mut one = One::new();
    let first = one.admit(0, 0, 5);
    let second = one.admit(0, 5, 5);
    assert_eq!(one.judge(0, 0, 5), Verdict::InFlight(first));
    assert_eq!(one.judge(0, 5, 5), Verdict::InFlight(second));
    assert_eq!(
        one.judge(0, 11, 1),
        Verdict::Refused(Refusal::OutOfOrderSequence)
    );
    assert!(one.states.acknowledge(at(0), &0, first, 70));
    assert_eq!(one.judge(0, 0, 5), Verdict::Duplicate { base_offset: 70 });
    assert_eq!(one.judge(0, 5, 5), Verdict::InFlight(second));
}

#[test]
fn withdraws_what_stands_behind_a_failed_batch() {
    let mut one = One::new();
    one.append(0, 0, 1);
    let failed = one.admit(0, 1, 1);
    let behind = [one.admit(0, 2, 1), one.admit(0, 3, 1)];
    assert_eq!(one.states.fail(at(0), &0, failed), behind);
    assert!(!one.states.acknowledge(at(0), &0, behind[0], 9));
    assert_eq!(
        one.judge(0, 2, 1),
        Verdict::Refused(Refusal::OutOfOrderSequence)
    );
    assert_eq!(one.append(0, 1, 1), 1);
    assert_eq!(one.append(0, 2, 1), 2);
}

#[test]
fn forgets_the_epoch_of_a_batch_that_failed() {
    let mut one = One::new();
    one.append(0, 0, 1);
    let bumped = one.admit(1, 0, 1);
    assert_eq!(
        one.judge(0, 1, 1),
        Verdict::Refused(Refusal::InvalidProducerEpoch)
    );
    assert!(one.states.fail(at(0), &0, bumped).is_empty());
    one.append(0, 1, 1);
}

#[test]
fn a_newer_epoch_survives_the_failure_of_the_older_one() {
    let mut one = One::new();
    let old = one.admit(0, 7, 1);
    let old_behind = one.admit(0, 8, 1);
    let new = one.admit(1, 0, 1);
    assert_eq!(one.states.fail(at(0), &0, old), [old_behind]);
    assert!(one.states.acknowledge(at(0), &0, new, 0));
    assert_eq!(one.judge(1, 0, 1), Verdict::Duplicate { base_offset: 0 });
}

#[test]
fn a_producer_whose_first_batch_failed_is_unknown_again() {
    let mut one = One::new();
    let ticket = one.admit(0, 5, 1);
    one.states.fail(at(0), &0, ticket);
    one.append(0, 3, 1);
}

#[test]
fn what_was_in_flight_behind_a_failed_first_batch_does_not_overtake_it() {
    let mut one = One::new();
    let ticket = one.admit(0, 0, 3);
    one.states.fail(at(0), &0, ticket);
    assert_eq!(
        one.judge(0, 3, 3),
        Verdict::Refused(Refusal::OutOfOrderSequence)
    );
    assert_eq!(one.append(0, 0, 3), 0);
    assert_eq!(one.append(0, 3, 3), 3);
    // A client that gave the batch up begins a new epoch.
    let mut one = One::new();
    let ticket = one.admit(0, 7, 1);
    one.states.fail(at(0), &0, ticket);
    one.append(1, 0, 1);
}

#[test]
fn does_not_admit_through_a_lane_that_could_overtake() {
    let mut one = One::new();
    let ticket = one.admit(0, 0, 1);
    let other = |one: &mut One, first| {
        one.states
            .admit(at(0), &0, Lane(2), epoch(0), range(first, 1))
    };
    assert_eq!(other(&mut one, 1), Verdict::Busy);
    assert_eq!(other(&mut one, 0), Verdict::InFlight(ticket));
    assert!(one.states.acknowledge(at(0), &0, ticket, 0));
    assert!(matches!(other(&mut one, 1), Verdict::Admitted(_)));
}

#[test]
fn evicts_the_least_recently_written_and_never_one_in_flight() {
    let mut states = ProducerStates::new(Limits {
        windows: 2,
        ..Limits::default()
    });
    let store = |states: &mut ProducerStates<u8>, key: u8, first: i32| match states.admit(
        at(0),
        &key,
        LANE,
        epoch(0),
        range(first, 1),
    ) {
        Verdict::Admitted(ticket) => states.acknowledge(at(0), &key, ticket, 0),
        other => panic!("{other:?}"),
    };
    store(&mut states, 1, 0);
    store(&mut states, 2, 0);
    store(&mut states, 1, 1);
    store(&mut states, 3, 0);
    assert_eq!((states.len(), states.evictions()), (2, 1));
    let judge = |states: &mut ProducerStates<u8>, key: u8, first| {
        states.admit(at(0), &key, LANE, epoch(0), range(first, 1))
    };
    assert_eq!(
        judge(&mut states, 1, 0),
        Verdict::Duplicate { base_offset: 0 }
    );
    let Verdict::Admitted(one) = judge(&mut states, 1, 2) else {
        panic!("next in sequence")
    };
    let Verdict::Admitted(three) = judge(&mut states, 3, 1) else {
        panic!("next in sequence")
    };
    let Verdict::Admitted(four) = judge(&mut states, 4, 0) else {
        panic!("unknown producer")
    };
    assert_eq!(states.len(), 3, "all three are in flight");
    for (key, ticket) in [(1, one), (3, three), (4, four)] {
        assert!(states.acknowledge(at(0), &key, ticket, 5));
    }
    assert_eq!(states.len(), 2);
}

#[test]
fn forgets_idle_windows_after_their_time() {
    let mut states = ProducerStates::new(Limits {
        windows: 10,
        expiration: Duration::from_millis(100),
    });
    for key in 0..5_u8 {
        let now = at(u64::from(key) * 10);
        let Verdict::Admitted(ticket) = states.admit(now, &key, LANE, epoch(0), range(9, 1)) else {
            panic!("unknown producer")
        };
        if key != 4 {
            states.acknowledge(now, &key, ticket, 0);
        }
    }
    states.expire(at(119));
    assert_eq!(states.len(), 3);
    states.expire(at(100_000));
    assert_eq!(states.len(), 1, "the one in flight stays");
}

/// What the model knows of one producer: every record ever stored, one entry per record.
#[derive(Clone, Debug, Default)]
struct Model {
    /// Stored batches: epoch, first, count, base offset.
    stored: Vec<(i16, u64, u32, i64)>,
    admitted: Vec<(Ticket, i16, u64, u32)>,
    /// Epoch and first sequence of the batch that failed while nothing was stored.
    failed: Option<(i16, u64)>,
}

impl Model {
    fn current_epoch(&self) -> Option<i16> {
        let admitted = self.admitted.iter().map(|a| a.1).max();
        admitted.or_else(|| self.stored.iter().map(|s| s.0).max())
    }

    fn next(&self, epoch: i16) -> Option<u64> {
        let admitted = self.admitted.iter().filter(|a| a.1 == epoch);
        let stored = self.stored.iter().filter(|s| s.0 == epoch);
        let admitted = admitted.map(|a| a.2 + u64::from(a.3)).max();
        admitted.max(stored.map(|s| s.1 + u64::from(s.2)).max())
    }

    /// Sequences here don't wrap: the test unrolls them.
    fn judge(&self, epoch: i16, first: u64, count: u32) -> Expected {
        let Some(current) = self.current_epoch() else {
            return match self.failed {
                // Half the space ahead is behind: sequences wrap.
                Some((failed_epoch, failed))
                    if epoch == failed_epoch && first > failed && first - failed < 1 << 30 =>
                {
                    Expected::Refused(Refusal::OutOfOrderSequence)
                }
                _ => Expected::New,
            };
        };
        if epoch < current {
            return Expected::Refused(Refusal::InvalidProducerEpoch);
        }
        if epoch > current {
            return if first == 0 {
                Expected::New
            } else {
                Expected::Refused(Refusal::OutOfOrderSequence)
            };
        }
        if self.next(epoch) == Some(first) {
            return Expected::New;
        }
        if let Some(a) = self
            .admitted
            .iter()
            .find(|a| (a.1, a.2, a.3) == (epoch, first, count))
        {
            return Expected::InFlight(a.0);
        }
        let of_epoch: Vec<_> = self.stored.iter().filter(|s| s.0 == epoch).collect();
        let recent = of_epoch.iter().rev().take(super::BATCHES_REMEMBERED);
        if let Some(s) = recent.into_iter().find(|s| (s.1, s.2) == (first, count)) {
            return Expected::Duplicate(s.3);
        }
        let every_record_is_stored = (first..first + u64::from(count)).all(|sequence| {
            of_epoch
                .iter()
                .any(|s| (s.1..s.1 + u64::from(s.2)).contains(&sequence))
        });
        Expected::Refused(if every_record_is_stored {
            Refusal::DuplicateSequence
        } else {
            Refusal::OutOfOrderSequence
        })
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Expected {
    New,
    InFlight(Ticket),
    Duplicate(i64),
    Refused(Refusal),
}

#[derive(Clone, Debug)]
enum Step {
    /// A batch at `offset_from_next` from the next sequence.
    Produce {
        key: u8,
        epoch: i16,
        jump: i64,
        count: u32,
    },
    /// The oldest admitted batch is stored, or fails.
    Resolve { key: u8, stored: bool },
    /// A batch in the middle of those admitted fails.
    FailAny { key: u8, index: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..3_u8;
    prop_oneof![
        6 => (key.clone(), 0..3_i16, prop_oneof![8 => Just(0), 4 => -12..6_i64], 1..4_u32)
            .prop_map(|(key, epoch, jump, count)| Step::Produce { key, epoch, jump, count }),
        4 => (key.clone(), prop::bool::weighted(0.8))
            .prop_map(|(key, stored)| Step::Resolve { key, stored }),
        1 => (key, 0..5_usize).prop_map(|(key, index)| Step::FailAny { key, index }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Every verdict is the model's, from any start in the sequence space.
    #[test]
    fn agrees_with_the_model(
        steps in prop::collection::vec(step(), 1..120),
        start in prop_oneof![Just(0), Just(i32::MAX - 20), 0..i32::MAX],
    ) {
        let mut states = ProducerStates::new(Limits::default());
        let mut models: BTreeMap<u8, Model> = BTreeMap::new();
        let mut log_end = 0_i64;
        // The model's sequences don't wrap; an epoch that starts mid-way starts at `start`.
        let wire = |sequence: u64| i32::try_from(sequence % (1 << 31)).unwrap();
        for step in steps {
            match step {
                Step::Produce { key, epoch: e, jump, count } => {
                    let model = models.entry(key).or_default();
                    let unknown = model.current_epoch().is_none();
                    let newer = model.current_epoch().is_some_and(|current| e > current);
                    let next = match model.next(e) {
                        Some(next) => next,
                        None if unknown => u64::try_from(start).unwrap(),
                        None => 0,
                    };
                    // A new epoch starts at 0 or is refused; 0 itself is never "a lap later".
                    let Some(first) = next.checked_add_signed(jump) else { continue };
                    if newer && first % (1 << 31) == 0 && first != 0 { continue }
                    let expected = model.judge(e, first, count);
                    let verdict = states.admit(
                        at(0), &key, LANE, epoch(e), range(wire(first), count));
                    let got = match verdict {
                        Verdict::Admitted(ticket) => {
                            model.admitted.push((ticket, e, first, count));
                            Expected::New
                        }
                        Verdict::InFlight(ticket) => Expected::InFlight(ticket),
                        Verdict::Duplicate { base_offset } => Expected::Duplicate(base_offset),
                        Verdict::Refused(refusal) => Expected::Refused(refusal),
                        Verdict::Busy => unreachable!("one lane"),
                    };
                    prop_assert_eq!(got, expected);
                }
                Step::Resolve { key, stored } => {
                    let model = models.entry(key).or_default();
                    let Some(&(ticket, e, first, count)) = model.admitted.first() else { continue };
                    if stored {
                        model.admitted.remove(0);
                        model.stored.push((e, first, count, log_end));
                        prop_assert!(states.acknowledge(at(0), &key, ticket, log_end));
                        log_end += i64::from(count);
                    } else {
                        fail(model, &mut states, key, 0)?;
                    }
                }
                Step::FailAny { key, index } => {
                    let model = models.entry(key).or_default();
                    if index < model.admitted.len() {
                        fail(model, &mut states, key, index)?;
                    }
                }
            }
        }
        let known = models
            .values()
            .filter(|m| m.current_epoch().is_some() || m.failed.is_some())
            .count();
        prop_assert_eq!(states.len(), known);
    }

    /// However keys come and go, the list of idle windows stays whole: the bound holds and the
    /// survivors are the most recently written.
    #[test]
    fn keeps_the_most_recently_written(
        writes in prop::collection::vec(0..12_u8, 1..200),
        windows in 1..6_usize,
    ) {
        let mut states = ProducerStates::new(Limits { windows, ..Limits::default() });
        let mut recency: Vec<u8> = Vec::new();
        let mut next = BTreeMap::<u8, i32>::new();
        for key in writes {
            let known = recency.contains(&key);
            let first = if known { next[&key] } else { 0 };
            let verdict = states.admit(at(0), &key, LANE, epoch(0), range(first, 1));
            let Verdict::Admitted(ticket) = verdict else {
                return Err(TestCaseError::fail(format!("{key}: {verdict:?}")));
            };
            prop_assert!(states.acknowledge(at(0), &key, ticket, 0));
            next.insert(key, first + 1);
            recency.retain(|&other| other != key);
            recency.push(key);
            if recency.len() > windows {
                recency.remove(0);
            }
            prop_assert_eq!(states.len(), recency.len());
            // A survivor remembers its last batch; a stranger would be admitted at any sequence.
            for &survivor in &recency {
                let verdict = states.admit(
                    at(0), &survivor, LANE, epoch(0), range(next[&survivor] - 1, 1));
                prop_assert_eq!(verdict, Verdict::Duplicate { base_offset: 0 });
            }
        }
    }
}

fn fail(
    model: &mut Model,
    states: &mut ProducerStates<u8>,
    key: u8,
    index: usize,
) -> Result<(), TestCaseError> {
    let (ticket, e, first, _) = model.admitted.remove(index);
    if model.stored.is_empty() {
        model.failed = Some((e, first));
    }
    let behind = model.admitted.split_off(index);
    let (doomed, kept): (Vec<_>, Vec<_>) = behind.into_iter().partition(|a| a.1 == e);
    model.admitted.extend(kept);
    let doomed: Vec<_> = doomed.into_iter().map(|a| a.0).collect();
    prop_assert_eq!(states.fail(at(0), &key, ticket), doomed);
    Ok(())
}
