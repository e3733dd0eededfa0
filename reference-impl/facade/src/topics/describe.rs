//! Config rows as DescribeConfigs and CreateTopics show them.

use super::config::{CONFIGS, ConfigDef, ConfigType};
use super::settings::Settings;

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
    fn of(config: &'static ConfigDef, settings: &Settings, read_only: bool) -> Self {
        let (value, own) = settings.value(config);
        let mut synonyms = Vec::with_capacity(2);
        if own {
            synonyms.push(Synonym {
                name: config.name,
                value: value.to_owned(),
                source: Source::Topic,
            });
        }
        synonyms.push(Synonym {
            name: config.broker_name,
            value: config.default.to_owned(),
            source: Source::Default,
        });
        Self {
            name: config.name,
            value: value.to_owned(),
            read_only,
            source: if own { Source::Topic } else { Source::Default },
            kind: config.kind,
            documentation: config.documentation,
            synonyms,
        }
    }
}

/// Every config of a topic with these settings, in order of their names.
pub fn topic_rows(settings: &Settings, read_only: bool) -> Vec<ConfigRow> {
    CONFIGS
        .iter()
        .map(|config| ConfigRow::of(config, settings, read_only))
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
        let rows = topic_rows(&settings, false);
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
}
