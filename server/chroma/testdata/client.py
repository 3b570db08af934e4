"""What the Python client of Chroma does with a server, and what LangChain does with the client: client.py PORT TOKEN."""

import json
import sys

import chromadb
import numpy as np
from chromadb.config import Settings
from chromadb.errors import ChromaError, NotFoundError
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

PORT, TOKEN = int(sys.argv[1]), sys.argv[2]


def connect(token=TOKEN, **more):
    headers = {"Authorization": "Bearer " + token} if token else {}
    return chromadb.HttpClient(
        host="127.0.0.1", port=PORT, headers=headers, settings=Settings(anonymized_telemetry=False), **more
    )


def equal(got, want):
    assert got == want, f"got {got!r}, want {want!r}"


def fails(kind, message, call):
    try:
        call()
    except kind as e:
        assert message in str(e), f"{message!r} is not in {e}"
    else:
        raise AssertionError(f"no error {kind.__name__}: {message}")


class Letters(chromadb.EmbeddingFunction):
    """Counts the letters a, b and c of a text."""

    def __init__(self):
        pass

    def __call__(self, input):
        return [np.array([text.count(letter) for letter in "abc"], dtype=np.float32) for text in input]

    @staticmethod
    def name():
        return "letters"

    def get_config(self):
        return {"alphabet": "abc"}

    @staticmethod
    def build_from_config(config):
        return Letters()


def system(client):
    assert client.heartbeat() > 1e18
    equal(client.get_version(), "1.0.0")
    equal(client.get_max_batch_size(), 10000)
    equal(client.get_user_identity().tenant, "default_tenant")
    fails(Exception, "", lambda: connect(token="").list_collections())


def collections(client):
    fruits = client.create_collection("fruits", metadata={"owner": "me", "year": 2024}, embedding_function=Letters())
    equal(fruits.name, "fruits")
    equal(fruits.metadata, {"owner": "me", "year": 2024})
    equal(fruits.configuration["hnsw"]["space"], "l2")
    fails(ChromaError, "already exists", lambda: client.create_collection("fruits", embedding_function=Letters()))
    equal(client.get_or_create_collection("fruits", embedding_function=Letters()).id, fruits.id)
    equal(client.get_collection("fruits", embedding_function=Letters()).id, fruits.id)
    fails(NotFoundError, "nothing", lambda: client.get_collection("nothing"))
    client.create_collection("cosines", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None)
    client.create_collection("products", metadata={"hnsw:space": "ip"}, embedding_function=None)
    equal([c.name for c in client.list_collections()], ["cosines", "fruits", "products"])
    equal([c.name for c in client.list_collections(limit=1, offset=1)], ["fruits"])
    equal(client.count_collections(), 3)
    return fruits


def records(fruits):
    fruits.add(
        ids=["a1", "b1", "c1"],
        documents=["aaa", "abb", "ccc"],
        embeddings=Letters()(["aaa", "abb", "ccc"]),  # the client embeds documents or URIs, not both
        metadatas=[{"kind": "first", "n": 1, "tags": ["x", "y"]}, {"kind": "second", "n": 2.5, "ok": True}, {"kind": "second", "n": -3}],
        uris=["file:a", "file:b", "file:c"],
    )
    fruits.add(ids=["a1", "d1"], embeddings=[[9, 9, 9], [0.5, -1, 0.25]])  # an id that exists is left as it is
    equal(fruits.count(), 4)
    everything = fruits.get(include=["documents", "embeddings", "metadatas", "uris"])
    equal(everything["ids"], ["a1", "b1", "c1", "d1"])
    equal(everything["documents"], ["aaa", "abb", "ccc", None])
    equal(everything["embeddings"].tolist(), [[3, 0, 0], [1, 2, 0], [0, 0, 3], [0.5, -1, 0.25]])
    equal(everything["metadatas"][0], {"kind": "first", "n": 1, "tags": ["x", "y"]})
    equal(everything["metadatas"][3], None)
    equal(everything["uris"], ["file:a", "file:b", "file:c", None])
    assert isinstance(everything["metadatas"][0]["n"], int)
    assert isinstance(everything["metadatas"][1]["n"], float)
    peeked = fruits.peek(limit=2)
    equal(peeked["ids"], ["a1", "b1"])
    equal(peeked["embeddings"].tolist(), [[3, 0, 0], [1, 2, 0]])


