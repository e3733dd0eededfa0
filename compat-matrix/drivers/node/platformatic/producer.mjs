// Sending, waiting for the answer, transactions.

import { Producer } from "@platformatic/kafka";

import { within } from "../lib/lines.mjs";
import { deliveries, key, outgoing } from "../lib/values.mjs";
import { words } from "./main.mjs";

const CALL_MS = 15_000;
const ACKS = { 0: 0, 1: 1, all: -1 };

export class Producing {
  static OPERATIONS = new Set([
    "produce",
    "produce_numbers",
    "init_transactions",
    "begin_transaction",
    "commit_transaction",
    "abort_transaction",
  ]);

  constructor(options, settings) {
    this.acks = ACKS[settings.acks ?? "all"];
    const own = {
      ...options,
      acks: this.acks,
      compression: settings.compression ?? "none",
      autocreateTopics: true,
    };
    if (settings.transactional_id !== undefined) {
      own.transactionalId = settings.transactional_id;
    }
    if (settings.idempotence || settings.transactional_id !== undefined) {
      own.idempotent = true;
    }
    this.producer = new Producer(own);
    this.transaction = null;
    this.next = 0;
  }

  produce(op) {
    return this.send(op);
  }

  produce_numbers(op) {
    return this.send(op);
  }

  async send(op) {
    const records = outgoing(op);
    try {
      const counts = await this.counts(records);
      const messages = records.map((record) => toMessage(record, this.partition(record, counts)));
      const sender = this.transaction ?? this.producer;
      const answer = await within(op.timeout_ms, sender.send({ messages }), "sending");
      const next = new Map((answer.offsets ?? []).map((each) => [key(each), each.offset]));
      return deliveries(
        messages.map((message) => {
          const at = key(message);
          const offset = next.get(at) ?? -1n;
          if (this.acks !== 0 && !next.has(at)) {
            return "the client answered nothing for this partition";
          }
          if (offset >= 0n) {
            next.set(at, offset + 1n);
          }
          return [message.partition, offset];
        }),
      );
    } catch (error) {
      return deliveries(records.map(() => words(error)));
    }
  }

  /** Partition counts of the topics of records that name no partition. */
  async counts(records) {
    const topics = new Set(records.filter((each) => each.partition === null).map((r) => r.topic));
    if (topics.size === 0) {
      return new Map();
    }
    const metadata = await within(
      CALL_MS,
      this.producer.metadata({ topics: [...topics], autocreateTopics: true }),
      "metadata",
    );
    return new Map([...topics].map((t) => [t, metadata.topics.get(t).partitionsCount]));
  }

  /** The client's answer has the first offset of each partition, so the choice must be known. */
  partition(record, counts) {
    return record.partition ?? this.next++ % counts.get(record.topic);
  }

  // The client asks for its id with the first transaction.
  async init_transactions() {
    this.transaction = await within(CALL_MS, this.producer.beginTransaction(), "a transaction");
    this.ready = true;
    return {};
  }

  async begin_transaction() {
    if (!this.ready) {
      this.transaction = await within(CALL_MS, this.producer.beginTransaction(), "a transaction");
    }
    this.ready = false;
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

function toMessage(record, partition) {
  const message = {
    topic: record.topic,
    partition,
    key: record.key ?? undefined,
    value: record.value ?? undefined,
    headers: new Map(record.headers.map(([name, value]) => [Buffer.from(name), value])),
  };
  if (record.timestamp_ms !== null) {
    message.timestamp = BigInt(record.timestamp_ms);
  }
  return message;
}
