//! One reading of a tenant's topics: the queue list, then what is not known yet of records and
//! lane names.

use std::sync::Arc;
use std::time::Duration;

use host::Monotonic;
use serde_json::value::RawValue;

use super::list::{Lanes, RecordState, Topic, TopicList, is_visible, partition_of};
use super::{Inner, Refreshed, State, is_denial};
use crate::queen::{
    ChangedEntry, Class, Credential, Error, LaneStatus, MAX_CHANGED_ENTRIES, Queue,
};
use crate::topics::{TopicRecord, store};

/// How long before records, and lane names of topics that grew, are read again: other facades
/// change records, native clients make lanes.
const KNOWLEDGE_AGE: Duration = Duration::from_secs(30);
/// How long before a Queen without the lane listing is asked for it again.
const UNSUPPORTED_AGE: Duration = Duration::from_secs(600);
/// Topics without a known record up to which their rows are read by name rather than all rows.
const MAX_NAMED_RECORDS: usize = 256;
/// Calls for lane names of one refresh: names of at most 16,000 lanes.
const MAX_LANE_CALLS: usize = 16;

/// Reads the topics of `state` and keeps what was read, unless a later reading was faster.
pub(super) async fn run(
    inner: Arc<Inner>,
    state: Arc<State>,
    credential: Credential,
    sequence: u64,
) -> Refreshed {
    let started = inner.clock.monotonic();
    let queues = match inner.client.list_queues(&credential).await {
        Ok(queues) => queues,
        Err(error) => {
            inner.metrics.failed_refreshes.inc();
            // A refusal concerns one credential of the tenant, not the others.
            if !is_denial(&error) {
                state.lock().failure = Some((inner.clock.monotonic(), error.clone()));
            }
            return Err(error);
        }
    };
    let queues: Vec<Queue> = queues.into_iter().filter(is_visible).collect();
    let (before, scanned_at, lane_names_from) = {
        let current = state.lock();
        (
            current.list.clone(),
            current.records_scanned_at,
            current.lane_names_from,
        )
    };
    let mut reading = Reading {
        inner: &inner,
        credential: &credential,
        now: started,
        topics: queues
            .into_iter()
            .map(|queue| Known::of(queue, &before))
            .collect(),
    };
    let scanned = reading.records(scanned_at).await;
    let lane_names_from = reading.lane_names(lane_names_from).await;
    let list = Arc::new(TopicList::new(reading.topics.into_iter().map(|known| {
        Arc::new(Topic::new(
            known.queue,
            known.record,
            known.lanes,
            inner.default_partitions,
        ))
    })));
    inner.metrics.refreshes.inc();
    let mut current = state.lock();
    if current.list_from < sequence {
        current.list_from = sequence;
        current.list = list.clone();
        current.read_at = Some(started);
        current.failure = None;
        current.records_scanned_at = scanned;
        current.lane_names_from = lane_names_from;
    }
    Ok(list)
}

/// A queue and what is known of it so far.
struct Known {
    queue: Queue,
    record: RecordState,
    lanes: Option<Lanes>,
}

impl Known {
    /// What an earlier list knew of the same queue; a recreated one is a new queue.
    fn of(queue: Queue, before: &TopicList) -> Self {
        let known = before
            .get(&queue.name)
            .filter(|topic| topic.queue_id == queue.id);
        Self {
            record: known.map_or(RecordState::Unread, |topic| topic.record.clone()),
            lanes: known.and_then(|topic| topic.lane_names),
            queue,
        }
    }

    fn has_record(&mut self, record: Option<TopicRecord>) {
        self.record = record
            .filter(|record| record.tracks(self.queue.id.as_deref()))
            .map_or(RecordState::Untracked, |record| {
                RecordState::Tracked(Arc::new(record))
            });
    }

    /// Whether the names of its lanes should be read: there are lanes whose names nobody has seen.
    fn wants_names(&self, now: Monotonic) -> bool {
        match self.lanes {
            None => self.queue.lanes > 0,
            Some(lanes) => {
                lanes.counted != self.queue.lanes
                    && now.saturating_since(lanes.read_at) >= KNOWLEDGE_AGE
            }
        }
    }
}

struct Reading<'a> {
    inner: &'a Inner,
    credential: &'a Credential,
    now: Monotonic,
    topics: Vec<Known>,
}

