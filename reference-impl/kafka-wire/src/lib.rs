//! Kafka frames, the annotated schema, bounded walk, splice, record batches, error codes.
