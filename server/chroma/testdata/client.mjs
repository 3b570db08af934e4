// Everything that the npm client of Chroma does with a server, against the one at the port in the first argument.
import assert from "node:assert/strict";
import { AdminClient, ChromaClient, ChromaNotFoundError, ChromaUniqueError } from "chromadb";

const server = { host: "127.0.0.1", port: Number(process.argv[2]), ssl: false };
const client = new ChromaClient(server);
const rejects = (promise, type) => assert.rejects(promise, (e) => e instanceof type || assert.fail(`${e.name}: ${e.message}`));

// The system.
assert.ok((await client.heartbeat()) > 1e18);
assert.equal(await client.version(), "1.0.0");
assert.equal(await client.getMaxBatchSize(), 10000);
assert.equal(await client.supportsBase64Encoding(), true);
assert.deepEqual(await client.getUserIdentity(), { user_id: "", tenant: "default_tenant", databases: ["default_database"] });

// Collections. The embedding function is the caller's own: it counts letters.
class Letters {
  name = "letters";
  async generate(texts) {
    return texts.map((text) => ["a", "b", "c"].map((letter) => text.split(letter).length - 1));
  }
  getConfig() {
    return { alphabet: "abc" };
  }
  static buildFromConfig() {
    return new Letters();
  }
}
const letters = new Letters();
const fruits = await client.createCollection({ name: "fruits", metadata: { owner: "me", year: 2024 }, embeddingFunction: letters });
assert.equal(fruits.name, "fruits");
assert.deepEqual(fruits.metadata, { owner: "me", year: 2024 });
assert.equal(fruits.configuration.hnsw.space, "l2");
assert.deepEqual(fruits.configuration.embedding_function, { type: "known", name: "letters", config: { alphabet: "abc" } });
await rejects(client.createCollection({ name: "fruits", embeddingFunction: letters }), ChromaUniqueError);
assert.equal((await client.getOrCreateCollection({ name: "fruits", embeddingFunction: letters })).id, fruits.id);
assert.equal((await client.getCollection({ name: "fruits", embeddingFunction: letters })).id, fruits.id);
assert.equal((await client.getCollectionById(fruits.id)).name, "fruits");
await rejects(client.getCollection({ name: "nothing" }), ChromaNotFoundError);
await client.createCollection({ name: "cosines", configuration: { hnsw: { space: "cosine" } }, embeddingFunction: null });
await client.createCollection({ name: "products", configuration: { hnsw: { space: "ip" } }, embeddingFunction: null });
assert.deepEqual((await client.listCollections()).map((c) => c.name), ["cosines", "fruits", "products"]);
assert.deepEqual((await client.listCollections({ limit: 1, offset: 1 })).map((c) => c.name), ["fruits"]);
assert.equal(await client.countCollections(), 3);

// Records: embedded by the client, or with embeddings.
await fruits.add({
  ids: ["a1", "b1", "c1"],
  documents: ["aaa", "abb", "ccc"],
  metadatas: [{ kind: "first", n: 1, tags: ["x", "y"] }, { kind: "second", n: 2.5, ok: true }, { kind: "second", n: -3 }],
  uris: ["file:a", "file:b", "file:c"],
});
await fruits.add({ ids: ["a1", "d1"], embeddings: [[9, 9, 9], [0.5, -1, 0.25]] });
assert.equal(await fruits.count(), 4);
const all = await fruits.get({ include: ["documents", "embeddings", "metadatas", "uris"] });
assert.deepEqual(all.ids, ["a1", "b1", "c1", "d1"]);
assert.deepEqual(all.documents, ["aaa", "abb", "ccc", null]);
assert.deepEqual(all.embeddings, [[3, 0, 0], [1, 2, 0], [0, 0, 3], [0.5, -1, 0.25]]);
assert.deepEqual(all.metadatas[0], { kind: "first", n: 1, tags: ["x", "y"] });
assert.equal(all.metadatas[3], null);
assert.deepEqual(all.uris, ["file:a", "file:b", "file:c", null]);
assert.deepEqual(all.rows().map((row) => row.id), all.ids);

