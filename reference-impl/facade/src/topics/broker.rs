//! Broker configs: what this facade really enforces, in Kafka's names.

use super::config::ConfigType;
use super::describe::{ConfigRow, Source, Synonym};
use crate::config::Config;

/// How long a connection may stay idle between requests, as the listener enforces it.
const CONNECTIONS_MAX_IDLE_MS: &str = "600000";
/// The largest request frame, as the listener enforces it.
const SOCKET_REQUEST_MAX_BYTES: &str = "104857600";

/// The broker's rows, in order of their names. Environment variables set them, so they are
/// read-only.
pub fn broker_rows(config: &Config) -> Vec<ConfigRow> {
    let defaults = Config::local();
    let ms = |duration: std::time::Duration| duration.as_millis().to_string();
    let set = |name, kind, value: String, default: String, documentation| {
        let source = if value == default {
            Source::Default
        } else {
            Source::StaticBroker
        };
        let mut synonyms = Vec::new();
        if source == Source::StaticBroker {
            synonyms.push(Synonym {
                name,
                value: value.clone(),
                source,
            });
        }
        synonyms.push(Synonym {
            name,
            value: default,
            source: Source::Default,
        });
        ConfigRow {
            name,
            value,
            read_only: true,
            source,
            kind,
            documentation,
            synonyms,
        }
    };
    let fixed = |name, kind, value: &str, documentation| {
        set(name, kind, value.into(), value.into(), documentation)
    };
    vec![
        set(
            "auto.create.topics.enable",
            ConfigType::Boolean,
            config.auto_create.to_string(),
            defaults.auto_create.to_string(),
            "Whether a topic that is named first is created (QUEEN_KAFKA_AUTO_CREATE).",
        ),
        fixed(
            "connections.max.idle.ms",
            ConfigType::Long,
            CONNECTIONS_MAX_IDLE_MS,
            "A connection without a request for this long is closed.",
        ),
        fixed(
            "default.replication.factor",
            ConfigType::Int,
            "1",
            "Queen replicates underneath; Kafka clients see one replica.",
        ),
        set(
            "delete.topic.enable",
            ConfigType::Boolean,
            config.admin.to_string(),
            defaults.admin.to_string(),
            "Whether topics can be deleted through Kafka (QUEEN_KAFKA_ADMIN).",
        ),
        set(
            "group.initial.rebalance.delay.ms",
            ConfigType::Int,
            ms(config.groups.initial_rebalance_delay),
            ms(defaults.groups.initial_rebalance_delay),
            "How long the first join of an empty group waits for others (QUEEN_KAFKA_GROUP_JOIN_DELAY_MS).",
        ),
        set(
            "group.max.session.timeout.ms",
            ConfigType::Int,
            ms(config.groups.max_session_timeout),
            ms(defaults.groups.max_session_timeout),
            "QUEEN_KAFKA_GROUP_MAX_SESSION_TIMEOUT_MS.",
        ),
        set(
            "group.min.session.timeout.ms",
            ConfigType::Int,
            ms(config.groups.min_session_timeout),
            ms(defaults.groups.min_session_timeout),
            "QUEEN_KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS.",
        ),
        set(
            "log.message.timestamp.after.max.ms",
            ConfigType::Long,
            config.timestamp_after_max_ms.to_string(),
            defaults.timestamp_after_max_ms.to_string(),
            "How far ahead of the clock the timestamp of a record may be, for topics that say nothing (QUEEN_KAFKA_TIMESTAMP_AFTER_MAX_MS).",
        ),
        fixed(
            "log.retention.ms",
            ConfigType::Long,
            "-1",
            "A topic that sets no retention.ms keeps its records for ever.",
        ),
        set(
            "max.connections",
            ConfigType::Int,
            config.listener.max_connections.to_string(),
            defaults.listener.max_connections.to_string(),
            "Connections served at once (QUEEN_KAFKA_MAX_CONNECTIONS).",
        ),
        fixed(
            "min.insync.replicas",
            ConfigType::Int,
            "1",
            "Queen replicates underneath; Kafka clients see one replica.",
        ),
        set(
            "num.partitions",
            ConfigType::Int,
            config.default_partitions.get().to_string(),
            defaults.default_partitions.get().to_string(),
            "The width of a topic that declares none (QUEEN_KAFKA_DEFAULT_PARTITIONS).",
        ),
        fixed(
            "offset.metadata.max.bytes",
            ConfigType::Int,
            "4096",
            "The longest metadata of a committed offset.",
        ),
        fixed(
            "socket.request.max.bytes",
            ConfigType::Int,
            SOCKET_REQUEST_MAX_BYTES,
            "The largest request frame.",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_is_set_shows_where_it_comes_from() {
        let mut config = Config::local();
        config.admin = false;
        let rows = broker_rows(&config);
        assert!(rows.is_sorted_by(|a, b| a.name < b.name));
        let row = rows
            .iter()
            .find(|row| row.name == "delete.topic.enable")
            .expect("a row");
        assert_eq!(
            (row.value.as_str(), row.source),
            ("false", Source::StaticBroker)
        );
        assert_eq!(row.synonyms.len(), 2);
        let row = rows
            .iter()
            .find(|row| row.name == "num.partitions")
            .expect("a row");
        assert_eq!((row.value.as_str(), row.source), ("1024", Source::Default));
    }
}
