// Driver of usearch's exactSearch (npm: usearch): brute force over one array, no index and no storage.
import { createRequire } from "node:module";
import { readFvecs, scan, serve, version } from "./driver.mjs";

const require = createRequire(import.meta.url);
const usearch = require("usearch");

let base, queries;

await serve({
  hello: () => ({ settings: `exactSearch f32, inner product, usearch ${version("usearch")} on node ${process.versions.node}`, split: true, blocks: true }),
  load(r) {
    base = readFvecs(r.base);
    queries = readFvecs(r.queries);
  },
  scan(r) {
    const threads = r.mode === "split" ? 2 : 1;
    return scan(r, queries, (q, k) => {
      // The binding reads from the start of the underlying buffer: it needs a query that owns its memory.
      const m = usearch.exactSearch(base.data, q.slice(), base.dim, k, usearch.MetricKind.IP, threads);
      return Array.from(m.keys, Number);
    });
  },
});
