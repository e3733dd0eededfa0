// Groups, commits, positions. The client pushes; a batch waits here until a poll takes its records.

import { Unsupported, pause, within } from "../lib/lines.mjs";
import { key, place, places, text } from "../lib/values.mjs";
import { setOffsets } from "./admin.mjs";
import { protocolError } from "./main.mjs";

const CALL_MS = 15_000;
const SLICE_MS = 20;

export class Consuming {
  static OPERATIONS = new Set([
    "subscribe",
    "poll",
    "commit",
    "committed",
    "position",
    "assignment",
    "pause",
    "resume",
    "seek",
    "offsets_for_times",
    "watermarks",
    "unsubscribe",
  ]);

  constructor(kafka, settings) {
    this.kafka = kafka;
    this.settings = settings;
    this.admin = null;
    this.consumer = null;
    this.forget();
    this.events = [];
  }

  forget() {
    this.waiting = [];
    this.held = new Map();
  }

  config() {
    const s = this.settings;
    const config = { groupId: s.group_id, retry: { retries: 5 } };
    const named = {
      session_timeout_ms: "sessionTimeout",
      heartbeat_interval_ms: "heartbeatInterval",
      metadata_refresh_ms: "metadataMaxAge",
      fetch_max_wait_ms: "maxWaitTimeInMs",
      auto_create_topics: "allowAutoTopicCreation",
    };
    for (const [name, own] of Object.entries(named)) {
      if (s[name] !== undefined) {
        config[own] = s[name];
      }
    }
    if (s.fetch_max_bytes !== undefined) {
      config.maxBytes = config.maxBytesPerPartition = s.fetch_max_bytes;
    }
    if (s.isolation !== undefined) {
      config.readUncommitted = s.isolation === "read_uncommitted";
    }
    return config;
  }

