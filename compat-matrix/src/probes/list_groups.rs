//! ListGroups (16).

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::json;

use super::case::{Api, Case};
use super::consumer_group_heartbeat::joining;
use crate::spec::Stop;

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::LIST_GROUPS,
        sample: || json!({"StatesFilter": ["Stable"], "TypesFilter": ["classic"]}),
        legal: &[
            ErrorCode::CoordinatorNotAvailable,
            ErrorCode::CoordinatorLoadInProgress,
            ErrorCode::GroupAuthorizationFailed,
        ],
        cases: vec![
            Case::new("lists", "lists a group that has a member", |p| async move {
                let member = p.member().await?;
                p.ask(json!({})).await?.is(json!({
                    "ErrorCode": "NONE",
                    "Groups": {"<some>": {
                        "GroupId": member.group,
                        "ProtocolType": "consumer",
                        "GroupState": "Stable",
                        "GroupType": "classic",
                    }},
                }))
            }),
            Case::new("by-state", "lists groups of the states asked for only", |p| async move {
                let member = p.member().await?;
                p.ask(json!({"StatesFilter": ["Stable"]})).await?.is(json!({
                    "Groups": {"<each>": {"GroupState": "Stable"}, "<some>": {"GroupId": member.group}},
                }))?;
                let others = p.ask(json!({"StatesFilter": ["Empty", "Dead"]})).await?;
                match others.is(json!({"Groups": {"<some>": {"GroupId": member.group}}})) {
                    Ok(()) => Err(Stop::fail("a stable group is listed among the empty ones")),
                    Err(_) => Ok(()),
                }
            })
            .from(4)
            .kips(&[518]),
            Case::new("by-type", "lists groups of the types asked for only", |p| async move {
                let member = p.member().await?;
                p.ask(json!({"TypesFilter": ["classic"]})).await?.is(json!({
                    "Groups": {"<each>": {"GroupType": "classic"}, "<some>": {"GroupId": member.group}},
                }))
            })
            .from(5)
            .kips(&[848]),
            Case::new(
                "consumer-type",
                "lists a group of the consumer protocol by its type and state",
                |p| async move {
                    let (topic, group) = (p.topic(1).await?, p.group().await?);
                    p.stage_here(
                        ApiKey::CONSUMER_GROUP_HEARTBEAT,
                        joining(&group, "a", &[&topic.name]),
                    )
                    .await?
                    .is(json!({"ErrorCode": "NONE"}))?;
                    p.ask(json!({"TypesFilter": ["consumer"]})).await?.is(json!({
                        "Groups": {"<each>": {"GroupType": "consumer"}, "<some>": {
                            "GroupId": group, "ProtocolType": "consumer",
                        }},
                    }))
                },
            )
            .from(5)
            .kips(&[848]),
        ],
    }
}
