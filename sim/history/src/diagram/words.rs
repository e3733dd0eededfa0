//! Entries in words.

use super::ApiName;
use crate::call::{Admin, Call, Isolation, Reply};
use crate::event::{Entry, Event, Mark, Source};
use crate::value::{Name, TopicPartition};

/// The lane of whoever answers clients.
pub(super) fn broker() -> Name {
    "facade".into()
}

/// Things named at most: a commit may hold a thousand.
const NAMED: usize = 4;

fn list<T: ToString>(all: impl ExactSizeIterator<Item = T>) -> String {
    let count = all.len();
    let mut named: Vec<_> = all.take(NAMED).map(|one| one.to_string()).collect();
    if count > NAMED {
        named.push(format!("{} more", count - NAMED));
    }
    if named.is_empty() {
        "nothing".to_owned()
    } else {
        named.join(", ")
    }
}

fn partitions(all: &[TopicPartition]) -> String {
    list(all.iter())
}

/// What an entry says.
pub(super) fn of(entry: &Entry, api: ApiName) -> String {
    let who = &entry.who;
    match &entry.event {
        Event::Client { profile, promises } => {
            let promises = list(promises.iter().map(|one| format!("{one:?}")));
            format!("{who} is a client like {profile}; promised: {promises}")
        }
        Event::Invoke { op, call, .. } => format!("{who} #{}: {}", op.0, asked(call)),
        Event::Ok { op, reply } => format!("{who} #{} ok: {}", op.0, told(reply)),
        Event::Fail { op, failure } => format!("{who} #{} failed: {}", op.0, failure.what),
        Event::Unknown { op, failure } => {
            format!("{who} #{} nobody knows: {}", op.0, failure.what)
        }
        Event::Attempt {
            op,
            attempt,
            producer,
            sequence,
        } => {
            let under = producer
                .zip(*sequence)
                .map_or(String::new(), |(producer, sequence)| {
                    let (id, epoch) = (producer.id, producer.epoch);
                    format!(" as producer {id} epoch {epoch}, sequence {sequence}")
                });
            format!("{who} #{} goes out, attempt {attempt}{under}", op.0)
        }
        Event::Asked {
            connection,
            api: key,
            version,
            correlation,
        } => format!(
            "{who} asks {} v{version}, correlation {correlation} on {connection}",
            api(*key)
        ),
        Event::Answered {
            connection,
            api: key,
            version,
            correlation,
            throttle_ms,
        } => {
            let throttled = match throttle_ms {
                0 => String::new(),
                ms => format!(", throttled for {ms} ms"),
            };
            format!(
                "{who} is answered {} v{version}, correlation {correlation} on {connection}{throttled}",
                api(*key)
            )
        }
        Event::Subscribed { group, topics } => {
            format!("{who} subscribes to {} in {group}", list(topics.iter()))
        }
        Event::Assigned {
            generation,
            partitions: owned,
            ..
        } => format!(
            "{who} owns {} in generation {generation}",
            partitions(owned)
        ),
        Event::Revoked {
            generation,
            partitions: gone,
            ..
        } => format!(
            "{who} gives back {} of generation {generation}",
            partitions(gone)
        ),
        Event::Lost {
            generation,
            partitions: gone,
            ..
        } => format!("{who} lost {} of generation {generation}", partitions(gone)),
        Event::Seek { at, offset } => format!("{who} goes to {at}@{offset}"),
        Event::Malformed { what } => format!("{who} was told {what}"),
        Event::Log {
            source,
            at,
            records,
        } => format!(
            "{} finds {} records in {at}",
            read_by(*source, who),
            records.len()
        ),
        Event::LogEnd {
            source,
            at,
            start,
            end,
        } => format!(
            "{} has read all of {at}, from {start} to {end}",
            read_by(*source, who)
        ),
        Event::Aborted { at, values } => format!("{at} marks {} aborted", list(values.iter())),
        Event::Memory {
            node,
            used_bytes,
            bound_bytes,
        } => format!("{node} holds {used_bytes} bytes of {bound_bytes}"),
        Event::Served {
            principal,
            action,
            resource,
            ..
        } => format!("{principal} was served {action} on {resource}"),
        Event::Authenticated {
            principal, tenant, ..
        } => format!("authenticated as {principal} of {tenant}"),
        Event::Closed { what, .. } => format!("lost a connection: {what}"),
        Event::Audit {
            sequence,
            principal,
            action,
            resource,
            ..
        } => format!("audit record {sequence}: {action} of {principal} on {resource}"),
        Event::AuditEnd => "the audit ends".to_owned(),
        Event::Derived { of, value } => format!("{who} makes {value} from {of}"),
        Event::Mark(mark) => marked(mark),
    }
}

fn read_by(source: Source, who: &Name) -> String {
    match source {
        Source::Consumer => who.to_string(),
        Source::Storage => "the storage".to_owned(),
    }
}

