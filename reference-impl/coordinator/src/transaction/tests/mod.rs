mod property;
mod rules;

use std::sync::Arc;
use std::time::Duration;

use host::Monotonic;

use super::*;

const LIMITS: Limits = Limits {
    partitions: 3,
    offsets: 4,
    bytes: 100,
    records: 10,
    max_timeout: Duration::from_secs(900),
};

fn at(seconds: u64) -> Monotonic {
    Monotonic::from_origin(Duration::from_secs(seconds))
}

fn producer(id: i64, epoch: i16) -> Producer {
    Producer {
        id: ProducerId(id),
        epoch: ProducerEpoch::new(epoch).unwrap(),
    }
}

fn place(partition: i32) -> Partition {
    (Arc::from("t"), partition)
}

fn init(expected: Option<Producer>) -> InitRequest {
    InitRequest {
        expected,
        timeout: Some(Duration::from_secs(60)),
        fresh: ProducerId(900),
    }
}

/// The one row, and the answers that get lost.
#[derive(Clone, Debug, Default)]
struct Store {
    row: Option<(u32, Marker)>,
    versions: u32,
}

impl Store {
    fn apply(&mut self, write: &Write<u32>) -> Outcome<u32> {
        if self.row.map(|(version, _)| version) != write.expect {
            return Outcome::Lost(self.row);
        }
        self.versions += 1;
        self.row = Some((self.versions, write.marker));
        Outcome::Applied(self.versions)
    }
}

fn core(durability: Durability, writer: u64) -> Transaction<u32> {
    Transaction::new(LIMITS, durability, writer)
}

/// A loaded core and its store.
fn fresh() -> (Transaction<u32>, Store) {
    let mut core = core(Durability::Process, 1);
    core.loaded(at(0), None, None);
    (core, Store::default())
}

fn write(step: Result<Step<u32>, Refusal>) -> Write<u32> {
    match step {
        Ok(Step::Write(write)) => write,
        other => panic!("{other:?}"),
    }
}

/// Carries a command out.
fn done(
    core: &mut Transaction<u32>,
    store: &mut Store,
    step: Result<Step<u32>, Refusal>,
) -> Producer {
    match step.expect("not refused") {
        Step::Answer(producer) => producer,
        Step::Write(write) => {
            let outcome = store.apply(&write);
            match core.written(write.token, outcome) {
                Settled::Done(producer) => producer,
                other => panic!("{other:?}"),
            }
        }
    }
}

/// A transaction of `me` begins.
fn begin(core: &mut Transaction<u32>, store: &mut Store, me: Producer) {
    if let Some(write) = core.begin(at(0), me).expect("not refused") {
        let outcome = store.apply(&write);
        assert_eq!(core.written(write.token, outcome), Settled::Done(me));
    }
}

/// An initialised producer with an open transaction on partition 0.
fn open() -> (Transaction<u32>, Store, Producer) {
    let (mut core, mut store) = fresh();
    let step = core.init(init(None));
    let me = done(&mut core, &mut store, step);
    begin(&mut core, &mut store, me);
    core.add_partitions(at(0), me, &[place(0)]).unwrap();
    (core, store, me)
}

fn stage(core: &mut Transaction<u32>, me: Producer) {
    let admission = core
        .admit_batch(at(0), me, &place(0), (1, 5), false)
        .unwrap();
    assert!(core.settle_batch(admission, true));
}
