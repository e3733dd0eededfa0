//! Members of a consumer group, and the one who watches that they settle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::orders::TOPIC;
use super::stage::Stage;
use crate::client::Profile;
use crate::client::consumer::{Consumer, Settings, Witness};
use crate::client::profile::HURRIED;
use crate::history::{Event, Mark, Name, Promise, TopicPartition};
use crate::seed::Numbers;

/// The group.
pub const GROUP: &str = "readers";
/// How long an application waits for records before it looks around.
const POLL: Duration = Duration::from_millis(250);
/// Before an application starts its consumer again.
const RESTART: Duration = Duration::from_millis(500);

/// What the members of a group are told, and what they show.
#[derive(Clone, Debug)]
pub struct Group {
    stage: Stage,
    profile: &'static Profile,
    topics: Vec<Name>,
    promises: Vec<Promise>,
    over: watch::Sender<bool>,
    board: Arc<Mutex<Board>>,
}

#[derive(Debug, Default)]
struct Board {
    /// Members that are to stay, while they live.
    members: BTreeMap<String, Option<Witness>>,
    /// What was given to somebody.
    seen: BTreeSet<(TopicPartition, i64)>,
}

/// How a member behaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Habits {
    /// It begins so late.
    pub after: Duration,
    /// The library it is, if not the group's.
    pub profile: Option<&'static Profile>,
    /// `group.instance.id`.
    pub instance: Option<&'static str>,
    /// It commits by itself, not as its application does.
    pub auto_commit: bool,
    /// It comes and goes: it stays about so long, leaves or crashes, and comes again, until the
    /// world has healed; then it stays away.
    pub stays: Option<Duration>,
}

impl Group {
    /// A group whose members read the orders, all like one library: which, the seed says.
    pub fn new(stage: &Stage) -> Self {
        let drawn = stage.numbers("library").below(HURRIED.len() as u64);
        let profile = HURRIED[usize::try_from(drawn).unwrap_or_default()];
        Self::of(stage, profile)
    }

    /// A group whose members are like `profile`.
    pub fn of(stage: &Stage, profile: &'static Profile) -> Self {
        Self {
            stage: stage.clone(),
            profile,
            topics: vec![TOPIC.into()],
            promises: vec![Promise::ReadsAll, Promise::NeverRefused],
            over: watch::Sender::new(false),
            board: Arc::default(),
        }
    }

    /// The same for more topics.
    #[must_use]
    pub fn reading(mut self, topics: &[&str]) -> Self {
        self.topics = topics.iter().map(|&topic| topic.into()).collect();
        self
    }

