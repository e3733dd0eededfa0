//! Tenants of a cell: a facade with one listener behind a proxy, each connection with the key of its
//! tenant as its password.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::sync::Arc;
use std::time::Duration;

use facade::config::Mechanism;
use facade::server;
use fake_queen::ids::TenantId;
use fake_queen::proxy::{self, Block, Cell, KeyId, Plan, Proxy, Scopes, Storm};
use fake_queen::{Options, Queen};
use host::pipe::{PipeConnector, pipe};
use host::{Connect, Secret};
use kafka_protocol::messages as typed;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::incremental_alter_configs_request as incremental;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_commit_request as commits;
use kafka_protocol::messages::offset_fetch_request as commits_read;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ErrorCode;
use kafka_wire::records::{BatchOptions, ProducerFields};
use rstest::rstest;
use uuid::Uuid;

use crate::data;
use crate::rig::{Rig, host};
use crate::security::Client;

/// What the facade calls the proxy.
const SHARED: &str = "queen.embedded";
const ACME: TenantId = TenantId(Uuid::from_u128(0xa));
const OTHER: TenantId = TenantId(Uuid::from_u128(0xb));

const CONSUMER: Scopes = Scopes {
    produce: false,
    consume: true,
    admin: false,
    read: true,
};
const PRODUCER: Scopes = Scopes {
    produce: true,
    consume: false,
    admin: false,
    read: true,
};
const READER: Scopes = Scopes {
    consume: false,
    ..CONSUMER
};

struct Cloud {
    rig: Rig,
    cell: Cell,
    listener: PipeConnector,
}

impl Cloud {
    async fn start() -> Self {
        let options = Options {
            tenancy_header: true,
            kv_require_grant: true,
            ..Options::default()
        };
        let host = host();
        let queen = Queen::start(host.clone(), options).await.unwrap();
        queen.grant_kv(ACME, true);
        let cell = Cell::new(host.clone());
        cell.share_host(SHARED);
        cell.add_cluster("acme", ACME, Plan::default());
        cell.add_cluster("other", OTHER, Plan::default());
        let upstream = queen.clone().in_process().connector;
        let options = proxy::Options::default();
        let proxy = Proxy::new(host.clone(), cell.clone(), upstream, options).unwrap();
        let connector = proxy.in_process().connector;
        let rig = Rig::over(queen, host, connector, |config| {
            config.security.sasl = Some(Mechanism::Plain);
        });
        let (listener, accepting) = pipe(256 << 10);
        tokio::spawn(server::serve(Arc::clone(&rig.node), Box::new(accepting)));
        Self {
            rig,
            cell,
            listener,
        }
    }

    async fn stranger(&self) -> Client {
        Client(self.listener.connect().await.unwrap())
    }

    async fn client(&self, secret: &Secret<String>) -> Client {
        let mut client = self.stranger().await;
        let answer = client.log_in("anybody", secret.expose()).await.unwrap();
        assert_eq!(answer.error_code, 0, "{answer:?}");
        client
    }

    /// A key of `cluster` and a client that has logged in with it.
    async fn tenant(&self, cluster: &str, scopes: Scopes) -> (KeyId, Client) {
        let (id, secret) = self.cell.issue(cluster, scopes).unwrap();
        (id, self.client(&secret).await)
    }
}

/// What an answer says: the code, a sentence where there is a field for one, and the throttle.
#[derive(Debug, Default)]
struct Said {
    code: i16,
    message: Option<String>,
    throttle_ms: i32,
}

impl Said {
    fn new(code: i16, message: Option<&StrBytes>, throttle_ms: i32) -> Self {
        Self {
            code,
            message: message.map(|text| text.to_string()),
            throttle_ms,
        }
    }

