//! The lies, one fault each.

use bytes::{Bytes, BytesMut};
use host::Host;
use kafka_protocol::messages::consumer_group_heartbeat_response::TopicPartitions;
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{
    ConsumerGroupHeartbeatResponse, FetchResponse, HeartbeatResponse, ListOffsetsResponse,
    OffsetCommitResponse, OffsetFetchResponse, ProduceRequest, ProduceResponse, SyncGroupRequest,
    SyncGroupResponse,
};
use kafka_protocol::protocol::{Decodable, StrBytes};
use kafka_protocol::records::{
    Compression, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions,
};
use kafka_wire::ApiKey;

use super::door::{Ask, Batch, Course, Lie, joined};
use super::plays::BY_HAND;

/// INVALID_RECORD, which no retry heals.
const INVALID_RECORD: i16 = 87;
/// The first batches are honest, so that there is something to be compared with.
const HONEST_BATCHES: u64 = 3;

/// A lie about requests of one API, else nothing.
struct OfAsk<F> {
    api: ApiKey,
    count: u64,
    lie: F,
}

impl<F: FnMut(&Ask, u64) -> Course + Send> Lie for OfAsk<F> {
    fn ask(&mut self, ask: &Ask) -> Course {
        if ask.api != self.api {
            return Course::forward(ask.frame.clone());
        }
        self.count += 1;
        (self.lie)(ask, self.count)
    }
}

pub(super) fn of_ask(
    api: ApiKey,
    lie: impl FnMut(&Ask, u64) -> Course + Send + 'static,
) -> Box<dyn Lie> {
    Box::new(OfAsk { api, count: 0, lie })
}

/// A lie about answers of one API, else nothing.
struct OfAnswer<F> {
    api: ApiKey,
    count: u64,
    lie: F,
}

impl<F: FnMut(&Ask, Bytes, u64) -> Bytes + Send> Lie for OfAnswer<F> {
    fn answer(&mut self, ask: &Ask, frame: Bytes) -> Bytes {
        if ask.api != self.api {
            return frame;
        }
        self.count += 1;
        (self.lie)(ask, frame, self.count)
    }
}

pub(super) fn of_answer(
    api: ApiKey,
    lie: impl FnMut(&Ask, Bytes, u64) -> Bytes + Send + 'static,
) -> Box<dyn Lie> {
    Box::new(OfAnswer { api, count: 0, lie })
}

/// The answer to a Produce, made up.
pub(super) fn produced(ask: &Ask, code: i16) -> Bytes {
    let request = ProduceRequest::decode(&mut ask.body.clone(), ask.version).expect("well-formed");
    let topics = request.topic_data.into_iter().map(|topic| {
        let partitions = topic.partition_data.iter().map(|partition| {
            PartitionProduceResponse::default()
                .with_index(partition.index)
                .with_error_code(code)
                .with_base_offset(-1)
        });
        TopicProduceResponse::default()
            .with_name(topic.name)
            .with_topic_id(topic.topic_id)
            .with_partition_responses(partitions.collect())
    });
    ask.answer(&ProduceResponse::default().with_responses(topics.collect()))
}

/// A Produce with other batches.
fn with_batches(ask: &Ask, change: impl Fn(Batch) -> Batch) -> Bytes {
    ask.with(|request: &mut ProduceRequest| {
        for topic in &mut request.topic_data {
            for partition in &mut topic.partition_data {
                let records = partition.records.take().unwrap_or_default();
                partition.records = Some(joined(Batch::all(records).into_iter().map(&change)));
            }
        }
    })
}

fn anonymous(ask: &Ask) -> Bytes {
    with_batches(ask, Batch::anonymous)
}

pub fn acknowledges_ahead() -> Box<dyn Lie> {
    of_ask(ApiKey::PRODUCE, |ask, _| Course {
        forward: vec![ask.frame.clone()],
        answer: Some(produced(ask, 0)),
    })
}

pub fn forgets() -> Box<dyn Lie> {
    of_ask(ApiKey::PRODUCE, |ask, count| match count % 5 {
        0 => Course::answer(produced(ask, 0)),
        _ => Course::forward(anonymous(ask)),
    })
}

pub fn pushes_twice() -> Box<dyn Lie> {
    of_ask(ApiKey::PRODUCE, |ask, count| {
        let frame = anonymous(ask);
        match count % 5 {
            0 => Course {
                forward: vec![frame.clone(), frame],
                answer: None,
            },
            _ => Course::forward(frame),
        }
    })
}

/// To the facade, every start has producers of its own.
pub fn forgets_at_restart(host: &Host) -> Box<dyn Lie> {
    let start = host.clock.wall().epoch_ms() % 1_000_000;
    of_ask(ApiKey::PRODUCE, move |ask, _| {
        Course::forward(with_batches(ask, |batch| {
            batch.of_producer(|id| id + 1_000 * start)
        }))
    })
}

pub fn tells_wrong_offsets() -> Box<dyn Lie> {
    of_answer(ApiKey::PRODUCE, |ask, frame, _| {
        ask.answer_with(&frame, |response: &mut ProduceResponse| {
            for topic in &mut response.responses {
                for partition in &mut topic.partition_responses {
                    partition.base_offset += 1;
                }
            }
        })
    })
}

