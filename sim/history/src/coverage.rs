//! Situations that a sweep must have met: what was never met was never tried, however many runs
//! passed.
//!
//! Each is found in the history itself where clients show it; the rest the world names with
//! [`Mark::Situation`].

mod credentials;
mod transactions;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::call::{Admin, Call, Reply};
use crate::check::epochs;
use crate::check::index::{Index, Operation};
use crate::event::{Entry, Event, Mark, Op};
use crate::value::{Name, TopicPartition, Value};

/// A named situation.
#[derive(Clone, Copy)]
pub struct Situation {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub about: &'static str,
    /// The API keys it is about.
    pub apis: &'static [i16],
    times: fn(&Index<'_>) -> u64,
}

impl std::fmt::Debug for Situation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Situation").field(&self.name).finish()
    }
}

const PRODUCE: i16 = 0;
const FETCH: i16 = 1;
const OFFSET_COMMIT: i16 = 8;
const OFFSET_FETCH: i16 = 9;
const FIND_COORDINATOR: i16 = 10;
const JOIN_GROUP: i16 = 11;
const HEARTBEAT: i16 = 12;
const LEAVE_GROUP: i16 = 13;
const SYNC_GROUP: i16 = 14;
const CREATE_PARTITIONS: i16 = 37;
const INIT_PRODUCER_ID: i16 = 22;
const END_TXN: i16 = 26;
const TXN_OFFSET_COMMIT: i16 = 28;
const SASL_AUTHENTICATE: i16 = 36;
const CONSUMER_GROUP_HEARTBEAT: i16 = 68;

const NOT_COORDINATOR: i16 = 16;
const ILLEGAL_GENERATION: i16 = 22;
const UNKNOWN_MEMBER_ID: i16 = 25;
const REBALANCE_IN_PROGRESS: i16 = 27;
const FENCED_INSTANCE_ID: i16 = 82;
const UNRELEASED_INSTANCE_ID: i16 = 111;

/// The situation of a fetch session that was evicted while it was in use, which a client tells by
/// [`Mark::Situation`].
pub const FETCH_SESSION_EVICTED: &str = "fetch-session-evicted-in-use";

/// The situation of a commit that was asked for when its transaction's time was nearly over, which
/// a client tells by [`Mark::Situation`].
pub const TIMEOUT_RACED_COMMIT: &str = "timeout-raced-commit";

