use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::client::profile::Desynchronised;

#[derive(Debug)]
struct NoJitter;

impl Entropy for NoJitter {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

const RULES: ProducerRules = ProducerRules {
    linger: Duration::from_millis(5),
    batch_records: 2,
    max_in_flight: 5,
    delivery_timeout: Duration::from_secs(10),
    idempotent: true,
    repetition: Repetition::OneByOne,
    ..crate::client::profile::JAVA.producer
};

const IDENTITY: Identity = Identity { id: 7, epoch: 0 };

/// The batches of a request, and their first sequences.
type Sent = Vec<(BatchId, Option<i32>)>;

/// A producer and its time.
struct Rig {
    core: Core,
    now: Monotonic,
}

impl Rig {
    fn new(rules: ProducerRules) -> Self {
        let retry = BackoffRule::fixed(Duration::from_millis(100));
        let mut core = Core::new(rules, retry, Arc::new(NoJitter));
        if rules.idempotent {
            assert!(core.needs_identity());
            core.handle_identity(IDENTITY);
        }
        Self {
            core,
            now: Monotonic::from_origin(Duration::ZERO),
        }
    }

    fn wait(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
    }

    /// Appends two records: a full batch.
    fn batch(&mut self, partition: i32) -> BatchId {
        let to = TopicPartition::new("t", partition);
        let record = Outgoing {
            key: None,
            value: Bytes::from_static(b"v"),
            timestamp: 0,
        };
        let id = self.core.append(self.now, &to, record.clone());
        assert_eq!(self.core.append(self.now, &to, record), id);
        id
    }

    fn send(&mut self) -> Option<Transmit> {
        self.core.poll_transmit(self.now, |_| Some(0))
    }

    /// What goes out now: of each request the batches and their sequences.
    fn sends(&mut self) -> Vec<(TransmitId, Sent)> {
        std::iter::from_fn(|| self.send())
            .map(|sent| {
                let batches = sent.batches.iter();
                let batches =
                    batches.map(|sent| (sent.batch, sent.sequence.map(|(_, number)| number)));
                (sent.id, batches.collect())
            })
            .collect()
    }

    fn answer(&mut self, id: TransmitId, partition: i32, code: ErrorCode) {
        let to = TopicPartition::new("t", partition);
        let offset = (code == ErrorCode::None).then_some(40);
        self.core.handle_answer(self.now, id, &to, code, offset);
    }

    fn verdicts(&mut self) -> Vec<(BatchId, Verdict)> {
        std::iter::from_fn(|| self.core.poll_event())
            .filter_map(|event| match event {
                Event::Done { batch, verdict } => Some((batch, verdict)),
                _ => None,
            })
            .collect()
    }
}

#[test]
fn a_batch_goes_out_when_it_is_full_or_has_lingered() {
    let mut rig = Rig::new(RULES);
    let to = TopicPartition::new("t", 0);
    let record = Outgoing {
        key: None,
        value: Bytes::from_static(b"v"),
        timestamp: 0,
    };
    rig.core.append(rig.now, &to, record);
    assert_eq!(rig.send(), None);
    let due = rig.core.next_deadline(rig.now);
    assert_eq!(due, Some(rig.now + Duration::from_millis(5)));
    rig.wait(5);
    assert_eq!(rig.sends().len(), 1);
    rig.batch(0);
    assert_eq!(rig.sends().len(), 1, "a full batch doesn't wait");
}

#[test]
fn a_request_holds_a_batch_of_each_partition_unless_the_client_sends_one_by_one() {
    let mut rig = Rig::new(RULES);
    let (a, b, c) = (rig.batch(0), rig.batch(0), rig.batch(1));
    let sent = rig.sends();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0].1, [(a, Some(0)), (c, Some(0))]);
    assert_eq!(sent[1].1, [(b, Some(2))]);

    let mut rig = Rig::new(ProducerRules {
        request: RequestShape::OnePartition,
        max_in_flight: 3,
        ..RULES
    });
    let (a, _, c) = (rig.batch(0), rig.batch(0), rig.batch(1));
    let sent = rig.sends();
    assert_eq!(sent[0].1, [(a, Some(0))]);
    assert_eq!(
        sent[1].1,
        [(c, Some(0))],
        "the next partition has its turn first"
    );
    assert_eq!(sent.len(), 3);
    rig.batch(1);
    assert!(rig.sends().is_empty(), "three are in flight");
}

