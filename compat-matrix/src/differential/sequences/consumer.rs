//! Members of a KIP-848 group. Where assignments move in several heartbeats, only where they come to
//! rest is compared: how many heartbeats that takes is a server's own business.

use std::time::Duration;

use kafka_wire::{ApiKey, ErrorCode};
use reports::Window;
use serde_json::{Value as Json, json};
use tokio::time::sleep;

use super::{Asked, Dice, LATER, specs as of_family};
use crate::differential::Family;
use crate::probes::{Answer, Probe, Topic};
use crate::spec::{Spec, Stop, Verdict};

const BEAT: Asked = (ApiKey::CONSUMER_GROUP_HEARTBEAT, 0);
const DESCRIBE: Asked = (ApiKey::CONSUMER_GROUP_DESCRIBE, 0);
const COMMIT: Asked = (ApiKey::OFFSET_COMMIT, 9);
const ASKED: &[Asked] = &[BEAT, DESCRIBE, COMMIT];

const SEQUENCES: u64 = 12;
const CLIENTS: usize = 3;
const TOPICS: usize = 2;
const STEPS: usize = 12;
/// Rounds of heartbeats without any news after which a group is at rest.
const QUIET_ROUNDS: usize = 3;
/// Rounds after which it never comes to rest.
const ROUNDS: usize = 300;
const BETWEEN_ROUNDS: Duration = Duration::from_millis(10);

/// The checks.
pub fn specs(advertised: &[Window]) -> Vec<Spec> {
    of_family(
        Family::ConsumerGroup,
        "Members of a KIP-848 group hear what Apache Kafka tells them",
        SEQUENCES,
        ASKED,
        advertised,
        |probe, dice| async move { Sequence::new(probe, dice).await?.run().await },
    )
}

struct Client {
    /// Chosen by the member (KIP-1082), so that assignments do not depend on chance.
    id: String,
    epoch: i64,
    topics: Vec<String>,
    owns: Json,
}

struct Sequence {
    probe: Probe,
    dice: Dice,
    group: String,
    topics: Vec<Topic>,
    clients: Vec<Option<Client>>,
}

impl Sequence {
    async fn new(probe: Probe, dice: Dice) -> Result<Self, Stop> {
        let mut topics = Vec::new();
        for _ in 0..TOPICS {
            topics.push(probe.topic(2).await?);
        }
        let group = probe.group().await?;
        Ok(Self {
            probe,
            dice,
            group,
            topics,
            clients: (0..CLIENTS).map(|_| None).collect(),
        })
    }

    async fn run(mut self) -> Verdict {
        for _ in 0..STEPS {
            let at = self.dice.index(CLIENTS);
            if self.clients[at].is_none() {
                match self.dice.roll(6) {
                    0 => self.stranger().await?,
                    _ => self.join(at).await?,
                }
                continue;
            }
            match self.dice.roll(8) {
                0 | 1 => self.leave(at).await?,
                2 | 3 => self.change(at).await?,
                4 => self.wrong_epoch(at).await?,
                5 => self.join_again(at).await?,
                _ => self.commit(at).await?,
            }
        }
        self.describe().await
    }

    fn request(&self, client: &Client) -> Json {
        json!({
            "GroupId": self.group,
            "MemberId": client.id,
            "MemberEpoch": client.epoch,
            "InstanceId": null,
            "RackId": null,
            "RebalanceTimeoutMs": 60_000,
            "SubscribedTopicNames": client.topics,
            "ServerAssignor": "range",
            "TopicPartitions": client.owns,
        })
    }

    fn some_topics(&mut self) -> Vec<String> {
        let names = |from: &[Topic]| from.iter().map(|topic| topic.name.clone()).collect();
        match self.dice.roll(3) {
            0 => names(&self.topics[..1]),
            1 => names(&self.topics[1..]),
            _ => names(&self.topics),
        }
    }

    async fn join(&mut self, at: usize) -> Verdict {
        let mut client = Client {
            id: format!("member-{at}"),
            epoch: 0,
            topics: self.some_topics(),
            owns: json!([]),
        };
        // Its epoch and share are told by the description when all is at rest.
        let answer = self.quietly(&self.request(&client)).await?;
        if let Some(code) = answer.first_code() {
            return Err(Stop::refused("a join was refused", code));
        }
        client.hear(&answer)?;
        self.clients[at] = Some(client);
        self.rest().await
    }

    /// A member that has lost its state comes again at epoch 0.
    async fn join_again(&mut self, at: usize) -> Verdict {
        if let Some(client) = self.clients[at].as_mut() {
            client.epoch = 0;
            client.owns = json!([]);
        }
        self.rest().await
    }

    async fn change(&mut self, at: usize) -> Verdict {
        let topics = self.some_topics();
        if let Some(client) = self.clients[at].as_mut() {
            client.topics = topics;
        }
        self.rest().await
    }

