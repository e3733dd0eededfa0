"""Apache Kafka's own command lines, by their main classes: what administrators type."""

import os

from ..lines import Unsupported
from . import groups, offsets, topics
from .tool import Failed, Tools

CLIENT = "Apache Kafka command lines"
VERSION = os.environ["DRIVER_VERSION"]
OPERATIONS = topics.OPERATIONS | groups.OPERATIONS | offsets.OPERATIONS
# The tools that produce and consume print text and tell no offsets, so they are left out.
CAN = set(OPERATIONS) | {"topic.config", "security.tls", "security.plain", "security.scram"}


def code(error: BaseException) -> str | None:
    """The name of the exception that a tool printed, as Kafka's name of a code."""
    return error.code if isinstance(error, Failed) else None


class Session:
    """One cluster to talk to; each operation is a program of its own."""

    def __init__(self, begin: dict):
        self.tools = Tools(VERSION, begin)

    def perform(self, op: dict) -> dict:
        operation = OPERATIONS.get(op["op"])
        if operation is None:
            raise Unsupported(op["op"])
        return operation(self.tools, op)

    def close(self) -> None:
        self.tools.close()
