"""confluent-kafka: librdkafka for Python."""

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from .. import session
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


class Session(session.Session):
    """The clients of one session."""

    Producing, Consuming, Administration = Producing, Consuming, Administration

    def __init__(self, begin: dict):
        super().__init__(common(begin))

    def open_producer(self, settings: dict):
        return Producing(self.common | client(settings))

    def open_consumer(self, settings: dict):
        return Consuming(self.common | client(settings))
