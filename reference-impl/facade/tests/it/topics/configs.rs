//! DescribeConfigs, AlterConfigs and IncrementalAlterConfigs.

use std::time::Duration;

use fake_queen::{Options, Version};
use kafka_protocol::messages::alter_configs_request::{
    AlterConfigsResource as Replaced, AlterableConfig as Replacement,
};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult,
};
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use kafka_protocol::messages::{
    AlterConfigsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest,
};
use rstest::rstest;

use super::*;

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

async fn describe(
    rig: &Rig,
    version: i16,
    kind: i8,
    name: &str,
    keys: Option<&[&str]>,
) -> DescribeConfigsResult {
    let resource = DescribeConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configuration_keys(keys.map(|keys| keys.iter().map(|key| text(key)).collect()));
    let request = DescribeConfigsRequest::default()
        .with_resources(vec![resource])
        .with_include_synonyms(true)
        .with_include_documentation(version >= 3);
    let response = handlers::describe_configs::handle(&rig.cx(version), request).await;
    let mut results = encodable(response, version).results;
    results.pop().expect("one result per resource")
}

fn row<'a>(result: &'a DescribeConfigsResult, name: &str) -> &'a DescribeConfigsResourceResult {
    let row = result.configs.iter().find(|row| row.name.as_str() == name);
    row.unwrap_or_else(|| panic!("no row {name}: {:?}", result.error_message))
}

async fn value(rig: &Rig, topic: &str, name: &str) -> (String, i8) {
    let result = describe(rig, 4, TOPIC, topic, None).await;
    let row = row(&result, name);
    (
        row.value.as_deref().expect("a value").to_owned(),
        row.config_source,
    )
}

async fn edit(rig: &Rig, kind: i8, name: &str, edits: &[(&str, i8, Option<&str>)]) -> i16 {
    let configs = edits.iter().map(|(name, operation, value)| {
        AlterableConfig::default()
            .with_name(text(name))
            .with_config_operation(*operation)
            .with_value(value.map(text))
    });
    let resource = AlterConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configs(configs.collect());
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    let response = handlers::incremental_alter_configs::handle(&rig.cx(1), request).await;
    let result = &encodable(response, 1).responses[0];
    assert_eq!(result.error_message.is_some(), result.error_code != 0);
    result.error_code
}

async fn replace(rig: &Rig, version: i16, name: &str, configs: &[(&str, Option<&str>)]) -> i16 {
    let configs = configs.iter().map(|(name, value)| {
        Replacement::default()
            .with_name(text(name))
            .with_value(value.map(text))
    });
    let resource = Replaced::default()
        .with_resource_type(TOPIC)
        .with_resource_name(text(name))
        .with_configs(configs.collect());
    let request = AlterConfigsRequest::default().with_resources(vec![resource]);
    let response = handlers::alter_configs::handle(&rig.cx(version), request).await;
    encodable(response, version).responses[0].error_code
}

#[tokio::test(start_paused = true)]
async fn every_version_describes_a_topic() {
    let rig = Rig::start().await;
    create(
        &rig,
        "t",
        1,
        &[("retention.ms", "60000"), ("segment.bytes", "1048576")],
    )
    .await;
    for version in 1..=4 {
        let result = describe(&rig, version, TOPIC, "t", None).await;
        assert_eq!(result.error_code, 0);
        let retention = row(&result, "retention.ms");
        assert_eq!(retention.value.as_deref(), Some("60000"));
        assert_eq!((retention.config_source, retention.read_only), (1, false));
        let chain: Vec<_> = retention
            .synonyms
            .iter()
            .map(|synonym| {
                (
                    synonym.name.as_str(),
                    synonym.value.as_deref(),
                    synonym.source,
                )
            })
            .collect();
        assert_eq!(
            chain,
            [
                ("retention.ms", Some("60000"), 1),
                ("log.retention.ms", Some("-1"), 5)
            ]
        );
        let typed = version >= 3;
        assert_eq!(retention.config_type, if typed { 5 } else { 0 });
        assert_eq!(retention.documentation.is_some(), typed);
        let policy = row(&result, "cleanup.policy");
        assert_eq!(
            (policy.value.as_deref(), policy.config_source),
            (Some("delete"), 5)
        );
        assert_eq!(
            row(&result, "segment.bytes").value.as_deref(),
            Some("1048576")
        );
    }
    let some = describe(&rig, 4, TOPIC, "t", Some(&["retention.ms", "no.such"])).await;
    let names: Vec<&str> = some.configs.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["retention.ms"]);
    let empty = describe(&rig, 4, TOPIC, "t", Some(&[])).await;
    assert!(empty.configs.len() > 10, "no key means every key");
}

#[tokio::test(start_paused = true)]
async fn a_native_queue_shows_its_retention_read_only() {
    let rig = Rig::start().await;
    rig.native_queue(
        "native",
        json!({"retentionEnabled": true, "retentionSeconds": 9}),
    )
    .await;
    let result = describe(&rig, 4, TOPIC, "native", None).await;
    let retention = row(&result, "retention.ms");
    assert_eq!(
        (retention.value.as_deref(), retention.read_only),
        (Some("9000"), true)
    );
    assert_eq!(
        edit(
            &rig,
            TOPIC,
            "native",
            &[("retention.ms", SET, Some("60000"))]
        )
        .await,
        40
    );
    assert_eq!(rig.options("native").await["retentionSeconds"], json!(9));
}

