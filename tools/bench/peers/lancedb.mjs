// Driver of LanceDB's node client (npm: @lancedb/lancedb). Batches are handed over as Arrow tables that wrap the vectors
// without a copy, its fastest way in; scans have no index, so they are exact.
import * as lancedb from "@lancedb/lancedb";
import * as arrow from "apache-arrow";
import { filterColumn, ingest, langs, mix, readFvecs, readTexts, scan, serve, timed, version } from "./driver.mjs";

function vectorColumn(data, dim) {
  const item = new arrow.Field("item", new arrow.Float32(), true);
  const child = arrow.makeData({ type: new arrow.Float32(), data });
  const type = new arrow.FixedSizeList(dim, item);
  return new arrow.Vector([arrow.makeData({ type, length: data.length / dim, nullCount: 0, child })]);
}

const columns = (n, value, type) => arrow.vectorFromArray(Array.from({ length: n }, (_, i) => value(i)), type);

// table builds rows first, first+step, ... as Arrow; meta adds id, text and the four metadata columns.
function table(base, texts, first, n, step, meta) {
  const at = (i) => (first + i) * step;
  let data = base.data.subarray(first * base.dim, (first + n) * base.dim);
  if (step !== 1) {
    data = new Float32Array(n * base.dim);
    for (let i = 0; i < n; i++) data.set(base.row(at(i) % base.rows), i * base.dim);
  }
  const cols = { vector: vectorColumn(data, base.dim) };
  if (!meta) return new arrow.Table({ id: arrow.vectorFromArray(Int32Array.from({ length: n }, (_, i) => at(i)), new arrow.Int32()), ...cols });
  return new arrow.Table({
    id: columns(n, (i) => String(at(i)).padStart(8, "0"), new arrow.Utf8()),
    text: columns(n, (i) => texts(at(i) % base.rows), new arrow.Utf8()),
    lang: columns(n, (i) => langs[(mix(at(i)) >>> 3) & 7], new arrow.Utf8()),
    year: columns(n, (i) => 1990 + ((mix(at(i)) >>> 8) % 35), new arrow.Int32()),
    score: columns(n, (i) => ((mix(at(i)) >>> 4) % 100000) / 1e5, new arrow.Float64()),
    draft: columns(n, (i) => ((mix(at(i)) >>> 16) & 1) === 1, new arrow.Bool()),
    ...cols,
  });
}

// optimize rewrites the data in one call; a second one removes the versions that the first replaced.
async function optimize(t) {
  for (let i = 0; i < 2; i++) await t.optimize({ cleanupOlderThan: new Date(), deleteUnverified: true });
}

let base, texts, queries, scanned, filtered, counted;

await serve({
  hello: () => ({ settings: `@lancedb/lancedb ${version("@lancedb/lancedb")} on node ${process.versions.node}, no index, dot product, own thread pool`, split: true, pin: true }),
  async load(r) {
    const m = readFvecs(r.base);
    queries = readFvecs(r.queries);
    const db = await lancedb.connect(r.dir);
    scanned = await db.createTable("scan", table(m, null, 0, m.rows, 1, false), { mode: "overwrite" });
  },
  scan: (r) =>
    scan(r, queries, async (q, k) => {
      const rows = await scanned.vectorSearch(q).distanceType("dot").select(["id", "_distance"]).limit(k).toArray();
      return rows.map((row) => row.id);
    }),
  async load_filtered(r) {
    const m = readFvecs(r.base);
    queries = readFvecs(r.queries);
    const db = await lancedb.connect(r.dir);
    filtered = await db.createTable("filtered", new arrow.Table({
      id: arrow.vectorFromArray(Int32Array.from({ length: m.rows }, (_, i) => i), new arrow.Int32()),
      c: arrow.vectorFromArray(Int32Array.from({ length: m.rows }, (_, i) => filterColumn(i)), new arrow.Int32()),
      vector: vectorColumn(m.data, m.dim),
    }), { mode: "overwrite" });
    await filtered.createIndex("c", { config: lancedb.Index.btree() });
    return { settings: "btree of the column, filter before the search" };
  },
  filtered: (r) =>
    scan(r, queries, async (q, k) => {
      const rows = await filtered.vectorSearch(q).distanceType("dot").where(`c < ${r.below}`).select(["id", "_distance"]).limit(k).toArray();
      return rows.map((row) => row.id);
    }),
  rows(r) {
    base = readFvecs(r.base);
    texts = readTexts(r.texts);
  },
  async ingest(r) {
    const meta = r.meta === "1", step = +r.step;
    const db = await lancedb.connect(r.dir);
    const t = await db.createEmptyTable("rows", table(base, texts, 0, 1, 1, meta).schema, { mode: "overwrite" });
    return ingest(r, (first, n) => t.add(table(base, texts, first, n, step, meta)));
  },
  async halve(r) {
    const t = await (await lancedb.connect(r.dir)).openTable("rows");
    await t.delete("cast(id as int) % 2 = 1");
    await optimize(t);
  },
  async compact(r) {
    await optimize(await (await lancedb.connect(r.dir)).openTable("rows"));
  },
  async open(r) {
    const q = readFvecs(r.queries, 1);
    const { us } = await timed(1, async () => {
      const t = await (await lancedb.connect(r.dir)).openTable("rows");
      return t.vectorSearch(q.row(0)).distanceType("dot").limit(10).toArray();
    });
    return { ms: us[0] / 1e3 };
  },
  async table(r) {
    const n = +r.n, value = new Float64Array(n), bucket = new Int32Array(n), year = new Int32Array(n), lang = [];
    for (let i = 0; i < n; i++) {
      const h = mix(i);
      bucket[i] = (h >>> 8) % 1000;
      lang.push(langs[(h >>> 3) & 7]);
      year[i] = 1990 + ((h >>> 8) % 35);
      value[i] = h / 4294967296;
    }
    const db = await lancedb.connect(r.dir);
    counted = await db.createTable("t", new arrow.Table({
      bucket: arrow.makeVector(bucket), lang: arrow.vectorFromArray(lang, new arrow.Utf8()), year: arrow.makeVector(year), value: arrow.makeVector(value),
    }), { mode: "overwrite" });
    if (r.indexed === "1") {
      for (const c of ["bucket", "year", "value"]) await counted.createIndex(c, { config: lancedb.Index.btree() });
      await counted.createIndex("lang", { config: lancedb.Index.bitmap() });
    }
  },
  async count(r) {
    const { us, value } = await timed(+r.n, () => counted.countRows(r.where));
    return { us, count: value };
  },
});
