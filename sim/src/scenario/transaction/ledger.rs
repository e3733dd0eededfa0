//! Tellers that write in transactions to every partition of a topic, and a reader who is shown only
//! what is committed.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::client::Profile;
use crate::client::reader::Reader;
use crate::client::transactional::{Settings, TransactionalProducer, Trouble};
use crate::history::coverage::TIMEOUT_RACED_COMMIT;
use crate::history::{Event, Mark, Promise, TopicPartition, Value};
use crate::scenario::orders::TOPIC;
use crate::scenario::stage::Stage;
use crate::seed::Numbers;
use crate::trace::Node;

/// Before a teller that was refused for good starts again, on average.
const RESTART: Duration = Duration::from_millis(400);
/// A commit this near to the transaction's timeout races with it: as long as a coordinator's clock
/// may tick between two looks.
const NEARLY: Duration = Duration::from_millis(300);
/// What is demanded of what a teller writes.
const PROMISES: &[Promise] = &[Promise::Once, Promise::Ordered];

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub struct Ledger {
    /// How tellers behave; they take turns.
    pub profiles: &'static [&'static Profile],
    /// How many.
    pub tellers: u32,
    /// Partitions of the topic.
    pub partitions: i32,
    /// Transactions that each of them commits.
    pub transactions: u64,
    /// Records of a transaction in each partition, in each of its two halves.
    pub records: u64,
    /// Between the halves, and before the end, on average.
    pub think: Duration,
    /// `transaction.timeout.ms`.
    pub timeout: Duration,
    /// One in so many is aborted by its application.
    pub aborts: u64,
    /// The doors that tellers know; they take turns.
    pub doors: &'static [Node],
    /// Everyone beside the first has its transactional id, and ends with the heal.
    pub twins: bool,
}

impl Ledger {
    /// Three tellers of two partitions, about six seconds long.
    pub const USUAL: Self = Self {
        profiles: super::PROFILES,
        tellers: 3,
        partitions: 2,
        transactions: 20,
        records: 2,
        think: Duration::from_millis(80),
        timeout: Duration::from_secs(20),
        aborts: 6,
        doors: &[Node::Facade],
        twins: false,
    };

    /// Plays it: tellers and a follower until all is written and the world has healed, then the
    /// audit.
    pub async fn play(self, stage: Stage) {
        let mut tellers = JoinSet::new();
        let turns = self.doors.iter().cycle().zip(self.profiles.iter().cycle());
        for (number, (door, profile)) in (0..self.tellers).zip(turns) {
            let teller = Teller::new(&stage, self, number, (*door, profile));
            tellers.spawn(teller.run());
        }
        let follower = stage.client("follower", self.profiles[0]);
        let following = Reader::new(follower, TOPIC, self.partitions).committed();
        let following = tokio::spawn(following.follow());
        stage.healed().await;
        while tellers.join_next().await.is_some() {}
        stage
            .audit(&TOPIC.into(), self.partitions, self.profiles[0])
            .await;
        following.abort();
    }
}

/// An application that writes transactions, one after the other.
struct Teller {
    stage: Stage,
    plan: Ledger,
    profile: &'static Profile,
    number: u32,
    id: String,
    door: Node,
    numbers: Numbers,
    /// The next value's number.
    next: u64,
    /// The last transaction's number.
    transaction: u64,
}

impl Teller {
    fn new(
        stage: &Stage,
        plan: Ledger,
        number: u32,
        (door, profile): (Node, &'static Profile),
    ) -> Self {
        let id = format!("teller-{number}");
        Self {
            stage: stage.clone(),
            plan,
            profile,
            number,
            numbers: stage.numbers(&id),
            id,
            door,
            next: 0,
            transaction: 0,
        }
    }

    fn is_twin(&self) -> bool {
        self.plan.twins && self.number > 0
    }

    fn start(&self) -> TransactionalProducer {
        let client = self.stage.client_of(&self.id, self.profile, self.door);
        let id = if self.plan.twins {
            "twins".into()
        } else {
            self.id.as_str().into()
        };
        let settings = Settings {
            id,
            timeout: self.plan.timeout,
            promises: PROMISES.to_vec(),
        };
        TransactionalProducer::new(client, settings)
    }

    /// On average. Progress is demanded of a healed world, and who always races the end of its own
    /// transactions may make none.
    fn think(&self) -> Duration {
        if self.stage.is_healed() {
            self.plan.think / 4
        } else {
            self.plan.think
        }
    }

    async fn rest(&mut self, average: Duration) {
        let average = u64::try_from(average.as_millis()).unwrap_or(u64::MAX);
        sleep(Duration::from_millis(1 + self.numbers.below(2 * average))).await;
    }

    /// Commits as many transactions as the plan says, with as many producers as that takes.
    async fn run(mut self) {
        let mut committed = 0;
        let mut running = None;
        while committed < self.plan.transactions {
            if self.is_twin() && self.stage.is_healed() {
                return;
            }
            let mut producer = match running.take() {
                Some(producer) => producer,
                None => {
                    let mut fresh = self.start();
                    if fresh.init().await.is_err() {
                        self.rest(RESTART).await;
                        continue;
                    }
                    fresh
                }
            };
            let fine = match self.transact(&mut producer).await {
                Ok(true) => {
                    committed += 1;
                    true
                }
                Ok(false) | Err(Trouble::Abortable { .. }) => producer.abort().await.is_ok(),
                Err(Trouble::Fatal(_) | Trouble::Unknown) => false,
            };
            if fine {
                running = Some(producer);
            } else {
                drop(producer);
                self.rest(RESTART).await;
            }
        }
    }

    /// Writes one transaction, and commits it unless the application wants it aborted.
    async fn transact(&mut self, producer: &mut TransactionalProducer) -> Result<bool, Trouble> {
        self.transaction += 1;
        producer.begin_as(self.transaction);
        let began = Instant::now();
        for _half in 0..2 {
            for partition in 0..self.plan.partitions {
                let to = TopicPartition::new(TOPIC, partition);
                for _ in 0..self.plan.records {
                    producer.send(&to, None, self.value());
                }
            }
            producer.flush().await?;
            self.rest(self.think()).await;
        }
        if began.elapsed() + NEARLY >= self.plan.timeout {
            let mark = Event::Mark(Mark::Situation {
                name: TIMEOUT_RACED_COMMIT.into(),
            });
            self.stage.recorder.record(&"world".into(), mark);
        }
        if self.numbers.below(self.plan.aborts) == 0 {
            return Ok(false);
        }
        producer.commit().await?;
        Ok(true)
    }

    fn value(&mut self) -> Value {
        let number = self.next;
        self.next += 1;
        Value {
            producer: self.number,
            number,
        }
    }
}
