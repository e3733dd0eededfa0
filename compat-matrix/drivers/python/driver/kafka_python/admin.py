"""Topics, configurations, groups and the cluster."""

from kafka import KafkaAdminClient, errors
from kafka.admin import ConfigResource, ConfigResourceType

from ..values import code_name, place, places
from .consumer import committed_places, offsets, partition, partitions

DYNAMIC_TOPIC_CONFIG = 1


def named(code: int) -> str | None:
    """Kafka's name of a code; None for success."""
    return None if code == 0 else code_name(code) or str(code)


def demand(results: dict) -> dict:
    """Every partition's result must be success."""
    for kind in results.values():
        if kind.errno != 0:
            raise kind()
    return {}


class Administration:
    """The session's admin client."""

    OPERATIONS = {
        "metadata",
        "create_topics",
        "delete_topics",
        "create_partitions",
        "delete_records",
        "list_offsets",
        "describe_topic_config",
        "alter_topic_config",
        "change_topic_config",
        "groups",
        "delete_groups",
        "group_offsets",
        "alter_group_offsets",
        "delete_group_offsets",
        "describe_cluster",
        "describe_log_dirs",
    }

    def __init__(self, config: dict):
        self.admin = KafkaAdminClient(**config, request_timeout_ms=15_000)

    def metadata(self, op: dict) -> dict:
        asked = None if op["topic"] is None else [op["topic"]]
        topics, codes = {}, {}
        for topic in self.admin.describe_topics(asked):
            topics[topic["name"]] = len(topic["partitions"])
            if topic["error_code"] != 0:
                codes[topic["name"]] = named(topic["error_code"])
        brokers = self.describe_cluster(op)["brokers"]
        return {"topics": topics, "errors": codes, "brokers": brokers}

    def create_topics(self, op: dict) -> dict:
        wanted = {
            each["name"]: {
                "num_partitions": each["partitions"],
                "replication_factor": 1,
                "configs": each.get("config", {}),
            }
            for each in op["topics"]
        }
        done = self.admin.create_topics(
            wanted, validate_only=op["validate_only"], raise_errors=False
        )
        return {"outcomes": {each["name"]: named(each["error_code"]) for each in done["topics"]}}

    def delete_topics(self, op: dict) -> dict:
        done = self.admin.delete_topics(op["topics"], raise_errors=False)
        found = done["topics"]
        return {"outcomes": {each["name"]: named(each["error_code"]) for each in found}}

    def create_partitions(self, op: dict) -> dict:
        done = self.admin.create_partitions({op["topic"]: op["count"]}, raise_errors=False)
        return {"outcomes": {each.name: named(each.error_code) for each in done.results}}

    def delete_records(self, op: dict) -> dict:
        wanted = {partition(each): each["offset"] for each in op["partitions"]}
        found = self.admin.delete_records(wanted)
        return places(
            place(each.topic, each.partition, at["low_watermark"]) for each, at in found.items()
        )

    def list_offsets(self, op: dict) -> dict:
        wanted = {partition(each): each["offset"] for each in op["partitions"]}
        found = self.admin.list_partition_offsets(wanted)
        return places(
            place(each.topic, each.partition, at.offset) for each, at in found.items()
        )

    def describe_topic_config(self, op: dict) -> dict:
        found = self.admin.describe_configs(
            [ConfigResource(ConfigResourceType.TOPIC, op["topic"])], config_filter="all"
        )
        entries = found["topic"][op["topic"]]
        return {
            "entries": {name: entry["value"] for name, entry in entries.items()},
            "dynamic": sorted(
                name
                for name, entry in entries.items()
                if entry["config_source"] in (DYNAMIC_TOPIC_CONFIG, "DYNAMIC_TOPIC_CONFIG")
            ),
        }

    def alter(self, topic: str, configs: dict, incremental: bool) -> dict:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs)
        done = self.admin.alter_configs(
            [resource], raise_on_unknown=False, incremental=incremental
        )
        return {"outcomes": {topic: outcome(done["topic"][topic])}}

    def alter_topic_config(self, op: dict) -> dict:
        return self.alter(op["topic"], op["config"], incremental=False)

    def change_topic_config(self, op: dict) -> dict:
        changes = {name: ("set", value) for name, value in op["set"].items()}
        changes |= {name: ("delete", None) for name in op["delete"]}
        return self.alter(op["topic"], changes, incremental=True)

    def groups(self, op: dict) -> dict:
        if op["group"] is None:
            ids = sorted(each["group_id"] for each in self.admin.list_groups())
        else:
            ids = [op["group"]]
        found = self.admin.describe_groups(ids) if ids else {}
        return {"groups": [group(each, found[each]) for each in ids]}

    def delete_groups(self, op: dict) -> dict:
        done = self.admin.delete_groups(op["groups"])
        return {"outcomes": {name: outcome(result) for name, result in done.items()}}

    def group_offsets(self, op: dict) -> dict:
        return committed_places(self.admin.list_group_offsets(op["group"])[op["group"]])

    def alter_group_offsets(self, op: dict) -> dict:
        return demand(self.admin.alter_group_offsets(op["group"], offsets(op["offsets"])))

    def delete_group_offsets(self, op: dict) -> dict:
        return demand(
            self.admin.delete_group_offsets(op["group"], partitions(op["partitions"]))
        )

    def describe_cluster(self, _op: dict) -> dict:
        found = self.admin.describe_cluster()
        return {
            "id": found["cluster_id"],
            "controller": found["controller_id"],
            "brokers": {
                str(each.get("broker_id", each.get("node_id"))): f"{each['host']}:{each['port']}"
                for each in found["brokers"]
            },
        }

    def describe_log_dirs(self, op: dict) -> dict:
        sizes: dict = {}
        for broker in self.admin.describe_log_dirs(brokers=[op["node"]]):
            for folder in broker.get("results", broker.get("log_dirs", [])):
                for topic in folder["topics"]:
                    for each in topic["partitions"]:
                        key = (topic["name"], each["partition_index"])
                        sizes[key] = sizes.get(key, 0) + each["partition_size"]
        return places(place(topic, number, size) for (topic, number), size in sizes.items())

    def close(self) -> None:
        self.admin.close()


def outcome(result) -> str | None:
    """The client answers with an error, with the name of an error's class, or with what worked."""
    known = getattr(errors, result, result) if isinstance(result, str) else result
    number = getattr(known, "errno", 0)
    return named(number if isinstance(number, int) else 0)


def group(group_id: str, found: dict) -> dict:
    return {
        "id": group_id,
        "state": found["group_state"],
        "protocol": found["protocol_data"],
        "client_ids": sorted(member["client_id"] for member in found["members"]),
    }
