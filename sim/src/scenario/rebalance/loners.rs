//! Those beside the group: one who joins it and never syncs, and an administrator.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::{
    CreatePartitionsRequest, CreatePartitionsResponse, GroupId, JoinGroupRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ErrorCode;
use tokio::time::sleep;

use crate::client::producer::{Plan, Writer};
use crate::client::{CallError, Client, Connection, profile};
use crate::history::{Admin, Call, Failure, Reply};
use crate::scenario::members::GROUP;
use crate::scenario::orders::{EXACTLY_ONCE, TOPIC};
use crate::scenario::stage::Stage;

/// The topic that grows.
pub(super) const GROWING: &str = "growing";
/// Records that are written to it.
pub(super) const GROWING_RECORDS: usize = 80;
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(500);

/// Joins the group as its first member, never syncs, and joins again when it was put out, until the
/// world has healed.
pub(super) async fn joins_and_is_silent(stage: Stage) {
    let client = stage.client("silent", profile::HURRIED[0]);
    while !stage.is_healed() {
        // Whatever comes of it, it tries again.
        let _ = join(&client).await;
        sleep(PAUSE).await;
    }
}

async fn join(client: &Client) -> Result<(), CallError> {
    let connection = Connection::open(client, &client.bootstrap).await?;
    let protocol = |name| {
        JoinGroupRequestProtocol::default()
            .with_name(StrBytes::from_static_str(name))
            .with_metadata(subscription())
    };
    let mut member = StrBytes::default();
    loop {
        let request = JoinGroupRequest::default()
            .with_group_id(GroupId(StrBytes::from_static_str(GROUP)))
            .with_session_timeout_ms(6_000)
            .with_rebalance_timeout_ms(2_000)
            .with_member_id(member.clone())
            .with_protocol_type(StrBytes::from_static_str("consumer"))
            .with_protocols(vec![protocol("range"), protocol("roundrobin")]);
        let joined = connection.call(&request).await?;
        if joined.error_code != ErrorCode::MemberIdRequired.code() {
            // It has its place, and does nothing with it.
            sleep(Duration::from_secs(3)).await;
            return Ok(());
        }
        member = joined.member_id;
    }
}

/// A subscription to the orders, in the first version of the consumer protocol.
fn subscription() -> Bytes {
    let mut out = BytesMut::new();
    out.put_i16(0);
    out.put_i32(1);
    out.put_i16(i16::try_from(TOPIC.len()).unwrap_or_default());
    out.put_slice(TOPIC.as_bytes());
    out.put_i32(-1);
    out.freeze()
}

/// Writes to the growing topic, gives it `partitions` partitions after a while, and writes to the
/// last of them.
pub(super) async fn grows(stage: Stage, partitions: i32) {
    write(&stage, 8, 0).await;
    sleep(Duration::from_secs(2)).await;
    let client = stage.client("administrator", profile::HURRIED[1]);
    client.introduce(Vec::new());
    while !grown(&client, partitions).await {
        sleep(PAUSE).await;
    }
    write(&stage, 9, partitions - 1).await;
}

async fn write(stage: &Stage, producer: u32, partition: i32) {
    let id = format!("grower-{producer}");
    let plan = Plan {
        producer,
        topic: GROWING.into(),
        partition: Some(partition),
        batches: 20,
        records: 2,
        every: Duration::from_millis(50),
        promises: EXACTLY_ONCE,
    };
    let client = stage.client(&id, &profile::IDEMPOTENT);
    Writer::new(client, plan, stage.numbers(&id)).run().await;
}

/// Whether the topic has so many partitions now.
async fn grown(client: &Client, partitions: i32) -> bool {
    let call = Call::Admin(Admin::CreatePartitions {
        topic: GROWING.into(),
        partitions,
    });
    let operation = client.recorder.begin(&client.id, call, None);
    match create_partitions(client, partitions).await {
        Ok(answer) => {
            let code = answer.results.first().map(|result| result.error_code);
            let code = code.and_then(ErrorCode::from_code);
            match code {
                // The second: an earlier try got through.
                Some(ErrorCode::None | ErrorCode::InvalidPartitions) => {
                    operation.ok(Reply::Done);
                    return true;
                }
                code => operation.fail(Failure::here(format!("{code:?}"))),
            }
        }
        Err(error) => operation.unknown(Failure::here(error.to_string())),
    }
    false
}

async fn create_partitions(
    client: &Client,
    partitions: i32,
) -> Result<CreatePartitionsResponse, CallError> {
    let connection = Connection::open(client, &client.bootstrap).await?;
    let topic = CreatePartitionsTopic::default()
        .with_name(TopicName(StrBytes::from_static_str(GROWING)))
        .with_count(partitions)
        .with_assignments(None);
    let request = CreatePartitionsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(3_000);
    connection.call(&request).await
}