    fn code(&self) -> ErrorCode {
        ErrorCode::from_code(self.code).expect("a known code")
    }
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn topic(name: &str) -> typed::TopicName {
    typed::TopicName(text(name))
}

async fn create(client: &mut Client, name: &str) -> Said {
    let topic = CreatableTopic::default()
        .with_name(topic(name))
        .with_num_partitions(1)
        .with_replication_factor(1);
    let request = typed::CreateTopicsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(1000);
    let answer = client.call(7, request).await.unwrap();
    let of_topic = &answer.topics[0];
    Said::new(
        of_topic.error_code,
        of_topic.error_message.as_ref(),
        answer.throttle_time_ms,
    )
}

async fn delete(client: &mut Client, name: &str) -> Said {
    let topic = DeleteTopicState::default().with_name(Some(topic(name)));
    let request = typed::DeleteTopicsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(1000);
    let answer = client.call(6, request).await.unwrap();
    let of_topic = &answer.responses[0];
    Said::new(
        of_topic.error_code,
        of_topic.error_message.as_ref(),
        answer.throttle_time_ms,
    )
}

async fn alter(client: &mut Client, name: &str) -> Said {
    let config = incremental::AlterableConfig::default()
        .with_name(text("retention.ms"))
        .with_value(Some(text("60000")));
    let resource = incremental::AlterConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(text(name))
        .with_configs(vec![config]);
    let request = typed::IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    let answer = client.call(1, request).await.unwrap();
    let of_topic = &answer.responses[0];
    Said::new(
        of_topic.error_code,
        of_topic.error_message.as_ref(),
        answer.throttle_time_ms,
    )
}

async fn produce(client: &mut Client, name: &str) -> Said {
    let records = data::batch(&[data::text(0, "hello")], BatchOptions::default());
    let partition = PartitionProduceData::default().with_records(Some(records));
    let topic = TopicProduceData::default()
        .with_name(topic(name))
        .with_partition_data(vec![partition]);
    let request = typed::ProduceRequest::default()
        .with_acks(-1)
        .with_timeout_ms(1000)
        .with_topic_data(vec![topic]);
    let answer = client.call(9, request).await.unwrap();
    let partition = &answer.responses[0].partition_responses[0];
    Said::new(
        partition.error_code,
        partition.error_message.as_ref(),
        answer.throttle_time_ms,
    )
}

async fn fetch(client: &mut Client, name: &str) -> (Said, usize) {
    fetch_at(client, name, 0, 1 << 20).await
}

async fn fetch_at(client: &mut Client, name: &str, offset: i64, max_bytes: i32) -> (Said, usize) {
    let partition = FetchPartition::default()
        .with_fetch_offset(offset)
        .with_partition_max_bytes(1 << 20);
    let topic = FetchTopic::default()
        .with_topic(topic(name))
        .with_partitions(vec![partition]);
    let request = typed::FetchRequest::default()
        .with_max_bytes(max_bytes)
        .with_session_epoch(-1)
        .with_topics(vec![topic]);
    let answer = client.call(12, request).await.unwrap();
    let partition = &answer.responses[0].partitions[0];
    let bytes = partition.records.as_ref().map_or(0, bytes::Bytes::len);
    let said = Said::new(partition.error_code, None, answer.throttle_time_ms);
    (said, bytes)
}

async fn end_offset(client: &mut Client, name: &str) -> Said {
    let partition = ListOffsetsPartition::default().with_timestamp(-1);
    let topic = ListOffsetsTopic::default()
        .with_name(topic(name))
        .with_partitions(vec![partition]);
    let request = typed::ListOffsetsRequest::default().with_topics(vec![topic]);
    let answer = client.call(7, request).await.unwrap();
    let code = answer.topics[0].partitions[0].error_code;
    Said::new(code, None, answer.throttle_time_ms)
}

async fn metadata(client: &mut Client, name: &str) -> Said {
    let asked = MetadataRequestTopic::default().with_name(Some(topic(name)));
    let request = typed::MetadataRequest::default().with_topics(Some(vec![asked]));
    let answer = client.call(9, request).await.unwrap();
    Said::new(answer.topics[0].error_code, None, answer.throttle_time_ms)
}

async fn topics(client: &mut Client) -> Vec<String> {
    let request = typed::MetadataRequest::default().with_topics(None);
    let answer = client.call(9, request).await.unwrap();
    let names = answer.topics.into_iter().filter_map(|topic| topic.name);
    names.map(|name| name.to_string()).collect()
}

async fn commit(client: &mut Client, name: &str, offset: i64) -> Said {
    let partition = commits::OffsetCommitRequestPartition::default().with_committed_offset(offset);
    let topic = commits::OffsetCommitRequestTopic::default()
        .with_name(topic(name))
        .with_partitions(vec![partition]);
    let request = typed::OffsetCommitRequest::default()
        .with_group_id(typed::GroupId(text("g")))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic]);
    let answer = client.call(8, request).await.unwrap();
    let code = answer.topics[0].partitions[0].error_code;
    Said::new(code, None, answer.throttle_time_ms)
}

