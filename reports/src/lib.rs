//! The result of checks and its renderings, per Kafka API.