/// Two batches of one client change places: the first waits for the second.
pub fn swaps() -> Box<dyn Lie> {
    let mut kept: Option<(String, Bytes)> = None;
    of_ask(ApiKey::PRODUCE, move |ask, _| {
        let frame = anonymous(ask);
        let answer = Some(produced(ask, 0));
        let forward = match kept.take() {
            Some((client, earlier)) if client == ask.client => vec![frame, earlier],
            Some((_, earlier)) => {
                kept = Some((ask.client.clone(), frame));
                vec![earlier]
            }
            None => {
                kept = Some((ask.client.clone(), frame));
                Vec::new()
            }
        };
        Course { forward, answer }
    })
}

pub fn writes_elsewhere() -> Box<dyn Lie> {
    of_ask(ApiKey::PRODUCE, |ask, count| {
        if count <= HONEST_BATCHES {
            return Course::forward(anonymous(ask));
        }
        let elsewhere = ask.with(|request: &mut ProduceRequest| {
            for topic in &mut request.topic_data {
                for partition in &mut topic.partition_data {
                    partition.index = 1 - partition.index;
                    let records = partition.records.take().unwrap_or_default();
                    let batches = Batch::all(records).into_iter().map(Batch::anonymous);
                    partition.records = Some(joined(batches));
                }
            }
        });
        Course {
            forward: vec![elsewhere],
            answer: Some(produced(ask, 0)),
        }
    })
}

pub fn refuses_what_it_stores() -> Box<dyn Lie> {
    of_ask(ApiKey::PRODUCE, |ask, count| {
        let answer = (count > HONEST_BATCHES).then(|| produced(ask, INVALID_RECORD));
        Course {
            forward: vec![ask.frame.clone()],
            answer,
        }
    })
}

pub fn refuses() -> Box<dyn Lie> {
    of_ask(ApiKey::PRODUCE, |ask, count| {
        if count > HONEST_BATCHES {
            Course::answer(produced(ask, INVALID_RECORD))
        } else {
            Course::forward(ask.frame.clone())
        }
    })
}

/// The follower is not shown the first of several records.
pub fn skips() -> Box<dyn Lie> {
    fetched_by_follower(without_first)
}

pub fn changes_bytes() -> Box<dyn Lie> {
    fetched_by_follower(|records| joined(Batch::all(records).into_iter().map(Batch::later)))
}

fn without_first(mut records: Bytes) -> Bytes {
    let whole = records.clone();
    let sets = RecordBatchDecoder::decode_all(&mut records).expect("the facade's batches");
    let all: Vec<_> = sets.into_iter().flat_map(|set| set.records).collect();
    if all.len() < 2 {
        return whole;
    }
    let options = RecordEncodeOptions {
        version: 2,
        compression: Compression::None,
    };
    let mut out = BytesMut::new();
    RecordBatchEncoder::encode(&mut out, &all[1..], &options).expect("encodable");
    out.freeze()
}

fn fetched_by_follower(change: impl Fn(Bytes) -> Bytes + Send + 'static) -> Box<dyn Lie> {
    of_answer(ApiKey::FETCH, move |ask, frame, _| {
        if ask.client != "follower" {
            return frame;
        }
        ask.answer_with(&frame, |response: &mut FetchResponse| {
            for topic in &mut response.responses {
                for partition in &mut topic.partitions {
                    let records = partition.records.take().unwrap_or_default();
                    partition.records = Some(change(records));
                }
            }
        })
    })
}

/// The follower is shown its last batch once more, far behind the log's end.
pub fn shows_a_ghost() -> Box<dyn Lie> {
    fetched_by_follower(|records| {
        let mut shown = BytesMut::from(&records[..]);
        if let Some(last) = Batch::all(records).pop() {
            shown.extend_from_slice(&last.at(|offset| offset + 1_000_000).sealed());
        }
        shown.freeze()
    })
}

/// Every batch is told to be before the last one.
pub fn counts_down() -> Box<dyn Lie> {
    of_answer(ApiKey::PRODUCE, |ask, frame, count| {
        ask.answer_with(&frame, |response: &mut ProduceResponse| {
            for topic in &mut response.responses {
                for partition in &mut topic.partition_responses {
                    partition.base_offset = 1_000_000 - i64::try_from(count).expect("small") * 10;
                }
            }
        })
    })
}

/// Of two requests that `by-hand` sends together, each gets the answer of the other.
pub fn swaps_answers() -> Box<dyn Lie> {
    of_answer(ApiKey::API_VERSIONS, |ask, frame, _| {
        if ask.client != BY_HAND {
            return frame;
        }
        let other = (ask.correlation ^ 1).to_be_bytes();
        let mut frame = frame.to_vec();
        frame[..4].copy_from_slice(&other);
        frame.into()
    })
}

pub fn ignores_heartbeats() -> Box<dyn Lie> {
    of_ask(ApiKey::HEARTBEAT, |_, _| Course::default())
}

