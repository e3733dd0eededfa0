// Members of groups. The client's stream is read only while a poll waits.

import { Consumer } from "@platformatic/kafka";

import { pause, within } from "../lib/lines.mjs";
import { key, place, places, text } from "../lib/values.mjs";
import { words } from "./main.mjs";

const CALL_MS = 15_000;
const SLICE_MS = 20;

export class Consuming {
  static OPERATIONS = new Set([
    "subscribe",
    "unsubscribe",
    "poll",
    "commit",
    "committed",
    "assignment",
    "watermarks",
  ]);

  constructor(options, settings) {
    const own = { ...options, groupId: settings.group_id, autocreateTopics: false };
    const named = {
      session_timeout_ms: "sessionTimeout",
      heartbeat_interval_ms: "heartbeatInterval",
      fetch_max_wait_ms: "maxWaitTime",
      group_instance_id: "groupInstanceId",
      auto_create_topics: "autocreateTopics",
    };
    for (const [name, its] of Object.entries(named)) {
      if (settings[name] !== undefined) {
        own[its] = settings[name];
      }
    }
    if (settings.fetch_max_bytes !== undefined) {
      own.maxBytes = own.maxBytesPerPartition = settings.fetch_max_bytes;
    }
    if (settings.isolation !== undefined) {
      own.isolationLevel = settings.isolation === "read_committed" ? 1 : 0;
    }
    this.options = own;
    this.settings = settings;
    this.consumer = new Consumer(own);
    this.stream = null;
    this.held = new Map();
    this.next = new Map();
    this.events = [];
    this.listen();
  }

  listen() {
    this.consumer.on("consumer:group:join", (joined) => this.assigned(joined.assignments ?? []));
    this.consumer.on("consumer:group:rebalance", () => this.revoked());
    this.consumer.on("consumer:heartbeat:error", ({ error }) => this.error(error));
  }

  assigned(assignments) {
    this.revoked();
    const found = assignments.flatMap(({ topic, partitions }) =>
      partitions.map((partition) => place(topic, partition, -1)),
    );
    this.held = new Map(found.map((each) => [key(each), each]));
    this.events.push({ event: "assigned", partitions: places(found).places });
  }

  revoked() {
    if (this.held.size > 0) {
      this.events.push({ event: "revoked", partitions: places(this.held.values()).places });
    }
    this.held = new Map();
    this.next = new Map();
  }

  error(error) {
    this.events.push({ event: "error", message: words(error) });
  }

  async subscribe(op) {
    await this.stop();
    const reset = this.settings.offset_reset === "earliest" ? "earliest" : "latest";
    const autocommit = this.settings.auto_commit ?? true;
    this.stream = await within(
      CALL_MS,
      this.consumer.consume({
        topics: op.topics,
        mode: "committed",
        fallbackMode: reset,
        autocommit: autocommit ? (this.settings.auto_commit_interval_ms ?? 5_000) : false,
        highWaterMark: 64,
      }),
      "joining",
    );
    this.stream.on("error", (error) => this.error(error));
    return {};
  }

  async poll(op) {
    const records = [];
    let quietSince = Date.now();
    while (records.length < op.max && Date.now() - quietSince < op.idle_ms) {
      const message = this.stream?.read();
      if (message === null || message === undefined) {
        await pause(Math.min(SLICE_MS, op.idle_ms));
        continue;
      }
      records.push(incoming(message));
      const at = { topic: message.topic, partition: message.partition };
      this.next.set(key(at), { ...at, offset: message.offset + 1n });
      quietSince = Date.now();
    }
    return { records, events: this.events.splice(0) };
  }

  async commit(op) {
    const offsets = (op.offsets ?? [...this.next.values()]).map(({ topic, partition, offset }) => ({
      topic,
      partition,
      offset: BigInt(offset),
      leaderEpoch: -1,
    }));
    if (offsets.length > 0) {
      await within(CALL_MS, this.consumer.commit({ offsets }), "committing");
    }
    return {};
  }

  async committed(op) {
    const topics = new Map();
    for (const { topic, partition } of op.partitions) {
      topics.set(topic, [...(topics.get(topic) ?? []), partition]);
    }
    const named = [...topics].map(([topic, partitions]) => ({ topic, partitions }));
    const found = await within(
      CALL_MS,
      this.consumer.listCommittedOffsets({ topics: named }),
      "fetching offsets",
    );
    // By number, with gaps.
    return places(
      op.partitions.map(({ topic, partition }) =>
        place(topic, partition, found.get(topic)?.[partition] ?? -1),
      ),
    );
  }

  async assignment() {
    return places(this.held.values());
  }

  async watermarks({ topic, partition }) {
    const ask = async (timestamp) => {
      const partitions = { [topic]: [partition] };
      const listed = this.consumer.listOffsets({ topics: [topic], partitions, timestamp });
      return (await within(CALL_MS, listed, "listing offsets")).get(topic)[partition];
    };
    return { low: await ask(-2n), high: await ask(-1n) };
  }

  async stop() {
    const open = this.stream;
    this.stream = null;
    if (open !== null) {
      await within(5_000, open.close(), "closing").catch(() => {});
      await within(5_000, this.consumer.leaveGroup(true), "leaving").catch(() => {});
    }
    this.revoked();
  }

  async unsubscribe() {
    await this.stop();
    return {};
  }

  async close() {
    await this.stop();
    await within(5_000, this.consumer.close(true), "closing").catch(() => {});
  }
}

function incoming(message) {
  return {
    topic: message.topic,
    partition: message.partition,
    offset: message.offset,
    key: text(message.key),
    value: text(message.value),
    headers: [...message.headers].map(([name, value]) => [name.toString(), text(value)]),
    timestamp_ms: message.timestamp,
  };
}
