//! Situations that a sweep must have met: what was never met was never tried, however many runs
//! passed.
//!
//! Each is found in the history itself where clients show it; the rest the world names with
//! [`Mark::Situation`].

mod batches;
mod credentials;
mod groups;
mod transactions;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::call::{Call, Reply};
use crate::check::epochs;
use crate::check::index::{Index, Operation};
use crate::event::{Entry, Event, Mark};
use crate::value::Name;

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
            batches::attempts(index)
                .values()
                .filter(|sent| sent.len() > 1)
                .count() as u64
        },
    },
    Situation {
        name: "retry-of-a-landed-push",
        about: "a batch went out again after a reader had seen it: its first answer was lost",
        apis: &[PRODUCE],
        times: batches::landed_retries,
    },
    Situation {
        name: "five-in-flight-at-a-crash",
        about: "a machine crashed while a producer had five batches in flight",
        apis: &[PRODUCE],
        times: |index| at_crashes(index, |index, at| batches::most_in_flight(index, at) >= 5),
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
        times: groups::commits_during_rebalance,
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
        times: groups::commits_repeated,
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
        times: |index| groups::rejoins(index, &[ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS]),
    },
    Situation {
        name: "rejoin-as-a-stranger",
        about: "a member was no longer known, and joined again",
        apis: &[JOIN_GROUP, HEARTBEAT],
        times: |index| groups::rejoins(index, &[UNKNOWN_MEMBER_ID]),
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
        times: groups::partitions_added,
    },
    Situation {
        name: "member-of-no-group-any-more",
        about: "a member of KIP-848 was not known any more, and came again",
        apis: &[CONSUMER_GROUP_HEARTBEAT],
        times: |index| refusals(index, groups::is_beat, &[UNKNOWN_MEMBER_ID]),
    },
    Situation {
        name: "commit-of-a-passed-epoch",
        about: "a member of KIP-848 was told its next epoch while a commit of the one before was on its way",
        apis: &[OFFSET_COMMIT, CONSUMER_GROUP_HEARTBEAT],
        times: groups::commits_of_passed_epochs,
    },
    Situation {
        name: "instance-not-released",
        about: "a static member of KIP-848 came while its predecessor still had its place",
        apis: &[CONSUMER_GROUP_HEARTBEAT],
        times: |index| refusals(index, groups::is_beat, &[UNRELEASED_INSTANCE_ID]),
    },
    Situation {
        name: "partition-handed-on-by-epochs",
        about: "a member of KIP-848 told that it gave a partition up, and another one got it",
        apis: &[CONSUMER_GROUP_HEARTBEAT],
        times: groups::handed_on,
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

fn crashes<'i>(index: &'i Index<'_>) -> impl Iterator<Item = usize> + 'i {
    index
        .events()
        .filter(|(_, _, event)| matches!(event, Event::Mark(Mark::Crash { .. })))
        .map(|(at, _, _)| at)
}

fn at_crashes(index: &Index<'_>, is: impl Fn(&Index<'_>, usize) -> bool) -> u64 {
    crashes(index).filter(|at| is(index, *at)).count() as u64
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