// Get with conditions.
const ids = async (args) => (await fruits.get(args)).ids;
assert.deepEqual(await ids({ ids: ["c1", "a1"] }), ["c1", "a1"]);
assert.deepEqual(await ids({ limit: 2, offset: 1 }), ["b1", "c1"]);
assert.deepEqual(await ids({ where: { kind: "second" } }), ["b1", "c1"]);
assert.deepEqual(await ids({ where: { n: { $gt: 0 } } }), ["a1", "b1"]);
assert.deepEqual(await ids({ where: { n: { $gte: 2.5 } } }), ["b1"]);
assert.deepEqual(await ids({ where: { n: { $lt: 1 } } }), ["c1"]);
assert.deepEqual(await ids({ where: { n: { $lte: 1 } } }), ["a1", "c1"]);
assert.deepEqual(await ids({ where: { kind: { $ne: "second" } } }), ["a1", "d1"]);
assert.deepEqual(await ids({ where: { kind: { $in: ["first", "third"] } } }), ["a1"]);
assert.deepEqual(await ids({ where: { kind: { $nin: ["first", "third"] } } }), ["b1", "c1", "d1"]);
assert.deepEqual(await ids({ where: { ok: true } }), ["b1"]);
assert.deepEqual(await ids({ where: { tags: { $contains: "x" } } }), ["a1"]);
assert.deepEqual(await ids({ where: { tags: { $not_contains: "x" } } }), ["b1", "c1", "d1"]);
assert.deepEqual(await ids({ where: { $and: [{ kind: "second" }, { n: { $lt: 0 } }] } }), ["c1"]);
assert.deepEqual(await ids({ where: { $or: [{ n: 1 }, { n: -3 }] } }), ["a1", "c1"]);
assert.deepEqual(await ids({ whereDocument: { $contains: "bb" } }), ["b1"]);
assert.deepEqual(await ids({ whereDocument: { $not_contains: "a" } }), ["c1", "d1"]);
assert.deepEqual(await ids({ whereDocument: { $regex: "^a+$" } }), ["a1"]);
assert.deepEqual(await ids({ whereDocument: { $not_regex: "^a" } }), ["c1", "d1"]);
assert.deepEqual(await ids({ whereDocument: { $and: [{ $contains: "a" }, { $contains: "b" }] } }), ["b1"]);
assert.deepEqual(await ids({ whereDocument: { $or: [{ $contains: "b" }, { $contains: "c" }] }, where: { n: { $lt: 0 } } }), ["c1"]);
assert.deepEqual((await fruits.peek({ limit: 2 })).ids, ["a1", "b1"]);

// Query.
const found = await fruits.query({ queryEmbeddings: [[3, 0, 0], [0, 0, 1]], nResults: 2 });
assert.deepEqual(found.ids, [["a1", "d1"], ["d1", "c1"]]);
assert.deepEqual(found.distances, [[0, 6.25 + 1 + 0.0625], [0.25 + 1 + 0.5625, 4]]);
assert.deepEqual(found.documents, [["aaa", null], [null, "ccc"]]);
assert.equal(found.metadatas[1][1].n, -3);
assert.equal(found.rows()[0][0].id, "a1");
assert.deepEqual((await fruits.query({ queryTexts: ["bbb"], nResults: 1 })).ids, [["b1"]]);
const first = async (args) => (await fruits.query({ queryEmbeddings: [[3, 0, 0]], ...args })).ids[0];
assert.deepEqual(await first({}), ["a1", "d1", "b1", "c1"]);
assert.deepEqual(await first({ where: { kind: "second" } }), ["b1", "c1"]);
assert.deepEqual(await first({ whereDocument: { $contains: "b" } }), ["b1"]);
assert.deepEqual(await first({ whereDocument: { $not_contains: "aa" }, where: { n: { $gt: 0 } } }), ["b1"]);
assert.deepEqual(await first({ ids: ["c1", "d1"] }), ["d1", "c1"]);
assert.deepEqual((await fruits.query({ queryEmbeddings: [[3, 0, 0]], nResults: 1, include: ["embeddings", "uris"] })).embeddings, [[[3, 0, 0]]]);
for (const [name, distances] of [["cosines", [0, 1, 2]], ["products", [-1, 1, 3]]]) {
  const c = await client.getCollection({ name });
  await c.add({ ids: ["same", "across", "against"], embeddings: [[2, 0], [0, 5], [-2, 0]] });
  const r = await c.query({ queryEmbeddings: [[1, 0]] });
  assert.deepEqual(r.ids, [["same", "across", "against"]]);
  assert.deepEqual(r.distances, [distances]);
}

