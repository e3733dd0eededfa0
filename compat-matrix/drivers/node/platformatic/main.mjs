// The driver of @platformatic/kafka.

import { readFileSync } from "node:fs";

import { Unsupported, packageVersion, serve } from "../lib/lines.mjs";
import { Administration } from "./admin.mjs";
import { Consuming } from "./consumer.mjs";
import { Producing } from "./producer.mjs";

/** Kafka's name of the code that the broker answered, under what the client wrapped around it. */
export function codeOf(error) {
  for (let each = error; each; each = each.cause) {
    if (each.apiId !== undefined) {
      return each.apiId;
    }
    const inner = (each.errors ?? []).map(codeOf).find((code) => code !== null);
    if (inner !== undefined) {
      return inner;
    }
  }
  return null;
}

/** With the broker's code in front, which the client's own sentence hides in a list. */
export function words(error) {
  const code = codeOf(error);
  return `${code === null ? error.name : code}: ${error.message}`;
}

class Session {
  constructor(begin) {
    const options = {
      clientId: begin.client_id,
      bootstrapBrokers: begin.bootstrap.split(","),
      connectTimeout: 5_000,
      requestTimeout: 10_000,
      timeout: 10_000,
      retries: 5,
      retryDelay: 200,
    };
    if (begin.tls) {
      options.tls = { ca: [readFileSync(begin.tls.ca_file, "utf8")] };
    }
    if (begin.sasl) {
      options.sasl = begin.sasl;
    }
    this.options = options;
    this.producer = this.consumer = this.admin = null;
  }

  /** What settings change of every client's options. */
  common(settings) {
    const changed = { ...this.options };
    const named = {
      metadata_refresh_ms: "metadataMaxAge",
      request_timeout_ms: "requestTimeout",
      retry_backoff_ms: "retryDelay",
    };
    for (const [name, own] of Object.entries(named)) {
      if (settings[name] !== undefined) {
        changed[own] = settings[name];
      }
    }
    return changed;
  }

  async perform(op) {
    switch (op.op) {
      case "open_producer":
        await this.closeProducer();
        this.producer = new Producing(this.common(op.settings), op.settings);
        return {};
      case "close_producer":
        await this.closeProducer();
        return {};
      case "open_consumer":
        await this.closeConsumer();
        this.consumer = new Consuming(this.common(op.settings), op.settings);
        return {};
      case "close_consumer":
        await this.closeConsumer();
        return {};
    }
    for (const [kind, type] of [["producer", Producing], ["consumer", Consuming]]) {
      if (type.OPERATIONS.has(op.op)) {
        if (this[kind] === null) {
          throw new Error(`this session has no ${kind} open`);
        }
        return this[kind][op.op](op);
      }
    }
    if (!Administration.OPERATIONS.has(op.op)) {
      throw new Unsupported(op.op);
    }
    this.admin ??= new Administration(this.options);
    return this.admin[op.op](op);
  }

  async closeProducer() {
    const open = this.producer;
    this.producer = null;
    await open?.close();
  }

  async closeConsumer() {
    const open = this.consumer;
    this.consumer = null;
    await open?.close();
  }

  async close() {
    await this.closeProducer();
    await this.closeConsumer();
    await this.admin?.close();
    this.admin = null;
  }
}

await serve({
  name: "@platformatic/kafka",
  version: packageVersion(import.meta.url, "@platformatic/kafka"),
  lacks: [
    // What it reads it reads as a member of a group.
    "assign",
    "assignor.cooperative-sticky",
    "assignor.range",
    "assignor.roundrobin",
    "assignor.sticky",
    "alter_topic_config",
    "codec.zstd",
    "commit.asynchronous",
    "commit.metadata",
    "describe_cluster",
    "describe_log_dirs",
    "group_protocol.classic",
    "group_protocol.consumer",
    "offset_reset.error",
    "offsets_for_times",
    "partitioner.murmur2",
    "pause",
    "position",
    "record.header_null",
    "resume",
    "seek",
    "send_offsets",
    "setting.assignors",
    "setting.batch_bytes",
    "setting.batch_records",
    "setting.delivery_timeout_ms",
    "setting.group_protocol",
    "setting.linger_ms",
    "setting.max_in_flight",
    "setting.max_poll_interval_ms",
    "setting.max_request_bytes",
    "setting.partitioner",
    "setting.reconnect_backoff_max_ms",
    "setting.reconnect_backoff_ms",
    "setting.topic_propagation_ms",
    "setting.transaction_timeout_ms",
    "subscribe.pattern",
    "topic.validate_only",
  ],
  open: async (begin) => new Session(begin),
  code: codeOf,
});
