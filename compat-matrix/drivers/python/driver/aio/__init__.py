"""aiokafka: the asyncio client."""

import aiokafka
from aiokafka.errors import KafkaError

from .. import session
from ..values import all_but, code_name
from .admin import Administration
from .consumer import Consuming
from .producer import Producing
from .settings import common, consumer, producer

CLIENT = "aiokafka"
VERSION = aiokafka.__version__
CAN = all_but(
    "alter_group_offsets",
    "assignor.cooperative-sticky",
    "change_topic_config",
    # What was committed is told without it.
    "commit.metadata",
    "delete_group_offsets",
    "delete_groups",
    "describe_log_dirs",
    # It breaks on the members that Apache Kafka describes ("Buffer underrun decoding string").
    "groups",
    "group_protocol.classic",
    "group_protocol.consumer",
    "list_offsets",
    "record.header_null",
    "setting.auto_create_topics",
    "setting.batch_records",
    "setting.delivery_timeout_ms",
    "setting.group_protocol",
    "setting.max_in_flight",
    "setting.reconnect_backoff_max_ms",
    "setting.reconnect_backoff_ms",
    "setting.topic_propagation_ms",
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
        return Producing.open(self.common | producer(settings))

    def open_consumer(self, settings: dict):
        return Consuming.open(self.common | consumer(settings))

    def open_admin(self):
        return Administration.open(self.common)

    def send_offsets(self, offsets: list):
        return self.opened("producer").send_offsets(offsets, self.opened("consumer").group)
