//! The keys of offset rows and of the group index.

use crate::queen::kv::{MAX_KEY_BYTES, escape, unescape};

/// `offset.metadata.max.bytes`: the longest metadata of a committed offset.
pub const MAX_METADATA_BYTES: usize = 4096;

/// What the index keys of all groups begin with.
pub const INDEX_PREFIX: &str = "qk:groups:";

const OFFSET_PREFIX: &str = "qk:group:";

/// The key of one committed offset, known to fit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OffsetKey(String);

impl OffsetKey {
    /// The key of a partition's offset; `None` when it is longer than Queen keeps.
    pub fn new(group: &str, topic: &str, partition: i32) -> Option<Self> {
        let key = format!("{}{}:{partition}", group_prefix(group), escape(topic));
        (key.len() <= MAX_KEY_BYTES).then_some(Self(key))
    }

    /// The key as Queen knows it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

/// What the keys of a group's offsets begin with.
pub fn group_prefix(group: &str) -> String {
    format!("{OFFSET_PREFIX}{}:", escape(group))
}

/// The key of a group's index row. Shorter than the key of any offset of the group.
pub fn index_key(group: &str) -> String {
    format!("{INDEX_PREFIX}{}", escape(group))
}

/// The group that an index key names.
pub(super) fn indexed_group(key: &str) -> Option<String> {
    key.strip_prefix(INDEX_PREFIX).map(unescape)
}

/// Topic and partition of an offset key under `prefix`. Escaping leaves no colon in a topic, so the
/// last one is the partition's.
pub(super) fn parse(prefix: &str, key: &str) -> Option<(String, i32)> {
    let (topic, partition) = key.strip_prefix(prefix)?.rsplit_once(':')?;
    let partition = partition.parse().ok().filter(|&number: &i32| number >= 0)?;
    Some((unescape(topic), partition))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_is_escaped_as_the_contract_says() {
        let key = OffsetKey::new("my group/ü", "orders.v1", 12).unwrap();
        assert_eq!(key.as_str(), "qk:group:my%20group%2F%C3%BC:orders.v1:12");
        assert_eq!(index_key("a:b"), "qk:groups:a%3Ab");
    }

    #[test]
    fn a_key_beyond_queens_bound_is_none() {
        let fits = "g".repeat(MAX_KEY_BYTES - "qk:group::t:0".len());
        assert_eq!(
            OffsetKey::new(&fits, "t", 0).unwrap().as_str().len(),
            MAX_KEY_BYTES
        );
        assert_eq!(OffsetKey::new(&fits, "t", 10), None);
    }

    #[test]
    fn a_key_of_another_shape_is_none() {
        for key in [
            "qk:group:g:t",
            "qk:group:g:t:",
            "qk:group:g:t:-1",
            "qk:group:g:t:x",
        ] {
            assert_eq!(parse("qk:group:g:", key), None, "{key}");
        }
    }

    proptest! {
        #[test]
        fn a_key_is_read_back(group in ".{1,20}", topic in ".{1,20}", partition in 0..i32::MAX) {
            if let Some(key) = OffsetKey::new(&group, &topic, partition) {
                let read = parse(&group_prefix(&group), key.as_str());
                prop_assert_eq!(read, Some((topic, partition)));
                let index = index_key(&group);
                prop_assert!(index.len() < key.as_str().len());
                prop_assert_eq!(indexed_group(&index), Some(group));
            }
        }
    }
}
