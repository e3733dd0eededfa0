//! What operators run beside the facade: the dashboard, the alerts, the manifest and the pages that name
//! series, variables and lines of the log. All of them have to name what exists.

mod dashboard;
mod manifest;
mod pages;
mod promql;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use coordinator::cluster::NodeId;
use facade::config::ClusterConfig;
use facade::metrics::PREFIX;
use fake_queen::Options;
use host::Secret;
use kafka_wire::ApiKey;
use serde_json::Value;

use crate::rig::Rig;

/// The folder of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(name: &str) -> String {
    let path = root().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The documents of a YAML file.
fn yaml(name: &str) -> Vec<Value> {
    use serde::Deserialize as _;
    let text = read(name);
    serde_yaml_ng::Deserializer::from_str(&text)
        .map(|document| Value::deserialize(document).expect("YAML with names for keys"))
        .collect()
}

/// A family of series: what it is and which labels it has.
#[derive(Debug)]
struct Family {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
}

/// Every family that a facade in a cluster renders, after everything that counts late has counted.
async fn families() -> BTreeMap<String, Family> {
    let rig = Rig::start_with(Options::default(), |config| {
        config.queen_token = Some(Secret::new("t".to_owned()));
        config.node = Some(ClusterConfig {
            id: NodeId(1),
            heartbeat: std::time::Duration::from_secs(2),
            ttl: std::time::Duration::from_secs(10),
        });
    })
    .await;
    let metrics = &rig.node.metrics;
    // A Heartbeat's answer with an error: no throttle, code 27.
    metrics.answered(ApiKey::HEARTBEAT, 1, &[0, 0, 0, 0, 0, 27]);
    metrics.closed("peer");
    metrics.authentication("accepted");
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for line in metrics.registry.render().lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(name), help) => {
                let family = Family {
                    kind: String::new(),
                    help: help.unwrap_or_default().to_owned(),
                    labels: BTreeSet::new(),
                };
                families.insert(name.to_owned(), family);
            }
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                families.get_mut(name).expect("help comes first").kind = kind.to_owned();
            }
            _ => {
                let (name, labels) = line.split_once('{').unwrap_or((line, ""));
                // The family of a histogram's line is the last one begun by its name.
                let family = families
                    .iter_mut()
                    .filter(|(family, _)| name.starts_with(family.as_str()))
                    .max_by_key(|(family, _)| family.len());
                let labels = labels.split(',').filter_map(|label| label.split_once('='));
                let names = labels.map(|(label, _)| label.to_owned());
                if let Some((_, family)) = family {
                    family.labels.extend(names);
                }
            }
        }
    }
    families
}

#[tokio::test(start_paused = true)]
async fn every_series_has_one_prefix_and_a_name_that_says_its_kind() {
    let families = families().await;
    assert!(families.len() > 50, "{}", families.len());
    for (name, family) in &families {
        let bare = name.strip_prefix(PREFIX).and_then(|n| n.strip_prefix('_'));
        let bare = bare.unwrap_or_else(|| panic!("{name} does not begin with {PREFIX}"));
        for other in [PREFIX, "kastellan"] {
            assert!(!bare.starts_with(other), "{name} has two prefixes");
        }
        let is_counter = family.kind == "counter";
        assert_eq!(
            bare.ends_with("_total"),
            is_counter,
            "{name}: {}",
            family.kind
        );
        assert!(!family.help.is_empty(), "{name} says nothing");
    }
}
