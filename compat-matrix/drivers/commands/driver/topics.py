"""TopicCommand, ConfigCommand, ClusterTool, BrokerApiVersionsCommand, LogDirsCommand."""

import json
import re

from ..lines import Unsupported
from ..values import place, places
from .tool import Failed, Tools, outcome

BROKER = re.compile(r"^(\S+):(\d+) \(id: (\d+) ", re.MULTILINE)
TOPIC = re.compile(r"^Topic: (\S+)\t.*PartitionCount: (\d+)", re.MULTILINE)
CONFIG = re.compile(r"^  (\S+?)=(.*) sensitive=(?:true|false) synonyms=\{(.*)\}$", re.MULTILINE)


def brokers(tools: Tools) -> dict:
    found = BROKER.findall(tools.run("BrokerApiVersionsCommand"))
    return {node: f"{host}:{port}" for host, port, node in found}


def metadata(tools: Tools, op: dict) -> dict:
    one = [] if op["topic"] is None else ["--topic", literal(op["topic"])]
    topics, errors = {}, {}
    try:
        found = TOPIC.findall(tools.run("TopicCommand", "--describe", *one))
        topics = {name: int(count) for name, count in found}
    except Failed as failed:
        # The tool looks the name up in a list, so no code comes from the broker.
        if "does not exist as expected" not in str(failed):
            raise
        topics[op["topic"]] = 0
        errors[op["topic"]] = "UNKNOWN_TOPIC_OR_PARTITION"
    return {"topics": topics, "errors": errors, "brokers": brokers(tools)}


def literal(topic: str) -> str:
    """The tool takes a name for a pattern."""
    return re.escape(topic)


def create_topics(tools: Tools, op: dict) -> dict:
    if op["validate_only"]:
        raise Unsupported("topic.validate_only")
    outcomes = {}
    for topic in op["topics"]:
        configs = [
            part
            for name, value in topic.get("config", {}).items()
            for part in ("--config", f"{name}={value}")
        ]
        count = ["--partitions", str(topic["partitions"]), "--replication-factor", "1"]
        outcomes[topic["name"]] = outcome(
            lambda: tools.run(
                "TopicCommand", "--create", "--topic", topic["name"], *count, *configs
            )
        )
    return {"outcomes": outcomes}


def delete_topics(tools: Tools, op: dict) -> dict:
    def delete(name: str) -> str | None:
        said = outcome(lambda: tools.run("TopicCommand", "--delete", "--topic", literal(name)))
        missing = said is not None and "does not exist as expected" in said
        return "UNKNOWN_TOPIC_OR_PARTITION" if missing else said

    return {"outcomes": {name: delete(name) for name in op["topics"]}}


def create_partitions(tools: Tools, op: dict) -> dict:
    order = ["--alter", "--topic", literal(op["topic"]), "--partitions", str(op["count"])]
    return {"outcomes": {op["topic"]: outcome(lambda: tools.run("TopicCommand", *order))}}


def describe_topic_config(tools: Tools, op: dict) -> dict:
    what = ["--entity-type", "topics", "--entity-name", op["topic"]]
    found = CONFIG.findall(tools.run("ConfigCommand", "--describe", "--all", *what))
    return {
        "entries": {name: None if value == "null" else value for name, value, _ in found},
        "dynamic": sorted(
            name for name, _, synonyms in found if synonyms.startswith("DYNAMIC_TOPIC_CONFIG:")
        ),
    }


def change_topic_config(tools: Tools, op: dict) -> dict:
    order = ["--alter", "--entity-type", "topics", "--entity-name", op["topic"]]
    if op["set"]:
        # Brackets keep the commas of a list of values together.
        order += ["--add-config", ",".join(f"{k}=[{v}]" for k, v in op["set"].items())]
    if op["delete"]:
        order += ["--delete-config", ",".join(op["delete"])]
    return {"outcomes": {op["topic"]: outcome(lambda: tools.run("ConfigCommand", *order))}}


def describe_log_dirs(tools: Tools, op: dict) -> dict:
    said = tools.run("LogDirsCommand", "--describe", "--broker-list", str(op["node"]))
    sizes: dict = {}
    for broker in json.loads(said[said.index("{") :])["brokers"]:
        for folder in broker["logDirs"]:
            for partition in folder["partitions"]:
                topic, _, number = partition["partition"].rpartition("-")
                at = (topic, int(number))
                sizes[at] = sizes.get(at, 0) + partition["size"]
    return places(place(topic, number, size) for (topic, number), size in sizes.items())


OPERATIONS = {
    "metadata": metadata,
    "create_topics": create_topics,
    "delete_topics": delete_topics,
    "create_partitions": create_partitions,
    "describe_topic_config": describe_topic_config,
    "change_topic_config": change_topic_config,
    "describe_log_dirs": describe_log_dirs,
}
