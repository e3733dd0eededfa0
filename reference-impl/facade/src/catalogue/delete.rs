//! Deleting topics. The names are claimed first, so that nothing of the same name is made or altered
//! here meanwhile; then other changes of the tenant go on, however long Queen takes.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{FutureExt, StreamExt};
use uuid::Uuid;

use super::change::{CALLS_AT_ONCE, to_the_end};
use super::list::{Topic, TopicList};
use super::{Catalogue, Inner, State};
use crate::queen::{Credential, Error, Scope};
use crate::topics::store;

/// A topic to delete, as it was when the client named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doomed {
    /// Its name.
    pub name: String,
    /// Its id; nil where Queen names none.
    pub id: Uuid,
}

/// Why a topic was not deleted.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DeleteError {
    /// There is none, or by now another of the same name.
    #[error("This server does not host this topic-partition.")]
    Absent,
    /// Another request deletes it at this moment.
    #[error("The topic is being deleted by another request.")]
    Underway,
    /// A call to Queen failed; the topic may be gone, and the next request will tell.
    #[error(transparent)]
    Queen(#[from] Error),
}

/// Names that this request deletes, until it is dropped.
struct Claim {
    state: Arc<State>,
    names: Vec<String>,
}

impl Claim {
    /// Claims those of `topics` that nobody else has; the caller holds `changes`, so that nothing is
    /// being made of them.
    fn of(state: &Arc<State>, topics: &[Doomed]) -> Self {
        let mut deleting = state.deleting();
        let names = topics.iter().map(|topic| topic.name.clone());
        let names = names.filter(|name| deleting.insert(name.clone()));
        Self {
            names: names.collect(),
            state: Arc::clone(state),
        }
    }

    fn holds(&self, name: &str) -> bool {
        self.names.iter().any(|held| held == name)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut deleting = self.state.deleting();
        for name in &self.names {
            deleting.remove(name);
        }
    }
}

impl Catalogue {
    /// Deletes topics (names distinct) that still are what they were, and what they leave in the
    /// key/value store: their records, the offsets committed on them, their deletion floors. Answers
    /// come in the same order.
    ///
    /// # Errors
    ///
    /// Each topic's own. A failed clean-up is logged: the topics are gone.
    pub async fn delete(
        &self,
        scope: &Scope,
        credential: &Credential,
        topics: Vec<Doomed>,
    ) -> Vec<Result<(), DeleteError>> {
        if topics.is_empty() {
            return Vec::new();
        }
        let (inner, state) = (self.inner.clone(), self.inner.state(scope));
        let (credential, count) = (credential.clone(), topics.len());
        let deleted =
            to_the_end(async move { inner.delete(&state, &credential, &topics).await }).await;
        deleted.unwrap_or_else(|error| vec![Err(error.into()); count])
    }
}

impl Inner {
    async fn delete(
        self: &Arc<Self>,
        state: &Arc<State>,
        credential: &Credential,
        topics: &[Doomed],
    ) -> Vec<Result<(), DeleteError>> {
        let claim = {
            let _changes = state.changes.lock().await;
            Claim::of(state, topics)
        };
        // Queen deletes by name: what has the name now must be what the client meant.
        let list = match self.fresh_list(state, credential).await {
            Ok(list) => list,
            Err(error) => return vec![Err(error.into()); topics.len()],
        };
        let calls = topics.iter().map(|topic| {
            let judged = match list.get(&topic.name) {
                _ if !claim.holds(&topic.name) => Err(DeleteError::Underway),
                Some(now) if now.id == topic.id => Ok(()),
                _ => Err(DeleteError::Absent),
            };
            async move {
                judged?;
                match self.client.delete_queue(credential, &topic.name).await {
                    Ok(true) => Ok(()),
                    // Somebody else was faster.
                    Ok(false) => Err(DeleteError::Absent),
                    Err(error) => Err(DeleteError::Queen(error)),
                }
            }
            .boxed()
        });
        let calls: Vec<_> = calls.collect();
        let outcomes: Vec<Result<(), DeleteError>> = futures::stream::iter(calls)
            .buffered(CALLS_AT_ONCE)
            .collect()
            .await;
        let gone: Vec<&str> = topics
            .iter()
            .zip(&outcomes)
            .filter(|(_, outcome)| outcome.is_ok())
            .map(|(topic, _)| topic.name.as_str())
            .collect();
        state.without(&gone);
        if !gone.is_empty() {
            self.sweep(state, credential, &gone).await;
        }
        outcomes
    }

    /// Clears what deleted topics left in the key/value store.
    async fn sweep(self: &Arc<Self>, state: &Arc<State>, credential: &Credential, gone: &[&str]) {
        let swept = async {
            let left = store::leftovers(&self.client, credential, gone).await?;
            // Another node may have made a topic of the same name meanwhile, and what was found may be
            // that one's. What was found before a list without the name is the old one's; and each row
            // is deleted as it was found, so nothing that is written from now on is.
            let list = self.fresh_list(state, credential).await?;
            let anew: BTreeSet<&str> = gone
                .iter()
                .copied()
                .filter(|name| list.get(name).is_some())
                .collect();
            let swept = left.delete(&self.client, credential, |topic| !anew.contains(topic));
            Ok::<_, Error>((swept.await?, anew.len()))
        };
        match swept.await {
            Ok((swept, anew)) if swept.cut || anew > 0 => tracing::warn!(
                topics = gone.len(),
                anew,
                rows = swept.rows,
                "rows that name deleted topics may be left"
            ),
            Ok(_) => {}
            Err(error) => tracing::warn!(
                topics = gone.len(),
                %error,
                "the offsets committed on deleted topics were not all cleared"
            ),
        }
    }
}

impl State {
    /// The list without topics that are gone.
    fn without(&self, gone: &[&str]) {
        let mut current = self.lock();
        // Whatever came of it, the list may be wrong now.
        current.read_at = None;
        let kept = current.list.iter();
        let kept: Vec<Arc<Topic>> = kept
            .filter(|topic| !gone.contains(&topic.name.as_ref()))
            .cloned()
            .collect();
        current.change(TopicList::new(kept));
    }
}