#[test]
fn nothing_goes_out_without_identity_or_leader() {
    let retry = BackoffRule::fixed(Duration::from_millis(100));
    let mut rig = Rig {
        core: Core::new(RULES, retry, Arc::new(NoJitter)),
        now: Monotonic::from_origin(Duration::ZERO),
    };
    rig.batch(0);
    assert!(rig.sends().is_empty());
    rig.core.handle_identity(IDENTITY);
    assert_eq!(rig.core.poll_transmit(rig.now, |_| None), None);
    assert_eq!(rig.sends().len(), 1);
}

#[test]
fn one_by_one_keeps_sequences_and_waits_for_what_is_before() {
    let mut rig = Rig::new(RULES);
    let (a, b) = (rig.batch(0), rig.batch(0));
    let sent = rig.sends();
    rig.core.handle_lost(rig.now, sent[0].0, true);
    rig.answer(sent[1].0, 0, ErrorCode::OutOfOrderSequenceNumber);
    assert!(rig.sends().is_empty(), "it backs off");
    rig.wait(100);
    let again = rig.sends();
    assert_eq!(again.len(), 1, "the second waits for the first");
    assert_eq!(again[0].1, [(a, Some(0))]);
    rig.answer(again[0].0, 0, ErrorCode::None);
    assert_eq!(rig.verdicts(), [(a, Verdict::Stored(Some(40)))]);
    assert_eq!(rig.sends()[0].1, [(b, Some(2))]);
}

#[test]
fn a_rewind_sends_everything_again_whatever_was_answered() {
    let mut rig = Rig::new(ProducerRules {
        repetition: Repetition::Rewind,
        ..RULES
    });
    let (a, b) = (rig.batch(0), rig.batch(0));
    let sent = rig.sends();
    rig.answer(sent[0].0, 0, ErrorCode::NotLeaderOrFollower);
    rig.wait(100);
    assert!(rig.sends().is_empty(), "an answer is still to come");
    rig.answer(sent[1].0, 0, ErrorCode::None);
    assert!(rig.verdicts().is_empty(), "the answer doesn't count");
    rig.wait(100);
    let again = rig.sends();
    assert_eq!(again[0].1, [(a, Some(0))]);
    assert_eq!(again[1].1, [(b, Some(2))]);
}

#[test]
fn a_drain_ends_in_a_new_epoch_and_never_repeats_what_may_be_stored() {
    let mut rig = Rig::new(ProducerRules {
        repetition: Repetition::Drain,
        ..RULES
    });
    let (a, b, c) = (rig.batch(0), rig.batch(0), rig.batch(1));
    let sent = rig.sends();
    rig.answer(sent[0].0, 0, ErrorCode::NotLeaderOrFollower);
    rig.answer(sent[1].0, 0, ErrorCode::OutOfOrderSequenceNumber);
    rig.wait(1_000);
    assert!(rig.sends().is_empty(), "partition 1 is still in flight");
    rig.core.handle_lost(rig.now, sent[0].0, true);
    rig.wait(1_000);
    let again = rig.sends();
    assert_eq!(again[0].1, [(a, Some(0))]);
    assert_eq!(again[1].1, [(b, Some(2))]);
    assert_eq!(rig.core.identity(), Some(Identity { id: 7, epoch: 1 }));
    assert_eq!(
        rig.verdicts(),
        [(c, Verdict::Unknown)],
        "the lost one may be stored"
    );
}

