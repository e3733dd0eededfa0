"""Sending, waiting for every delivery report, transactions."""

import time

from confluent_kafka import KafkaError, KafkaException, Producer

from ..values import code_name, deliveries, numbers, outgoing
from .consumer import listed

CALL_S = 15


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
        self.producer = Producer(config)

    def produce(self, op: dict) -> dict:
        return self.send(outgoing(op), op["timeout_ms"])

    def produce_numbers(self, op: dict) -> dict:
        return self.send(numbers(op), op["timeout_ms"])

    def send(self, records, timeout_ms: int) -> dict:
        deadline = time.monotonic() + timeout_ms / 1000
        results: list = []
        for index, record in enumerate(records):
            results.append("no delivery report in time")
            try:
                self.enqueue(record, results, index, deadline)
            except (BufferError, KafkaException) as error:
                results[index] = f"{type(error).__name__}: {error}"
        self.producer.flush(max(0, deadline - time.monotonic()))
        return deliveries(results)

    def enqueue(self, record: dict, results: list, index: int, deadline: float) -> None:
        def report(error: KafkaError | None, message) -> None:
            if error:
                results[index] = words(error)
            else:
                # Without acknowledgements nobody knows the offset.
                offset = message.offset()
                results[index] = (message.partition(), -1 if offset is None else max(offset, -1))

        more = {} if record["timestamp_ms"] is None else {"timestamp": record["timestamp_ms"]}
        while True:
            try:
                self.producer.produce(
                    record["topic"],
                    value=record["value"],
                    key=record["key"],
                    partition=-1 if record["partition"] is None else record["partition"],
                    headers=record["headers"],
                    on_delivery=report,
                    **more,
                )
                return
            except BufferError:
                if time.monotonic() >= deadline:
                    raise
                self.producer.poll(0.005)

    def init_transactions(self, _op: dict) -> dict:
        self.producer.init_transactions(CALL_S)
        return {}

    def begin_transaction(self, _op: dict) -> dict:
        self.producer.begin_transaction()
        return {}

    def send_offsets(self, offsets: list, consumer) -> dict:
        metadata = consumer.consumer_group_metadata()
        self.producer.send_offsets_to_transaction(listed(offsets), metadata, CALL_S)
        return {}

    def commit_transaction(self, _op: dict) -> dict:
        self.producer.commit_transaction(CALL_S)
        return {}

    def abort_transaction(self, _op: dict) -> dict:
        self.producer.abort_transaction(CALL_S)
        return {}

    def close(self) -> None:
        self.producer.flush(5)
        self.producer = None


def words(error: KafkaError) -> str:
    return f"{code_name(error.code()) or error.name()}: {error.str()}"
