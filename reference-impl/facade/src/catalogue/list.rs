//! One reading of a tenant's topics: what the queue list, the topic records and the lane names
//! come to.

use std::sync::Arc;

use host::Monotonic;
use indexmap::IndexMap;
use uuid::Uuid;

use crate::queen::Queue;
use crate::topics::{Compression, MAX_PARTITIONS, Settings, TopicRecord, check_name};

/// What is known of a topic's record.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordState {
    /// Read: there is one, and it tracks the live queue.
    Tracked(Arc<TopicRecord>),
    /// Read: there is none (a native queue, or a queue recreated since).
    Untracked,
    /// The credential may not read records, or Queen keeps none: the topic counts as untracked.
    Unreadable,
    /// Not read yet: the width is not known, so the topic can't be served.
    Unread,
}

/// What is known of the names of a topic's lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// How many lanes there were when their names were read.
    pub counted: u64,
    /// The highest lane whose name is a partition number; `None` when no name is one.
    pub highest: Option<i32>,
    /// When the names were read.
    pub read_at: Monotonic,
    /// Whether the names were all read; if not, the count stands for them.
    pub complete: bool,
}

/// A topic, as Kafka clients see it.
#[derive(Clone, Debug)]
pub struct Topic {
    /// Its name: the queue's.
    pub name: Arc<str>,
    /// Its topic id: the queue's, new after delete and recreate; nil when Queen names none.
    pub id: Uuid,
    /// The queue's id as the list spells it.
    pub queue_id: Option<String>,
    /// Its width: partitions `0..partitions` may be produced to and fetched.
    pub partitions: i32,
    /// Lanes that exist now.
    pub lanes: u64,
    /// Bytes of its segments.
    pub retained_bytes: u64,
    /// Its record.
    pub record: RecordState,
    /// Its configs.
    pub settings: Settings,
    /// The codec of batches served to consumers.
    pub compression: Compression,
    /// The largest batch it accepts, when it bounds it.
    pub max_message_bytes: Option<i32>,
    pub(super) lane_names: Option<Lanes>,
}

impl Topic {
    /// A topic read from the queue list.
    pub(super) fn new(
        queue: Queue,
        record: RecordState,
        lane_names: Option<Lanes>,
        default_partitions: i32,
    ) -> Self {
        let record = match record {
            RecordState::Tracked(record) if !record.tracks(queue.id.as_deref()) => {
                RecordState::Untracked
            }
            other => other,
        };
        let (settings, floor) = match &record {
            RecordState::Tracked(record) => (Settings::of(record), record.partitions),
            _ => (Settings::default(), None),
        };
        let id = queue.id.as_deref().and_then(|id| Uuid::parse_str(id).ok());
        Self {
            name: queue.name.as_str().into(),
            id: id.unwrap_or_default(),
            partitions: width(queue.lanes, lane_names, floor.unwrap_or(default_partitions)),
            queue_id: queue.id,
            lanes: queue.lanes,
            retained_bytes: queue.retained_bytes,
            compression: settings.compression(),
            max_message_bytes: settings.max_message_bytes(),
            record,
            settings,
            lane_names,
        }
    }

    /// The record, when there is one for this very queue.
    pub fn tracked(&self) -> Option<&TopicRecord> {
        match &self.record {
            RecordState::Tracked(record) => Some(record),
            _ => None,
        }
    }

    /// Whether partition `partition` may be addressed.
    pub fn has_partition(&self, partition: i32) -> bool {
        (0..self.partitions).contains(&partition)
    }
}

/// The width: the highest numeric lane + 1 or the floor, whichever is more. Where the names of
/// lanes can't be read, their count stands for the highest.
fn width(lanes: u64, names: Option<Lanes>, floor: i32) -> i32 {
    let by_lanes = match names {
        Some(Lanes {
            highest,
            complete: true,
            ..
        }) => highest.map_or(0, |highest| highest.saturating_add(1)),
        _ => i32::try_from(lanes).unwrap_or(MAX_PARTITIONS),
    };
    by_lanes.max(floor).clamp(1, MAX_PARTITIONS)
}

/// The partition that a lane name stands for: a decimal number without padding, in range.
pub(super) fn partition_of(lane: &str) -> Option<i32> {
    let canonical = lane == "0" || !lane.starts_with('0');
    if !canonical || !lane.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    lane.parse()
        .ok()
        .filter(|number| (0..MAX_PARTITIONS).contains(number))
}

/// Every topic of a tenant at one moment, in order of their names.
#[derive(Debug, Default)]
pub struct TopicList {
    topics: IndexMap<Arc<str>, Arc<Topic>>,
    by_id: IndexMap<Uuid, usize>,
}

