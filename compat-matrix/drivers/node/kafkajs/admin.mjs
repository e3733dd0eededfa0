// Topics, configurations, groups and the cluster.

import kafkajs from "kafkajs";

import { within } from "../lib/lines.mjs";
import { place, places } from "../lib/values.mjs";
import { protocolError } from "./main.mjs";

const { ConfigResourceTypes } = kafkajs;
const CALL_MS = 15_000;
const DYNAMIC_TOPIC_CONFIG = 1;

export class Administration {
  static OPERATIONS = new Set([
    "metadata",
    "create_topics",
    "delete_topics",
    "create_partitions",
    "describe_topic_config",
    "alter_topic_config",
    "groups",
    "delete_groups",
    "group_offsets",
    "alter_group_offsets",
    "describe_cluster",
  ]);

  static async open(kafka) {
    const self = new Administration();
    self.admin = kafka.admin();
    await within(CALL_MS, self.admin.connect(), "connecting");
    return self;
  }

  ask(promise) {
    return within(CALL_MS, promise, "the answer");
  }

  /** One name at a time, because a failure tells of one only. */
  async outcomes(names, act) {
    const outcomes = {};
    for (const name of names) {
      try {
        await this.ask(act(name));
        outcomes[name] = null;
      } catch (error) {
        outcomes[name] = outcome(error);
      }
    }
    return { outcomes };
  }

  async metadata(op) {
    const { brokers } = await this.describe_cluster();
    if (op.topic === null) {
      const { topics } = await this.ask(this.admin.fetchTopicMetadata());
      const counts = topics.map(({ name, partitions }) => [name, partitions.length]);
      return { topics: Object.fromEntries(counts), errors: {}, brokers };
    }
    try {
      const { topics } = await this.ask(this.admin.fetchTopicMetadata({ topics: [op.topic] }));
      return { topics: { [op.topic]: topics[0].partitions.length }, errors: {}, brokers };
    } catch (error) {
      const code = protocolError(error)?.type;
      if (code === undefined) {
        throw error;
      }
      return { topics: { [op.topic]: 0 }, errors: { [op.topic]: code }, brokers };
    }
  }

  async create_topics(op) {
    const topics = new Map(op.topics.map((each) => [each.name, each]));
    const wanted = (names) => ({
      validateOnly: op.validate_only,
      waitForLeaders: false,
      topics: names.map((name) => {
        const { partitions, config = {} } = topics.get(name);
        const entries = Object.entries(config).map(([each, value]) => ({ name: each, value }));
        const sizes = { numPartitions: partitions, replicationFactor: 1 };
        return { topic: name, ...sizes, configEntries: entries };
      }),
    });
    const names = [...topics.keys()];
    if (names.length > 1) {
      // All at once where all are right.
      const created = await this.ask(this.admin.createTopics(wanted(names))).catch(() => false);
      if (created) {
        return { outcomes: Object.fromEntries(names.map((name) => [name, null])) };
      }
    }
    return this.outcomes(names, async (name) => {
      // The client swallows this one code.
      if (!(await this.admin.createTopics(wanted([name])))) {
        throw Object.assign(new Error(name), {
          name: "KafkaJSProtocolError",
          type: "TOPIC_ALREADY_EXISTS",
        });
      }
    });
  }

  delete_topics(op) {
    return this.outcomes(op.topics, (name) => this.admin.deleteTopics({ topics: [name] }));
  }

  create_partitions(op) {
    const wanted = { topic: op.topic, count: op.count };
    return this.outcomes([op.topic], () =>
      this.admin.createPartitions({ topicPartitions: [wanted] }),
    );
  }

  async describe_topic_config(op) {
    const { resources } = await this.ask(
      this.admin.describeConfigs({
        includeSynonyms: false,
        resources: [{ type: ConfigResourceTypes.TOPIC, name: op.topic }],
      }),
    );
    const { configEntries } = resources[0];
    return {
      entries: Object.fromEntries(configEntries.map((each) => [each.configName, each.configValue])),
      dynamic: configEntries
        .filter((each) => each.configSource === DYNAMIC_TOPIC_CONFIG)
        .map((each) => each.configName)
        .sort(),
    };
  }

  alter_topic_config(op) {
    const configEntries = Object.entries(op.config).map(([name, value]) => ({ name, value }));
    const resource = { type: ConfigResourceTypes.TOPIC, name: op.topic, configEntries };
    return this.outcomes([op.topic], () =>
      this.admin.alterConfigs({ validateOnly: false, resources: [resource] }),
    );
  }

  async groups(op) {
    if (op.group === null) {
      const { groups } = await this.ask(this.admin.listGroups());
      const found = groups.map(({ groupId }) => ({
        id: groupId,
        state: "",
        protocol: "",
        client_ids: [],
      }));
      return { groups: found.sort((a, b) => (a.id < b.id ? -1 : 1)) };
    }
    const { groups } = await this.ask(this.admin.describeGroups([op.group]));
    return {
      groups: groups.map(({ groupId, state, protocol, members }) => ({
        id: groupId,
        state,
        protocol,
        client_ids: members.map(({ clientId }) => clientId).sort(),
      })),
    };
  }

  delete_groups(op) {
    return this.outcomes(op.groups, (name) => this.admin.deleteGroups([name]));
  }

  async group_offsets(op) {
    const found = await this.ask(this.admin.fetchOffsets({ groupId: op.group }));
    return places(
      found.flatMap(({ topic, partitions }) =>
        partitions.map((each) => place(topic, each.partition, each.offset, each.metadata)),
      ),
    );
  }

  async alter_group_offsets(op) {
    await setOffsets(this.admin, op.group, op.offsets);
    return {};
  }

  async describe_cluster() {
    const found = await this.ask(this.admin.describeCluster());
    return {
      id: found.clusterId,
      controller: found.controller,
      brokers: Object.fromEntries(
        found.brokers.map(({ nodeId, host, port }) => [nodeId, `${host}:${port}`]),
      ),
    };
  }

  async close() {
    await within(5_000, this.admin.disconnect(), "disconnecting").catch(() => {});
  }
}

/** Sets offsets of a group from outside, a topic at a time. */
export async function setOffsets(admin, groupId, offsets) {
  const topics = {};
  for (const { topic, partition, offset } of offsets) {
    (topics[topic] ??= []).push({ partition, offset: String(offset) });
  }
  for (const [topic, partitions] of Object.entries(topics)) {
    await within(CALL_MS, admin.setOffsets({ groupId, topic, partitions }), "setting offsets");
  }
}

/** Some failures have the code inside a list. */
function outcome(error) {
  const inner = error.errors?.[0] ?? error.groups?.[0]?.error ?? error;
  return protocolError(inner)?.type ?? inner.type ?? `${error.name}: ${error.message}`;
}