fn asked(call: &Call) -> String {
    let name = call.name();
    let offsets = |all: &[(TopicPartition, i64)]| {
        list(all.iter().map(|(at, offset)| format!("{at}@{offset}")))
    };
    match call {
        Call::Produce { batch, acks, .. } => format!("{name} {batch}, acks {acks}"),
        Call::Poll { isolation, .. } => match isolation {
            Isolation::ReadUncommitted => name.to_owned(),
            Isolation::ReadCommitted => format!("{name}, committed only"),
        },
        Call::Join { group, member, .. } if member.is_empty() => format!("{name} {group}"),
        Call::Join { group, member, .. } | Call::Leave { group, member, .. } => {
            format!("{name} {group} as {member}")
        }
        Call::Sync {
            group, generation, ..
        }
        | Call::Heartbeat {
            group, generation, ..
        } => format!("{name} {group}, generation {generation}"),
        Call::ConsumerHeartbeat { group, epoch, .. } => format!("{name} {group}, epoch {epoch}"),
        Call::Commit {
            group,
            generation,
            offsets: all,
            ..
        }
        | Call::SendOffsets {
            group,
            generation,
            offsets: all,
            ..
        } => format!(
            "{name} {} in {group}, generation {generation}",
            offsets(all)
        ),
        Call::FetchOffsets {
            group,
            partitions: all,
        } => format!("{name} of {group} for {}", partitions(all)),
        Call::InitProducer { transactional } => match transactional {
            Some(id) => format!("{name} {id}"),
            None => name.to_owned(),
        },
        Call::Begin { transaction } | Call::End { transaction, .. } => {
            format!("{name} {transaction}")
        }
        Call::Admin(admin) => administered(admin),
    }
}

fn administered(admin: &Admin) -> String {
    match admin {
        Admin::CreateTopic { topic, partitions } => {
            format!("create topic {topic} with {partitions} partitions")
        }
        Admin::DeleteTopic { topic } => format!("delete topic {topic}"),
        Admin::CreatePartitions { topic, partitions } => {
            format!("grow topic {topic} to {partitions} partitions")
        }
        Admin::DeleteRecords { at, before } => format!("delete records of {at} before {before}"),
        Admin::AlterConfigs { resource } => format!("alter configs of {resource}"),
        Admin::DeleteGroup { group } => format!("delete group {group}"),
        Admin::DeleteOffsets {
            group,
            partitions: all,
        } => {
            format!("delete offsets of {group} for {}", partitions(all))
        }
        Admin::Look { api } => format!("ask {api}"),
    }
}

fn told(reply: &Reply) -> String {
    match reply {
        Reply::Done => "done".to_owned(),
        Reply::Stored {
            base_offset: Some(base),
        } => format!("stored at {base}"),
        Reply::Stored { base_offset: None } => "stored".to_owned(),
        Reply::Polled(polled) => list(polled.iter().map(|one| {
            let count = one.records.len();
            format!(
                "{count} records of {} from {} to {}",
                one.at, one.from, one.next
            )
        })),
        Reply::Joined {
            generation,
            member,
            leader,
            ..
        } => {
            let role = if member == leader { ", leads" } else { "" };
            format!("{member} in generation {generation}{role}")
        }
        Reply::Synced { assignment } => format!("is to read {}", partitions(assignment)),
        Reply::Beat {
            epoch, assignment, ..
        } => match assignment {
            Some(all) => format!("epoch {epoch}, is to read {}", partitions(all)),
            None => format!("epoch {epoch}"),
        },
        Reply::Committed { refused } if refused.is_empty() => "committed".to_owned(),
        Reply::Committed { refused } => {
            let refused = refused
                .iter()
                .map(|(at, code)| format!("{at} (code {code})"));
            format!("committed, but for {}", list(refused))
        }
        Reply::Offsets(offsets) => list(offsets.iter().map(|(at, offset)| match offset {
            Some(offset) => format!("{at}@{offset}"),
            None => format!("{at} without"),
        })),
        Reply::Producer(producer) => format!("producer {} epoch {}", producer.id, producer.epoch),
    }
}

fn marked(mark: &Mark) -> String {
    match mark {
        Mark::Fault { what } => format!("fault: {what}"),
        Mark::Crash { node } => format!("{node} crashes"),
        Mark::Start { node } => format!("{node} starts"),
        Mark::ClientCrash { client } => format!("{client} is gone"),
        Mark::Heal => "everything is mended".to_owned(),
        Mark::Settled { group, .. } => format!("{group} has had its time to settle"),
        Mark::Revoke {
            principal,
            within_ms,
            actions,
        } => {
            let actions: Vec<_> = actions.iter().map(Name::as_str).collect();
            let of = match actions[..] {
                [] => "everything".to_owned(),
                _ => actions.join(", "),
            };
            format!("{principal} may do {of} no longer, within {within_ms} ms")
        }
        Mark::Grant { principal } => format!("{principal} is good"),
        Mark::Owns { tenant, resource } => format!("{resource} belongs to {tenant}"),
        Mark::Situation { name } => name.to_string(),
        Mark::Stuck => "the clients did not finish in time".to_owned(),
        Mark::Broken { what } => format!("broken: {what}"),
        Mark::End => "the end".to_owned(),
    }
}
