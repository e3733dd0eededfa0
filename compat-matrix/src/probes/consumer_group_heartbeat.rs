//! ConsumerGroupHeartbeat (68).

use std::time::Duration;

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::case::{Api, Case};
use super::probe::{Answer, Probe};
use super::stage::Topic;
use crate::spec::Stop;

/// How long a server may take to notice a topic that a pattern matches: Kafka looks every ten
/// seconds.
const NOTICED_WITHIN: Duration = Duration::from_secs(15);

/// A consumer protocol assignment, version 0, of nothing, without user data.
const NOTHING: &str = "hex:000000000000ffffffff";

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::CONSUMER_GROUP_HEARTBEAT,
        // A member that no group has, so that nothing is made.
        sample: || {
            let mut sample = beat("sample", "nobody", 7);
            sample["InstanceId"] = json!("instance");
            sample["RackId"] = json!("rack");
            sample["SubscribedTopicNames"] = json!(["not a topic"]);
            sample["SubscribedTopicRegex"] = json!("a.*");
            sample["ServerAssignor"] = json!("uniform");
            sample["TopicPartitions"] =
                json!([{"TopicId": "_____________________w", "Partitions": [0]}]);
            sample
        },
        legal: &[
            ErrorCode::GroupAuthorizationFailed,
            ErrorCode::TopicAuthorizationFailed,
            ErrorCode::NotCoordinator,
            ErrorCode::CoordinatorNotAvailable,
            ErrorCode::CoordinatorLoadInProgress,
            ErrorCode::InvalidRequest,
            ErrorCode::InvalidGroupId,
            ErrorCode::UnknownMemberId,
            ErrorCode::FencedMemberEpoch,
            ErrorCode::UnsupportedAssignor,
            ErrorCode::UnreleasedInstanceId,
            ErrorCode::FencedInstanceId,
            ErrorCode::GroupMaxSizeReached,
            ErrorCode::GroupIdNotFound,
            ErrorCode::InvalidRegularExpression,
        ],
        cases: cases(),
    }
}

/// A heartbeat that says nothing new.
pub(super) fn beat(group: &str, member: &str, epoch: i64) -> Json {
    json!({
        "GroupId": group,
        "MemberId": member,
        "MemberEpoch": epoch,
        "InstanceId": null,
        "RackId": null,
        "RebalanceTimeoutMs": -1,
        "SubscribedTopicNames": null,
        "SubscribedTopicRegex": null,
        "ServerAssignor": null,
        "TopicPartitions": null,
    })
}

/// The first heartbeat of a member that subscribes to `topics`.
pub(super) fn joining(group: &str, member: &str, topics: &[&str]) -> Json {
    let mut request = beat(group, member, 0);
    request["RebalanceTimeoutMs"] = json!(60_000);
    request["SubscribedTopicNames"] = json!(topics);
    request["TopicPartitions"] = json!([]);
    request
}

fn owning(group: &str, member: &str, epoch: i64, topic: &Topic, partitions: &Json) -> Json {
    let mut request = beat(group, member, epoch);
    request["TopicPartitions"] = json!([{"TopicId": topic.id, "Partitions": partitions}]);
    request
}

fn assigned(topic: &Topic, partitions: Json) -> Json {
    json!({"TopicPartitions": [{"TopicId": topic.id, "Partitions": partitions}]})
}

/// A group whose one member `a` has all of a topic with `partitions` partitions, and the member's
/// epoch.
async fn owner(p: &Probe, partitions: i32) -> Result<(String, Topic, i64), Stop> {
    let (topic, group) = (p.topic(partitions).await?, p.group().await?);
    let joined = p.ask(joining(&group, "a", &[&topic.name])).await?;
    let all: Vec<i32> = (0..partitions).collect();
    let mut epoch = joined.int("MemberEpoch")?;
    if joined
        .is(json!({"Assignment": assigned(&topic, json!(all))}))
        .is_err()
    {
        // A server may notice a topic only after it was asked for.
        let owns_nothing = owning(&group, "a", epoch, &topic, &json!([]));
        let told = p
            .ask_until(
                owns_nothing,
                json!({"Assignment": assigned(&topic, json!(all))}),
                NOTICED_WITHIN,
            )
            .await?;
        epoch = told.int("MemberEpoch")?;
    }
    Ok((group, topic, epoch))
}

fn kept(answer: &Answer) -> Result<Json, Stop> {
    let numbers = (0..2).filter_map(|at| {
        let path = format!("Assignment.TopicPartitions[0].Partitions[{at}]");
        answer.int(&path).ok()
    });
    Ok(json!(numbers.collect::<Vec<i64>>()))
}

fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "join",
            "gives a first member everything by topic id, and tells it when to come again",
            |p| async move {
                let (group, topic, epoch) = owner(&p, 2).await?;
                let again = owning(&group, "a", epoch, &topic, &json!([0, 1]));
                p.ask(again).await?.is(json!({
                    "ErrorCode": "NONE",
                    "MemberId": "a",
                    "MemberEpoch": epoch,
                    "HeartbeatIntervalMs": "<at least 1>",
                    "ThrottleTimeMs": "<at least 0>",
                    "Assignment": null,
                }))
            },
        )
        .kips(&[848]),
        Case::new(
            "share",
            "moves a partition only after its owner said that it gave it up",
            |p| async move {
                let (group, topic, epoch) = owner(&p, 2).await?;
                let newcomer = p.ask(joining(&group, "b", &[&topic.name])).await?;
                newcomer.is(json!({"ErrorCode": "NONE", "Assignment": {"TopicPartitions": []}}))?;
                let b_epoch = newcomer.int("MemberEpoch")?;
                let one = json!({"TopicPartitions": [
                    {"TopicId": topic.id, "Partitions": {"<count>": 1}},
                ]});
                // Kafka gathers changes for a moment before it assigns anew.
                let told = p
                    .ask_until(
                        owning(&group, "a", epoch, &topic, &json!([0, 1])),
                        json!({"MemberEpoch": epoch, "Assignment": one}),
                        NOTICED_WITHIN,
                    )
                    .await?;
                let kept = kept(&told)?;
                let waits = p.ask(beat(&group, "b", b_epoch)).await?;
                waits.is(json!({"ErrorCode": "NONE", "Assignment": null}))?;
                let b_epoch = waits.int("MemberEpoch")?;
                p.ask(owning(&group, "a", epoch, &topic, &kept))
                    .await?
                    .is(json!({"ErrorCode": "NONE", "MemberEpoch": format!("<at least {}>", epoch + 1)}))?;
                // A full request hears the assignment whether it changed or not.
                let mut nothing = owning(&group, "b", b_epoch, &topic, &json!([]));
                nothing["RebalanceTimeoutMs"] = json!(60_000);
                nothing["SubscribedTopicNames"] = json!([topic.name]);
                p.ask_until(nothing, json!({"Assignment": one}), NOTICED_WITHIN)
                    .await
                    .map(|_| ())
            },
        )
        .kips(&[848]),
        Case::new(
            "leave",
            "frees what a member had when it leaves",
            |p| async move {
                let (group, topic, _) = owner(&p, 1).await?;
                let newcomer = p.ask(joining(&group, "b", &[&topic.name])).await?;
                let b_epoch = newcomer.int("MemberEpoch")?;
                p.ask(beat(&group, "a", -1))
                    .await?
                    .is(json!({"ErrorCode": "NONE", "MemberId": "a", "MemberEpoch": -1}))?;
                p.ask_until(
                    beat(&group, "b", b_epoch),
                    json!({"Assignment": assigned(&topic, json!([0]))}),
                    NOTICED_WITHIN,
                )
                .await
                .map(|_| ())
            },
        )
        .kips(&[848]),
        Case::new(
            "fenced-epoch",
            "fences a member that is ahead of its group",
            |p| async move {
                let (group, _, epoch) = owner(&p, 1).await?;
                p.ask(beat(&group, "a", epoch + 5))
                    .await?
                    .is(json!({"ErrorCode": "FENCED_MEMBER_EPOCH", "ErrorMessage": "<not empty>"}))
            },
        )
        .kips(&[848]),
        Case::new("unknown-member", "refuses a stranger", |p| async move {
            let (group, _, epoch) = owner(&p, 1).await?;
            p.ask(beat(&group, "nobody", epoch))
                .await?
                .is(json!({"ErrorCode": "UNKNOWN_MEMBER_ID"}))
        })
        .kips(&[848]),
        Case::new(
            "static",
            "keeps the place of a static member for its next process, and fences the old one",
            |p| async move {
                let (topic, group) = (p.topic(1).await?, p.group().await?);
                let named = |mut request: Json| {
                    request["InstanceId"] = json!("instance");
                    request
                };
                let joined = p.ask(named(joining(&group, "a", &[&topic.name]))).await?;
                joined.is(json!({"ErrorCode": "NONE"}))?;
                let epoch = joined.int("MemberEpoch")?;
                p.ask(named(joining(&group, "b", &[&topic.name])))
                    .await?
                    .is(json!({"ErrorCode": "UNRELEASED_INSTANCE_ID"}))?;
                p.ask(named(beat(&group, "a", -2)))
                    .await?
                    .is(json!({"ErrorCode": "NONE", "MemberEpoch": -2}))?;
                p.ask(named(joining(&group, "b", &[&topic.name])))
                    .await?
                    .is(json!({"ErrorCode": "NONE", "MemberId": "b"}))?;
                p.ask(named(beat(&group, "a", epoch)))
                    .await?
                    .is(json!({"ErrorCode": "FENCED_INSTANCE_ID"}))
            },
        )
        .kips(&[345, 848]),
        Case::new(
            "regex",
            "subscribes by a pattern that matches whole names",
            |p| async move {
                let (topic, group) = (p.topic(1).await?, p.group().await?);
                let mut request = joining(&group, "a", &[]);
                request["SubscribedTopicNames"] = json!(null);
                request["SubscribedTopicRegex"] = json!(format!("{}|x", topic.name));
                let joined = p.ask(request.clone()).await?;
                joined.is(json!({"ErrorCode": "NONE"}))?;
                let epoch = joined.int("MemberEpoch")?;
                let everything = assigned(&topic, json!([0]));
                if joined.is(json!({"Assignment": everything})).is_err() {
                    let told = json!({"Assignment": everything});
                    let again = owning(&group, "a", epoch, &topic, &json!([]));
                    p.ask_until(again, told, NOTICED_WITHIN).await?;
                }
                let mut half = request;
                half["MemberId"] = json!("b");
                half["GroupId"] = json!(p.group().await?);
                // A pattern that only begins like the name matches nothing.
                half["SubscribedTopicRegex"] = json!(topic.name.split_at(3).0);
                p.ask(half)
                    .await?
                    .is(json!({"ErrorCode": "NONE", "Assignment": {"TopicPartitions": []}}))
            },
        )
        .from(1)
        .kips(&[848]),
        Case::new(
            "bad-regex",
            "refuses a pattern that RE2 does not read",
            |p| async move {
                let group = p.group().await?;
                let mut request = joining(&group, "a", &[]);
                request["SubscribedTopicRegex"] = json!("(unclosed");
                p.ask(request).await?.is(
                    json!({"ErrorCode": "INVALID_REGULAR_EXPRESSION", "ErrorMessage": "<not empty>"}),
                )
            },
        )
        .from(1)
        .kips(&[848]),
        Case::new(
            "assignor",
            "knows uniform and range, and refuses others",
            |p| async move {
                let (topic, group) = (p.topic(1).await?, p.group().await?);
                for (assignor, code) in [
                    ("sticky", "UNSUPPORTED_ASSIGNOR"),
                    ("range", "NONE"),
                    ("uniform", "NONE"),
                ] {
                    let mut request = joining(&group, "a", &[&topic.name]);
                    request["ServerAssignor"] = json!(assignor);
                    p.ask(request).await?.is(json!({"ErrorCode": code}))?;
                    if code == "NONE" {
                        p.ask(beat(&group, "a", -1)).await?;
                    }
                }
                Ok(())
            },
        )
        .kips(&[848]),
        Case::new(
            "invalid",
            "refuses requests whose fields do not go together",
            |p| async move {
                let group = p.group().await?;
                let refusals: [fn(&mut Json); 6] = [
                    |r| r["GroupId"] = json!(""),
                    |r| r["RebalanceTimeoutMs"] = json!(-1),
                    |r| r["SubscribedTopicNames"] = json!(null),
                    |r| r["InstanceId"] = json!(""),
                    |r| r["MemberEpoch"] = json!(-3),
                    |r| {
                        r["TopicPartitions"] =
                            json!([{"TopicId": "_____________________w", "Partitions": [0]}]);
                    },
                ];
                for change in refusals {
                    let mut request = joining(&group, "a", &["t"]);
                    change(&mut request);
                    p.ask(request).await?.is(json!({"ErrorCode": "INVALID_REQUEST"}))?;
                }
                Ok(())
            },
        )
        .kips(&[848]),
        Case::new(
            "own-member-id",
            "demands that a client chooses its member id",
            |p| async move {
                let group = p.group().await?;
                p.ask(joining(&group, "", &["t"]))
                    .await?
                    .is(json!({"ErrorCode": "INVALID_REQUEST"}))
            },
        )
        .from(1)
        .kips(&[1082]),
        Case::new(
            "given-member-id",
            "gives a client without a member id one",
            |p| async move {
                let group = p.group().await?;
                p.ask(joining(&group, "", &["t"]))
                    .await?
                    .is(json!({"ErrorCode": "NONE", "MemberId": "<not empty>"}))
            },
        )
        .to(0)
        .kips(&[848]),
        Case::new(
            "upgrade",
            "turns a live classic group when a member of the new protocol joins",
            |p| async move {
                let (topic, group) = (p.topic(1).await?, p.group().await?);
                let joined = p.join(&group, "").await?;
                let member = joined.text("MemberId")?;
                // The coordinator takes over what the leader assigned: it must be readable.
                p.stage_here(
                    ApiKey::SYNC_GROUP,
                    json!({
                        "GroupId": group,
                        "GenerationId": joined.int("GenerationId")?,
                        "MemberId": member,
                        "ProtocolType": "consumer",
                        "ProtocolName": "range",
                        "Assignments": [{"MemberId": member, "Assignment": NOTHING}],
                    }),
                )
                .await?
                .is(json!({"ErrorCode": "NONE"}))?;
                p.ask(joining(&group, "a", &[&topic.name]))
                    .await?
                    .is(json!({"ErrorCode": "NONE", "MemberId": "a"}))?;
                p.stage_here(ApiKey::LIST_GROUPS, json!({"TypesFilter": ["consumer"]}))
                    .await?
                    .is(json!({"Groups": {"<some>": {"GroupId": group}}}))
            },
        )
        .kips(&[848]),
    ]
}
