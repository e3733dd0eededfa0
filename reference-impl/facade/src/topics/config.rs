//! The topic configs this facade knows: type, range, default, and what they do here.
//!
//! Names, types, ranges and defaults are Apache Kafka's (its topic configuration reference), except
//! that a fresh topic keeps its records for ever, as a Queen queue does.

/// The type codes of DescribeConfigs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigType {
    /// `true` or `false`.
    Boolean = 1,
    /// Text.
    String = 2,
    /// 32 bits.
    Int = 3,
    /// 64 bits.
    Long = 5,
    /// Floating point.
    Double = 6,
    /// Comma-separated.
    List = 7,
}

/// Which values a config takes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Any non-empty selection of these words.
    SomeOf(&'static [&'static str]),
    /// An integer from the first to the second.
    Integer(i64, i64),
    /// A number from the first to the second.
    Number(f64, f64),
    /// -1, or at least 1000: Queen keeps whole seconds.
    Retention,
}

/// One topic config.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConfigDef {
    /// Kafka's name.
    pub name: &'static str,
    /// Its type.
    pub kind: ConfigType,
    /// The value of a topic that sets none.
    pub default: &'static str,
    /// The broker config of the same meaning.
    pub broker_name: &'static str,
    /// What it does here.
    pub documentation: &'static str,
    rule: Rule,
}

/// A value that a config doesn't take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Invalid value {value} for configuration {name}: {reason}")]
pub struct ConfigValueError {
    name: &'static str,
    value: String,
    reason: String,
}

const RECORDED: &str = "Recorded and shown; Queen has no counterpart, so it changes nothing.";

const fn recorded(
    name: &'static str,
    kind: ConfigType,
    default: &'static str,
    broker_name: &'static str,
    rule: Rule,
) -> ConfigDef {
    ConfigDef {
        name,
        kind,
        default,
        broker_name,
        documentation: RECORDED,
        rule,
    }
}

/// Largest batch when a topic sets no bound: nothing but the request frame (100 MiB) bounds it.
const NO_MESSAGE_BOUND: &str = "104857600";
const LONG_MAX: &str = "9223372036854775807";

