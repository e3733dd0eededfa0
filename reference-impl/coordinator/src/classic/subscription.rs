//! The topics of a consumer's subscription (`ConsumerProtocolSubscription`, embedded in the metadata
//! of JoinGroup). Reads borrowed slices and allocates for what is really there.

/// The metadata is not a subscription.
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

/// The subscribed topics. Versions 0 to 3 begin alike, and Kafka reads a newer version as its
/// newest, so what follows the topics is not looked at.
pub fn topics(metadata: &[u8]) -> Result<Vec<&str>, SubscriptionError> {
    let mut rest = metadata;
    if i16::from_be_bytes(take(&mut rest)?) < 0 {
        return Err(SubscriptionError::Negative);
    }
    let count = i32::from_be_bytes(take(&mut rest)?);
    let count = usize::try_from(count).map_err(|_| SubscriptionError::Negative)?;
    let mut topics = Vec::new();
    for _ in 0..count {
        let len = i16::from_be_bytes(take(&mut rest)?);
        let len = usize::try_from(len).map_err(|_| SubscriptionError::Negative)?;
        let (name, after) = rest
            .split_at_checked(len)
            .ok_or(SubscriptionError::Truncated)?;
        rest = after;
        topics.push(std::str::from_utf8(name).map_err(|_| SubscriptionError::NotUtf8)?);
    }
    Ok(topics)
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

    use super::{SubscriptionError, topics};

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

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = topics(&bytes);
        }
    }
}
