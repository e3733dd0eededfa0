//! The checks, in the order of contract section 12.4.

mod bundle;
mod fetch;
mod kv;
mod native;
mod push;
mod queues;

use futures::future::BoxFuture;

use super::client::{Failure, Probe};

/// One check.
pub struct Check {
    pub group: u8,
    pub title: &'static str,
    pub run: for<'p> fn(&'p Probe) -> BoxFuture<'p, Result<(), Failure>>,
}

/// Names checks and boxes their futures.
macro_rules! checks {
    ($($group:literal $title:literal $run:path;)+) => {
        vec![$(Check {
            group: $group,
            title: $title,
            run: |probe| Box::pin($run(probe)),
        }),+]
    };
}

/// All of them.
pub fn all() -> Vec<Check> {
    checks! {
        1 "a fresh lane's first record has offset 0" push::first_offset;
        1 "items of one push have consecutive offsets and are read back verbatim" push::offsets_and_bounds;
        2 "the largest offset shows a lane's bounds" fetch::bounds_probe;
        2 "one negative offset refuses the call" fetch::negative_offset;
        2 "a partition may be a number" fetch::numeric_partition;
        2 "1025 entries refuse the call" fetch::too_many_entries;
        2 "a lane never pushed to is an empty log" fetch::never_pushed;
        3 "entries keep their order and names, and an error answers at once" fetch::mixed_entries;
        4 "a parked fetch wakes on a push" fetch::long_poll;
        4 "minBytes 0 never parks" fetch::no_park;
        5 "a null payload is a payload, a missing one is none" push::null_payload;
        5 "an envelope keeps null and empty apart" push::envelope;
        6 "partitions counts lanes that exist" queues::lane_count;
        6 "configure keeps what it doesn't name" queues::merge;
        7 "a put names exactly one expiry" kv::expiry;
        7 "a condition that is lost tells the winner" kv::conditions;
        7 "a required loss undoes the call" kv::required;
        7 "a key is written once per call" kv::duplicate_key;
        7 "257 operations and a key of 513 bytes are refused" kv::ceilings;
        8 "a bulk read sees its own call's write" kv::heartbeat;
        9 "a push and a row commit together" bundle::commits;
        9 "a lost fence writes no record and counts in the flat space" bundle::lost_fence;
        9 "a prefix read and 65 operations are refused" bundle::refusals;
        10 "a queue is deleted once, and asked twice" queues::delete_twice;
        11 "a committed offset shows as a Kafka group with its lag" queues::kafka_group;
        12 "a group takes what came since it subscribed, and an ack moves it" native::pop_and_ack;
        12 "a batch is held by one consumer until it fails" native::lease_and_failure;
        12 "records of both sides are read by the other" native::both_sides;
    }
}
