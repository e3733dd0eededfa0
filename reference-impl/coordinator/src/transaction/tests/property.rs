//! Producers, processes and faults in any order over one row: what was committed is what the
//! clients were told, once each.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// Applied, and the answer lost: the caller sends the write again.
    AnswerLost,
    /// Applied, and the process dies before anybody hears of it.
    Died,
    /// Certainly not applied, given up.
    Refused,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    /// A new instance in a process.
    Init(usize, Fault),
    /// The instance there asks for its epoch to be raised.
    Bump(usize, Fault),
    Batch(usize),
    End(usize, bool, Fault, bool),
    Expire(usize, Fault),
    /// The process forgets everything.
    Restart(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let fault = prop_oneof![
        Just(Fault::None),
        Just(Fault::AnswerLost),
        Just(Fault::Died),
        Just(Fault::Refused)
    ];
    let who = 0..2_usize;
    prop_oneof![
        2 => (who.clone(), fault.clone()).prop_map(|(who, fault)| Op::Init(who, fault)),
        1 => (who.clone(), fault.clone()).prop_map(|(who, fault)| Op::Bump(who, fault)),
        4 => who.clone().prop_map(Op::Batch),
        3 => (who.clone(), any::<bool>(), fault.clone(), any::<bool>())
            .prop_map(|(who, commit, fault, bump)| Op::End(who, commit, fault, bump)),
        1 => (who.clone(), fault).prop_map(|(who, fault)| Op::Expire(who, fault)),
        1 => who.prop_map(Op::Restart),
    ]
}

/// One process, and the producer that talks to it.
struct Process {
    core: Transaction<u32>,
    me: Option<Producer>,
    /// The end that it asked for and has no answer to: commit, and with a bump. It asks for nothing
    /// else before.
    asked: Option<(bool, bool)>,
    /// What the client believes to be in its open transaction.
    staged: Vec<u32>,
    /// What the process holds of it.
    held: Vec<u32>,
}

struct World {
    store: Store,
    log: Vec<u32>,
    processes: Vec<Process>,
    /// Batches whose commit the client was told.
    told: BTreeSet<u32>,
    /// Batches whose abort the client was told.
    aborted: BTreeSet<u32>,
    next: u32,
    writers: u64,
    now: u64,
}

impl World {
    fn new() -> Self {
        let process = |writer| Process {
            core: core(Durability::Process, writer),
            me: None,
            asked: None,
            staged: Vec::new(),
            held: Vec::new(),
        };
        Self {
            store: Store::default(),
            log: Vec::new(),
            processes: vec![process(1), process(2)],
            told: BTreeSet::new(),
            aborted: BTreeSet::new(),
            next: 0,
            writers: 2,
            now: 0,
        }
    }

    fn load(&mut self, who: usize) {
        let (now, row) = (at(self.now), self.store.row);
        self.processes[who].core.loaded(now, row, None);
    }

    /// Carries a write out: a commit appends with it, or neither happens.
    fn carry_out(&mut self, who: usize, write: &Write<u32>, fault: Fault) -> Settled {
        let apply = |world: &mut Self| {
            let outcome = world.store.apply(write);
            if matches!(outcome, Outcome::Applied(_)) && write.kind == WriteKind::Commit {
                let held = world.processes[who].held.clone();
                world.log.extend(held);
            }
            outcome
        };
        let outcome = match fault {
            Fault::None => apply(self),
            Fault::AnswerLost => {
                apply(self);
                apply(self)
            }
            Fault::Died => {
                apply(self);
                self.restart(who);
                return Settled::Unknown;
            }
            Fault::Refused => Outcome::Failed,
        };
        let process = &mut self.processes[who];
        let settled = process.core.written(write.token, outcome);
        if process.core.content().is_none() {
            process.held.clear();
        }
        settled
    }