#[tokio::test(start_paused = true)]
async fn a_change_made_with_queens_own_clients_is_seen() {
    let rig = Rig::start().await;
    create(&rig, "t", 1, &[("retention.ms", "60000")]).await;
    rig.native_queue("t", json!({"retentionSeconds": 7})).await;
    assert_eq!(value(&rig, "t", "retention.ms").await, ("7000".into(), 1));
    rig.native_queue("t", json!({"retentionEnabled": false}))
        .await;
    assert_eq!(value(&rig, "t", "retention.ms").await, ("-1".into(), 5));
}

#[rstest]
#[case::absent(TOPIC, "absent", 3)]
#[case::illegal(TOPIC, "a b", 3)]
#[case::other_broker(BROKER, "7", 42)]
#[case::broker_logger(8, "0", 42)]
#[case::group(32, "g", 42)]
#[tokio::test(start_paused = true)]
async fn what_has_no_configs_is_told(#[case] kind: i8, #[case] name: &str, #[case] code: i16) {
    let rig = Rig::start().await;
    let result = describe(&rig, 4, kind, name, None).await;
    assert_eq!(result.error_code, code);
    assert!(result.error_message.is_some());
}

#[tokio::test(start_paused = true)]
async fn this_node_describes_what_it_enforces() {
    let rig = Rig::start_with(Options::default(), |config| config.auto_create = false).await;
    let result = describe(&rig, 4, BROKER, "0", None).await;
    let creates = row(&result, "auto.create.topics.enable");
    assert_eq!(
        (creates.value.as_deref(), creates.config_source),
        (Some("false"), 4)
    );
    assert!(result.configs.iter().all(|row| row.read_only));
    assert_eq!(
        row(&result, "num.partitions").value.as_deref(),
        Some("1024")
    );
    let cluster = describe(&rig, 4, BROKER, "", None).await;
    assert_eq!((cluster.error_code, cluster.configs.len()), (0, 0));
    assert_eq!(
        edit(&rig, BROKER, "0", &[("num.partitions", SET, Some("1"))]).await,
        40
    );
}

#[tokio::test(start_paused = true)]
async fn configs_are_altered_one_by_one() {
    let rig = Rig::start().await;
    create(&rig, "t", 5, &[("segment.ms", "5")]).await;
    assert_eq!(
        edit(&rig, TOPIC, "t", &[("retention.ms", SET, Some("60000"))]).await,
        0
    );
    assert_eq!(rig.options("t").await["retentionSeconds"], json!(60));
    assert_eq!(value(&rig, "t", "segment.ms").await, ("5".into(), 1));
    assert_eq!(
        edit(
            &rig,
            TOPIC,
            "t",
            &[("cleanup.policy", APPEND, Some("compact"))]
        )
        .await,
        0
    );
    assert_eq!(
        value(&rig, "t", "cleanup.policy").await,
        ("delete,compact".into(), 1)
    );
    assert_eq!(
        edit(
            &rig,
            TOPIC,
            "t",
            &[("cleanup.policy", SUBTRACT, Some("delete"))]
        )
        .await,
        0
    );
    assert_eq!(rig.options("t").await["retentionEnabled"], json!(false));
    assert_eq!(value(&rig, "t", "retention.ms").await, ("60000".into(), 1));
    let reset = [
        ("cleanup.policy", DELETE, None),
        ("retention.ms", DELETE, None),
    ];
    assert_eq!(edit(&rig, TOPIC, "t", &reset).await, 0);
    let options = rig.options("t").await;
    assert_eq!(
        (&options["retentionEnabled"], &options["retentionSeconds"]),
        (&json!(false), &json!(0))
    );
    assert_eq!(options["dedupWindowSeconds"], json!(3600));
    assert_eq!(value(&rig, "t", "retention.ms").await, ("-1".into(), 5));
    assert_eq!(described(&rig, "t").await.partitions.len(), 5);
    assert_eq!(
        value(&rig.beside(), "t", "segment.ms").await,
        ("5".into(), 1)
    );
}

#[rstest]
#[case::unknown(&[("no.such", SET, Some("1"))], 40)]
#[case::value(&[("retention.ms", SET, Some("5"))], 40)]
#[case::not_a_list(&[("retention.ms", APPEND, Some("60000"))], 40)]
#[case::operation(&[("retention.ms", 9, Some("60000"))], 42)]
#[case::no_value(&[("retention.ms", SET, None)], 42)]
#[case::twice(&[("retention.ms", SET, Some("60000")), ("retention.ms", DELETE, None)], 42)]
#[case::one_of_two(&[("retention.ms", SET, Some("60000")), ("segment.ms", SET, Some("x"))], 40)]
#[tokio::test(start_paused = true)]
async fn a_refused_alteration_changes_nothing(
    #[case] edits: &[(&str, i8, Option<&str>)],
    #[case] code: i16,
) {
    let rig = Rig::start().await;
    create(&rig, "t", 1, &[]).await;
    rig.count("configure");
    assert_eq!(edit(&rig, TOPIC, "t", edits).await, code);
    assert_eq!(rig.counted("configure"), 0);
    assert_eq!(value(&rig, "t", "retention.ms").await, ("-1".into(), 5));
}

