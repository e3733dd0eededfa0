//! The 21 options of a queue, in `configure`'s own spellings (contract section 3.4).

use serde_json::Value;

use crate::json;

/// The effective options of one queue. Field names are those of `configure` in snake case; times
/// are in the unit of the option's name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is the option of that name")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the options are what they are"
)]
pub struct QueueOptions {
    pub namespace: String,
    pub task: String,
    pub priority: i64,
    pub lease_time: i64,
    pub retry_limit: i64,
    pub retry_delay: i64,
    pub max_size: i64,
    pub ttl: i64,
    pub dead_letter_queue: bool,
    pub dlq_after_max_retries: bool,
    pub delayed_processing: i64,
    pub window_buffer: i64,
    pub retention_seconds: i64,
    pub completed_retention_seconds: i64,
    pub retention_enabled: bool,
    pub encryption_enabled: bool,
    pub max_wait_time_seconds: i64,
    pub min_pop_wait_time: i64,
    pub dedup_window_seconds: i64,
    pub retention_sink_hold: String,
    pub retention_sink_hold_max_seconds: i64,
}

/// Lease time of a queue that a push made.
const LEASE_TIME_OF_PUSH: i64 = 60;
/// `retentionSinkHold` is at most this long.
const SINK_HOLD_LENGTH: usize = 64;
/// `retentionSinkHoldMaxSeconds` lies here: a minute to a year.
const SINK_HOLD_MAX_SECONDS: std::ops::RangeInclusive<i64> = 60..=31_536_000;
/// `minPopWaitTime` is clamped to this.
const MIN_POP_WAIT_MS: std::ops::RangeInclusive<i64> = 0..=60_000;

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            namespace: String::new(),
            task: String::new(),
            priority: 0,
            lease_time: 300,
            retry_limit: 3,
            retry_delay: 1000,
            max_size: 0,
            ttl: 3600,
            dead_letter_queue: true,
            dlq_after_max_retries: true,
            delayed_processing: 0,
            window_buffer: 0,
            retention_seconds: 0,
            completed_retention_seconds: 0,
            retention_enabled: false,
            encryption_enabled: false,
            max_wait_time_seconds: 0,
            min_pop_wait_time: 0,
            dedup_window_seconds: 3600,
            retention_sink_hold: String::new(),
            retention_sink_hold_max_seconds: 604_800,
        }
    }
}