  async subscribe(op) {
    await this.unsubscribe();
    const consumer = this.kafka.consumer(this.config());
    this.consumer = consumer;
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => this.assigned(payload));
    consumer.on(consumer.events.REBALANCING, () => this.revoked());
    consumer.on(consumer.events.CRASH, ({ payload }) => this.error(payload.error));
    await within(CALL_MS, consumer.connect(), "connecting");
    await consumer.subscribe({
      topics: op.topics.map((topic) => (topic.startsWith("^") ? new RegExp(topic) : topic)),
      fromBeginning: this.settings.offset_reset === "earliest",
    });
    await consumer.run({
      autoCommit: this.settings.auto_commit ?? true,
      autoCommitInterval: this.settings.auto_commit_interval_ms ?? 5_000,
      eachBatchAutoResolve: false,
      partitionsConsumedConcurrently: 64,
      eachBatch: (work) => this.offer(work),
    });
    return {};
  }

  assigned({ memberAssignment }) {
    const found = Object.entries(memberAssignment).flatMap(([topic, partitions]) =>
      partitions.map((partition) => place(topic, partition, -1)),
    );
    this.revoked();
    this.held = new Map(found.map((each) => [key(each), each]));
    this.events.push({ event: "assigned", partitions: places(found).places });
  }

  revoked() {
    if (this.held.size > 0) {
      const partitions = [...this.held.values()].map((each) => place(each.topic, each.partition, -1));
      this.events.push({ event: "revoked", partitions: places(partitions).places });
    }
    this.forget();
  }

  error(error) {
    const code = protocolError(error)?.type;
    this.events.push({
      event: "error",
      message: `${code ? `${code}: ` : ""}${error.name}: ${error.message}`,
    });
  }

  /** Keeps a batch until its records are taken, with heartbeats meanwhile. */
  async offer({ batch, resolveOffset, heartbeat, commitOffsetsIfNecessary, isRunning, isStale }) {
    const offer = { batch, next: 0 };
    this.waiting.push(offer);
    const alive = () => isRunning() && !isStale() && this.waiting.includes(offer);
    let beat = Date.now();
    let resolved = 0;
    while (alive() && resolved < batch.messages.length) {
      await pause(SLICE_MS);
      if (offer.next > resolved) {
        resolved = offer.next;
        resolveOffset(batch.messages[resolved - 1].offset);
        await commitOffsetsIfNecessary();
      }
      if (Date.now() - beat > 200) {
        await heartbeat();
        beat = Date.now();
      }
    }
    this.waiting = this.waiting.filter((each) => each !== offer);
  }

  async poll(op) {
    const records = [];
    let quietSince = Date.now();
    while (records.length < op.max && Date.now() - quietSince < op.idle_ms) {
      const offer = this.waiting.find((each) => each.next < each.batch.messages.length);
      if (offer === undefined) {
        await pause(Math.min(SLICE_MS, op.idle_ms));
        continue;
      }
      const { topic, partition, messages } = offer.batch;
      while (records.length < op.max && offer.next < messages.length) {
        const message = messages[offer.next++];
        records.push(incoming(topic, partition, message));
        const offset = BigInt(message.offset) + 1n;
        this.held.set(key({ topic, partition }), place(topic, partition, offset));
      }
      quietSince = Date.now();
    }
    const events = this.events.splice(0);
    return { records, events };
  }

  async commit(op) {
    const offsets =
      op.offsets ?? [...this.held.values()].filter((each) => each.offset >= 0n);
    if (this.consumer === null) {
      return this.commitOutside(offsets);
    }
    await within(
      CALL_MS,
      this.consumer.commitOffsets(
        offsets.map(({ topic, partition, offset, metadata }) => ({
          topic,
          partition,
          offset: String(offset),
          metadata,
        })),
      ),
      "committing",
    );
    return {};
  }

  /** Who is no member commits as an administrator does. */
  async commitOutside(offsets) {
    if (offsets.some(({ metadata }) => metadata)) {
      throw new Unsupported("only a member commits with metadata");
    }
    await setOffsets(await this.helper(), this.settings.group_id, offsets);
    return {};
  }

  async helper() {
    if (this.admin === null) {
      this.admin = this.kafka.admin();
      await within(CALL_MS, this.admin.connect(), "connecting");
    }
    return this.admin;
  }

  async committed(op) {
    const admin = await this.helper();
    const topics = [...new Set(op.partitions.map(({ topic }) => topic))];
    const found = await within(
      CALL_MS,
      admin.fetchOffsets({ groupId: this.settings.group_id, topics }),
      "fetching offsets",
    );
    const known = new Map();
    for (const { topic, partitions } of found) {
      for (const { partition, offset, metadata } of partitions) {
        known.set(key({ topic, partition }), place(topic, partition, offset, metadata));
      }
    }
    return places(
      op.partitions.map((each) => known.get(key(each)) ?? place(each.topic, each.partition, -1)),
    );
  }

  async position() {
    return places(this.held.values());
  }

  async assignment() {
    return places(this.held.values());
  }

  async pause(op) {
    this.consumer.pause(byTopic(op.partitions));
    const paused = new Set(op.partitions.map(key));
    // What is fetched already must not come either; it is fetched again after `resume`.
    for (const each of this.waiting.filter(({ batch }) => paused.has(key(batch)))) {
      this.waiting = this.waiting.filter((other) => other !== each);
    }
    return {};
  }

  async resume(op) {
    this.consumer.resume(byTopic(op.partitions));
    return {};
  }

  async seek(op) {
    const { topic, partition } = op.partition;
    let { offset } = op.partition;
    if (offset < 0) {
      const marks = await this.watermarks(op.partition);
      offset = offset === -2 ? marks.low : marks.high;
    }
    this.waiting = this.waiting.filter(({ batch }) => key(batch) !== key(op.partition));
    this.consumer.seek({ topic, partition, offset: String(offset) });
    this.held.set(key(op.partition), place(topic, partition, offset));
    return {};
  }

  async offsets_for_times(op) {
    const admin = await this.helper();
    const found = [];
    for (const { topic, partition, offset: time } of op.partitions) {
      const listed = await within(
        CALL_MS,
        admin.fetchTopicOffsetsByTimestamp(topic, time),
        "fetching offsets",
      );
      const at = listed.find((each) => each.partition === partition);
      const { high } = await this.watermarks({ topic, partition });
      // It answers the end where no record is that young.
      found.push(place(topic, partition, BigInt(at.offset) === high ? -1 : at.offset));
    }
    return places(found);
  }

  async watermarks({ topic, partition }) {
    const admin = await this.helper();
    const listed = await within(CALL_MS, admin.fetchTopicOffsets(topic), "fetching offsets");
    const { low, high } = listed.find((each) => each.partition === partition);
    return { low: BigInt(low), high: BigInt(high) };
  }

  async unsubscribe() {
    const open = this.consumer;
    this.consumer = null;
    this.revoked();
    if (open !== null) {
      await within(8_000, open.disconnect(), "disconnecting").catch(() => {});
    }
    return {};
  }

  async close() {
    await this.unsubscribe();
    await this.admin?.disconnect();
  }
}

function byTopic(partitions) {
  const topics = {};
  for (const { topic, partition } of partitions) {
    (topics[topic] ??= []).push(partition);
  }
  return Object.entries(topics).map(([topic, of]) => ({ topic, partitions: of }));
}

function incoming(topic, partition, message) {
  const headers = Object.entries(message.headers ?? {}).flatMap(([name, values]) =>
    [].concat(values).map((value) => [name, text(value)]),
  );
  return {
    topic,
    partition,
    offset: BigInt(message.offset),
    key: text(message.key),
    value: text(message.value),
    headers,
    timestamp_ms: Number(message.timestamp),
  };
}
