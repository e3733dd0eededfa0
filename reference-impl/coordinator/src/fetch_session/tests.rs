//! Sessions: the rules of KIP-227 one by one, then against a model of client and broker.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use host::Monotonic;
use proptest::prelude::*;
use rstest::rstest;

use super::{
    FINAL_EPOCH, FetchContext, FetchSessions, Finished, INITIAL_EPOCH, Limits, NO_SESSION,
    PartitionFetch, PartitionOutcome, SessionError, SessionRequest, TopicPartition,
};

type Sessions = FetchSessions<&'static str>;

fn at(seconds: u64) -> Monotonic {
    Monotonic::from_origin(Duration::from_secs(seconds))
}

fn tp(partition: i32) -> TopicPartition<&'static str> {
    TopicPartition {
        topic: "orders",
        partition,
    }
}

fn from(fetch_offset: i64) -> PartitionFetch {
    PartitionFetch {
        fetch_offset,
        max_bytes: 1 << 20,
        current_leader_epoch: -1,
    }
}

fn all(
    partitions: impl IntoIterator<Item = i32>,
) -> Vec<(TopicPartition<&'static str>, PartitionFetch)> {
    partitions.into_iter().map(|p| (tp(p), from(0))).collect()
}

fn request(session_id: i32, epoch: i32) -> SessionRequest {
    SessionRequest {
        session_id,
        epoch,
        uses_topic_ids: false,
    }
}

fn empty(high_watermark: i64) -> PartitionOutcome {
    PartitionOutcome::Read {
        has_records: false,
        high_watermark,
        log_start_offset: 0,
    }
}

fn records(high_watermark: i64) -> PartitionOutcome {
    PartitionOutcome::Read {
        has_records: true,
        high_watermark,
        log_start_offset: 0,
    }
}

/// A client, an owner and a counter for entropy around the cache.
struct World {
    sessions: Sessions,
    owner: Arc<str>,
    seed: u64,
}

impl World {
    fn new(limits: Limits) -> Self {
        Self {
            sessions: FetchSessions::new(limits),
            owner: Arc::from("tenant"),
            seed: 0,
        }
    }

