//! Topics beyond their records: legal names, the stored topic record (`qk:topiccfg`) and the
//! vocabulary of Kafka topic configs. Knows the KV row format; makes calls only in `store`.

pub mod broker;
mod config;
mod describe;
mod name;
mod record;
mod settings;
pub mod store;

pub use config::{CONFIGS, ConfigDef, ConfigType, ConfigValueError, definition};
pub use describe::{ConfigRow, Source, Synonym, topic_rows};
pub use name::{MAX_NAME_CHARS, NameError, check_name};
pub use record::{TopicRecord, TopicRecordError, record_key};
pub use settings::{Compression, Edit, EditError, Settings};

use kafka_protocol::messages::TopicName;
use kafka_protocol::protocol::StrBytes;

/// A topic's name as Kafka's messages carry it.
pub fn wire_name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_owned()))
}

/// The dedup window of topics created here, and what [`store`] widens narrower ones to: Queen's
/// default, thirty times the two minutes of a client's default `delivery.timeout.ms`.
pub const DEDUP_WINDOW_SECONDS: u64 = 3600;
/// The widest topic that a Kafka client can address.
pub const MAX_PARTITIONS: i32 = 100_000;

#[cfg(test)]
mod tests;
