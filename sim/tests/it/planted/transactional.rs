//! Lies about transactions, and the clients that hear them.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_protocol::messages::{
    EndTxnRequest, EndTxnResponse, InitProducerIdRequest, OffsetCommitRequest,
    OffsetCommitResponse, ProduceRequest, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
};
use kafka_protocol::protocol::{Decodable, Encodable};
use kafka_wire::ApiKey;
use kafka_wire::header::put_request_header;
use sim::scenario::transaction::eos::Loop;
use sim::scenario::transaction::ledger::Ledger;
use sim::scenario::{Orders, Stage};

use super::door::{Ask, Batch, Course, Lie, joined};
use super::lies::{of_answer, of_ask, produced, with_offsets};

const FEW: Ledger = Ledger {
    tellers: 2,
    transactions: 8,
    aborts: 3,
    ..Ledger::USUAL
};

pub async fn ledger(stage: Stage) {
    FEW.play(stage).await;
}

pub async fn twins(stage: Stage) {
    Ledger { twins: true, ..FEW }.play(stage).await;
}

pub async fn looped(stage: Stage) {
    let few = Loop {
        visits: Duration::from_millis(1_000),
        orders: Orders {
            batches: 20,
            ..Loop::USUAL.orders
        },
        ..Loop::USUAL
    };
    few.play(stage).await;
}

fn decoded<M: Decodable>(ask: &Ask) -> M {
    M::decode(&mut ask.body.clone(), ask.version).expect("well-formed")
}

/// What a client wants aborted is committed.
pub fn commits_what_is_aborted() -> Box<dyn Lie> {
    of_ask(ApiKey::END_TXN, |ask, _| {
        Course::forward(ask.with(|request: &mut EndTxnRequest| request.committed = true))
    })
}

/// What belongs to a transaction can be read at once.
pub fn shows_what_is_open() -> Box<dyn Lie> {
    of_ask(ApiKey::PRODUCE, |ask, _| {
        Course::forward(ask.with(|request: &mut ProduceRequest| {
            request.transactional_id = None;
            for topic in &mut request.topic_data {
                for partition in &mut topic.partition_data {
                    let records = partition.records.take().unwrap_or_default();
                    let plain = Batch::all(records).into_iter().map(Batch::plain);
                    partition.records = Some(joined(plain));
                }
            }
        }))
    })
}

/// A part of what was sent is not staged, and acknowledged all the same.
pub fn forgets_a_part() -> Box<dyn Lie> {
    of_ask(ApiKey::PRODUCE, |ask, count| match count % 5 {
        0 => Course::answer(produced(ask, 0)),
        _ => Course::forward(ask.frame.clone()),
    })
}

fn offsets_taken(ask: &Ask) -> Bytes {
    let request: TxnOffsetCommitRequest = decoded(ask);
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            TxnOffsetCommitResponsePartition::default()
                .with_partition_index(partition.partition_index)
        });
        TxnOffsetCommitResponseTopic::default()
            .with_partitions(partitions.collect())
            .with_name(topic.name)
    });
    ask.answer(&TxnOffsetCommitResponse::default().with_topics(topics.collect()))
}

/// Offsets are committed at once, and some commits then refused.
pub fn commits_offsets_ahead() -> Box<dyn Lie> {
    /// INVALID_PRODUCER_ID_MAPPING, which makes clients abort.
    const LOST: i16 = 49;
    struct Ahead(u64);
    impl Lie for Ahead {
        fn ask(&mut self, ask: &Ask) -> Course {
            if ask.api == ApiKey::TXN_OFFSET_COMMIT {
                return Course {
                    forward: vec![plain_commit(ask)],
                    answer: Some(offsets_taken(ask)),
                };
            }
            if ask.api == ApiKey::END_TXN && decoded::<EndTxnRequest>(ask).committed {
                self.0 += 1;
                if self.0.is_multiple_of(4) {
                    let refused = EndTxnResponse::default().with_error_code(LOST);
                    return Course::answer(ask.answer(&refused));
                }
            }
            Course::forward(ask.frame.clone())
        }
    }
    Box::new(Ahead(0))
}

fn plain_commit(ask: &Ask) -> Bytes {
    const VERSION: i16 = 7;
    let request: TxnOffsetCommitRequest = decoded(ask);
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            OffsetCommitRequestPartition::default()
                .with_partition_index(partition.partition_index)
                .with_committed_offset(partition.committed_offset)
                .with_committed_leader_epoch(-1)
        });
        OffsetCommitRequestTopic::default()
            .with_partitions(partitions.collect())
            .with_name(topic.name)
    });
    let commit = OffsetCommitRequest::default()
        .with_group_id(request.group_id)
        .with_generation_id_or_member_epoch(request.generation_id)
        .with_member_id(request.member_id)
        .with_topics(topics.collect());
    let mut frame = BytesMut::new();
    let (key, client) = (ApiKey::OFFSET_COMMIT, Some(ask.client.as_str()));
    put_request_header(&mut frame, key, VERSION, ask.correlation, client);
    commit.encode(&mut frame, VERSION).expect("encodable");
    frame.freeze()
}

/// A member of a loop that comes to its partitions is told, a few times, that less of them is done
/// than is. Whoever asks from outside hears the truth, so that the loop ends.
pub fn tells_loops_old_offsets() -> Box<dyn Lie> {
    const LIES: u64 = 4;
    let mut lies = 0;
    of_answer(ApiKey::OFFSET_FETCH, move |ask, frame, _| {
        if !ask.client.starts_with("loop-") || lies >= LIES {
            return frame;
        }
        let mut changed = false;
        let frame = with_offsets(ask, &frame, |offset| {
            let old = if offset > 0 {
                (offset - 4).max(0)
            } else {
                offset
            };
            changed |= old != offset;
            old
        });
        lies += u64::from(changed);
        frame
    })
}

/// Whoever asks for a transactional id is given the identity of the first.
pub fn fences_nobody() -> Box<dyn Lie> {
    #[derive(Default)]
    struct Same(BTreeMap<String, Bytes>);
    impl Lie for Same {
        fn ask(&mut self, ask: &Ask) -> Course {
            let known = self.known(ask);
            match known {
                // A frame begins with the correlation id.
                Some(frame) => {
                    let mut frame = BytesMut::from(&frame[..]);
                    frame[..4].copy_from_slice(&ask.correlation.to_be_bytes());
                    Course::answer(frame.freeze())
                }
                None => Course::forward(ask.frame.clone()),
            }
        }

        fn answer(&mut self, ask: &Ask, frame: Bytes) -> Bytes {
            if ask.api == ApiKey::INIT_PRODUCER_ID {
                self.0.insert(key(ask), frame.clone());
            }
            frame
        }
    }
    impl Same {
        fn known(&self, ask: &Ask) -> Option<Bytes> {
            (ask.api == ApiKey::INIT_PRODUCER_ID).then(|| self.0.get(&key(ask)).cloned())?
        }
    }
    fn key(ask: &Ask) -> String {
        let request: InitProducerIdRequest = decoded(ask);
        let id = request.transactional_id.map(|id| id.to_string());
        format!("{id:?} v{}", ask.version)
    }
    Box::new(Same::default())
}

/// Commits are answered with a throttle.
pub fn throttles_commits() -> Box<dyn Lie> {
    of_answer(ApiKey::OFFSET_COMMIT, |ask, frame, _| {
        ask.answer_with(&frame, |response: &mut OffsetCommitResponse| {
            response.throttle_time_ms = 700;
        })
    })
}
