// Groups, commits, positions. Records wait in the client's stream until a poll takes them.

import {
  Admin,
  Consumer,
  FetchIsolationLevels,
  ListOffsetTimestamps,
  MessagesStreamFallbackModes,
  MessagesStreamModes,
} from "@platformatic/kafka";

import { Unsupported, pause, within } from "../lib/lines.mjs";
import { key, place, places, text } from "../lib/values.mjs";
import { alterOffsets } from "./admin.mjs";
import { words } from "./main.mjs";

const CALL_MS = 15_000;
const SLICE_MS = 20;
const FALLBACK = {
  earliest: MessagesStreamFallbackModes.EARLIEST,
  latest: MessagesStreamFallbackModes.LATEST,
  error: MessagesStreamFallbackModes.FAIL,
};

export class Consuming {
  static OPERATIONS = new Set([
    "subscribe",
    "unsubscribe",
    "poll",
    "commit",
    "committed",
    "position",
    "assignment",
    "offsets_for_times",
    "watermarks",
  ]);

  constructor(config, settings) {
    this.common = config;
    this.settings = settings;
    this.events = [];
    this.admin = null;
    this.fresh();
  }

  /** A consumer that is no member yet. */
  fresh() {
    this.held = new Map();
    this.stream = null;
    this.joining = null;
    this.consumer = new Consumer({ ...this.common, ...this.group() });
    this.consumer.on("consumer:group:join", () => this.joined());
    this.consumer.on("error", (error) => this.error(error));
    this.consumer.on("consumer:group:autocommit:error", ({ error }) => this.error(error));
  }

  group() {
    const s = this.settings;
    const config = { groupId: s.group_id, autocreateTopics: s.auto_create_topics ?? false };
    if (s.group_instance_id !== undefined) {
      config.groupInstanceId = s.group_instance_id;
    }
    if (s.group_protocol === "consumer") {
      return { ...config, groupProtocol: "consumer" };
    }
    if (s.session_timeout_ms !== undefined) {
      config.sessionTimeout = s.session_timeout_ms;
      config.heartbeatInterval = Math.min(3_000, Math.floor(s.session_timeout_ms / 3));
    }
    if (s.heartbeat_interval_ms !== undefined) {
      config.heartbeatInterval = s.heartbeat_interval_ms;
    }
    if (s.max_poll_interval_ms !== undefined) {
      config.rebalanceTimeout = Math.max(s.max_poll_interval_ms, s.session_timeout_ms ?? 60_000);
    }
    if (s.assignors !== undefined) {
      config.protocols = s.assignors.map((name) => ({ name, version: 1 }));
    }
    return config;
  }

  streaming(topics) {
    const s = this.settings;
    const options = {
      topics,
      mode: MessagesStreamModes.COMMITTED,
      fallbackMode: FALLBACK[s.offset_reset ?? "latest"],
    };
    if (s.auto_commit !== undefined) {
      options.autocommit = s.auto_commit && Math.max(100, s.auto_commit_interval_ms ?? 5_000);
    }
    if (s.fetch_max_wait_ms !== undefined) {
      options.maxWaitTime = s.fetch_max_wait_ms;
    }
    if (s.fetch_max_bytes !== undefined) {
      options.maxBytes = options.maxBytesPerPartition = s.fetch_max_bytes;
    }
    if (s.isolation !== undefined) {
      options.isolationLevel =
        s.isolation === "read_committed"
          ? FetchIsolationLevels.READ_COMMITTED
          : FetchIsolationLevels.READ_UNCOMMITTED;
    }
    return options;
  }

  async subscribe(op) {
    await this.unsubscribe();
    const { consumer } = this;
    this.joining = consumer.consume(this.streaming(op.topics)).then(
      (stream) => {
        stream.on("error", (error) => this.error(error));
        // Who listens to this takes records by reading, one at a time.
        stream.on("readable", () => {});
        this.stream = stream;
      },
      (error) => this.error(error),
    );
    return {};
  }

  async unsubscribe() {
    if (this.joining !== null) {
      await this.leave();
      this.fresh();
    }
    return {};
  }

  async leave() {
    this.revoked([...this.held.values()]);
    await within(8_000, this.consumer.close(true), "leaving").catch(() => {});
  }

  error(error) {
    this.events.push({ event: "error", message: words(error) });
  }

  eager() {
    const s = this.settings;
    return s.group_protocol !== "consumer" && !s.assignors?.includes("cooperative-sticky");
  }

  joined() {
    if (this.eager()) {
      this.revoked([...this.held.values()]);
    }
    this.compare(true);
  }

