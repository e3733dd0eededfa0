// Topics and groups, as far as the interface goes.

import { place, places } from "../lib/values.mjs";
import { codeName, words } from "./main.mjs";
import { called } from "./producer.mjs";

const CALL_MS = 15_000;
const OPTIONS = { timeout: CALL_MS };
const STATES = ["Unknown", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty"];

const outcome = (error) => (error ? (codeName(error.code ?? error.errno) ?? words(error)) : null);

export class Administration {
  static OPERATIONS = new Set([
    "metadata",
    "create_topics",
    "delete_topics",
    "create_partitions",
    "delete_records",
    "list_offsets",
    "groups",
    "delete_groups",
    "group_offsets",
  ]);

  constructor(RdKafka, config) {
    this.admin = RdKafka.AdminClient.create(config);
    this.Spec = RdKafka.OffsetSpec;
    this.Producer = RdKafka.Producer;
    this.config = config;
  }

  /** A call takes one name, so those of many are made side by side. */
  async outcomes(names, act) {
    const one = (name) => called((done) => act(name, done)).then(() => null, outcome);
    const found = await Promise.all(names.map(async (name) => [name, await one(name)]));
    return { outcomes: Object.fromEntries(found) };
  }

  /** The admin client does not tell the brokers; any other client does. */
  async cluster() {
    const client = new this.Producer(this.config);
    try {
      await called((done) => client.connect(OPTIONS, done));
      return await called((done) => client.getMetadata({ ...OPTIONS, allTopics: true }, done));
    } finally {
      client.disconnect();
    }
  }

  async metadata(op) {
    const all = await this.cluster();
    const brokers = Object.fromEntries(all.brokers.map((b) => [b.id, `${b.host}:${b.port}`]));
    const topics = {};
    const errors = {};
    if (op.topic === null) {
      for (const { name, partitions } of all.topics) {
        topics[name] = partitions.length;
      }
    } else {
      const [topic] = await called((done) =>
        this.admin.describeTopics([op.topic], OPTIONS, done),
      );
      topics[op.topic] = topic.partitions.length;
      if (topic.error) {
        errors[op.topic] = outcome(topic.error);
      }
    }
    return { topics, errors, brokers };
  }

  create_topics(op) {
    const topics = new Map(op.topics.map((each) => [each.name, each]));
    return this.outcomes([...topics.keys()], (name, done) => {
      const { partitions, config } = topics.get(name);
      const wanted = { topic: name, num_partitions: partitions, replication_factor: 1, config };
      this.admin.createTopic(wanted, CALL_MS, done);
    });
  }

  delete_topics(op) {
    return this.outcomes(op.topics, (name, done) => this.admin.deleteTopic(name, CALL_MS, done));
  }

  create_partitions(op) {
    return this.outcomes([op.topic], (name, done) =>
      this.admin.createPartitions(name, op.count, CALL_MS, done),
    );
  }

  async delete_records(op) {
    const wanted = op.partitions.map(({ topic, partition, offset }) => ({
      topic,
      partition,
      offset,
    }));
    const done = await called((call) => this.admin.deleteRecords(wanted, OPTIONS, call));
    return places(
      done.map(({ topic, partition, lowWatermark, error }) => {
        if (error) {
          throw error;
        }
        return place(topic, partition, lowWatermark);
      }),
    );
  }

  async list_offsets(op) {
    const named = {
      [-1]: this.Spec.LATEST,
      [-2]: this.Spec.EARLIEST,
      [-3]: this.Spec.MAX_TIMESTAMP,
    };
    const wanted = op.partitions.map(({ topic, partition, offset }) => ({
      topic,
      partition,
      offset: named[offset] ?? new this.Spec(offset),
    }));
    const found = await called((call) => this.admin.listOffsets(wanted, OPTIONS, call));
    return places(
      found.map(({ topic, partition, offset, error }) => {
        if (error) {
          throw error;
        }
        return place(topic, partition, offset);
      }),
    );
  }

  async groups(op) {
    if (op.group === null) {
      const { groups } = await called((call) => this.admin.listGroups(OPTIONS, call));
      const found = groups.map(({ groupId, state }) => ({
        id: groupId,
        state: STATES[state] ?? "",
        protocol: "",
        client_ids: [],
      }));
      return { groups: found.sort((a, b) => (a.id < b.id ? -1 : 1)) };
    }
    const { groups } = await called((call) =>
      this.admin.describeGroups([op.group], OPTIONS, call),
    );
    return {
      groups: groups.map(({ groupId, state, partitionAssignor, protocol, members, error }) => {
        if (error) {
          throw error;
        }
        return {
          id: groupId,
          state: STATES[state],
          protocol: partitionAssignor ?? protocol,
          client_ids: members.map(({ clientId }) => clientId).sort(),
        };
      }),
    };
  }

  async delete_groups(op) {
    const done = await called((call) => this.admin.deleteGroups(op.groups, OPTIONS, call)).catch(
      (error) => error.groups ?? Promise.reject(error),
    );
    const outcomes = {};
    for (const { groupId, error } of done) {
      outcomes[groupId] = outcome(error);
    }
    return { outcomes };
  }

  async group_offsets(op) {
    const [found] = await called((call) =>
      this.admin.listConsumerGroupOffsets([{ groupId: op.group }], OPTIONS, call),
    );
    if (found.error) {
      throw found.error;
    }
    return places(
      found.partitions.map(({ topic, partition, offset, metadata }) =>
        place(topic, partition, offset, metadata),
      ),
    );
  }

  close() {
    this.admin.disconnect();
  }
}
