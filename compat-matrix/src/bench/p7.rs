//! P7: committed offsets per call of Queen's KV store, 500 groups at once.

use std::time::Duration;

use futures::future::try_join_all;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    ApiKey, GroupId, OffsetCommitRequest, OffsetCommitResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::result::{Comparison, Section, Unit};
use super::{Bench, kafka, load};
use crate::spec::Stop;
use crate::target::free_port;
use crate::wire::Connection;

const GROUPS: usize = 500;
const RUN: Duration = Duration::from_secs(5);
const QUICK_RUN: Duration = Duration::from_millis(300);
/// The goal: commits per writing call.
const GOAL: f64 = 50.0;
/// The OffsetCommit version spoken: the newest of the classic protocol.
const VERSION: i16 = 8;
/// The facade's series: changes asked for, and calls that wrote them.
const WRITES: &str = "queen_kafka_offset_writes_total";
const CALLS: &str = "queen_kafka_offset_write_calls_total";
const CASE: &str = "500 groups, closed loop";

fn failed(error: impl std::fmt::Display) -> Stop {
    Stop::fail(format!("P7: {error}"))
}

/// Measures.
pub(super) async fn measure(bench: &Bench) -> Result<Section, Stop> {
    let run = if bench.quick { QUICK_RUN } else { RUN };
    let mut section = Section::new(
        "P7",
        "Offset commits per KV call",
        "commits ≥ 50 × writing KV calls",
        format!(
            "{GROUPS} groups, each with one connection that commits one partition's offset, waits \
             for the answer and commits the next, for {} s. The embedded Queen (in memory) keeps \
             its limit of 100 writing KV calls per second. Calls and commits are the differences of \
             the node's own series `{CALLS}` and `{WRITES}`; the commits answered without error are \
             counted by the clients.",
            run.as_secs_f64()
        ),
    );
    for _ in 0..bench.runs {
        bench.say("P7 offset commits");
        let http = format!("127.0.0.1:{}", free_port().map_err(failed)?);
        let settings = [("QUEEN_URL", "embedded:"), ("QUEEN_KAFKA_HTTP_ADDR", &http)];
        let node = bench.node(bench.folder()?, &settings).await?;
        kafka::create_topic(node.bootstrap()).await?;
        let connections = (0..GROUPS).map(|_| kafka::connect(node.bootstrap()));
        let connections = try_join_all(connections).await?;
        let before = Counts::read(&http).await?;
        let began = Instant::now();
        let until = began + run;
        let groups = connections.into_iter().enumerate();
        let commits = try_join_all(groups.map(|(n, c)| tokio::spawn(commit(c, n, until))));
        let commits = commits.await.map_err(failed)?;
        let commits: usize = commits.into_iter().sum::<Result<_, _>>()?;
        let seconds = began.elapsed().as_secs_f64();
        let after = Counts::read(&http).await?;
        let (writes, calls) = (after.writes - before.writes, after.calls - before.calls);
        // Else the ratio would be of something else.
        if writes != commits as f64 {
            return Err(failed(format!("{writes} writes of {commits} commits")));
        }
        section.add(
            CASE,
            "commits answered",
            Unit::PerSecond,
            commits as f64 / seconds,
        );
        section.add(
            CASE,
            "KV calls that wrote them",
            Unit::PerSecond,
            calls / seconds,
        );
        section.add(CASE, "commits per call", Unit::Ratio, writes / calls);
    }
    section.compare(Comparison {
        case: CASE.into(),
        what: "commits / KV calls".into(),
        value: section.median_of(CASE, "commits per call"),
        goal: Some(GOAL),
        at_least: true,
    });
    Ok(section)
}

async fn commit(mut connection: Connection, group: usize, until: Instant) -> Result<usize, Stop> {
    let mut commits = 0;
    while Instant::now() < until {
        let partition = OffsetCommitRequestPartition::default()
            .with_partition_index((group % load::LANES) as i32)
            .with_committed_offset(commits as i64);
        let topic = OffsetCommitRequestTopic::default()
            .with_name(TopicName(StrBytes::from_static_str(load::TOPIC)))
            .with_partitions(vec![partition]);
        let request = OffsetCommitRequest::default()
            .with_group_id(GroupId(StrBytes::from_string(format!("bench-{group}"))))
            .with_topics(vec![topic]);
        let frame = kafka::frame(ApiKey::OffsetCommit, VERSION, 1, &request)?;
        let answer: OffsetCommitResponse =
            kafka::ask(&mut connection, ApiKey::OffsetCommit, VERSION, &frame).await?;
        for partition in answer.topics.iter().flat_map(|topic| &topic.partitions) {
            if partition.error_code != 0 {
                return Err(failed(format!("error code {}", partition.error_code)));
            }
        }
        commits += 1;
    }
    Ok(commits)
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Counts {
    writes: f64,
    calls: f64,
}

impl Counts {
    async fn read(http: &str) -> Result<Self, Stop> {
        let mut stream = TcpStream::connect(http).await.map_err(failed)?;
        let request = format!("GET /metrics HTTP/1.1\r\nhost: {http}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.map_err(failed)?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.map_err(failed)?;
        Self::parse(&text).ok_or_else(|| failed(format!("no series {WRITES} and {CALLS}")))
    }

    fn parse(text: &str) -> Option<Self> {
        let series = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
            lines.find_map(|rest| rest.strip_prefix(' ')?.trim().parse().ok())
        };
        Some(Self {
            writes: series(WRITES)?,
            calls: series(CALLS)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Counts;

    #[test]
    fn counts_are_read_from_the_nodes_series() {
        let text = "# TYPE queen_kafka_offset_writes_total counter\r\n\
                    queen_kafka_offset_writes_total 17\n\
                    queen_kafka_offset_writes_refused_total 3\n\
                    queen_kafka_offset_write_calls_total 4\n";
        let expected = Counts {
            writes: 17.0,
            calls: 4.0,
        };
        assert_eq!(Counts::parse(text), Some(expected));
        assert_eq!(Counts::parse("queen_kafka_offset_writes_total 17\n"), None);
    }
}