def conditions(fruits):
    for where, want in [
        ({"kind": "second"}, ["b1", "c1"]),
        ({"n": {"$gt": 0}}, ["a1", "b1"]),
        ({"n": {"$gte": 2.5}}, ["b1"]),
        ({"n": {"$lt": 1}}, ["c1"]),
        ({"n": {"$lte": 1}}, ["a1", "c1"]),
        ({"kind": {"$ne": "second"}}, ["a1", "d1"]),
        ({"kind": {"$in": ["first", "third"]}}, ["a1"]),
        ({"kind": {"$nin": ["first", "third"]}}, ["b1", "c1", "d1"]),
        ({"ok": True}, ["b1"]),
        ({"tags": {"$contains": "x"}}, ["a1"]),
        ({"tags": {"$not_contains": "x"}}, ["b1", "c1", "d1"]),
        ({"$and": [{"kind": "second"}, {"n": {"$lt": 0}}]}, ["c1"]),
        ({"$or": [{"n": 1}, {"n": -3}]}, ["a1", "c1"]),
    ]:
        equal((where, fruits.get(where=where)["ids"]), (where, want))
    for where, want in [
        ({"$contains": "bb"}, ["b1"]),
        ({"$not_contains": "a"}, ["c1", "d1"]),
        ({"$regex": "^a+$"}, ["a1"]),
        ({"$not_regex": "^a"}, ["c1", "d1"]),
        ({"$and": [{"$contains": "a"}, {"$contains": "b"}]}, ["b1"]),
        ({"$or": [{"$contains": "b"}, {"$contains": "c"}]}, ["b1", "c1"]),
    ]:
        equal((where, fruits.get(where_document=where)["ids"]), (where, want))
    equal(fruits.get(ids=["c1", "a1"])["ids"], ["c1", "a1"])
    equal(fruits.get(ids="a1")["documents"], ["aaa"])
    equal(fruits.get(limit=2, offset=1)["ids"], ["b1", "c1"])
    equal(fruits.get(ids=["a1", "b1"], where={"n": 1}, include=[])["ids"], ["a1"])
    equal(fruits.get(include=[])["documents"], None)


def queries(client, fruits):
    found = fruits.query(query_embeddings=[[3, 0, 0], [0, 0, 1]], n_results=2)
    equal(found["ids"], [["a1", "d1"], ["d1", "c1"]])
    equal(found["distances"], [[0, 7.3125], [1.8125, 4]])
    equal(found["documents"], [["aaa", None], [None, "ccc"]])
    equal(found["metadatas"][1][1]["n"], -3)
    equal(fruits.query(query_texts=["bbb"], n_results=1)["ids"], [["b1"]])
    equal(fruits.query(query_embeddings=np.array([[3, 0, 0]], dtype=np.float32), n_results=1)["ids"], [["a1"]])

    def first(**more):
        return fruits.query(query_embeddings=[[3, 0, 0]], **more)["ids"][0]

    equal(first(), ["a1", "d1", "b1", "c1"])
    equal(first(where={"kind": "second"}), ["b1", "c1"])
    equal(first(where_document={"$contains": "b"}), ["b1"])
    equal(first(where={"n": {"$gt": 0}}, where_document={"$not_contains": "aa"}), ["b1"])
    equal(first(ids=["c1", "d1"]), ["d1", "c1"])
    near = fruits.query(query_embeddings=[[3, 0, 0]], n_results=1, include=["embeddings", "uris"])
    equal([e.tolist() for e in near["embeddings"]], [[[3, 0, 0]]])
    equal(near["uris"], [["file:a"]])
    equal(near["documents"], None)
    for name, distances in [("cosines", [0, 1, 2]), ("products", [-1, 1, 3])]:
        c = client.get_collection(name, embedding_function=None)
        c.add(ids=["same", "across", "against"], embeddings=[[2, 0], [0, 5], [-2, 0]])
        r = c.query(query_embeddings=[[1, 0]])
        equal((r["ids"], r["distances"]), ([["same", "across", "against"]], [distances]))


