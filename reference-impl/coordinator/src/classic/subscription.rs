//! What consumers embed in the classic protocol: `ConsumerProtocolSubscription` in the metadata of
//! JoinGroup, `ConsumerProtocolAssignment` in SyncGroup. Reads borrowed slices and allocates for what
//! is really there.

use bytes::{BufMut, Bytes, BytesMut};

/// The newest version of both that has fields of its own; Kafka reads a newer one as this.
pub const NEWEST: i16 = 3;

/// The bytes are not a subscription, or not an assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubscriptionError {
    /// It ends inside a field.
    #[error("the subscription ends inside a field")]
    Truncated,
    /// A negative version, count or length.
    #[error("the subscription holds a negative length or version")]
    Negative,
    /// A topic name is not UTF-8.
    #[error("a topic name is not UTF-8")]
    NotUtf8,
}

/// A subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription<'a> {
    /// Its version, as the client wrote it.
    pub version: i16,
    /// The subscribed topics.
    pub topics: Vec<&'a str>,
    /// What the consumer owns (v1+), by topic.
    pub owned: Vec<(&'a str, Vec<i32>)>,
    /// Where the consumer runs (v3+).
    pub rack_id: Option<&'a str>,
}

/// The subscribed topics. Versions 0 to 3 begin alike, and Kafka reads a newer version as its
/// newest, so what follows the topics is not looked at.
pub fn topics(metadata: &[u8]) -> Result<Vec<&str>, SubscriptionError> {
    let mut rest = metadata;
    version(&mut rest)?;
    topic_names(&mut rest)
}

/// The whole subscription.
pub fn subscription(metadata: &[u8]) -> Result<Subscription<'_>, SubscriptionError> {
    let mut rest = metadata;
    let version = version(&mut rest)?;
    let topics = topic_names(&mut rest)?;
    nullable_bytes(&mut rest)?;
    let owned = match version {
        0 => Vec::new(),
        _ => topic_partitions(&mut rest)?,
    };
    if version >= 2 {
        let _generation_id = i32::from_be_bytes(take(&mut rest)?);
    }
    let rack_id = match version {
        0..=2 => None,
        _ => nullable_string(&mut rest)?,
    };
    Ok(Subscription {
        version,
        topics,
        owned,
        rack_id,
    })
}

/// The partitions of an assignment, by topic.
pub fn assignment(bytes: &[u8]) -> Result<Vec<(&str, Vec<i32>)>, SubscriptionError> {
    let mut rest = bytes;
    version(&mut rest)?;
    topic_partitions(&mut rest)
}

/// An assignment of `partitions`, in the words of `version`, without user data.
pub fn encode_assignment(version: i16, partitions: &[(&str, Vec<i32>)]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_i16(version.clamp(0, NEWEST));
    // Counts and names come from topics that Kafka's own limits bound far below these types.
    bytes.put_i32(partitions.len() as i32);
    for (topic, numbers) in partitions {
        bytes.put_i16(topic.len() as i16);
        bytes.put_slice(topic.as_bytes());
        bytes.put_i32(numbers.len() as i32);
        for number in numbers {
            bytes.put_i32(*number);
        }
    }
    bytes.put_i32(-1);
    bytes.freeze()
}

fn version(rest: &mut &[u8]) -> Result<i16, SubscriptionError> {
    let version = i16::from_be_bytes(take(rest)?);
    if version < 0 {
        return Err(SubscriptionError::Negative);
    }
    Ok(version)
}

fn count(rest: &mut &[u8]) -> Result<usize, SubscriptionError> {
    let count = i32::from_be_bytes(take(rest)?);
    usize::try_from(count).map_err(|_| SubscriptionError::Negative)
}

fn topic_names<'a>(rest: &mut &'a [u8]) -> Result<Vec<&'a str>, SubscriptionError> {
    let mut topics = Vec::new();
    for _ in 0..count(rest)? {
        topics.push(string(rest)?);
    }
    Ok(topics)
}

fn topic_partitions<'a>(
    rest: &mut &'a [u8],
) -> Result<Vec<(&'a str, Vec<i32>)>, SubscriptionError> {
    let mut topics = Vec::new();
    for _ in 0..count(rest)? {
        let topic = string(rest)?;
        let mut partitions = Vec::new();
        for _ in 0..count(rest)? {
            partitions.push(i32::from_be_bytes(take(rest)?));
        }
        topics.push((topic, partitions));
    }
    Ok(topics)
}

fn string<'a>(rest: &mut &'a [u8]) -> Result<&'a str, SubscriptionError> {
    nullable_string(rest)?.ok_or(SubscriptionError::Negative)
}

