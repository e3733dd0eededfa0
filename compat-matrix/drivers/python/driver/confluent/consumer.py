"""Groups, assignments, positions, commits, offsets by time."""

import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

from ..values import code_name, place, places, text

CALL_S = 15
SLICE_S = 0.05
UNKNOWN = -1001


def listed(found: list) -> list[TopicPartition]:
    """Places with offsets and metadata."""
    return [
        TopicPartition(
            each["topic"], each["partition"], each["offset"], each.get("metadata", "")
        )
        for each in found
    ]


def unplaced(found: list) -> list[TopicPartition]:
    """Places whose offsets are ignored."""
    return [TopicPartition(each["topic"], each["partition"]) for each in found]


def answered(found: list[TopicPartition]) -> dict:
    for each in found:
        if each.error:
            raise KafkaException(each.error)
    return places(
        place(e.topic, e.partition, -1 if e.offset == UNKNOWN else e.offset, e.metadata)
        for e in found
    )


class Consuming:
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
        self.unanswered = 0
        self.consumer = Consumer(config | {"on_commit": self.on_commit})

    def on_commit(self, error, _partitions) -> None:
        # It is called for commits that were waited for, too.
        if self.unanswered > 0:
            self.unanswered -= 1
            self.events.append({"event": "committed", "error": error and str(error)})

    def note(self, what: str, partitions: list[TopicPartition]) -> None:
        found = [place(each.topic, each.partition, -1) for each in partitions]
        self.events.append({"event": what, "partitions": places(found)["places"]})

    def subscribe(self, op: dict) -> dict:
        self.consumer.subscribe(
            op["topics"],
            on_assign=lambda _, partitions: self.note("assigned", partitions),
            on_revoke=lambda _, partitions: self.note("revoked", partitions),
            on_lost=lambda _, partitions: self.note("revoked", partitions),
        )
        return {}

    def unsubscribe(self, _op: dict) -> dict:
        self.consumer.unsubscribe()
        return {}

    def assign(self, op: dict) -> dict:
        self.consumer.assign(listed(op["partitions"]))
        return {}

    def poll(self, op: dict) -> dict:
        idle = op["idle_ms"] / 1000
        records: list = []
        quiet_since = time.monotonic()
        while len(records) < op["max"] and time.monotonic() - quiet_since < idle:
            message = self.consumer.poll(min(SLICE_S, idle))
            if message is None:
                continue
            if error := message.error():
                name = code_name(error.code()) or error.name()
                self.events.append({"event": "error", "message": f"{name}: {error.str()}"})
                continue
            records.append(incoming(message))
            quiet_since = time.monotonic()
        events, self.events = self.events, []
        return {"records": records, "events": events}

    def commit(self, op: dict) -> dict:
        what = {} if op["offsets"] is None else {"offsets": listed(op["offsets"])}
        if op["asynchronous"]:
            self.unanswered += 1
            self.consumer.commit(asynchronous=True, **what)
        else:
            answered(self.consumer.commit(asynchronous=False, **what))
        return {}

    def committed(self, op: dict) -> dict:
        return answered(self.consumer.committed(unplaced(op["partitions"]), CALL_S))

    def position(self, _op: dict) -> dict:
        return answered(self.consumer.position(self.consumer.assignment()))

    def assignment(self, _op: dict) -> dict:
        return answered(self.consumer.assignment())

    def pause(self, op: dict) -> dict:
        self.consumer.pause(unplaced(op["partitions"]))
        return {}

    def resume(self, op: dict) -> dict:
        self.consumer.resume(unplaced(op["partitions"]))
        return {}

    def seek(self, op: dict) -> dict:
        self.consumer.seek(listed([op["partition"]])[0])
        return {}

    def offsets_for_times(self, op: dict) -> dict:
        return answered(self.consumer.offsets_for_times(listed(op["partitions"]), CALL_S))

    def watermarks(self, op: dict) -> dict:
        partition = TopicPartition(op["topic"], op["partition"])
        low, high = self.consumer.get_watermark_offsets(partition, CALL_S)
        return {"low": low, "high": high}

    def close(self) -> None:
        self.consumer.close()


def incoming(message) -> dict:
    kind, timestamp = message.timestamp()
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "key": text(message.key()),
        "value": text(message.value()),
        "headers": [[name, text(value)] for name, value in message.headers() or []],
        # 0: the message has none.
        "timestamp_ms": timestamp if kind else None,
    }
