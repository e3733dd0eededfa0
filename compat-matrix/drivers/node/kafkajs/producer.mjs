// Sending, waiting for the answer, transactions.

import kafkajs from "kafkajs";

import { Unsupported, within } from "../lib/lines.mjs";
import { deliveries, key, outgoing } from "../lib/values.mjs";

const { CompressionTypes, Partitioners } = kafkajs;
const CALL_MS = 15_000;
const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP };
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

  static async open(kafka, settings) {
    const self = new Producing();
    self.options = {
      acks: ACKS[settings.acks ?? "all"],
      compression: CODECS[settings.compression ?? "none"],
    };
    // The answer has only the first offset of each partition, so the choices must be known.
    self.chosen = new WeakMap();
    const config = {
      createPartitioner: () => {
        const choose = Partitioners.DefaultPartitioner();
        return (question) => {
          const partition = choose(question);
          self.chosen.set(question.message, partition);
          return partition;
        };
      },
      idempotent: settings.idempotence ?? false,
      metadataMaxAge: settings.metadata_refresh_ms ?? 300_000,
    };
    if (settings.transactional_id !== undefined) {
      Object.assign(config, {
        transactionalId: settings.transactional_id,
        transactionTimeout: settings.transaction_timeout_ms ?? 60_000,
        idempotent: true,
        maxInFlightRequests: 1,
      });
    } else if (settings.max_in_flight !== undefined) {
      config.maxInFlightRequests = settings.max_in_flight;
    }
    self.producer = kafka.producer(config);
    self.transaction = null;
    await within(CALL_MS, self.producer.connect(), "connecting");
    return self;
  }

  produce(op) {
    return this.send(op);
  }

  produce_numbers(op) {
    return this.send(op);
  }

  async send(op) {
    const records = outgoing(op);
    const byTopic = new Map();
    const messages = records.map((record) => {
      const message = toMessage(record);
      byTopic.set(record.topic, [...(byTopic.get(record.topic) ?? []), message]);
      return message;
    });
    const topicMessages = [...byTopic].map(([topic, of]) => ({ topic, messages: of }));
    let answers;
    try {
      const sender = this.transaction ?? this.producer;
      answers = await within(
        op.timeout_ms,
        sender.sendBatch({ ...this.options, topicMessages }),
        "sending",
      );
    } catch (error) {
      return deliveries(records.map(() => `${error.name}: ${error.message}`));
    }
    const next = new Map(
      answers.map((each) => [
        key({ topic: each.topicName, partition: each.partition }),
        BigInt(each.baseOffset ?? each.offset ?? -1),
      ]),
    );
    return deliveries(
      records.map((record, index) => {
        const partition = record.partition ?? this.chosen.get(messages[index]);
        const at = key({ topic: record.topic, partition });
        const offset = next.get(at) ?? -1n;
        // Records for a partition that does not exist are dropped without an error.
        if (this.options.acks !== 0 && !next.has(at)) {
          return "the client answered nothing for this partition";
        }
        if (offset >= 0n) {
          next.set(at, offset + 1n);
        }
        return [partition, offset];
      }),
    );
  }

  // The client makes itself ready with the first transaction.
  async init_transactions() {
    this.transaction = await within(CALL_MS, this.producer.transaction(), "a transaction");
    this.ready = true;
    return {};
  }

  async begin_transaction() {
    if (!this.ready) {
      this.transaction = await within(CALL_MS, this.producer.transaction(), "a transaction");
    }
    this.ready = false;
    return {};
  }

  async send_offsets(op, consumerGroupId) {
    const topics = {};
    for (const { topic, partition, offset } of op.offsets) {
      (topics[topic] ??= []).push({ partition, offset: String(offset) });
    }
    const named = Object.entries(topics).map(([topic, partitions]) => ({ topic, partitions }));
    await within(
      CALL_MS,
      this.transaction.sendOffsets({ consumerGroupId, topics: named }),
      "sending offsets",
    );
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
    await within(5_000, this.producer.disconnect(), "disconnecting").catch(() => {});
  }
}

function toMessage(record) {
  const message = { key: record.key, value: record.value, headers: {} };
  for (const [index, [name, value]] of record.headers.entries()) {
    if (name in message.headers && record.headers[index - 1][0] !== name) {
      throw new Unsupported("headers are an object: a name in two places loses its place");
    }
    const others = message.headers[name];
    message.headers[name] = others === undefined ? value : [].concat(others, [value]);
  }
  if (record.partition !== null) {
    message.partition = record.partition;
  }
  if (record.timestamp_ms !== null) {
    message.timestamp = String(record.timestamp_ms);
  }
  return message;
}
