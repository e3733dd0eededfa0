//! A consume-transform-produce loop: members of a group make one record from each they read, and
//! commit what they read with what they made. Members come, go and crash; two stay.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::client::Profile;
use crate::client::consumer::{Consumer, Settings};
use crate::client::reader::Reader;
use crate::client::transactional::{self, TransactionalProducer, Trouble};
use crate::history::{Event, Isolation, Mark, Name, Polled, Promise, TopicPartition, Value};
use crate::scenario::orders::{Orders, TOPIC};
use crate::scenario::stage::{AUDITOR, Stage};
use crate::seed::Numbers;
use crate::trace::Node;

/// Where the loop writes.
pub const MADE: &str = "invoices";
/// The group.
pub const GROUP: &str = "loop";
/// How long an application waits for records.
const POLL: Duration = Duration::from_millis(250);
/// Before an application starts again, on average.
const RESTART: Duration = Duration::from_millis(400);
/// Of one record, so many may be made, most of them aborted.
const MOST_ATTEMPTS: u64 = 10_000;
/// Added to the number of a value's producer, it names the one who made the other.
const MAKER: u32 = 100;

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub struct Loop {
    /// How members behave; they take turns.
    pub profiles: &'static [&'static Profile],
    /// Members that stay.
    pub stay: u32,
    /// Members that come and go until the heal.
    pub visit: u32,
    /// How long those stay, on average.
    pub visits: Duration,
    /// Between reading and committing, on average.
    pub think: Duration,
    /// `transaction.timeout.ms`.
    pub timeout: Duration,
    /// What there is to be read.
    pub orders: Orders,
    /// The doors that members know; they take turns.
    pub doors: &'static [Node],
}

impl Loop {
    /// Two members that stay and one that visits, of two partitions.
    pub const USUAL: Self = Self {
        profiles: super::PROFILES,
        stay: 2,
        visit: 1,
        visits: Duration::from_millis(2_500),
        think: Duration::from_millis(60),
        timeout: Duration::from_secs(10),
        orders: Orders {
            writers: 2,
            batches: 40,
            records: 2,
            ..Orders::USUAL
        },
        doors: &[Node::Facade],
    };

    /// Plays it: until everything is read and the world has healed, then the audit of both topics
    /// and of the offsets.
    pub async fn play(self, stage: Stage) {
        let mut writers = self.orders.write(&stage);
        let follower = stage.client("follower", self.profiles[0]);
        let follower = Reader::new(follower, MADE, self.orders.partitions).committed();
        let following = tokio::spawn(follower.follow());
        let attempts = Attempts::default();
        let mut members = Vec::new();
        let turns = self.doors.iter().cycle().zip(self.profiles.iter().cycle());
        for (number, (door, profile)) in (0..self.stay + self.visit).zip(turns) {
            let member = Member::new(&stage, self, number, (*door, profile), attempts.clone());
            members.push(tokio::spawn(member.run()));
        }
        stage.healed().await;
        while writers.join_next().await.is_some() {}
        self.all_read(&stage).await;
        for member in &members {
            JoinHandle::abort(member);
        }
        following.abort();
        for topic in [TOPIC, MADE] {
            stage
                .audit(&topic.into(), self.orders.partitions, self.profiles[0])
                .await;
        }
    }

    /// Waits until the committed offsets stand behind everything that was written.
    async fn all_read(&self, stage: &Stage) {
        let all = i64::try_from(self.orders.total()).unwrap_or(i64::MAX);
        let partitions: Vec<_> = (0..self.orders.partitions)
            .map(|partition| TopicPartition::new(TOPIC, partition))
            .collect();
        loop {
            let auditor = stage.client(AUDITOR, self.profiles[0]);
            let told = Consumer::committed(auditor, GROUP.into(), &partitions).await;
            if told.values().flatten().sum::<i64>() >= all {
                return;
            }
            sleep(POLL).await;
        }
    }
}

/// How often something was made of each value, by whomever.
#[derive(Clone, Debug, Default)]
struct Attempts(Arc<Mutex<BTreeMap<Value, u64>>>);

impl Attempts {
    /// The next value that is made of `of`.
    fn make(&self, of: Value) -> Value {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let attempt = all.entry(of).or_default();
        *attempt += 1;
        Value {
            producer: MAKER + of.producer,
            number: of.number * MOST_ATTEMPTS + *attempt,
        }
    }
}

