"""kafka-python: a client in Python alone, with a network thread of its own."""

import kafka
from kafka.errors import KafkaError

from .. import session
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


class Session(session.Session):
    """The clients of one session."""

    Producing, Consuming, Administration = Producing, Consuming, Administration

    def __init__(self, begin: dict):
        super().__init__(common(begin))

    def open_producer(self, settings: dict):
        return Producing(self.common | producer(settings))

    def open_consumer(self, settings: dict):
        return Consuming(self.common | consumer(settings))
