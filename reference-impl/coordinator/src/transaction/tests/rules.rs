//! Kafka's rules, one by one.

use super::*;

const COMMIT: Ended = Ended::Committed;
const ABORT: Ended = Ended::Aborted;
const FRESH: ProducerId = ProducerId(901);

#[test]
fn a_producer_is_initialised_at_epoch_zero_and_each_claim_fences_the_one_before() {
    let (mut core, mut store) = fresh();
    let step = core.init(init(None));
    let first = done(&mut core, &mut store, step);
    assert_eq!(first, producer(900, 0));
    assert_eq!(store.row.unwrap().1.ended, ABORT);
    let step = core.init(init(None));
    assert_eq!(done(&mut core, &mut store, step), producer(900, 1));
    let refused = core.add_partitions(at(0), first, &[place(0)]);
    assert_eq!(refused, Err(Refusal::ProducerFenced));
    assert_eq!(
        core.end(first, COMMIT, false, FRESH),
        Err(Refusal::ProducerFenced)
    );
}

#[test]
fn nothing_is_decided_before_the_marker_is_read() {
    let mut core = core(Durability::Process, 1);
    let me = producer(1, 0);
    assert_eq!(core.init(init(None)), Err(Refusal::NotLoaded));
    assert_eq!(
        core.add_partitions(at(0), me, &[place(0)]),
        Err(Refusal::NotLoaded)
    );
    assert_eq!(core.end(me, ABORT, false, FRESH), Err(Refusal::NotLoaded));
}

#[test]
fn a_timeout_is_bounded() {
    let (mut core, _) = fresh();
    for timeout in [None, Some(0), Some(901)] {
        let request = InitRequest {
            timeout: timeout.map(Duration::from_secs),
            ..init(None)
        };
        assert_eq!(core.init(request), Err(Refusal::InvalidTransactionTimeout));
    }
}

#[test]
fn a_bump_that_comes_again_is_answered_and_not_repeated() {
    let (mut core, mut store) = fresh();
    let step = core.init(init(None));
    let me = done(&mut core, &mut store, step);
    let step = core.init(init(Some(me)));
    let bumped = done(&mut core, &mut store, step);
    assert_eq!(bumped, producer(900, 1));
    assert_eq!(core.init(init(Some(me))), Ok(Step::Answer(bumped)));
    assert_eq!(
        core.init(init(Some(producer(900, 7)))),
        Err(Refusal::ProducerFenced)
    );
    assert_eq!(
        core.init(init(Some(producer(5, 1)))),
        Err(Refusal::ProducerFenced)
    );
    // Once somebody else was initialised, it's a zombie's.
    let step = core.init(init(None));
    done(&mut core, &mut store, step);
    assert_eq!(core.init(init(Some(me))), Err(Refusal::ProducerFenced));
}

#[test]
fn used_up_epochs_give_another_producer_id() {
    let mut core = core(Durability::Process, 1);
    let marker = Marker {
        producer: producer(7, i16::MAX - 1),
        previous: None,
        ended: ABORT,
        open: false,
        number: 3,
        timeout: None,
        writer: 2,
    };
    let mut store = Store {
        row: Some((5, marker)),
        versions: 5,
    };
    core.loaded(at(0), store.row, None);
    let old = marker.producer;
    let step = core.init(init(Some(old)));
    assert_eq!(done(&mut core, &mut store, step), producer(900, 0));
    assert_eq!(
        core.init(init(Some(old))),
        Ok(Step::Answer(producer(900, 0)))
    );
}

#[test]
fn a_claim_aborts_what_is_open() {
    let (mut core, mut store, me) = open();
    stage(&mut core, me);
    let step = core.init(init(None));
    let next = done(&mut core, &mut store, step);
    assert_eq!(core.phase(), Phase::Empty);
    assert_eq!(store.row.unwrap().1.number, 1);
    assert_eq!(
        core.end(next, COMMIT, false, FRESH),
        Err(Refusal::InvalidTxnState)
    );
}

