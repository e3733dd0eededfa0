//! A driver's session with typed operations.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::cx::Cx;
use crate::drivers::librdkafka::Librdkafka;
use crate::drivers::protocol::{
    Begin, Blob, Capabilities, Configs, Deliveries, Event, Groups, Incoming, NewTopic, OffsetReset,
    Op, Outcomes, Outgoing, Place, Places, Polled, Sasl, Setting, Settings, Tls, TopicConfig,
    Topics, Watermarks,
};
use crate::drivers::{Driver, Refusal, Session};
use crate::relay::Relay;
use crate::spec::{Stop, Verdict, ensure};
use crate::wire::Access;

/// Time for delivery reports.
const DELIVERY_MS: u64 = 15_000;
/// A silence after which a reader believes that there is nothing more.
const SILENCE_MS: u64 = 1_500;

/// One running client.
pub(super) struct Client {
    cx: Cx,
    server: Access,
    session: Box<dyn Session>,
    relay: Relay,
    can: Capabilities,
    client_id: String,
    /// Time for delivery reports; a scenario that makes delivery hard gives more.
    pub(super) delivery_ms: u64,
    /// What polls have brought since the last [`Client::take_records`].
    records: Vec<Incoming>,
    /// Rebalances, commit answers and errors, oldest first.
    pub(super) events: Vec<Event>,
}

