//! The Kafka listener: accepted connections and the loop that serves each of them.
