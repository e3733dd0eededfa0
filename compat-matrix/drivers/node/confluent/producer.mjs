// Sending, waiting for every delivery report, transactions.

import { pause, within } from "../lib/lines.mjs";
import { deliveries, outgoing } from "../lib/values.mjs";
import { words } from "./main.mjs";

const CALL_MS = 15_000;
// A buffer of its own that is empty has no address, and the client takes it for absent.
const EMPTY = Buffer.alloc(1).subarray(0, 0);
const solid = (data) => (data?.length === 0 ? EMPTY : data);

/** A function that takes a callback last, as a promise. */
export const called = (act) =>
  within(
    CALL_MS + 5_000,
    new Promise((resolve, reject) =>
      act((error, value) => (error ? reject(error) : resolve(value))),
    ),
    "the call",
  );

export class Producing {
  static OPERATIONS = new Set([
    "produce",
    "produce_numbers",
    "init_transactions",
    "begin_transaction",
    "commit_transaction",
    "abort_transaction",
  ]);

  static async open(RdKafka, config) {
    const self = new Producing();
    self.results = [];
    self.outstanding = 0;
    self.producer = new RdKafka.Producer({ ...config, dr_cb: true });
    self.producer.on("event.error", (error) => console.error(error.message));
    self.producer.on("delivery-report", (error, report) => self.report(error, report));
    await called((done) => self.producer.connect({ timeout: CALL_MS }, done));
    self.producer.setPollInterval(10);
    return self;
  }

  report(error, { opaque, partition, offset }) {
    // Reports of an earlier call that ran out of time have no place here.
    if (opaque.results === this.results) {
      // Without acknowledgements nobody knows the offset.
      this.results[opaque.index] = error ? words(error) : [partition, Math.max(offset ?? -1, -1)];
      this.outstanding -= 1;
    }
  }

  produce(op) {
    return this.send(op);
  }

  produce_numbers(op) {
    return this.send(op);
  }

  async send(op) {
    const deadline = Date.now() + op.timeout_ms;
    const records = outgoing(op);
    const results = records.map(() => "no delivery report in time");
    this.results = results;
    this.outstanding = records.length;
    for (const [index, { topic, partition, value, key, timestamp_ms }] of records.entries()) {
      try {
        const opaque = { results, index };
        const [data, name] = [solid(value), solid(key)];
        this.producer.produce(topic, partition ?? -1, data, name, timestamp_ms, opaque);
      } catch (error) {
        results[index] = words(error);
        this.outstanding -= 1;
      }
    }
    while (this.outstanding > 0 && Date.now() < deadline) {
      await pause(5);
    }
    return deliveries(results);
  }

  async init_transactions() {
    await called((done) => this.producer.initTransactions(CALL_MS, done));
    return {};
  }

  async begin_transaction() {
    await called((done) => this.producer.beginTransaction(done));
    return {};
  }

  async send_offsets(op, consumer) {
    await called((done) =>
      this.producer.sendOffsetsToTransaction(op.offsets, consumer, CALL_MS, done),
    );
    return {};
  }

  async commit_transaction() {
    await called((done) => this.producer.commitTransaction(CALL_MS, done));
    return {};
  }

  async abort_transaction() {
    await called((done) => this.producer.abortTransaction(CALL_MS, done));
    return {};
  }

  async close() {
    await called((done) => this.producer.disconnect(5_000, done)).catch(() => {});
  }
}