/// A topic's settings from pairs.
pub(super) fn config(pairs: &[(&str, &str)]) -> TopicConfig {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

impl Client {
    /// A client of a server, as whoever the server's access says.
    pub(super) async fn open(cx: &Cx, driver: &dyn Driver, server: &Access) -> Result<Self, Stop> {
        let client_id = cx.unique("client");
        let can = driver.can();
        let sasl = server.security().sasl.as_ref();
        if sasl.is_some() && !can.has("security.plain") {
            return Err(Stop::Unable("the client has no security.plain".into()));
        }
        // For a client without TLS the relay speaks it.
        let front = match &server.security().tls {
            Some(_) if can.has("security.tls") => Some(cx.target.front()?),
            Some(_) => {
                cx.record
                    .note("the client speaks no TLS: its relay does, towards the server");
                None
            }
            None => None,
        };
        let tls = front.as_ref().map(|front| Tls {
            ca_file: front.ca_file.display().to_string(),
        });
        let acceptor = front.map(|front| front.acceptor);
        let relay = Relay::start(server, cx.record.clone(), &client_id, acceptor)
            .map_err(|error| Stop::fail(format!("no relay: {error}")))?;
        let session = driver
            .open(Begin {
                bootstrap: relay.bootstrap().to_owned(),
                client_id: client_id.clone(),
                tls,
                sasl: sasl.map(Sasl::plain),
            })
            .await?;
        cx.record.follow_words(client_id.clone(), session.words());
        Ok(Self {
            cx: cx.clone(),
            server: server.clone(),
            session,
            relay,
            can: can.clone(),
            client_id,
            delivery_ms: DELIVERY_MS,
            records: Vec::new(),
            events: Vec::new(),
        })
    }

    /// The client id of its requests, which no other client has.
    pub(super) fn client_id(&self) -> &str {
        &self.client_id
    }

    /// What stands between the client and its servers.
    pub(super) const fn relay(&self) -> &Relay {
        &self.relay
    }

    /// Whether the client has this capability.
    pub(super) fn can(&self, capability: &str) -> bool {
        self.can.has(capability)
    }

    /// Demands a capability that no operation of the scenario shows to be needed.
    pub(super) fn require(&self, capability: &str) -> Verdict {
        if self.can(capability) {
            Ok(())
        } else {
            Err(Stop::Unable(format!("the client has no {capability}")))
        }
    }

    /// One operation as it is; a refusal stays a value.
    pub(super) async fn call<T: DeserializeOwned>(&mut self, op: &Op) -> Result<T, Refusal> {
        let op = self
            .can
            .fit(op)
            .map_err(|missing| Refusal::unable(format!("the client has no {missing}")))?;
        let answer = self.session.call(&op).await?;
        serde_json::from_value(answer)
            .map_err(|error| Refusal::failed(format!("the driver's answer does not fit: {error}")))
    }

    /// One operation that answers nothing.
    pub(super) async fn done(&mut self, op: &Op) -> Verdict {
        let _: serde_json::Map<String, serde_json::Value> = self.call(op).await?;
        Ok(())
    }

    pub(super) async fn producer(&mut self, settings: &[Setting]) -> Verdict {
        let settings = Settings(settings.to_vec());
        self.done(&Op::OpenProducer { settings }).await
    }

    /// Sends and demands that every record was delivered.
    pub(super) async fn produce(
        &mut self,
        records: Vec<Outgoing>,
    ) -> Result<Vec<(i32, i64)>, Stop> {
        let op = Op::Produce {
            records,
            timeout_ms: self.delivery_ms,
        };
        all_delivered(self.call(&op).await?)
    }

    /// Sends numbers and demands that every record was delivered.
    pub(super) async fn produce_numbers(
        &mut self,
        topic: &str,
        partition: Option<i32>,
        first: u64,
        count: u64,
    ) -> Result<Vec<(i32, i64)>, Stop> {
        all_delivered(self.try_numbers(topic, partition, first, count, 16).await?)
    }

    /// As [`Client::produce_numbers`], values padded to `value_bytes`.
    pub(super) async fn deliver_numbers(
        &mut self,
        topic: &str,
        partition: Option<i32>,
        first: u64,
        count: u64,
        value_bytes: usize,
    ) -> Result<Vec<(i32, i64)>, Stop> {
        all_delivered(
            self.try_numbers(topic, partition, first, count, value_bytes)
                .await?,
        )
    }

    /// Sends numbers, values padded to `value_bytes`.
    pub(super) async fn try_numbers(
        &mut self,
        topic: &str,
        partition: Option<i32>,
        first: u64,
        count: u64,
        value_bytes: usize,
    ) -> Result<Deliveries, Refusal> {
        self.call(&Op::ProduceNumbers {
            topic: topic.to_owned(),
            partition,
            first,
            count,
            value_bytes,
            timeout_ms: self.delivery_ms,
        })
        .await
    }

    /// A consumer outside any group's assignment, placed at `partitions`.
    pub(super) async fn reader(&mut self, partitions: Vec<Place>) -> Verdict {
        self.reader_with(partitions, &[]).await
    }

    /// The same with settings of its own.
    pub(super) async fn reader_with(
        &mut self,
        partitions: Vec<Place>,
        settings: &[Setting],
    ) -> Verdict {
        let mut all = vec![
            Setting::GroupId(self.cx.unique("reader")),
            Setting::AutoCommit(false),
        ];
        // Who cannot be strict reads as well; what must be strict asks for it.
        if self.can("offset_reset.error") {
            all.push(Setting::OffsetReset(OffsetReset::Error));
        }
        all.extend_from_slice(settings);
        self.consumer(&all).await?;
        self.assign(partitions).await
    }

    pub(super) async fn consumer(&mut self, settings: &[Setting]) -> Verdict {
        let settings = Settings(settings.to_vec());
        self.done(&Op::OpenConsumer { settings }).await
    }

    /// A member of `group`, earliest first, commits by hand, quick heartbeats.
    pub(super) async fn member(
        &mut self,
        group: &str,
        topics: &[&str],
        settings: &[Setting],
    ) -> Verdict {
        let mut all = vec![
            Setting::GroupId(group.to_owned()),
            Setting::AutoCommit(false),
            Setting::OffsetReset(OffsetReset::Earliest),
            Setting::SessionTimeoutMs(6_000),
            Setting::HeartbeatIntervalMs(200),
        ];
        all.extend_from_slice(settings);
        self.consumer(&all).await?;
        self.subscribe(topics).await
    }

    pub(super) async fn subscribe(&mut self, topics: &[&str]) -> Verdict {
        let topics = topics.iter().map(|topic| (*topic).to_owned()).collect();
        self.done(&Op::Subscribe { topics }).await
    }

    pub(super) async fn assign(&mut self, partitions: Vec<Place>) -> Verdict {
        self.done(&Op::Assign { partitions }).await
    }

    pub(super) async fn unsubscribe(&mut self) -> Verdict {
        self.done(&Op::Unsubscribe).await
    }

    pub(super) async fn close_consumer(&mut self) -> Verdict {
        self.done(&Op::CloseConsumer).await
    }

    pub(super) async fn pause(&mut self, partitions: Vec<Place>) -> Verdict {
        self.done(&Op::Pause { partitions }).await
    }

    pub(super) async fn resume(&mut self, partitions: Vec<Place>) -> Verdict {
        self.done(&Op::Resume { partitions }).await
    }

    pub(super) async fn seek(&mut self, partition: Place) -> Verdict {
        self.done(&Op::Seek { partition }).await
    }

    /// Serves the client for a moment and keeps what comes.
    pub(super) async fn pump(&mut self, idle_ms: u64, max: usize) -> Verdict {
        let polled: Polled = self.call(&Op::Poll { max, idle_ms }).await?;
        self.records.extend(polled.records);
        self.events.extend(polled.events);
        Ok(())
    }

    /// What polls have brought, and forgets it.
    pub(super) fn take_records(&mut self) -> Vec<Incoming> {
        std::mem::take(&mut self.records)
    }

    /// How many records polls have brought since they were last taken.
    pub(super) const fn held(&self) -> usize {
        self.records.len()
    }

    /// Reads until `count` records came, and demands that it is not one more.
    pub(super) async fn read_exactly(&mut self, count: usize) -> Result<Vec<Incoming>, Stop> {
        let deadline = Instant::now() + Duration::from_secs(15);
        while self.records.len() < count && Instant::now() < deadline {
            self.pump(SILENCE_MS, count - self.records.len()).await?;
        }
        self.pump(300, 1).await?;
        let records = self.take_records();
        ensure(records.len() == count, || {
            format!(
                "{} records came, {count} were expected; events: {:?}",
                records.len(),
                self.events
            )
        })?;
        Ok(records)
    }

    pub(super) async fn commit(&mut self, offsets: Option<Vec<Place>>) -> Verdict {
        self.done(&Op::Commit {
            offsets,
            asynchronous: false,
        })
        .await
    }

    pub(super) async fn commit_async(&mut self, offsets: Option<Vec<Place>>) -> Verdict {
        self.done(&Op::Commit {
            offsets,
            asynchronous: true,
        })
        .await
    }

    pub(super) async fn committed(&mut self, partitions: Vec<Place>) -> Result<Vec<Place>, Stop> {
        let places: Places = self.call(&Op::Committed { partitions }).await?;
        Ok(places.places)
    }

    pub(super) async fn position(&mut self) -> Result<Vec<Place>, Stop> {
        let places: Places = self.call(&Op::Position).await?;
        Ok(places.places)
    }

    /// Topic and partition of everything this consumer holds, sorted.
    pub(super) async fn assignment(&mut self) -> Result<Vec<(String, i32)>, Stop> {
        let places: Places = self.call(&Op::Assignment).await?;
        Ok(places
            .places
            .into_iter()
            .map(|place| (place.topic, place.partition))
            .collect())
    }

    pub(super) async fn offsets_for_times(
        &mut self,
        partitions: Vec<Place>,
    ) -> Result<Vec<Place>, Stop> {
        let places: Places = self.call(&Op::OffsetsForTimes { partitions }).await?;
        Ok(places.places)
    }

    pub(super) async fn watermarks(
        &mut self,
        topic: &str,
        partition: i32,
    ) -> Result<(i64, i64), Stop> {
        let marks: Watermarks = self
            .call(&Op::Watermarks {
                topic: topic.to_owned(),
                partition,
            })
            .await?;
        Ok((marks.low, marks.high))
    }

    pub(super) async fn metadata(&mut self, topic: Option<&str>) -> Result<Topics, Stop> {
        let topic = topic.map(str::to_owned);
        Ok(self.call(&Op::Metadata { topic }).await?)
    }

    pub(super) async fn groups(&mut self, group: Option<&str>) -> Result<Groups, Stop> {
        let group = group.map(str::to_owned);
        Ok(self.call(&Op::Groups { group }).await?)
    }

    /// Outcome by name; the call itself must be answered.
    pub(super) async fn outcomes(
        &mut self,
        op: &Op,
    ) -> Result<BTreeMap<String, Option<String>>, Stop> {
        let outcomes: Outcomes = self.call(op).await?;
        Ok(outcomes.outcomes)
    }

    pub(super) async fn create_topic(
        &mut self,
        name: &str,
        partitions: i32,
        settings: &[(&str, &str)],
    ) -> Verdict {
        if !self.can("create_topics") {
            // Somebody has to; the check is about what the client does with it.
            let cx = self.cx.for_another_client();
            let mut other = Self::open(&cx, &Librdkafka::new(), &self.server).await?;
            return Box::pin(other.create_topic(name, partitions, settings)).await;
        }
        let op = Op::CreateTopics {
            topics: vec![NewTopic {
                name: name.to_owned(),
                partitions,
                config: config(settings),
            }],
            validate_only: false,
        };
        let outcomes = self.outcomes(&op).await?;
        all_done(&outcomes)?;
        self.cx.target.remember_topic(name);
        self.await_width(name, usize::try_from(partitions).unwrap_or_default())
            .await
    }

    /// Waits until the cluster tells the width; a real cluster spreads it in the background.
    pub(super) async fn await_width(&mut self, topic: &str, partitions: usize) -> Verdict {
        let deadline = Instant::now() + Duration::from_secs(8) * self.cx.target.patience();
        loop {
            let seen = self.metadata(Some(topic)).await?;
            if seen.topics.get(topic) == Some(&partitions) && seen.errors.is_empty() {
                return Ok(());
            }
            ensure(Instant::now() < deadline, || {
                format!("{topic} did not get {partitions} partitions: {seen:?}")
            })?;
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    pub(super) async fn topic_config(&mut self, topic: &str) -> Result<Configs, Stop> {
        let topic = topic.to_owned();
        Ok(self.call(&Op::DescribeTopicConfig { topic }).await?)
    }
}

/// Demands that each named thing worked.
pub(super) fn all_done(outcomes: &BTreeMap<String, Option<String>>) -> Verdict {
    match outcomes.iter().find_map(|(name, code)| {
        code.as_ref()
            .map(|code| (format!("{name}: {code}"), code.clone()))
    }) {
        Some((reason, code)) => Err(Stop::refused(reason, code)),
        None => Ok(()),
    }
}

fn all_delivered(deliveries: Deliveries) -> Result<Vec<(i32, i64)>, Stop> {
    match deliveries.failed.first() {
        Some((index, why)) => Err(Stop::fail(format!(
            "{} records were not delivered; the first, number {index}: {why}",
            deliveries.failed.len()
        ))),
        None => Ok(deliveries.places),
    }
}

/// A record with a value, for one partition.
pub(super) fn record(topic: &str, partition: i32, value: impl AsRef<[u8]>) -> Outgoing {
    Outgoing {
        topic: topic.to_owned(),
        partition: Some(partition),
        value: Blob::of(value),
        ..Outgoing::default()
    }
}

/// The beginning of partitions `0..count`.
pub(super) fn from_start(topic: &str, count: i32) -> Vec<Place> {
    (0..count)
        .map(|partition| Place::new(topic, partition, -2))
        .collect()
}

/// The number in a value of [`Op::ProduceNumbers`].
pub(super) fn number(record: &Incoming) -> Result<u64, Stop> {
    record
        .value
        .text()
        .trim_end_matches('.')
        .parse()
        .map_err(|_| Stop::fail(format!("a value that is no number: {:?}", record.value)))
}
