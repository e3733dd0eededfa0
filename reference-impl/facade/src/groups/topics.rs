//! The topics of a tenant as consumer groups see them, made once for each reading of the list.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use coordinator::consumer::{Topic, Topics};

use crate::catalogue::{RecordState, TopicList, View};
use crate::queen::Scope;

/// Tenants whose topics are kept; past it all are made again.
const MAX_SCOPES: usize = 1024;

/// The last reading of each tenant.
#[derive(Debug, Default)]
pub(super) struct Readings {
    by_scope: Mutex<BTreeMap<Scope, Reading>>,
}

#[derive(Debug)]
struct Reading {
    /// What `topics` was made from. Not kept alive for it.
    list: Weak<TopicList>,
    topics: Arc<Topics>,
}

impl Readings {
    /// The topics of `view`; `None` when they can't be told now. Groups must not take a tenant whose
    /// topics can't be read for one that has none.
    pub(super) fn of(&self, scope: &Scope, view: &View) -> Option<Arc<Topics>> {
        if view.trouble.is_some() && view.topics.is_empty() {
            return None;
        }
        let mut by_scope = self.by_scope.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reading) = by_scope.get(scope)
            && let Some(list) = reading.list.upgrade()
            && Arc::ptr_eq(&list, &view.topics)
        {
            return Some(Arc::clone(&reading.topics));
        }
        if by_scope.len() >= MAX_SCOPES {
            by_scope.clear();
        }
        let topics = Arc::new(topics(&view.topics));
        let reading = Reading {
            list: Arc::downgrade(&view.topics),
            topics: Arc::clone(&topics),
        };
        by_scope.insert(scope.clone(), reading);
        Some(topics)
    }
}

/// Topics whose width is known.
fn topics(list: &TopicList) -> Topics {
    let known = list
        .iter()
        .filter(|topic| topic.record != RecordState::Unread);
    Topics::new(known.map(|topic| {
        let assignable = Topic {
            id: topic.id,
            partitions: topic.partitions,
        };
        (Arc::clone(&topic.name), assignable)
    }))
}
