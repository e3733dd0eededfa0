"""confluent-kafka: librdkafka for Python."""

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from ..lines import Unsupported
from ..values import all_but, code_name
from .admin import Administration
from .consumer import Consuming
from .producer import Producing
from .settings import client, common

CLIENT = "confluent-kafka"
VERSION = confluent_kafka.__version__
CAN = all_but("assignor.sticky", "delete_group_offsets", "describe_log_dirs")


def code(error: BaseException) -> str | None:
    """librdkafka's own codes are negative."""
    if isinstance(error, KafkaException) and isinstance(error.args[0], KafkaError):
        return code_name(error.args[0].code())
    return None


class Session:
    """The clients of one session."""

    def __init__(self, begin: dict):
        self.common = common(begin)
        self.producer = self.consumer = self.admin = None

    def perform(self, op: dict) -> dict:
        match op["op"]:
            case "open_producer":
                self.close_producer()
                self.producer = Producing(self.common | client(op["settings"]))
                return {}
            case "close_producer":
                self.close_producer()
                return {}
            case "open_consumer":
                self.close_consumer()
                self.consumer = Consuming(self.common | client(op["settings"]))
                return {}
            case "close_consumer":
                self.close_consumer()
                return {}
            case "send_offsets":
                return opened(self.producer, "producer").send_offsets(
                    op["offsets"], opened(self.consumer, "consumer").consumer
                )
            case name if name in Producing.OPERATIONS:
                return getattr(opened(self.producer, "producer"), name)(op)
            case name if name in Consuming.OPERATIONS:
                return getattr(opened(self.consumer, "consumer"), name)(op)
            case name if name in Administration.OPERATIONS:
                self.admin = self.admin or Administration(self.common)
                return getattr(self.admin, name)(op)
            case name:
                raise Unsupported(name)

    def close_producer(self) -> None:
        if self.producer is not None:
            self.producer.close()
        self.producer = None

    def close_consumer(self) -> None:
        if self.consumer is not None:
            self.consumer.close()
        self.consumer = None

    def close(self) -> None:
        self.close_producer()
        self.close_consumer()
        self.admin = None


def opened(what, name: str):
    if what is None:
        raise RuntimeError(f"this session has no {name} open")
    return what
