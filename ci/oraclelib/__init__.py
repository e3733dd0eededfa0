"""A real Apache Kafka from Maven artifacts, for comparing with."""
