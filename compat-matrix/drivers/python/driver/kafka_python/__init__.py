"""kafka-python: a client in Python alone, with a network thread of its own."""

import kafka
from kafka.errors import KafkaError

from ..lines import Unsupported
from ..values import all_but, code_name
from .admin import Administration
from .consumer import Consuming
from .producer import Producing
from .settings import common, consumer, producer

CLIENT = "kafka-python"
VERSION = kafka.__version__
CAN = all_but(
    "record.header_null",
    "setting.batch_records",
    "setting.topic_propagation_ms",
    "setting.group_protocol",
    "group_protocol.classic",
    "group_protocol.consumer",
)


def code(error: BaseException) -> str | None:
    """The client's own errors have no number."""
    number = getattr(error, "errno", None) if isinstance(error, KafkaError) else None
    return code_name(number) if isinstance(number, int) else None


class Session:
    """The clients of one session."""

    def __init__(self, begin: dict):
        self.common = common(begin)
        self.producer = self.consumer = self.admin = None

    def perform(self, op: dict) -> dict:
        match op["op"]:
            case "open_producer":
                self.close_producer()
                self.producer = Producing(self.common | producer(op["settings"]))
                return {}
            case "close_producer":
                self.close_producer()
                return {}
            case "open_consumer":
                self.close_consumer()
                self.consumer = Consuming(self.common | consumer(op["settings"]))
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
        if self.admin is not None:
            self.admin.close()
        self.admin = None


def opened(what, name: str):
    if what is None:
        raise RuntimeError(f"this session has no {name} open")
    return what
