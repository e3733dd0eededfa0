// Topics, configurations, groups and the cluster.

import {
  Admin,
  ConfigResourceTypes,
  ConfigSources,
  FetchIsolationLevels,
  IncrementalAlterConfigOperationTypes,
} from "@platformatic/kafka";

import { within } from "../lib/lines.mjs";
import { place, places } from "../lib/values.mjs";
import { codeOf, words } from "./main.mjs";

const CALL_MS = 15_000;

export class Administration {
  static OPERATIONS = new Set([
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
  ]);

  constructor(config) {
    this.admin = new Admin(config);
  }

  ask(promise) {
    return within(CALL_MS, promise, "the answer");
  }

  /** One name at a time, because a failure does not tell whose it is. */
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
    const topics =
      op.topic === null
        ? await this.ask(this.admin.listTopics({ includeInternals: true }))
        : [op.topic];
    try {
      const found = await this.ask(this.admin.metadata({ topics, forceUpdate: true }));
      const counts = topics.map((name) => [name, found.topics.get(name)?.partitionsCount ?? 0]);
      // It leaves out what is being deleted.
      const gone = counts.filter(([, count]) => count === 0);
      return {
        topics: Object.fromEntries(counts),
        errors: Object.fromEntries(gone.map(([name]) => [name, "UNKNOWN_TOPIC_OR_PARTITION"])),
        brokers: addresses(found.brokers),
      };
    } catch (error) {
      // What it says of a topic that stays unknown has no code.
      const unknown = error.message.startsWith("Unknown topic ");
      const code = unknown ? "UNKNOWN_TOPIC_OR_PARTITION" : codeOf(error);
      if (code === null || op.topic === null) {
        throw error;
      }
      const { brokers } = await this.describe_cluster();
      return { topics: { [op.topic]: 0 }, errors: { [op.topic]: code }, brokers };
    }
  }

  async create_topics(op) {
    const names = op.topics.map(({ name }) => name);
    if (names.length > 1 && op.topics.every(({ config = {} }) => Object.keys(config).length === 0)) {
      // All at once where all are right; a call has one configuration for all.
      const topics = op.topics.map(({ name, partitions }) => ({ topic: name, partitions, replicas: 1 }));
      const created = await this.ask(this.admin.createTopics({ topics })).catch(() => null);
      if (created !== null) {
        return { outcomes: Object.fromEntries(names.map((name) => [name, null])) };
      }
    }
    const topics = new Map(op.topics.map((each) => [each.name, each]));
    return this.outcomes(names, (name) => {
      const { partitions, config = {} } = topics.get(name);
      const configs = Object.entries(config).map(([each, value]) => ({ name: each, value }));
      return this.admin.createTopics({ topics: [name], partitions, replicas: 1, configs });
    });
  }

  delete_topics(op) {
    return this.outcomes(op.topics, (name) => this.admin.deleteTopics({ topics: [name] }));
  }

  create_partitions(op) {
    return this.outcomes([op.topic], (name) =>
      this.admin.createPartitions({ topics: [{ name, count: op.count }] }),
    );
  }

  async delete_records(op) {
    const topics = byTopic(op.partitions, ({ partition, offset }) => ({
      partition,
      offset: BigInt(offset),
    }));
    const found = await this.ask(this.admin.deleteRecords({ topics }));
    return places(
      found.flatMap(({ name, partitions }) =>
        partitions.map((each) => place(name, each.partition, each.lowWatermark)),
      ),
    );
  }

  async list_offsets(op) {
    const topics = byTopic(op.partitions, ({ partition, offset }) => ({
      partitionIndex: partition,
      timestamp: BigInt(offset),
    }));
    const isolationLevel = FetchIsolationLevels.READ_UNCOMMITTED;
    const found = await this.ask(this.admin.listOffsets({ topics, isolationLevel }));
    return places(
      found.flatMap(({ name, partitions }) =>
        partitions.map((each) => place(name, each.partitionIndex, each.offset)),
      ),
    );
  }

  async describe_topic_config(op) {
    const [{ configs }] = await this.ask(
      this.admin.describeConfigs({ resources: [resource(op.topic)] }),
    );
    return {
      entries: Object.fromEntries(configs.map(({ name, value }) => [name, value])),
      dynamic: configs
        .filter(({ configSource }) => configSource === ConfigSources.DYNAMIC_TOPIC_CONFIG)
        .map(({ name }) => name)
        .sort(),
    };
  }

  alter_topic_config(op) {
    const configs = Object.entries(op.config).map(([name, value]) => ({ name, value }));
    return this.outcomes([op.topic], (name) =>
      this.admin.alterConfigs({ resources: [{ ...resource(name), configs }] }),
    );
  }

  change_topic_config(op) {
    const { SET, DELETE } = IncrementalAlterConfigOperationTypes;
    const configs = [
      ...Object.entries(op.set).map(([name, value]) => ({ name, value, configOperation: SET })),
      ...op.delete.map((name) => ({ name, configOperation: DELETE })),
    ];
    return this.outcomes([op.topic], (name) =>
      this.admin.incrementalAlterConfigs({ resources: [{ ...resource(name), configs }] }),
    );
  }

  async groups(op) {
    const found =
      op.group === null
        ? await this.ask(this.admin.listGroups())
        : await this.ask(this.admin.describeGroups({ groups: [op.group] }));
    const groups = [...found.values()].map(({ id, state, protocol = "", members = new Map() }) => ({
      id,
      state,
      protocol,
      client_ids: [...members.values()].map(({ clientId }) => clientId).sort(),
    }));
    return { groups: groups.sort((a, b) => (a.id < b.id ? -1 : 1)) };
  }

  delete_groups(op) {
    return this.outcomes(op.groups, (name) => this.admin.deleteGroups({ groups: [name] }));
  }

  async group_offsets(op) {
    const [{ topics }] = await this.ask(
      this.admin.listConsumerGroupOffsets({ groups: [op.group] }),
    );
    return places(
      topics.flatMap(({ name, partitions }) =>
        partitions.map((each) =>
          place(name, each.partitionIndex, each.committedOffset, each.metadata),
        ),
      ),
    );
  }

  async alter_group_offsets(op) {
    await this.ask(alterOffsets(this.admin, op.group, op.offsets));
    return {};
  }

  async delete_group_offsets(op) {
    const topics = byTopic(op.partitions, ({ partition }) => partition, "partitionIndexes");
    await this.ask(this.admin.deleteConsumerGroupOffsets({ groupId: op.group, topics }));
    return {};
  }

  async describe_cluster() {
    const found = await this.ask(this.admin.metadata({ topics: [], forceUpdate: true }));
    return { id: found.id, controller: found.controllerId, brokers: addresses(found.brokers) };
  }

  async describe_log_dirs(op) {
    const names = await this.ask(this.admin.listTopics({ includeInternals: true }));
    const known = await this.ask(this.admin.metadata({ topics: names }));
    const topics = names.map((name) => ({
      name,
      partitions: [...known.topics.get(name).partitions.keys()],
    }));
    const found = await this.ask(this.admin.describeLogDirs({ topics }));
    return places(
      found
        .filter(({ broker }) => Number(broker) === op.node)
        .flatMap(({ results }) => results.flatMap((each) => each.topics))
        .flatMap(({ name, partitions }) =>
          partitions.map((each) => place(name, each.partitionIndex, each.partitionSize)),
        ),
    );
  }

  async close() {
    await within(5_000, this.admin.close(), "closing").catch(() => {});
  }
}

/** Sets offsets of a group from outside. */
export function alterOffsets(admin, groupId, offsets) {
  const topics = byTopic(
    offsets,
    ({ partition, offset }) => ({ partition, offset: BigInt(offset) }),
    "partitionOffsets",
  );
  return admin.alterConsumerGroupOffsets({ groupId, topics });
}

function byTopic(found, shape, field = "partitions") {
  const topics = new Map();
  for (const each of found) {
    topics.set(each.topic, [...(topics.get(each.topic) ?? []), shape(each)]);
  }
  return [...topics].map(([name, of]) => ({ name, [field]: of }));
}

const resource = (name) => ({ resourceType: ConfigResourceTypes.TOPIC, resourceName: name });

const addresses = (brokers) =>
  Object.fromEntries([...brokers].map(([id, { host, port }]) => [id, `${host}:${port}`]));
