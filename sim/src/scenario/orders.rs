//! The plain workload: writers of one topic, and a reader that follows them.

use std::time::Duration;

use tokio::task::JoinSet;

use super::stage::Stage;
use crate::client::producer::{Plan, Writer};
use crate::client::reader::Reader;
use crate::client::{Profile, profile};
use crate::history::Promise;
use crate::trace::Node;

/// The topic.
pub const TOPIC: &str = "orders";
/// What an idempotent producer may demand.
pub const EXACTLY_ONCE: &[Promise] = &[Promise::Once, Promise::Ordered, Promise::NeverRefused];

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub struct Orders {
    /// How its clients behave; the writers take turns.
    pub profiles: &'static [&'static Profile],
    /// What may be demanded of what is written.
    pub promises: &'static [Promise],
    /// Writers, each of one partition.
    pub writers: u32,
    /// Partitions of the topic.
    pub partitions: i32,
    /// Batches of each writer.
    pub batches: u64,
    /// Records of a batch.
    pub records: u32,
    /// Between two batches, on average.
    pub every: Duration,
    /// The doors that writers know; they take turns.
    pub doors: &'static [Node],
}

impl Orders {
    /// Three idempotent writers of two partitions, about six seconds long.
    pub const USUAL: Self = Self {
        profiles: &[&profile::IDEMPOTENT],
        promises: EXACTLY_ONCE,
        writers: 3,
        partitions: 2,
        batches: 60,
        records: 3,
        every: Duration::from_millis(100),
        doors: &[Node::Facade],
    };

    /// Records in all.
    pub fn total(self) -> usize {
        let batches = usize::try_from(self.batches).unwrap_or(usize::MAX);
        self.writers as usize * batches * self.records as usize
    }

    /// Records of the first `partitions` partitions.
    pub fn total_of(self, partitions: i32) -> usize {
        let partition = |writer: u32| i32::try_from(writer).unwrap_or_default() % self.partitions;
        let writers = (0..self.writers).filter(|writer| partition(*writer) < partitions);
        self.total() / self.writers.max(1) as usize * writers.count()
    }

    /// Starts the writers.
    pub fn write(self, stage: &Stage) -> JoinSet<()> {
        let mut writers = JoinSet::new();
        let turns = self.doors.iter().cycle().zip(self.profiles.iter().cycle());
        for (producer, (door, profile)) in (0..self.writers).zip(turns) {
            let id = format!("producer-{producer}");
            let client = stage.client_of(&id, profile, *door);
            let partition = i32::try_from(producer).unwrap_or_default() % self.partitions;
            let plan = Plan {
                producer,
                topic: TOPIC.into(),
                partition: Some(partition),
                batches: self.batches,
                records: self.records,
                every: self.every,
                promises: self.promises,
            };
            writers.spawn(Writer::new(client, plan, stage.numbers(&id)).run());
        }
        writers
    }

    /// Plays it: writers and a follower until all is written and the world has healed, then the
    /// audit.
    pub async fn play(self, stage: Stage) {
        let mut writers = self.write(&stage);
        let follower = stage.client("follower", self.profiles[0]);
        let following = Reader::new(follower, TOPIC, self.partitions).follow();
        let following = tokio::spawn(following);
        stage.healed().await;
        while writers.join_next().await.is_some() {}
        stage
            .audit(&TOPIC.into(), self.partitions, self.profiles[0])
            .await;
        following.abort();
    }
}