#[tokio::test(start_paused = true)]
async fn the_old_way_replaces_everything() {
    let rig = Rig::start().await;
    for version in 0..=2 {
        let name = format!("t{version}");
        create(
            &rig,
            &name,
            1,
            &[("retention.ms", "60000"), ("segment.ms", "5")],
        )
        .await;
        assert_eq!(
            replace(&rig, version, &name, &[("segment.ms", Some("7"))]).await,
            0
        );
        assert_eq!(value(&rig, &name, "segment.ms").await, ("7".into(), 1));
        assert_eq!(value(&rig, &name, "retention.ms").await, ("-1".into(), 5));
        assert_eq!(rig.options(&name).await["retentionEnabled"], json!(false));
    }
    assert_eq!(replace(&rig, 2, "t0", &[("segment.ms", None)]).await, 42);
    assert_eq!(replace(&rig, 2, "t0", &[("no.such", Some("1"))]).await, 40);
    assert_eq!(replace(&rig, 2, "absent", &[]).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_queen_that_replaces_keeps_what_was_not_altered() {
    let options = Options {
        version: Version::V1_5,
        ..Options::default()
    };
    let rig = Rig::start_with(options, |_| {}).await;
    create(&rig, "t", 1, &[("retention.ms", "60000")]).await;
    assert_eq!(
        edit(&rig, TOPIC, "t", &[("segment.ms", SET, Some("5"))]).await,
        0
    );
    let row = &rig.rows("qk:topiccfg:t").await[0].1;
    assert_eq!(
        row["set"],
        json!({"dedupWindowSeconds": 3600, "retentionEnabled": true, "retentionSeconds": 60})
    );
    assert_eq!(value(&rig, "t", "retention.ms").await, ("60000".into(), 1));
}

#[tokio::test(start_paused = true)]
async fn validation_alters_nothing() {
    let rig = Rig::start().await;
    create(&rig, "t", 1, &[]).await;
    let config = AlterableConfig::default()
        .with_name(text("retention.ms"))
        .with_value(Some(text("60000")));
    let resource = AlterConfigsResource::default()
        .with_resource_type(TOPIC)
        .with_resource_name(text("t"))
        .with_configs(vec![config]);
    let request = IncrementalAlterConfigsRequest::default()
        .with_resources(vec![resource.clone()])
        .with_validate_only(true);
    let response = handlers::incremental_alter_configs::handle(&rig.cx(1), request).await;
    assert_eq!(response.responses[0].error_code, 0);
    assert_eq!(value(&rig, "t", "retention.ms").await, ("-1".into(), 5));
    let twice =
        IncrementalAlterConfigsRequest::default().with_resources(vec![resource.clone(), resource]);
    let response = handlers::incremental_alter_configs::handle(&rig.cx(1), twice).await;
    let codes: Vec<i16> = response
        .responses
        .iter()
        .map(|result| result.error_code)
        .collect();
    assert_eq!(codes, [42, 42]);
}

#[tokio::test(start_paused = true)]
async fn alteration_can_be_switched_off() {
    let rig = Rig::start_with(Options::default(), |config| config.admin = false).await;
    create(&rig, "t", 1, &[]).await;
    assert_eq!(
        edit(&rig, TOPIC, "t", &[("retention.ms", SET, Some("60000"))]).await,
        44
    );
    assert_eq!(replace(&rig, 2, "t", &[]).await, 44);
}

#[rstest]
#[case::configure_denied("configure", 403, 29)]
#[case::configure_away("configure", 503, 7)]
#[case::record_unread("kv", 503, 7)]
#[tokio::test(start_paused = true)]
async fn a_refusal_of_queen_reaches_the_client(
    #[case] route: &str,
    #[case] status: u16,
    #[case] code: i16,
) {
    let rig = Rig::start().await;
    create(&rig, "t", 1, &[]).await;
    rig.refuse(route, status);
    assert_eq!(
        edit(&rig, TOPIC, "t", &[("retention.ms", SET, Some("60000"))]).await,
        code
    );
}

#[tokio::test(start_paused = true)]
async fn a_topic_created_by_its_first_use_can_be_altered() {
    let rig = Rig::start().await;
    metadata(
        &rig,
        12,
        by_name(&["u"]).with_allow_auto_topic_creation(true),
    )
    .await;
    assert_eq!(
        edit(&rig, TOPIC, "u", &[("retention.ms", SET, Some("60000"))]).await,
        0
    );
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(value(&rig, "u", "retention.ms").await, ("60000".into(), 1));
    assert_eq!(rig.options("u").await["retentionSeconds"], json!(60));
}
