"""Topics, configurations, groups and the cluster."""

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicCollection
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from ..values import code_name, place, places
from .consumer import answered, listed

CALL_S = 15
STATES = {
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
}


def outcomes(futures: dict) -> dict:
    """What became of each name."""
    found = {}
    for name, future in futures.items():
        try:
            future.result(CALL_S)
            found[name] = None
        except KafkaException as error:
            reason = error.args[0]
            found[name] = code_name(reason.code()) or str(reason)
    return {"outcomes": found}


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
        "describe_cluster",
    }

    def __init__(self, config: dict):
        self.admin = AdminClient(config)

    def metadata(self, op: dict) -> dict:
        cluster = self.admin.list_topics(timeout=CALL_S)
        topics, errors = {}, {}
        if op["topic"] is None:
            topics = {name: len(topic.partitions) for name, topic in cluster.topics.items()}
        else:
            # Asking for one topic by Metadata alone would create it.
            wanted = TopicCollection([op["topic"]])
            for name, future in self.admin.describe_topics(wanted, request_timeout=CALL_S).items():
                try:
                    topics[name] = len(future.result(CALL_S).partitions)
                except KafkaException as error:
                    topics[name] = 0
                    errors[name] = code_name(error.args[0].code()) or str(error)
        brokers = {str(each.id): f"{each.host}:{each.port}" for each in cluster.brokers.values()}
        return {"topics": topics, "errors": errors, "brokers": brokers}

    def create_topics(self, op: dict) -> dict:
        wanted = [
            NewTopic(each["name"], each["partitions"], 1, config=each.get("config", {}))
            for each in op["topics"]
        ]
        return outcomes(
            self.admin.create_topics(
                wanted, request_timeout=CALL_S, validate_only=op["validate_only"]
            )
        )

    def delete_topics(self, op: dict) -> dict:
        return outcomes(self.admin.delete_topics(op["topics"], request_timeout=CALL_S))

    def create_partitions(self, op: dict) -> dict:
        wanted = [NewPartitions(op["topic"], op["count"])]
        return outcomes(self.admin.create_partitions(wanted, request_timeout=CALL_S))

    def delete_records(self, op: dict) -> dict:
        futures = self.admin.delete_records(listed(op["partitions"]), request_timeout=CALL_S)
        return places(
            place(partition.topic, partition.partition, future.result(CALL_S).low_watermark)
            for partition, future in futures.items()
        )

    def list_offsets(self, op: dict) -> dict:
        named = {-1: OffsetSpec.latest, -2: OffsetSpec.earliest, -3: OffsetSpec.max_timestamp}
        wanted = {}
        for each in op["partitions"]:
            kind = named.get(each["offset"])
            spec = kind() if kind else OffsetSpec.for_timestamp(each["offset"])
            wanted[TopicPartition(each["topic"], each["partition"])] = spec
        futures = self.admin.list_offsets(wanted, request_timeout=CALL_S)
        return places(
            place(partition.topic, partition.partition, future.result(CALL_S).offset)
            for partition, future in futures.items()
        )

    def describe_topic_config(self, op: dict) -> dict:
        resource = ConfigResource(ConfigResource.Type.TOPIC, op["topic"])
        (future,) = self.admin.describe_configs([resource], request_timeout=CALL_S).values()
        entries = future.result(CALL_S)
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return {
            "entries": {name: entry.value for name, entry in entries.items()},
            "dynamic": sorted(name for name, entry in entries.items() if entry.source == own),
        }

    def alter_topic_config(self, op: dict) -> dict:
        resource = ConfigResource(
            ConfigResource.Type.TOPIC, op["topic"], set_config=op["config"]
        )
        futures = self.admin.alter_configs([resource], request_timeout=CALL_S)
        return outcomes({each.name: future for each, future in futures.items()})

    def change_topic_config(self, op: dict) -> dict:
        changes = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in op["set"].items()
        ] + [
            ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE)
            for name in op["delete"]
        ]
        resource = ConfigResource(
            ConfigResource.Type.TOPIC, op["topic"], incremental_configs=changes
        )
        futures = self.admin.incremental_alter_configs([resource], request_timeout=CALL_S)
        return outcomes({each.name: future for each, future in futures.items()})

    def groups(self, op: dict) -> dict:
        if op["group"] is None:
            listing = self.admin.list_consumer_groups(request_timeout=CALL_S).result(CALL_S)
            ids = sorted(each.group_id for each in listing.valid)
        else:
            ids = [op["group"]]
        futures = self.admin.describe_consumer_groups(ids, request_timeout=CALL_S) if ids else {}
        return {"groups": [group(futures[each].result(CALL_S)) for each in ids]}

    def delete_groups(self, op: dict) -> dict:
        futures = self.admin.delete_consumer_groups(op["groups"], request_timeout=CALL_S)
        return outcomes(futures)

    def group_offsets(self, op: dict) -> dict:
        wanted = [ConsumerGroupTopicPartitions(op["group"])]
        (future,) = self.admin.list_consumer_group_offsets(
            wanted, request_timeout=CALL_S
        ).values()
        return answered(future.result(CALL_S).topic_partitions)

    def alter_group_offsets(self, op: dict) -> dict:
        wanted = [ConsumerGroupTopicPartitions(op["group"], listed(op["offsets"]))]
        (future,) = self.admin.alter_consumer_group_offsets(
            wanted, request_timeout=CALL_S
        ).values()
        answered(future.result(CALL_S).topic_partitions)
        return {}

    def describe_cluster(self, _op: dict) -> dict:
        cluster = self.admin.describe_cluster(request_timeout=CALL_S).result(CALL_S)
        return {
            "id": cluster.cluster_id,
            "controller": cluster.controller.id if cluster.controller else -1,
            "brokers": {str(node.id): f"{node.host}:{node.port}" for node in cluster.nodes},
        }


def group(description) -> dict:
    state = description.state.name
    return {
        "id": description.group_id,
        "state": STATES.get(state, state.capitalize()),
        "protocol": description.partition_assignor,
        "client_ids": sorted(member.client_id for member in description.members),
    }
