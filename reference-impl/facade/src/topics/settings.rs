//! What a topic's configs come to, and how an edit changes its record.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::config::{ConfigDef, ConfigType, ConfigValueError, definition};
use super::record::TopicRecord;

const CLEANUP_POLICY: &str = "cleanup.policy";
const RETENTION_MS: &str = "retention.ms";
/// A topic config whose default is a variable.
pub(super) const TIMESTAMP_AFTER_MAX_MS: &str = "message.timestamp.after.max.ms";
const RETENTION_ENABLED: &str = "retentionEnabled";
const RETENTION_SECONDS: &str = "retentionSeconds";

/// The codec of batches served to consumers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// The codec that records were produced with.
    #[default]
    Producer,
    /// None.
    Uncompressed,
    /// gzip.
    Gzip,
    /// snappy.
    Snappy,
    /// lz4.
    Lz4,
    /// zstd.
    Zstd,
}

/// The configs that a topic sets itself; every other one has its default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    set: BTreeMap<&'static str, String>,
}

/// One change of a config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit<'a> {
    /// Give it this value.
    Set(&'a str),
    /// Give it its default.
    Delete,
    /// Add these entries to a list.
    Append(&'a str),
    /// Take these entries from a list.
    Subtract(&'a str),
}

/// Why an edit is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// This facade knows no such topic config.
    #[error("Unknown topic config name: {0}")]
    UnknownConfig(String),
    /// The config doesn't take the value.
    #[error(transparent)]
    Value(#[from] ConfigValueError),
    /// Entries can only be added to or taken from a list.
    #[error("Config value append is not allowed for config key: {0}")]
    NotAList(&'static str),
}

impl Settings {
    /// The configs of a topic with this record.
    ///
    /// `set` is what is in force, so it wins where the two halves of a record disagree (an older
    /// facade altered the topic and knows the one half only).
    pub fn of(record: &TopicRecord) -> Self {
        let mut settings = Self::default();
        for (name, value) in &record.kafka {
            let checked = definition(name)
                .zip(value.as_str())
                .and_then(|(config, value)| Some((config.name, config.check(value).ok()?)));
            if let Some((name, value)) = checked {
                settings.set.insert(name, value);
            }
        }
        let seconds = record
            .set
            .get(RETENTION_SECONDS)
            .and_then(Value::as_i64)
            .filter(|&seconds| seconds > 0);
        let enabled = record.set.get(RETENTION_ENABLED).and_then(Value::as_bool);
        match (enabled, seconds) {
            (Some(true), Some(seconds)) => {
                let shown = settings.retention_ms().map(|ms| ms / 1000);
                if shown != Some(seconds) || !settings.is_age_based() {
                    let ms = seconds.saturating_mul(1000);
                    settings.set.insert(RETENTION_MS, ms.to_string());
                    if !settings.is_age_based() {
                        settings.set.remove(CLEANUP_POLICY);
                    }
                }
            }
            // Off, although the other half says a time: only compaction explains that.
            _ if settings.is_age_based() && settings.retention_ms().is_some() => {
                settings.set.remove(RETENTION_MS);
            }
            _ => {}
        }
        settings
    }

    /// The value a topic has for `config`, and whether it set that itself.
    pub fn value<'a>(&'a self, config: &ConfigDef) -> (&'a str, bool) {
        match self.set.get(config.name) {
            Some(value) => (value, true),
            None => (config.default, false),
        }
    }

    /// The codec of batches served to consumers.
    pub fn compression(&self) -> Compression {
        match self.set.get("compression.type").map(String::as_str) {
            Some("uncompressed") => Compression::Uncompressed,
            Some("gzip") => Compression::Gzip,
            Some("snappy") => Compression::Snappy,
            Some("lz4") => Compression::Lz4,
            Some("zstd") => Compression::Zstd,
            _ => Compression::Producer,
        }
    }

    /// The largest batch, when the topic bounds it.
    pub fn max_message_bytes(&self) -> Option<i32> {
        self.set.get("max.message.bytes")?.parse().ok()
    }

    /// How far ahead of the clock timestamps may be, in milliseconds, when the topic says.
    pub fn timestamp_after_max_ms(&self) -> Option<i64> {
        self.set.get(TIMESTAMP_AFTER_MAX_MS)?.parse().ok()
    }

    /// How far behind the clock timestamps may be, in milliseconds, when the topic says.
    pub fn timestamp_before_max_ms(&self) -> Option<i64> {
        self.set
            .get("message.timestamp.before.max.ms")?
            .parse()
            .ok()
    }

    /// How long records are kept; `None` for ever. In milliseconds, at least 1000.
    fn retention_ms(&self) -> Option<i64> {
        let ms: i64 = self.set.get(RETENTION_MS)?.parse().ok()?;
        (ms > 0).then_some(ms)
    }

    /// Whether age deletes records at all: not when the policy is compaction alone.
    fn is_age_based(&self) -> bool {
        self.set
            .get(CLEANUP_POLICY)
            .is_none_or(|policy| policy.split(',').any(|word| word == "delete"))
    }

    /// Changes one config.
    ///
    /// # Errors
    ///
    /// [`EditError`]; the settings are then as they were.
    pub fn edit(&mut self, name: &str, edit: Edit<'_>) -> Result<(), EditError> {
        let config =
            definition(name).ok_or_else(|| EditError::UnknownConfig(crate::queen::scrub(name)))?;
        let value = match edit {
            Edit::Delete => {
                self.set.remove(config.name);
                return Ok(());
            }
            Edit::Set(value) => value.to_owned(),
            Edit::Append(_) | Edit::Subtract(_) if config.kind != ConfigType::List => {
                return Err(EditError::NotAList(config.name));
            }
            Edit::Append(more) => {
                config.check(more)?;
                format!("{},{more}", self.value(config).0)
            }
            Edit::Subtract(less) => {
                config.check(less)?;
                let less: Vec<&str> = less.split(',').map(str::trim).collect();
                let left = self.value(config).0.split(',');
                let left: Vec<&str> = left.filter(|word| !less.contains(word)).collect();
                left.join(",")
            }
        };
        self.set.insert(config.name, config.check(&value)?);
        Ok(())
    }

    /// Puts these settings into `record`, and returns the options to configure the queue with.
    ///
    /// The whole bag is posted, because a Queen before 1.6 resets what is not named; and an option
    /// that is no longer set is posted as null, because Queen 1.6 keeps what is not named.
    pub fn apply(&self, record: &mut TopicRecord) -> Map<String, Value> {
        let before = record.set.clone();
        match self.retention_ms().filter(|_| self.is_age_based()) {
            Some(ms) => {
                record.set.insert(RETENTION_ENABLED.into(), true.into());
                record
                    .set
                    .insert(RETENTION_SECONDS.into(), (ms / 1000).into());
            }
            None => {
                record.set.remove(RETENTION_SECONDS);
                let says_something = before.contains_key(RETENTION_ENABLED)
                    || self.set.contains_key(RETENTION_MS)
                    || !self.is_age_based();
                if says_something {
                    record.set.insert(RETENTION_ENABLED.into(), false.into());
                }
            }
        }
        record.kafka = self
            .set
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Value::String(value.clone())))
            .collect();
        let mut options = record.set.clone();
        for name in before.keys() {
            if !options.contains_key(name) {
                options.insert(name.clone(), Value::Null);
            }
        }
        options
    }
}

#[cfg(test)]
mod tests;
