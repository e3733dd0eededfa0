//! Creating and altering topics, one change at a time per tenant, each run to its end.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::list::{RecordState, Topic, TopicList};
use super::{Catalogue, Inner, Lookup, MAX_AUTO_CREATES, State, View};
use crate::queen::{Credential, Error, Queue, Scope};
use crate::topics::{Settings, TopicRecord, check_name, store};

/// Topics created or deleted at the same time.
pub(super) const CALLS_AT_ONCE: usize = 8;
/// How often writing records is tried again, so that a created topic is not left without its own.
const RECORD_RETRIES: u32 = 3;
/// The pause before the first of these; it doubles.
const RECORD_RETRY_PAUSE: Duration = Duration::from_millis(100);

/// A topic to create.
#[derive(Clone, Debug)]
pub struct NewTopic {
    /// Its name, legal.
    pub name: String,
    /// Its declared width; `None` declares none.
    pub partitions: Option<i32>,
    /// Its configs.
    pub settings: Settings,
}

/// Why a topic was not created.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CreateError {
    /// There is one of this name.
    #[error("Topic already exists.")]
    Exists,
    /// One of this name is being deleted at this moment.
    #[error("Topic is marked for deletion.")]
    Deleting,
    /// A call to Queen failed; the topic may exist now, and the next request will tell.
    #[error(transparent)]
    Queen(#[from] Error),
    /// The queue exists now, its record does not: the width and the configs asked for are lost.
    #[error("the topic was created, but its settings could not be recorded: {0}")]
    NotRecorded(Error),
}

impl Catalogue {
    /// Looks up `names`, and creates the absent ones when `create` says so: at most
    /// [`MAX_AUTO_CREATES`], after a fresh reading of the list. Answers come in the order asked,
    /// beside the view they came from.
    pub async fn resolve(
        &self,
        scope: &Scope,
        credential: &Credential,
        names: &[&str],
        create: bool,
    ) -> (View, Vec<Lookup>) {
        let lacks = |view: &View| view.lacks(names.iter().copied());
        let view = self.view_for(scope, credential, lacks).await;
        let mut lookups: Vec<Lookup> = names.iter().map(|name| view.lookup(name)).collect();
        if !create {
            return (view, lookups);
        }
        let absent = |(lookup, name): (&Lookup, &&str)| {
            matches!(lookup, Lookup::Absent) && check_name(name).is_ok()
        };
        let mut wanted: Vec<&str> = Vec::new();
        for (lookup, name) in lookups.iter().zip(names) {
            if absent((lookup, name)) && !wanted.contains(name) {
                wanted.push(name);
                // One more than may be created tells those that have to wait.
                if wanted.len() > MAX_AUTO_CREATES {
                    break;
                }
            }
        }
        if wanted.is_empty() {
            return (view, lookups);
        }
        wanted.truncate(MAX_AUTO_CREATES);
        let created = self.create_on_first_use(scope, credential, &wanted).await;
        let view = match created {
            Ok(topics) => View {
                topics,
                trouble: view.trouble,
            },
            Err(error) => View {
                topics: view.topics,
                trouble: Some(error),
            },
        };
        for (lookup, name) in lookups.iter_mut().zip(names) {
            if absent((lookup, name)) {
                *lookup = match view.lookup(name) {
                    // Not among the first, or its creation failed: the client asks again.
                    Lookup::Absent => Lookup::Later,
                    other => other,
                };
            }
        }
        (view, lookups)
    }

    async fn create_on_first_use(
        &self,
        scope: &Scope,
        credential: &Credential,
        names: &[&str],
    ) -> Result<Arc<TopicList>, Error> {
        let (inner, state) = (self.inner.clone(), self.inner.state(scope));
        let (credential, names) = (credential.clone(), owned(names));
        to_the_end(async move { inner.create_on_first_use(&state, &credential, &names).await })
            .await?
    }

    /// Creates `topics` (names distinct) with their records. Answers come in the same order.
    ///
    /// # Errors
    ///
    /// The queue list's, before anything was created; each topic's own otherwise.
    pub async fn create(
        &self,
        scope: &Scope,
        credential: &Credential,
        topics: Vec<NewTopic>,
    ) -> Result<Vec<Result<Arc<Topic>, CreateError>>, Error> {
        let (inner, state) = (self.inner.clone(), self.inner.state(scope));
        let credential = credential.clone();
        to_the_end(async move { inner.create_asked(&state, &credential, &topics).await }).await?
    }

