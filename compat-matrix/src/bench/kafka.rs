//! The Kafka side of a measurement: prepared frames, several in flight, on raw connections.
//!
//! Answers are decoded and every error code is an error of the run: a number that counts refused
//! requests is none.

use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::{
    ApiKey, CreateTopicsRequest, CreateTopicsResponse, FetchRequest, FetchResponse,
    ProduceResponse, RequestHeader, ResponseHeader, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use kafka_wire::records::Batches;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};

use super::load;
use crate::spec::Stop;
use crate::wire::{Access, Connection, Reader, Reply};

/// How long an answer may take before the run counts as failed.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// The Fetch version spoken: the newest that names topics.
const FETCH_VERSION: i16 = 12;
/// CreateTopics version spoken.
const CREATE_VERSION: i16 = 5;
/// What kafka-clients asks of one partition and of all (`max.partition.fetch.bytes`,
/// `fetch.max.bytes`).
pub(super) const PARTITION_MAX_BYTES: i32 = 1 << 20;
const MAX_BYTES: i32 = 50 << 20;

fn failed(error: impl std::fmt::Display) -> Stop {
    Stop::fail(format!("the Kafka side: {error}"))
}

/// `request` as a frame with its length prefix.
pub(super) fn frame<T: Encodable>(
    key: ApiKey,
    version: i16,
    correlation_id: i32,
    request: &T,
) -> Result<Bytes, Stop> {
    let mut out = BytesMut::new();
    out.put_i32(0);
    RequestHeader::default()
        .with_request_api_key(key as i16)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(StrBytes::from_static_str("bench")))
        .encode(&mut out, key.request_header_version(version))
        .map_err(failed)?;
    request.encode(&mut out, version).map_err(failed)?;
    let length = i32::try_from(out.len() - 4).map_err(failed)?;
    out[..4].copy_from_slice(&length.to_be_bytes());
    Ok(out.freeze())
}

/// Opens a connection.
pub(super) async fn connect(bootstrap: &Access) -> Result<Connection, Stop> {
    Connection::open(bootstrap).await.map_err(failed)
}

/// Sends `frame` and decodes its answer.
pub(super) async fn ask<R: Decodable>(
    connection: &mut Connection,
    key: ApiKey,
    version: i16,
    frame: &[u8],
) -> Result<R, Stop> {
    connection.send_raw(frame).await.map_err(failed)?;
    let reply = connection.reply(ANSWER_WITHIN).await;
    decode(key, version, reply).map(|(_, body)| body)
}

fn decode<R: Decodable>(key: ApiKey, version: i16, reply: Reply) -> Result<(i32, R), Stop> {
    let mut frame = match reply {
        Reply::Frame(frame) => frame,
        Reply::Closed(how) => return Err(failed(format!("{key:?}: {how}"))),
        Reply::Silence => return Err(failed(format!("{key:?}: no answer"))),
    };
    let header =
        ResponseHeader::decode(&mut frame, key.response_header_version(version)).map_err(failed)?;
    let body = R::decode(&mut frame, version).map_err(failed)?;
    if frame.has_remaining() {
        return Err(failed(format!("{key:?}: bytes left over")));
    }
    Ok((header.correlation_id, body))
}

fn no_error(what: &str, code: i16) -> Result<(), Stop> {
    if code == 0 {
        Ok(())
    } else {
        Err(failed(format!(
            "{what} was answered with error code {code}"
        )))
    }
}

/// Creates the topic of the load.
pub(super) async fn create_topic(bootstrap: &Access) -> Result<(), Stop> {
    let topic = CreatableTopic::default()
        .with_name(TopicName(StrBytes::from_static_str(load::TOPIC)))
        .with_num_partitions(load::LANES as i32)
        .with_replication_factor(1);
    let request = CreateTopicsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(10_000);
    let frame = frame(ApiKey::CreateTopics, CREATE_VERSION, 1, &request)?;
    let mut connection = connect(bootstrap).await?;
    let answer: CreateTopicsResponse = ask(
        &mut connection,
        ApiKey::CreateTopics,
        CREATE_VERSION,
        &frame,
    )
    .await?;
    for topic in &answer.topics {
        no_error("CreateTopics", topic.error_code)?;
    }
    Ok(())
}

/// When requests are sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pace {
    /// As fast as answers come, this many in flight.
    InFlight(usize),
    /// At intended times, this far apart, whatever the answers do: a late answer delays no request,
    /// and a late request still counts from the time it was meant for.
    Every(Duration),
}

