//! From a fetch request to the lanes that are to be read.

use std::sync::Arc;

use coordinator::fetch_session::ContextPartition;
use host::Monotonic;
use kafka_wire::ErrorCode;
use kafka_wire::records::Compression;

use super::TopicKey;
use super::surplus::{Rest, Surplus};
use crate::catalogue::{Lookup, Topic, View};
use crate::leader_epoch;
use crate::produce::TopicCodecs;
use crate::queen::{Credential, MAX_ENTRY_BYTES, Scope};
use crate::time_index::PartitionKey;
use crate::topics;
use crate::upstream_errors::{self, Api};

/// What an entry asks for when the client names no size.
const DEFAULT_ENTRY_BYTES: u32 = 1 << 20;
/// The first Fetch version that may carry zstd (KIP-110).
const FIRST_ZSTD_VERSION: i16 = 10;

/// Where a lane's records come from.
#[derive(Debug)]
pub enum Source {
    /// From Queen.
    Read,
    /// Read before.
    Kept(Rest),
    /// Not this time: what was read before fills the response.
    Later,
    /// From nowhere: this is the answer.
    Refused(ErrorCode),
}

/// One partition of the request.
#[derive(Debug)]
pub struct Planned {
    /// The queue; empty when the topic isn't known.
    pub queue: Arc<str>,
    /// The topic, when the catalogue knows it.
    pub topic: Option<Arc<Topic>>,
    /// Whether the request names the topic by its id.
    pub by_id: bool,
    /// The partition.
    pub partition: i32,
    /// The first offset wanted.
    pub offset: i64,
    /// The most record bytes wanted; at least 1.
    pub max_bytes: usize,
    /// The codec of the response.
    pub codec: Compression,
    /// Where its records come from.
    pub source: Source,
}

impl Planned {
    /// The partition by its topic's id, when that's known.
    pub fn key(&self) -> Option<PartitionKey> {
        let topic_id = self.topic.as_ref()?.id;
        (!topic_id.is_nil()).then_some(PartitionKey {
            topic_id,
            partition: self.partition,
        })
    }

    /// Whether its records were read before.
    pub fn is_kept(&self) -> bool {
        matches!(self.source, Source::Kept(_))
    }

    /// The code for a topic that turns out not to exist.
    pub fn unknown_code(&self) -> ErrorCode {
        if self.by_id {
            ErrorCode::UnknownTopicId
        } else {
            ErrorCode::UnknownTopicOrPartition
        }
    }

    /// What to ask of Queen, in its compressed bytes.
    pub fn entry_bytes(&self) -> u32 {
        u32::try_from(self.max_bytes)
            .unwrap_or(MAX_ENTRY_BYTES)
            .clamp(1, MAX_ENTRY_BYTES)
    }
}

/// What all partitions of a request share.
#[derive(Debug)]
pub struct Request<'r> {
    /// Whose.
    pub scope: &'r Scope,
    /// As whom.
    pub credential: &'r Credential,
    /// The version of the API.
    pub version: i16,
    /// When it's planned.
    pub now: Monotonic,
    /// The topics.
    pub view: &'r View,
    /// What may be left from earlier reads.
    pub surplus: &'r Surplus,
    /// The codec a topic was last produced with.
    pub codecs: &'r TopicCodecs,
}

/// Whether `view` lacks a topic of `partitions`.
pub fn lacks(view: &View, partitions: &[ContextPartition<TopicKey>]) -> bool {
    partitions
        .iter()
        .map(|partition| &partition.partition.topic)
        .any(|topic| matches!(look(view, topic), Lookup::Absent))
}

fn look(view: &View, topic: &TopicKey) -> Lookup {
    match topic {
        TopicKey::Name(name) => view.lookup(name),
        TopicKey::Id(id) => view.lookup_id(*id),
    }
}