/// Every situation.
pub const ALL: &[Situation] = &[
    Situation {
        name: "batch-sent-again",
        about: "a batch went out more than once before it was acknowledged",
        apis: &[PRODUCE],
        times: |index| {
            attempts(index)
                .values()
                .filter(|sent| sent.len() > 1)
                .count() as u64
        },
    },
    Situation {
        name: "retry-of-a-landed-push",
        about: "a batch went out again after a reader had seen it: its first answer was lost",
        apis: &[PRODUCE],
        times: landed_retries,
    },
    Situation {
        name: "five-in-flight-at-a-crash",
        about: "a machine crashed while a producer had five batches in flight",
        apis: &[PRODUCE],
        times: |index| at_crashes(index, |index, at| most_in_flight(index, at) >= 5),
    },
    Situation {
        name: "delivery-given-up",
        about: "a producer gave a batch up and nobody knew whether it was stored",
        apis: &[PRODUCE],
        times: |index| {
            count(index, |operation| {
                matches!(operation.call, Call::Produce { .. })
                    && operation.ended.is_some()
                    && operation.ok().is_none()
                    && operation.failed().is_none()
            })
        },
    },
    Situation {
        name: "poll-while-broken",
        about: "a consumer was given records between a fault and the heal",
        apis: &[FETCH],
        times: polls_while_broken,
    },
    Situation {
        name: FETCH_SESSION_EVICTED,
        about: "a fetch session was evicted while its client used it",
        apis: &[FETCH],
        times: |_| 0,
    },
    Situation {
        name: "commit-during-rebalance",
        about: "a member committed while another one was joining",
        apis: &[OFFSET_COMMIT, JOIN_GROUP],
        times: commits_during_rebalance,
    },
    Situation {
        name: "commit-of-an-old-generation",
        about: "a commit of an old generation was refused",
        apis: &[OFFSET_COMMIT],
        times: |index| {
            refusals(
                index,
                |call| matches!(call, Call::Commit { .. }),
                &[ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID],
            )
        },
    },
    Situation {
        name: "commit-repeated",
        about: "a commit's end was unknown, and the same offsets were committed again",
        apis: &[OFFSET_COMMIT],
        times: commits_repeated,
    },
    Situation {
        name: "offsets-fetched-after-a-crash",
        about: "committed offsets were read from a coordinator that had lost its memory",
        apis: &[OFFSET_FETCH],
        times: |index| after_crash(index, |call| matches!(call, Call::FetchOffsets { .. })),
    },
    Situation {
        name: "rejoin-with-the-old-generation",
        about: "a member heard that its generation is over, and joined again",
        apis: &[JOIN_GROUP, HEARTBEAT],
        times: |index| rejoins(index, &[ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS]),
    },
    Situation {
        name: "rejoin-as-a-stranger",
        about: "a member was no longer known, and joined again",
        apis: &[JOIN_GROUP, HEARTBEAT],
        times: |index| rejoins(index, &[UNKNOWN_MEMBER_ID]),
    },
    Situation {
        name: "static-member-fenced",
        about: "a static member was told that another one has taken its place",
        apis: &[JOIN_GROUP, HEARTBEAT, SYNC_GROUP],
        times: |index| refusals(index, |_| true, &[FENCED_INSTANCE_ID]),
    },
    Situation {
        name: "coordinator-sought-again",
        about: "a coordinator said that it is none, or not yet, and was sought again",
        apis: &[FIND_COORDINATOR],
        times: |index| refusals(index, |_| true, &[14, 15, NOT_COORDINATOR]),
    },
    Situation {
        name: "crash-while-joining",
        about: "a machine crashed while a member was joining",
        apis: &[JOIN_GROUP],
        times: |index| {
            at_crashes(index, |index, at| {
                open_at(index, at, |call| matches!(call, Call::Join { .. }))
            })
        },
    },
    Situation {
        name: "crash-while-syncing",
        about: "a machine crashed while a member waited for its assignment",
        apis: &[SYNC_GROUP],
        times: |index| {
            at_crashes(index, |index, at| {
                open_at(index, at, |call| matches!(call, Call::Sync { .. }))
            })
        },
    },
    Situation {
        name: "leave-during-sync",
        about: "a member left while another one waited for its assignment",
        apis: &[LEAVE_GROUP, SYNC_GROUP],
        times: |index| {
            count(index, |operation| {
                matches!(operation.call, Call::Leave { .. })
                    && open_at(index, operation.began, |call| {
                        matches!(call, Call::Sync { .. })
                    })
            })
        },
    },
    Situation {
        name: "partitions-added-under-a-group",
        about: "partitions were added to a topic while members owned some of it",
        apis: &[CREATE_PARTITIONS, JOIN_GROUP],
        times: partitions_added,
    },
    Situation {
        name: "member-of-no-group-any-more",
        about: "a member of KIP-848 was not known any more, and came again",
        apis: &[CONSUMER_GROUP_HEARTBEAT],
        times: |index| refusals(index, is_beat, &[UNKNOWN_MEMBER_ID]),
    },
    Situation {
        name: "commit-of-a-passed-epoch",
        about: "a member of KIP-848 was told its next epoch while a commit of the one before was on its way",
        apis: &[OFFSET_COMMIT, CONSUMER_GROUP_HEARTBEAT],
        times: commits_of_passed_epochs,
    },
    Situation {
        name: "instance-not-released",
        about: "a static member of KIP-848 came while its predecessor still had its place",
        apis: &[CONSUMER_GROUP_HEARTBEAT],
        times: |index| refusals(index, is_beat, &[UNRELEASED_INSTANCE_ID]),
    },
    Situation {
        name: "partition-handed-on-by-epochs",
        about: "a member of KIP-848 told that it gave a partition up, and another one got it",
        apis: &[CONSUMER_GROUP_HEARTBEAT],
        times: handed_on,
    },
    Situation {
        name: "protocols-side-by-side",
        about: "a group had members of both protocols",
        apis: &[CONSUMER_GROUP_HEARTBEAT, JOIN_GROUP, SYNC_GROUP],
        times: |index| {
            let all = epochs::protocols(index);
            all.values().filter(|protocols| protocols.len() > 1).count() as u64
        },
    },
    Situation {
        name: "partition-lost",
        about: "a consumer heard too late that its partitions are another one's",
        apis: &[JOIN_GROUP],
        times: |index| {
            index
                .events()
                .filter(|(_, _, event)| matches!(event, Event::Lost { .. }))
                .count() as u64
        },
    },
    Situation {
        name: "throttle-told",
        about: "an answer to a Produce or a Fetch told its client to keep quiet",
        apis: &[PRODUCE, FETCH],
        times: |index| {
            index
                .events()
                .filter(|(_, _, event)| {
                    matches!(
                        event,
                        Event::Answered {
                            api: PRODUCE | FETCH,
                            throttle_ms: 1..,
                            ..
                        }
                    )
                })
                .count() as u64
        },
    },
    Situation {
        name: "zombie-fenced",
        about: "a producer was told that another one has taken its place",
        apis: &[INIT_PRODUCER_ID, END_TXN, PRODUCE],
        times: transactions::zombies_fenced,
    },
    Situation {
        name: "end-of-a-landed-transaction",
        about: "a commit was asked for again after a reader had seen what it commits",
        apis: &[END_TXN],
        times: transactions::landed_ends,
    },
    Situation {
        name: TIMEOUT_RACED_COMMIT,
        about: "a commit was asked for when its transaction's time was nearly over",
        apis: &[END_TXN],
        times: |_| 0,
    },
    Situation {
        name: "commit-refused-and-aborted",
        about: "a transaction was aborted after its commit was refused",
        apis: &[END_TXN],
        times: transactions::aborted_after_refusal,
    },
    Situation {
        name: "crash-in-an-open-transaction",
        about: "a machine crashed while a transaction held records",
        apis: &[PRODUCE, END_TXN],
        times: transactions::crashes_while_open,
    },
    Situation {
        name: "crash-while-sending-offsets",
        about: "a machine crashed while offsets were added to a transaction",
        apis: &[TXN_OFFSET_COMMIT],
        times: transactions::crashes_while_sending_offsets,
    },
    Situation {
        name: "crash-while-ending",
        about: "a machine crashed while a transaction was being committed",
        apis: &[END_TXN],
        times: transactions::crashes_while_ending,
    },
    Situation {
        name: "rebalance-inside-a-transaction",
        about: "a member lost its partitions, or its generation, while its transaction was open",
        apis: &[TXN_OFFSET_COMMIT, JOIN_GROUP],
        times: transactions::rebalances_inside,
    },
    Situation {
        name: "offset-waits-in-a-transaction",
        about: "a member was told to wait for an offset that an open transaction was about to move",
        apis: &[OFFSET_FETCH, TXN_OFFSET_COMMIT],
        times: transactions::unstable_offsets,
    },
    Situation {
        name: "revoked-while-idle",
        about: "a credential ended while its client had asked for nothing",
        apis: &[PRODUCE],
        times: credentials::ended_while_idle,
    },
    Situation {
        name: "revoked-in-mid-produce",
        about: "a credential ended while its client had batches in flight",
        apis: &[PRODUCE],
        times: credentials::ended_in_mid_produce,
    },
    Situation {
        name: "revoked-in-a-rebalance",
        about: "a credential of a member ended while a member of its group was joining or syncing",
        apis: &[JOIN_GROUP, SYNC_GROUP],
        times: credentials::ended_in_a_rebalance,
    },
    Situation {
        name: "revoked-inside-a-transaction",
        about: "a credential ended while its client had a transaction open",
        apis: &[PRODUCE, END_TXN],
        times: credentials::ended_inside_a_transaction,
    },
    Situation {
        name: "scope-lost-in-use",
        about: "a credential lost a scope that its client had used",
        apis: &[PRODUCE, FETCH],
        times: credentials::narrowed_in_use,
    },
    Situation {
        name: "rotated-and-served-again",
        about: "a credential ended, and its client authenticated with its successor",
        apis: &[SASL_AUTHENTICATE],
        times: credentials::served_as_successor,
    },
    Situation {
        name: "authenticated-again",
        about: "a connection was authenticated again before its session ended",
        apis: &[SASL_AUTHENTICATE],
        times: credentials::authenticated_again,
    },
    Situation {
        name: "throttle-waited-out",
        about: "an answer throttled its client, which asked again after it",
        apis: &[PRODUCE, FETCH],
        times: throttles_waited_out,
    },
];

