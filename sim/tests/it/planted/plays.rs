//! What clients do before a liar: little, so that a fault shows soon. Some of them are no good
//! either.

use std::io;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use host::BoxStream;
use kafka_protocol::messages::{GroupId, HeartbeatRequest};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ApiKey;
use kafka_wire::header::put_request_header;

use sim::client::consumer::{Consumer, Settings, Start};
use sim::client::profile;
use sim::client::{CallError, Client, Connection, Profile};
use sim::history::{
    Call, Event, Failure, Isolation, Mark, Name, Promise, Recorder, Reply, TopicPartition,
};
use sim::scenario::revocation::beside_others;
use sim::scenario::{Orders, Stage, TOPIC};
use sim::trace::Node;
use sim::world::KAFKA_PORT;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::BOUND;
use super::door::METRICS_PORT;

const FEW: Orders = Orders {
    writers: 2,
    batches: 20,
    ..Orders::USUAL
};

pub async fn orders(stage: Stage) {
    FEW.play(stage).await;
}

/// The same beside another tenant.
pub async fn tenants(stage: Stage) {
    beside_others(stage.clone(), FEW.play(stage)).await;
}

/// Writers that a throttling broker promised not to hear meanwhile.
pub async fn muted_orders(stage: Stage) {
    let orders = Orders {
        profiles: &[&HASTY],
        promises: &[Promise::MutedWhenThrottled],
        ..FEW
    };
    orders.play(stage).await;
}

/// Writers that promise to wait and don't.
pub async fn hasty_orders(stage: Stage) {
    let orders = Orders {
        profiles: &[&HASTY],
        promises: &[Promise::ObeysThrottle],
        ..FEW
    };
    orders.play(stage).await;
}

const HASTY: Profile = {
    let mut profile = profile::IDEMPOTENT;
    profile.obeys_throttle = false;
    profile
};

const GROUP: &str = "shop";
const MEMBERS: usize = 2;
/// The second member finds the first one settled, with something committed.
const JOINS_APART: Duration = Duration::from_secs(5);
/// Long enough for every timeout of a member in a hurry, several times over.
const SETTLES: Duration = Duration::from_secs(12);

/// Members of a group read what is written, commit what they read, and have time to settle.
pub async fn group(stage: Stage) {
    members(stage, &profile::IDEMPOTENT).await;
}

/// The same under KIP-848.
pub async fn epochs(stage: Stage) {
    members(stage, &profile::JAVA_CONSUMER_PROTOCOL).await;
}

async fn members(stage: Stage, profile: &'static Profile) {
    let few = Orders { batches: 15, ..FEW };
    let mut writers = few.write(&stage);
    let mut members = JoinSet::new();
    for number in 0..MEMBERS {
        let id = format!("consumer-{number}");
        let client = stage.client(&id, profile);
        members.spawn_local(async move {
            sleep(JOINS_APART * u32::try_from(number).expect("few")).await;
            member(client).await;
        });
    }
    stage.healed().await;
    while writers.join_next().await.is_some() {}
    sleep(SETTLES).await;
    let settled = Mark::Settled {
        group: GROUP.into(),
        partitions: (0..few.partitions)
            .map(|partition| TopicPartition::new(TOPIC, partition))
            .collect(),
    };
    stage
        .recorder
        .record(&Name::from("world"), Event::Mark(settled));
    members.abort_all();
    stage
        .audit(&TOPIC.into(), few.partitions, &profile::IDEMPOTENT)
        .await;
}

