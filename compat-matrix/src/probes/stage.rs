//! What a case needs before it can ask: topics, records, groups. Made with requests that leave no
//! evidence, in the newest version that both sides know, and repeated while the server says "later".

use std::time::Duration;

use bytes::BytesMut;
use kafka_wire::records::{
    BatchBuilder, BatchOptions, Batches, Budget, Compressor, Record, RecordsError,
};
use kafka_wire::{ApiKey, ErrorCode, schema};
use serde_json::{Value as Json, json};
use tokio::time::{Instant, sleep};

use super::probe::{Answer, Probe};
use crate::spec::{Stop, Verdict};
use crate::wire::codec::{Value, encode_uuid};

/// How long a server may say "later".
const STAGED_WITHIN: Duration = Duration::from_secs(15);
/// Between two tries.
const TRY_EVERY: Duration = Duration::from_millis(20);

/// A topic that was made for one case.
#[derive(Clone, Debug)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Its id, as Kafka writes it; zero where the server's Metadata has none.
    pub id: String,
}

/// A member of a group that was made for one case.
#[derive(Clone, Debug)]
pub struct Member {
    /// The group.
    pub group: String,
    /// The id the coordinator gave.
    pub id: String,
    /// The generation it joined.
    pub generation: i64,
}

impl Probe {
    /// Asks another API to set the stage, at `address`, until it answers without a retriable error.
    ///
    /// # Errors
    ///
    /// [`Stop::Skip`] when the server does not have the API, else what went wrong.
    pub async fn stage_at(
        &self,
        address: &str,
        key: ApiKey,
        request: Json,
    ) -> Result<Answer, Stop> {
        let version = self.newest(key)?;
        let began = Instant::now();
        loop {
            let answer = self
                .exchange_at(address, key, version, &request, false)
                .await?;
            let later = answer
                .value
                .codes()
                .iter()
                .any(|(_, code)| ErrorCode::from_code(*code).is_some_and(ErrorCode::retriable));
            if !later || began.elapsed() > STAGED_WITHIN {
                return Ok(answer);
            }
            sleep(TRY_EVERY).await;
        }
    }

    /// [`Probe::stage_at`] the bootstrap address.
    ///
    /// # Errors
    ///
    /// As [`Probe::stage_at`].
    pub async fn stage(&self, key: ApiKey, request: Json) -> Result<Answer, Stop> {
        self.stage_at(self.bootstrap.address(), key, request).await
    }

    /// [`Probe::stage_at`] where the case itself asks: what only a group's coordinator or a
    /// partition's leader takes.
    ///
    /// # Errors
    ///
    /// As [`Probe::stage_at`].
    pub async fn stage_here(&self, key: ApiKey, request: Json) -> Result<Answer, Stop> {
        self.stage_at(&self.route().await, key, request).await
    }

    /// The newest version of an API that both sides know.
    fn newest(&self, key: ApiKey) -> Result<i16, Stop> {
        let window = self
            .advertised
            .iter()
            .find(|window| window.key == key.0)
            .ok_or_else(|| Stop::skip(format!("the stage needs {key}, which is not advertised")))?;
        let known = schema::request(key).map_or(window.max, |request| request.versions.max);
        Ok(window.max.min(known))
    }

