"""Groups, assignments, positions, commits, offsets by time."""

import asyncio
import re

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata

from ..values import place, places, text
from .settings import bounded

SLICE_MS = 50
BEGINNING, END = -2, -1


def partition(found: dict) -> TopicPartition:
    return TopicPartition(found["topic"], found["partition"])


def partitions(found: list) -> list[TopicPartition]:
    return [partition(each) for each in found]


def offsets(found: list) -> dict:
    """What a commit takes."""
    return {
        partition(each): OffsetAndMetadata(each["offset"], each.get("metadata", ""))
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

    @classmethod
    async def open(cls, config: dict):
        self = cls()
        self.events = []
        self.commits = set()
        self.group = config.get("group_id")
        self.consumer = AIOKafkaConsumer(**config)
        try:
            await bounded(self.consumer.start())
        except BaseException:
            await self.close()
            raise
        return self

    def on_partitions_assigned(self, assigned) -> None:
        self.note("assigned", assigned)

    def on_partitions_revoked(self, revoked) -> None:
        self.note("revoked", revoked)

    def note(self, what: str, found) -> None:
        listed = places(place(each.topic, each.partition, -1) for each in found)["places"]
        self.events.append({"event": what, "partitions": listed})

    async def subscribe(self, op: dict) -> dict:
        topics = op["topics"]
        if any(topic.startswith("^") for topic in topics):
            parts = [t if t.startswith("^") else f"^{re.escape(t)}$" for t in topics]
            self.consumer.subscribe(pattern="|".join(parts), listener=self)
        else:
            self.consumer.subscribe(topics, listener=self)
        return {}

    async def unsubscribe(self, _op: dict) -> dict:
        self.consumer.unsubscribe()
        return {}

    async def assign(self, op: dict) -> dict:
        self.consumer.assign(partitions(op["partitions"]))
        for each in op["partitions"]:
            await self.seek({"partition": each})
        return {}

    async def poll(self, op: dict) -> dict:
        idle = op["idle_ms"] / 1000
        loop = asyncio.get_running_loop()
        records: list = []
        quiet_since = loop.time()
        while len(records) < op["max"] and loop.time() - quiet_since < idle:
            if not self.consumer.subscription() and not self.consumer.assignment():
                # It would wait for a subscription, not for the time given.
                await asyncio.sleep(min(SLICE_MS / 1000, idle))
                continue
            try:
                found = await bounded(
                    self.consumer.getmany(
                        timeout_ms=min(SLICE_MS, op["idle_ms"]),
                        max_records=op["max"] - len(records),
                    )
                )
            except KafkaError as error:
                self.error(f"{type(error).__name__}: {error}")
                await asyncio.sleep(min(SLICE_MS / 1000, idle))
                continue
            for each in found.values():
                records += [incoming(record) for record in each]
                quiet_since = loop.time()
        events, self.events = self.events, []
        return {"records": records, "events": events}

    def error(self, message: str) -> None:
        """An error that stands repeats in each poll; it is told once."""
        event = {"event": "error", "message": message}
        if self.events[-1:] != [event]:
            self.events.append(event)

    async def commit(self, op: dict) -> dict:
        what = None if op["offsets"] is None else offsets(op["offsets"])
        commit = self.commit_as_holder(what)
        if op["asynchronous"]:
            task = asyncio.ensure_future(self.in_background(commit))
            self.commits.add(task)
            task.add_done_callback(self.commits.discard)
        else:
            await commit
        return {}

    async def commit_as_holder(self, what: dict | None) -> None:
        """The client commits for partitions that it holds, and for no others."""
        holds = self.consumer.subscription() or self.consumer.assignment()
        if what is None or holds:
            await bounded(self.consumer.commit(what))
            return
        self.consumer.assign(list(what))
        try:
            await bounded(self.consumer.commit(what))
        finally:
            self.consumer.unsubscribe()

    async def in_background(self, commit) -> None:
        error = None
        try:
            await commit
        except (KafkaError, TimeoutError) as failure:
            error = repr(failure)
        self.events.append({"event": "committed", "error": error})

    async def committed(self, op: dict) -> dict:
        found = []
        for each in partitions(op["partitions"]):
            offset = await bounded(self.consumer.committed(each))
            found.append(place(each.topic, each.partition, -1 if offset is None else offset))
        return places(found)

    async def position(self, _op: dict) -> dict:
        found = []
        for each in self.consumer.assignment():
            found.append(
                place(each.topic, each.partition, await bounded(self.consumer.position(each)))
            )
        return places(found)

    async def assignment(self, _op: dict) -> dict:
        return places(
            place(each.topic, each.partition, -1) for each in self.consumer.assignment()
        )

    async def pause(self, op: dict) -> dict:
        self.consumer.pause(*partitions(op["partitions"]))
        return {}

    async def resume(self, op: dict) -> dict:
        self.consumer.resume(*partitions(op["partitions"]))
        return {}

    async def seek(self, op: dict) -> dict:
        where, offset = partition(op["partition"]), op["partition"]["offset"]
        if offset == BEGINNING:
            await bounded(self.consumer.seek_to_beginning(where))
        elif offset == END:
            await bounded(self.consumer.seek_to_end(where))
        else:
            self.consumer.seek(where, offset)
        return {}

    async def offsets_for_times(self, op: dict) -> dict:
        times = {partition(each): each["offset"] for each in op["partitions"]}
        found = await bounded(self.consumer.offsets_for_times(times))
        return places(
            place(each.topic, each.partition, at.offset if at else -1)
            for each, at in found.items()
        )

    async def watermarks(self, op: dict) -> dict:
        one = partition(op)
        return {
            "low": (await bounded(self.consumer.beginning_offsets([one])))[one],
            "high": (await bounded(self.consumer.end_offsets([one])))[one],
        }

    async def close(self) -> None:
        try:
            await asyncio.wait_for(self.consumer.stop(), 5)
        except TimeoutError:
            pass


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