pub fn refuses_everything() -> Box<dyn Lie> {
    of_ask(ApiKey::PRODUCE, |ask, _| {
        Course::answer(produced(ask, INVALID_RECORD))
    })
}

pub fn answers_another() -> Box<dyn Lie> {
    of_answer(ApiKey::PRODUCE, |_, frame, count| {
        let mut frame = frame.to_vec();
        frame[3] ^= u8::from(count > HONEST_BATCHES);
        frame.into()
    })
}

pub fn ignores_the_auditor() -> Box<dyn Lie> {
    of_ask(ApiKey::FETCH, |ask, _| match ask.client.as_str() {
        "auditor" => Course::default(),
        _ => Course::forward(ask.frame.clone()),
    })
}

pub fn throttles() -> Box<dyn Lie> {
    of_answer(ApiKey::PRODUCE, |ask, frame, count| {
        ask.answer_with(&frame, |response: &mut ProduceResponse| {
            response.throttle_time_ms = if count % 5 == 0 { 2_000 } else { 0 };
        })
    })
}

/// Every member is given what the one before was given.
pub fn gives_twice() -> Box<dyn Lie> {
    let mut before: Option<Bytes> = None;
    of_answer(ApiKey::SYNC_GROUP, move |ask, frame, _| {
        ask.answer_with(&frame, |response: &mut SyncGroupResponse| {
            if response.error_code == 0 {
                let own = response.assignment.clone();
                response.assignment = before.replace(own.clone()).unwrap_or(own);
            }
        })
    })
}

/// What one member of KIP-848 was given, every other one is given beside its own.
pub fn gives_by_epochs_twice() -> Box<dyn Lie> {
    let mut first: Option<(StrBytes, Vec<TopicPartitions>)> = None;
    of_answer(ApiKey::CONSUMER_GROUP_HEARTBEAT, move |ask, frame, _| {
        ask.answer_with(&frame, |response: &mut ConsumerGroupHeartbeatResponse| {
            let (Some(member), Some(given)) = (&response.member_id, &mut response.assignment)
            else {
                return;
            };
            match &first {
                Some((owner, owned)) if owner != member => {
                    given.topic_partitions.clone_from(owned);
                }
                None if !given.topic_partitions.is_empty() => {
                    first = Some((member.clone(), given.topic_partitions.clone()));
                }
                _ => {}
            }
        })
    })
}

/// The answer to an OffsetFetch with other offsets.
pub(super) fn with_offsets(ask: &Ask, frame: &Bytes, mut change: impl FnMut(i64) -> i64) -> Bytes {
    ask.answer_with(frame, |response: &mut OffsetFetchResponse| {
        for topic in &mut response.topics {
            for partition in &mut topic.partitions {
                partition.committed_offset = change(partition.committed_offset);
            }
        }
        for group in &mut response.groups {
            for topic in &mut group.topics {
                for partition in &mut topic.partitions {
                    partition.committed_offset = change(partition.committed_offset);
                }
            }
        }
    })
}

fn committed(change: impl Fn(i64) -> i64 + Send + 'static) -> Box<dyn Lie> {
    of_answer(ApiKey::OFFSET_FETCH, move |ask, frame, _| {
        with_offsets(ask, &frame, &change)
    })
}

pub fn tells_old_offsets() -> Box<dyn Lie> {
    committed(|offset| if offset > 3 { offset - 3 } else { offset })
}

pub fn makes_offsets_up() -> Box<dyn Lie> {
    committed(|offset| if offset > 0 { offset + 1 } else { offset })
}

/// Whatever a member asks, it is told that all is well.
pub fn takes_everything() -> Box<dyn Lie> {
    struct Takes;
    impl Lie for Takes {
        fn answer(&mut self, ask: &Ask, frame: Bytes) -> Bytes {
            if ask.api == ApiKey::HEARTBEAT {
                return ask.answer_with(&frame, |response: &mut HeartbeatResponse| {
                    response.error_code = 0;
                });
            }
            if ask.api == ApiKey::OFFSET_COMMIT {
                return ask.answer_with(&frame, |response: &mut OffsetCommitResponse| {
                    for topic in &mut response.topics {
                        for partition in &mut topic.partitions {
                            partition.error_code = 0;
                        }
                    }
                });
            }
            frame
        }
    }
    Box::new(Takes)
}

/// Members that don't lead never hear what is theirs.
pub fn never_assigns() -> Box<dyn Lie> {
    of_ask(ApiKey::SYNC_GROUP, |ask, _| {
        let request = SyncGroupRequest::decode(&mut ask.body.clone(), ask.version);
        if request.expect("well-formed").assignments.is_empty() {
            Course::default()
        } else {
            Course::forward(ask.frame.clone())
        }
    })
}

/// To members of the group, every partition begins one record later.
pub fn begins_later() -> Box<dyn Lie> {
    of_answer(ApiKey::LIST_OFFSETS, |ask, frame, _| {
        if !ask.client.starts_with("consumer") {
            return frame;
        }
        ask.answer_with(&frame, |response: &mut ListOffsetsResponse| {
            for topic in &mut response.topics {
                for partition in &mut topic.partitions {
                    partition.offset += 1;
                }
            }
        })
    })
}
