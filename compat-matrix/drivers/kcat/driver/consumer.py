"""Reading with kcat: a program for each partition, whose output is taken apart by lengths."""

import queue
import subprocess
import threading

from ..values import text
from .tool import Kcat, properties

# Time, offset, and the lengths of key and value, -1 where there is none.
FORMAT = "%T %o %K %S\\n%k%s\\n"


class Consuming:
    """What is assigned, each partition's program running."""

    def __init__(self, kcat: Kcat, settings: dict):
        self.kcat = kcat
        self.settings = properties(settings)
        # Only with a group, which it would not use.
        self.settings.pop("group.id", None)
        self.settings.pop("enable.auto.commit", None)
        self.running: list[subprocess.Popen] = []
        self.came: queue.Queue = queue.Queue()

    def assign(self, op: dict) -> dict:
        self.stop()
        self.came = queue.Queue()
        for each in op["partitions"]:
            named = {-2: "beginning", -1: "end"}
            where = named.get(each["offset"], str(each["offset"]))
            arguments = ["-C", "-u", "-q", "-t", each["topic"], "-p", str(each["partition"])]
            arguments += ["-o", where, "-f", FORMAT]
            program = subprocess.Popen(
                self.kcat.command(*arguments, **self.settings),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            self.running.append(program)
            threading.Thread(
                target=read, args=(program, each, self.came), daemon=True
            ).start()
        return {}

    def poll(self, op: dict) -> dict:
        records, events = [], []
        while len(records) < op["max"]:
            try:
                kind, what = self.came.get(timeout=op["idle_ms"] / 1000)
            except queue.Empty:
                break
            if kind == "record":
                records.append(what)
            else:
                events.append({"event": "error", "message": what})
        return {"records": records, "events": events}

    def stop(self) -> None:
        for program in self.running:
            program.kill()
        for program in self.running:
            program.wait()
        self.running = []

    def close(self) -> None:
        self.stop()


def read(program: subprocess.Popen, place: dict, came: queue.Queue) -> None:
    """Hands on what a program prints, until it ends."""
    while head := program.stdout.readline():
        when, offset, key_bytes, value_bytes = map(int, head.split())
        key, value = (
            None if length < 0 else program.stdout.read(length) for length in (key_bytes, value_bytes)
        )
        program.stdout.read(1)
        record = {
            "topic": place["topic"],
            "partition": place["partition"],
            "offset": offset,
            "key": text(key),
            "value": text(value),
            "headers": [],
            "timestamp_ms": when,
        }
        came.put(("record", record))
    said = program.stderr.read().decode(errors="replace").strip()
    # One that was stopped says nothing.
    if said:
        came.put(("error", said[-400:]))