    async fn leave(&mut self, at: usize) -> Verdict {
        let Some(mut client) = self.clients[at].take() else {
            return Ok(());
        };
        client.epoch = -1;
        let request = self.request(&client);
        self.probe.step(BEAT.0, BEAT.1, request, LATER).await?;
        self.rest().await
    }

    async fn stranger(&mut self) -> Verdict {
        let client = Client {
            id: "stranger".into(),
            epoch: 5,
            topics: self.some_topics(),
            owns: json!([]),
        };
        let request = self.request(&client);
        self.probe
            .step(BEAT.0, BEAT.1, request, LATER)
            .await
            .map(|_| ())
    }

    async fn wrong_epoch(&mut self, at: usize) -> Verdict {
        let off = self.dice.pick(&[1, 7]);
        let Some(client) = &self.clients[at] else {
            return Ok(());
        };
        let mut request = self.request(client);
        request["MemberEpoch"] = json!(client.epoch + off);
        self.probe.step(BEAT.0, BEAT.1, request, LATER).await?;
        self.rest().await
    }

    async fn commit(&mut self, at: usize) -> Verdict {
        let (off, offset) = (self.dice.pick(&[0, 0, 1, -1]), self.dice.roll(100));
        let Some(client) = &self.clients[at] else {
            return Ok(());
        };
        let request = json!({
            "GroupId": self.group,
            "GenerationIdOrMemberEpoch": client.epoch + off,
            "MemberId": client.id,
            "GroupInstanceId": null,
            "RetentionTimeMs": -1,
            "Topics": [{"Name": self.topics[0].name, "Partitions": [{
                "PartitionIndex": 0,
                "CommittedOffset": offset,
                "CommittedLeaderEpoch": -1,
                "CommittedMetadata": "",
            }]}],
        });
        self.probe
            .step(COMMIT.0, COMMIT.1, request, LATER)
            .await
            .map(|_| ())
    }

    /// Everybody beats and obeys until nobody hears news, then the group is described.
    async fn rest(&mut self) -> Verdict {
        let mut quiet = 0;
        for _ in 0..ROUNDS {
            let mut news = false;
            for at in 0..CLIENTS {
                let Some(client) = &self.clients[at] else {
                    continue;
                };
                let request = self.request(client);
                let answer = self.quietly(&request).await?;
                if let Some(client) = self.clients[at].as_mut() {
                    news |= client.hear(&answer)?;
                }
            }
            quiet = if news { 0 } else { quiet + 1 };
            if quiet == QUIET_ROUNDS {
                return self.describe().await;
            }
            sleep(BETWEEN_ROUNDS).await;
        }
        Err(Stop::fail("the group does not come to rest"))
    }

    /// A heartbeat that is no step.
    async fn quietly(&self, request: &Json) -> Result<Answer, Stop> {
        let route = self.probe.route().await;
        self.probe.stage_at(&route, BEAT.0, request.clone()).await
    }

    async fn describe(&self) -> Verdict {
        let request = json!({"GroupIds": [self.group], "IncludeAuthorizedOperations": false});
        self.probe
            .step(DESCRIBE.0, DESCRIBE.1, request, LATER)
            .await
            .map(|_| ())
    }
}

impl Client {
    /// Takes in an answer; whether it is news.
    fn hear(&mut self, answer: &Answer) -> Result<bool, Stop> {
        let fenced = [ErrorCode::FencedMemberEpoch, ErrorCode::UnknownMemberId];
        match answer.first_code() {
            None => {}
            Some(code) if fenced.iter().any(|fenced| fenced.name() == code) => {
                self.epoch = 0;
                self.owns = json!([]);
                return Ok(true);
            }
            Some(code) => return Err(Stop::refused("a heartbeat was refused", code)),
        }
        let epoch = answer.int("MemberEpoch")?;
        let mut news = epoch != self.epoch;
        self.epoch = epoch;
        if let Ok(assigned) = answer.at("Assignment.TopicPartitions") {
            let owns: Vec<Json> = assigned
                .list()
                .iter()
                .map(|topic| {
                    let id = match topic.get("TopicId") {
                        Some(crate::wire::codec::Value::Uuid(id)) => {
                            crate::wire::codec::encode_uuid(id)
                        }
                        _ => String::new(),
                    };
                    let partitions = topic.get("Partitions").map_or(&[][..], |list| list.list());
                    let numbers: Vec<i64> = partitions
                        .iter()
                        .filter_map(|number| number.int())
                        .collect();
                    json!({"TopicId": id, "Partitions": numbers})
                })
                .collect();
            let owns = json!(owns);
            news |= owns != self.owns;
            self.owns = owns;
        }
        Ok(news)
    }
}
