"""The protocol's settings in librdkafka's names."""

import json

from ..lines import Unsupported
from ..values import COMMON

NAMES = json.loads((COMMON / "librdkafka.json").read_text())
# With KIP-848 the server decides these, and librdkafka refuses to be told.
SERVER_SIDE = {"session_timeout_ms", "heartbeat_interval_ms", "assignors"}


def common(begin: dict) -> dict:
    """What all clients of a session have."""
    config = {"bootstrap.servers": begin["bootstrap"], "client.id": begin["client_id"]}
    tls, sasl = begin.get("tls"), begin.get("sasl")
    if tls:
        config["ssl.ca.location"] = tls["ca_file"]
    if sasl:
        config |= {
            "sasl.mechanism": sasl["mechanism"],
            "sasl.username": sasl["username"],
            "sasl.password": sasl["password"],
        }
    config["security.protocol"] = ("SASL_" if sasl else "") + ("SSL" if tls else "PLAINTEXT")
    return config


def client(settings: dict) -> dict:
    """What one client has beside that."""
    config = {}
    for name, value in settings.items():
        if name in SERVER_SIDE and settings.get("group_protocol") == "consumer":
            continue
        own = NAMES.get(name)
        if own is None:
            raise Unsupported(f"setting.{name}")
        if name == "partitioner":
            # It keys like Java, and scatters records without a key.
            value = "murmur2_random"
        if isinstance(value, list):
            value = ",".join(value)
        if isinstance(own, dict):
            config |= {each: value + more for each, more in own.items()}
        else:
            config[own] = value
    return config
