"""Groups, assignments, positions, commits, offsets by time."""

import re
import time

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from ..values import place, places, text
from .settings import CALL_MS

# The client forgets a join that one call does not finish, against Apache Kafka as well, so a call may
# last longer than the silence that ends a poll.
SLICE_MS = 300
BEGINNING, END = -2, -1


def partition(found: dict) -> TopicPartition:
    return TopicPartition(found["topic"], found["partition"])


def partitions(found: list) -> list[TopicPartition]:
    return [partition(each) for each in found]


def offsets(found: list) -> dict:
    """What a commit takes."""
    return {
        partition(each): OffsetAndMetadata(each["offset"], each.get("metadata", ""), -1)
        for each in found
    }


class Consuming(ConsumerRebalanceListener):
    """The session's consumer."""

    OPERATIONS = {
        "subscribe",
        "assign",
        "poll",
        "commit",
        "committed",
        "position",
        "assignment",
        "pause",
        "resume",
        "seek",
        "offsets_for_times",
        "watermarks",
        "unsubscribe",
    }

    def __init__(self, config: dict):
        self.events: list = []
        self.consumer = KafkaConsumer(**config)

    def on_partitions_assigned(self, assigned) -> None:
        self.note("assigned", assigned)

    def on_partitions_revoked(self, revoked) -> None:
        self.note("revoked", revoked)

    def note(self, what: str, found) -> None:
        listed = places(place(each.topic, each.partition, -1) for each in found)["places"]
        self.events.append({"event": what, "partitions": listed})

    def subscribe(self, op: dict) -> dict:
        topics = op["topics"]
        if any(topic.startswith("^") for topic in topics):
            parts = [t if t.startswith("^") else f"^{re.escape(t)}$" for t in topics]
            self.consumer.subscribe(pattern="|".join(parts), listener=self)
        else:
            self.consumer.subscribe(topics, listener=self)
        return {}

    def unsubscribe(self, _op: dict) -> dict:
        self.consumer.unsubscribe()
        return {}

    def assign(self, op: dict) -> dict:
        self.consumer.assign(partitions(op["partitions"]))
        for each in op["partitions"]:
            self.seek({"partition": each})
        return {}

    def poll(self, op: dict) -> dict:
        idle = op["idle_ms"] / 1000
        records: list = []
        quiet_since = time.monotonic()
        while len(records) < op["max"] and time.monotonic() - quiet_since < idle:
            try:
                found = self.consumer.poll(SLICE_MS, max_records=op["max"] - len(records))
            except KafkaError as error:
                self.error(f"{type(error).__name__}: {error}")
                time.sleep(min(0.05, idle))
                continue
            for each in found.values():
                records += [incoming(record) for record in each]
                quiet_since = time.monotonic()
        events, self.events = self.events, []
        return {"records": records, "events": events}

    def error(self, message: str) -> None:
        """An error that stands repeats in each poll; it is told once."""
        event = {"event": "error", "message": message}
        if self.events[-1:] != [event]:
            self.events.append(event)

    def commit(self, op: dict) -> dict:
        what = None if op["offsets"] is None else offsets(op["offsets"])
        if op["asynchronous"]:
            self.consumer.commit_async(what, callback=self.on_commit)
        else:
            self.consumer.commit(what, timeout_ms=CALL_MS)
        return {}

    def on_commit(self, _offsets, response) -> None:
        failed = isinstance(response, Exception)
        self.events.append(
            {"event": "committed", "error": repr(response) if failed else None}
        )

    def committed(self, op: dict) -> dict:
        found = {
            each: self.consumer.committed(each, metadata=True, timeout_ms=CALL_MS)
            for each in partitions(op["partitions"])
        }
        return committed_places(found)

    def position(self, _op: dict) -> dict:
        return places(
            place(each.topic, each.partition, self.consumer.position(each, timeout_ms=CALL_MS))
            for each in self.consumer.assignment()
        )

    def assignment(self, _op: dict) -> dict:
        return places(
            place(each.topic, each.partition, -1) for each in self.consumer.assignment()
        )

    def pause(self, op: dict) -> dict:
        self.consumer.pause(*partitions(op["partitions"]))
        return {}

    def resume(self, op: dict) -> dict:
        self.consumer.resume(*partitions(op["partitions"]))
        return {}

    def seek(self, op: dict) -> dict:
        where, offset = partition(op["partition"]), op["partition"]["offset"]
        if offset == BEGINNING:
            self.consumer.seek_to_beginning(where)
        elif offset == END:
            self.consumer.seek_to_end(where)
        else:
            self.consumer.seek(where, offset)
        return {}

    def offsets_for_times(self, op: dict) -> dict:
        times = {partition(each): each["offset"] for each in op["partitions"]}
        found = self.consumer.offsets_for_times(times, timeout_ms=CALL_MS)
        return places(
            place(each.topic, each.partition, at.offset if at else -1)
            for each, at in found.items()
        )

    def watermarks(self, op: dict) -> dict:
        one = partition(op)
        return {
            "low": self.consumer.beginning_offsets([one], timeout_ms=CALL_MS)[one],
            "high": self.consumer.end_offsets([one], timeout_ms=CALL_MS)[one],
        }

    def close(self) -> None:
        self.consumer.close(timeout_ms=5000)


def committed_places(found: dict) -> dict:
    return places(
        place(each.topic, each.partition, at.offset, at.metadata)
        if at is not None
        else place(each.topic, each.partition, -1)
        for each, at in found.items()
    )


def incoming(record) -> dict:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "key": text(record.key),
        "value": text(record.value),
        "headers": [[name, text(value)] for name, value in record.headers],
        "timestamp_ms": record.timestamp,
    }
