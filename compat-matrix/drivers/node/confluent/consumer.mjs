// Groups, assignments, positions, commits, offsets by time.

import { Unsupported } from "../lib/lines.mjs";
import { place, places, text } from "../lib/values.mjs";
import { words } from "./main.mjs";
import { called } from "./producer.mjs";

const CALL_MS = 15_000;
const SLICE_MS = 50;
const UNKNOWN = -1001;
const ASSIGNED = -175;

const listed = (found) =>
  found.map(({ topic, partition, offset, metadata }) => {
    if (typeof offset === "bigint") {
      throw new Unsupported("an offset of more than 53 bits");
    }
    return { topic, partition, offset, metadata };
  });

const answered = (found) => {
  const failed = found.find((each) => each.error);
  if (failed) {
    throw failed.error;
  }
  return places(
    found.map(({ topic, partition, offset = -1, metadata }) =>
      place(topic, partition, offset === UNKNOWN ? -1 : offset, metadata),
    ),
  );
};

export class Consuming {
  static OPERATIONS = new Set([
    "subscribe",
    "assign",
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

  static async open(RdKafka, config) {
    const self = new Consuming();
    self.events = [];
    self.unanswered = 0;
    self.consumer = new RdKafka.KafkaConsumer({
      ...config,
      rebalance_cb: true,
      offset_commit_cb: (error) => self.committedOne(error),
    });
    self.consumer.on("rebalance", (event, partitions) => self.rebalanced(event, partitions));
    self.consumer.on("event.error", (error) =>
      self.events.push({ event: "error", message: words(error) }),
    );
    await called((done) => self.consumer.connect({ timeout: CALL_MS }, done));
    self.consumer.setDefaultConsumeTimeout(SLICE_MS);
    return self;
  }

  rebalanced({ code }, partitions) {
    const found = partitions.map(({ topic, partition }) => place(topic, partition, -1));
    this.events.push({
      event: code === ASSIGNED ? "assigned" : "revoked",
      partitions: places(found).places,
    });
  }

  committedOne(error) {
    // It is called for commits that were waited for, too.
    if (this.unanswered > 0) {
      this.unanswered -= 1;
      this.events.push({ event: "committed", error: error ? words(error) : null });
    }
  }

  async subscribe(op) {
    this.consumer.subscribe(
      op.topics.map((topic) => (topic.startsWith("^") ? new RegExp(topic) : topic)),
    );
    return {};
  }

  async unsubscribe() {
    this.consumer.unsubscribe();
    return {};
  }

  async assign(op) {
    this.consumer.assign(listed(op.partitions));
    return {};
  }

  async poll(op) {
    const records = [];
    let quietSince = Date.now();
    while (records.length < op.max && Date.now() - quietSince < op.idle_ms) {
      try {
        const messages = await called((done) =>
          this.consumer.consume(Math.min(1000, op.max - records.length), done),
        );
        if (messages.length > 0) {
          records.push(...messages.map(incoming));
          quietSince = Date.now();
        }
      } catch (error) {
        this.events.push({ event: "error", message: words(error) });
      }
    }
    return { records, events: this.events.splice(0) };
  }

  async commit(op) {
    const offsets = op.offsets && listed(op.offsets);
    if (op.asynchronous) {
      this.unanswered += 1;
      this.consumer.commit(offsets);
    } else {
      this.consumer.commitSync(offsets);
    }
    return {};
  }

  async committed(op) {
    return answered(
      await called((done) => this.consumer.committed(listed(op.partitions), CALL_MS, done)),
    );
  }

  async position() {
    return answered(this.consumer.position(this.consumer.assignments()));
  }

  async assignment() {
    const held = this.consumer.assignments();
    return places(held.map(({ topic, partition }) => place(topic, partition, -1)));
  }

  async pause(op) {
    this.consumer.pause(listed(op.partitions));
    return {};
  }

  async resume(op) {
    this.consumer.resume(listed(op.partitions));
    return {};
  }

  async seek(op) {
    await called((done) => this.consumer.seek(listed([op.partition])[0], CALL_MS, done));
    return {};
  }

  async offsets_for_times(op) {
    return answered(
      await called((done) => this.consumer.offsetsForTimes(listed(op.partitions), CALL_MS, done)),
    );
  }

  async watermarks({ topic, partition }) {
    const { lowOffset, highOffset } = await called((done) =>
      this.consumer.queryWatermarkOffsets(topic, partition, CALL_MS, done),
    );
    return { low: BigInt(lowOffset), high: BigInt(highOffset) };
  }

  async close() {
    await called((done) => this.consumer.disconnect(done)).catch(() => {});
  }
}

function incoming(message) {
  const headers = (message.headers ?? []).flatMap((each) =>
    Object.entries(each).map(([name, value]) => [name, text(value)]),
  );
  return {
    topic: message.topic,
    partition: message.partition,
    offset: BigInt(message.offset),
    key: text(message.key),
    value: text(message.value),
    headers,
    timestamp_ms: message.timestamp ?? null,
  };
}
