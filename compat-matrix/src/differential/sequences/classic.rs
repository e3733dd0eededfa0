//! Members of a classic group. JoinGroup and SyncGroup wait for other members: a small model of the
//! group says which answers are due, so that a sequence neither waits for what cannot come nor goes on
//! before what must.

use std::time::Duration;

use kafka_wire::ApiKey;
use reports::Window;
use serde_json::{Value as Json, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Asked, Dice, LATER, specs as of_family};
use crate::differential::Family;
use crate::probes::{Answer, Probe, Topic};
use crate::spec::{Spec, Stop, Verdict};

const JOIN: Asked = (ApiKey::JOIN_GROUP, 9);
const SYNC: Asked = (ApiKey::SYNC_GROUP, 5);
const HEARTBEAT: Asked = (ApiKey::HEARTBEAT, 4);
const LEAVE: Asked = (ApiKey::LEAVE_GROUP, 5);
const COMMIT: Asked = (ApiKey::OFFSET_COMMIT, 9);
const FETCH: Asked = (ApiKey::OFFSET_FETCH, 8);
const DESCRIBE: Asked = (ApiKey::DESCRIBE_GROUPS, 5);
const ASKED: &[Asked] = &[JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT, FETCH, DESCRIBE];

const SEQUENCES: u64 = 24;
const CLIENTS: usize = 3;
const STEPS: usize = 24;
/// How long an answer that is due may take.
const DUE_WITHIN: Duration = Duration::from_secs(10);
/// What a member offers. All hold `range`, so that everybody fits.
const OFFERS: [&[&str]; 3] = [&["range"], &["sticky", "range"], &["range", "sticky"]];

/// The checks.
pub fn specs(advertised: &[Window]) -> Vec<Spec> {
    of_family(
        Family::ClassicGroup,
        "Members of a classic group hear what Apache Kafka tells them",
        SEQUENCES,
        ASKED,
        advertised,
        |probe, dice| async move { Sequence::new(probe, dice).await?.run().await },
    )
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Empty,
    Preparing,
    Completing,
    Stable,
}

type Parked = JoinHandle<Result<Answer, Stop>>;

struct Client {
    probe: Probe,
    id: String,
    generation: i64,
    offer: usize,
    /// Whether the group counts it as a member, by the model.
    member: bool,
    /// What it offered when it last joined.
    joined_with: usize,
    joining: Option<Parked>,
    syncing: Option<Parked>,
}

impl Client {
    const fn waits(&self) -> bool {
        self.joining.is_some() || self.syncing.is_some()
    }
}

impl Drop for Client {
    /// What still waits for other members holds the server under test.
    fn drop(&mut self) {
        for parked in [&self.joining, &self.syncing].into_iter().flatten() {
            parked.abort();
        }
    }
}

struct Sequence {
    probe: Probe,
    dice: Dice,
    group: String,
    topic: Topic,
    phase: Phase,
    leader: Option<usize>,
    /// What the generation chose.
    protocol: Option<String>,
    clients: Vec<Client>,
}