    /// Makes a topic, waits until its partitions have leaders, and routes to partition 0's leader.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn topic(&self, partitions: i32) -> Result<Topic, Stop> {
        self.topic_with(partitions, json!([])).await
    }

    /// As [`Probe::topic`], with configs (`[{"Name": …, "Value": …}]`).
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn topic_with(&self, partitions: i32, configs: Json) -> Result<Topic, Stop> {
        let name = self.unique("probe");
        self.cx.target.remember_topic(&name);
        let created = self
            .stage(
                ApiKey::CREATE_TOPICS,
                json!({
                    "Topics": [{
                        "Name": name,
                        "NumPartitions": partitions,
                        "ReplicationFactor": 1,
                        "Configs": configs,
                    }],
                    "timeoutMs": 10_000,
                }),
            )
            .await?;
        created.is(json!({"Topics": [{"ErrorCode": "NONE"}]}))?;
        let began = Instant::now();
        loop {
            let answer = self.metadata(&name).await?;
            let ready = answer.is(json!({
                "Topics": [{
                    "ErrorCode": "NONE",
                    "Partitions": {
                        "<count>": partitions,
                        "<each>": {"ErrorCode": "NONE", "LeaderId": "<at least 0>"},
                    },
                }],
            }));
            match ready {
                Ok(()) => {
                    let leader = answer.int("Topics[0].Partitions[0].LeaderId")?;
                    self.route_to(broker(&answer, leader)?).await;
                    let id = match answer.value.get("Topics[0].TopicId") {
                        Some(Value::Uuid(id)) => encode_uuid(id),
                        _ => encode_uuid(&[0; 16]),
                    };
                    let topic = Topic { name, id };
                    // A leader may be named a moment before it knows that it leads.
                    self.end_offset(&topic, 0).await?;
                    return Ok(topic);
                }
                Err(stop) if began.elapsed() > STAGED_WITHIN => return Err(stop),
                Err(_) => sleep(TRY_EVERY).await,
            }
        }
    }

    /// Metadata of one topic, without making it.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn metadata(&self, topic: &str) -> Result<Answer, Stop> {
        // Asked once: that a topic is not there is an answer, though one that clients retry.
        let version = self.newest(ApiKey::METADATA)?;
        let request = json!({"Topics": [{"Name": topic}], "AllowAutoTopicCreation": false});
        self.exchange_at(
            self.bootstrap.address(),
            ApiKey::METADATA,
            version,
            &request,
            false,
        )
        .await
    }

    /// Appends `count` records to a partition, valued `0`, `1`, …, at the given timestamps' start and
    /// one millisecond apart. Answers the first offset.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn append(
        &self,
        topic: &Topic,
        partition: i32,
        count: usize,
        first_timestamp: i64,
    ) -> Result<i64, Stop> {
        let records = batch(count, first_timestamp, BatchOptions::default())?;
        self.append_records(topic, partition, records).await
    }

    /// Appends a batch as it is. Answers the first offset.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn append_batch(
        &self,
        topic: &Topic,
        partition: i32,
        batch: &[u8],
    ) -> Result<i64, Stop> {
        self.append_records(topic, partition, hex(batch)).await
    }

    async fn append_records(
        &self,
        topic: &Topic,
        partition: i32,
        records: Json,
    ) -> Result<i64, Stop> {
        let route = self.route().await;
        let answer = self
            .stage_at(
                &route,
                ApiKey::PRODUCE,
                json!({
                    "Acks": -1,
                    "TimeoutMs": 10_000,
                    "TopicData": [{
                        "Name": topic.name,
                        "TopicId": topic.id,
                        "PartitionData": [{"Index": partition, "Records": records}],
                    }],
                }),
            )
            .await?;
        answer.is(json!({"Responses": [{"PartitionResponses": [{"ErrorCode": "NONE"}]}]}))?;
        answer.int("Responses[0].PartitionResponses[0].BaseOffset")
    }

    /// A group id that nothing else uses, with a coordinator that is ready; routes to it.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn group(&self) -> Result<String, Stop> {
        let group = self.unique("group");
        let answer = self
            .stage(
                ApiKey::FIND_COORDINATOR,
                json!({"Key": group, "KeyType": 0, "CoordinatorKeys": [group]}),
            )
            .await?;
        let (host, port) = match answer.value.get("Coordinators[0]") {
            Some(_) => (
                answer.text("Coordinators[0].Host")?,
                answer.int("Coordinators[0].Port")?,
            ),
            None => (answer.text("Host")?, answer.int("Port")?),
        };
        let address = format!("{host}:{port}");
        // A coordinator that has just been found may still be loading.
        self.stage_at(
            &address,
            ApiKey::HEARTBEAT,
            json!({"GroupId": group, "MemberId": "nobody"}),
        )
        .await?;
        self.route_to(address).await;
        Ok(group)
    }

    /// The only member of a new group, in a generation that is complete, with `assignment` as its
    /// share. Routes to the coordinator.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn member(&self) -> Result<Member, Stop> {
        let group = self.group().await?;
        let joined = self.join(&group, "").await?;
        let member = Member {
            group,
            id: joined.text("MemberId")?.to_owned(),
            generation: joined.int("GenerationId")?,
        };
        self.sync_alone(&member.group, &member.id, member.generation, None)
            .await?;
        Ok(member)
    }

    /// Joins a group as `member_id`, in the two steps that a new member needs. The group is left in
    /// the middle of its rebalance.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn join(&self, group: &str, member_id: &str) -> Result<Answer, Stop> {
        let route = self.route().await;
        let mut id = member_id.to_owned();
        loop {
            let answer = self
                .stage_at(&route, ApiKey::JOIN_GROUP, join_request(group, &id))
                .await?;
            match answer.first_code().as_deref() {
                Some("MEMBER_ID_REQUIRED") if id.is_empty() => {
                    answer.text("MemberId")?.clone_into(&mut id);
                }
                _ => {
                    answer.is(json!({"ErrorCode": "NONE"}))?;
                    return Ok(answer);
                }
            }
        }
    }
}