/// How often each situation was met.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Coverage(pub BTreeMap<Name, u64>);

impl Coverage {
    /// What a history holds. Situations that were not met are not in it.
    pub fn of(entries: &[Entry]) -> Self {
        let index = Index::of(entries);
        let mut met = BTreeMap::new();
        for situation in ALL {
            let times = (situation.times)(&index);
            if times > 0 {
                met.insert(situation.name.into(), times);
            }
        }
        for (_, _, event) in index.events() {
            if let Event::Mark(Mark::Situation { name }) = event {
                *met.entry(name.clone()).or_default() += 1;
            }
        }
        Self(met)
    }

    /// Adds what another history holds.
    pub fn add(&mut self, other: &Self) {
        for (name, times) in &other.0 {
            *self.0.entry(name.clone()).or_default() += times;
        }
    }

    /// How often a situation was met.
    pub fn times(&self, name: &str) -> u64 {
        self.0.get(&name.into()).copied().unwrap_or(0)
    }
}

fn count(index: &Index<'_>, is: impl Fn(&Operation<'_>) -> bool) -> u64 {
    index.operations().filter(|(_, one)| is(one)).count() as u64
}

/// The entries at which each batch went out.
fn attempts(index: &Index<'_>) -> BTreeMap<Op, Vec<usize>> {
    let mut attempts: BTreeMap<Op, Vec<usize>> = BTreeMap::new();
    for (at, _, event) in index.events() {
        if let Event::Attempt { op, .. } = event {
            attempts.entry(*op).or_default().push(at);
        }
    }
    for (op, operation) in index.operations() {
        if !matches!(operation.call, Call::Produce { .. }) {
            attempts.remove(&op);
        }
    }
    attempts
}

