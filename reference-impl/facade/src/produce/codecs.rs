//! Which codec each topic is produced with, so that what was sent compressed is fetched compressed.

use std::sync::{Mutex, PoisonError};

use indexmap::IndexMap;
use kafka_wire::records::Compression;
use uuid::Uuid;

/// Topics remembered; beyond it, one that was seen early goes.
const MAX_TOPICS: usize = 65_536;

/// The codec each topic was last produced with. In memory only: after a restart, uncompressed
/// until something is produced.
#[derive(Debug, Default)]
pub struct TopicCodecs(Mutex<IndexMap<Uuid, Compression>>);

impl TopicCodecs {
    /// Remembers the codec of a batch.
    pub fn seen(&self, topic_id: Uuid, codec: Compression) {
        // Without an id a topic can't be told from another one.
        if topic_id.is_nil() {
            return;
        }
        let mut codecs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if codec == Compression::None && !codecs.contains_key(&topic_id) {
            return;
        }
        if codecs.insert(topic_id, codec).is_none() && codecs.len() > MAX_TOPICS {
            codecs.swap_remove_index(0);
        }
    }

    /// The codec of a topic's newest batch; none when that isn't known.
    pub fn of(&self, topic_id: Uuid) -> Compression {
        let codecs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codecs.get(&topic_id).copied().unwrap_or_default()
    }
}
