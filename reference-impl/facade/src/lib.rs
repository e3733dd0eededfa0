//! The Kafka protocol in front of Queen MQ: binary queen-kafka.
