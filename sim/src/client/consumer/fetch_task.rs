//! The task that reads for a consumer: finds out where to begin, and fetches what has been handed
//! out, one request at a time from each broker.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use kafka_protocol::messages::FetchResponse;
use kafka_wire::ErrorCode;
use tokio::time::sleep;

use super::Reset;
use super::fetch_calls::{Offsets, ask, list_offsets};
use super::fetch_session::{FetchSession, Wanted};
use super::shared::{Shared, is_passing};
use crate::client::profile::{ConsumerRules, Purpose};
use crate::client::records::records;
use crate::client::{CallError, error_code, name, refused};
use crate::history::{Call, Event, Failure, Mark, TopicPartition, coverage};

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;

enum Done {
    Refreshed(Result<(), CallError>),
    Committed(Result<Offsets<Option<i64>>, CallError>),
    Reset(Offsets<Result<i64, CallError>>),
    Fetched {
        node: i32,
        asked: Offsets<i64>,
        session: FetchSession,
        /// On which connection it was asked.
        connection: Option<u64>,
        answer: Result<FetchResponse, CallError>,
    },
}

pub(super) struct FetchTask {
    shared: Arc<Shared>,
    sessions: BTreeMap<i32, FetchSession>,
    /// The connection of each broker's last good answer.
    heard_on: BTreeMap<i32, u64>,
    fetching: BTreeSet<i32>,
    refreshing: bool,
    committed: bool,
    resetting: bool,
    failures: u32,
    work: FuturesUnordered<BoxFuture<'static, Done>>,
}