// Upsert and update.
await fruits.upsert({ ids: ["a1", "e1"], documents: ["abc", "cab"], metadatas: [{ n: 10 }, { n: 11 }] });
assert.deepEqual((await fruits.get({ ids: ["a1"], include: ["documents", "metadatas", "embeddings"] })).rows(), [
  { id: "a1", document: "abc", embedding: [1, 1, 1], metadata: { kind: "first", n: 10, tags: ["x", "y"] }, uri: undefined },
]);
await fruits.update({ ids: ["b1", "nothing"], metadatas: [{ n: 100 }, { n: 101 }] });
assert.deepEqual((await fruits.get({ ids: ["b1", "nothing"] })).metadatas, [{ kind: "second", n: 100, ok: true }]);
await fruits.update({ ids: ["b1"], documents: ["bbbb"] });
assert.deepEqual((await fruits.get({ ids: ["b1"], include: ["embeddings"] })).embeddings, [[0, 4, 0]]);

// Mistakes are the caller's.
await assert.rejects(fruits.query({ queryEmbeddings: [[1, 2]] }), /dimension/);
await assert.rejects(fruits.add({ ids: ["x"], embeddings: [[1]] }), /dimension/);
await assert.rejects(client.reset(), /not supported/);
await assert.rejects(fruits.fork({ name: "forked" }), /not supported/);

// Delete.
assert.deepEqual(await fruits.delete({ ids: ["e1"] }), { deleted: 1 });
assert.deepEqual(await fruits.delete({ where: { n: 100 } }), { deleted: 1 });
assert.deepEqual(await fruits.delete({ whereDocument: { $contains: "ccc" } }), { deleted: 1 });
assert.equal(await fruits.count(), 2);
assert.deepEqual(await fruits.getIndexingStatus(), { num_indexed_ops: 2, num_unindexed_ops: 0, op_indexing_progress: 1, total_ops: 2 });

// Change a collection.
await fruits.modify({ name: "letters", metadata: { owner: "you" } });
const renamed = await client.getCollection({ name: "letters", embeddingFunction: letters });
assert.equal(renamed.id, fruits.id);
assert.deepEqual(renamed.metadata, { owner: "you" });
await rejects(client.getCollection({ name: "fruits" }), ChromaNotFoundError);
await client.deleteCollection({ name: "letters" });
await rejects(renamed.count(), ChromaNotFoundError);

// Tenants and databases.
const admin = new AdminClient(server);
await admin.createTenant({ name: "acme" });
assert.equal(await admin.getTenant({ name: "acme" }), "acme");
await rejects(admin.createTenant({ name: "acme" }), ChromaUniqueError);
await rejects(admin.getTenant({ name: "nobody" }), ChromaNotFoundError);
await admin.createDatabase({ name: "lab", tenant: "acme" });
assert.equal((await admin.getDatabase({ name: "lab", tenant: "acme" })).tenant, "acme");
assert.deepEqual((await admin.listDatabases({ tenant: "acme" })).map((d) => d.name), ["lab"]);
const lab = new ChromaClient({ ...server, tenant: "acme", database: "lab" });
const mine = await lab.createCollection({ name: "cosines", embeddingFunction: null });
await mine.add({ ids: ["only"], embeddings: [[1, 2, 3, 4]] });
assert.equal(await mine.count(), 1);
assert.equal(await (await client.getCollection({ name: "cosines" })).count(), 3);
assert.equal(await lab.countCollections(), 1);
await admin.deleteDatabase({ name: "lab", tenant: "acme" });
await rejects(lab.listCollections(), ChromaNotFoundError);

console.log("all as expected");
