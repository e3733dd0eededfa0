"""Running kcat, and what it lists."""

import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from ..lines import Unsupported
from ..values import COMMON, place, places

CALL_S = 28
NAMES = json.loads((COMMON / "librdkafka.json").read_text())
# librdkafka's sentences for those codes that it says of topics.
UNKNOWN = re.compile("unknown topic or partition", re.IGNORECASE)


class Failed(Exception):
    """kcat ended with another status than 0."""

    def __init__(self, said: bytes):
        text = said.decode(errors="replace").strip()
        super().__init__(text[-1000:])
        self.code = "UNKNOWN_TOPIC_OR_PARTITION" if UNKNOWN.search(text) else None


def properties(settings: dict) -> dict:
    """Settings of the protocol in librdkafka's names."""
    found = {}
    for name, value in settings.items():
        own = NAMES.get(name)
        if own is None:
            raise Unsupported(f"setting.{name}")
        if isinstance(own, dict):
            found |= {each: value + extra for each, extra in own.items()}
        elif name == "partitioner":
            found[own] = {"murmur2": "murmur2_random"}[value]
        else:
            found[own] = str(value).lower() if isinstance(value, bool) else value
    return found


class Kcat:
    """The program against one cluster."""

    def __init__(self, begin: dict):
        self.folder = Path(tempfile.mkdtemp(prefix="driver-kcat-"))
        self.config = self.folder / "kcat.conf"
        self.config.touch(mode=0o600)
        tls, sasl = begin.get("tls"), begin.get("sasl")
        entries = {"bootstrap.servers": begin["bootstrap"], "client.id": begin["client_id"]}
        if tls:
            entries["ssl.ca.location"] = tls["ca_file"]
        if sasl:
            entries |= {
                "sasl.mechanism": sasl["mechanism"],
                "sasl.username": sasl["username"],
                "sasl.password": sasl["password"],
            }
        transport = "SSL" if tls else "PLAINTEXT"
        entries["security.protocol"] = f"SASL_{transport}" if sasl else transport
        self.config.write_text("".join(f"{name}={value}\n" for name, value in entries.items()))

    def command(self, *arguments, **settings) -> list:
        options = [option for name, value in settings.items() for option in ("-X", f"{name}={value}")]
        return ["kcat", "-F", str(self.config), *options, *arguments]

    def run(self, *arguments, given: bytes = b"", settings: dict | None = None) -> bytes:
        """What kcat prints."""
        done = subprocess.run(
            self.command(*arguments, **(settings or {})),
            input=given,
            capture_output=True,
            timeout=CALL_S,
            check=False,
        )
        if done.returncode != 0:
            raise Failed(done.stderr)
        return done.stdout

    def metadata(self, op: dict) -> dict:
        # To ask for one topic would create it.
        seen = json.loads(self.run("-L", "-J"))
        wanted = op["topic"]
        topics, errors = {}, {}
        for topic in seen["topics"]:
            if wanted in (None, topic["topic"]):
                topics[topic["topic"]] = len(topic["partitions"])
        if wanted is not None and wanted not in topics:
            errors[wanted] = "UNKNOWN_TOPIC_OR_PARTITION"
        brokers = {str(each["id"]): each["name"] for each in seen["brokers"]}
        return {"topics": topics, "errors": errors, "brokers": brokers}

    def query(self, topic: str, partition: int, when: int) -> int:
        said = self.run("-Q", "-t", f"{topic}:{partition}:{when}").decode()
        # `TOPIC [PARTITION] offset OFFSET`
        return int(said.split()[-1])

    def watermarks(self, op: dict) -> dict:
        topic, partition = op["topic"], op["partition"]
        return {
            "low": self.query(topic, partition, -2),
            "high": self.query(topic, partition, -1),
        }

    def offsets_for_times(self, op: dict) -> dict:
        found = []
        for each in op["partitions"]:
            topic, partition = each["topic"], each["partition"]
            found.append(place(topic, partition, self.query(topic, partition, each["offset"])))
        return places(found)

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