/// Sends `requests` of `frames` in turn; the time each took from its intended start.
pub(super) async fn produce(
    bootstrap: &Access,
    frames: &[Bytes],
    requests: usize,
    pace: Pace,
) -> Result<Vec<Duration>, Stop> {
    let mut connection = connect(bootstrap).await?;
    let (mut reader, mut writer) = connection.split();
    let places = Semaphore::new(match pace {
        Pace::InFlight(places) => places,
        Pace::Every(_) => requests,
    });
    let (intended_at, mut intended) = tokio::sync::mpsc::unbounded_channel();
    let began = Instant::now();
    let send = async {
        for number in 0..requests {
            let at = match pace {
                Pace::InFlight(_) => {
                    places.acquire().await.map_err(failed)?.forget();
                    Instant::now()
                }
                Pace::Every(interval) => {
                    let at = began + interval * u32::try_from(number).unwrap_or(u32::MAX);
                    sleep_until(at).await;
                    at
                }
            };
            // The receiver lives as long as this connection's reader.
            let _ = intended_at.send(at);
            writer
                .send_raw(&frames[number % frames.len()])
                .await
                .map_err(failed)?;
        }
        Ok::<(), Stop>(())
    };
    let receive = async {
        let mut took = Vec::with_capacity(requests);
        for number in 0..requests {
            produced(&mut reader, number % frames.len()).await?;
            places.add_permits(1);
            let at = intended.recv().await.ok_or_else(|| failed("no request"))?;
            took.push(at.elapsed());
        }
        Ok(took)
    };
    let ((), took) = tokio::try_join!(send, receive)?;
    Ok(took)
}

async fn produced(reader: &mut Reader<'_>, expected: usize) -> Result<(), Stop> {
    let reply = reader.reply(ANSWER_WITHIN).await;
    let (id, answer): (i32, ProduceResponse) =
        decode(ApiKey::Produce, load::produce_version(), reply)?;
    if usize::try_from(id) != Ok(expected) {
        return Err(failed("an answer out of order"));
    }
    let partitions = answer.responses.iter().flat_map(|t| &t.partition_responses);
    for partition in partitions {
        no_error("Produce", partition.error_code)?;
    }
    Ok(())
}

/// Fetches `lanes` from their beginnings until `records` have come; how many bytes of batches.
pub(super) async fn fetch(
    bootstrap: &Access,
    lanes: &[usize],
    records: usize,
) -> Result<usize, Stop> {
    let mut connection = connect(bootstrap).await?;
    let mut next: Vec<(i32, i64)> = lanes.iter().map(|&lane| (lane as i32, 0)).collect();
    let (mut seen, mut bytes) = (0, 0);
    while seen < records {
        let partitions = next.iter().map(|&(lane, offset)| {
            FetchPartition::default()
                .with_partition(lane)
                .with_fetch_offset(offset)
                .with_partition_max_bytes(PARTITION_MAX_BYTES)
        });
        let topic = FetchTopic::default()
            .with_topic(TopicName(StrBytes::from_static_str(load::TOPIC)))
            .with_partitions(partitions.collect());
        let request = FetchRequest::default()
            .with_max_wait_ms(500)
            .with_min_bytes(1)
            .with_max_bytes(MAX_BYTES)
            .with_topics(vec![topic]);
        let frame = frame(ApiKey::Fetch, FETCH_VERSION, 1, &request)?;
        let answer: FetchResponse =
            ask(&mut connection, ApiKey::Fetch, FETCH_VERSION, &frame).await?;
        no_error("Fetch", answer.error_code)?;
        for partition in answer.responses.iter().flat_map(|topic| &topic.partitions) {
            no_error("Fetch", partition.error_code)?;
            let Some(field) = &partition.records else {
                continue;
            };
            bytes += field.len();
            for batch in Batches::new(field.clone()) {
                let batch = batch.map_err(failed)?;
                let header = batch.header();
                seen += usize::try_from(header.count).map_err(failed)?;
                let lane = next
                    .iter_mut()
                    .find(|(lane, _)| *lane == partition.partition_index)
                    .ok_or_else(|| failed("a partition that nobody asked for"))?;
                if header.base_offset != lane.1 {
                    return Err(failed("a gap between batches"));
                }
                lane.1 = header.base_offset + i64::from(header.last_offset_delta) + 1;
            }
        }
    }
    if seen != records {
        return Err(failed(format!("{seen} records came instead of {records}")));
    }
    Ok(bytes)
}

#[cfg(test)]
pub(super) mod tests {
    use bytes::{Buf as _, Bytes};
    use kafka_protocol::messages::{ApiKey, ProduceRequest, RequestHeader};
    use kafka_protocol::protocol::Decodable as _;

    /// Partitions and records of a Produce frame.
    pub(in crate::bench) fn produced(frame: &Bytes) -> Vec<(i32, Bytes)> {
        let mut frame = frame.clone();
        assert_eq!(frame.get_i32() as usize, frame.remaining());
        let version = super::load::produce_version();
        let header_version = ApiKey::Produce.request_header_version(version);
        RequestHeader::decode(&mut frame, header_version).unwrap();
        let request = ProduceRequest::decode(&mut frame, version).unwrap();
        assert!(!frame.has_remaining());
        let topics = request.topic_data.into_iter();
        topics
            .flat_map(|topic| topic.partition_data)
            .map(|partition| (partition.index, partition.records.unwrap()))
            .collect()
    }
}