#[test]
fn a_batch_needs_its_partition_and_an_implicit_one_adds_it() {
    let (mut core, _, me) = open();
    let refused = core.admit_batch(at(0), me, &place(1), (1, 1), false);
    assert_eq!(refused.unwrap_err(), Refusal::InvalidTxnState);
    core.admit_batch(at(0), me, &place(1), (1, 1), true)
        .unwrap();
    assert!(core.has_partitions(&[place(0), place(1)]));
    let refused = core.admit_batch(at(0), producer(1, 0), &place(0), (1, 1), false);
    assert_eq!(refused.unwrap_err(), Refusal::InvalidProducerIdMapping);
}

#[test]
fn a_transaction_that_grew_too_large_can_only_be_aborted() {
    let (mut core, mut store, me) = open();
    let refused = core.admit_batch(at(0), me, &place(0), (11, 1), false);
    assert_eq!(refused.unwrap_err(), Refusal::MessageTooLarge);
    let refused = core.admit_batch(at(0), me, &place(0), (1, 1), false);
    assert_eq!(refused.unwrap_err(), Refusal::InvalidTxnState);
    assert_eq!(
        core.end(me, COMMIT, false, FRESH),
        Err(Refusal::InvalidTxnState)
    );
    let step = core.end(me, ABORT, false, FRESH);
    done(&mut core, &mut store, step);
    core.add_partitions(at(0), me, &[place(0)]).unwrap();
    stage(&mut core, me);
}

#[test]
fn a_batch_that_was_not_staged_takes_no_room() {
    let (mut core, _, me) = open();
    for _ in 0..30 {
        let admission = core
            .admit_batch(at(0), me, &place(0), (5, 50), false)
            .unwrap();
        assert!(core.settle_batch(admission, false));
    }
    assert_eq!(core.content().unwrap().batches(), 0);
}

#[test]
fn a_commit_waits_for_the_batches_on_their_way_and_late_ones_count_nowhere() {
    let (mut core, mut store, me) = open();
    let admission = core
        .admit_batch(at(0), me, &place(0), (1, 5), false)
        .unwrap();
    assert_eq!(
        core.end(me, COMMIT, false, FRESH),
        Err(Refusal::ConcurrentTransactions)
    );
    let step = core.end(me, ABORT, false, FRESH);
    done(&mut core, &mut store, step);
    core.add_partitions(at(0), me, &[place(0)]).unwrap();
    assert!(!core.settle_batch(admission, true));
    assert_eq!(core.content().unwrap().batches(), 0);
}

#[test]
fn partitions_are_added_all_or_none() {
    let (mut core, _, me) = open();
    let four = [place(0), place(1), place(2), place(3)];
    assert_eq!(
        core.add_partitions(at(0), me, &four),
        Err(Refusal::TooManyPartitions)
    );
    assert!(!core.has_partitions(&[place(1)]));
    core.add_partitions(at(0), me, &four[..3]).unwrap();
}

fn offset(partition: i32) -> (Partition, StagedOffset) {
    let offset = StagedOffset {
        offset: 7,
        metadata: None,
    };
    (place(partition), offset)
}

#[test]
fn offsets_need_their_group_and_are_bounded() {
    let (mut core, _, me) = open();
    let (g, h): (Arc<str>, Arc<str>) = (Arc::from("g"), Arc::from("h"));
    let refused = core.stage_offsets(at(0), me, &g, vec![offset(0)], false);
    assert_eq!(refused, Err(Refusal::InvalidTxnState));
    core.add_group(at(0), me, &g).unwrap();
    core.stage_offsets(at(0), me, &g, (0..4).map(offset).collect(), false)
        .unwrap();
    let refused = core.stage_offsets(at(0), me, &g, vec![offset(4)], false);
    assert_eq!(refused, Err(Refusal::InvalidCommitOffsetSize));
    // The same place again takes no more room; another group does.
    core.stage_offsets(at(0), me, &g, vec![offset(3)], false)
        .unwrap();
    let refused = core.stage_offsets(at(0), me, &h, vec![], true);
    assert_eq!(refused, Err(Refusal::InvalidCommitOffsetSize));
    assert_eq!(core.content().unwrap().offsets().len(), 4);
}