    /// The process forgets everything; the client lives on and believes in its transaction.
    fn restart(&mut self, who: usize) {
        self.writers += 1;
        let process = &mut self.processes[who];
        process.core = core(Durability::Process, self.writers);
        process.held.clear();
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Restart(who) => self.restart(who),
            Op::Init(who, fault) | Op::Bump(who, fault) => {
                self.load(who);
                let expected = match op {
                    Op::Bump(..) => self.processes[who].me,
                    _ => None,
                };
                match self.processes[who].core.init(init(expected)) {
                    Ok(Step::Answer(producer)) => self.initialised(who, producer),
                    Ok(Step::Write(write)) => {
                        if let Settled::Done(producer) = self.carry_out(who, &write, fault) {
                            self.initialised(who, producer);
                        }
                    }
                    Err(_) => {}
                }
            }
            Op::Batch(who) => {
                self.load(who);
                let now = at(self.now);
                let Some(me) = self.processes[who]
                    .me
                    .filter(|_| self.processes[who].asked.is_none())
                else {
                    return;
                };
                let Ok(begun) = self.processes[who].core.begin(now, me) else {
                    return;
                };
                if let Some(write) = begun {
                    self.carry_out(who, &write, Fault::None);
                }
                let process = &mut self.processes[who];
                let admitted = process
                    .core
                    .add_partitions(now, me, &[place(0)])
                    .and_then(|()| process.core.admit_batch(now, me, &place(0), (1, 1), false));
                if let Ok(admission) = admitted {
                    assert!(process.core.settle_batch(admission, true));
                    process.staged.push(self.next);
                    process.held.push(self.next);
                    self.next += 1;
                }
            }
            Op::End(who, commit, fault, bump) => self.end(who, commit, fault, bump),
            Op::Expire(who, fault) => {
                self.now += 61;
                let now = at(self.now);
                let pending = self.processes[who].core.writing().copied();
                if let Some(write) = pending.or_else(|| self.processes[who].core.expire(now)) {
                    self.carry_out(who, &write, fault);
                }
            }
        }
    }

    fn initialised(&mut self, who: usize, producer: Producer) {
        let process = &mut self.processes[who];
        process.me = Some(producer);
        let staged = std::mem::take(&mut process.staged);
        // A commit without an answer may have landed.
        if !matches!(process.asked.take(), Some((true, _))) {
            self.aborted.extend(staged);
        }
    }

    fn end(&mut self, who: usize, commit: bool, fault: Fault, bump: bool) {
        self.load(who);
        let (commit, bump) = self.processes[who].asked.unwrap_or((commit, bump));
        let decision = if commit {
            Ended::Committed
        } else {
            Ended::Aborted
        };
        let process = &mut self.processes[who];
        let Some(me) = process.me else { return };
        let settled = match process.core.end(me, decision, bump, ProducerId(900)) {
            Ok(Step::Answer(producer)) => Settled::Done(producer),
            Ok(Step::Write(write)) => self.carry_out(who, &write, fault),
            Err(Refusal::ConcurrentTransactions) => {
                process.asked = Some((commit, bump));
                return;
            }
            // It is not committed: the client aborts.
            Err(Refusal::InvalidProducerIdMapping) if commit => {
                process.asked = Some((false, bump));
                return;
            }
            // It is of no use any more, and what became of its transaction it doesn't know.
            Err(_) => {
                process.me = None;
                process.asked = None;
                process.staged.clear();
                return;
            }
        };
        let process = &mut self.processes[who];
        process.asked = Some((commit, bump));
        if let Settled::Done(producer) = settled {
            process.asked = None;
            process.me = Some(producer);
            let staged = std::mem::take(&mut process.staged);
            if commit {
                self.told.extend(staged);
            } else {
                self.aborted.extend(staged);
            }
        }
    }

    fn check(&self) {
        let stored: BTreeSet<u32> = self.log.iter().copied().collect();
        assert_eq!(stored.len(), self.log.len(), "stored twice: {:?}", self.log);
        assert!(
            self.told.is_subset(&stored),
            "told and lost: {:?} of {:?}",
            self.told,
            self.log
        );
        assert!(
            self.aborted.is_disjoint(&stored),
            "aborted and stored: {:?}",
            self.log
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_a_client_is_told_is_what_the_log_holds(ops in prop::collection::vec(op(), 1..60)) {
        let mut world = World::new();
        for op in ops {
            world.run(op);
            world.check();
        }
    }
}
