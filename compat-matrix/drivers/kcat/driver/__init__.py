"""kcat: the command line of librdkafka. Each producing and listing is a program of its own, and each
partition that is read has one that runs."""

import re
import subprocess

from ..lines import Unsupported
from .consumer import Consuming
from .producer import Producing
from .tool import Failed, Kcat

CLIENT = "kcat"
VERSION = re.search(
    r"Version (\S+)", subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
)[1]
# It commits offsets only for itself, tells no assignment and no offset of what it has sent, and shows
# headers as text without quotes.
CAN = {
    "open_producer",
    "produce",
    "produce_numbers",
    "close_producer",
    "open_consumer",
    "assign",
    "poll",
    "close_consumer",
    "metadata",
    "watermarks",
    "offsets_for_times",
    "record.partition",
    "partitioner.murmur2",
    "offset_reset.error",
    "offset_reset.earliest",
    "offset_reset.latest",
    "isolation.read_committed",
    "isolation.read_uncommitted",
    "security.tls",
    "security.plain",
    "security.scram",
}
CAN |= {f"codec.{name}" for name in ("none", "gzip", "snappy", "lz4", "zstd")}
CAN |= {
    f"setting.{name}"
    for name in (
        "acks",
        "compression",
        "partitioner",
        "linger_ms",
        "batch_records",
        "batch_bytes",
        "max_in_flight",
        "delivery_timeout_ms",
        "group_id",
        "auto_commit",
        "offset_reset",
        "isolation",
        "fetch_max_wait_ms",
        "metadata_refresh_ms",
        "request_timeout_ms",
        "retry_backoff_ms",
        "reconnect_backoff_ms",
        "reconnect_backoff_max_ms",
        "topic_propagation_ms",
    )
}


def code(error: BaseException) -> str | None:
    """What kcat prints is librdkafka's sentence, not a code."""
    return error.code if isinstance(error, Failed) else None


class Session:
    """One cluster to talk to."""

    def __init__(self, begin: dict):
        self.kcat = Kcat(begin)
        self.producer = self.consumer = None

    def perform(self, op: dict) -> dict:
        match op["op"]:
            case "open_producer":
                self.producer = Producing(self.kcat, op["settings"])
                return {}
            case "close_producer":
                self.producer = None
                return {}
            case "produce" | "produce_numbers" as name:
                return getattr(opened(self.producer, "producer"), name)(op)
            case "open_consumer":
                self.close_consumer()
                self.consumer = Consuming(self.kcat, op["settings"])
                return {}
            case "close_consumer":
                self.close_consumer()
                return {}
            case "assign" | "poll" as name:
                return getattr(opened(self.consumer, "consumer"), name)(op)
            case "metadata" | "watermarks" | "offsets_for_times" as name:
                return getattr(self.kcat, name)(op)
            case name:
                raise Unsupported(name)

    def close_consumer(self) -> None:
        if self.consumer is not None:
            self.consumer.close()
        self.consumer = None

    def close(self) -> None:
        self.close_consumer()
        self.producer = None
        self.kcat.close()


def opened(what, name: str):
    if what is None:
        raise RuntimeError(f"this session has no {name} open")
    return what