impl Request<'_> {
    /// Plans `partitions` in their order.
    pub fn plan(&self, partitions: &[ContextPartition<TopicKey>]) -> Vec<Planned> {
        let mut last: Option<(&TopicKey, Found)> = None;
        let mut planned = Vec::with_capacity(partitions.len());
        for partition in partitions {
            let key = &partition.partition.topic;
            let found = match &last {
                Some((topic, found)) if *topic == key => found.clone(),
                _ => self.find(key),
            };
            planned.push(self.partition(partition, &found));
            last = Some((key, found));
        }
        planned
    }

    fn find(&self, key: &TopicKey) -> Found {
        let lookup = look(self.view, key);
        let refused = |code| Found {
            queue: Arc::from(""),
            topic: Err(Some(code)),
        };
        match (lookup, key) {
            (Lookup::Found(topic), _) => Found {
                queue: Arc::clone(&topic.name),
                topic: Ok(topic),
            },
            // Whether it exists is Queen's call.
            (Lookup::Failed(error), TopicKey::Name(name)) if error.is_transient() => Found {
                queue: Arc::clone(name),
                topic: Err(None),
            },
            (Lookup::Failed(error), _) => {
                let answer = upstream_errors::answer(Api::Fetch, self.version, &error);
                // Nothing can be read without the list, so "empty" would be a lie.
                refused(match answer.code {
                    ErrorCode::None => ErrorCode::NotLeaderOrFollower,
                    code => code,
                })
            }
            (Lookup::Later, _) => refused(ErrorCode::NotLeaderOrFollower),
            (Lookup::Absent | Lookup::Illegal(_), TopicKey::Name(_)) => {
                refused(ErrorCode::UnknownTopicOrPartition)
            }
            (Lookup::Absent | Lookup::Illegal(_), TopicKey::Id(_)) => {
                refused(ErrorCode::UnknownTopicId)
            }
        }
    }

    fn partition(&self, partition: &ContextPartition<TopicKey>, found: &Found) -> Planned {
        let fetch = partition.fetch;
        let mut planned = Planned {
            queue: Arc::clone(&found.queue),
            topic: found.topic.as_ref().ok().cloned(),
            by_id: matches!(partition.partition.topic, TopicKey::Id(_)),
            partition: partition.partition.partition,
            offset: fetch.fetch_offset,
            max_bytes: usize::try_from(fetch.max_bytes)
                .ok()
                .filter(|&max_bytes| max_bytes > 0)
                .unwrap_or(DEFAULT_ENTRY_BYTES as usize),
            codec: Compression::None,
            source: Source::Read,
        };
        if let Err(Some(code)) = found.topic {
            planned.source = Source::Refused(code);
            return planned;
        }
        let outside = match &planned.topic {
            Some(topic) => !topic.has_partition(planned.partition),
            None => planned.partition < 0,
        };
        if outside {
            planned.source = Source::Refused(ErrorCode::UnknownTopicOrPartition);
        } else if let Err(code) = leader_epoch::check(fetch.current_leader_epoch) {
            planned.source = Source::Refused(code);
        } else if planned.offset < 0 || planned.offset == i64::MAX {
            planned.source = Source::Refused(ErrorCode::OffsetOutOfRange);
        } else if let Some(key) = planned.key()
            && let Some(rest) =
                self.surplus
                    .take(self.now, (self.scope, self.credential), key, planned.offset)
        {
            planned.source = Source::Kept(rest);
        }
        planned.codec = planned
            .topic
            .as_deref()
            .map_or(Compression::None, |topic| self.codec(topic));
        planned
    }

    fn codec(&self, topic: &Topic) -> Compression {
        let codec = match topic.compression {
            topics::Compression::Producer => self.codecs.of(topic.id),
            topics::Compression::Uncompressed => Compression::None,
            topics::Compression::Gzip => Compression::Gzip,
            topics::Compression::Snappy => Compression::Snappy,
            topics::Compression::Lz4 => Compression::Lz4,
            topics::Compression::Zstd => Compression::Zstd,
        };
        if codec == Compression::Zstd && self.version < FIRST_ZSTD_VERSION {
            Compression::None
        } else {
            codec
        }
    }
}

/// Leaves lanes for the next request when what was read before fills this one's response of
/// `max_bytes`: more would only be read to be kept. For a client that may be left without news of
/// a partition.
pub fn defer(planned: &mut [Planned], max_bytes: usize) {
    let kept = planned.iter().map(|planned| match &planned.source {
        Source::Kept(rest) => rest.len_bytes,
        _ => 0,
    });
    if kept.sum::<usize>() >= max_bytes {
        for planned in planned {
            if matches!(planned.source, Source::Read) {
                planned.source = Source::Later;
            }
        }
    }
}

/// A topic, looked up: known, only named (`Err(None)`), or refused.
#[derive(Clone, Debug)]
struct Found {
    queue: Arc<str>,
    topic: Result<Arc<Topic>, Option<ErrorCode>>,
}