    fn begin(
        &mut self,
        now: u64,
        request: SessionRequest,
        requested: Vec<(TopicPartition<&'static str>, PartitionFetch)>,
        forgotten: &[TopicPartition<&'static str>],
    ) -> Result<FetchContext<&'static str>, SessionError> {
        self.sessions
            .begin(at(now), &self.owner, request, requested, forgotten)
    }

    fn finish(
        &mut self,
        now: u64,
        context: &FetchContext<&'static str>,
        outcomes: &[PartitionOutcome],
    ) -> Result<Finished, SessionError> {
        let seed = &mut self.seed;
        self.sessions.finish(at(now), context, outcomes, || {
            *seed += 1;
            *seed << 33
        })
    }

    fn open(&mut self, now: u64, partitions: impl IntoIterator<Item = i32>) -> i32 {
        let context = self
            .begin(
                now,
                request(NO_SESSION, INITIAL_EPOCH),
                all(partitions),
                &[],
            )
            .unwrap();
        let outcomes = vec![empty(0); context.partitions.len()];
        self.finish(now, &context, &outcomes).unwrap().session_id
    }
}

fn order(context: &FetchContext<&'static str>) -> Vec<i32> {
    context
        .partitions
        .iter()
        .map(|p| p.partition.partition)
        .collect()
}

#[test]
fn answers_only_what_changed() {
    let mut world = World::new(Limits::default());
    let id = world.open(0, 0..4);
    assert_ne!(id, NO_SESSION);

    let context = world.begin(1, request(id, 1), vec![], &[]).unwrap();
    assert_eq!(order(&context), [0, 1, 2, 3]);
    let outcomes = [empty(0), empty(5), PartitionOutcome::Failed, records(9)];
    let finished = world.finish(1, &context, &outcomes).unwrap();
    assert_eq!(finished.include, [false, true, true, true]);

    let context = world.begin(2, request(id, 2), vec![], &[]).unwrap();
    let outcomes = [empty(0), empty(5), empty(0), empty(9)];
    let finished = world.finish(2, &context, &outcomes).unwrap();
    assert_eq!(
        finished.include,
        [false, false, true, false],
        "the client hears that the error is over"
    );

    let context = world.begin(3, request(id, 3), vec![], &[]).unwrap();
    let outcomes = [PartitionOutcome::Unread; 4];
    let finished = world.finish(3, &context, &outcomes).unwrap();
    assert_eq!(finished.include, [false; 4]);
}

#[test]
fn a_moved_log_start_is_news() {
    let mut world = World::new(Limits::default());
    let id = world.open(0, 0..1);
    let context = world.begin(1, request(id, 1), vec![], &[]).unwrap();
    let outcome = PartitionOutcome::Read {
        has_records: false,
        high_watermark: 0,
        log_start_offset: 7,
    };
    assert_eq!(
        world.finish(1, &context, &[outcome]).unwrap().include,
        [true]
    );
}

#[test]
fn partitions_that_gave_records_go_last() {
    let mut world = World::new(Limits::default());
    let id = world.open(0, 0..4);
    let context = world.begin(0, request(id, 1), vec![], &[]).unwrap();
    let outcomes = [records(1), empty(0), records(1), empty(0)];
    world.finish(0, &context, &outcomes).unwrap();
    let context = world.begin(0, request(id, 2), vec![], &[]).unwrap();
    assert_eq!(order(&context), [1, 3, 0, 2]);
}

#[test]
fn takes_new_offsets_new_partitions_and_forgets() {
    let mut world = World::new(Limits::default());
    let id = world.open(0, 0..3);
    let context = world
        .begin(
            0,
            request(id, 1),
            vec![(tp(1), from(42)), (tp(9), from(1))],
            &[tp(0)],
        )
        .unwrap();
    assert_eq!(order(&context), [1, 2, 9]);
    assert_eq!(context.partitions[0].fetch.fetch_offset, 42);
    world.finish(0, &context, &[empty(0); 3]).unwrap();
    assert_eq!(world.sessions.partitions(), 3);
    let context = world
        .begin(0, request(id, 2), vec![], &[tp(1), tp(2), tp(9)])
        .unwrap();
    assert!(!context.is_incremental());
    assert_eq!(
        world.finish(0, &context, &[]).unwrap().session_id,
        NO_SESSION
    );
    assert!(
        world.sessions.is_empty(),
        "a session without partitions ends"
    );
}

#[rstest]
#[case::unknown(request(12_345, 1), SessionError::IdNotFound)]
#[case::without_an_id(request(NO_SESSION, 1), SessionError::IdNotFound)]
#[case::an_epoch_ahead(request(1, 2), SessionError::InvalidEpoch)]
#[case::an_epoch_below_all(request(1, -2), SessionError::InvalidEpoch)]
#[case::by_topic_id(
    SessionRequest { uses_topic_ids: true, ..request(1, 1) },
    SessionError::TopicId
)]
fn refuses(#[case] request: SessionRequest, #[case] error: SessionError) {
    let mut world = World::new(Limits::default());
    assert_eq!(world.open(0, 0..1), 1);
    assert_eq!(world.begin(0, request, vec![], &[]).unwrap_err(), error);
    assert!(
        world.begin(0, self::request(1, 1), vec![], &[]).is_ok(),
        "the refusal left the session alone"
    );
}

#[test]
fn a_session_is_its_owners() {
    let mut world = World::new(Limits::default());
    let id = world.open(0, 0..1);
    world.owner = Arc::from("stranger");
    assert_eq!(
        world.begin(0, request(id, 1), vec![], &[]).unwrap_err(),
        SessionError::IdNotFound
    );
    world
        .begin(0, request(id, FINAL_EPOCH), vec![], &[])
        .unwrap();
    assert_eq!(world.sessions.len(), 1, "nor can a stranger close it");
}