/// Batches that went out again after something had shown that they are in the log: a reader that
/// got them, or an acknowledgement of something that stands behind them.
fn landed_retries(index: &Index<'_>) -> u64 {
    let mut seen: BTreeMap<Value, usize> = BTreeMap::new();
    for (at, _, event) in index.events() {
        if let Event::Ok {
            reply: Reply::Polled(polled),
            ..
        } = event
        {
            for record in polled.iter().flat_map(|polled| &polled.records) {
                seen.entry(record.value).or_insert(at);
            }
        }
    }
    let attempts = attempts(index);
    let mut stored: BTreeMap<&TopicPartition, Vec<(i64, usize)>> = BTreeMap::new();
    let mut again = Vec::new();
    for (op, operation) in index.operations() {
        let Call::Produce { batch, .. } = operation.call else {
            continue;
        };
        let base = match operation.ok() {
            Some((at, Reply::Stored { base_offset })) => {
                let told = stored.entry(&batch.to).or_default();
                told.extend(base_offset.map(|base| (base, at)));
                *base_offset
            }
            _ => None,
        };
        if let Some([_, .., last]) = attempts.get(&op).map(Vec::as_slice) {
            again.push((batch, base, *last));
        }
    }
    let landed = again.into_iter().filter(|(batch, base, last)| {
        let first = batch.values().next().and_then(|value| seen.get(&value));
        let behind =
            |(other, at): &(i64, usize)| base.is_some_and(|base| *other > base) && at < last;
        first.is_some_and(|seen| seen < last)
            || stored
                .get(&batch.to)
                .is_some_and(|all| all.iter().any(behind))
    });
    landed.count() as u64
}

