"""aiokafka: the asyncio client."""

import aiokafka
from aiokafka.errors import KafkaError

from ..lines import Unsupported
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


class Session:
    """The clients of one session."""

    def __init__(self, begin: dict):
        self.common = common(begin)
        self.producer = self.consumer = self.admin = None

    async def perform(self, op: dict) -> dict:
        match op["op"]:
            case "open_producer":
                await self.close_producer()
                self.producer = await Producing.open(self.common | producer(op["settings"]))
                return {}
            case "close_producer":
                await self.close_producer()
                return {}
            case "open_consumer":
                await self.close_consumer()
                self.consumer = await Consuming.open(self.common | consumer(op["settings"]))
                return {}
            case "close_consumer":
                await self.close_consumer()
                return {}
            case "send_offsets":
                group = opened(self.consumer, "consumer").group
                return await opened(self.producer, "producer").send_offsets(op["offsets"], group)
            case name if name in Producing.OPERATIONS:
                return await getattr(opened(self.producer, "producer"), name)(op)
            case name if name in Consuming.OPERATIONS:
                return await getattr(opened(self.consumer, "consumer"), name)(op)
            case name if name in Administration.OPERATIONS:
                self.admin = self.admin or await Administration.open(self.common)
                return await getattr(self.admin, name)(op)
            case name:
                raise Unsupported(name)

    async def close_producer(self) -> None:
        open_one, self.producer = self.producer, None
        if open_one is not None:
            await open_one.close()

    async def close_consumer(self) -> None:
        open_one, self.consumer = self.consumer, None
        if open_one is not None:
            await open_one.close()

    async def close(self) -> None:
        await self.close_producer()
        await self.close_consumer()
        if self.admin is not None:
            await self.admin.close()
        self.admin = None


def opened(what, name: str):
    if what is None:
        raise RuntimeError(f"this session has no {name} open")
    return what