/// JoinGroup for a consumer of no particular topic.
pub(super) fn join_request(group: &str, member_id: &str) -> Json {
    json!({
        "GroupId": group,
        "SessionTimeoutMs": 10_000,
        "RebalanceTimeoutMs": 10_000,
        "MemberId": member_id,
        "GroupInstanceId": null,
        "ProtocolType": "consumer",
        "Protocols": [{"Name": "range", "Metadata": SUBSCRIPTION}],
    })
}

/// A consumer protocol subscription, version 0, to the topic `t`, without user data.
pub(super) const SUBSCRIPTION: &str = "hex:000000000001000174ffffffff";

/// `host:port` of a node in a Metadata answer.
fn broker(answer: &Answer, node: i64) -> Result<String, Stop> {
    let brokers = answer.at("Brokers")?.list();
    let found = brokers
        .iter()
        .find(|broker| broker.get("NodeId").and_then(Value::int) == Some(node))
        .ok_or_else(|| Stop::fail(format!("node {node} leads but is not among the brokers")))?;
    match (
        found.get("Host").and_then(Value::text),
        found.get("Port").and_then(Value::int),
    ) {
        (Some(host), Some(port)) => Ok(format!("{host}:{port}")),
        _ => Err(Stop::fail("a broker without an address")),
    }
}

/// A record batch as a request's JSON holds it.
///
/// # Errors
///
/// A mistake of the probe.
pub fn batch(count: usize, first_timestamp: i64, options: BatchOptions) -> Result<Json, Stop> {
    let values: Vec<String> = (0..count).map(|n| n.to_string()).collect();
    let records: Vec<Record<'_>> = values
        .iter()
        .zip(0..)
        .map(|(value, n)| Record {
            offset: options.base_offset + n,
            timestamp: first_timestamp + n,
            key: None,
            value: Some(value.as_bytes()),
            headers: Default::default(),
        })
        .collect();
    Ok(hex(&encode_batch(&records, options)?))
}

/// A record batch's bytes.
///
/// # Errors
///
/// A mistake of the probe.
pub fn encode_batch(records: &[Record<'_>], options: BatchOptions) -> Result<Vec<u8>, Stop> {
    let mut out = BytesMut::new();
    let mut compressor = Compressor::new();
    let wrong = |error: &dyn std::fmt::Display| Stop::fail(format!("the probe is wrong: {error}"));
    let mut builder = BatchBuilder::new(&mut out, &mut compressor, options);
    for record in records {
        builder.append(record).map_err(|error| wrong(&error))?;
    }
    builder.finish().map_err(|error| wrong(&error))?;
    Ok(out.to_vec())
}

/// Bytes as a request's JSON holds them.
pub fn hex(bytes: &[u8]) -> Json {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Json::String(format!("hex:{digits}"))
}

impl Probe {
    /// The same probe on another connection, for what two clients do at once.
    pub async fn another(&self) -> Self {
        let other = self.with_own_connection();
        other.route_to(self.route().await).await;
        other
    }

    /// Tries `check` until it passes, for what a server does a little later.
    ///
    /// # Errors
    ///
    /// The last failure when `within` is over.
    pub async fn until<F, R>(&self, within: Duration, check: F) -> Verdict
    where
        F: Fn() -> R,
        R: Future<Output = Verdict>,
    {
        let began = Instant::now();
        loop {
            match check().await {
                Err(stop) if began.elapsed() > within => return Err(stop),
                Err(_) => sleep(TRY_EVERY).await,
                Ok(()) => return Ok(()),
            }
        }
    }

    /// The end of a partition's log.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn end_offset(&self, topic: &Topic, partition: i32) -> Result<i64, Stop> {
        let route = self.route().await;
        let answer = self
            .stage_at(
                &route,
                ApiKey::LIST_OFFSETS,
                json!({
                    "ReplicaId": -1,
                    "Topics": [{"Name": topic.name, "Partitions": [{
                        "PartitionIndex": partition,
                        "CurrentLeaderEpoch": -1,
                        "Timestamp": -1,
                    }]}],
                }),
            )
            .await?;
        answer.is(json!({"Topics": [{"Partitions": [{"ErrorCode": "NONE"}]}]}))?;
        answer.int("Topics[0].Partitions[0].Offset")
    }

    /// A new producer id at epoch 0.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn producer_id(&self) -> Result<i64, Stop> {
        let answer = self
            .stage(
                ApiKey::INIT_PRODUCER_ID,
                json!({
                    "TransactionalId": null,
                    "TransactionTimeoutMs": 60_000,
                    "ProducerId": -1,
                    "ProducerEpoch": -1,
                }),
            )
            .await?;
        answer.is(json!({"ErrorCode": "NONE", "ProducerEpoch": 0}))?;
        answer.int("ProducerId")
    }
}

