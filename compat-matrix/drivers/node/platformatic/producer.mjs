// Sending, waiting for the answer, transactions.

import { Producer, compatibilityPartitioner, defaultPartitioner } from "@platformatic/kafka";

import { within } from "../lib/lines.mjs";
import { deliveries, key, outgoing } from "../lib/values.mjs";
import { words } from "./main.mjs";

const CALL_MS = 15_000;
const ACKS = { 0: 0, 1: 1, all: -1 };
// What is sent in one call is one batch of each partition, however large: the application divides.
const BATCH_RECORDS = 500;
const BATCH_BYTES = 256 * 1024;

export class Producing {
  static OPERATIONS = new Set([
    "produce",
    "produce_numbers",
    "init_transactions",
    "begin_transaction",
    "commit_transaction",
    "abort_transaction",
  ]);

  constructor(config, settings) {
    this.options = {
      acks: ACKS[settings.acks ?? "all"],
      compression: settings.compression ?? "none",
    };
    this.batchRecords = settings.batch_records ?? BATCH_RECORDS;
    // The answer has only the first offset of each partition, so the choices must be known.
    this.chosen = new WeakMap();
    const byKey = settings.partitioner === "murmur2" ? compatibilityPartitioner : defaultPartitioner;
    let turn = 0;
    const own = {
      autocreateTopics: true,
      idempotent: settings.idempotence ?? settings.transactional_id !== undefined,
      partitioner: (message, bytes) => {
        const partition = bytes ? byKey(message, bytes) : turn++;
        this.chosen.set(message, partition);
        return partition;
      },
    };
    if (settings.transactional_id !== undefined) {
      own.transactionalId = settings.transactional_id;
    }
    if (settings.transaction_timeout_ms !== undefined) {
      // It has one time for both.
      own.timeout = settings.transaction_timeout_ms;
    }
    this.producer = new Producer({ ...config, ...own });
    this.transaction = null;
    this.ready = false;
  }

  produce(op) {
    return this.send(op);
  }

  produce_numbers(op) {
    return this.send(op);
  }

  async send(op) {
    const deadline = Date.now() + op.timeout_ms;
    const results = [];
    // One after the other: of two at once, the second overtakes the first when that is repeated.
    for (const batch of divide(outgoing(op), this.batchRecords)) {
      results.push(...(await this.sendBatch(batch, Math.max(1, deadline - Date.now()))));
    }
    return deliveries(results);
  }

  async sendBatch(records, ms) {
    const messages = records.map(toMessage);
    let offsets;
    let failure = null;
    try {
      const sender = this.transaction ?? this.producer;
      ({ offsets } = await within(ms, sender.send({ ...this.options, messages }), "sending"));
    } catch (error) {
      failure = words(error);
      offsets = error.produced?.offsets;
    }
    const counts = await this.widths(records, failure);
    const next = new Map((offsets ?? []).map((each) => [key(each), each.offset]));
    return records.map((record, index) => {
      const raw = record.partition ?? this.chosen.get(messages[index]) ?? 0;
      // As the client does, for numbers that were given to it, too.
      const partition = counts.has(record.topic) ? raw % counts.get(record.topic) : raw;
      const at = key({ topic: record.topic, partition });
      if (!next.has(at)) {
        return failure ?? (this.options.acks === 0 ? [partition, -1] : "the client answered nothing");
      }
      const offset = next.get(at);
      next.set(at, offset + 1n);
      return [partition, offset];
    });
  }

  /** Partitions by topic, as the client knows them from sending. */
  async widths(records, failure) {
    if (failure !== null) {
      return new Map();
    }
    const topics = [...new Set(records.map(({ topic }) => topic))];
    const { topics: found } = await within(CALL_MS, this.producer.metadata({ topics }), "metadata");
    return new Map(topics.map((topic) => [topic, found.get(topic).partitionsCount]));
  }

  // The client makes itself ready with the first transaction.
  async init_transactions() {
    await this.start();
    this.ready = true;
    return {};
  }

  async begin_transaction() {
    if (!this.ready) {
      await this.start();
    }
    this.ready = false;
    return {};
  }

  async start() {
    this.transaction = await within(CALL_MS, this.producer.beginTransaction(), "a transaction");
  }

  async send_offsets(op, { consumer }) {
    await within(CALL_MS, this.transaction.addConsumer(consumer), "adding a group");
    const { groupId, memberId, generationId, coordinatorId } = consumer;
    for (const { topic, partition, offset } of op.offsets) {
      // It takes the message that was read and not the next one.
      const message = {
        topic,
        partition,
        offset: BigInt(offset) - 1n,
        metadata: { consumer: { groupId, memberId, generationId, coordinatorId } },
      };
      await within(CALL_MS, this.transaction.addOffset(message), "adding an offset");
    }
    return {};
  }

  async commit_transaction() {
    await within(CALL_MS, this.transaction.commit(), "committing");
    this.transaction = null;
    return {};
  }

  async abort_transaction() {
    await within(CALL_MS, this.transaction.abort(), "aborting");
    this.transaction = null;
    return {};
  }

  async close() {
    await within(5_000, this.producer.close(true), "closing").catch(() => {});
  }
}

function divide(records, most) {
  const batches = [];
  let bytes = Infinity;
  for (const record of records) {
    const size = (record.key?.length ?? 0) + (record.value?.length ?? 0);
    if (bytes + size > BATCH_BYTES || batches.at(-1).length >= most) {
      batches.push([]);
      bytes = 0;
    }
    batches.at(-1).push(record);
    bytes += size;
  }
  return batches;
}

function toMessage(record) {
  const message = {
    topic: record.topic,
    key: record.key,
    value: record.value,
    // Names as buffers may repeat, as texts they may not.
    headers: new Map(record.headers.map(([name, value]) => [Buffer.from(name), value])),
  };
  if (record.partition !== null) {
    message.partition = record.partition;
  }
  if (record.timestamp_ms !== null) {
    message.timestamp = BigInt(record.timestamp_ms);
  }
  return message;
}
