//! Config rows as DescribeConfigs and CreateTopics show them.

use super::config::{CONFIGS, ConfigDef, ConfigType};
use super::settings::{Settings, TIMESTAMP_AFTER_MAX_MS};
use crate::config::Config;

/// Where a value comes from, in Kafka's codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The topic sets it.
    Topic = 1,
    /// The broker's own configuration sets it.
    StaticBroker = 4,
    /// Nobody sets it.
    Default = 5,
}

/// A value of the same meaning that would hold if the ones before it were not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synonym {
    /// Its name, which is a broker config's further down.
    pub name: &'static str,
    /// The value.
    pub value: String,
    /// Where it comes from.
    pub source: Source,
}

/// One config of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigRow {
    /// Its name.
    pub name: &'static str,
    /// The value that holds.
    pub value: String,
    /// Whether it can't be changed through Kafka.
    pub read_only: bool,
    /// Where the value comes from.
    pub source: Source,
    /// The value's type.
    pub kind: ConfigType,
    /// What it does.
    pub documentation: &'static str,
    /// The chain of values, the one that holds first.
    pub synonyms: Vec<Synonym>,
}

impl ConfigRow {
    fn of(config: &'static ConfigDef, settings: &Settings, read_only: bool, node: &Config) -> Self {
        let (value, own) = settings.value(config);
        let of_topic = own.then(|| Synonym {
            name: config.name,
            value: value.to_owned(),
            source: Source::Topic,
        });
        let of_node = variable(config, node).map(|value| Synonym {
            name: config.broker_name,
            value,
            source: Source::StaticBroker,
        });
        let otherwise = Synonym {
            name: config.broker_name,
            value: config.default.to_owned(),
            source: Source::Default,
        };
        let holds = of_topic.as_ref().or(of_node.as_ref()).unwrap_or(&otherwise);
        Self {
            name: config.name,
            value: holds.value.clone(),
            read_only,
            source: holds.source,
            kind: config.kind,
            documentation: config.documentation,
            synonyms: of_topic
                .into_iter()
                .chain(of_node)
                .chain([otherwise])
                .collect(),
        }
    }
}

/// What a variable of the node makes of a config's default.
fn variable(config: &ConfigDef, node: &Config) -> Option<String> {
    let value = match config.name {
        TIMESTAMP_AFTER_MAX_MS => node.timestamp_after_max_ms.to_string(),
        _ => return None,
    };
    (value != config.default).then_some(value)
}

/// Every config of a topic with these settings on this node, in order of their names.
pub fn topic_rows(settings: &Settings, read_only: bool, node: &Config) -> Vec<ConfigRow> {
    CONFIGS
        .iter()
        .map(|config| ConfigRow::of(config, settings, read_only, node))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::Edit;

    #[test]
    fn a_row_says_where_its_value_comes_from() {
        let mut settings = Settings::default();
        settings
            .edit("retention.ms", Edit::Set("60000"))
            .expect("legal");
        let rows = topic_rows(&settings, false, &Config::local());
        assert_eq!(rows.len(), CONFIGS.len());
        let row = |name| {
            rows.iter()
                .find(|row| row.name == name)
                .expect("every config has a row")
        };
        let retention = row("retention.ms");
        assert_eq!(
            (retention.value.as_str(), retention.source),
            ("60000", Source::Topic)
        );
        let chain: Vec<_> = retention
            .synonyms
            .iter()
            .map(|synonym| (synonym.name, synonym.value.as_str(), synonym.source))
            .collect();
        assert_eq!(
            chain,
            [
                ("retention.ms", "60000", Source::Topic),
                ("log.retention.ms", "-1", Source::Default),
            ]
        );
        let policy = row("cleanup.policy");
        assert_eq!(
            (policy.value.as_str(), policy.source, policy.synonyms.len()),
            ("delete", Source::Default, 1)
        );
    }

    #[test]
    fn a_variable_of_the_node_is_the_default_of_its_topics() {
        let node = Config {
            timestamp_after_max_ms: 5,
            ..Config::local()
        };
        let shown = |settings: &Settings| {
            let mut rows = topic_rows(settings, false, &node).into_iter();
            let row = rows.find(|row| row.name == TIMESTAMP_AFTER_MAX_MS);
            let row = row.expect("every config has a row");
            let chain = row.synonyms.iter().map(|synonym| synonym.value.clone());
            (row.source, chain.collect::<Vec<_>>())
        };
        let mut settings = Settings::default();
        assert_eq!(
            shown(&settings),
            (Source::StaticBroker, vec!["5".into(), "3600000".into()])
        );
        settings
            .edit(TIMESTAMP_AFTER_MAX_MS, Edit::Set("7"))
            .expect("legal");
        let chain = ["7", "5", "3600000"].map(String::from).to_vec();
        assert_eq!(shown(&settings), (Source::Topic, chain));
    }
}
