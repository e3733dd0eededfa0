"""Shapes that lines have in common, and the files that drivers of all languages share."""

import base64
import json
from pathlib import Path

from .lines import Unsupported

COMMON = Path(__file__).resolve().parent / "common"
CODES = {
    int(code): name for code, name in json.loads((COMMON / "error-codes.json").read_text()).items()
}


def all_but(*lacks: str) -> set[str]:
    """Every capability of the protocol but these."""
    names = set(json.loads((COMMON / "capabilities.json").read_text()))
    unknown = set(lacks) - names
    if unknown:
        raise ValueError(f"no capabilities: {unknown}")
    return names - set(lacks)


def code_name(code: int) -> str | None:
    """Kafka's name of a code; None for a client's own codes and for success."""
    return CODES.get(code) if code > 0 or code == -1 else None


def blob(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def place(topic: str, partition: int, offset: int, metadata: str | None = "") -> dict:
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "metadata": metadata or "",
    }


def places(found) -> dict:
    """The answer of many operations, sorted."""
    return {"places": sorted(found, key=lambda each: (each["topic"], each["partition"]))}


def numbers(op: dict):
    """The records of `produce_numbers`, as those of `produce`, with bytes in place of Base64."""
    for number in range(op["first"], op["first"] + op["count"]):
        digits = str(number).encode()
        yield {
            "topic": op["topic"],
            "partition": op["partition"],
            "key": digits if op["partition"] is None else None,
            "value": digits.ljust(op["value_bytes"], b"."),
            "headers": [],
            "timestamp_ms": None,
        }


def outgoing(op: dict):
    """The records of `produce` with bytes in place of Base64."""
    for record in op["records"]:
        yield record | {
            "key": blob(record["key"]),
            "value": blob(record["value"]),
            "headers": [(name, blob(value)) for name, value in record["headers"]],
        }


def deliveries(results) -> dict:
    """From one `(partition, offset)` or text of failure per record."""
    answer = {"places": [], "failed": []}
    for index, result in enumerate(results):
        if isinstance(result, str):
            answer["failed"].append([index, result])
        else:
            answer["places"].append(list(result))
    return answer


def setting_names(settings: dict, names: dict) -> dict:
    """Settings in a client's names; a name this driver does not list is beyond the client."""
    unknown = settings.keys() - names.keys()
    if unknown:
        raise Unsupported(f"setting.{min(unknown)}")
    return {names[name]: value for name, value in settings.items()}
