"""Sending, waiting for every delivery report, transactions."""

import asyncio

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from ..values import deliveries, numbers, outgoing
from .consumer import offsets
from .settings import bounded


class Producing:
    """The session's producer."""

    OPERATIONS = {
        "produce",
        "produce_numbers",
        "init_transactions",
        "begin_transaction",
        "commit_transaction",
        "abort_transaction",
    }

    @classmethod
    async def open(cls, config: dict):
        self = cls()
        self.acknowledged = config.get("acks") != 0
        self.producer = AIOKafkaProducer(**config)
        # Starting a transactional producer is what other clients call initTransactions.
        if "transactional_id" not in config:
            await start(self.producer)
        return self

    async def produce(self, op: dict) -> dict:
        return await self.send(outgoing(op), op["timeout_ms"])

    async def produce_numbers(self, op: dict) -> dict:
        return await self.send(numbers(op), op["timeout_ms"])

    async def send(self, records, timeout_ms: int) -> dict:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        sent = []
        partitions = []
        for record in records:
            partitions.append(-1 if record["partition"] is None else record["partition"])
            try:
                left = max(0.001, deadline - loop.time())
                sent.append(await asyncio.wait_for(self.producer.send(**record), left))
            except (KafkaError, AssertionError, ValueError, TimeoutError) as error:
                sent.append(words(error))
        return deliveries(
            [await self.report(each, to, deadline) for each, to in zip(sent, partitions)]
        )

    async def report(self, sent, partition: int, deadline: float):
        """Partition and offset, or why not."""
        if isinstance(sent, str):
            return sent
        left = max(0.001, deadline - asyncio.get_running_loop().time())
        try:
            metadata = await asyncio.wait_for(sent, left)
        except (KafkaError, TimeoutError) as error:
            return words(error)
        # Without acknowledgements nobody knows the offset, nor the partition that was chosen.
        if metadata is None or not self.acknowledged:
            return partition, -1
        return metadata.partition, metadata.offset

    async def init_transactions(self, _op: dict) -> dict:
        await start(self.producer)
        return {}

    async def begin_transaction(self, _op: dict) -> dict:
        await bounded(self.producer.begin_transaction())
        return {}

    async def send_offsets(self, found: list, group: str) -> dict:
        await bounded(self.producer.send_offsets_to_transaction(offsets(found), group))
        return {}

    async def commit_transaction(self, _op: dict) -> dict:
        await bounded(self.producer.commit_transaction())
        return {}

    async def abort_transaction(self, _op: dict) -> dict:
        await bounded(self.producer.abort_transaction())
        return {}

    async def close(self) -> None:
        await stop(self.producer)


async def start(client) -> None:
    """A client that did not start must be stopped all the same, or it warns for ever."""
    try:
        await bounded(client.start())
    except BaseException:
        await stop(client)
        raise


async def stop(client) -> None:
    try:
        await asyncio.wait_for(client.stop(), 5)
    except TimeoutError:
        pass


def words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