fn crashes<'i>(index: &'i Index<'_>) -> impl Iterator<Item = usize> + 'i {
    index
        .events()
        .filter(|(_, _, event)| matches!(event, Event::Mark(Mark::Crash { .. })))
        .map(|(at, _, _)| at)
}

fn at_crashes(index: &Index<'_>, is: impl Fn(&Index<'_>, usize) -> bool) -> u64 {
    crashes(index).filter(|at| is(index, *at)).count() as u64
}

/// The most batches that one producer had sent and not heard of when the entry `at` came.
fn most_in_flight(index: &Index<'_>, at: usize) -> usize {
    let attempts = attempts(index);
    let mut open: BTreeMap<&Name, usize> = BTreeMap::new();
    for (op, operation) in index.operations() {
        let sent = attempts
            .get(&op)
            .and_then(|sent| sent.first())
            .is_some_and(|sent| *sent < at);
        if sent && operation.ended.is_none_or(|ended| ended > at) {
            *open.entry(operation.who).or_default() += 1;
        }
    }
    open.into_values().max().unwrap_or(0)
}

fn open_at(index: &Index<'_>, at: usize, is: impl Fn(&Call) -> bool) -> bool {
    let mut all = index.operations();
    all.any(|(_, one)| is(one.call) && one.began < at && one.ended.is_none_or(|ended| ended > at))
}

fn after_crash(index: &Index<'_>, is: impl Fn(&Call) -> bool) -> u64 {
    let Some(first) = crashes(index).next() else {
        return 0;
    };
    count(index, |one| {
        is(one.call) && one.ok().is_some() && one.began > first
    })
}

fn polls_while_broken(index: &Index<'_>) -> u64 {
    let mut broken = false;
    let mut times = 0;
    for (_, _, event) in index.events() {
        match event {
            Event::Mark(Mark::Fault { .. } | Mark::Crash { .. }) => broken = true,
            Event::Mark(Mark::Heal) => broken = false,
            Event::Ok {
                reply: Reply::Polled(_),
                ..
            } if broken => times += 1,
            _ => {}
        }
    }
    times
}

fn commits_during_rebalance(index: &Index<'_>) -> u64 {
    let joins: Vec<_> = index
        .operations()
        .filter_map(|(_, one)| match one.call {
            Call::Join { group, .. } => {
                Some((one.who, group, one.began..one.ended.unwrap_or(usize::MAX)))
            }
            _ => None,
        })
        .collect();
    count(index, |one| {
        let Call::Commit { group, member, .. } = one.call else {
            return false;
        };
        let others = |(who, of, _): &&(&Name, &Name, std::ops::Range<usize>)| {
            *who != one.who && *of == group
        };
        !member.is_empty()
            && joins
                .iter()
                .filter(others)
                .any(|(_, _, open)| open.contains(&one.began))
    })
}

/// The error codes that an operation was told.
fn codes(operation: &Operation<'_>) -> BTreeSet<i16> {
    let failed = operation.failed().and_then(|(_, failure)| failure.code);
    let refused = match operation.ok() {
        Some((_, Reply::Committed { refused })) => refused.as_slice(),
        _ => &[],
    };
    failed
        .into_iter()
        .chain(refused.iter().map(|(_, code)| *code))
        .collect()
}

fn refusals(index: &Index<'_>, is: impl Fn(&Call) -> bool, with: &[i16]) -> u64 {
    count(index, |one| {
        is(one.call) && with.iter().any(|code| codes(one).contains(code))
    })
}

fn is_beat(call: &Call) -> bool {
    matches!(call, Call::ConsumerHeartbeat { .. })
}

