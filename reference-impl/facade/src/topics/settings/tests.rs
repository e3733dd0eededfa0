use super::*;
use rstest::rstest;
use serde_json::json;

fn record(row: Value) -> TopicRecord {
    TopicRecord::parse(&row.to_string()).expect("a record")
}

fn shown(settings: &Settings, name: &str) -> (String, bool) {
    let (value, own) = settings.value(definition(name).expect("in the table"));
    (value.to_owned(), own)
}

#[rstest]
#[case::untouched(json!({}), json!({}), "-1", false)]
#[case::older_facade(json!({"retentionEnabled": true, "retentionSeconds": 60}), json!({}), "60000", true)]
#[case::as_asked(json!({"retentionEnabled": true, "retentionSeconds": 1}), json!({"retention.ms": "1500"}), "1500", true)]
#[case::altered_by_older(json!({"retentionEnabled": true, "retentionSeconds": 7}), json!({"retention.ms": "1500"}), "7000", true)]
#[case::switched_off_by_older(json!({"retentionEnabled": false}), json!({"retention.ms": "1500"}), "-1", false)]
#[case::compacted(json!({"retentionEnabled": false}), json!({"retention.ms": "1500", "cleanup.policy": "compact"}), "1500", true)]
#[case::for_ever(json!({"retentionEnabled": false}), json!({"retention.ms": "-1"}), "-1", true)]
#[case::nonsense(json!({"retentionEnabled": "yes", "retentionSeconds": 5}), json!({"retention.ms": 5, "no.such": "1"}), "-1", false)]
fn what_is_in_force_is_shown(
    #[case] set: Value,
    #[case] kafka: Value,
    #[case] value: &str,
    #[case] own: bool,
) {
    let record = record(json!({"qid": "q", "set": set, "kafka": kafka}));
    assert_eq!(
        shown(&Settings::of(&record), "retention.ms"),
        (value.to_owned(), own)
    );
}

#[test]
fn retention_turned_on_behind_compaction_means_delete_again() {
    let record = record(
        json!({"qid": "q", "set": {"retentionEnabled": true, "retentionSeconds": 9},
                               "kafka": {"cleanup.policy": "compact"}}),
    );
    let settings = Settings::of(&record);
    assert_eq!(shown(&settings, "cleanup.policy"), ("delete".into(), false));
    assert_eq!(shown(&settings, "retention.ms"), ("9000".into(), true));
}

#[test]
fn a_fresh_topic_posts_what_was_asked_for() {
    let mut record = record(json!({"qid": "q", "set": {"dedupWindowSeconds": 3600}}));
    let mut settings = Settings::default();
    settings
        .edit("retention.ms", Edit::Set("60999"))
        .expect("legal");
    settings.edit("segment.ms", Edit::Set("5")).expect("legal");
    let options = settings.apply(&mut record);
    assert_eq!(
        Value::Object(options),
        json!({"dedupWindowSeconds": 3600, "retentionEnabled": true, "retentionSeconds": 60})
    );
    assert_eq!(
        Value::Object(record.kafka.clone()),
        json!({"retention.ms": "60999", "segment.ms": "5"})
    );
    assert_eq!(Settings::of(&record), settings);
}

#[test]
fn what_is_no_longer_set_is_posted_as_null() {
    let mut record = record(
        json!({"qid": "q", "set": {"retentionEnabled": true, "retentionSeconds": 60, "leaseTime": 5}}),
    );
    let mut settings = Settings::of(&record);
    settings.edit("retention.ms", Edit::Delete).expect("known");
    let options = settings.apply(&mut record);
    assert_eq!(
        Value::Object(options),
        json!({"retentionEnabled": false, "retentionSeconds": null, "leaseTime": 5})
    );
    assert_eq!(
        Value::Object(record.set.clone()),
        json!({"retentionEnabled": false, "leaseTime": 5})
    );
    assert_eq!(
        shown(&Settings::of(&record), "retention.ms"),
        ("-1".into(), false)
    );
}

#[test]
fn compaction_switches_retention_off_and_back() {
    let mut record = record(json!({"qid": "q", "set": {}}));
    let mut settings = Settings::default();
    settings
        .edit("cleanup.policy", Edit::Set("compact"))
        .expect("legal");
    settings
        .edit("retention.ms", Edit::Set("5000"))
        .expect("legal");
    let options = settings.apply(&mut record);
    assert_eq!(Value::Object(options), json!({"retentionEnabled": false}));
    assert_eq!(
        shown(&Settings::of(&record), "retention.ms"),
        ("5000".into(), true)
    );

    let mut settings = Settings::of(&record);
    settings
        .edit("cleanup.policy", Edit::Append("delete"))
        .expect("a list");
    let options = settings.apply(&mut record);
    assert_eq!(
        Value::Object(options),
        json!({"retentionEnabled": true, "retentionSeconds": 5})
    );
    assert_eq!(
        shown(&Settings::of(&record), "cleanup.policy").0,
        "compact,delete"
    );
}

#[test]
fn a_topic_without_configs_posts_and_keeps_nothing() {
    let mut record = record(json!({"qid": "q", "set": {}}));
    assert!(Settings::default().apply(&mut record).is_empty());
    assert!(record.set.is_empty() && record.kafka.is_empty());
}

#[rstest]
#[case::append("delete", Edit::Append("compact"), "delete,compact")]
#[case::append_twice("delete", Edit::Append("delete"), "delete")]
#[case::subtract("delete,compact", Edit::Subtract("delete"), "compact")]
#[case::subtract_absent("delete", Edit::Subtract("compact"), "delete")]
fn lists_are_edited(#[case] before: &str, #[case] edit: Edit<'_>, #[case] after: &str) {
    let mut settings = Settings::default();
    settings
        .edit("cleanup.policy", Edit::Set(before))
        .expect("legal");
    settings.edit("cleanup.policy", edit).expect("a list");
    assert_eq!(shown(&settings, "cleanup.policy").0, after);
}

#[rstest]
#[case::unknown("remote.storage.enable", Edit::Set("true"))]
#[case::unknown_delete("no.such", Edit::Delete)]
#[case::value("retention.ms", Edit::Set("5"))]
#[case::not_a_list("retention.ms", Edit::Append("5000"))]
#[case::empty_list("cleanup.policy", Edit::Subtract("delete"))]
#[case::bad_entry("cleanup.policy", Edit::Subtract("tidy"))]
fn a_refused_edit_changes_nothing(#[case] name: &str, #[case] edit: Edit<'_>) {
    let mut settings = Settings::default();
    assert!(settings.edit(name, edit).is_err());
    assert_eq!(settings, Settings::default());
}

#[rstest]
#[case(None, Compression::Producer)]
#[case(Some("uncompressed"), Compression::Uncompressed)]
#[case(Some("gzip"), Compression::Gzip)]
#[case(Some("snappy"), Compression::Snappy)]
#[case(Some("lz4"), Compression::Lz4)]
#[case(Some("zstd"), Compression::Zstd)]
fn the_codec_is_typed(#[case] value: Option<&str>, #[case] codec: Compression) {
    let mut settings = Settings::default();
    if let Some(value) = value {
        settings
            .edit("compression.type", Edit::Set(value))
            .expect("legal");
    }
    assert_eq!(settings.compression(), codec);
}
