//! DescribeAcls (29), CreateAcls (30), DeleteAcls (31), on servers without an authorizer: what the
//! APIs do where there is one depends on rules that a probe cannot make without changing who may do
//! what.

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::case::{Api, Case};

const LEGAL: &[ErrorCode] = &[
    ErrorCode::SecurityDisabled,
    ErrorCode::ClusterAuthorizationFailed,
    ErrorCode::InvalidRequest,
];

/// Any resource type, pattern type, operation and permission.
const ANY: i8 = 1;

pub(super) fn describe() -> Api {
    api(
        ApiKey::DESCRIBE_ACLS,
        filter,
        json!({"ErrorCode": SAYS, "Resources": []}),
    )
}

pub(super) fn create() -> Api {
    api(
        ApiKey::CREATE_ACLS,
        || {
            json!({"Creations": [{
                "ResourceType": 2,
                "ResourceName": "no-such-topic",
                "ResourcePatternType": 3,
                "Principal": "User:nobody",
                "Host": "*",
                "Operation": 3,
                "PermissionType": 3,
            }]})
        },
        json!({"Results": [{"ErrorCode": SAYS}]}),
    )
}

pub(super) fn delete() -> Api {
    api(
        ApiKey::DELETE_ACLS,
        || json!({"Filters": [filter()]}),
        json!({"FilterResults": [{"ErrorCode": SAYS, "MatchingAcls": []}]}),
    )
}

const SAYS: &str = "SECURITY_DISABLED";

fn api(key: ApiKey, sample: fn() -> Json, expected: Json) -> Api {
    Api {
        key,
        sample,
        legal: LEGAL,
        cases: vec![Case::new(
            "without-authorizer",
            "says that nobody decides who may do what",
            move |p| {
                let expected = expected.clone();
                async move { p.ask(sample()).await?.is(expected) }
            },
        )],
    }
}

/// Matches an ACL that is not there.
fn filter() -> Json {
    json!({
        "ResourceTypeFilter": ANY,
        "ResourceNameFilter": "no-such-topic",
        "PatternTypeFilter": 3,
        "PrincipalFilter": "User:nobody",
        "HostFilter": null,
        "Operation": ANY,
        "PermissionType": ANY,
    })
}