    /// The same with members that may be refused for good: they are made to be.
    #[must_use]
    pub fn refusable(mut self) -> Self {
        self.promises = vec![Promise::ReadsAll];
        self
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the members `member-0` and on, all with the same habits, one after the other.
    pub fn start(&self, members: u32, habits: Habits, apart: Duration) -> Vec<JoinHandle<()>> {
        let mut started = Vec::new();
        for number in 0..members {
            let habits = Habits {
                after: habits.after + apart * number,
                ..habits
            };
            started.push(self.member(format!("member-{number}"), habits));
        }
        started
    }

    /// Starts one member.
    pub fn member(&self, id: String, habits: Habits) -> JoinHandle<()> {
        if habits.stays.is_none() {
            self.board().members.insert(id.clone(), None);
        }
        tokio::spawn(self.clone().live(id, habits))
    }

    async fn live(self, id: String, habits: Habits) {
        let mut numbers = self.stage.numbers(&id);
        sleep(habits.after).await;
        loop {
            if habits.stays.is_some() && self.stage.is_healed() {
                return;
            }
            let ended = self.one_life(&id, habits, &mut numbers).await;
            if ended {
                return;
            }
            let pause = u64::try_from(RESTART.as_millis()).unwrap_or_default();
            sleep(Duration::from_millis(1 + numbers.below(2 * pause))).await;
        }
    }

    /// A consumer from its start to its end; whether the scenario is over with it.
    async fn one_life(&self, id: &str, habits: Habits, numbers: &mut Numbers) -> bool {
        let settings = Settings {
            group: Some(GROUP.into()),
            instance: habits.instance.map(Name::from),
            auto_commit: habits.auto_commit,
            create_topics: true,
            promises: self.promises.clone(),
            ..Settings::default()
        };
        let profile = habits.profile.unwrap_or(self.profile);
        let client = self.stage.client(id, profile);
        let consumer = Consumer::subscribed(client, settings, self.topics.clone());
        if let Some(member) = self.board().members.get_mut(id) {
            *member = Some(consumer.witness());
        }
        let mut over = self.over.subscribe();
        let stays_ms = habits
            .stays
            .map(|stays| u64::try_from(stays.as_millis()).unwrap_or(u64::MAX));
        let life = stays_ms.map(|stays| Duration::from_millis(1 + numbers.below(2 * stays)));
        let until = life.map(|life| Instant::now() + life);
        let ending = tokio::select! {
            biased;
            // An error says that the group is gone, and this with it.
            _ = over.wait_for(|over| *over) => Ending::Over,
            ending = self.read(&consumer, habits, numbers, until) => ending,
        };
        if let Some(member) = self.board().members.get_mut(id) {
            *member = None;
        }
        let crashes = ending != Ending::Over && numbers.coin();
        if crashes {
            drop(consumer);
        } else {
            consumer.close().await;
        }
        // A static member doesn't leave its group, and what one was doing when it was closed has no end.
        let client = Name::from(id);
        let gone = Event::Mark(Mark::ClientCrash { client });
        self.stage.recorder.record(&"world".into(), gone);
        ending == Ending::Over
    }

    /// Reads and commits until the consumer is of no use any more, or its time is over: it looks at the
    /// clock between two operations, since one that is dropped in the middle never ends.
    async fn read(
        &self,
        consumer: &Consumer,
        habits: Habits,
        numbers: &mut Numbers,
        until: Option<Instant>,
    ) -> Ending {
        while until.is_none_or(|until| Instant::now() < until) {
            let Ok(polled) = consumer.poll(POLL).await else {
                return Ending::Refused;
            };
            let records = polled
                .iter()
                .flat_map(|one| one.records.iter().map(|seen| (one.at.clone(), seen.offset)));
            self.board().seen.extend(records);
            if polled.is_empty() || habits.auto_commit {
                continue;
            }
            // What isn't committed is read again, and the history has what became of a commit.
            if numbers.below(3) > 0 {
                drop(consumer.commit().await);
            }
        }
        Ending::Away
    }

    /// Waits, after the heal, until the members that stay own `partitions` among them in one
    /// generation and have been given `records` records; says so in the history.
    pub async fn settle(&self, partitions: &[TopicPartition], records: usize) {
        self.stage.healed().await;
        let all: BTreeSet<_> = partitions.iter().cloned().collect();
        while !self.is_settled(&all, records) {
            sleep(POLL).await;
        }
        let mark = Mark::Settled {
            group: GROUP.into(),
            partitions: partitions.to_vec(),
        };
        self.stage
            .recorder
            .record(&"world".into(), Event::Mark(mark));
    }

    fn is_settled(&self, all: &BTreeSet<TopicPartition>, records: usize) -> bool {
        let board = self.board();
        let (mut owned, mut generations) = (BTreeSet::new(), BTreeSet::new());
        for member in board.members.values() {
            let Some(standing) = member.as_ref().and_then(Witness::standing) else {
                return false;
            };
            owned.extend(standing.owned);
            generations.insert(standing.generation);
        }
        owned == *all && generations.len() <= 1 && board.seen.len() >= records
    }

    /// The members leave in good order.
    pub fn end(&self) {
        self.over.send_replace(true);
    }
}

/// How a consumer's life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// With the scenario.
    Over,
    /// It was refused for good.
    Refused,
    /// It had stayed long enough.
    Away,
}
