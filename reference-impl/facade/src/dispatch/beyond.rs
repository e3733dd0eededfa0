//! Versions that the typed codec does not know yet, said in words that it knows. One table; every row
//! goes when the codec has caught up.

use std::convert::Infallible;
use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_wire::ApiKey;
use kafka_wire::schema::{self, Role, RoleSet};
use kafka_wire::walk::{self, Limits, Place, Value, Visitor};

/// A version that is served beyond the typed codec.
struct Beyond {
    key: ApiKey,
    version: i16,
    /// The version the codec reads the request as.
    request: i16,
    /// Topics are ids where that version has names.
    ids_for_names: bool,
    /// The version the codec writes the response as.
    response: i16,
    /// Each element of the response's first array ends with another false.
    ends_with_false: bool,
}

const BEYOND: &[Beyond] = &[
    // A timestamp with a new meaning, and no new field.
    Beyond {
        key: ApiKey::LIST_OFFSETS,
        version: 11,
        request: 10,
        ids_for_names: false,
        response: 10,
        ends_with_false: false,
    },
    Beyond {
        key: ApiKey::OFFSET_COMMIT,
        version: 10,
        request: 9,
        ids_for_names: true,
        response: 10,
        ends_with_false: false,
    },
    Beyond {
        key: ApiKey::OFFSET_FETCH,
        version: 10,
        request: 9,
        ids_for_names: true,
        response: 10,
        ends_with_false: false,
    },
    // `is_cordoned` of each directory.
    Beyond {
        key: ApiKey::DESCRIBE_LOG_DIRS,
        version: 5,
        request: 4,
        ids_for_names: false,
        response: 4,
        ends_with_false: true,
    },
];

fn row(key: ApiKey, version: i16) -> Option<&'static Beyond> {
    let here = |row: &&Beyond| row.key == key && row.version == version;
    BEYOND.iter().find(here)
}

/// A request that the walk has passed, as the codec reads it: its version and body.
pub(super) fn request(key: ApiKey, version: i16, body: &Bytes) -> (i16, Bytes) {
    match row(key, version) {
        None => (version, body.clone()),
        Some(row) if row.ids_for_names => (row.request, names_for_ids(key, version, body)),
        Some(row) => (row.request, body.clone()),
    }
}

/// The version the codec writes a response of `version` as; [`finish`] it then.
pub(super) fn response_version(key: ApiKey, version: i16) -> i16 {
    row(key, version).map_or(version, |row| row.response)
}

/// What `body`, written in [`response_version`], is in `version`.
pub(super) fn finish(key: ApiKey, version: i16, body: Bytes) -> Bytes {
    match row(key, version) {
        Some(row) if row.ends_with_false => with_false_at_ends(key, row.response, body),
        _ => body,
    }
}

/// Whether the codec serves `version` by way of the table.
#[cfg(test)]
pub(crate) fn reaches(key: ApiKey, version: i16) -> bool {
    row(key, version).is_some()
}

/// Spells each topic id as text: 32 hexadecimal digits, where a compact string stood.
fn names_for_ids(key: ApiKey, version: i16, body: &Bytes) -> Bytes {
    /// The length of a compact string of 32 bytes.
    const LENGTH: u8 = 33;

    struct Ids(Vec<(Range<usize>, [u8; 16])>);
    impl Visitor for Ids {
        type Stop = Infallible;

        fn roles(&self) -> RoleSet {
            RoleSet::of(&[Role::TopicId])
        }

        fn value(&mut self, _: &Place<'_>, value: &Value<'_>) -> Result<(), Infallible> {
            if let walk::Datum::Uuid(id) = value.datum {
                self.0.push((value.span.clone(), id));
            }
            Ok(())
        }
    }

    let mut ids = Ids(Vec::new());
    if let Some(message) = schema::request(key) {
        // It passed before: what is found is all there is.
        let _ = walk::visit(message, version, body, &Limits::CLIENT, &mut ids);
    }
    let mut named = BytesMut::with_capacity(body.len() + 17 * ids.0.len());
    let mut copied = 0;
    for (span, id) in ids.0 {
        named.put_slice(&body[copied..span.start]);
        named.put_u8(LENGTH);
        let mut text = uuid::Uuid::encode_buffer();
        let text = uuid::Uuid::from_bytes(id).simple().encode_lower(&mut text);
        named.put_slice(text.as_bytes());
        copied = span.end;
    }
    named.put_slice(&body[copied..]);
    named.freeze()
}