async fn member(client: Client) {
    let settings = Settings {
        group: Some(GROUP.into()),
        create_topics: true,
        promises: vec![Promise::ReadsAll],
        ..Settings::default()
    };
    let consumer = Consumer::subscribed(client, settings, [Name::from(TOPIC)]);
    loop {
        match consumer.poll(Duration::from_millis(200)).await {
            // What fails will be committed with the next ones.
            Ok(polled) if !polled.is_empty() => drop(consumer.commit().await),
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

/// The few orders, while `beside` goes on until all is written.
async fn orders_beside(stage: Stage, beside: impl Future<Output = ()> + Send + 'static) {
    let beside = tokio::spawn(beside);
    let mut writers = FEW.write(&stage);
    stage.healed().await;
    while writers.join_next().await.is_some() {}
    sleep(AFTERWARDS).await;
    beside.abort();
    stage
        .audit(&TOPIC.into(), FEW.partitions, &profile::IDEMPOTENT)
        .await;
}

/// What goes on beside the orders has so long after them to go wrong.
const AFTERWARDS: Duration = Duration::from_secs(5);
/// Between two tries of those beside.
const AGAIN: Duration = Duration::from_millis(300);

/// A consumer whose application is given everything twice.
pub async fn stutter(stage: Stage) {
    let client = stage.client("stutterer", &profile::IDEMPOTENT);
    let settings = Settings {
        create_topics: true,
        ..Settings::default()
    };
    let beside = async move {
        let all = (0..FEW.partitions).map(|partition| TopicPartition::new(TOPIC, partition));
        let consumer = Consumer::assigned(client.clone(), settings, all, Start::At(0));
        while let Ok(polled) = consumer.poll(AGAIN).await {
            if !polled.is_empty() {
                let call = Call::Poll {
                    isolation: Isolation::ReadUncommitted,
                    transaction: None,
                };
                let again = client.recorder.begin(&client.id, call, None);
                again.ok(Reply::Polled(polled));
            }
        }
    };
    orders_beside(stage, beside).await;
}

/// The name of a client that pairs answers with requests by their ids alone.
pub const BY_HAND: &str = "by-hand";

/// Somebody without a library sends two requests at a time.
pub async fn by_hand(stage: Stage) {
    let (host, recorder) = (stage.clients.host(BY_HAND), stage.recorder.clone());
    let beside = async move {
        loop {
            // A connection that ends is followed by another.
            if let Ok(stream) = host.net.connect(Node::Facade.name(), KAFKA_PORT).await {
                let _ = pairs(stream, &recorder).await;
            }
            sleep(AGAIN).await;
        }
    };
    orders_beside(stage, beside).await;
}

async fn pairs(mut stream: BoxStream, recorder: &Recorder) -> io::Result<()> {
    let (who, connection) = (Name::from(BY_HAND), recorder.connection());
    let (api, version) = (ApiKey::API_VERSIONS, 0);
    for first in (0..).step_by(2) {
        for correlation in [first, first + 1] {
            let asked = Event::Asked {
                connection,
                api: api.0,
                version,
                correlation,
            };
            recorder.record(&who, asked);
            let mut frame = BytesMut::new();
            put_request_header(&mut frame, api, version, correlation, Some(BY_HAND));
            stream.write_all(&framed(&frame)).await?;
        }
        for _ in 0..2 {
            let length = usize::try_from(stream.read_u32().await?).expect("small");
            let mut frame = vec![0; length];
            stream.read_exact(&mut frame).await?;
            let answered = Event::Answered {
                connection,
                api: api.0,
                version,
                correlation: (&frame[..4]).get_i32(),
                throttle_ms: 0,
            };
            recorder.record(&who, answered);
        }
        sleep(AGAIN).await;
    }
    Ok(())
}

fn framed(frame: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u32(u32::try_from(frame.len()).expect("small"));
    out.put_slice(frame);
    out.freeze()
}

/// How long a heartbeat may take, and how long this client waits for it all the same.
const HEARTBEAT_MS: u64 = 3_000;
const FOR_EVER: Duration = Duration::from_secs(3_600);

/// Somebody sends heartbeats of a member that nobody knows, and waits for each as long as it takes.
pub async fn patient(stage: Stage) {
    let client = stage.client("patient", &profile::IDEMPOTENT);
    let beside = async move {
        loop {
            let call = Call::Heartbeat {
                group: GROUP.into(),
                member: "nobody".into(),
                generation: 1,
                instance: None,
            };
            let within = Some(HEARTBEAT_MS);
            let operation = client.recorder.begin(&client.id, call, within);
            let failure = match heartbeat(&client).await {
                Ok(code) => Failure::code(code, "as it should be"),
                Err(error) => Failure::here(error.to_string()),
            };
            operation.fail(failure);
            sleep(AGAIN).await;
        }
    };
    orders_beside(stage, beside).await;
}

async fn heartbeat(client: &Client) -> Result<i16, CallError> {
    let connection = Connection::open(client, &client.bootstrap).await?;
    let request = HeartbeatRequest::default()
        .with_group_id(GroupId(StrBytes::from_static_str(GROUP)))
        .with_member_id(StrBytes::from_static_str("nobody"))
        .with_generation_id(1);
    let mut ticket = connection.send_within(&request, FOR_EVER, i16::MAX)?;
    Ok(ticket.answer().await?.error_code)
}

/// Connections that begin a frame and do not end it, and the bytes of each.
const HALVES: usize = 40;
const HALF_BYTES: usize = 96 << 10;

/// A crowd of half frames before a facade that is believed to keep its bound.
pub async fn crowd(stage: Stage) {
    let small = HALVES * (16 << 10);
    let bound = u64::try_from(BOUND + small).expect("small");
    let watching = tokio::spawn(stage.clone().watch_memory(METRICS_PORT, bound));
    let host = stage.clients.host("crowd");
    let beside = async move {
        let mut halves = JoinSet::new();
        for _ in 0..HALVES {
            let host = host.clone();
            halves.spawn(async move {
                loop {
                    if let Ok(stream) = host.net.connect(Node::Facade.name(), KAFKA_PORT).await {
                        // Its end is all that it waits for.
                        let _ = half(stream).await;
                    }
                    sleep(AGAIN).await;
                }
            });
        }
        while halves.join_next().await.is_some() {}
    };
    orders_beside(stage, beside).await;
    watching.abort();
}

async fn half(mut stream: BoxStream) -> io::Result<()> {
    stream.write_u32(1 << 20).await?;
    stream.write_all(&vec![0; HALF_BYTES]).await?;
    stream.read_u8().await.map(|_| ())
}
