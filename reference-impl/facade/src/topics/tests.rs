//! Golden rows: what existing facades keep, and what is posted for a set of configs.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::*;
use crate::queen::kv;

#[derive(Deserialize)]
struct Keys {
    namespace: String,
    escapes: Vec<(String, String)>,
    topic_records: Vec<(String, String)>,
}

#[test]
fn keys_are_spelt_as_existing_facades_spell_them() {
    let keys: Keys = fixtures::json("queen/kv_keys.json").expect("the fixture");
    assert_eq!(kv::NAMESPACE, keys.namespace);
    for (plain, escaped) in keys.escapes {
        assert_eq!(kv::escape(&plain), escaped);
        assert_eq!(kv::unescape(&escaped), plain);
    }
    for (topic, key) in keys.topic_records {
        assert_eq!(record_key(&topic), key);
    }
}

#[derive(Deserialize)]
struct GoldenRecord {
    name: String,
    row: Value,
    partitions: Option<i32>,
    configs: BTreeMap<String, String>,
    rewritten: Value,
}

#[test]
fn records_of_existing_facades_are_understood_and_kept() {
    let golden: Vec<GoldenRecord> =
        fixtures::json("queen/topic_records.json").expect("the fixture");
    for golden in golden {
        let record = TopicRecord::parse(&golden.row.to_string()).expect("a record");
        assert_eq!(record.partitions, golden.partitions, "{}", golden.name);
        let settings = Settings::of(&record);
        let set: BTreeMap<String, String> =
            topic_rows(&settings, false, &crate::config::Config::local())
                .into_iter()
                .filter(|row| row.source == Source::Topic)
                .map(|row| (row.name.to_owned(), row.value))
                .collect();
        assert_eq!(set, golden.configs, "{}", golden.name);
        let rewritten = serde_json::to_value(&record).expect("JSON");
        assert_eq!(rewritten, golden.rewritten, "{}", golden.name);
    }
}

#[derive(Deserialize)]
struct GoldenConfigs {
    kafka: BTreeMap<String, String>,
    options: Value,
}

#[test]
fn configs_are_posted_in_configures_spelling() {
    let golden: Vec<GoldenConfigs> =
        fixtures::json("queen/topic_configs.json").expect("the fixture");
    for golden in golden {
        let mut settings = Settings::default();
        for (name, value) in &golden.kafka {
            settings.edit(name, Edit::Set(value)).expect("legal");
        }
        let mut record = TopicRecord::default();
        let options = settings.apply(&mut record);
        assert_eq!(Value::Object(options), golden.options, "{:?}", golden.kafka);
        assert_eq!(Settings::of(&record), settings, "{:?}", golden.kafka);
    }
}
