// One JSON object a line in, one a line out.
//
// A client has name, version, lacks (capabilities that it does not have), open(begin), which gives a
// session with perform(op) and close(), and code(error), Kafka's name of the error code or null.

import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const PROTOCOL = 1;
// Offsets have 64 bits and Node's numbers 53: whole numbers of any size are written as BigInts are.
const MARK = randomUUID();
const MARKED = new RegExp(`"${MARK}(-?\\d+)"`, "g");
// A text, which stays as it is, or a whole number that may have more than 53 bits.
const TEXT_OR_LONG = /"(?:[^"\\]|\\.)*"|-?\d{16,}(?=[,\]}\s])/g;

/** The client has no way to do it, whatever the server says. */
export class Unsupported extends Error {}

export function shared(name) {
  return JSON.parse(readFileSync(new URL(`../common/${name}`, import.meta.url), "utf8"));
}

export function packageVersion(url, name) {
  const file = new URL(`./node_modules/${name}/package.json`, url);
  return JSON.parse(readFileSync(file, "utf8")).version;
}

function toLine(value) {
  const marked = (_, each) => (typeof each === "bigint" ? MARK + each : each);
  return JSON.stringify(value, marked).replace(MARKED, "$1") + "\n";
}

/** Whole numbers of more than 53 bits are BigInts, in the other direction too. */
function fromLine(line) {
  const marked = line.replace(TEXT_OR_LONG, (each) => (each[0] === '"' ? each : `"${MARK}${each}"`));
  return JSON.parse(marked, (_, each) =>
    typeof each === "string" && each.startsWith(MARK) ? BigInt(each.slice(MARK.length)) : each,
  );
}

/** Answers until standard input ends. */
export async function serve(client) {
  // A library that prints would break the protocol.
  console.log = console.info = console.debug = console.error;
  let session = null;
  for await (const line of createInterface({ input: process.stdin })) {
    let reply;
    try {
      const op = fromLine(line);
      if (op.op === "hello") {
        reply = { ok: hello(client) };
      } else if (op.op === "begin") {
        session = await client.open(op);
        reply = { ok: {} };
      } else if (op.op === "end") {
        await session?.close();
        session = null;
        reply = { ok: {} };
      } else if (session === null) {
        throw new Error("no session has begun");
      } else {
        reply = { ok: await session.perform(op) };
      }
    } catch (error) {
      reply =
        error instanceof Unsupported
          ? { unsupported: error.message }
          : { error: { code: client.code(error), message: `${error.name}: ${error.message}` } };
    }
    process.stdout.write(toLine(reply));
  }
  await session?.close();
  // Timers of a client must not keep the program alive.
  process.exit(0);
}

function hello(client) {
  const all = shared("capabilities.json");
  const slip = client.lacks.find((name) => !all.includes(name));
  if (slip !== undefined) {
    throw new Error(`${slip} is no capability`);
  }
  const can = all.filter((name) => !client.lacks.includes(name));
  return { protocol: PROTOCOL, client: client.name, version: client.version, can };
}

/** Fails what takes longer than `ms`. */
export function within(ms, promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took longer than ${ms} ms`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

export const pause = (ms) => new Promise((done) => setTimeout(done, ms));