/// Every config, in order of their names.
pub const CONFIGS: &[ConfigDef] = &[
    ConfigDef {
        name: "cleanup.policy",
        kind: ConfigType::List,
        default: "delete",
        broker_name: "log.cleanup.policy",
        documentation: "delete: records go when retention.ms has passed. compact: every record is kept and retention is off. Both: every record is kept until retention.ms has passed.",
        rule: Rule::SomeOf(&["delete", "compact"]),
    },
    recorded(
        "compression.gzip.level",
        ConfigType::Int,
        "-1",
        "compression.gzip.level",
        Rule::Integer(-1, 9),
    ),
    recorded(
        "compression.lz4.level",
        ConfigType::Int,
        "9",
        "compression.lz4.level",
        Rule::Integer(1, 17),
    ),
    ConfigDef {
        name: "compression.type",
        kind: ConfigType::String,
        default: "producer",
        broker_name: "compression.type",
        documentation: "The codec of batches served to consumers; producer keeps the codec that records were last produced with.",
        rule: Rule::OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]),
    },
    recorded(
        "compression.zstd.level",
        ConfigType::Int,
        "3",
        "compression.zstd.level",
        Rule::Integer(-131_072, 22),
    ),
    recorded(
        "delete.retention.ms",
        ConfigType::Long,
        "86400000",
        "log.cleaner.delete.retention.ms",
        Rule::Integer(0, i64::MAX),
    ),
    recorded(
        "file.delete.delay.ms",
        ConfigType::Long,
        "60000",
        "log.segment.delete.delay.ms",
        Rule::Integer(0, i64::MAX),
    ),
    recorded(
        "flush.messages",
        ConfigType::Long,
        LONG_MAX,
        "log.flush.interval.messages",
        Rule::Integer(1, i64::MAX),
    ),
    recorded(
        "flush.ms",
        ConfigType::Long,
        LONG_MAX,
        "log.flush.interval.ms",
        Rule::Integer(0, i64::MAX),
    ),
    recorded(
        "index.interval.bytes",
        ConfigType::Int,
        "4096",
        "log.index.interval.bytes",
        Rule::Integer(0, i32::MAX as i64),
    ),
    recorded(
        "max.compaction.lag.ms",
        ConfigType::Long,
        LONG_MAX,
        "log.cleaner.max.compaction.lag.ms",
        Rule::Integer(1, i64::MAX),
    ),
    ConfigDef {
        name: "max.message.bytes",
        kind: ConfigType::Int,
        default: NO_MESSAGE_BOUND,
        broker_name: "message.max.bytes",
        documentation: "The largest record batch that is accepted.",
        rule: Rule::Integer(0, i32::MAX as i64),
    },
    ConfigDef {
        name: "message.timestamp.after.max.ms",
        kind: ConfigType::Long,
        default: "3600000",
        broker_name: "log.message.timestamp.after.max.ms",
        documentation: "How far ahead of the facade's clock the timestamp of a record may be (KIP-937). Behind is message.timestamp.before.max.ms.",
        rule: Rule::Integer(0, i64::MAX),
    },
    ConfigDef {
        name: "message.timestamp.before.max.ms",
        kind: ConfigType::Long,
        default: LONG_MAX,
        broker_name: "log.message.timestamp.before.max.ms",
        documentation: "How far behind the facade's clock the timestamp of a record may be (KIP-937).",
        rule: Rule::Integer(0, i64::MAX),
    },
    ConfigDef {
        name: "message.timestamp.type",
        kind: ConfigType::String,
        default: "CreateTime",
        broker_name: "log.message.timestamp.type",
        documentation: "Records keep the producer's timestamp. LogAppendTime is not offered: Queen doesn't tell a producer when it stored a record.",
        rule: Rule::OneOf(&["CreateTime"]),
    },
    recorded(
        "min.cleanable.dirty.ratio",
        ConfigType::Double,
        "0.5",
        "log.cleaner.min.cleanable.ratio",
        Rule::Number(0.0, 1.0),
    ),
    recorded(
        "min.compaction.lag.ms",
        ConfigType::Long,
        "0",
        "log.cleaner.min.compaction.lag.ms",
        Rule::Integer(0, i64::MAX),
    ),
    ConfigDef {
        name: "min.insync.replicas",
        kind: ConfigType::Int,
        default: "1",
        broker_name: "min.insync.replicas",
        documentation: "Queen replicates underneath; Kafka clients see one replica.",
        rule: Rule::Integer(1, 1),
    },
    recorded(
        "preallocate",
        ConfigType::Boolean,
        "false",
        "log.preallocate",
        Rule::OneOf(&["true", "false"]),
    ),
    recorded(
        "retention.bytes",
        ConfigType::Long,
        "-1",
        "log.retention.bytes",
        Rule::Integer(-1, i64::MAX),
    ),
    ConfigDef {
        name: "retention.ms",
        kind: ConfigType::Long,
        default: "-1",
        broker_name: "log.retention.ms",
        documentation: "How long records are kept, in whole seconds; -1 keeps them for ever.",
        rule: Rule::Retention,
    },
    recorded(
        "segment.bytes",
        ConfigType::Int,
        "1073741824",
        "log.segment.bytes",
        Rule::Integer(14, i32::MAX as i64),
    ),
    recorded(
        "segment.index.bytes",
        ConfigType::Int,
        "10485760",
        "log.index.size.max.bytes",
        Rule::Integer(4, i32::MAX as i64),
    ),
    recorded(
        "segment.jitter.ms",
        ConfigType::Long,
        "0",
        "log.roll.jitter.ms",
        Rule::Integer(0, i64::MAX),
    ),
    recorded(
        "segment.ms",
        ConfigType::Long,
        "604800000",
        "log.roll.ms",
        Rule::Integer(1, i64::MAX),
    ),
    ConfigDef {
        name: "unclean.leader.election.enable",
        kind: ConfigType::Boolean,
        default: "false",
        broker_name: "unclean.leader.election.enable",
        documentation: "There is no election that could be unclean.",
        rule: Rule::OneOf(&["false"]),
    },
];

/// The config named `name`.
pub fn definition(name: &str) -> Option<&'static ConfigDef> {
    CONFIGS
        .binary_search_by(|config| config.name.cmp(name))
        .ok()
        .and_then(|at| CONFIGS.get(at))
}

