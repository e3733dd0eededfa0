//! librdkafka's names for the neutral settings.

use rdkafka::config::ClientConfig;

use crate::drivers::protocol::{Begin, Setting, Settings};

/// Puts each setting into librdkafka's configuration.
pub(super) fn apply(settings: &Settings, config: &mut ClientConfig) {
    for setting in &settings.0 {
        for (name, value) in translate(setting) {
            config.set(name, value);
        }
    }
}

/// How the session is secured.
pub(super) fn secure(begin: &Begin, config: &mut ClientConfig) {
    if let Some(tls) = &begin.tls {
        config.set("ssl.ca.location", &tls.ca_file);
    }
    if let Some(sasl) = &begin.sasl {
        config
            .set("sasl.mechanism", &sasl.mechanism)
            .set("sasl.username", &sasl.username)
            .set("sasl.password", &sasl.password);
    }
    let protocol = match (&begin.tls, &begin.sasl) {
        (None, None) => "PLAINTEXT",
        (Some(_), None) => "SSL",
        (None, Some(_)) => "SASL_PLAINTEXT",
        (Some(_), Some(_)) => "SASL_SSL",
    };
    config.set("security.protocol", protocol);
}

fn translate(setting: &Setting) -> Vec<(&'static str, String)> {
    let one = |name, value: &dyn ToString| vec![(name, value.to_string())];
    match setting {
        Setting::Acks(acks) => one("acks", &acks.word()),
        Setting::Idempotence(on) => one("enable.idempotence", on),
        Setting::TransactionalId(id) => one("transactional.id", id),
        Setting::TransactionTimeoutMs(ms) => one("transaction.timeout.ms", ms),
        Setting::Compression(codec) => one("compression.type", &codec.word()),
        // It keys like Java, and scatters records without a key.
        Setting::Partitioner(_) => one("partitioner", &"murmur2_random"),
        Setting::MaxRequestBytes(bytes) => one("message.max.bytes", bytes),
        Setting::LingerMs(ms) => one("linger.ms", ms),
        Setting::BatchRecords(count) => one("batch.num.messages", count),
        Setting::BatchBytes(bytes) => one("batch.size", bytes),
        Setting::MaxInFlight(count) => one("max.in.flight.requests.per.connection", count),
        Setting::DeliveryTimeoutMs(ms) => one("message.timeout.ms", ms),
        Setting::GroupId(id) => one("group.id", id),
        Setting::GroupInstanceId(id) => one("group.instance.id", id),
        Setting::GroupProtocol(protocol) => one("group.protocol", &protocol.word()),
        Setting::Assignors(assignors) => {
            let words: Vec<&str> = assignors.iter().map(|one| one.word()).collect();
            one("partition.assignment.strategy", &words.join(","))
        }
        Setting::AutoCommit(on) => one("enable.auto.commit", on),
        Setting::AutoCommitIntervalMs(ms) => one("auto.commit.interval.ms", ms),
        Setting::OffsetReset(reset) => one("auto.offset.reset", &reset.word()),
        Setting::Isolation(isolation) => one("isolation.level", &isolation.word()),
        Setting::FetchMaxWaitMs(ms) => one("fetch.wait.max.ms", ms),
        // librdkafka wants the three in order, and room for one record that is larger.
        Setting::FetchMaxBytes(bytes) => vec![
            ("fetch.message.max.bytes", bytes.to_string()),
            ("fetch.max.bytes", bytes.to_string()),
            ("message.max.bytes", bytes.to_string()),
            ("receive.message.max.bytes", (bytes + 2_000_000).to_string()),
        ],
        Setting::AutoCreateTopics(on) => one("allow.auto.create.topics", on),
        Setting::SessionTimeoutMs(ms) => one("session.timeout.ms", ms),
        Setting::HeartbeatIntervalMs(ms) => one("heartbeat.interval.ms", ms),
        Setting::MaxPollIntervalMs(ms) => one("max.poll.interval.ms", ms),
        Setting::MetadataRefreshMs(ms) => one("topic.metadata.refresh.interval.ms", ms),
        Setting::RequestTimeoutMs(ms) => one("socket.timeout.ms", ms),
        Setting::RetryBackoffMs(ms) => one("retry.backoff.ms", ms),
        Setting::ReconnectBackoffMs(ms) => one("reconnect.backoff.ms", ms),
        Setting::ReconnectBackoffMaxMs(ms) => one("reconnect.backoff.max.ms", ms),
        Setting::TopicPropagationMs(ms) => one("topic.metadata.propagation.max.ms", ms),
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::config::ClientConfig;

    use super::apply;
    use crate::drivers::protocol::{Assignor, Setting, Settings};

    #[test]
    fn settings_get_librdkafkas_names() {
        let mut config = ClientConfig::new();
        let settings = Settings(vec![
            Setting::Assignors(vec![Assignor::CooperativeSticky, Assignor::Range]),
            Setting::FetchMaxBytes(1000),
        ]);
        apply(&settings, &mut config);
        assert_eq!(
            config.get("partition.assignment.strategy"),
            Some("cooperative-sticky,range")
        );
        assert_eq!(config.get("receive.message.max.bytes"), Some("2001000"));
    }
}
