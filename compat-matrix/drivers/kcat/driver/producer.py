"""Sending with kcat: what is one of a kind by a file, numbers by lines."""

from ..lines import Unsupported
from ..values import deliveries, outgoing
from .tool import Failed, Kcat, properties


class Producing:
    """The settings of a producer; there is one only while something is sent."""

    def __init__(self, kcat: Kcat, settings: dict):
        self.kcat = kcat
        self.settings = properties(settings)
        # What the program waits for, so that its own clock is not the first.
        self.settings.setdefault("message.timeout.ms", 20_000)

    def produce(self, op: dict) -> dict:
        return deliveries([self.send(record) for record in outgoing(op)])

    def send(self, record: dict):
        """Where it went, as far as kcat knows, or its words."""
        if record["headers"] or record["timestamp_ms"] is not None:
            raise Unsupported("headers that are any bytes, and times")
        if record["partition"] is None:
            raise Unsupported("where a record went")
        key, value = record["key"], record["value"]
        if not value:
            raise Unsupported("a value without a byte")
        if key is not None and b"\0" in key:
            raise Unsupported("a key with a zero byte")
        arguments = ["-P", "-t", record["topic"], "-p", str(record["partition"])]
        if key is not None:
            arguments += ["-k", key]
        file = self.kcat.folder / "value"
        file.write_bytes(value)
        try:
            self.kcat.run(*arguments, str(file), settings=self.settings)
        except Failed as failed:
            return str(failed)
        return record["partition"], -1

    def produce_numbers(self, op: dict) -> dict:
        first, count, partition = op["first"], op["count"], op["partition"]
        if partition is None:
            raise Unsupported("where a record went")
        values = (str(number).ljust(op["value_bytes"], ".") for number in range(first, first + count))
        arguments = ["-P", "-t", op["topic"], "-p", str(partition)]
        try:
            lines = "".join(f"{value}\n" for value in values).encode()
            self.kcat.run(*arguments, given=lines, settings=self.settings)
        except Failed as failed:
            return deliveries([str(failed)] * count)
        return deliveries([(partition, -1)] * count)