  /** Tells what changed since the last look at what the client holds. */
  compare(joined = false) {
    const now = new Map();
    for (const { topic, partitions } of this.consumer.assignments ?? []) {
      for (const partition of partitions) {
        now.set(key({ topic, partition }), place(topic, partition, -1));
      }
    }
    this.revoked([...this.held.values()].filter((each) => !now.has(key(each))));
    const fresh = [...now].filter(([at]) => !this.held.has(at));
    for (const [at, each] of fresh) {
      this.held.set(at, each);
    }
    if (fresh.length > 0 || joined) {
      const partitions = places(fresh.map(([, each]) => ({ ...each }))).places;
      this.events.push({ event: "assigned", partitions });
    }
  }

  revoked(gone) {
    if (gone.length === 0) {
      return;
    }
    for (const each of gone) {
      this.held.delete(key(each));
    }
    const partitions = gone.map(({ topic, partition }) => place(topic, partition, -1));
    this.events.push({ event: "revoked", partitions: places(partitions).places });
  }

  async poll(op) {
    const records = [];
    let quietSince = Date.now();
    while (records.length < op.max && Date.now() - quietSince < op.idle_ms) {
      const message = this.stream?.read() ?? null;
      if (message === null) {
        await pause(Math.min(SLICE_MS, op.idle_ms));
        if (this.consumer.assignments !== null) {
          this.compare();
        }
        continue;
      }
      records.push(incoming(message));
      const { topic, partition, offset } = message;
      if (this.held.has(key(message))) {
        this.held.set(key(message), place(topic, partition, offset + 1n));
      }
      quietSince = Date.now();
    }
    return { records, events: this.events.splice(0) };
  }

  async commit(op) {
    const wanted = op.offsets ?? [...this.held.values()].filter((each) => each.offset >= 0n);
    if (wanted.some(({ metadata }) => metadata)) {
      throw new Unsupported("commits have no metadata");
    }
    const offsets = wanted.map(({ topic, partition, offset }) => ({
      topic,
      partition,
      offset: BigInt(offset),
      leaderEpoch: -1,
    }));
    // Who is no member commits as an administrator does.
    const act = () =>
      this.joining === null
        ? alterOffsets(this.helper(), this.settings.group_id, offsets)
        : this.consumer.commit({ offsets });
    const done = within(CALL_MS, act(), "committing");
    if (!op.asynchronous) {
      await done;
      return {};
    }
    done.then(
      () => this.events.push({ event: "committed", error: null }),
      (error) => this.events.push({ event: "committed", error: words(error) }),
    );
    return {};
  }

  helper() {
    this.admin ??= new Admin(this.common);
    return this.admin;
  }

  async committed(op) {
    const topics = {};
    for (const { topic, partition } of op.partitions) {
      (topics[topic] ??= []).push(partition);
    }
    const named = Object.entries(topics).map(([topic, partitions]) => ({ topic, partitions }));
    const found = await within(
      CALL_MS,
      this.consumer.listCommittedOffsets({ topics: named }),
      "fetching offsets",
    );
    return places(
      op.partitions.map(({ topic, partition }) =>
        place(topic, partition, found.get(topic)?.[partition] ?? -1),
      ),
    );
  }

  async position() {
    return places(this.held.values());
  }

  async assignment() {
    return places(this.held.values());
  }

  async offsets_for_times(op) {
    const found = [];
    for (const { topic, partition, offset: time } of op.partitions) {
      found.push(place(topic, partition, await this.offset(topic, partition, BigInt(time))));
    }
    return places(found);
  }

  async watermarks({ topic, partition }) {
    return {
      low: await this.offset(topic, partition, ListOffsetTimestamps.EARLIEST),
      high: await this.offset(topic, partition, ListOffsetTimestamps.LATEST),
    };
  }

  async offset(topic, partition, timestamp) {
    const isolationLevel = FetchIsolationLevels.READ_UNCOMMITTED;
    const asked = { topics: [topic], partitions: { [topic]: [partition] }, timestamp, isolationLevel };
    const found = await within(CALL_MS, this.consumer.listOffsets(asked), "listing offsets");
    return found.get(topic)[partition];
  }

  async close() {
    await this.leave();
    await this.admin?.close();
  }
}

function incoming({ topic, partition, offset, key: name, value, headerEntries, timestamp }) {
  return {
    topic,
    partition,
    offset,
    key: text(name),
    value: text(value),
    headers: headerEntries.map(([each, data]) => [each.toString("utf8"), text(data)]),
    timestamp_ms: timestamp,
  };
}