impl ConfigDef {
    /// Checks `value` and returns it as it is kept.
    ///
    /// # Errors
    ///
    /// [`ConfigValueError`], whose text goes to the client.
    pub fn check(&self, value: &str) -> Result<String, ConfigValueError> {
        let value = value.trim();
        match self.rule {
            Rule::OneOf(words) => words
                .iter()
                .find(|word| match self.kind {
                    ConfigType::Boolean => word.eq_ignore_ascii_case(value),
                    _ => **word == value,
                })
                .map(|word| (*word).to_owned())
                .ok_or_else(|| self.refuse(value, format!("must be one of {}", words.join(", ")))),
            Rule::SomeOf(words) => {
                let mut chosen: Vec<&str> = Vec::new();
                for word in value.split(',').map(str::trim) {
                    if !words.contains(&word) {
                        return Err(self.refuse(
                            value,
                            format!("every entry must be one of {}", words.join(", ")),
                        ));
                    }
                    if !chosen.contains(&word) {
                        chosen.push(word);
                    }
                }
                Ok(chosen.join(","))
            }
            Rule::Integer(least, most) => {
                let number: i64 = value
                    .parse()
                    .map_err(|_| self.refuse(value, "not an integer".into()))?;
                if number < least {
                    Err(self.refuse(value, format!("must be at least {least}")))
                } else if number > most {
                    Err(self.refuse(value, format!("must be no more than {most}")))
                } else {
                    Ok(number.to_string())
                }
            }
            Rule::Number(least, most) => value
                .parse::<f64>()
                .ok()
                .filter(|number| (least..=most).contains(number))
                .map(|_| value.to_owned())
                .ok_or_else(|| {
                    self.refuse(value, format!("must be a number from {least} to {most}"))
                }),
            Rule::Retention => {
                let number: i64 = value
                    .parse()
                    .map_err(|_| self.refuse(value, "not an integer".into()))?;
                if number == -1 || number >= 1000 {
                    Ok(number.to_string())
                } else {
                    Err(self.refuse(value, "must be -1 or at least 1000".into()))
                }
            }
        }
    }

    fn refuse(&self, value: &str, reason: String) -> ConfigValueError {
        ConfigValueError {
            name: self.name,
            value: crate::queen::scrub(value),
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[test]
    fn configs_are_sorted_and_their_defaults_are_legal() {
        assert!(CONFIGS.is_sorted_by(|a, b| a.name < b.name));
        for config in CONFIGS {
            assert_eq!(
                config.check(config.default).as_deref(),
                Ok(config.default),
                "{}",
                config.name
            );
            assert_eq!(definition(config.name), Some(config));
        }
        assert_eq!(definition("remote.storage.enable"), None);
    }

    #[rstest]
    #[case("cleanup.policy", "compact", "compact")]
    #[case("cleanup.policy", "compact, delete", "compact,delete")]
    #[case("cleanup.policy", "delete,delete", "delete")]
    #[case("retention.ms", "-1", "-1")]
    #[case("retention.ms", "1000", "1000")]
    #[case("retention.ms", " 60000 ", "60000")]
    #[case("compression.type", "zstd", "zstd")]
    #[case("preallocate", "TRUE", "true")]
    #[case("min.cleanable.dirty.ratio", "0.01", "0.01")]
    #[case("segment.bytes", "14", "14")]
    fn accepts(#[case] name: &str, #[case] value: &str, #[case] kept: &str) {
        let config = definition(name).expect("in the table");
        assert_eq!(config.check(value).as_deref(), Ok(kept));
    }

    #[rstest]
    #[case("cleanup.policy", "")]
    #[case("cleanup.policy", "tidy")]
    #[case("cleanup.policy", "delete,")]
    #[case("retention.ms", "0")]
    #[case("retention.ms", "999")]
    #[case("retention.ms", "-2")]
    #[case("retention.ms", "1e3")]
    #[case("retention.ms", "9223372036854775808")]
    #[case("compression.type", "none")]
    #[case("compression.type", "ZSTD")]
    #[case("min.insync.replicas", "2")]
    #[case("min.insync.replicas", "0")]
    #[case("message.timestamp.type", "LogAppendTime")]
    #[case("max.message.bytes", "2147483648")]
    #[case("max.message.bytes", "-1")]
    #[case("min.cleanable.dirty.ratio", "1.1")]
    #[case("min.cleanable.dirty.ratio", "NaN")]
    #[case("unclean.leader.election.enable", "true")]
    fn refuses(#[case] name: &str, #[case] value: &str) {
        let config = definition(name).expect("in the table");
        let error = config.check(value).expect_err("refused").to_string();
        assert!(error.contains(name), "{error}");
    }
}
