// The driver of kafkajs.

import { readFileSync } from "node:fs";

import { Kafka, logLevel } from "kafkajs";

import { Unsupported, packageVersion, serve } from "../lib/lines.mjs";
import { Administration } from "./admin.mjs";
import { Consuming } from "./consumer.mjs";
import { Producing } from "./producer.mjs";

/** What the broker said, under what the client wrapped around it. */
export function protocolError(error) {
  for (let each = error; each; each = each.cause ?? each.originalError) {
    if (typeof each.type === "string" && each.name === "KafkaJSProtocolError") {
      return each;
    }
  }
  return null;
}

class Session {
  constructor(begin) {
    const config = {
      clientId: begin.client_id,
      brokers: begin.bootstrap.split(","),
      connectionTimeout: 5_000,
      requestTimeout: 10_000,
      logLevel: logLevel.WARN,
    };
    if (begin.tls) {
      config.ssl = { ca: [readFileSync(begin.tls.ca_file, "utf8")] };
    }
    if (begin.sasl) {
      const { mechanism, username, password } = begin.sasl;
      config.sasl = { mechanism: mechanism.toLowerCase(), username, password };
    }
    this.config = config;
    this.producer = this.consumer = this.admin = null;
  }

  kafka(settings = {}) {
    const retry = { retries: 5 };
    if (settings.retry_backoff_ms !== undefined) {
      retry.initialRetryTime = settings.retry_backoff_ms;
    }
    const requestTimeout = settings.request_timeout_ms ?? this.config.requestTimeout;
    return new Kafka({ ...this.config, requestTimeout, retry });
  }

  async perform(op) {
    switch (op.op) {
      case "open_producer":
        await this.closeProducer();
        this.producer = await Producing.open(this.kafka(op.settings), op.settings);
        return {};
      case "close_producer":
        await this.closeProducer();
        return {};
      case "open_consumer":
        await this.closeConsumer();
        this.consumer = new Consuming(this.kafka(op.settings), op.settings);
        return {};
      case "close_consumer":
        await this.closeConsumer();
        return {};
      case "send_offsets":
        return this.opened("producer").send_offsets(op, this.opened("consumer").settings.group_id);
    }
    for (const [kind, type] of [["producer", Producing], ["consumer", Consuming]]) {
      if (type.OPERATIONS.has(op.op)) {
        return this.opened(kind)[op.op](op);
      }
    }
    if (!Administration.OPERATIONS.has(op.op)) {
      throw new Unsupported(op.op);
    }
    this.admin ??= await Administration.open(this.kafka());
    return this.admin[op.op](op);
  }

  opened(kind) {
    if (this[kind] === null) {
      throw new Error(`this session has no ${kind} open`);
    }
    return this[kind];
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
  name: "kafkajs",
  version: packageVersion(import.meta.url, "kafkajs"),
  lacks: [
    "assign",
    "assignor.cooperative-sticky",
    "assignor.range",
    // Its round robin has a name of its own, so it shares no group with other clients.
    "assignor.roundrobin",
    "assignor.sticky",
    "change_topic_config",
    // Without packages of other makers.
    "codec.lz4",
    "codec.snappy",
    "codec.zstd",
    "commit.asynchronous",
    "delete_group_offsets",
    // It does not tell the new start.
    "delete_records",
    "describe_log_dirs",
    "group_protocol.classic",
    "group_protocol.consumer",
    "list_offsets",
    "offset_reset.error",
    "record.header_null",
    "setting.assignors",
    "setting.batch_bytes",
    "setting.batch_records",
    "setting.delivery_timeout_ms",
    "setting.group_instance_id",
    "setting.group_protocol",
    "setting.linger_ms",
    "setting.max_poll_interval_ms",
    "setting.max_request_bytes",
    "setting.reconnect_backoff_max_ms",
    "setting.reconnect_backoff_ms",
    "setting.topic_propagation_ms",
  ],
  open: async (begin) => new Session(begin),
  code: (error) => protocolError(error)?.type ?? null,
});