#[test]
fn a_commit_is_one_write_and_an_empty_one_is_none() {
    let (mut core, mut store, me) = open();
    assert_eq!(core.end(me, COMMIT, false, FRESH), Ok(Step::Answer(me)));
    let before = store.row;
    core.add_partitions(at(0), me, &[place(0)]).unwrap();
    stage(&mut core, me);
    let step = core.end(me, COMMIT, false, FRESH);
    assert_eq!(core.phase(), Phase::PrepareCommit);
    done(&mut core, &mut store, step);
    assert_eq!(core.phase(), Phase::CompleteCommit);
    let (_, row) = store.row.unwrap();
    assert_eq!((row.number, row.ended, row.producer), (1, COMMIT, me));
    assert_ne!(store.row, before);
}

#[test]
fn an_end_that_comes_again_is_answered_like_the_first() {
    let (mut core, mut store, me) = open();
    stage(&mut core, me);
    let step = core.end(me, COMMIT, false, FRESH);
    assert_eq!(
        core.end(me, COMMIT, false, FRESH),
        Err(Refusal::ConcurrentTransactions)
    );
    assert_eq!(
        core.end(me, ABORT, false, FRESH),
        Err(Refusal::InvalidTxnState)
    );
    assert_eq!(core.init(init(None)), Err(Refusal::ConcurrentTransactions));
    done(&mut core, &mut store, step);
    assert_eq!(core.end(me, COMMIT, false, FRESH), Ok(Step::Answer(me)));
    assert_eq!(
        core.end(me, ABORT, false, FRESH),
        Err(Refusal::InvalidTxnState)
    );
}

#[test]
fn a_commit_whose_answer_was_lost_is_recognised_when_it_is_sent_again() {
    let (mut core, mut store, me) = open();
    stage(&mut core, me);
    let step = core.end(me, COMMIT, false, FRESH);
    let sent = write(step);
    assert!(
        matches!(store.apply(&sent), Outcome::Applied(_)),
        "and the answer is lost"
    );
    let again = store.apply(&sent);
    assert!(matches!(again, Outcome::Lost(Some(_))));
    assert_eq!(core.written(sent.token, again), Settled::Done(me));
    core.add_partitions(at(0), me, &[place(0)]).unwrap();
    stage(&mut core, me);
    let step = core.end(me, COMMIT, false, FRESH);
    done(&mut core, &mut store, step);
    assert_eq!(store.row.unwrap().1.number, 2);
}

#[test]
fn a_marker_of_another_process_fences() {
    let (mut core, mut store, me) = open();
    stage(&mut core, me);
    let mut other = super::core(Durability::Process, 2);
    other.loaded(at(0), store.row, None);
    let step = other.init(init(None));
    done(&mut other, &mut store, step);
    let step = core.end(me, COMMIT, false, FRESH);
    let sent = write(step);
    let outcome = store.apply(&sent);
    assert_eq!(core.written(sent.token, outcome), Settled::Fenced);
    assert_eq!(core.phase(), Phase::Unloaded);
    core.loaded(at(0), store.row, None);
    assert_eq!(
        core.end(me, COMMIT, false, FRESH),
        Err(Refusal::ProducerFenced)
    );
}

#[test]
fn the_same_marker_of_another_process_is_a_commit_only_over_a_stored_stage() {
    for (durability, expected) in [
        (Durability::Process, Settled::Fenced),
        (Durability::Stored, Settled::Done(producer(900, 0))),
    ] {
        let mut core = core(durability, 1);
        let mut store = Store::default();
        core.loaded(at(0), None, None);
        let step = core.init(init(None));
        let me = done(&mut core, &mut store, step);
        core.add_partitions(at(0), me, &[place(0)]).unwrap();
        stage(&mut core, me);
        let step = core.end(me, COMMIT, false, FRESH);
        let sent = write(step);
        let of_another = Write {
            marker: Marker {
                writer: 2,
                ..sent.marker
            },
            ..sent
        };
        store.apply(&of_another);
        let outcome = store.apply(&sent);
        assert_eq!(
            core.written(sent.token, outcome),
            expected,
            "{durability:?}"
        );
    }
}

