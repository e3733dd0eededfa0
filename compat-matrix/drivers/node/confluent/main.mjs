// The driver of @confluentinc/kafka-javascript, through its RdKafka interface: the one that can assign.

import { readFileSync } from "node:fs";

import kafkaJavascript from "@confluentinc/kafka-javascript";

import { Unsupported, packageVersion, serve, shared } from "../lib/lines.mjs";
import { Administration } from "./admin.mjs";
import { Consuming } from "./consumer.mjs";
import { Producing } from "./producer.mjs";

const { RdKafka } = kafkaJavascript;
const NAMES = shared("librdkafka.json");
const CODES = shared("error-codes.json");
// With KIP-848 the server decides these, and librdkafka refuses to be told.
const SERVER_SIDE = new Set(["session_timeout_ms", "heartbeat_interval_ms", "assignors"]);

/** Kafka's name of a code; librdkafka's own are negative. */
export const codeName = (code) => (code > 0 ? (CODES[code] ?? null) : null);

/** What a failure says, with the code's name where the broker told one. */
export const words = (error) => {
  const name = codeName(error.code ?? error.errno);
  return `${name ? `${name}: ` : ""}${error.message}`;
};

function common(begin) {
  const config = { "bootstrap.servers": begin.bootstrap, "client.id": begin.client_id };
  if (begin.tls) {
    // Read here, because a path that cannot be read is told too late.
    config["ssl.ca.pem"] = readFileSync(begin.tls.ca_file, "utf8");
  }
  if (begin.sasl) {
    config["sasl.mechanism"] = begin.sasl.mechanism;
    config["sasl.username"] = begin.sasl.username;
    config["sasl.password"] = begin.sasl.password;
  }
  const transport = begin.tls ? "SSL" : "PLAINTEXT";
  config["security.protocol"] = begin.sasl ? `SASL_${transport}` : transport;
  return config;
}

function translate(settings) {
  const config = {};
  for (const [name, value] of Object.entries(settings)) {
    if (SERVER_SIDE.has(name) && settings.group_protocol === "consumer") {
      continue;
    }
    const own = NAMES[name];
    if (own === undefined) {
      throw new Unsupported(`setting.${name}`);
    }
    // It keys like Java, and scatters records without a key.
    const wanted = name === "partitioner" ? "murmur2_random" : value;
    if (typeof own === "string") {
      config[own] = Array.isArray(wanted) ? wanted.join(",") : wanted;
    } else {
      for (const [each, more] of Object.entries(own)) {
        config[each] = wanted + more;
      }
    }
  }
  return config;
}

class Session {
  constructor(begin) {
    this.common = common(begin);
    this.producer = this.consumer = this.admin = null;
  }

  async perform(op) {
    switch (op.op) {
      case "open_producer":
        await this.closeProducer();
        this.producer = await Producing.open(RdKafka, {
          ...this.common,
          ...translate(op.settings),
        });
        return {};
      case "close_producer":
        await this.closeProducer();
        return {};
      case "open_consumer":
        await this.closeConsumer();
        this.consumer = await Consuming.open(RdKafka, {
          ...this.common,
          ...translate(op.settings),
        });
        return {};
      case "close_consumer":
        await this.closeConsumer();
        return {};
      case "send_offsets":
        return this.opened("producer").send_offsets(op, this.opened("consumer").consumer);
    }
    for (const [kind, type] of [["producer", Producing], ["consumer", Consuming]]) {
      if (type.OPERATIONS.has(op.op)) {
        return this.opened(kind)[op.op](op);
      }
    }
    if (!Administration.OPERATIONS.has(op.op)) {
      throw new Unsupported(op.op);
    }
    this.admin ??= new Administration(RdKafka, this.common);
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
    this.admin?.close();
    this.admin = null;
  }
}

await serve({
  name: "@confluentinc/kafka-javascript",
  version: packageVersion(import.meta.url, "@confluentinc/kafka-javascript"),
  lacks: [
    // Whether it is there was decided when librdkafka was compiled.
    ...(RdKafka.features.includes("zstd") ? [] : ["codec.zstd"]),
    "alter_group_offsets",
    "alter_topic_config",
    "assignor.sticky",
    "change_topic_config",
    "delete_group_offsets",
    "describe_cluster",
    "describe_log_dirs",
    "describe_topic_config",
    // Headers are texts on the way out, so neither all bytes nor absent ones can be sent.
    "record.header_null",
    "record.headers",
    "topic.validate_only",
  ],
  open: async (begin) => new Session(begin),
  code: (error) => codeName(error.code ?? error.errno),
});