#[test]
fn a_full_request_ends_the_session_it_names() {
    let mut world = World::new(Limits::default());
    let id = world.open(0, 0..1);
    let context = world
        .begin(0, request(id, FINAL_EPOCH), all(0..2), &[])
        .unwrap();
    let finished = world.finish(0, &context, &[empty(0); 2]).unwrap();
    assert_eq!(
        finished,
        Finished {
            session_id: NO_SESSION,
            include: vec![true; 2]
        }
    );
    assert!(world.sessions.is_empty());
}

#[test]
fn a_repeated_request_outdates_the_first() {
    let mut world = World::new(Limits::default());
    let id = world.open(0, 0..1);
    let slow = world.begin(0, request(id, 1), vec![], &[]).unwrap();
    let next = world.begin(0, request(id, 2), vec![], &[]).unwrap();
    assert_eq!(
        world.finish(0, &slow, &[empty(1)]).unwrap_err(),
        SessionError::InvalidEpoch
    );
    assert_eq!(world.finish(0, &next, &[empty(1)]).unwrap().include, [true]);
}

#[test]
fn the_epoch_wraps_past_the_two_with_a_meaning() {
    assert_eq!(super::next_epoch(i32::MAX), 1);
}

#[test]
fn without_a_slot_there_is_no_session() {
    let mut world = World::new(Limits {
        slots: 2,
        ..Limits::default()
    });
    world.open(0, 0..1);
    world.open(0, 0..1);
    assert_eq!(world.open(60, 0..9), NO_SESSION, "both are young");
}

#[test]
fn evicts_the_stale_first_then_a_narrower_one_that_had_its_time() {
    let mut world = World::new(Limits {
        slots: 2,
        ..Limits::default()
    });
    let narrow = world.open(0, 0..2);
    let wide = world.open(0, 0..5);
    for now in [100, 200] {
        let epoch = now / 100;
        for id in [narrow, wide] {
            let request = request(id, i32::try_from(epoch).unwrap());
            world.begin(now, request, vec![], &[]).unwrap();
        }
    }
    assert_eq!(world.open(201, 0..2), NO_SESSION, "not wider than any");
    let wider = world.open(202, 0..3);
    assert_ne!(wider, NO_SESSION);
    assert_eq!(world.sessions.evictions(), 1);
    let gone = world.begin(202, request(narrow, 3), vec![], &[]);
    assert_eq!(gone.unwrap_err(), SessionError::IdNotFound);

    world.begin(300, request(wider, 1), vec![], &[]).unwrap();
    assert_ne!(world.open(321, 0..1), NO_SESSION, "`wide` is stale");
    let gone = world.begin(321, request(wide, 3), vec![], &[]);
    assert_eq!(gone.unwrap_err(), SessionError::IdNotFound);
}

#[test]
fn is_bounded_in_partitions() {
    let mut world = World::new(Limits {
        partitions: 10,
        ..Limits::default()
    });
    let id = world.open(0, 0..8);
    assert_eq!(world.open(0, 0..3), NO_SESSION);
    assert_eq!(
        world.begin(0, request(id, 1), all(8..20), &[]).unwrap_err(),
        SessionError::IdNotFound,
        "a session that outgrows the cache ends"
    );
    assert_eq!(world.sessions.partitions(), 0);
}

