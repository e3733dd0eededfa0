// Topics, configurations and groups.

import { Admin } from "@platformatic/kafka";

import { within } from "../lib/lines.mjs";
import { place, places } from "../lib/values.mjs";
import { codeOf, words } from "./main.mjs";

const CALL_MS = 15_000;
const TOPIC = 2;
const DYNAMIC_TOPIC_CONFIG = 1;
const SET = 0;
const DELETE = 1;

export class Administration {
  static OPERATIONS = new Set([
    "metadata",
    "create_topics",
    "delete_topics",
    "create_partitions",
    "delete_records",
    "list_offsets",
    "describe_topic_config",
    "change_topic_config",
    "groups",
    "delete_groups",
    "group_offsets",
    "alter_group_offsets",
    "delete_group_offsets",
  ]);

  constructor(options) {
    this.admin = new Admin(options);
  }

  ask(promise) {
    return within(CALL_MS, promise, "the answer");
  }

  /** One name at a time, because a failure tells of all. */
  async outcomes(names, act) {
    const outcomes = {};
    for (const name of names) {
      try {
        await this.ask(act(name));
        outcomes[name] = null;
      } catch (error) {
        outcomes[name] = codeOf(error) ?? words(error);
      }
    }
    return { outcomes };
  }

  async metadata(op) {
    const names = op.topic === null ? await this.ask(this.admin.listTopics()) : [op.topic];
    const asked = { topics: names, autocreateTopics: false, forceUpdate: true };
    const brokersOf = ({ brokers }) =>
      Object.fromEntries([...brokers].map(([id, { host, port }]) => [id, `${host}:${port}`]));
    try {
      const found = await this.ask(this.admin.metadata(asked));
      const counts = names
        .filter((name) => found.topics.has(name))
        .map((name) => [name, found.topics.get(name).partitionsCount]);
      return { topics: Object.fromEntries(counts), errors: {}, brokers: brokersOf(found) };
    } catch (error) {
      const code = codeOf(error);
      if (code === null || op.topic === null) {
        throw error;
      }
      const none = { topics: [], autocreateTopics: false, forceUpdate: true };
      const brokers = brokersOf(await this.ask(this.admin.metadata(none)));
      return { topics: {}, errors: { [op.topic]: code }, brokers };
    }
  }

  create_topics(op) {
    const topics = new Map(op.topics.map((each) => [each.name, each]));
    return this.outcomes(topics.keys(), (name) => {
      const { partitions, config = {} } = topics.get(name);
      const configs = Object.entries(config).map(([each, value]) => ({ name: each, value }));
      return this.admin.createTopics({ topics: [name], partitions, replicas: 1, configs });
    });
  }

  delete_topics(op) {
    return this.outcomes(op.topics, (name) => this.admin.deleteTopics({ topics: [name] }));
  }

  create_partitions(op) {
    const topics = [{ name: op.topic, count: op.count, assignments: [] }];
    return this.outcomes([op.topic], () => this.admin.createPartitions({ topics }));
  }

  async delete_records(op) {
    const topics = op.partitions.map(({ topic, partition, offset }) => ({
      name: topic,
      partitions: [{ partition, offset: BigInt(offset) }],
    }));
    const found = await this.ask(this.admin.deleteRecords({ topics }));
    return places(
      found.flatMap(({ name, partitions }) =>
        partitions.map((each) => place(name, each.partition, each.lowWatermark)),
      ),
    );
  }

  async list_offsets(op) {
    const topics = op.partitions.map(({ topic, partition, offset }) => ({
      name: topic,
      partitions: [{ partitionIndex: partition, timestamp: BigInt(offset) }],
    }));
    const found = await this.ask(this.admin.listOffsets({ topics }));
    return places(
      found.flatMap(({ name, partitions }) =>
        partitions.map((each) => place(name, each.partitionIndex, each.offset)),
      ),
    );
  }

  async describe_topic_config(op) {
    const resources = [{ resourceType: TOPIC, resourceName: op.topic, configurationKeys: null }];
    const [{ configs }] = await this.ask(this.admin.describeConfigs({ resources }));
    return {
      entries: Object.fromEntries(configs.map((each) => [each.name, each.value])),
      dynamic: configs
        .filter((each) => each.configSource === DYNAMIC_TOPIC_CONFIG)
        .map((each) => each.name)
        .sort(),
    };
  }

  change_topic_config(op) {
    const configs = [
      ...Object.entries(op.set).map(([name, value]) => ({ name, configOperation: SET, value })),
      ...op.delete.map((name) => ({ name, configOperation: DELETE, value: null })),
    ];
    const resources = [{ resourceType: TOPIC, resourceName: op.topic, configs }];
    return this.outcomes([op.topic], () => this.admin.incrementalAlterConfigs({ resources }));
  }

  async groups(op) {
    if (op.group === null) {
      const found = await this.ask(this.admin.listGroups());
      const groups = [...found.values()].map(({ id, state }) => ({
        id,
        state: kafkaState(state),
        protocol: "",
        client_ids: [],
      }));
      return { groups: groups.sort((a, b) => (a.id < b.id ? -1 : 1)) };
    }
    const found = await this.ask(this.admin.describeGroups({ groups: [op.group] }));
    return {
      groups: [...found.values()].map(({ id, state, protocol, members }) => ({
        id,
        state: kafkaState(state),
        protocol,
        client_ids: [...members.values()].map(({ clientId }) => clientId).sort(),
      })),
    };
  }

  delete_groups(op) {
    return this.outcomes(op.groups, (name) => this.admin.deleteGroups({ groups: [name] }));
  }

  async group_offsets(op) {
    const asked = { groups: [op.group] };
    const found = await this.ask(this.admin.listConsumerGroupOffsets(asked));
    return places(
      found.flatMap(({ topics }) =>
        topics.flatMap(({ name, partitions }) =>
          partitions.map((each) =>
            place(name, each.partitionIndex, each.committedOffset, each.metadata),
          ),
        ),
      ),
    );
  }

  async alter_group_offsets(op) {
    const topics = op.offsets.map(({ topic, partition, offset }) => ({
      name: topic,
      partitionOffsets: [{ partition, offset: BigInt(offset) }],
    }));
    await this.ask(this.admin.alterConsumerGroupOffsets({ groupId: op.group, topics }));
    return {};
  }

  async delete_group_offsets(op) {
    const topics = op.partitions.map(({ topic, partition }) => ({
      name: topic,
      partitionIndexes: [partition],
    }));
    await this.ask(this.admin.deleteConsumerGroupOffsets({ groupId: op.group, topics }));
    return {};
  }

  async close() {
    await within(5_000, this.admin.close(), "closing").catch(() => {});
  }
}

/** The client writes its states in capitals. */
function kafkaState(state) {
  const names = {
    PREPARING_REBALANCE: "PreparingRebalance",
    COMPLETING_REBALANCE: "CompletingRebalance",
    STABLE: "Stable",
    DEAD: "Dead",
    EMPTY: "Empty",
  };
  return names[state] ?? state;
}
