//! What the probes of the transaction APIs need first: a transactional producer, and an open
//! transaction of it.

use kafka_wire::ApiKey;
use kafka_wire::records::{BatchOptions, ProducerFields};
use serde_json::{Value as Json, json};

use super::probe::Probe;
use super::stage::{Topic, batch};
use crate::spec::{Stop, Verdict};

/// A transactional producer that was made for one case.
#[derive(Clone, Debug)]
pub(crate) struct Transactional {
    /// Its transactional id.
    pub(crate) id: String,
    /// Its producer id.
    pub(crate) producer: i64,
    /// Its epoch.
    pub(crate) epoch: i64,
}

impl Probe {
    /// A transactional producer that nothing else uses; routes to its coordinator.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub(crate) async fn transactional(&self) -> Result<Transactional, Stop> {
        let id = self.unique("txn");
        let answer = self
            .stage(
                ApiKey::FIND_COORDINATOR,
                json!({"Key": id, "KeyType": 1, "CoordinatorKeys": [id]}),
            )
            .await?;
        let (host, port) = match answer.value.get("Coordinators[0]") {
            Some(_) => (
                answer.text("Coordinators[0].Host")?,
                answer.int("Coordinators[0].Port")?,
            ),
            None => (answer.text("Host")?, answer.int("Port")?),
        };
        let coordinator = format!("{host}:{port}");
        self.route_to(coordinator.clone()).await;
        self.initialised(&id).await
    }

    /// The next producer of a transactional id: the ones before are fenced.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub(super) async fn initialised(&self, id: &str) -> Result<Transactional, Stop> {
        let route = self.route().await;
        let request = init(id, -1, -1);
        let answer = self
            .stage_at(&route, ApiKey::INIT_PRODUCER_ID, request)
            .await?;
        answer.is(json!({"ErrorCode": "NONE"}))?;
        Ok(Transactional {
            id: id.to_owned(),
            producer: answer.int("ProducerId")?,
            epoch: answer.int("ProducerEpoch")?,
        })
    }

    /// A topic, and a producer with an open transaction on its partition 0; routes to the
    /// coordinator.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub(super) async fn begun(&self) -> Result<(Topic, Transactional), Stop> {
        let topic = self.topic(1).await?;
        let mine = self.transactional().await?;
        self.begin(&topic, &mine).await?;
        Ok((topic, mine))
    }

    /// Adds partition 0 of a topic.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub(super) async fn begin(&self, topic: &Topic, mine: &Transactional) -> Verdict {
        let route = self.route().await;
        let request = add_partitions(mine, &topic.name, &[0]);
        self.stage_at(&route, ApiKey::ADD_PARTITIONS_TO_TXN, request)
            .await?
            .is(json!({
                "ErrorCode": "NONE",
                "ResultsByTopicV3AndBelow": [{"ResultsByPartition": [{"PartitionErrorCode": "NONE"}]}],
                "ResultsByTransaction": [{"TopicResults": [{"ResultsByPartition": [{"PartitionErrorCode": "NONE"}]}]}],
            }))
    }

    /// Appends `count` records to the open transaction, the first with this sequence.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub(super) async fn append_in_transaction(
        &self,
        topic: &Topic,
        mine: &Transactional,
        count: usize,
        sequence: i32,
    ) -> Verdict {
        let route = self.route().await;
        self.stage_at(
            &route,
            ApiKey::PRODUCE,
            produce(topic, mine, count, sequence)?,
        )
        .await?
        .is(json!({"Responses": [{"PartitionResponses": [{"ErrorCode": "NONE"}]}]}))
    }

    /// Ends the open transaction; the producer may have another epoch then.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub(super) async fn ended(
        &self,
        mine: &Transactional,
        commit: bool,
    ) -> Result<Transactional, Stop> {
        let route = self.route().await;
        let answer = self
            .stage_at(&route, ApiKey::END_TXN, end(mine, commit))
            .await?;
        answer.is(json!({"ErrorCode": "NONE"}))?;
        let mut next = mine.clone();
        if let (Ok(producer), Ok(epoch)) = (answer.int("ProducerId"), answer.int("ProducerEpoch"))
            && producer >= 0
        {
            (next.producer, next.epoch) = (producer, epoch);
        }
        Ok(next)
    }
}

pub(crate) fn init(id: &str, producer: i64, epoch: i64) -> Json {
    json!({
        "TransactionalId": id,
        "TransactionTimeoutMs": 60_000,
        "ProducerId": producer,
        "ProducerEpoch": epoch,
    })
}

pub(crate) fn add_partitions(mine: &Transactional, topic: &str, partitions: &[i32]) -> Json {
    let topics = json!([{"Name": topic, "Partitions": partitions}]);
    json!({
        "V3AndBelowTransactionalId": mine.id,
        "V3AndBelowProducerId": mine.producer,
        "V3AndBelowProducerEpoch": mine.epoch,
        "V3AndBelowTopics": topics,
        "Transactions": [{
            "TransactionalId": mine.id,
            "ProducerId": mine.producer,
            "ProducerEpoch": mine.epoch,
            "VerifyOnly": false,
            "Topics": topics,
        }],
    })
}

pub(crate) fn end(mine: &Transactional, commit: bool) -> Json {
    json!({
        "TransactionalId": mine.id,
        "ProducerId": mine.producer,
        "ProducerEpoch": mine.epoch,
        "Committed": commit,
    })
}

pub(crate) fn add_offsets(mine: &Transactional, group: &str) -> Json {
    json!({
        "TransactionalId": mine.id,
        "ProducerId": mine.producer,
        "ProducerEpoch": mine.epoch,
        "GroupId": group,
    })
}

pub(crate) fn offsets(mine: &Transactional, group: &str, topic: &Topic, offset: i64) -> Json {
    json!({
        "TransactionalId": mine.id,
        "GroupId": group,
        "ProducerId": mine.producer,
        "ProducerEpoch": mine.epoch,
        "GenerationIdOrMemberEpoch": -1,
        "MemberId": "",
        "GroupInstanceId": null,
        "Topics": [{"Name": topic.name, "TopicId": topic.id, "Partitions": [{
            "PartitionIndex": 0,
            "CommittedOffset": offset,
            "CommittedLeaderEpoch": -1,
            "CommittedMetadata": "note",
        }]}],
    })
}

/// Produce of `count` records in the transaction.
pub(crate) fn produce(
    topic: &Topic,
    mine: &Transactional,
    count: usize,
    sequence: i32,
) -> Result<Json, Stop> {
    let options = BatchOptions {
        transactional: true,
        producer: ProducerFields {
            id: mine.producer,
            epoch: i16::try_from(mine.epoch).unwrap_or(-1),
            base_sequence: sequence,
        },
        ..BatchOptions::default()
    };
    Ok(json!({
        "TransactionalId": mine.id,
        "Acks": -1,
        "TimeoutMs": 10_000,
        "TopicData": [{
            "Name": topic.name,
            "TopicId": topic.id,
            "PartitionData": [{"Index": 0, "Records": batch(count, 1_790_000_000_000, options)?}],
        }],
    }))
}

/// A producer of nobody's.
pub(super) fn nobody() -> Transactional {
    Transactional {
        id: "sample".into(),
        producer: 1,
        epoch: 0,
    }
}
