//! One transactional id: transactions that are begun, filled, ended, left open, fenced and ended by
//! the wrong producer, in any order. Asked in the versions of the first protocol (before KIP-890's
//! second part), which every broker serves.

use kafka_wire::ApiKey;
use reports::Window;
use serde_json::json;

use super::{Asked, Dice, LATER, producer, specs as of_family};
use crate::differential::Family;
use crate::probes::transaction::{
    Transactional, add_offsets, add_partitions, end, init, offsets, produce,
};
use crate::probes::{Answer, Probe, Topic};
use crate::spec::{Spec, Stop, Verdict};

const INIT: Asked = (ApiKey::INIT_PRODUCER_ID, 4);
const ADD_PARTITIONS: Asked = (ApiKey::ADD_PARTITIONS_TO_TXN, 3);
const PRODUCE: Asked = (ApiKey::PRODUCE, 11);
const ADD_OFFSETS: Asked = (ApiKey::ADD_OFFSETS_TO_TXN, 3);
const COMMIT_OFFSETS: Asked = (ApiKey::TXN_OFFSET_COMMIT, 4);
const END: Asked = (ApiKey::END_TXN, 4);
const DESCRIBE: Asked = (ApiKey::DESCRIBE_TRANSACTIONS, 0);
const COMMITTED: Asked = (ApiKey::OFFSET_FETCH, 8);
const ASKED: &[Asked] = &[
    INIT,
    ADD_PARTITIONS,
    PRODUCE,
    ADD_OFFSETS,
    COMMIT_OFFSETS,
    END,
    DESCRIBE,
    COMMITTED,
    (ApiKey::LIST_OFFSETS, 8),
    (ApiKey::FETCH, 16),
];

const SEQUENCES: u64 = 24;
const STEPS: usize = 20;

/// The checks.
pub fn specs(advertised: &[Window]) -> Vec<Spec> {
    of_family(
        Family::Transaction,
        "Transactional producers hear what Apache Kafka tells them",
        SEQUENCES,
        ASKED,
        advertised,
        |probe, dice| async move { Sequence::new(probe, dice).await?.run().await },
    )
}

struct Sequence {
    probe: Probe,
    dice: Dice,
    topic: Topic,
    /// The partition's leader.
    leader: String,
    group: String,
    /// The group's coordinator.
    keeper: String,
    /// The transaction's coordinator.
    coordinator: String,
    mine: Transactional,
    /// The producer before, which is fenced.
    old: Option<Transactional>,
    sequence: i32,
}

impl Sequence {
    async fn new(probe: Probe, dice: Dice) -> Result<Self, Stop> {
        let topic = probe.topic(1).await?;
        let leader = probe.route().await;
        let group = probe.group().await?;
        let keeper = probe.route().await;
        let mine = probe.transactional().await?;
        let coordinator = probe.route().await;
        Ok(Self {
            probe,
            dice,
            topic,
            leader,
            group,
            keeper,
            coordinator,
            mine,
            old: None,
            sequence: 0,
        })
    }

    async fn run(mut self) -> Verdict {
        for _ in 0..STEPS {
            match self.dice.roll(20) {
                0..=4 => self.add_partitions().await?,
                5..=8 => self.produce().await?,
                9 | 10 => self.add_offsets().await?,
                11 | 12 => self.commit_offsets().await?,
                13..=16 => self.end().await?,
                17 => self.init().await?,
                _ => self.describe().await?,
            }
        }
        // The next producer ends what was left open.
        self.init().await?;
        self.describe().await?;
        self.committed().await?;
        self.probe.route_to(self.leader.clone()).await;
        producer::log(&self.probe, &self.topic, 1).await
    }

    /// Mostly the producer itself, sometimes the one before it or one that never was.
    fn somebody(&mut self) -> Transactional {
        let mut one = self.mine.clone();
        match (self.dice.roll(8), &self.old) {
            (0, Some(old)) => one = old.clone(),
            (1, _) => one.epoch += 1,
            (2, _) => one.producer += 1_000_000,
            _ => {}
        }
        one
    }

    async fn ask(
        &self,
        address: &str,
        (key, version): Asked,
        request: serde_json::Value,
    ) -> Result<Answer, Stop> {
        self.probe.route_to(address.to_owned()).await;
        self.probe.step(key, version, request, LATER).await
    }

    async fn init(&mut self) -> Verdict {
        let request = init(&self.mine.id, -1, -1);
        let answer = self.ask(&self.coordinator, INIT, request).await?;
        if answer.first_code().is_none() {
            let next = Transactional {
                producer: answer.int("ProducerId")?,
                epoch: answer.int("ProducerEpoch")?,
                ..self.mine.clone()
            };
            self.old = Some(std::mem::replace(&mut self.mine, next));
            self.sequence = 0;
        }
        Ok(())
    }

    async fn add_partitions(&mut self) -> Verdict {
        let who = self.somebody();
        let request = add_partitions(&who, &self.topic.name, &[0]);
        self.ask(&self.coordinator, ADD_PARTITIONS, request)
            .await
            .map(|_| ())
    }

    async fn produce(&mut self) -> Verdict {
        let who = self.somebody();
        let count = 1 + self.dice.index(2);
        let request = produce(&self.topic, &who, count, self.sequence)?;
        let answer = self.ask(&self.leader, PRODUCE, request).await?;
        if answer.first_code().is_none() {
            self.sequence += i32::try_from(count).unwrap_or(i32::MAX);
        }
        Ok(())
    }

    async fn add_offsets(&mut self) -> Verdict {
        let who = self.somebody();
        let request = add_offsets(&who, &self.group);
        self.ask(&self.coordinator, ADD_OFFSETS, request)
            .await
            .map(|_| ())
    }

    async fn commit_offsets(&mut self) -> Verdict {
        let who = self.somebody();
        let offset = i64::try_from(self.dice.roll(100)).unwrap_or(0);
        let request = offsets(&who, &self.group, &self.topic, offset);
        self.ask(&self.keeper, COMMIT_OFFSETS, request)
            .await
            .map(|_| ())
    }

    async fn end(&mut self) -> Verdict {
        let who = self.somebody();
        let request = end(&who, self.dice.roll(3) > 0);
        self.ask(&self.coordinator, END, request).await.map(|_| ())
    }

    async fn describe(&self) -> Verdict {
        let request = json!({"TransactionalIds": [self.mine.id]});
        // A transaction that is ending is a moment later one that has ended.
        let within = std::time::Duration::from_secs(5);
        let ending = || async {
            let stage = self
                .probe
                .stage_at(&self.coordinator, DESCRIBE.0, request.clone())
                .await?;
            let state = stage.text("TransactionStates[0].TransactionState")?;
            if state.starts_with("Prepare") {
                return Err(Stop::fail(state));
            }
            Ok(())
        };
        self.probe.until(within, ending).await?;
        self.ask(&self.coordinator, DESCRIBE, request.clone())
            .await
            .map(|_| ())
    }

    async fn committed(&self) -> Verdict {
        let request = json!({
            "Groups": [{
                "GroupId": self.group,
                "Topics": [{"Name": self.topic.name, "PartitionIndexes": [0]}],
            }],
            "RequireStable": true,
        });
        let again = [LATER, &[kafka_wire::ErrorCode::UnstableOffsetCommit]].concat();
        self.probe.route_to(self.keeper.clone()).await;
        self.probe
            .step(COMMITTED.0, COMMITTED.1, request, &again)
            .await
            .map(|_| ())
    }
}
