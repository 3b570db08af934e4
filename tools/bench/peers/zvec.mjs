// Driver of zvec's flat index (npm: @zvec/zvec).
import { createRequire } from "node:module";
import { readFvecs, scan, serve, version } from "./driver.mjs";

const require = createRequire(import.meta.url);
const zvec = require("@zvec/zvec");
zvec.ZVecInitialize({ logLevel: zvec.ZVecLogLevel.ERROR, queryThreads: 2 });

let queries, flat;

await serve({
  hello: () => ({ settings: `flat index, inner product, zvec ${version("@zvec/zvec")} on node ${process.versions.node}, queryThreads 2`, split: true, blocks: true, pin: true }),
  load(r) {
    const m = readFvecs(r.base);
    queries = readFvecs(r.queries);
    flat?.destroySync();
    const schema = new zvec.ZVecCollectionSchema({
      name: "scan",
      vectors: { name: "v", dataType: zvec.ZVecDataType.VECTOR_FP32, dimension: m.dim, indexParams: { indexType: zvec.ZVecIndexType.FLAT, metricType: zvec.ZVecMetricType.IP } },
    });
    flat = zvec.ZVecCreateAndOpen(r.dir + "/scan", schema);
    for (let i = 0; i < m.rows; i += 1000) {
      const docs = [];
      for (let j = i; j < Math.min(i + 1000, m.rows); j++) docs.push({ id: String(j), vectors: { v: m.row(j) } });
      flat.insertSync(docs);
    }
    flat.optimizeSync();
  },
  scan(r) {
    return scan(r, queries, (q, k) => flat.querySync({ fieldName: "v", vector: q, topk: k }).map((d) => +d.id));
  },
});
