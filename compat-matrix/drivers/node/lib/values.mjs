// Shapes that lines have in common.

export const blob = (text) => (text === null ? null : Buffer.from(text, "base64"));
export const text = (data) =>
  data === null || data === undefined ? null : Buffer.from(data).toString("base64");

export const place = (topic, partition, offset, metadata = "") => ({
  topic,
  partition,
  offset: BigInt(offset),
  metadata: metadata ?? "",
});

const order = (a, b) =>
  a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : a.partition - b.partition;

export const places = (found) => ({ places: [...found].sort(order) });

export const key = ({ topic, partition }) => `${topic}/${partition}`;

/** The records of `produce` or `produce_numbers`, with bytes in place of Base64. */
export function outgoing(op) {
  if (op.op === "produce") {
    return op.records.map((record) => ({
      ...record,
      key: blob(record.key),
      value: blob(record.value),
      headers: record.headers.map(([name, value]) => [name, blob(value)]),
    }));
  }
  return Array.from({ length: op.count }, (_, index) => {
    const digits = String(op.first + index);
    return {
      topic: op.topic,
      partition: op.partition,
      key: op.partition === null ? Buffer.from(digits) : null,
      value: Buffer.from(digits.padEnd(op.value_bytes, ".")),
      headers: [],
      timestamp_ms: null,
    };
  });
}

/** From one `[partition, offset]` or text of failure per record. */
export function deliveries(results) {
  const answer = { places: [], failed: [] };
  results.forEach((result, index) => {
    if (typeof result === "string") {
      answer.failed.push([index, result]);
    } else {
      answer.places.push([result[0], BigInt(result[1])]);
    }
  });
  return answer;
}