#[derive(Clone, Debug)]
enum Step {
    /// Partitions added or moved, partitions dropped, then the log's growth and a fetch.
    Fetch {
        seek: Vec<(i32, i64)>,
        forget: Vec<i32>,
        grow: Vec<i32>,
        budget: usize,
    },
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let partition = 0..12_i32;
    prop_oneof![
        9 => (
            prop::collection::vec((partition.clone(), 0..50_i64), 0..4),
            prop::collection::vec(partition.clone(), 0..3),
            prop::collection::vec(partition, 0..6),
            1..4_usize,
        )
            .prop_map(|(seek, forget, grow, budget)| Step::Fetch { seek, forget, grow, budget }),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// A client that keeps what responses tell it always knows every watermark as the broker
    /// last read it, and no partition with records waits longer than one round of the others.
    #[test]
    fn the_client_always_knows(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::new(Limits::default());
        let mut log: BTreeMap<i32, i64> = BTreeMap::new();
        let mut wanted: BTreeMap<i32, i64> = BTreeMap::new();
        let mut client: BTreeMap<i32, i64> = BTreeMap::new();
        let mut waits: BTreeMap<i32, usize> = BTreeMap::new();
        let (mut id, mut epoch) = (NO_SESSION, INITIAL_EPOCH);
        for step in steps {
            let Step::Fetch { seek, forget, grow, budget } = step else {
                epoch = INITIAL_EPOCH;
                continue;
            };
            for partition in grow {
                *log.entry(partition).or_default() += 1;
            }
            let mut changed: BTreeMap<i32, i64> = seek.into_iter().collect();
            let forget: Vec<_> = forget
                .into_iter()
                .filter(|p| wanted.contains_key(p) && !changed.contains_key(p))
                .collect();
            for partition in &forget {
                wanted.remove(partition);
                client.remove(partition);
                waits.remove(partition);
            }
            wanted.extend(changed.iter());
            if epoch == INITIAL_EPOCH {
                changed.clone_from(&wanted);
                client.clear();
                waits.clear();
            }
            let requested = changed.iter().map(|(&p, &o)| (tp(p), from(o))).collect();
            let forgotten: Vec<_> = forget.into_iter().map(tp).collect();
            let context = world
                .begin(0, request(id, epoch), requested, &forgotten)
                .map_err(|e| TestCaseError::fail(e.to_string()))?;
            let mut listed = order(&context);
            listed.sort_unstable();
            prop_assert_eq!(listed, wanted.keys().copied().collect::<Vec<_>>());

            let mut left = budget;
            let mut outcomes = Vec::new();
            for listed in &context.partitions {
                let partition = listed.partition.partition;
                prop_assert_eq!(listed.fetch.fetch_offset, wanted[&partition]);
                let end = log.get(&partition).copied().unwrap_or_default();
                let has_records = listed.fetch.fetch_offset < end && left > 0;
                if has_records {
                    left -= 1;
                    waits.insert(partition, 0);
                } else if listed.fetch.fetch_offset < end {
                    *waits.entry(partition).or_default() += 1;
                }
                outcomes.push(PartitionOutcome::Read {
                    has_records,
                    high_watermark: end,
                    log_start_offset: 0,
                });
            }
            let finished = world
                .finish(0, &context, &outcomes)
                .map_err(|e| TestCaseError::fail(e.to_string()))?;
            for (index, listed) in context.partitions.iter().enumerate() {
                let PartitionOutcome::Read { has_records, high_watermark, .. } = outcomes[index]
                else { unreachable!("all are read") };
                if finished.include[index] {
                    client.insert(listed.partition.partition, high_watermark);
                } else {
                    prop_assert!(!has_records);
                }
                prop_assert_eq!(client.get(&listed.partition.partition), Some(&high_watermark));
            }
            prop_assert!(waits.values().all(|&wait| wait <= 12), "{waits:?}");
            if finished.session_id == NO_SESSION {
                prop_assert!(wanted.is_empty());
                (id, epoch) = (NO_SESSION, INITIAL_EPOCH);
            } else {
                id = finished.session_id;
                epoch += 1;
                prop_assert_eq!(world.sessions.partitions(), wanted.len());
            }
            prop_assert!(world.sessions.len() <= 1);
        }
    }
}