/// Why an option was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// Out of its documented shape: 400 with `invalid`.
    #[error("{0} is out of range")]
    OutOfRange(&'static str),
    /// Not of its type: the stored procedure fails.
    #[error("{0} has the wrong type")]
    WrongType(&'static str),
}

enum Slot<'a> {
    Text(&'a mut String),
    Int(&'a mut i64),
    Bool(&'a mut bool),
}

impl QueueOptions {
    /// Names in the order they are printed. The first two are shown beside `options`, not in it,
    /// by `configure`.
    pub const NAMES: [&'static str; 21] = [
        "namespace",
        "task",
        "priority",
        "leaseTime",
        "retryLimit",
        "retryDelay",
        "maxSize",
        "ttl",
        "deadLetterQueue",
        "dlqAfterMaxRetries",
        "delayedProcessing",
        "windowBuffer",
        "retentionSeconds",
        "completedRetentionSeconds",
        "retentionEnabled",
        "encryptionEnabled",
        "maxWaitTimeSeconds",
        "minPopWaitTime",
        "dedupWindowSeconds",
        "retentionSinkHold",
        "retentionSinkHoldMaxSeconds",
    ];

    /// The options of a queue that a push to `name` makes: namespace and task come from a dotted
    /// name.
    pub fn of_push(name: &str) -> Self {
        Self {
            lease_time: LEASE_TIME_OF_PUSH,
            ..Self::of_name(name)
        }
    }

    /// Defaults, with namespace and task from a dotted name.
    pub fn of_name(name: &str) -> Self {
        let (namespace, task) = name.split_once('.').unwrap_or_default();
        Self {
            namespace: namespace.into(),
            task: task.into(),
            ..Self::default()
        }
    }

    fn slot(&mut self, name: &str) -> Option<Slot<'_>> {
        Some(match name {
            "namespace" => Slot::Text(&mut self.namespace),
            "task" => Slot::Text(&mut self.task),
            "priority" => Slot::Int(&mut self.priority),
            "leaseTime" => Slot::Int(&mut self.lease_time),
            "retryLimit" => Slot::Int(&mut self.retry_limit),
            "retryDelay" => Slot::Int(&mut self.retry_delay),
            "maxSize" => Slot::Int(&mut self.max_size),
            "ttl" => Slot::Int(&mut self.ttl),
            "deadLetterQueue" => Slot::Bool(&mut self.dead_letter_queue),
            "dlqAfterMaxRetries" => Slot::Bool(&mut self.dlq_after_max_retries),
            "delayedProcessing" => Slot::Int(&mut self.delayed_processing),
            "windowBuffer" => Slot::Int(&mut self.window_buffer),
            "retentionSeconds" => Slot::Int(&mut self.retention_seconds),
            "completedRetentionSeconds" => Slot::Int(&mut self.completed_retention_seconds),
            "retentionEnabled" => Slot::Bool(&mut self.retention_enabled),
            "encryptionEnabled" => Slot::Bool(&mut self.encryption_enabled),
            "maxWaitTimeSeconds" => Slot::Int(&mut self.max_wait_time_seconds),
            "minPopWaitTime" => Slot::Int(&mut self.min_pop_wait_time),
            "dedupWindowSeconds" => Slot::Int(&mut self.dedup_window_seconds),
            "retentionSinkHold" => Slot::Text(&mut self.retention_sink_hold),
            "retentionSinkHoldMaxSeconds" => Slot::Int(&mut self.retention_sink_hold_max_seconds),
            _ => return None,
        })
    }

    /// Sets one option. `null` is its default; an unknown name is ignored.
    ///
    /// # Errors
    /// The value's type, or its documented range.
    pub fn set(&mut self, name: &str, value: &Value) -> Result<(), OptionError> {
        let Some(&name) = Self::NAMES.iter().find(|known| **known == name) else {
            return Ok(());
        };
        if value.is_null() {
            let mut defaults = Self::default();
            match (self.slot(name), defaults.slot(name)) {
                (Some(Slot::Text(to)), Some(Slot::Text(from))) => *to = std::mem::take(from),
                (Some(Slot::Int(to)), Some(Slot::Int(from))) => *to = *from,
                (Some(Slot::Bool(to)), Some(Slot::Bool(from))) => *to = *from,
                _ => {}
            }
            return Ok(());
        }
        let wrong = OptionError::WrongType(name);
        match self.slot(name) {
            None => {}
            Some(Slot::Text(text)) => {
                // A wrong type is out of shape too for the one text that has a shape.
                *text = match (value.as_str(), name) {
                    (Some(value), _) => value.to_owned(),
                    (None, "retentionSinkHold") => return Err(OptionError::OutOfRange(name)),
                    (None, _) => return Err(wrong),
                };
            }
            Some(Slot::Int(int)) => *int = as_int(value).ok_or(wrong)?,
            Some(Slot::Bool(boolean)) => {
                *boolean = match value {
                    Value::Bool(value) => *value,
                    Value::String(text) => text.parse().map_err(|_| wrong)?,
                    _ => return Err(wrong),
                };
            }
        }
        self.check(name)
    }

    /// Applies the ranges and clamps of one option.
    fn check(&mut self, name: &'static str) -> Result<(), OptionError> {
        match name {
            "minPopWaitTime" => {
                self.min_pop_wait_time = self
                    .min_pop_wait_time
                    .clamp(*MIN_POP_WAIT_MS.start(), *MIN_POP_WAIT_MS.end());
            }
            "dedupWindowSeconds" => self.dedup_window_seconds = self.dedup_window_seconds.max(0),
            "retentionSinkHold" => {
                let shaped = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
                if self.retention_sink_hold.len() > SINK_HOLD_LENGTH
                    || !self.retention_sink_hold.bytes().all(shaped)
                {
                    return Err(OptionError::OutOfRange(name));
                }
            }
            "retentionSinkHoldMaxSeconds"
                if !SINK_HOLD_MAX_SECONDS.contains(&self.retention_sink_hold_max_seconds) =>
            {
                return Err(OptionError::OutOfRange(name));
            }
            _ => {}
        }
        Ok(())
    }

    /// Appends the options named as a JSON object.
    pub fn write(&self, out: &mut Vec<u8>, names: &[&str]) {
        // `slot` wants a place to write to; a copy keeps one table of names.
        let mut copy = self.clone();
        out.push(b'{');
        for (at, name) in names.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            json::string(out, name);
            out.push(b':');
            match copy.slot(name) {
                Some(Slot::Text(text)) => json::string(out, text),
                Some(Slot::Int(int)) => json::int(out, *int),
                Some(Slot::Bool(boolean)) => json::boolean(out, *boolean),
                None => json::raw(out, "null"),
            }
        }
        out.push(b'}');
    }

    /// All options as they are stored.
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        self.write(&mut out, &Self::NAMES);
        out
    }

    /// Reads what [`QueueOptions::to_json`] wrote; options it lacks have their defaults.
    pub fn from_json(bytes: &[u8]) -> Option<Self> {
        let stored: serde_json::Map<String, Value> = serde_json::from_slice(bytes).ok()?;
        let mut options = Self::default();
        for (name, value) in &stored {
            options.set(name, value).ok()?;
        }
        Some(options)
    }
}

fn as_int(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_name_has_a_slot_and_reads_back() {
        let mut options = QueueOptions::of_push("orders.eu");
        for name in QueueOptions::NAMES {
            assert!(options.slot(name).is_some(), "{name}");
        }
        assert_eq!(
            (options.namespace.as_str(), options.lease_time),
            ("orders", 60)
        );
        options.retention_seconds = 7;
        assert_eq!(QueueOptions::from_json(&options.to_json()), Some(options));
    }

    #[test]
    fn ranges_are_kept() {
        let mut options = QueueOptions::default();
        let mut set = |name, value| options.set(name, &value);
        assert_eq!(set("minPopWaitTime", json!(70_000)), Ok(()));
        assert_eq!(set("dedupWindowSeconds", json!(-5)), Ok(()));
        for (name, value) in [
            ("retentionSinkHold", json!("a b")),
            ("retentionSinkHold", json!("x".repeat(65))),
            ("retentionSinkHoldMaxSeconds", json!(59)),
        ] {
            assert!(matches!(set(name, value), Err(OptionError::OutOfRange(_))));
        }
        assert!(matches!(
            set("ttl", json!([])),
            Err(OptionError::WrongType("ttl"))
        ));
        assert_eq!(options.min_pop_wait_time, 60_000);
        assert_eq!(options.dedup_window_seconds, 0);
        assert_eq!(options.set("dedupWindowSeconds", &Value::Null), Ok(()));
        assert_eq!(options.dedup_window_seconds, 3600);
    }
}
