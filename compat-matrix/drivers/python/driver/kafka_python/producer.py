"""Sending, waiting for every delivery report, transactions."""

import time

from kafka import KafkaProducer
from kafka.errors import KafkaError

from ..values import deliveries, numbers, outgoing
from .consumer import offsets


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

    def __init__(self, config: dict):
        self.acknowledged = config.get("acks") != 0
        self.producer = KafkaProducer(**config)

    def produce(self, op: dict) -> dict:
        return self.send(outgoing(op), op["timeout_ms"])

    def produce_numbers(self, op: dict) -> dict:
        return self.send(numbers(op), op["timeout_ms"])

    def send(self, records, timeout_ms: int) -> dict:
        deadline = time.monotonic() + timeout_ms / 1000
        sent = [self.enqueue(record) for record in records]
        return deliveries(
            each if isinstance(each, str) else self.report(each, deadline) for each in sent
        )

    def enqueue(self, record: dict):
        try:
            return self.producer.send(**record)
        except (KafkaError, AssertionError, ValueError) as error:
            return words(error)

    def report(self, future, deadline: float):
        """Partition and offset, or why not."""
        try:
            metadata = future.get(timeout=max(0.001, deadline - time.monotonic()))
        except KafkaError as error:
            return words(error)
        # Without acknowledgements the client makes an offset up.
        return metadata.partition, metadata.offset if self.acknowledged else -1

    def init_transactions(self, _op: dict) -> dict:
        self.producer.init_transactions()
        return {}

    def begin_transaction(self, _op: dict) -> dict:
        self.producer.begin_transaction()
        return {}

    def send_offsets(self, found: list, consumer) -> dict:
        self.producer.send_offsets_to_transaction(offsets(found), consumer.group_metadata())
        return {}

    def commit_transaction(self, _op: dict) -> dict:
        self.producer.commit_transaction()
        return {}

    def abort_transaction(self, _op: dict) -> dict:
        self.producer.abort_transaction()
        return {}

    def close(self) -> None:
        self.producer.close(timeout=5)


def words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