async fn committed(client: &mut Client, name: &str) -> (Said, Option<i64>) {
    let topic = commits_read::OffsetFetchRequestTopics::default()
        .with_name(topic(name))
        .with_partition_indexes(vec![0]);
    let group = commits_read::OffsetFetchRequestGroup::default()
        .with_group_id(typed::GroupId(text("g")))
        .with_topics(Some(vec![topic]));
    let request = typed::OffsetFetchRequest::default().with_groups(vec![group]);
    let answer = client.call(8, request).await.unwrap();
    let group = &answer.groups[0];
    let partition = group.topics.first().map(|topic| &topic.partitions[0]);
    let code = match group.error_code {
        0 => partition.map_or(0, |partition| partition.error_code),
        code => code,
    };
    let offset = partition.map(|partition| partition.committed_offset);
    (Said::new(code, None, answer.throttle_time_ms), offset)
}

async fn groups(client: &mut Client) -> usize {
    let request = typed::ListGroupsRequest::default();
    client.call(4, request).await.unwrap().groups.len()
}

#[tokio::test(start_paused = true)]
async fn two_tenants_on_one_listener_see_nothing_of_each_other() {
    let cloud = Cloud::start().await;
    cloud.rig.queen.grant_kv(OTHER, true);
    let (_, mut acme) = cloud.tenant("acme", Scopes::ALL).await;
    let (_, mut other) = cloud.tenant("other", Scopes::ALL).await;
    assert_eq!(create(&mut acme, "orders").await.code(), ErrorCode::None);
    assert_eq!(produce(&mut acme, "orders").await.code(), ErrorCode::None);
    assert_eq!(commit(&mut acme, "orders", 1).await.code(), ErrorCode::None);
    assert!(fetch(&mut acme, "orders").await.1 > 0);
    assert_eq!(committed(&mut acme, "orders").await.1, Some(1));
    assert_eq!(groups(&mut acme).await, 1);

    assert!(topics(&mut other).await.is_empty());
    let unknown = ErrorCode::UnknownTopicOrPartition;
    assert_eq!(fetch(&mut other, "orders").await.0.code(), unknown);
    assert_eq!(delete(&mut other, "orders").await.code(), unknown);
    assert_ne!(committed(&mut other, "orders").await.1, Some(1));
    assert_eq!(groups(&mut other).await, 0);
    // The same names are others.
    assert_eq!(create(&mut other, "orders").await.code(), ErrorCode::None);
    assert_eq!(fetch(&mut other, "orders").await.1, 0);
    assert_eq!(
        commit(&mut other, "orders", 0).await.code(),
        ErrorCode::None
    );
    assert_eq!(committed(&mut acme, "orders").await.1, Some(1));
    assert_eq!(delete(&mut other, "orders").await.code(), ErrorCode::None);
    assert!(fetch(&mut acme, "orders").await.1 > 0);
}