/// Puts a false in front of the (empty) tagged fields of each element of the outermost array.
fn with_false_at_ends(key: ApiKey, version: i16, body: Bytes) -> Bytes {
    #[derive(Default)]
    struct Ends {
        depth: usize,
        at: Vec<usize>,
    }
    impl Visitor for Ends {
        type Stop = Infallible;

        fn roles(&self) -> RoleSet {
            RoleSet::of(&[])
        }

        fn value(&mut self, _: &Place<'_>, _: &Value<'_>) -> Result<(), Infallible> {
            Ok(())
        }

        fn array_start(&mut self, _: Range<usize>, _: u32) {
            self.depth += 1;
        }

        fn array_end(&mut self) {
            self.depth -= 1;
        }

        fn element_end(&mut self, at: usize) {
            if self.depth == 1 {
                self.at.push(at);
            }
        }
    }

    let mut ends = Ends::default();
    if let Some(message) = schema::response(key) {
        // Our own codec wrote it.
        let _ = walk::visit(message, version, &body, &Limits::DEFAULT, &mut ends);
    }
    let mut longer = BytesMut::with_capacity(body.len() + ends.at.len());
    let mut copied = 0;
    for end in ends.at {
        // One byte: no tagged field is ever written.
        let before_tags = end.saturating_sub(1);
        longer.put_slice(&body[copied..before_tags]);
        longer.put_u8(0);
        copied = before_tags;
    }
    longer.put_slice(&body[copied..]);
    longer.freeze()
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::describe_log_dirs_response::{
        DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
    };
    use kafka_protocol::messages::offset_commit_request::{
        OffsetCommitRequestPartition, OffsetCommitRequestTopic,
    };
    use kafka_protocol::messages::{
        DescribeLogDirsResponse, GroupId, OffsetCommitRequest, TopicName,
    };
    use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
    use uuid::Uuid;

    use super::*;

    /// A request of version 9 whose topic `name` becomes `id` in version 10.
    fn commit_by_id(name: &'static str, id: Uuid) -> Bytes {
        let partition = OffsetCommitRequestPartition::default()
            .with_partition_index(3)
            .with_committed_offset(7);
        let topic = OffsetCommitRequestTopic::default()
            .with_name(TopicName(StrBytes::from_static_str(name)))
            .with_partitions(vec![partition]);
        let request = OffsetCommitRequest::default()
            .with_group_id(GroupId(StrBytes::from_static_str("g")))
            .with_topics(vec![topic.clone(), topic]);
        let mut body = BytesMut::new();
        request.encode(&mut body, 9).unwrap();
        let mut text = vec![name.len() as u8 + 1];
        text.extend(name.as_bytes());
        let (mut by_id, mut rest) = (Vec::new(), &body[..]);
        while let Some(at) = rest.windows(text.len()).position(|w| w == text) {
            by_id.extend(&rest[..at]);
            by_id.extend(id.as_bytes());
            rest = &rest[at + text.len()..];
        }
        by_id.extend(rest);
        by_id.into()
    }

    #[test]
    fn topic_ids_arrive_as_names() {
        let id = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        let body = commit_by_id("some-topic", id);
        walk::request(ApiKey::OFFSET_COMMIT, 10, &body, &Limits::CLIENT).unwrap();
        let (version, mut named) = request(ApiKey::OFFSET_COMMIT, 10, &body);
        let decoded = OffsetCommitRequest::decode(&mut named, version).unwrap();
        assert!(named.is_empty());
        assert_eq!(decoded.topics.len(), 2);
        for topic in decoded.topics {
            assert_eq!(Uuid::parse_str(&topic.name), Ok(id));
            assert_eq!(topic.partitions[0].committed_offset, 7);
        }
    }

    #[test]
    fn other_versions_are_left_as_they_are() {
        let body = Bytes::from_static(b"anything");
        let (version, same) = request(ApiKey::OFFSET_COMMIT, 9, &body);
        assert_eq!((version, &same), (9, &body));
        assert_eq!(response_version(ApiKey::OFFSET_COMMIT, 10), 10);
        assert_eq!(finish(ApiKey::FETCH, 13, same), body);
    }

    #[test]
    fn each_directory_is_said_not_to_be_cordoned() {
        let partition = DescribeLogDirsPartition::default().with_partition_size(9);
        let topic = DescribeLogDirsTopic::default().with_partitions(vec![partition; 3]);
        let directory = DescribeLogDirsResult::default().with_topics(vec![topic; 2]);
        let response = DescribeLogDirsResponse::default().with_results(vec![directory; 2]);
        let mut body = BytesMut::new();
        response.encode(&mut body, 4).unwrap();
        let body = body.freeze();
        let longer = finish(ApiKey::DESCRIBE_LOG_DIRS, 5, body.clone());
        assert_eq!(longer.len(), body.len() + 2);
        let walked = walk::response(ApiKey::DESCRIBE_LOG_DIRS, 5, &longer, &Limits::DEFAULT);
        assert!(walked.is_ok(), "{walked:?}");
    }
}
