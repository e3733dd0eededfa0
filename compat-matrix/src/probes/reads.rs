//! Which requests leave a server as it was: the only ones that a run sends with `--read-only`.

use kafka_wire::ApiKey;
use serde_json::Value as Json;

/// APIs that read. FindCoordinator is none of them: Kafka makes its internal topics for it.
const READING: &[ApiKey] = &[
    ApiKey::API_VERSIONS,
    ApiKey::CONSUMER_GROUP_DESCRIBE,
    ApiKey::DESCRIBE_ACLS,
    ApiKey::DESCRIBE_CLUSTER,
    ApiKey::DESCRIBE_CONFIGS,
    ApiKey::DESCRIBE_GROUPS,
    ApiKey::DESCRIBE_LOG_DIRS,
    ApiKey::DESCRIBE_PRODUCERS,
    ApiKey::DESCRIBE_TOPIC_PARTITIONS,
    ApiKey::DESCRIBE_TRANSACTIONS,
    ApiKey::FETCH,
    ApiKey::LIST_GROUPS,
    ApiKey::LIST_OFFSETS,
    ApiKey::LIST_TRANSACTIONS,
    ApiKey::METADATA,
    ApiKey::OFFSET_FETCH,
    ApiKey::OFFSET_FOR_LEADER_EPOCH,
    ApiKey::SASL_AUTHENTICATE,
    ApiKey::SASL_HANDSHAKE,
];
/// The first version of Metadata that can ask for a topic without making it.
const METADATA_WITHOUT_CREATION: i16 = 4;

/// Whether an API has requests that only read.
pub fn reads(key: ApiKey) -> bool {
    READING.contains(&key)
}

/// Whether this request only reads.
pub(super) fn is_harmless(key: ApiKey, version: i16, request: &Json) -> bool {
    if key == ApiKey::METADATA {
        let names = request["Topics"]
            .as_array()
            .is_some_and(|list| !list.is_empty());
        let may_create = request["AllowAutoTopicCreation"] != Json::Bool(false);
        return !names || (version >= METADATA_WITHOUT_CREATION && !may_create);
    }
    reads(key)
}

#[cfg(test)]
mod tests {
    use kafka_wire::ApiKey;
    use rstest::rstest;
    use serde_json::{Value as Json, json};

    use super::is_harmless;

    #[rstest]
    #[case(ApiKey::FETCH, 4, json!({}), true)]
    #[case(ApiKey::PRODUCE, 3, json!({}), false)]
    #[case(ApiKey::FIND_COORDINATOR, 0, json!({}), false)]
    #[case(ApiKey::INIT_PRODUCER_ID, 0, json!({}), false)]
    #[case(ApiKey::METADATA, 0, json!({"Topics": []}), true)]
    #[case(ApiKey::METADATA, 9, json!({"Topics": null}), true)]
    #[case(ApiKey::METADATA, 3, json!({"Topics": [{"Name": "x"}], "AllowAutoTopicCreation": false}), false)]
    #[case(ApiKey::METADATA, 4, json!({"Topics": [{"Name": "x"}], "AllowAutoTopicCreation": false}), true)]
    #[case(ApiKey::METADATA, 4, json!({"Topics": [{"Name": "x"}], "AllowAutoTopicCreation": true}), false)]
    #[case(ApiKey::METADATA, 4, json!({"Topics": [{"Name": "x"}]}), false)]
    fn requests(
        #[case] key: ApiKey,
        #[case] version: i16,
        #[case] request: Json,
        #[case] expected: bool,
    ) {
        assert_eq!(is_harmless(key, version, &request), expected);
    }
}