#[rstest]
#[case(Scopes { read: false, ..CONSUMER })]
#[case(Scopes { read: false, ..PRODUCER })]
#[tokio::test(start_paused = true)]
async fn a_key_without_read_never_opens_and_is_told_that_the_password_is_good(
    #[case] scopes: Scopes,
) {
    let cloud = Cloud::start().await;
    let (_, secret) = cloud.cell.issue("acme", scopes).unwrap();
    let mut client = cloud.stranger().await;
    let answer = client.log_in("user", secret.expose()).await.unwrap();
    let code = ErrorCode::from_code(answer.error_code).unwrap();
    assert_eq!(code, ErrorCode::SaslAuthenticationFailed);
    let said = answer.error_message.unwrap();
    for words in [
        "read scope",
        "not a bad password",
        "operation not permitted",
    ] {
        assert!(said.contains(words), "{said}");
    }
    assert!(!said.contains(secret.expose()), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_consumers_and_a_producers_scopes_are_enough_for_each() {
    let cloud = Cloud::start().await;
    let (_, mut admin) = cloud.tenant("acme", Scopes::ALL).await;
    assert_eq!(create(&mut admin, "orders").await.code(), ErrorCode::None);
    let (_, mut producer) = cloud.tenant("acme", PRODUCER).await;
    assert_eq!(
        metadata(&mut producer, "orders").await.code(),
        ErrorCode::None
    );
    assert_eq!(
        produce(&mut producer, "orders").await.code(),
        ErrorCode::None
    );
    let (_, mut consumer) = cloud.tenant("acme", CONSUMER).await;
    assert_eq!(
        metadata(&mut consumer, "orders").await.code(),
        ErrorCode::None
    );
    let (said, bytes) = fetch(&mut consumer, "orders").await;
    assert!(said.code() == ErrorCode::None && bytes > 0, "{said:?}");
    assert_eq!(
        end_offset(&mut consumer, "orders").await.code(),
        ErrorCode::None
    );
    assert_eq!(
        commit(&mut consumer, "orders", 1).await.code(),
        ErrorCode::None
    );
    assert_eq!(committed(&mut consumer, "orders").await.1, Some(1));
    let metering = cloud.cell.metering("acme").unwrap();
    assert_eq!(metering.messages, 1, "a delivery is none");
    assert_eq!(metering.parked, 0);
}

/// What a key without the `consume` scope is told where one with it was just given a part of what
/// was read for it.
#[tokio::test(start_paused = true)]
async fn what_was_read_ahead_for_one_key_is_not_shown_to_another() {
    let cloud = Cloud::start().await;
    let (_, mut admin) = cloud.tenant("acme", Scopes::ALL).await;
    assert_eq!(create(&mut admin, "orders").await.code(), ErrorCode::None);
    for _ in 0..4 {
        assert_eq!(produce(&mut admin, "orders").await.code(), ErrorCode::None);
    }
    let (id, mut consumer) = cloud.tenant("acme", CONSUMER).await;
    let (_, mut producer) = cloud.tenant("acme", PRODUCER).await;
    let kept = |cloud: &Cloud| cloud.rig.node.fetching.surplus.held_bytes();
    let (said, bytes) = fetch_at(&mut consumer, "orders", 0, 1).await;
    assert!(said.code() == ErrorCode::None && bytes > 0, "{said:?}");
    assert!(kept(&cloud) > 0, "more was read than was asked for");
    let (said, bytes) = fetch_at(&mut producer, "orders", 1, 1).await;
    assert_eq!(said.code(), ErrorCode::TopicAuthorizationFailed);
    assert_eq!(bytes, 0);
    // Who it was read for goes on with it, without a call.
    cloud.cell.revoke(&id).unwrap();
    let (said, bytes) = fetch_at(&mut consumer, "orders", 1, 1).await;
    assert!(said.code() == ErrorCode::None && bytes > 0, "{said:?}");
    // But not for longer than that is kept.
    tokio::time::advance(facade::fetch::surplus::MAX_AGE).await;
    let (said, bytes) = fetch_at(&mut consumer, "orders", 2, 1).await;
    assert_eq!(said.code(), ErrorCode::TopicAuthorizationFailed);
    assert_eq!(bytes, 0);
}

const TRANSACTIONAL: Scopes = Scopes {
    produce: true,
    ..CONSUMER
};

async fn transact(client: &mut Client, name: &str) -> Result<(), (&'static str, ErrorCode)> {
    let id = typed::TransactionalId(text("till"));
    let said = |step, code| match ErrorCode::from_code(code) {
        Some(ErrorCode::None) => Ok(()),
        code => Err((step, code.expect("a known code"))),
    };
    let request = typed::InitProducerIdRequest::default()
        .with_transactional_id(Some(id.clone()))
        .with_transaction_timeout_ms(10_000)
        .with_producer_id(typed::ProducerId(-1))
        .with_producer_epoch(-1);
    let producer = client.call(4, request).await.unwrap();
    said("InitProducerId", producer.error_code)?;
    let (producer_id, epoch) = (producer.producer_id, producer.producer_epoch);
    let added = typed::add_partitions_to_txn_request::AddPartitionsToTxnTopic::default()
        .with_name(topic(name))
        .with_partitions(vec![0]);
    let request = typed::AddPartitionsToTxnRequest::default()
        .with_v3_and_below_transactional_id(id.clone())
        .with_v3_and_below_producer_id(producer_id)
        .with_v3_and_below_producer_epoch(epoch)
        .with_v3_and_below_topics(vec![added]);
    let answer = client.call(3, request).await.unwrap();
    let results = &answer.results_by_topic_v3_and_below[0].results_by_partition;
    said("AddPartitionsToTxn", results[0].partition_error_code)?;
    let options = BatchOptions {
        transactional: true,
        producer: ProducerFields {
            id: producer_id.0,
            epoch,
            base_sequence: 0,
        },
        ..BatchOptions::default()
    };
    let records = data::batch(&[data::text(0, "in a transaction")], options);
    let partition = PartitionProduceData::default().with_records(Some(records));
    let data = TopicProduceData::default()
        .with_name(topic(name))
        .with_partition_data(vec![partition]);
    let request = typed::ProduceRequest::default()
        .with_transactional_id(Some(id.clone()))
        .with_acks(-1)
        .with_timeout_ms(1000)
        .with_topic_data(vec![data]);
    let answer = client.call(9, request).await.unwrap();
    said(
        "Produce",
        answer.responses[0].partition_responses[0].error_code,
    )?;
    let request = typed::EndTxnRequest::default()
        .with_transactional_id(id)
        .with_producer_id(producer_id)
        .with_producer_epoch(epoch)
        .with_committed(true);
    said("EndTxn", client.call(3, request).await.unwrap().error_code)
}

#[tokio::test(start_paused = true)]
async fn a_transactional_producers_scopes_are_enough_and_none_of_them_is_idle() {
    let cloud = Cloud::start().await;
    let (_, mut admin) = cloud.tenant("acme", Scopes::ALL).await;
    assert_eq!(create(&mut admin, "orders").await.code(), ErrorCode::None);
    let (_, mut teller) = cloud.tenant("acme", TRANSACTIONAL).await;
    assert_eq!(transact(&mut teller, "orders").await, Ok(()));
    let (said, bytes) = fetch(&mut admin, "orders").await;
    assert!(said.code() == ErrorCode::None && bytes > 0, "{said:?}");
    // The marker of a transaction is a row of Kafka's own, which takes `consume`; its records take
    // `produce`. Without `read` nobody gets this far.
    for (lacks, step) in [(PRODUCER, "InitProducerId"), (CONSUMER, "EndTxn")] {
        let (_, mut teller) = cloud.tenant("acme", lacks).await;
        let code = ErrorCode::TransactionalIdAuthorizationFailed;
        assert_eq!(transact(&mut teller, "orders").await, Err((step, code)));
    }
}

#[tokio::test(start_paused = true)]
async fn an_administrators_scopes_are_enough_and_none_of_them_is_idle() {
    let cloud = Cloud::start().await;
    let administrator = Scopes {
        admin: true,
        ..CONSUMER
    };
    let (_, mut admin) = cloud.tenant("acme", administrator).await;
    for done in [
        create(&mut admin, "orders").await,
        alter(&mut admin, "orders").await,
        delete(&mut admin, "orders").await,
        create(&mut admin, "payments").await,
    ] {
        assert_eq!(done.code(), ErrorCode::None, "{done:?}");
    }
    // `admin` makes and deletes queues; what Kafka knows of a topic beside that is a row of its own,
    // which takes `consume`.
    let lacks_consume = Scopes {
        consume: false,
        ..administrator
    };
    for lacks in [CONSUMER, lacks_consume] {
        let (_, mut client) = cloud.tenant("acme", lacks).await;
        for refused in [
            create(&mut client, "letters").await,
            alter(&mut client, "payments").await,
        ] {
            let code = refused.code();
            assert_eq!(code, ErrorCode::TopicAuthorizationFailed, "{lacks:?}");
        }
    }
    let (_, mut client) = cloud.tenant("acme", CONSUMER).await;
    let refused = delete(&mut client, "payments").await;
    assert_eq!(refused.code(), ErrorCode::TopicAuthorizationFailed);
}

#[tokio::test(start_paused = true)]
async fn a_403_is_a_code_and_the_proxys_own_sentence_where_there_is_a_field() {
    let cloud = Cloud::start().await;
    let (_, mut admin) = cloud.tenant("acme", Scopes::ALL).await;
    assert_eq!(create(&mut admin, "orders").await.code(), ErrorCode::None);
    assert_eq!(produce(&mut admin, "orders").await.code(), ErrorCode::None);
    let (id, mut client) = cloud.tenant("acme", READER).await;
    let (_, mut consumer) = cloud.tenant("acme", CONSUMER).await;
    let topic = ErrorCode::TopicAuthorizationFailed;
    for (said, scope) in [
        (produce(&mut client, "orders").await, "produce"),
        (create(&mut consumer, "new").await, "admin"),
        (delete(&mut consumer, "orders").await, "admin"),
        (alter(&mut consumer, "orders").await, "admin"),
        (create(&mut client, "new").await, "admin"),
    ] {
        assert_eq!(said.code(), topic, "{scope}");
        let message = said.message.unwrap_or_default();
        let sentence = format!("not permitted for this credential: it needs the {scope} scope");
        assert!(message.contains(&sentence), "{message}");
        assert_eq!(said.throttle_ms, 0);
    }
    assert_eq!(fetch(&mut client, "orders").await.0.code(), topic);
    assert_eq!(end_offset(&mut client, "orders").await.code(), topic);
    let group = ErrorCode::GroupAuthorizationFailed;
    assert_eq!(commit(&mut client, "orders", 1).await.code(), group);
    assert_eq!(committed(&mut client, "orders").await.0.code(), group);
    cloud.cell.set_scopes(&id, Scopes::default()).unwrap();
    // What was listed before is forgotten by then.
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(metadata(&mut client, "orders").await.code(), topic);
}

#[rstest]
#[case::named(Some(7), 7_000)]
#[case::clamped(Some(60), 30_000)]
#[case::unnamed(None, 1_000)]
#[tokio::test(start_paused = true)]
async fn a_429_is_a_throttle_on_produce_fetch_and_metadata_and_never_on_offsets(
    #[case] retry_after_s: Option<u64>,
    #[case] throttle_ms: i32,
) {
    let cloud = Cloud::start().await;
    let (_, mut client) = cloud.tenant("acme", Scopes::ALL).await;
    assert_eq!(create(&mut client, "orders").await.code(), ErrorCode::None);
    assert_eq!(
        commit(&mut client, "orders", 1).await.code(),
        ErrorCode::None
    );
    let storm = Some(Storm { retry_after_s });
    cloud.cell.storm("acme", storm).unwrap();
    let said = produce(&mut client, "orders").await;
    // Nothing was stored, so it can't be a success; clients retry it.
    assert_eq!(said.code(), ErrorCode::RequestTimedOut);
    assert_eq!(said.throttle_ms, throttle_ms);
    let (said, bytes) = fetch(&mut client, "orders").await;
    assert_eq!((said.code(), bytes), (ErrorCode::None, 0));
    assert_eq!(said.throttle_ms, throttle_ms);
    let said = metadata(&mut client, "never-seen").await;
    assert_eq!(said.code(), ErrorCode::LeaderNotAvailable);
    assert_eq!(said.throttle_ms, throttle_ms);
    for said in [
        commit(&mut client, "orders", 2).await,
        committed(&mut client, "orders").await.0,
    ] {
        assert_eq!(said.code(), ErrorCode::CoordinatorNotAvailable);
        assert_eq!(
            said.throttle_ms, 0,
            "a commit that sleeps sleeps its poll loop"
        );
    }
    cloud.cell.storm("acme", None).unwrap();
    // The facade too stays away for as long as it was told to.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(produce(&mut client, "orders").await.code(), ErrorCode::None);
    assert_eq!(committed(&mut client, "orders").await.1, Some(1));
}

#[tokio::test(start_paused = true)]
async fn over_its_storage_quota_a_tenant_still_reads_and_moves_its_cursor() {
    let cloud = Cloud::start().await;
    let (_, mut client) = cloud.tenant("acme", Scopes::ALL).await;
    assert_eq!(create(&mut client, "orders").await.code(), ErrorCode::None);
    assert_eq!(produce(&mut client, "orders").await.code(), ErrorCode::None);
    cloud.cell.block("acme", Some(Block::Storage)).unwrap();
    let said = produce(&mut client, "orders").await;
    assert_eq!(said.code(), ErrorCode::TopicAuthorizationFailed);
    assert!(said.message.unwrap().contains("storage quota exceeded"));
    assert!(fetch(&mut client, "orders").await.1 > 0);
    assert_eq!(
        commit(&mut client, "orders", 1).await.code(),
        ErrorCode::None
    );
    assert_eq!(committed(&mut client, "orders").await.1, Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_frozen_tenant_is_refused_and_its_neighbour_notices_nothing() {
    let cloud = Cloud::start().await;
    cloud.rig.queen.grant_kv(OTHER, true);
    let (_, mut acme) = cloud.tenant("acme", Scopes::ALL).await;
    let (_, mut other) = cloud.tenant("other", Scopes::ALL).await;
    for client in [&mut acme, &mut other] {
        assert_eq!(create(client, "orders").await.code(), ErrorCode::None);
        assert_eq!(produce(client, "orders").await.code(), ErrorCode::None);
    }
    cloud.cell.freeze("acme", true).unwrap();
    let said = produce(&mut acme, "orders").await;
    assert_eq!(said.code(), ErrorCode::TopicAuthorizationFailed);
    assert!(said.message.unwrap().contains("suspended"));
    let group = ErrorCode::GroupAuthorizationFailed;
    assert_eq!(commit(&mut acme, "orders", 1).await.code(), group);
    assert_eq!(produce(&mut other, "orders").await.code(), ErrorCode::None);
    assert_eq!(
        commit(&mut other, "orders", 1).await.code(),
        ErrorCode::None
    );
    cloud.cell.freeze("acme", false).unwrap();
    assert_eq!(produce(&mut acme, "orders").await.code(), ErrorCode::None);
}

#[tokio::test(start_paused = true)]
async fn without_the_brokers_own_grant_commits_are_refused() {
    let cloud = Cloud::start().await;
    let (_, mut client) = cloud.tenant("other", Scopes::ALL).await;
    cloud.rig.queen.grant_kv(OTHER, true);
    assert_eq!(create(&mut client, "orders").await.code(), ErrorCode::None);
    cloud.rig.queen.grant_kv(OTHER, false);
    let said = commit(&mut client, "orders", 1).await;
    assert_eq!(said.code(), ErrorCode::GroupAuthorizationFailed);
    cloud.rig.queen.grant_kv(OTHER, true);
    assert_eq!(
        commit(&mut client, "orders", 1).await.code(),
        ErrorCode::None
    );
}

#[tokio::test(start_paused = true)]
async fn a_revoked_key_moves_nothing_any_more_and_a_rotated_one_logs_in_again() {
    let cloud = Cloud::start().await;
    let (id, mut client) = cloud.tenant("acme", Scopes::ALL).await;
    let (_, mut neighbour) = cloud.tenant("acme", Scopes::ALL).await;
    assert_eq!(create(&mut client, "orders").await.code(), ErrorCode::None);
    let newer = cloud.cell.rotate(&id, Duration::ZERO).unwrap();
    // The old one is told once, and then its connection ends.
    let said = produce(&mut client, "orders").await;
    assert_eq!(said.code(), ErrorCode::TopicAuthorizationFailed);
    let mut again = cloud.client(&newer).await;
    assert_eq!(produce(&mut again, "orders").await.code(), ErrorCode::None);
    cloud.cell.revoke(&id).unwrap();
    let said = commit(&mut again, "orders", 1).await;
    assert_eq!(said.code(), ErrorCode::GroupAuthorizationFailed);
    assert_eq!(
        produce(&mut neighbour, "orders").await.code(),
        ErrorCode::None
    );
}
