"""The protocol's settings in kafka-python's names."""

from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from ..values import setting_names

CALL_MS = 15_000

BOTH = {
    "metadata_refresh_ms": "metadata_max_age_ms",
    "request_timeout_ms": "request_timeout_ms",
    "retry_backoff_ms": "retry_backoff_ms",
    "reconnect_backoff_ms": "reconnect_backoff_ms",
    "reconnect_backoff_max_ms": "reconnect_backoff_max_ms",
}
PRODUCER = BOTH | {
    "acks": "acks",
    "idempotence": "enable_idempotence",
    "transactional_id": "transactional_id",
    "transaction_timeout_ms": "transaction_timeout_ms",
    "compression": "compression_type",
    "partitioner": "partitioner",
    "max_request_bytes": "max_request_size",
    "linger_ms": "linger_ms",
    "batch_bytes": "batch_size",
    "max_in_flight": "max_in_flight_requests_per_connection",
    "delivery_timeout_ms": "delivery_timeout_ms",
}
CONSUMER = BOTH | {
    "group_id": "group_id",
    "group_instance_id": "group_instance_id",
    "assignors": "partition_assignment_strategy",
    "auto_commit": "enable_auto_commit",
    "auto_commit_interval_ms": "auto_commit_interval_ms",
    "offset_reset": "auto_offset_reset",
    "isolation": "isolation_level",
    "fetch_max_wait_ms": "fetch_max_wait_ms",
    "fetch_max_bytes": "fetch_max_bytes",
    "auto_create_topics": "allow_auto_create_topics",
    "session_timeout_ms": "session_timeout_ms",
    "heartbeat_interval_ms": "heartbeat_interval_ms",
    "max_poll_interval_ms": "max_poll_interval_ms",
}
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


def common(begin: dict) -> dict:
    """What all clients of a session have."""
    config = {
        "bootstrap_servers": begin["bootstrap"],
        "client_id": begin["client_id"],
        "bootstrap_timeout_ms": CALL_MS,
    }
    tls, sasl = begin.get("tls"), begin.get("sasl")
    if tls:
        config["ssl_cafile"] = tls["ca_file"]
    if sasl:
        config |= {
            "sasl_mechanism": sasl["mechanism"],
            "sasl_plain_username": sasl["username"],
            "sasl_plain_password": sasl["password"],
        }
    config["security_protocol"] = ("SASL_" if sasl else "") + ("SSL" if tls else "PLAINTEXT")
    return config


def producer(settings: dict) -> dict:
    config = setting_names(settings, PRODUCER)
    if config.get("acks", "all") != "all":
        config["acks"] = int(config["acks"])
        # Idempotence is on unless it is asked away, and it wants all acknowledgements.
        config.setdefault("enable_idempotence", False)
    if config.get("compression_type") == "none":
        config["compression_type"] = None
    # The client's own is the one.
    config.pop("partitioner", None)
    config["max_block_ms"] = CALL_MS
    deliver = config.get("delivery_timeout_ms")
    if deliver is not None and "request_timeout_ms" not in config:
        rest = deliver - config.get("linger_ms", 0)
        config["request_timeout_ms"] = min(30_000, rest)
    return config


def consumer(settings: dict) -> dict:
    config = setting_names(settings, CONSUMER)
    if "partition_assignment_strategy" in config:
        words = config["partition_assignment_strategy"]
        config["partition_assignment_strategy"] = [ASSIGNORS[word] for word in words]
    if config.get("auto_offset_reset") == "error":
        config["auto_offset_reset"] = "none"
    if "fetch_max_bytes" in config:
        config["max_partition_fetch_bytes"] = config["fetch_max_bytes"]
    return config