impl FetchTask {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            sessions: BTreeMap::new(),
            heard_on: BTreeMap::new(),
            fetching: BTreeSet::new(),
            refreshing: false,
            committed: false,
            resetting: false,
            failures: 0,
            work: FuturesUnordered::new(),
        }
    }

    fn rules(&self) -> ConsumerRules {
        self.shared.client.profile.consumer
    }

    /// Runs until it is dropped.
    pub(super) async fn run(mut self) {
        let mut bell = self.shared.listen();
        loop {
            bell.mark_unchanged();
            self.start();
            let now = self.shared.client.now();
            let deadline = self.shared.state().positions.next_deadline(now);
            let wait = deadline.map(|deadline| deadline.saturating_since(now));
            tokio::select! {
                biased;
                Some(done) = self.work.next(), if !self.work.is_empty() => self.take(done),
                rung = bell.changed() => if rung.is_err() { return },
                () = sleep(wait.unwrap_or_default()), if wait.is_some() => {}
            }
        }
    }

    fn start(&mut self) {
        let topics = self.shared.topics();
        if !self.refreshing && !topics.is_empty() && self.shared.cluster.is_due(&topics) {
            self.refreshing = true;
            let (shared, failures) = (Arc::clone(&self.shared), self.failures);
            self.work.push(Box::pin(async move {
                if failures > 0 {
                    shared.client.back_off(failures).await;
                }
                let create = shared.settings.create_topics;
                Done::Refreshed(shared.cluster.refresh(&topics, create).await)
            }));
        }
        let (committed, reset) = {
            let state = self.shared.state();
            (
                state.positions.want_committed(),
                state.positions.want_reset(),
            )
        };
        if !self.committed && !committed.is_empty() {
            self.committed = true;
            let (shared, failures) = (Arc::clone(&self.shared), self.failures);
            self.work.push(Box::pin(async move {
                if failures > 0 {
                    shared.client.back_off(failures).await;
                }
                let Some(coordinator) = &shared.coordinator else {
                    // Nobody remembers anything for it.
                    let none = committed.into_iter().map(|at| (at, None));
                    return Done::Committed(Ok(none.collect()));
                };
                Done::Committed(coordinator.committed(&committed).await)
            }));
        }
        if !self.resetting && !reset.is_empty() {
            self.start_reset(reset);
        }
        self.start_fetches();
    }

    fn start_reset(&mut self, partitions: Vec<TopicPartition>) {
        let timestamp = match self.shared.settings.reset {
            Reset::Earliest => EARLIEST,
            Reset::Latest => LATEST,
            Reset::Fail => {
                let mut state = self.shared.state();
                state.fatal = Some(ErrorCode::OffsetOutOfRange);
                for at in &partitions {
                    state.positions.give_up(at);
                }
                drop(state);
                self.shared.ring();
                return;
            }
        };
        self.resetting = true;
        let (shared, failures) = (Arc::clone(&self.shared), self.failures);
        self.work.push(Box::pin(async move {
            if failures > 0 {
                shared.client.back_off(failures).await;
            }
            Done::Reset(list_offsets(&shared.cluster, &partitions, timestamp).await)
        }));
    }

    fn start_fetches(&mut self) {
        let now = self.shared.client.now();
        let fetchable = self.shared.state().positions.fetchable(now);
        let mut by_node: BTreeMap<i32, BTreeMap<TopicPartition, Wanted>> = BTreeMap::new();
        for (at, offset) in fetchable {
            let Some(leader) = self.shared.cluster.leader(&at) else {
                self.shared.cluster.is_wrong_about(&at.topic);
                continue;
            };
            let wanted = Wanted {
                offset,
                leader_epoch: leader.epoch,
            };
            by_node.entry(leader.node).or_default().insert(at, wanted);
        }
        for (node, wanted) in by_node {
            if !self.fetching.insert(node) {
                continue;
            }
            let session = self.sessions.remove(&node).unwrap_or_default();
            let shared = Arc::clone(&self.shared);
            self.work
                .push(Box::pin(fetch(shared, node, wanted, session)));
        }
    }

    fn take(&mut self, done: Done) {
        match done {
            Done::Refreshed(result) => {
                self.refreshing = false;
                self.judge(result.as_ref().err());
                // The leader of the group may have to look at it.
                self.shared.ring();
            }
            Done::Committed(result) => {
                self.committed = false;
                self.judge(result.as_ref().err());
                match result {
                    Ok(offsets) => self.begin(offsets),
                    Err(error) if is_passing(&error) => {}
                    Err(error) => {
                        self.shared.state().fatal = error.code();
                        self.shared.ring();
                    }
                }
            }
            Done::Reset(offsets) => {
                self.resetting = false;
                let error = offsets.values().find_map(|offset| offset.as_ref().err());
                self.judge(error);
                for (at, offset) in offsets {
                    match offset {
                        Ok(offset) => {
                            if self.shared.state().positions.handle_reset(&at, offset) {
                                self.shared.client.record(Event::Seek { at, offset });
                            }
                        }
                        Err(_) => self.shared.cluster.is_wrong_about(&at.topic),
                    }
                }
            }
            Done::Fetched {
                node,
                asked,
                session,
                connection,
                answer,
            } => {
                self.fetching.remove(&node);
                self.watch_eviction(node, connection, &answer);
                self.fetched(node, asked, session, answer);
            }
        }
    }

    fn judge(&mut self, error: Option<&CallError>) {
        match error {
            None => self.failures = 0,
            Some(error) => {
                self.failures += 1;
                self.shared.client.lament(error);
            }
        }
    }

    fn begin(&self, offsets: Offsets<Option<i64>>) {
        for (at, offset) in offsets {
            let begins = self.shared.state().positions.handle_committed(&at, offset);
            if let Some(offset) = begins {
                self.shared.client.record(Event::Seek { at, offset });
            }
        }
    }

    fn fetched(
        &mut self,
        node: i32,
        asked: Offsets<i64>,
        mut session: FetchSession,
        answer: Result<FetchResponse, CallError>,
    ) {
        let told = answer.and_then(|response| {
            let code = error_code(response.error_code)?;
            session.handle_answer(code, response.session_id);
            refused(response.error_code)?;
            Ok(response)
        });
        match told {
            Ok(response) => self.read(&asked, &response),
            Err(error) => {
                self.shared.client.lament(&error);
                if error.code().is_none() {
                    session.handle_lost();
                }
                let begun_again = matches!(
                    error.code(),
                    Some(ErrorCode::FetchSessionIdNotFound | ErrorCode::InvalidFetchSessionEpoch)
                );
                if !begun_again {
                    for at in asked.keys() {
                        self.shared.cluster.is_wrong_about(&at.topic);
                        self.rest(at);
                    }
                }
            }
        }
        self.sessions.insert(node, session);
        self.shared.ring();
    }

    /// A broker that forgot a session on the very connection on which it served it has evicted it:
    /// one that started anew would have closed the connection.
    fn watch_eviction(
        &mut self,
        node: i32,
        connection: Option<u64>,
        answer: &Result<FetchResponse, CallError>,
    ) {
        let Ok(response) = answer else {
            return;
        };
        let evicted = ErrorCode::FetchSessionIdNotFound.code();
        let before = match (response.error_code, connection) {
            (0, Some(connection)) => self.heard_on.insert(node, connection),
            _ => self.heard_on.get(&node).copied(),
        };
        if response.error_code == evicted && before.is_some() && before == connection {
            let name = coverage::FETCH_SESSION_EVICTED.into();
            let met = Event::Mark(Mark::Situation { name });
            self.shared.client.record(met);
        }
    }

    fn rest(&self, at: &TopicPartition) {
        let until = self.shared.client.now() + self.rules().error_backoff;
        self.shared.state().positions.back_off(at, until);
    }

    fn read(&self, asked: &Offsets<i64>, response: &FetchResponse) {
        for topic in &response.responses {
            let known = if topic.topic_id.is_nil() {
                Some(name(&topic.topic.0))
            } else {
                self.shared.cluster.topic_of_id(topic.topic_id)
            };
            let Some(topic_name) = known else {
                self.malformed(format!("Fetch answers for topic {}", topic.topic_id));
                continue;
            };
            for partition in &topic.partitions {
                let at = TopicPartition::new(topic_name.clone(), partition.partition_index);
                let Some(&offset) = asked.get(&at) else {
                    self.malformed(format!("Fetch answers for {at}, which nobody asked for"));
                    continue;
                };
                match error_code(partition.error_code) {
                    Ok(ErrorCode::None) => match records(&at, partition.records.clone(), offset) {
                        Ok(read) => {
                            let mut state = self.shared.state();
                            if read.next > offset {
                                state.positions.handle_fetched(&at, offset, read);
                            }
                        }
                        Err(error) => {
                            self.shared.client.lament(&error);
                            self.rest(&at);
                        }
                    },
                    Ok(code) => self.partition_refused(&at, offset, code),
                    Err(error) => self.shared.client.lament(&error),
                }
            }
        }
    }

    fn malformed(&self, what: String) {
        self.shared.client.lament(&CallError::malformed(what));
    }

    fn partition_refused(&self, at: &TopicPartition, offset: i64, code: ErrorCode) {
        let error = CallError::Refused(code);
        self.shared.client.lament(&error);
        if code == ErrorCode::OffsetOutOfRange {
            let mut state = self.shared.state();
            state.positions.handle_out_of_range(at, offset);
        } else if code.retriable() {
            self.shared.cluster.is_wrong_about(&at.topic);
            self.rest(at);
        } else {
            let call = Call::Poll {
                isolation: self.shared.settings.isolation,
                transaction: None,
            };
            let recorder = &self.shared.client.recorder;
            let operation = recorder.begin(&self.shared.client.id, call, None);
            operation.fail(Failure::code(code.code(), format!("{at} at {offset}")));
            let mut state = self.shared.state();
            state.positions.give_up(at);
            state.fatal = Some(code);
        }
    }
}

async fn fetch(
    shared: Arc<Shared>,
    node: i32,
    wanted: BTreeMap<TopicPartition, Wanted>,
    mut session: FetchSession,
) -> Done {
    let asked = wanted.iter().map(|(at, want)| (at.clone(), want.offset));
    let asked = asked.collect();
    let (connection, answer) = match shared.cluster.connection(node, Purpose::Fetch).await {
        Ok(connection) => {
            let answer = ask(&shared, &connection, &wanted, &mut session).await;
            (Some(connection.number()), answer)
        }
        Err(error) => (None, Err(error)),
    };
    Done::Fetched {
        node,
        asked,
        session,
        connection,
        answer,
    }
}