/// Commits that were open when their member was told a higher epoch than theirs.
fn commits_of_passed_epochs(index: &Index<'_>) -> u64 {
    let told: Vec<_> = index
        .operations()
        .filter_map(|(_, one)| match (one.call, one.ok()) {
            (
                Call::ConsumerHeartbeat { group, member, .. },
                Some((at, Reply::Beat { epoch, .. })),
            ) => Some((group, member, *epoch, at)),
            _ => None,
        })
        .collect();
    count(index, |one| match one.call {
        Call::Commit {
            group,
            member,
            generation: generation @ 1..,
            ..
        } => told.iter().any(|(of, who, epoch, at)| {
            let open = one.began..one.ended.unwrap_or(usize::MAX);
            of == &group && who == &member && epoch > generation && open.contains(at)
        }),
        _ => false,
    })
}

/// Partitions that one member of KIP-848 revoked, and another one was told to own after that.
fn handed_on(index: &Index<'_>) -> u64 {
    let beating: BTreeSet<&Name> = index
        .operations()
        .filter_map(|(_, one)| match one.call {
            Call::ConsumerHeartbeat { member, .. } => Some(member),
            _ => None,
        })
        .collect();
    let mut free: BTreeMap<&TopicPartition, &Name> = BTreeMap::new();
    let mut times = 0;
    for (_, _, event) in index.events() {
        match event {
            Event::Revoked {
                member, partitions, ..
            } if beating.contains(member) => {
                free.extend(partitions.iter().map(|at| (at, member)));
            }
            Event::Assigned {
                member, partitions, ..
            } => {
                for at in partitions {
                    let before = free.remove(at);
                    times += u64::from(before.is_some_and(|before| before != member));
                }
            }
            _ => {}
        }
    }
    times
}

/// Joins of clients that were told one of these codes last.
fn rejoins(index: &Index<'_>, with: &[i16]) -> u64 {
    let mut told: BTreeMap<&Name, usize> = BTreeMap::new();
    for (_, operation) in index.operations() {
        if with.iter().any(|code| codes(operation).contains(code)) {
            let at = operation.ended.unwrap_or(operation.began);
            told.entry(operation.who)
                .and_modify(|first| *first = at.min(*first))
                .or_insert(at);
        }
    }
    count(index, |one| {
        matches!(one.call, Call::Join { .. })
            && one.ok().is_some()
            && told.get(one.who).is_some_and(|told| *told < one.began)
    })
}

fn commits_repeated(index: &Index<'_>) -> u64 {
    let mut unknown = BTreeSet::new();
    let mut times = 0;
    for (_, operation) in index.operations() {
        let Call::Commit { group, offsets, .. } = operation.call else {
            continue;
        };
        for (at, offset) in offsets {
            let what = (operation.who, group, at, offset);
            if operation.ok().is_some() {
                times += u64::from(unknown.remove(&what));
            } else if operation.failed().is_none() && operation.ended.is_some() {
                unknown.insert(what);
            }
        }
    }
    times
}

fn partitions_added(index: &Index<'_>) -> u64 {
    let mut owned: BTreeSet<&Name> = BTreeSet::new();
    let mut times = 0;
    for (_, _, event) in index.events() {
        match event {
            Event::Assigned { partitions, .. } => {
                owned.extend(partitions.iter().map(|at| &at.topic));
            }
            Event::Invoke {
                call: Call::Admin(Admin::CreatePartitions { topic, .. }),
                ..
            } => times += u64::from(owned.contains(topic)),
            _ => {}
        }
    }
    times
}

fn throttles_waited_out(index: &Index<'_>) -> u64 {
    let mut throttled: BTreeMap<(&Name, u64), u64> = BTreeMap::new();
    let mut times = 0;
    for (at, who, event) in index.events() {
        match event {
            Event::Answered {
                connection,
                throttle_ms,
                ..
            } if *throttle_ms > 0 => {
                let until = index.at_ms(at) + u64::from(*throttle_ms);
                throttled.insert((who, *connection), until);
            }
            Event::Asked { connection, .. } => {
                let until = throttled.remove(&(who, *connection));
                times += u64::from(until.is_some_and(|until| index.at_ms(at) >= until));
            }
            _ => {}
        }
    }
    times
}

#[cfg(test)]
mod tests;