#[test]
fn a_commit_that_certainly_failed_leaves_everything_as_it_was() {
    let (mut core, mut store, me) = open();
    stage(&mut core, me);
    let step = core.end(me, COMMIT, false, FRESH);
    let sent = write(step);
    assert_eq!(core.written(sent.token, Outcome::Failed), Settled::Undone);
    assert_eq!(core.content().unwrap().batches(), 1);
    assert_eq!(
        core.written(sent.token, Outcome::Applied(9)),
        Settled::Unknown
    );
    let step = core.end(me, COMMIT, false, FRESH);
    done(&mut core, &mut store, step);
}

#[test]
fn a_memory_stage_that_died_with_its_process_is_never_a_commit() {
    let (mut core, mut store, me) = open();
    stage(&mut core, me);
    let step = core.end(me, COMMIT, false, FRESH);
    done(&mut core, &mut store, step);
    // The next one is open when the process dies.
    begin(&mut core, &mut store, me);
    let mut reborn = super::core(Durability::Process, 2);
    reborn.loaded(at(0), store.row, None);
    let lost = Refusal::InvalidProducerIdMapping;
    assert_eq!(reborn.end(me, COMMIT, false, FRESH), Err(lost));
    // Nor is a part of it that the client adds afterwards.
    assert_eq!(reborn.begin(at(0), me), Err(lost));
    assert_eq!(reborn.add_partitions(at(0), me, &[place(1)]), Err(lost));
    assert_eq!(reborn.end(me, ABORT, false, FRESH), Ok(Step::Answer(me)));
    // The marker says so still: nothing has to be written.
    assert_eq!(reborn.begin(at(0), me), Ok(None));
    reborn.add_partitions(at(0), me, &[place(1)]).unwrap();
}

#[test]
fn a_commit_that_landed_before_its_process_died_is_no_abort() {
    let (mut core, mut store, me) = open();
    stage(&mut core, me);
    let step = core.end(me, COMMIT, false, FRESH);
    done(&mut core, &mut store, step);
    // The answer never reached the client.
    let mut reborn = super::core(Durability::Process, 2);
    reborn.loaded(at(0), store.row, None);
    assert_eq!(
        reborn.end(me, ABORT, false, FRESH),
        Err(Refusal::InvalidTxnState)
    );
    assert_eq!(reborn.end(me, COMMIT, false, FRESH), Ok(Step::Answer(me)));
    begin(&mut reborn, &mut store, me);
    let open = store.row.expect("a marker").1;
    assert!(open.open && open.number == 1, "{open:?}");
}

#[test]
fn a_beginning_that_is_not_marked_did_not_happen() {
    let (mut core, mut store) = fresh();
    let step = core.init(init(None));
    let me = done(&mut core, &mut store, step);
    let write = core.begin(at(0), me).unwrap().expect("it is marked");
    assert_eq!(core.begin(at(0), me), Err(Refusal::ConcurrentTransactions));
    assert_eq!(
        core.end(me, ABORT, false, FRESH),
        Err(Refusal::ConcurrentTransactions)
    );
    let undone = core.written(write.token, Outcome::Failed);
    assert_eq!((undone, core.is_open()), (Settled::Undone, false));
    let mut stored = super::core(Durability::Stored, 2);
    stored.loaded(at(0), store.row, None);
    assert_eq!(stored.begin(at(0), me), Ok(None), "its rows say it");
}

#[test]
fn what_begins_without_a_mark_may_have_died() {
    let (mut core, mut store, me) = open();
    stage(&mut core, me);
    let step = core.end(me, COMMIT, true, FRESH);
    let next = done(&mut core, &mut store, step);
    let mut reborn = super::core(Durability::Process, 2);
    reborn.loaded(at(0), store.row, None);
    let lost = Refusal::InvalidProducerIdMapping;
    let batch = reborn.admit_batch(at(0), next, &place(0), (1, 1), true);
    assert_eq!(batch, Err(lost));
    assert_eq!(reborn.end(next, COMMIT, true, FRESH), Err(lost));
    // What came again is answered all the same.
    assert_eq!(reborn.end(me, COMMIT, true, FRESH), Ok(Step::Answer(next)));
}

