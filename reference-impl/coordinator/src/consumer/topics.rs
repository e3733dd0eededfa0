//! What a group knows of topics: names, ids, widths.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

/// A topic that can be assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its id; never nil.
    pub id: Uuid,
    /// How many partitions it has.
    pub partitions: i32,
}

/// Every topic a tenant has, at one moment. Groups hold it by `Arc` and look again only when they
/// are given another.
#[derive(Debug, Default)]
pub struct Topics {
    by_name: BTreeMap<Arc<str>, Topic>,
    names: BTreeMap<Uuid, Arc<str>>,
}

impl Topics {
    /// These topics. One without an id can't be assigned and is left out.
    pub fn new(topics: impl IntoIterator<Item = (Arc<str>, Topic)>) -> Self {
        let by_name: BTreeMap<Arc<str>, Topic> = topics
            .into_iter()
            .filter(|(_, topic)| !topic.id.is_nil())
            .collect();
        let names = by_name
            .iter()
            .map(|(name, topic)| (topic.id, Arc::clone(name)))
            .collect();
        Self { by_name, names }
    }

    /// The topic named `name`.
    pub fn get(&self, name: &str) -> Option<Topic> {
        self.by_name.get(name).copied()
    }

    /// The name of the topic with this id.
    pub fn name(&self, id: Uuid) -> Option<&Arc<str>> {
        self.names.get(&id)
    }

    /// Every topic, in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, Topic)> {
        self.by_name.iter().map(|(name, topic)| (name, *topic))
    }
}