def changes(client, fruits):
    fruits.upsert(ids=["a1", "e1"], documents=["abc", "cab"], metadatas=[{"n": 10}, {"n": 11}])
    changed = fruits.get(ids=["a1"], include=["documents", "metadatas", "embeddings"])
    equal((changed["documents"], changed["embeddings"].tolist()), (["abc"], [[1, 1, 1]]))
    equal(changed["metadatas"], [{"kind": "first", "n": 10, "tags": ["x", "y"]}])
    fruits.update(ids=["b1", "nothing"], metadatas=[{"n": 100, "ok": None}, {"n": 101}])
    equal(fruits.get(ids=["b1", "nothing"])["metadatas"], [{"kind": "second", "n": 100}])
    fruits.update(ids=["b1"], documents=["bbbb"])
    equal(fruits.get(ids=["b1"], include=["embeddings"])["embeddings"].tolist(), [[0, 4, 0]])
    fails(ChromaError, "dimension", lambda: fruits.query(query_embeddings=[[1, 2]]))
    fails(ChromaError, "dimension", lambda: fruits.add(ids=["x"], embeddings=[[1]]))
    fails(Exception, "not supported", client.reset)
    fails(Exception, "not supported", lambda: fruits.fork("forked"))

    fruits.delete(ids=["e1"])
    equal(fruits.delete(where={"n": 100})["deleted"], 1)
    equal(fruits.delete(where_document={"$contains": "ccc"})["deleted"], 1)
    equal(fruits.count(), 2)
    many = [f"m{i:02}" for i in range(10)]
    fruits.add(ids=many, documents=["a"] * 10, metadatas=[{"many": True}] * 10)
    equal(fruits.delete(where={"many": True}, limit=4)["deleted"], 4)
    equal(fruits.delete(where={"many": True})["deleted"], 6)

    fruits.modify(name="letters", metadata={"owner": "you"})
    renamed = client.get_collection("letters", embedding_function=Letters())
    equal((renamed.id, renamed.metadata), (fruits.id, {"owner": "you"}))
    renamed.modify(configuration={"hnsw": {"ef_search": 200}})
    client.delete_collection("letters")
    fails(NotFoundError, "", renamed.count)


def tenants(client):
    admin = chromadb.AdminClient(
        Settings(
            chroma_api_impl="chromadb.api.fastapi.FastAPI",
            chroma_server_host="127.0.0.1",
            chroma_server_http_port=PORT,
            chroma_server_headers={"Authorization": "Bearer " + TOKEN},
            anonymized_telemetry=False,
        )
    )
    admin.create_tenant("acme")
    equal(admin.get_tenant("acme")["name"], "acme")
    admin.create_database("lab", tenant="acme")
    equal(admin.get_database("lab", tenant="acme")["tenant"], "acme")
    equal([d["name"] for d in admin.list_databases(tenant="acme")], ["lab"])
    lab = connect(tenant="acme", database="lab")
    mine = lab.create_collection("cosines", embedding_function=None)
    mine.add(ids=["only"], embeddings=[[1, 2, 3, 4]])
    equal((mine.count(), lab.count_collections()), (1, 1))
    equal(client.get_collection("cosines", embedding_function=None).count(), 3)
    admin.delete_database("lab", tenant="acme")
    for name in ["cosines", "products"]:
        client.delete_collection(name)


class Fake(Embeddings):
    """Counts some letters, so that distances are known."""

    def embed_query(self, text):
        return [float(text.count(letter)) + 0.001 for letter in "abcd"]

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


def texts(found):
    return [d.page_content for d in found]


