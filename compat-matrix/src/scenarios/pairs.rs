//! Clients of different makers with one another: what one writes another reads byte for byte, and they
//! share a group.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use kafka_wire::ApiKey;

use super::Env;
use super::client::{Client, from_start};
use super::corners::{corner_records, same};
use super::groups::settle;
use crate::cx::Cx;
use crate::drivers::protocol::{Assignor, Codec, Setting};
use crate::drivers::{self, Driver};
use crate::spec::{DEFAULT_TIME_OUT, Spec, Stop, Verdict, ensure, expect_eq};

/// Codecs take turns, so that over all pairs each client writes and reads each of them.
const CODECS: [Codec; 5] = [
    Codec::None,
    Codec::Gzip,
    Codec::Snappy,
    Codec::Lz4,
    Codec::Zstd,
];

/// Every ordered pair of clients once as writer and reader, and every pair of different ones once as
/// members of one group. The check counts as the first one's.
pub(super) fn specs(clients: &[drivers::Client]) -> Vec<Spec> {
    let mut specs = Vec::new();
    for (row, first) in clients.iter().enumerate() {
        for (column, second) in clients.iter().enumerate() {
            let turn = row + column;
            specs.push(
                pair(
                    format!("square/{}/{}", first.id, second.id),
                    "What one client writes another reads byte for byte",
                    first,
                    second,
                    move |pair| write_and_read(pair, turn),
                )
                .apis([ApiKey::PRODUCE, ApiKey::FETCH]),
            );
            if row < column {
                specs.push(
                    pair(
                        format!("group-of-two/{}/{}", first.id, second.id),
                        "Members of different makers share a group, hand partitions over and miss nothing",
                        first,
                        second,
                        share_a_group,
                    )
                    .apis([ApiKey::JOIN_GROUP, ApiKey::SYNC_GROUP])
                    .with_more_time(Duration::from_secs(40)),
                );
            }
        }
    }
    specs
}

/// Two clients of one server.
#[derive(Debug)]
struct Pair {
    cx: Cx,
    first: Arc<dyn Driver>,
    second: Arc<dyn Driver>,
}

fn pair<F, R>(
    id: String,
    title: &str,
    first: &drivers::Client,
    second: &drivers::Client,
    run: F,
) -> Spec
where
    F: Fn(Pair) -> R + Send + Sync + 'static,
    R: Future<Output = Verdict> + Send + 'static,
{
    let of = |client: &drivers::Client| {
        let id = client.id.clone();
        client.driver.clone().map_err(|why| format!("{id}: {why}"))
    };
    let within = DEFAULT_TIME_OUT + first.starts_within() + second.starts_within();
    let drivers = of(first).and_then(|first| Ok((first, of(second)?)));
    Spec::new(id, title, first.label.clone(), move |cx| match &drivers {
        Ok((first, second)) => run(Pair {
            cx,
            first: Arc::clone(first),
            second: Arc::clone(second),
        })
        .boxed(),
        Err(why) => std::future::ready(Err(Stop::Unable(why.clone()))).boxed(),
    })
    .within(within)
}

impl Pair {
    async fn first(&self) -> Result<Client, Stop> {
        Client::open(&self.cx, self.first.as_ref(), self.cx.bootstrap()).await
    }

    /// The second client's requests are evidence, but they are not what the check's client uses.
    async fn second(&self) -> Result<Client, Stop> {
        let cx = self.cx.for_another_client();
        Client::open(&cx, self.second.as_ref(), cx.bootstrap()).await
    }

    /// A topic made by whichever of the two can.
    async fn topic(&self, partitions: i32) -> Result<String, Stop> {
        let (cx, driver) = if self.first.can().has("create_topics") {
            (self.cx.clone(), &self.first)
        } else if self.second.can().has("create_topics") {
            (self.cx.for_another_client(), &self.second)
        } else {
            return Err(Stop::Unable("neither client can create a topic".into()));
        };
        let env = Env {
            cx,
            driver: Arc::clone(driver),
        };
        env.topic(partitions).await.map(|(_, topic)| topic)
    }
}

async fn write_and_read(pair: Pair, turn: usize) -> Verdict {
    let both =
        |capability: &str| pair.first.can().has(capability) && pair.second.can().has(capability);
    let codec = (0..CODECS.len())
        .map(|step| CODECS[(turn + step) % CODECS.len()])
        .find(|codec| both(&format!("codec.{}", codec.word())))
        .ok_or_else(|| Stop::Unable("the clients have no codec in common".into()))?;
    pair.cx.record.fact("codec", codec.word());
    let topic = pair.topic(1).await?;
    let sent = corner_records(&topic, both);
    let mut writer = pair.first().await?;
    writer.producer(&[Setting::Compression(codec)]).await?;
    writer.produce(sent.clone()).await?;
    let mut reader = pair.second().await?;
    reader.reader(from_start(&topic, 1)).await?;
    let read = reader.read_exactly(sent.len()).await?;
    same(&sent, &read)?;
    let offsets: Vec<i64> = read.iter().map(|record| record.offset).collect();
    expect_eq("offsets", &(0..sent.len() as i64).collect(), &offsets)
}

async fn share_a_group(pair: Pair) -> Verdict {
    const WIDTH: i32 = 4;
    let topic = pair.topic(WIDTH).await?;
    let group = pair.cx.unique("group");
    let range = [Setting::Assignors(vec![Assignor::Range])];
    let mut members = vec![pair.first().await?, pair.second().await?];
    for member in &mut members {
        member.member(&group, &[&topic], &range).await?;
    }
    settle(&mut members, &[(&topic, WIDTH)]).await?;
    for member in &mut members {
        let held = member.assignment().await?;
        ensure(held.len() == 2, || format!("one member holds {held:?}"))?;
    }
    let mut writer = pair.first().await?;
    writer.producer(&[]).await?;
    for partition in 0..WIDTH {
        writer
            .produce_numbers(&topic, Some(partition), 0, 25)
            .await?;
    }
    let mut read = 0;
    for member in &mut members {
        read += member.read_exactly(50).await?.len();
        member.commit(None).await?;
    }
    expect_eq("records", &100, &read)?;
    // The second leads or follows; either way the first takes over what it had.
    let mut leaving = members.remove(1);
    leaving.close_consumer().await?;
    settle(&mut members, &[(&topic, WIDTH)]).await?;
    for partition in 0..WIDTH {
        writer
            .produce_numbers(&topic, Some(partition), 25, 5)
            .await?;
    }
    members[0].read_exactly(20).await.map(drop)
}
