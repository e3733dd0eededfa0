//! `grafana.json` and `alerts.yaml`: every query names series and labels that exist.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::promql::named;
use super::{Family, families, read, yaml};

const DASHBOARD: &str = "docs/facade/grafana.json";
const ALERTS: &str = "docs/facade/alerts.yaml";
const GUIDE: &str = "docs/facade/troubleshooting.md";
/// What the two use of PromQL.
const FUNCTIONS: [&str; 10] = [
    "absent",
    "clamp_min",
    "count",
    "histogram_quantile",
    "increase",
    "max",
    "min",
    "rate",
    "sum",
    "label_values",
];
/// Labels that Prometheus adds.
const ADDED: [&str; 3] = ["job", "instance", "le"];

fn check(query: &str, families: &BTreeMap<String, Family>) -> Result<(), String> {
    let named = named(query);
    if named.series.is_empty() {
        return Err(format!("names no series: {query}"));
    }
    let mut labels: BTreeSet<&str> = ADDED.into();
    for series in &named.series {
        // Prometheus' own.
        if series == "up" {
            continue;
        }
        let histogram = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| series.strip_suffix(suffix))
            .and_then(|name| families.get(name))
            .filter(|family| family.kind == "histogram");
        let family = histogram.or_else(|| {
            let plain = families.get(series)?;
            (plain.kind != "histogram").then_some(plain)
        });
        let family = family.ok_or_else(|| format!("{series} does not exist: {query}"))?;
        labels.extend(family.labels.iter().map(String::as_str));
    }
    let strange = named
        .labels
        .iter()
        .find(|label| !labels.contains(label.as_str()));
    if let Some(label) = strange {
        return Err(format!("no label {label}: {query}"));
    }
    let strange = named
        .functions
        .iter()
        .find(|name| !FUNCTIONS.contains(&name.as_str()));
    match strange {
        Some(name) => Err(format!("{name} is no function: {query}")),
        None => Ok(()),
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    let text = value.get(name).and_then(Value::as_str);
    text.unwrap_or_else(|| panic!("no {name} in {value}"))
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    let list = value.get(name).and_then(Value::as_array);
    list.unwrap_or_else(|| panic!("no {name} in {value}"))
}

/// All values of the key `expr`, wherever it stands.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field {
                    Value::String(text) if name == "expr" => found.push(text.clone()),
                    other => expressions(other, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
        _ => {}
    }
}

#[tokio::test(start_paused = true)]
async fn every_query_of_the_dashboard_names_what_exists() {
    let families = families().await;
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).expect("JSON");
    let mut places = BTreeSet::new();
    let mut shown = 0;
    for panel in list(&dashboard, "panels") {
        let title = text(panel, "title");
        let place = panel.get("gridPos").expect("a place").to_string();
        assert!(places.insert(place), "{title} lies on another panel");
        if text(panel, "type") == "row" {
            continue;
        }
        let mut queries = Vec::new();
        expressions(panel, &mut queries);
        assert!(!queries.is_empty(), "{title} asks nothing");
        for query in &queries {
            // Grafana's own words stand where a duration or a pattern does.
            let query = query.replace("$__rate_interval", "5m");
            assert_eq!(check(&query, &families), Ok(()), "{title}");
        }
        shown += 1;
    }
    assert!(shown >= 15, "{shown} panels");
}

#[tokio::test(start_paused = true)]
async fn every_alert_names_what_exists_and_where_to_read_on() {
    let families = families().await;
    let guide = read(GUIDE);
    let anchors: BTreeSet<String> = guide
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .map(|title| title.to_lowercase().replace(' ', "-"))
        .collect();
    let files = yaml(ALERTS);
    let mut names = BTreeSet::new();
    for group in files.iter().flat_map(|file| list(file, "groups")) {
        for rule in list(group, "rules") {
            let name = text(rule, "alert");
            assert!(names.insert(name.to_owned()), "two of {name}");
            assert_eq!(check(text(rule, "expr"), &families), Ok(()), "{name}");
            let (labels, notes) = (&rule["labels"], &rule["annotations"]);
            assert!(
                ["page", "ticket"].contains(&text(labels, "severity")),
                "{name}"
            );
            assert!(!text(notes, "summary").is_empty(), "{name}");
            let (page, anchor) = text(notes, "runbook").split_once('#').expect("an anchor");
            assert_eq!(page, GUIDE, "{name}");
            assert!(
                anchors.contains(anchor),
                "{name}: no {anchor} in {anchors:?}"
            );
        }
    }
    assert!(names.len() >= 8, "{names:?}");
}

#[tokio::test(start_paused = true)]
async fn a_query_for_what_does_not_exist_is_noticed() {
    let families = families().await;
    for (query, told) in [
        ("rate(queen_kafka_request_total[5m])", "does not exist"),
        ("queen_kafka_push_seconds", "does not exist"),
        ("queen_kafka_groups_count", "does not exist"),
        ("sum by (topic) (queen_kafka_groups)", "no label topic"),
        ("rates(queen_kafka_pushes_total[5m])", "no function"),
        ("1", "names no series"),
    ] {
        let noticed = check(query, &families).expect_err(query);
        assert!(noticed.contains(told), "{noticed}");
    }
}