fn nullable_string<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a str>, SubscriptionError> {
    let len = i16::from_be_bytes(take(rest)?);
    if len == -1 {
        return Ok(None);
    }
    let len = usize::try_from(len).map_err(|_| SubscriptionError::Negative)?;
    let text = slice(rest, len)?;
    let text = std::str::from_utf8(text).map_err(|_| SubscriptionError::NotUtf8)?;
    Ok(Some(text))
}

fn nullable_bytes(rest: &mut &[u8]) -> Result<(), SubscriptionError> {
    let len = i32::from_be_bytes(take(rest)?);
    if len == -1 {
        return Ok(());
    }
    let len = usize::try_from(len).map_err(|_| SubscriptionError::Negative)?;
    slice(rest, len).map(|_| ())
}

fn slice<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], SubscriptionError> {
    let (head, after) = rest
        .split_at_checked(len)
        .ok_or(SubscriptionError::Truncated)?;
    *rest = after;
    Ok(head)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], SubscriptionError> {
    let (head, after) = rest
        .split_first_chunk()
        .ok_or(SubscriptionError::Truncated)?;
    *rest = after;
    Ok(*head)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::{
        Subscription, SubscriptionError, assignment, encode_assignment, subscription, topics,
    };

    /// `version`, topics, and null user data.
    fn encode(version: i16, topics: &[&str]) -> Vec<u8> {
        let mut bytes = version.to_be_bytes().to_vec();
        bytes.extend((topics.len() as i32).to_be_bytes());
        for topic in topics {
            bytes.extend((topic.len() as i16).to_be_bytes());
            bytes.extend(topic.as_bytes());
        }
        bytes.extend((-1_i32).to_be_bytes());
        bytes
    }

    #[rstest]
    #[case::v0(0)]
    #[case::v3(3)]
    #[case::newer_than_known(9)]
    fn topics_are_read_whatever_follows(#[case] version: i16) {
        assert_eq!(topics(&encode(version, &["a", "bé"])), Ok(vec!["a", "bé"]));
        assert_eq!(topics(&encode(version, &[])), Ok(vec![]));
    }

    #[rstest]
    #[case::empty(&[], SubscriptionError::Truncated)]
    #[case::negative_version(&[0xff, 0xff], SubscriptionError::Negative)]
    #[case::negative_count(&[0, 0, 0xff, 0xff, 0xff, 0xff], SubscriptionError::Negative)]
    #[case::huge_count(&[0, 0, 0x7f, 0xff, 0xff, 0xff], SubscriptionError::Truncated)]
    #[case::negative_name(&[0, 0, 0, 0, 0, 1, 0xff, 0xff], SubscriptionError::Negative)]
    #[case::short_name(&[0, 0, 0, 0, 0, 1, 0, 2, b'a'], SubscriptionError::Truncated)]
    #[case::not_utf8(&[0, 0, 0, 0, 0, 1, 0, 1, 0xff], SubscriptionError::NotUtf8)]
    fn other_bytes_are_refused(#[case] bytes: &[u8], #[case] expected: SubscriptionError) {
        assert_eq!(topics(bytes), Err(expected));
    }

    #[rstest]
    #[case::v0(0, &[], vec![], None)]
    #[case::v1(1, &[0, 0, 0, 1, 0, 1, b'a', 0, 0, 0, 1, 0, 0, 0, 7], vec![("a", vec![7])], None)]
    #[case::v3(3, &[0, 0, 0, 0, 0, 0, 0, 9, 0, 1, b'r'], vec![], Some("r"))]
    #[case::newer(9, &[0, 0, 0, 0, 0, 0, 0, 9, 0xff, 0xff, 1, 2], vec![], None)]
    fn a_subscription_is_read_as_its_version_says(
        #[case] version: i16,
        #[case] after_user_data: &[u8],
        #[case] owned: Vec<(&str, Vec<i32>)>,
        #[case] rack_id: Option<&str>,
    ) {
        let mut bytes = encode(version, &["a"]);
        bytes.extend(after_user_data);
        let topics = vec!["a"];
        let expected = Subscription {
            version,
            topics,
            owned,
            rack_id,
        };
        assert_eq!(subscription(&bytes), Ok(expected));
    }

    #[test]
    fn an_assignment_is_read_as_it_was_written() {
        let partitions = vec![("a", vec![0, 2]), ("bé", vec![])];
        let bytes = encode_assignment(9, &partitions);
        assert_eq!(bytes[..2], [0, 3]);
        assert_eq!(assignment(&bytes), Ok(partitions));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = topics(&bytes);
            let _ = subscription(&bytes);
            let _ = assignment(&bytes);
        }
    }
}
