//! The creation of topics: queue first, then its record, pinned to the id that the list reports.

use std::sync::Arc;

use futures::{FutureExt, StreamExt};

use super::change::{CALLS_AT_ONCE, CreateError, NewTopic};
use super::list::{RecordState, Topic, TopicList};
use super::{Inner, State};
use crate::queen::{Credential, Error};
use crate::topics::{DEDUP_WINDOW_SECONDS, Settings, TopicRecord};

/// Whether a topic comes into being because somebody named it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FirstUse {
    Yes,
    No,
}

impl Inner {
    pub(super) async fn create_on_first_use(
        self: &Arc<Self>,
        state: &Arc<State>,
        credential: &Credential,
        names: &[String],
    ) -> Result<Arc<TopicList>, Error> {
        let _changes = state.changes.lock().await;
        // A crowd that asks for the same topic waits here for the first to create it.
        let list = state.lock().list.clone();
        if names.iter().all(|name| list.get(name).is_some()) {
            return Ok(list);
        }
        let list = self.fresh_list(state, credential).await?;
        let deleting = state.deleting().clone();
        let wanted: Vec<NewTopic> = names
            .iter()
            .filter(|name| list.get(name).is_none() && !deleting.contains(*name))
            .map(|name| NewTopic {
                name: name.clone(),
                partitions: None,
                settings: Settings::default(),
            })
            .collect();
        if wanted.is_empty() {
            return Ok(list);
        }
        let outcomes = self.create(state, credential, &wanted, FirstUse::Yes).await;
        let mut failure = None;
        for outcome in outcomes {
            match outcome {
                Ok(_) => self.metrics.auto_created.inc(),
                Err(CreateError::Queen(error)) => failure = Some(error),
                Err(CreateError::Exists | CreateError::Deleting | CreateError::NotRecorded(_)) => {}
            }
        }
        let list = state.lock().list.clone();
        // One failed creation is one topic that the list lacks; when nothing at all could be
        // created the reason is worth more.
        match failure {
            Some(error) if wanted.iter().all(|new| list.get(&new.name).is_none()) => Err(error),
            _ => Ok(list),
        }
    }

    pub(super) async fn create_asked(
        self: &Arc<Self>,
        state: &Arc<State>,
        credential: &Credential,
        topics: &[NewTopic],
    ) -> Result<Vec<Result<Arc<Topic>, CreateError>>, Error> {
        let _changes = state.changes.lock().await;
        let list = self.fresh_list(state, credential).await?;
        // Nobody begins to delete one while `changes` is held.
        let deleting = state.deleting().clone();
        let refusal = |new: &NewTopic| match list.get(&new.name) {
            _ if deleting.contains(&new.name) => Some(CreateError::Deleting),
            Some(_) => Some(CreateError::Exists),
            None => None,
        };
        let wanted: Vec<NewTopic> = topics
            .iter()
            .filter(|new| refusal(new).is_none())
            .cloned()
            .collect();
        let mut outcomes = self
            .create(state, credential, &wanted, FirstUse::No)
            .await
            .into_iter();
        Ok(topics
            .iter()
            .map(|new| {
                if let Some(refusal) = refusal(new) {
                    return Err(refusal);
                }
                let outcome = outcomes.next().unwrap_or(Err(CreateError::Exists));
                if outcome.is_ok() {
                    self.metrics.created.inc();
                }
                outcome
            })
            .collect())
    }

    /// Creates queues and their records. The caller holds `changes` and has seen that none of
    /// them exists.
    async fn create(
        self: &Arc<Self>,
        state: &Arc<State>,
        credential: &Credential,
        topics: &[NewTopic],
        first_use: FirstUse,
    ) -> Vec<Result<Arc<Topic>, CreateError>> {
        if topics.is_empty() {
            return Vec::new();
        }
        let calls: Vec<_> = topics
            .iter()
            .map(|new| self.configure_new(credential, new, first_use).boxed())
            .collect();
        let configured: Vec<Result<TopicRecord, Error>> = futures::stream::iter(calls)
            .buffered(CALLS_AT_ONCE)
            .collect()
            .await;
        let list = match self.fresh_list(state, credential).await {
            Ok(list) => list,
            Err(error) => {
                return configured
                    .into_iter()
                    .map(|_| Err(CreateError::Queen(error.clone())))
                    .collect();
            }
        };
        // The record is pinned to the id that the list reports.
        let records: Vec<(usize, TopicRecord)> = configured
            .iter()
            .zip(topics)
            .enumerate()
            .filter_map(|(at, (record, new))| {
                let mut record = record.as_ref().ok()?.clone();
                record.qid = list.get(&new.name)?.queue_id.clone();
                record.at = self.clock.wall().epoch_ms();
                Some((at, record))
            })
            .collect();
        let rows: Vec<(&str, &TopicRecord)> = records
            .iter()
            .filter_map(|(at, record)| Some((topics.get(*at)?.name.as_str(), record)))
            .collect();
        let written = self.write_records(credential, &rows).await;
        let mut recorded: Vec<Option<TopicRecord>> = vec![None; topics.len()];
        for (at, record) in records {
            if let Some(slot) = recorded.get_mut(at) {
                *slot = Some(record);
            }
        }
        let mut outcomes = Vec::with_capacity(topics.len());
        let mut changed = Vec::new();
        for ((new, configured), record) in topics.iter().zip(configured).zip(recorded) {
            outcomes.push(match (configured, list.get(&new.name), record, &written) {
                (Err(error), ..) => Err(CreateError::Queen(error)),
                (Ok(_), Some(topic), Some(record), Ok(())) => {
                    let topic = self.with_record(topic, RecordState::Tracked(Arc::new(record)));
                    changed.push(topic.clone());
                    Ok(topic)
                }
                // Nothing was asked for that a record would hold.
                (Ok(_), Some(topic), _, Err(_)) if first_use == FirstUse::Yes => {
                    let topic = self.with_record(topic, RecordState::Untracked);
                    changed.push(topic.clone());
                    Ok(topic)
                }
                (Ok(_), Some(_), _, Err(error)) => Err(CreateError::NotRecorded(error.clone())),
                // Deleted again by somebody else.
                (Ok(_), ..) => Err(CreateError::Queen(Error::unreadable(
                    "a created queue is not in the list",
                ))),
            });
        }
        let mut current = state.lock();
        let list = current.list.with(changed);
        current.change(list);
        outcomes
    }

    async fn configure_new(
        &self,
        credential: &Credential,
        new: &NewTopic,
        first_use: FirstUse,
    ) -> Result<TopicRecord, Error> {
        let mut record = TopicRecord {
            partitions: new.partitions,
            ..TopicRecord::default()
        };
        if first_use == FirstUse::No {
            record
                .set
                .insert(super::dedup::OPTION.into(), DEDUP_WINDOW_SECONDS.into());
        }
        let options = new.settings.apply(&mut record);
        let configured = self
            .client
            .configure(credential, &new.name, &options)
            .await?;
        // A queue made without options has Queen's defaults, which only Queen knows.
        if let Some(window) = configured.options.get(super::dedup::OPTION) {
            record
                .set
                .insert(super::dedup::OPTION.into(), window.clone());
        }
        Ok(record)
    }
}