/// The offsets of the records in a RECORDS field, which may be null.
///
/// # Errors
///
/// Records that cannot be read.
pub fn offsets_of(records: &Value) -> Result<Vec<i64>, Stop> {
    let mut offsets = Vec::new();
    let Some(bytes) = records.bytes() else {
        return Ok(offsets);
    };
    let unreadable = |error: RecordsError| Stop::fail(format!("the records are wrong: {error}"));
    for batch in Batches::new(bytes.clone()) {
        let records = batch
            .map_err(unreadable)?
            .records(&mut Budget::new(READ_BYTES, READ_RECORDS))
            .map_err(unreadable)?;
        for record in records.iter() {
            offsets.push(record.map_err(unreadable)?.offset);
        }
    }
    Ok(offsets)
}

/// What a probe reads at most: it has written less.
const READ_BYTES: usize = 64 << 20;
const READ_RECORDS: usize = 1 << 20;

impl Probe {
    /// Commits an offset for a consumer that is in no group.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn commit(
        &self,
        group: &str,
        topic: &Topic,
        partition: i32,
        offset: i64,
        note: &str,
    ) -> Verdict {
        let route = self.route().await;
        self.stage_at(
            &route,
            ApiKey::OFFSET_COMMIT,
            json!({
                "GroupId": group,
                "GenerationIdOrMemberEpoch": -1,
                "RetentionTimeMs": -1,
                "Topics": [{"Name": topic.name, "TopicId": topic.id, "Partitions": [{
                    "PartitionIndex": partition,
                    "CommittedOffset": offset,
                    "CommittedLeaderEpoch": -1,
                    "CommittedMetadata": note,
                }]}],
            }),
        )
        .await?
        .is(json!({"Topics": [{"Partitions": [{"ErrorCode": "NONE"}]}]}))
    }

    /// What a group has committed for partition 0 of a topic. Expectations of it name `Groups`; a
    /// server without the shape of version 8 answers them all the same.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn committed(&self, group: &str, topic: &Topic) -> Result<Answer, Stop> {
        let route = self.route().await;
        self.stage_at(
            &route,
            ApiKey::OFFSET_FETCH,
            super::offset_fetch::request(group, topic, &[0]),
        )
        .await
    }

    /// Completes the generation of a group whose only member is `member_id`.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn sync_alone(
        &self,
        group: &str,
        member_id: &str,
        generation: i64,
        instance: Option<&str>,
    ) -> Verdict {
        let route = self.route().await;
        self.stage_at(
            &route,
            ApiKey::SYNC_GROUP,
            json!({
                "GroupId": group,
                "GenerationId": generation,
                "MemberId": member_id,
                "GroupInstanceId": instance,
                "ProtocolType": "consumer",
                "ProtocolName": "range",
                "Assignments": [{"MemberId": member_id, "Assignment": "share"}],
            }),
        )
        .await?
        .is(json!({"ErrorCode": "NONE"}))
    }
}
