// Driver of zvec (npm: @zvec/zvec): its flat index and, for filters, its HNSW beside an inverted index.
import { createRequire } from "node:module";
import { filterColumn, readFvecs, scan, serve, version } from "./driver.mjs";

const require = createRequire(import.meta.url);
const zvec = require("@zvec/zvec");
zvec.ZVecInitialize({ logLevel: zvec.ZVecLogLevel.ERROR, queryThreads: 2 });

const { FLAT, HNSW, INVERT } = zvec.ZVecIndexType;
const metricType = zvec.ZVecMetricType.IP;

let queries, collection;

// load fills a collection, whose documents have the fields that fields returns.
function load(r, indexParams, fieldSchemas, fields) {
  const m = readFvecs(r.base);
  queries = readFvecs(r.queries);
  collection?.destroySync();
  const schema = new zvec.ZVecCollectionSchema({
    name: "rows",
    vectors: { name: "v", dataType: zvec.ZVecDataType.VECTOR_FP32, dimension: m.dim, indexParams: { metricType, ...indexParams } },
    fields: fieldSchemas,
  });
  collection = zvec.ZVecCreateAndOpen(r.dir + "/rows", schema);
  for (let i = 0; i < m.rows; i += 1000) {
    const docs = [];
    for (let j = i; j < Math.min(i + 1000, m.rows); j++) docs.push({ id: String(j), vectors: { v: m.row(j) }, fields: fields(j) });
    collection.insertSync(docs);
  }
  collection.optimizeSync();
}

const ids = (docs) => docs.map((d) => +d.id);

await serve({
  hello: () => ({ settings: `flat index, inner product, zvec ${version("@zvec/zvec")} on node ${process.versions.node}, queryThreads 2`, split: true, blocks: true, pin: true }),
  load(r) {
    load(r, { indexType: FLAT }, [], () => ({}));
  },
  scan: (r) => scan(r, queries, (q, k) => ids(collection.querySync({ fieldName: "v", vector: q, topk: k }))),
  load_filtered(r) {
    const c = { name: "c", dataType: zvec.ZVecDataType.INT32, indexParams: { indexType: INVERT } };
    load(r, { indexType: HNSW, m: 16, efConstruction: 200 }, [c], (i) => ({ c: filterColumn(i) }));
    return { settings: "HNSW m=16 efConstruction=200, inverted index of the column", efs: [10, 14, 20, 28, 40, 56, 80, 100, 160] };
  },
  filtered: (r) =>
    scan(r, queries, (q, k) =>
      ids(collection.querySync({ fieldName: "v", vector: q, topk: k, filter: `c < ${r.below}`, outputFields: [], params: { indexType: HNSW, ef: +r.ef } })),
    ),
});
