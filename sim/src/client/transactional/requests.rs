//! What coordinators of transactions and groups are asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest,
    ProducerId, TransactionalId, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
};
use kafka_protocol::protocol::StrBytes;

use super::TransactionalProducer;
use super::ask::Asked;
use super::trouble::{Asking, Refusal};
use crate::client::consumer::coordinator::Coordinator;
use crate::client::consumer::membership::Identity as Member;
use crate::client::producer::core::Identity;
use crate::client::{group_id, millis, text, topic_name};
use crate::history::{Name, Operation, TopicPartition};

/// The last version before partitions and groups are added by what is written, and an end of a
/// transaction raises the epoch (KIP-890).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ceilings {
    pub produce: i16,
    txn_offset_commit: i16,
    end: i16,
}

const TRANSACTIONS_1: Ceilings = Ceilings {
    produce: 11,
    txn_offset_commit: 4,
    end: 4,
};

const NONE: Ceilings = Ceilings {
    produce: i16::MAX,
    txn_offset_commit: i16::MAX,
    end: i16::MAX,
};

impl TransactionalProducer {
    pub(super) const fn is_implicit(&self) -> bool {
        self.client.profile.transactions.implicit
    }

    pub(super) const fn ceilings(&self) -> Ceilings {
        if self.is_implicit() {
            NONE
        } else {
            TRANSACTIONS_1
        }
    }

    fn transactional_id(&self) -> TransactionalId {
        TransactionalId(text(&self.settings.id))
    }

    pub(super) async fn ask_identity(&self, current: Option<Identity>) -> Asked<Identity> {
        let current = current.unwrap_or(Identity { id: -1, epoch: -1 });
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(self.transactional_id()))
            .with_transaction_timeout_ms(millis(self.settings.timeout))
            .with_producer_id(ProducerId(current.id))
            .with_producer_epoch(current.epoch);
        let asked = self.ask(
            Asking::Coordinator,
            &self.coordinator,
            &request,
            i16::MAX,
            |response| response.error_code,
        );
        asked.await.map(|response| Identity {
            id: response.producer_id.0,
            epoch: response.producer_epoch,
        })
    }

    /// AddPartitionsToTxn for those that the coordinator doesn't know yet.
    pub(super) async fn add_partitions(
        &mut self,
        partitions: Vec<TopicPartition>,
    ) -> Result<(), Refusal> {
        let mut topics: BTreeMap<&Name, Vec<i32>> = BTreeMap::new();
        for at in &partitions {
            topics.entry(&at.topic).or_default().push(at.partition);
        }
        let topics = topics.into_iter().map(|(topic, partitions)| {
            AddPartitionsToTxnTopic::default()
                .with_name(topic_name(topic))
                .with_partitions(partitions)
        });
        let identity = self.current();
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(self.transactional_id())
            .with_v3_and_below_producer_id(ProducerId(identity.id))
            .with_v3_and_below_producer_epoch(identity.epoch)
            .with_v3_and_below_topics(topics.collect());
        // From here on the coordinator may know of the transaction, whatever it answers.
        self.partitions.extend(partitions.iter().cloned());
        let asked = self.ask(
            Asking::Coordinator,
            &self.coordinator,
            &request,
            i16::MAX,
            |response| {
                let mut topics = response.results_by_topic_v3_and_below.iter();
                let refused = topics.find_map(|topic| {
                    let mut codes = topic
                        .results_by_partition
                        .iter()
                        .map(|one| one.partition_error_code);
                    codes.find(|code| *code != 0)
                });
                refused.unwrap_or(response.error_code)
            },
        );
        asked.await.result.map(|_| ())
    }

    /// AddOffsetsToTxn where it is asked for, and TxnOffsetCommit.
    pub(super) async fn stage_offsets(
        &mut self,
        group: &Name,
        member: &Member,
        offsets: &BTreeMap<TopicPartition, i64>,
        operation: &Operation,
    ) -> Asked<()> {
        let identity = self.current();
        let new = self.added_groups.insert(group.clone());
        if new && !self.is_implicit() {
            let request = AddOffsetsToTxnRequest::default()
                .with_transactional_id(self.transactional_id())
                .with_producer_id(ProducerId(identity.id))
                .with_producer_epoch(identity.epoch)
                .with_group_id(group_id(group));
            let asked = self.ask(
                Asking::Coordinator,
                &self.coordinator,
                &request,
                i16::MAX,
                |response| response.error_code,
            );
            let asked = asked.await.map(|_| ());
            if asked.result.is_err() {
                return asked;
            }
        }
        let cluster = self.cluster.clone();
        let coordinator = self
            .groups
            .entry(group.clone())
            .or_insert_with(|| Arc::new(Coordinator::new(cluster, group.clone())));
        let coordinator = Arc::clone(coordinator);
        let request = TxnOffsetCommitRequest::default()
            .with_transactional_id(self.transactional_id())
            .with_group_id(group_id(group))
            .with_producer_id(ProducerId(identity.id))
            .with_producer_epoch(identity.epoch)
            .with_generation_id(member.generation)
            .with_member_id(text(&member.member))
            .with_group_instance_id(member.instance.as_ref().map(text))
            .with_topics(topics(offsets));
        let ceiling = self.ceilings().txn_offset_commit;
        let mut tries = 0;
        let goes_out = || {
            tries += 1;
            operation.attempt(tries, Some(identity), None);
        };
        let asked = self.ask_and_tell(
            Asking::Group,
            &coordinator,
            &request,
            ceiling,
            refused,
            goes_out,
        );
        asked.await.map(|_| ())
    }

    /// EndTxn: the identity of the next transaction, where the version tells one.
    pub(super) async fn ask_end(&self, commit: bool) -> Asked<Option<Identity>> {
        let identity = self.current();
        let request = EndTxnRequest::default()
            .with_transactional_id(self.transactional_id())
            .with_producer_id(ProducerId(identity.id))
            .with_producer_epoch(identity.epoch)
            .with_committed(commit);
        let ceiling = self.ceilings().end;
        let asked = self.ask(
            Asking::Coordinator,
            &self.coordinator,
            &request,
            ceiling,
            |response| response.error_code,
        );
        asked.await.map(|response| {
            (response.producer_id.0 >= 0).then_some(Identity {
                id: response.producer_id.0,
                epoch: response.producer_epoch,
            })
        })
    }
}

fn topics(offsets: &BTreeMap<TopicPartition, i64>) -> Vec<TxnOffsetCommitRequestTopic> {
    let mut topics: BTreeMap<&Name, Vec<TxnOffsetCommitRequestPartition>> = BTreeMap::new();
    for (at, offset) in offsets {
        let partition = TxnOffsetCommitRequestPartition::default()
            .with_partition_index(at.partition)
            .with_committed_offset(*offset)
            .with_committed_leader_epoch(-1)
            .with_committed_metadata(Some(StrBytes::default()));
        topics.entry(&at.topic).or_default().push(partition);
    }
    let topics = topics.into_iter().map(|(topic, partitions)| {
        TxnOffsetCommitRequestTopic::default()
            .with_name(topic_name(topic))
            .with_partitions(partitions)
    });
    topics.collect()
}

fn refused(response: &TxnOffsetCommitResponse) -> i16 {
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    let mut codes = partitions.map(|partition| partition.error_code);
    codes.find(|code| *code != 0).unwrap_or(0)
}