#[test]
fn a_stored_stage_is_finished_by_another_process() {
    let (_, mut store, me) = open();
    let recovered = Recovered {
        age: Duration::from_secs(50),
        partitions: [place(0)].into(),
        records: 1,
        batches: 1,
        ..Recovered::default()
    };
    let mut other = super::core(Durability::Stored, 2);
    other.loaded(at(5), store.row, Some(recovered));
    assert_eq!(other.next_deadline(), Some(at(15)), "its time goes on");
    let step = other.end(me, COMMIT, false, FRESH);
    done(&mut other, &mut store, step);
    let mut third = super::core(Durability::Stored, 3);
    third.loaded(at(0), store.row, None);
    assert_eq!(third.end(me, COMMIT, false, FRESH), Ok(Step::Answer(me)));
    assert_eq!(
        third.end(me, ABORT, false, FRESH),
        Err(Refusal::InvalidTxnState)
    );
}

#[test]
fn a_transaction_past_its_time_is_aborted_and_its_producer_fenced() {
    let (mut core, mut store, me) = open();
    stage(&mut core, me);
    assert_eq!(core.expire(at(59)), None);
    let fence = core.expire(at(60)).unwrap();
    assert!(core.content().is_none(), "its memory is given back at once");
    assert_eq!(
        core.end(me, COMMIT, false, FRESH),
        Err(Refusal::InvalidTxnState)
    );
    // While Queen is away it stays so.
    assert_eq!(core.written(fence.token, Outcome::Failed), Settled::Undone);
    assert_eq!(core.writing(), Some(&fence));
    let outcome = store.apply(&fence);
    assert!(matches!(
        core.written(fence.token, outcome),
        Settled::Done(_)
    ));
    assert_eq!(
        core.end(me, COMMIT, false, FRESH),
        Err(Refusal::ProducerFenced)
    );
    assert_eq!(core.init(init(Some(me))), Err(Refusal::ProducerFenced));
}

#[test]
fn transactions_2_raise_the_epoch_with_every_end() {
    let (mut core, mut store, me) = open();
    stage(&mut core, me);
    let step = core.end(me, COMMIT, true, FRESH);
    let next = done(&mut core, &mut store, step);
    assert_eq!(next, producer(900, 1));
    assert_eq!(
        core.end(me, COMMIT, true, FRESH),
        Ok(Step::Answer(next)),
        "again"
    );
    assert_eq!(
        core.end(me, ABORT, true, FRESH),
        Err(Refusal::InvalidTxnState)
    );
    // Another process knows it by the epoch, whatever became of a stage.
    let mut other = super::core(Durability::Process, 2);
    other.loaded(at(0), store.row, None);
    assert_eq!(other.end(me, COMMIT, true, FRESH), Ok(Step::Answer(next)));
    // A zombie's late batch of the old epoch can't reach the next transaction.
    core.add_partitions(at(0), next, &[place(0)]).unwrap();
    let late = core.admit_batch(at(0), me, &place(0), (1, 1), false);
    assert_eq!(late.unwrap_err(), Refusal::ProducerFenced);
    // An abort of nothing raises it too.
    let step = core.end(next, ABORT, true, FRESH);
    let third = done(&mut core, &mut store, step);
    let step = core.end(third, ABORT, true, FRESH);
    assert_eq!(done(&mut core, &mut store, step), producer(900, 3));
    assert_eq!(
        core.end(producer(900, 3), COMMIT, true, FRESH),
        Err(Refusal::InvalidTxnState)
    );
}

#[test]
fn an_end_without_a_bump_is_no_end_of_the_epoch_before() {
    let (mut core, mut store, _) = open();
    let step = core.init(init(None));
    let me = done(&mut core, &mut store, step);
    let step = core.init(init(Some(me)));
    let bumped = done(&mut core, &mut store, step);
    core.add_partitions(at(0), bumped, &[place(0)]).unwrap();
    stage(&mut core, bumped);
    let step = core.end(bumped, COMMIT, false, FRESH);
    done(&mut core, &mut store, step);
    assert_eq!(
        core.end(me, COMMIT, true, FRESH),
        Err(Refusal::ProducerFenced)
    );
}
