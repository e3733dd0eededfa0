//! `QUEEN_KAFKA_HTTP_ADDR`: health, readiness, metrics, the embedded Queen's console.