#[test]
fn a_missing_sequence_of_the_first_batch_is_fatal_or_begins_an_epoch() {
    let mut rig = Rig::new(RULES);
    let a = rig.batch(0);
    let sent = rig.sends();
    rig.answer(sent[0].0, 0, ErrorCode::OutOfOrderSequenceNumber);
    rig.wait(100);
    assert_eq!(rig.sends()[0].1, [(a, Some(0))]);
    assert_eq!(rig.core.identity(), Some(Identity { id: 7, epoch: 1 }));

    let mut rig = Rig::new(ProducerRules {
        desynchronised: Desynchronised::Fatal,
        ..RULES
    });
    let (a, b) = (rig.batch(0), rig.batch(1));
    let sent = rig.sends();
    rig.answer(sent[0].0, 0, ErrorCode::OutOfOrderSequenceNumber);
    assert_eq!(rig.core.fatal(), Some(ErrorCode::OutOfOrderSequenceNumber));
    assert_eq!(
        rig.verdicts(),
        [(a, Verdict::Unknown), (b, Verdict::Unknown)]
    );
    assert!(rig.core.is_idle());
}

#[test]
fn a_refused_batch_is_done_and_those_behind_it_get_other_sequences() {
    let mut rig = Rig::new(RULES);
    let (a, b) = (rig.batch(0), rig.batch(0));
    let sent = rig.sends();
    rig.answer(sent[0].0, 0, ErrorCode::MessageTooLarge);
    rig.answer(sent[1].0, 0, ErrorCode::OutOfOrderSequenceNumber);
    let refused = Verdict::Refused(ErrorCode::MessageTooLarge);
    assert_eq!(rig.verdicts(), [(a, refused)]);
    rig.wait(100);
    assert_eq!(rig.sends()[0].1, [(b, Some(0))]);
}

#[test]
fn time_runs_out_in_doubt_only_for_what_was_sent() {
    let mut rig = Rig::new(ProducerRules {
        max_in_flight: 1,
        ..RULES
    });
    let (a, b) = (rig.batch(0), rig.batch(0));
    let sent = rig.sends();
    rig.wait(10_000);
    assert!(rig.sends().is_empty());
    assert_eq!(
        rig.verdicts(),
        [(a, Verdict::Unknown), (b, Verdict::GivenUp)]
    );
    // The answer comes after all: nobody is told, and the next batch begins an epoch.
    rig.answer(sent[0].0, 0, ErrorCode::None);
    assert!(rig.verdicts().is_empty());
    let c = rig.batch(0);
    assert_eq!(rig.sends()[0].1, [(c, Some(0))]);
    assert_eq!(rig.core.identity(), Some(Identity { id: 7, epoch: 1 }));
}

#[test]
fn what_was_sent_behind_a_batch_that_ran_out_of_time_goes_out_under_no_other_sequence() {
    for repetition in [Repetition::OneByOne, Repetition::Rewind, Repetition::Drain] {
        let mut rig = Rig::new(ProducerRules {
            repetition,
            max_in_flight: 2,
            ..RULES
        });
        let a = rig.batch(0);
        rig.wait(9_000);
        let (b, c) = (rig.batch(0), rig.batch(0));
        let sent = rig.sends();
        assert_eq!(sent.len(), 2);
        rig.wait(1_000);
        assert!(rig.sends().is_empty(), "a request is in flight");
        for (id, _) in sent {
            rig.core.handle_lost(rig.now, id, true);
        }
        rig.wait(1_000);
        let again = rig.sends();
        assert_eq!(again.len(), 1);
        assert_eq!(again[0].1, [(c, Some(0))]);
        assert_eq!(
            rig.verdicts(),
            [(a, Verdict::Unknown), (b, Verdict::Unknown)]
        );
    }
}

#[test]
fn retries_are_counted_without_a_sequence_too() {
    let mut rig = Rig::new(ProducerRules {
        idempotent: false,
        retries: Some(1),
        ..RULES
    });
    let a = rig.batch(0);
    for _ in 0..2 {
        let sent = rig.sends();
        assert_eq!(sent[0].1, [(a, None)]);
        rig.answer(sent[0].0, 0, ErrorCode::NotLeaderOrFollower);
        rig.wait(1_000);
    }
    let refused = Verdict::Refused(ErrorCode::NotLeaderOrFollower);
    assert_eq!(rig.verdicts(), [(a, refused)]);
}
