//! Real clients and raw wire probes against any Kafka endpoint, ending in a report.