/// A member of the loop, through all its lives.
struct Member {
    stage: Stage,
    plan: Loop,
    number: u32,
    profile: &'static Profile,
    door: Node,
    id: String,
    numbers: Numbers,
    attempts: Attempts,
    /// The last transaction's number.
    transaction: u64,
}

impl Member {
    fn new(
        stage: &Stage,
        plan: Loop,
        number: u32,
        (door, profile): (Node, &'static Profile),
        attempts: Attempts,
    ) -> Self {
        let id = format!("loop-{number}");
        Self {
            stage: stage.clone(),
            plan,
            number,
            profile,
            door,
            numbers: stage.numbers(&id),
            id,
            attempts,
            transaction: 0,
        }
    }

    fn drawn(&mut self, average: Duration) -> Duration {
        let average = u64::try_from(average.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(1 + self.numbers.below(2 * average))
    }

    async fn run(mut self) {
        let visits = self.number >= self.plan.stay;
        loop {
            if visits {
                let away = self.drawn(self.plan.visits);
                sleep(away).await;
                if self.stage.is_healed() {
                    return;
                }
            }
            let life = match visits {
                true => self.drawn(self.plan.visits),
                false => Duration::MAX,
            };
            let until = Instant::now().checked_add(life);
            self.live(until).await;
            let pause = self.drawn(RESTART);
            sleep(pause).await;
        }
    }

    /// A producer and a consumer, until one of them is of no use any more, or until then.
    async fn live(&mut self, until: Option<Instant>) {
        let client = self.stage.client_of(&self.id, self.profile, self.door);
        let settings = transactional::Settings {
            id: self.id.as_str().into(),
            timeout: self.plan.timeout,
            promises: vec![Promise::Once],
        };
        let mut producer = TransactionalProducer::new(client.clone(), settings);
        if producer.init().await.is_err() {
            return;
        }
        let settings = Settings {
            group: Some(GROUP.into()),
            isolation: Isolation::ReadCommitted,
            create_topics: true,
            ..Settings::default()
        };
        let consumer = Consumer::subscribed(client, settings, [Name::from(TOPIC)]);
        while until.is_none_or(|until| Instant::now() < until) {
            let number = self.transaction + 1;
            let Ok(polled) = consumer.poll_in(POLL, Some(number)).await else {
                break;
            };
            if polled.is_empty() {
                continue;
            }
            self.transaction = number;
            match self.transact(&mut producer, &consumer, &polled).await {
                Ok(()) => {}
                Err(Trouble::Abortable { .. }) if producer.abort().await.is_ok() => {
                    consumer.rewind();
                }
                Err(_) => break,
            }
        }
        if self.numbers.coin() {
            consumer.close().await;
        } else {
            drop(consumer);
        }
        // What it was doing has no end, whichever way it went.
        let client = Name::from(self.id.as_str());
        let gone = Event::Mark(Mark::ClientCrash { client });
        self.stage.recorder.record(&"world".into(), gone);
    }

    /// Makes something of what was polled, and commits both.
    async fn transact(
        &mut self,
        producer: &mut TransactionalProducer,
        consumer: &Consumer,
        polled: &[Polled],
    ) -> Result<(), Trouble> {
        let member = consumer.identity();
        producer.begin_as(self.transaction);
        for one in polled {
            let to = TopicPartition::new(MADE, one.at.partition);
            for seen in &one.records {
                let (of, value) = (seen.value, self.attempts.make(seen.value));
                let derived = Event::Derived { of, value };
                self.stage
                    .recorder
                    .record(&self.id.as_str().into(), derived);
                producer.send(&to, None, value);
            }
        }
        producer.flush().await?;
        let think = self.drawn(self.plan.think);
        sleep(think).await;
        // As franz-go's GroupTransactSession: what was given up meanwhile isn't committed.
        let assignment = consumer.assignment();
        if !polled.iter().all(|one| assignment.contains(&one.at)) {
            return Err(Trouble::Abortable {
                code: None,
                bump: false,
            });
        }
        let offsets: BTreeMap<_, _> = polled
            .iter()
            .map(|one| (one.at.clone(), one.next))
            .collect();
        producer
            .send_offsets(&GROUP.into(), &member, &offsets)
            .await?;
        let think = self.drawn(self.plan.think);
        sleep(think).await;
        producer.commit().await
    }
}
