// The driver of @platformatic/kafka.

import { readFileSync } from "node:fs";
import zlib from "node:zlib";

import { Unsupported, packageVersion, serve } from "../lib/lines.mjs";
import { Administration } from "./admin.mjs";
import { Consuming } from "./consumer.mjs";
import { Producing } from "./producer.mjs";

const MOST_WORDS = 500;

/** Kafka's name of the first error code under what the client wrapped around it, or null. */
export function codeOf(error) {
  if (!error) {
    return null;
  }
  if (typeof error.apiId === "string") {
    return error.apiId;
  }
  for (const each of [error.cause, ...(error.errors ?? [])]) {
    const found = codeOf(each);
    if (found !== null) {
      return found;
    }
  }
  return null;
}

/** An error with what is inside it, because the outermost words tell nothing; not with all attempts. */
export function words(error) {
  return nested(error).slice(0, MOST_WORDS);
}

function nested(error) {
  const inner = [error.cause, ...(error.errors ?? [])].filter(Boolean).map(nested);
  const code = error.apiId ? `${error.apiId}: ` : "";
  return `${code}${error.message}${inner.length > 0 ? ` (${inner.join("; ")})` : ""}`;
}

class Session {
  constructor(begin) {
    this.config = { clientId: begin.client_id, bootstrapBrokers: begin.bootstrap.split(",") };
    if (begin.tls) {
      this.config.tls = { ca: [readFileSync(begin.tls.ca_file, "utf8")] };
    }
    if (begin.sasl) {
      this.config.sasl = { ...begin.sasl };
    }
    this.producer = this.consumer = this.admin = null;
  }

  common(settings = {}) {
    const named = {
      metadata_refresh_ms: "metadataMaxAge",
      request_timeout_ms: "timeout",
      retry_backoff_ms: "retryDelay",
      max_in_flight: "maxInflights",
    };
    const config = { ...this.config };
    for (const [name, own] of Object.entries(named)) {
      if (settings[name] !== undefined) {
        config[own] = settings[name];
      }
    }
    return config;
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
      case "send_offsets":
        return this.opened("producer").send_offsets(op, this.opened("consumer"));
    }
    for (const [kind, type] of [
      ["producer", Producing],
      ["consumer", Consuming],
    ]) {
      if (type.OPERATIONS.has(op.op)) {
        return this.opened(kind)[op.op](op);
      }
    }
    if (!Administration.OPERATIONS.has(op.op)) {
      throw new Unsupported(op.op);
    }
    this.admin ??= new Administration(this.common());
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
  name: "@platformatic/kafka",
  version: packageVersion(import.meta.url, "@platformatic/kafka"),
  lacks: [
    // A stream reads what its group assigns it, wherever it starts.
    "assign",
    "assignor.range",
    "assignor.sticky",
    "commit.metadata",
    // A stream stops and goes on as a whole.
    "pause",
    "resume",
    "seek",
    "setting.batch_bytes",
    "setting.delivery_timeout_ms",
    "setting.linger_ms",
    "setting.max_request_bytes",
    "setting.reconnect_backoff_max_ms",
    "setting.reconnect_backoff_ms",
    "setting.topic_propagation_ms",
    "subscribe.pattern",
    "topic.validate_only",
    ...(zlib.zstdCompressSync ? [] : ["codec.zstd"]),
  ],
  open: async (begin) => new Session(begin),
  code: codeOf,
});
