// The part that the node drivers share: the line protocol that driver.go speaks, vectors, rows and timing.
// A request is one line, an operation and key=value pairs separated by tabs; the answer is one line of JSON.
import { openSync, readFileSync, readSync, statSync } from "node:fs";
import { createInterface } from "node:readline";

export const langs = ["c", "go", "java", "js", "ml", "py", "rs", "zig"];
export const mix = (i) => Math.imul(i, 2654435761) >>> 0;
export const textBytes = 200;

// version reads an installed package's own number; packages do not export their package.json.
export const version = (name) => JSON.parse(readFileSync(new URL(`./node_modules/${name}/package.json`, import.meta.url))).version;

// readFvecs returns {dim, rows, data}, data one Float32Array. It reads in pieces: node refuses larger single reads.
export function readFvecs(name, limit = Infinity) {
  const fd = openSync(name), size = statSync(name).size, head = Buffer.alloc(4);
  readSync(fd, head, 0, 4, 0);
  const dim = head.readInt32LE(0), stride = 4 + 4 * dim;
  const rows = Math.min(limit, Math.floor(size / stride));
  const data = new Float32Array(rows * dim), piece = Buffer.alloc(stride * 4096);
  for (let i = 0; i < rows; ) {
    const n = Math.min(4096, rows - i);
    readSync(fd, piece, 0, n * stride, i * stride);
    for (let j = 0; j < n; j++, i++) {
      const at = piece.byteOffset + j * stride + 4;
      data.set(new Float32Array(piece.buffer.slice(at, at + 4 * dim)), i * dim);
    }
  }
  return { dim, rows, data, row: (i) => data.subarray(i * dim, (i + 1) * dim) };
}

// filterColumn is the integer that the filters of row i are on, as in filtered.go.
export const filterColumn = (i) => (i * 7919) % 1000;

export const readTexts = (name) => {
  const all = readFileSync(name, "latin1");
  return (i) => all.slice(i * textBytes, (i + 1) * textBytes);
};

const now = () => Number(process.hrtime.bigint()) / 1e3;

// scan times queries one after the other; with two callers it keeps two outstanding and reports elapsed time per query.
export async function scan(r, queries, search) {
  const [first, n, k, budget] = [+r.first, +r.n, +r.k, +r.budget_ms * 1e3];
  const us = [], ids = [];
  const start = now();
  let next = 0, done = 0;
  const caller = async () => {
    for (let i; (i = next++) < n; ) {
      if (i >= 3 && now() - start > budget) break;
      const t = now();
      ids[i] = await search(queries.row((first + i) % queries.rows), k);
      if (r.mode !== "callers") us.push(now() - t);
      done++;
    }
  };
  await Promise.all(r.mode === "callers" ? [caller(), caller()] : [caller()]);
  if (r.mode === "callers") us.push((now() - start) / done);
  return { us, ids: ids.slice(0, done) };
}

// timed calls fn n times and returns the microseconds of each, with the last value.
export async function timed(n, fn) {
  const us = [];
  let value;
  for (let i = 0; i < n; i++) {
    const t = now();
    value = await fn();
    us.push(now() - t);
  }
  return { us, value };
}

// ingest calls write(first, n) for batches until all rows are in or the budget is spent.
export async function ingest(r, write) {
  const [n, batch, budget] = [+r.n, +r.batch, +r.budget_ms * 1e3];
  const t = now();
  let rows = 0;
  while (rows < n && now() - t < budget) {
    const m = Math.min(batch, n - rows);
    await write(rows, m);
    rows += m;
  }
  return { rows, seconds: (now() - t) / 1e6 };
}

// serve answers requests until standard input ends.
export async function serve(handlers) {
  for await (const line of createInterface({ input: process.stdin })) {
    const [op, ...pairs] = line.split("\t");
    const r = Object.fromEntries(pairs.map((p) => [p.slice(0, p.indexOf("=")), p.slice(p.indexOf("=") + 1)]));
    let answer;
    try {
      if (!handlers[op]) throw new Error("unknown operation " + op);
      answer = (await handlers[op](r)) ?? {};
    } catch (e) {
      answer = { error: String(e.message ?? e) };
    }
    process.stdout.write(JSON.stringify(answer) + "\n");
  }
  process.exit(0);
}