def langchain(client):
    words = ["aaaa", "aaab", "bbbb", "cccc"]
    store = Chroma.from_texts(
        words,
        Fake(),
        metadatas=[{"n": i, "even": i % 2 == 0} for i in range(4)],
        ids=["0", "1", "2", "3"],
        collection_name="words",
        client=client,
        collection_metadata={"hnsw:space": "cosine"},
    )
    equal(texts(store.similarity_search("aaaa", k=2)), ["aaaa", "aaab"])
    scored = store.similarity_search_with_score("aaaa", k=4)
    equal(texts(d for d, _ in scored), ["aaaa", "aaab", "bbbb", "cccc"])
    assert abs(scored[0][1]) < 1e-6 and 0 < scored[1][1] < scored[2][1] <= 1, scored
    equal(scored[1][0].metadata, {"n": 1, "even": False})
    relevance = store.similarity_search_with_relevance_scores("aaaa", k=1)
    assert abs(relevance[0][1] - 1) < 1e-6, relevance
    equal(texts(store.similarity_search("aaaa", k=4, filter={"even": True})), ["aaaa", "bbbb"])
    equal(texts(store.similarity_search("aaaa", k=4, filter={"n": {"$gt": 1}}, where_document={"$contains": "c"})), ["cccc"])
    equal(texts(store.similarity_search_by_vector(Fake().embed_query("cccc"), k=1)), ["cccc"])
    vectors = store.similarity_search_with_vectors("bbbb", k=1)
    equal((vectors[0][0].page_content, len(vectors[0][1])), ("bbbb", 4))
    # Relevance alone takes the two nearest, diversity something else.
    equal(texts(store.max_marginal_relevance_search("aaab", k=2, fetch_k=4, lambda_mult=1)), ["aaab", "aaaa"])
    diverse = texts(store.max_marginal_relevance_search("aaab", k=2, fetch_k=4, lambda_mult=0))
    assert diverse[0] == "aaab" and diverse[1] != "aaaa", diverse
    retriever = store.as_retriever(search_type="mmr", search_kwargs={"k": 1, "fetch_k": 3})
    equal(texts(retriever.invoke("cccc")), ["cccc"])

    store.update_documents(["0", "1"], [Document(page_content="dddd", metadata={"n": 10}), Document(page_content="aaaa", metadata={"n": 11})])
    equal(texts(store.similarity_search("dddd", k=1)), ["dddd"])
    equal([d.metadata["n"] for d in store.get_by_ids(["0", "1"])], [10, 11])
    store.update_document("1", Document(page_content="aabb", metadata={"n": 12}))
    equal(store.get(ids=["1"], include=["documents", "metadatas"])["documents"], ["aabb"])
    equal(sorted(store.get(where={"n": {"$gte": 10}}, limit=5)["ids"]), ["0", "1"])
    store.delete(ids=["0"])
    equal(sorted(store.get()["ids"]), ["1", "2", "3"])
    more = store.add_documents([Document(page_content="abcd", id="4"), Document(page_content="ab", metadata={"n": 5})])
    equal((more[0], len(more)), ("4", 2))
    store.delete(where={"n": 5}, ids=None)
    equal(sorted(store.get()["ids"]), ["1", "2", "3", "4"])
    again = Chroma(collection_name="words", embedding_function=Fake(), client=client, create_collection_if_not_exists=False)
    equal(texts(again.similarity_search("abcd", k=1)), ["abcd"])
    store.reset_collection()
    equal(store.get()["ids"], [])
    equal(texts(Chroma.from_documents([Document(page_content="cab")], Fake(), collection_name="words", client=client).similarity_search("a", k=9)), ["cab"])
    store.delete_collection()
    fails(NotFoundError, "words", lambda: client.get_collection("words"))


def main():
    client = connect()
    system(client)
    fruits = collections(client)
    records(fruits)
    conditions(fruits)
    queries(client, fruits)
    changes(client, fruits)
    tenants(client)
    langchain(client)
    print(json.dumps({"chromadb": chromadb.__version__, "result": "all as expected"}))


main()