impl TopicList {
    /// A list of these topics.
    pub(super) fn new(topics: impl IntoIterator<Item = Arc<Topic>>) -> Self {
        let mut topics: IndexMap<Arc<str>, Arc<Topic>> = topics
            .into_iter()
            .map(|topic| (topic.name.clone(), topic))
            .collect();
        topics.sort_unstable_keys();
        let by_id = topics
            .values()
            .enumerate()
            .filter(|(_, topic)| !topic.id.is_nil())
            .map(|(index, topic)| (topic.id, index))
            .collect();
        Self { topics, by_id }
    }

    /// The topic named `name`.
    pub fn get(&self, name: &str) -> Option<&Arc<Topic>> {
        self.topics.get(name)
    }

    /// The topic with this id.
    pub fn get_by_id(&self, id: Uuid) -> Option<&Arc<Topic>> {
        let index = *self.by_id.get(&id)?;
        self.topics.get_index(index).map(|(_, topic)| topic)
    }

    /// Every topic, in order of their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Topic>> {
        self.topics.values()
    }

    /// How many topics there are.
    pub fn len(&self) -> usize {
        self.topics.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// This list with `topic` put in or replaced.
    pub(super) fn with(&self, topics: impl IntoIterator<Item = Arc<Topic>>) -> Self {
        Self::new(self.topics.values().cloned().chain(topics))
    }
}

/// Whether Kafka clients may see a queue of this name.
pub(super) fn is_visible(queue: &Queue) -> bool {
    check_name(&queue.name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn names(counted: u64, highest: Option<i32>, complete: bool) -> Option<Lanes> {
        Some(Lanes {
            counted,
            highest,
            read_at: Monotonic::default(),
            complete,
        })
    }

    #[rstest]
    #[case::fresh(0, None, 1024, 1024)]
    #[case::floor(3, None, 12, 12)]
    #[case::count(2000, None, 1024, 2000)]
    #[case::lone_high_lane(2, names(2, Some(5000), true), 12, 5001)]
    #[case::names_that_are_no_numbers(40, names(40, None, true), 12, 12)]
    #[case::too_many_names(40_000, names(40_000, Some(7), false), 12, 40_000)]
    #[case::clamped(u64::MAX, None, 12, 100_000)]
    #[case::never_empty(0, names(0, None, true), 0, 1)]
    fn the_width_is_the_highest_lane_or_the_floor(
        #[case] lanes: u64,
        #[case] names: Option<Lanes>,
        #[case] floor: i32,
        #[case] expected: i32,
    ) {
        assert_eq!(width(lanes, names, floor), expected);
    }

    #[rstest]
    #[case("0", Some(0))]
    #[case("7", Some(7))]
    #[case("99999", Some(99_999))]
    #[case("100000", None)]
    #[case("07", None)]
    #[case("00", None)]
    #[case("+7", None)]
    #[case("-1", None)]
    #[case("Default", None)]
    #[case("", None)]
    #[case("7 ", None)]
    #[case("99999999999999999999", None)]
    fn a_lane_name_is_a_partition_or_not(#[case] lane: &str, #[case] partition: Option<i32>) {
        assert_eq!(partition_of(lane), partition);
    }

    fn queue(name: &str, id: Option<&str>) -> Queue {
        Queue {
            name: name.into(),
            id: id.map(str::to_owned),
            lanes: 0,
            retained_bytes: 0,
        }
    }

    #[test]
    fn a_record_of_a_deleted_queue_does_not_count() {
        let record =
            TopicRecord::parse(r#"{"qid":"old","set":{},"partitions":3}"#).expect("a record");
        let state = RecordState::Tracked(Arc::new(record));
        let topic = Topic::new(queue("t", Some("new")), state.clone(), None, 1024);
        assert_eq!(
            (&topic.record, topic.partitions),
            (&RecordState::Untracked, 1024)
        );
        let topic = Topic::new(queue("t", Some("old")), state, None, 1024);
        assert_eq!((topic.tracked().is_some(), topic.partitions), (true, 3));
    }

    #[test]
    fn topics_are_found_by_name_and_by_id() {
        let id = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
        let topics = [
            queue("b", Some(id)),
            queue("a", None),
            queue("c", Some("no-uuid")),
        ];
        let list = TopicList::new(
            topics
                .into_iter()
                .map(|queue| Arc::new(Topic::new(queue, RecordState::Untracked, None, 1))),
        );
        let order: Vec<&str> = list.iter().map(|topic| topic.name.as_ref()).collect();
        assert_eq!(order, ["a", "b", "c"]);
        let found = list.get_by_id(Uuid::parse_str(id).expect("a UUID"));
        assert_eq!(found.map(|topic| topic.name.as_ref()), Some("b"));
        assert!(list.get_by_id(Uuid::nil()).is_none());
        assert!(list.get("d").is_none());
    }
}