impl Reading<'_> {
    /// Reads all records when that was long ago, else those of topics that are new. Returns when
    /// all were last read.
    async fn records(&mut self, scanned_at: Option<Monotonic>) -> Option<Monotonic> {
        let unread = |known: &&mut Known| known.record == RecordState::Unread;
        let new = self
            .topics
            .iter()
            .filter(|known| known.record == RecordState::Unread)
            .count();
        let due = scanned_at.is_none_or(|at| self.now.saturating_since(at) >= KNOWLEDGE_AGE);
        if self.topics.is_empty() || (new == 0 && !due) {
            return scanned_at;
        }
        if due || new > MAX_NAMED_RECORDS {
            match store::read_all(&self.inner.client, self.credential).await {
                Ok(mut records) => {
                    for known in &mut self.topics {
                        let record = records.remove(&known.queue.name);
                        known.has_record(record);
                    }
                    return Some(self.now);
                }
                Err(error) if is_lasting(&error) => {
                    for known in self.topics.iter_mut().filter(unread) {
                        known.record = RecordState::Unreadable;
                    }
                    return Some(self.now);
                }
                Err(error) => {
                    tracing::warn!(%error, "topic records could not be read");
                    return scanned_at;
                }
            }
        }
        let names: Vec<&str> = self
            .topics
            .iter()
            .filter(|known| known.record == RecordState::Unread)
            .map(|known| known.queue.name.as_str())
            .collect();
        let records = store::read(&self.inner.client, self.credential, &names).await;
        match records {
            Ok(mut records) => {
                for known in self.topics.iter_mut().filter(unread) {
                    if !records.unread.contains(&known.queue.name) {
                        let record = records.found.remove(&known.queue.name);
                        known.has_record(record);
                    }
                }
            }
            Err(error) if is_lasting(&error) => {
                for known in self.topics.iter_mut().filter(unread) {
                    known.record = RecordState::Unreadable;
                }
            }
            Err(error) => tracing::warn!(%error, "topic records could not be read"),
        }
        scanned_at
    }

    /// Reads lane names where there are lanes nobody has seen, from `from` on. Returns when that
    /// may be tried again.
    async fn lane_names(&mut self, from: Monotonic) -> Monotonic {
        if self.now < from {
            return from;
        }
        let mut walks: Vec<Walk> = self
            .topics
            .iter()
            .enumerate()
            .filter(|(_, known)| known.wants_names(self.now))
            .map(|(topic, _)| Walk::new(topic))
            .collect();
        for _ in 0..MAX_LANE_CALLS {
            let batch = walks.len().min(MAX_CHANGED_ENTRIES);
            if batch == 0 {
                break;
            }
            let mut batch: Vec<Walk> = walks.drain(..batch).collect();
            match self.next_pages(&mut batch).await {
                Ok(true) => {}
                Ok(false) => return self.now + UNSUPPORTED_AGE,
                Err(error) => {
                    tracing::debug!(%error, "lane names could not be read");
                    return self.now + KNOWLEDGE_AGE;
                }
            }
            for walk in batch {
                if walk.ended {
                    self.finish(&walk, true);
                } else {
                    walks.push(walk);
                }
            }
        }
        // A walk that began and did not end would not end next time either.
        for walk in walks.iter().filter(|walk| walk.after.is_some()) {
            self.finish(walk, false);
        }
        from
    }

    /// Reads one more page for each walk; `false` when Queen has no such route.
    async fn next_pages(&self, walks: &mut [Walk]) -> Result<bool, Error> {
        let entries: Vec<ChangedEntry<'_>> = walks
            .iter()
            .filter_map(|walk| {
                Some(ChangedEntry {
                    queue: &self.topics.get(walk.topic)?.queue.name,
                    after: walk.after.as_deref(),
                })
            })
            .collect();
        let pages = self
            .inner
            .client
            .partitions_changed(self.credential, &entries)
            .await?;
        let Some(pages) = pages else {
            return Ok(false);
        };
        for (walk, page) in walks.iter_mut().zip(pages) {
            for lane in &page.lanes {
                walk.highest = walk.highest.max(partition_of(&lane.name));
            }
            walk.ended = page.status != LaneStatus::Ok || page.next.is_none();
            walk.after = page.next;
        }
        Ok(true)
    }

    fn finish(&mut self, walk: &Walk, complete: bool) {
        if let Some(known) = self.topics.get_mut(walk.topic) {
            known.lanes = Some(Lanes {
                counted: known.queue.lanes,
                highest: walk.highest,
                read_at: self.now,
                complete,
            });
        }
    }
}

/// The reading of one topic's lane names, page by page.
struct Walk {
    topic: usize,
    after: Option<Box<RawValue>>,
    highest: Option<i32>,
    ended: bool,
}

impl Walk {
    fn new(topic: usize) -> Self {
        Self {
            topic,
            after: None,
            highest: None,
            ended: false,
        }
    }
}

/// Whether reading records fails for a reason that waiting does not change: the credential may not
/// read them, or Queen keeps none.
fn is_lasting(error: &Error) -> bool {
    match error.class() {
        Class::Unauthenticated | Class::Forbidden | Class::NotFound | Class::Rejected => true,
        _ => error.code() == Some("kv_disabled"),
    }
}
