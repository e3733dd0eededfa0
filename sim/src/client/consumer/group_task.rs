//! The task that keeps a consumer's membership: asks what the membership says, and does what it
//! may do without the application.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::time::sleep;

use super::assignor::{Assignor, Subscription};
use super::member::Member;
use super::membership::{Ask, Event as Duty, Joined, Trouble};
use super::reconciler::Beat;
use super::shared::Shared;
use crate::client::profile::Rebalances;
use crate::history::{Name, TopicPartition};

/// An answer.
enum Answer {
    Join(Result<Joined, (Trouble, Name)>),
    Sync(Result<BTreeSet<TopicPartition>, Trouble>),
    Heartbeat(i32, Result<(), Trouble>),
    Beat(Result<Beat, Trouble>),
    Left,
    /// The number of partitions of each topic, for the leader.
    Counted(Assignor, BTreeMap<Name, Subscription>, BTreeMap<Name, i32>),
}

pub(super) struct GroupTask {
    shared: Arc<Shared>,
    /// What the leader gave out in this generation was that of topics with so many partitions.
    led: Option<BTreeMap<Name, i32>>,
    work: FuturesUnordered<BoxFuture<'static, Answer>>,
}

impl GroupTask {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            led: None,
            work: FuturesUnordered::new(),
        }
    }

    /// Runs until it is dropped.
    pub(super) async fn run(mut self) {
        let mut bell = self.shared.listen();
        loop {
            bell.mark_unchanged();
            for (duty, identity) in self.shared.collect() {
                match duty {
                    Duty::Lead { assignor, members } => self.count(assignor, members),
                    Duty::CoordinatorWrong => {
                        if let Some(coordinator) = &self.shared.coordinator {
                            coordinator.is_wrong();
                        }
                    }
                    Duty::Fatal(code) => {
                        self.shared.state().fatal = Some(code);
                        self.shared.ring();
                    }
                    duty => self.shared.perform(duty, &identity).await,
                }
            }
            self.watch_topics();
            let mut asked = false;
            while let Some(ask) = self.next_ask() {
                asked = true;
                self.ask(ask);
            }
            if asked {
                // It may have something to say with what it asked.
                continue;
            }
            let now = self.shared.client.now();
            let deadline = {
                let state = self.shared.state();
                state
                    .membership
                    .as_ref()
                    .and_then(|membership| membership.next_deadline(now))
            };
            let wait = deadline.map(|deadline| deadline.saturating_since(now));
            tokio::select! {
                biased;
                Some(answer) = self.work.next(), if !self.work.is_empty() => self.take(answer),
                rung = bell.changed() => if rung.is_err() { return },
                () = sleep(wait.unwrap_or_default()), if wait.is_some() => {}
            }
        }
    }

    fn next_ask(&self) -> Option<Ask> {
        let now = self.shared.client.now();
        let mut state = self.shared.state();
        let polling = state.polling;
        let in_poll = self.shared.client.profile.group.rebalances == Rebalances::InPoll;
        // What the application has not heard yet comes first.
        let heard = state.duties.is_empty();
        let membership = state.membership.as_mut()?;
        membership.poll_ask(now, heard && (polling || !in_poll), polling)
    }

    fn ask(&mut self, ask: Ask) {
        let shared = Arc::clone(&self.shared);
        self.work.push(Box::pin(async move {
            let Some(coordinator) = &shared.coordinator else {
                return Answer::Left;
            };
            match ask {
                Ask::Join {
                    identity,
                    subscription,
                } => Answer::Join(coordinator.join(&identity, &subscription).await),
                Ask::Sync {
                    identity,
                    assignor,
                    assignment,
                } => Answer::Sync(coordinator.sync(&identity, assignor, &assignment).await),
                Ask::Heartbeat { identity } => {
                    let answer = coordinator.heartbeat(&identity).await;
                    Answer::Heartbeat(identity.generation, answer)
                }
                Ask::Beat { identity, says } => {
                    let topics = shared.topics();
                    Answer::Beat(coordinator.beat(&identity, &says, &topics).await)
                }
                Ask::Leave { identity } => {
                    shared.leave(coordinator, &identity).await;
                    Answer::Left
                }
            }
        }));
    }

    /// Finds out how many partitions there are to give out.
    fn count(&mut self, assignor: Assignor, members: BTreeMap<Name, Subscription>) {
        let shared = Arc::clone(&self.shared);
        self.work.push(Box::pin(async move {
            let wanted = members.values().flat_map(|member| &member.topics).cloned();
            let mut topics: BTreeSet<Name> = shared.topics();
            topics.extend(wanted);
            let mut failures = 0;
            while shared.cluster.is_due(&topics) {
                match shared.cluster.refresh(&topics, false).await {
                    // A topic that isn't there has nothing to give out.
                    Ok(()) => break,
                    Err(error) => {
                        shared.client.lament(&error);
                        failures += 1;
                        shared.client.back_off(failures).await;
                    }
                }
            }
            let count = |topic: Name| {
                let partitions = shared.cluster.topic(&topic)?.partitions;
                Some((topic, partitions))
            };
            let counts = topics.into_iter().filter_map(count).collect();
            Answer::Counted(assignor, members, counts)
        }));
    }

    /// A leader joins again when its topics have other partitions than it gave out.
    fn watch_topics(&mut self) {
        let Some(led) = &self.led else {
            return;
        };
        let now_there = |topic: &Name| self.shared.cluster.topic(topic).map(|now| now.partitions);
        let wanted = self.shared.topics();
        let differs = wanted
            .iter()
            .any(|topic| now_there(topic) != led.get(topic).copied());
        if differs {
            self.led = None;
            let now = self.shared.client.now();
            let mut state = self.shared.state();
            if let Some(member) = state.membership.as_mut().and_then(Member::classic) {
                member.rejoin(now);
            }
        }
    }

    fn take(&mut self, answer: Answer) {
        let now = self.shared.client.now();
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state();
        let Some(member) = state.membership.as_mut() else {
            return;
        };
        match (answer, member) {
            (Answer::Join(answer), Member::Classic(member)) => {
                self.led = None;
                member.handle_join(now, answer);
            }
            (Answer::Sync(answer), Member::Classic(member)) => member.handle_sync(now, answer),
            (Answer::Heartbeat(generation, answer), Member::Classic(member)) => {
                member.handle_heartbeat(now, generation, answer);
            }
            (Answer::Counted(assignor, members, counts), Member::Classic(member)) => {
                member.assigned(assignor.assign(&members, &counts));
                self.led = Some(counts);
            }
            (Answer::Beat(answer), Member::Consumer(member)) => member.handle_beat(now, answer),
            // Nothing that its protocol asks for.
            _ => {}
        }
        drop(state);
        shared.ring();
    }
}
