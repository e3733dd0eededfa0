"""Topics, configurations, groups and the cluster, as far as the client can."""

from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import BrokerResponseError, for_code

from ..values import code_name, place, places
from .consumer import partition
from .settings import bounded

DYNAMIC_TOPIC_CONFIG = 1


def outcomes(results) -> dict:
    """From tuples that begin with a name and a code."""
    return {
        "outcomes": {
            name: None if code == 0 else code_name(code) or str(code)
            for name, code, *_ in results
        }
    }


class Administration:
    """The session's admin client."""

    OPERATIONS = {
        "metadata",
        "create_topics",
        "delete_topics",
        "create_partitions",
        "delete_records",
        "describe_topic_config",
        "alter_topic_config",
        "group_offsets",
        "describe_cluster",
    }

    @classmethod
    async def open(cls, config: dict):
        self = cls()
        self.admin = AIOKafkaAdminClient(**config)
        try:
            await bounded(self.admin.start())
        except BaseException:
            await self.admin.close()
            raise
        return self

    async def metadata(self, op: dict) -> dict:
        # Asking for one topic would create it, so all are asked for.
        topics, errors = {}, {}
        for topic in await bounded(self.admin.describe_topics()):
            topics[topic["topic"]] = len(topic["partitions"])
            if topic["error_code"] != 0:
                errors[topic["topic"]] = code_name(topic["error_code"])
        if op["topic"] is not None:
            one = op["topic"]
            if one not in topics:
                errors[one] = "UNKNOWN_TOPIC_OR_PARTITION"
            errors = {name: code for name, code in errors.items() if name == one}
            topics = {one: topics.get(one, 0)}
        cluster = await self.describe_cluster(op)
        return {"topics": topics, "errors": errors, "brokers": cluster["brokers"]}

    async def create_topics(self, op: dict) -> dict:
        wanted = [
            NewTopic(each["name"], each["partitions"], 1, topic_configs=each.get("config", {}))
            for each in op["topics"]
        ]
        done = await bounded(
            self.admin.create_topics(wanted, validate_only=op["validate_only"])
        )
        return outcomes(done.topic_errors)

    async def delete_topics(self, op: dict) -> dict:
        done = await bounded(self.admin.delete_topics(op["topics"]))
        return outcomes(done.topic_error_codes)

    async def create_partitions(self, op: dict) -> dict:
        wanted = {op["topic"]: NewPartitions(op["count"])}
        try:
            await bounded(self.admin.create_partitions(wanted))
        except BrokerResponseError as error:
            return outcomes([(op["topic"], error.errno)])
        return outcomes([(op["topic"], 0)])

    async def delete_records(self, op: dict) -> dict:
        wanted = {partition(each): RecordsToDelete(each["offset"]) for each in op["partitions"]}
        found = await bounded(self.admin.delete_records(wanted))
        return places(
            place(each.topic, each.partition, offset) for each, offset in found.items()
        )

    async def describe_topic_config(self, op: dict) -> dict:
        resource = ConfigResource(ConfigResourceType.TOPIC, op["topic"])
        (response,) = await bounded(self.admin.describe_configs([resource]))
        ((code, message, _, _, entries),) = response.resources
        if code != 0:
            raise for_code(code)(message)
        return {
            "entries": {name: value for name, value, *_ in entries},
            "dynamic": sorted(
                name
                for name, _, _, source, *_ in entries
                if source == DYNAMIC_TOPIC_CONFIG
            ),
        }

    async def alter_topic_config(self, op: dict) -> dict:
        resource = ConfigResource(ConfigResourceType.TOPIC, op["topic"], op["config"])
        (response,) = await bounded(self.admin.alter_configs([resource]))
        return outcomes((name, code) for code, _, _, name in response.resources)

    async def group_offsets(self, op: dict) -> dict:
        found = await bounded(self.admin.list_consumer_group_offsets(op["group"]))
        return places(
            place(each.topic, each.partition, at.offset, at.metadata)
            for each, at in found.items()
        )

    async def describe_cluster(self, _op: dict) -> dict:
        found = await bounded(self.admin.describe_cluster())
        return {
            "id": found["cluster_id"],
            "controller": found["controller_id"],
            "brokers": {
                str(each["node_id"]): f"{each['host']}:{each['port']}"
                for each in found["brokers"]
            },
        }

    async def close(self) -> None:
        await self.admin.close()