    /// Runs `edit` on the record of `topic` as it is now, configures the queue with what `edit`
    /// returns (nothing is posted when that is empty), and writes the record.
    ///
    /// # Errors
    ///
    /// Whatever `edit` refuses, as `Ok(Err(_))`; a failed call as `Err(_)`.
    pub async fn alter<E: Send + 'static>(
        &self,
        scope: &Scope,
        credential: &Credential,
        topic: &Arc<Topic>,
        edit: impl FnOnce(&mut TopicRecord) -> Result<Map<String, Value>, E> + Send + 'static,
    ) -> Result<Result<(), E>, AlterError> {
        let (inner, state) = (self.inner.clone(), self.inner.state(scope));
        let (credential, topic) = (credential.clone(), topic.clone());
        to_the_end(async move { inner.alter(&state, &credential, &topic, edit).await }).await?
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// Runs a change that must not stop half way when its client goes.
pub(super) async fn to_the_end<T: Send + 'static>(
    change: impl Future<Output = T> + Send + 'static,
) -> Result<T, Error> {
    tokio::spawn(change)
        .await
        .map_err(|_| Error::unreadable("the change was cut short"))
}

/// Why a topic could not be altered.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AlterError {
    /// It is being deleted.
    #[error("The topic is being deleted.")]
    Deleting,
    /// It has no record of this facade's that tracks the live queue.
    #[error(
        "The topic was not created through Kafka, so its configuration belongs to Queen's own clients."
    )]
    Untracked,
    /// A call to Queen failed.
    #[error(transparent)]
    Queen(#[from] Error),
}

impl Inner {
    async fn alter<E>(
        &self,
        state: &State,
        credential: &Credential,
        topic: &Topic,
        edit: impl FnOnce(&mut TopicRecord) -> Result<Map<String, Value>, E>,
    ) -> Result<Result<(), E>, AlterError> {
        let _changes = state.changes.lock().await;
        if state.deleting().contains(topic.name.as_ref()) {
            return Err(AlterError::Deleting);
        }
        // Another facade may have altered it since the list was read.
        let mut records = store::read(&self.client, credential, &[&topic.name]).await?;
        if !records.unread.is_empty() {
            return Err(Error::unreadable("the topic's record was left unread").into());
        }
        let mut record = records
            .found
            .remove(topic.name.as_ref())
            .filter(|record| record.tracks(topic.queue_id.as_deref()))
            .ok_or(AlterError::Untracked)?;
        let options = match edit(&mut record) {
            Ok(options) => options,
            Err(refused) => return Ok(Err(refused)),
        };
        if !options.is_empty() {
            self.client
                .configure(credential, &topic.name, &options)
                .await?;
        }
        record.at = self.clock.wall().epoch_ms();
        self.write_records(credential, &[(topic.name.as_ref(), &record)])
            .await?;
        let topic = self.with_record(topic, RecordState::Tracked(Arc::new(record)));
        let mut current = state.lock();
        let list = current.list.with([topic]);
        current.change(list);
        Ok(Ok(()))
    }

    pub(super) async fn write_records(
        &self,
        credential: &Credential,
        records: &[(&str, &TopicRecord)],
    ) -> Result<(), Error> {
        let mut pause = RECORD_RETRY_PAUSE;
        let mut left = RECORD_RETRIES;
        loop {
            match store::write(&self.client, credential, records).await {
                Err(error) if error.is_transient() && left > 0 => {
                    left -= 1;
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                outcome => return outcome,
            }
        }
    }

    /// `topic` with another record.
    pub(super) fn with_record(&self, topic: &Topic, record: RecordState) -> Arc<Topic> {
        let queue = Queue {
            name: topic.name.to_string(),
            id: topic.queue_id.clone(),
            lanes: topic.lanes,
            retained_bytes: topic.retained_bytes,
        };
        Arc::new(Topic::new(
            queue,
            record,
            topic.lane_names,
            self.default_partitions,
        ))
    }
}