impl Sequence {
    async fn new(probe: Probe, dice: Dice) -> Result<Self, Stop> {
        let topic = probe.topic(1).await?;
        let group = probe.group().await?;
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            clients.push(Client {
                probe: probe.another().await,
                id: String::new(),
                generation: -1,
                offer: 0,
                member: false,
                joined_with: 0,
                joining: None,
                syncing: None,
            });
        }
        Ok(Self {
            probe,
            dice,
            group,
            topic,
            phase: Phase::Empty,
            leader: None,
            protocol: None,
            clients,
        })
    }

    async fn run(mut self) -> Verdict {
        for _ in 0..STEPS {
            let client = self.dice.index(CLIENTS);
            match self.dice.roll(16) {
                0..=5 => self.next(client).await?,
                6 | 7 => self.join(client).await?,
                8 => {
                    self.clients[client].offer = self.dice.index(OFFERS.len());
                    self.join(client).await?;
                }
                9 => self.sync(client, 0).await?,
                10 => {
                    let off = self.dice.pick(&[-1, 1]);
                    self.sync(client, off).await?;
                }
                11 => self.beat(client).await?,
                12 => self.commit(client).await?,
                13 => self.leave(client).await?,
                14 => self.committed().await?,
                _ => self.describe().await?,
            }
        }
        self.describe().await?;
        self.committed().await
    }

    /// What a well-behaved client does next.
    async fn next(&mut self, client: usize) -> Verdict {
        match self.phase {
            _ if !self.clients[client].member => self.join(client).await,
            Phase::Completing => self.sync(client, 0).await,
            Phase::Preparing => self.join(client).await,
            Phase::Empty | Phase::Stable => self.beat(client).await,
        }
    }

    async fn join(&mut self, at: usize) -> Verdict {
        if self.clients[at].waits() {
            return Ok(());
        }
        if self.clients[at].id.is_empty() {
            let request = self.join_request(at);
            let answer = self.ask(at, JOIN, request).await?;
            answer
                .text("MemberId")?
                .clone_into(&mut self.clients[at].id);
            if answer.first_code().as_deref() != Some("MEMBER_ID_REQUIRED") {
                return Err(Stop::fail("a member without an id was let in"));
            }
        }
        let request = self.join_request(at);
        let parked = self.park(at, JOIN, request).await;
        let client = &mut self.clients[at];
        let (was_member, changed) = (client.member, client.offer != client.joined_with);
        client.member = true;
        client.joined_with = client.offer;
        client.joining = Some(parked);
        let starts_over = match self.phase {
            Phase::Empty => true,
            Phase::Preparing => false,
            Phase::Completing => !was_member || changed,
            Phase::Stable => !was_member || changed || self.leader == Some(at),
        };
        if starts_over {
            self.prepare().await?;
        } else if self.phase != Phase::Preparing {
            // A member that asks again hears of the generation that there is.
            return self.hear_join(at).await;
        }
        self.complete_when_all_joined().await?;
        self.agree().await
    }

    fn join_request(&self, at: usize) -> Json {
        let client = &self.clients[at];
        let protocols: Vec<Json> = OFFERS[client.offer]
            .iter()
            .map(|name| json!({"Name": name, "Metadata": format!("{name} of {at}")}))
            .collect();
        json!({
            "GroupId": self.group,
            "SessionTimeoutMs": 60_000,
            "RebalanceTimeoutMs": 120_000,
            "MemberId": client.id,
            "GroupInstanceId": null,
            // Not `consumer`, whose subscriptions a server may read.
            "ProtocolType": "test",
            "Protocols": protocols,
            "Reason": "sequence",
        })
    }

    /// A rebalance begins: who waits for a share is told.
    async fn prepare(&mut self) -> Verdict {
        self.phase = Phase::Preparing;
        for at in 0..CLIENTS {
            self.hear_sync(at).await?;
        }
        Ok(())
    }

    async fn complete_when_all_joined(&mut self) -> Verdict {
        let members: Vec<usize> = self.members();
        if self.phase != Phase::Preparing {
            return Ok(());
        }
        if members.is_empty() {
            self.phase = Phase::Empty;
            self.leader = None;
            return Ok(());
        }
        if members.iter().all(|at| self.clients[*at].joining.is_some()) {
            self.phase = Phase::Completing;
            for at in members {
                self.hear_join(at).await?;
            }
        }
        Ok(())
    }

    fn members(&self) -> Vec<usize> {
        (0..CLIENTS).filter(|at| self.clients[*at].member).collect()
    }

    async fn hear_join(&mut self, at: usize) -> Verdict {
        let Some(parked) = self.clients[at].joining.take() else {
            return Ok(());
        };
        let answer = due(parked).await?;
        match answer.first_code() {
            None => {
                self.clients[at].generation = answer.int("GenerationId")?;
                self.protocol = Some(answer.text("ProtocolName")?.to_owned());
                let leader = answer.text("Leader")?;
                self.leader = self.clients.iter().position(|one| one.id == leader);
                Ok(())
            }
            Some(code) => Err(Stop::refused("a join was refused", code)),
        }
    }

    async fn hear_sync(&mut self, at: usize) -> Verdict {
        match self.clients[at].syncing.take() {
            Some(parked) => due(parked).await.map(|_| ()),
            None => Ok(()),
        }
    }

    async fn sync(&mut self, at: usize, off: i64) -> Verdict {
        if self.clients[at].waits() {
            return Ok(());
        }
        let leads = self.leader == Some(at);
        let shares: Vec<Json> = if leads {
            let members = self.members().into_iter();
            members
                .map(|member| {
                    json!({
                        "MemberId": self.clients[member].id,
                        "Assignment": format!("share of {member}"),
                    })
                })
                .collect()
        } else {
            Vec::new()
        };
        let client = &self.clients[at];
        let request = json!({
            "GroupId": self.group,
            "GenerationId": client.generation + off,
            "MemberId": known(&client.id),
            "GroupInstanceId": null,
            "ProtocolType": "test",
            "ProtocolName": self.protocol,
            "Assignments": shares,
        });
        if off != 0 || !client.member || self.phase != Phase::Completing {
            return self.ask(at, SYNC, request).await.map(|_| ());
        }
        let parked = self.park(at, SYNC, request).await;
        self.clients[at].syncing = Some(parked);
        if leads {
            self.phase = Phase::Stable;
            for member in self.members() {
                self.hear_sync(member).await?;
            }
        }
        Ok(())
    }

    async fn beat(&mut self, at: usize) -> Verdict {
        let off = self.dice.pick(&[0, 0, 0, 1, -1]);
        let client = &self.clients[at];
        if client.waits() {
            return Ok(());
        }
        let request = json!({
            "GroupId": self.group,
            "GenerationId": client.generation + off,
            "MemberId": known(&client.id),
            "GroupInstanceId": null,
        });
        self.ask(at, HEARTBEAT, request).await.map(|_| ())
    }

    async fn commit(&mut self, at: usize) -> Verdict {
        let (off, offset) = (self.dice.pick(&[0, 0, 0, 1, -1]), self.dice.roll(100));
        let client = &self.clients[at];
        if client.waits() {
            return Ok(());
        }
        let request = json!({
            "GroupId": self.group,
            "GenerationIdOrMemberEpoch": client.generation + off,
            "MemberId": known(&client.id),
            "GroupInstanceId": null,
            "RetentionTimeMs": -1,
            "Topics": [{"Name": self.topic.name, "TopicId": self.topic.id, "Partitions": [{
                "PartitionIndex": 0,
                "CommittedOffset": offset,
                "CommittedLeaderEpoch": -1,
                "CommittedMetadata": format!("by {at}"),
            }]}],
        });
        self.ask(at, COMMIT, request).await.map(|_| ())
    }

    async fn leave(&mut self, at: usize) -> Verdict {
        // Which of several becomes the leader then is anybody's choice.
        let led = self.leader == Some(at) && self.members().len() > 2;
        if self.clients[at].waits() || led {
            return Ok(());
        }
        let request = json!({
            "GroupId": self.group,
            "Members": [{
                "MemberId": known(&self.clients[at].id),
                "GroupInstanceId": null,
                "Reason": "sequence",
            }],
        });
        self.ask(at, LEAVE, request).await?;
        let client = &mut self.clients[at];
        client.id.clear();
        client.generation = -1;
        if !std::mem::replace(&mut client.member, false) {
            return Ok(());
        }
        if self.leader == Some(at) {
            self.leader = None;
        }
        self.prepare().await?;
        self.complete_when_all_joined().await
    }

    async fn committed(&self) -> Verdict {
        let request = json!({
            "Groups": [{
                "GroupId": self.group,
                "Topics": [{"Name": self.topic.name, "PartitionIndexes": [0]}],
            }],
            "RequireStable": true,
        });
        self.probe
            .step(FETCH.0, FETCH.1, request, LATER)
            .await
            .map(|_| ())
    }

    async fn describe(&self) -> Verdict {
        let request = json!({"Groups": [self.group]});
        self.probe
            .step(DESCRIBE.0, DESCRIBE.1, request, LATER)
            .await
            .map(|_| ())
    }

    async fn ask(&self, at: usize, (key, version): Asked, request: Json) -> Result<Answer, Stop> {
        self.clients[at]
            .probe
            .step(key, version, request, LATER)
            .await
    }

    /// Sends a request whose answer may wait for others.
    async fn park(&self, at: usize, (key, version): Asked, request: Json) -> Parked {
        self.clients[at]
            .probe
            .park(key, version, request, LATER)
            .await
    }

    /// Waits until the server knows what this side has sent: requests of several connections may
    /// overtake each other.
    async fn agree(&self) -> Verdict {
        if self.phase != Phase::Preparing {
            return Ok(());
        }
        let route = self.probe.route().await;
        let prepares = || async {
            let request = json!({"Groups": [self.group]});
            let answer = self.probe.stage_at(&route, DESCRIBE.0, request).await?;
            answer.is(json!({"Groups": [{"GroupState": "PreparingRebalance"}]}))
        };
        self.probe.until(DUE_WITHIN, prepares).await
    }
}

/// A member that has no id yet asks as a stranger.
fn known(id: &str) -> &str {
    if id.is_empty() { "stranger" } else { id }
}

async fn due(mut parked: Parked) -> Result<Answer, Stop> {
    match timeout(DUE_WITHIN, &mut parked).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => Err(Stop::fail(format!("a request was lost: {error}"))),
        Err(_) => {
            parked.abort();
            Err(Stop::fail("an answer that is due did not come"))
        }
    }
}
