"""Runs a peer that comes as a PyPI package: the graph figure of tools/bench.

    python3 pypi.py hnswlib | symphonyqg | faiss | glass

speaks the line protocol of driver.go: a request is one line, an operation and key=value pairs
separated by tabs; the answer is one line of JSON. setup.sh makes the virtual environment.

A call from Python costs microseconds, as much as a tenth of a query. So a call answers a batch of
queries (the request's "batch"), the clock runs around the call, and the answer has the mean of each
batch. The operation "overhead" measures what the calls cost. FAISS is the exception: it works on the
queries of a batch together, which an application that asks one question cannot have, so it is called
for each query, without the conversions of its Python layer.

Two callers are two threads of this process, each taking the next batch, if the library releases the
interpreter's lock while it searches (the first "walk" of two callers finds out) and allows searches
at the same time; otherwise one call for all queries on two threads of the library. Threads that call
for each query wait for the lock more than they search, so FAISS has two processes with half of the
queries each.
"""

import importlib.metadata
import json
import os
import sys
import threading
import time

# Some packages print. The answers get the standard output to themselves.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
# Threads of OpenMP that wait must not take the processor from the others. Before the packages load.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np  # noqa: E402


def read_fvecs(name):
    words = np.memmap(name, dtype="<i4", mode="r")
    dim = int(words[0])
    return np.ascontiguousarray(words.reshape(-1, dim + 1)[:, 1:]).view(np.float32)


class Peer:
    """A library: build makes an index, save and load keep it, search returns an array of row numbers."""

    reentrant = True  # several threads may search at the same time
    single = False  # a call answers one query, not a batch
    settings = ""

    def turn(self, index, request):
        """Prepares an index for the settings of a request."""

    def ready(self, index, queries, k, request, threads):
        """Returns a function that searches. The clock runs around it alone."""
        return lambda: self.search(index, queries, k, request, threads)


class Hnswlib(Peer):
    """hnswlib, compiled on this machine for its processor: PyPI has the source only."""

    package = "hnswlib"
    settings = "Index, inner product"

    def __init__(self):
        import hnswlib

        self.lib = hnswlib

    def build(self, base, request, threads):
        index = self.lib.Index(space="ip", dim=base.shape[1])
        index.init_index(len(base), M=int(request["m"]), ef_construction=int(request["construction"]))
        index.add_items(base, num_threads=threads)
        return index

    def save(self, index, name):
        index.save_index(name)

    def load(self, name, base, request):
        index = self.lib.Index(space="ip", dim=base.shape[1])
        index.load_index(name)
        return index

    def turn(self, index, request):
        index.set_ef(int(request["ef"]))

    def search(self, index, queries, k, request, threads):
        return index.knn_query(queries, k, num_threads=threads)[0]


class SymphonyQG(Peer):
    """SymphonyQG by distance, whose order is that of inner products for vectors of length 1.

    For the metric "ip" it finds a twentieth of the rows where all vectors have much in common.
    """

    package = "rabitqlib"
    settings = "SymqgIndex, L2"

    def __init__(self):
        import rabitqlib

        self.lib = rabitqlib

    def build(self, base, request, threads):
        if np.abs(np.linalg.norm(base, axis=1) - 1).max() > 1e-3:
            raise ValueError("vectors are not of length 1")
        index = self.lib.SymqgIndex(base.shape[1], int(request["degree"]), request["metric"], int(request["bits"]))
        index.build(base, int(request["construction"]), threads)
        return index

    def save(self, index, name):
        index.save(name)

    def load(self, name, base, request):
        return self.lib.SymqgIndex.load(name)

    def search(self, index, queries, k, request, threads):
        return index.search(queries, k, int(request["ef"]), threads)[0]


class Faiss(Peer):
    package = "faiss-cpu"
    settings = "index_factory, inner product"

    def __init__(self):
        import faiss

        self.lib = faiss
        self.settings += " (" + faiss.get_compile_options().strip() + ")"

    def build(self, base, request, threads):
        self.lib.omp_set_num_threads(threads)
        index = self.lib.index_factory(base.shape[1], request["factory"], self.lib.METRIC_INNER_PRODUCT)
        index.train(base)
        index.add(base)
        return index

    def save(self, index, name):
        self.lib.write_index(index, name)

    def load(self, name, base, request):
        return self.lib.read_index(name)

    def turn(self, index, request):
        space = self.lib.ParameterSpace()
        space.set_index_parameter(index, "nprobe", int(request["nprobe"]))
        space.set_index_parameter(index, "k_factor_rf", int(request["k_factor"]))

    single = True

    def ready(self, index, queries, k, request, threads):
        scores, ids = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
        calls = [tuple(map(self.lib.swig_ptr, rows)) for rows in zip(queries, scores, ids)]

        def search():
            self.lib.omp_set_num_threads(threads)  # a setting of each thread
            for query, score, row in calls:
                index.search_c(1, query, k, score, row)
            return ids

        search.memory = queries, scores  # the pointers do not keep it
        return search

    def call_cost(self, queries):
        """Returns the microseconds of a call that finds nothing."""
        search = self.ready(self.lib.IndexFlatIP(queries.shape[1]), queries, 10, None, 1)
        return min(seconds(search) for _ in range(20)) * 1e6 / len(queries)


class Glass(Peer):
    """Glass. Its portable wheel is compiled for AVX2."""

    package = "pyglass-portable"
    settings = "HNSW graph, inner product, wheel for AVX2"
    reentrant = False  # searches at the same time return rows twice

    def __init__(self):
        import glass

        self.lib = glass

    def build(self, base, request, threads):
        self.lib.set_num_threads(threads)
        graph = self.lib.Index("HNSW", "IP", "FP32", int(request["degree"]), int(request["construction"])).build(base)
        # It takes the graph: a second one of the same graph finds nothing.
        index = self.lib.Searcher(graph, base, "IP", request["codes"], request["refined"])
        index.set_ef(32)
        index.optimize(1)  # chooses distances of prefetches
        return index

    def turn(self, index, request):
        index.set_ef(int(request["ef"]))

    def search(self, index, queries, k, request, threads):
        return index.batch_search(queries, k, threads)[0]


class Driver:
    def __init__(self, peer):
        self.peer = peer
        self.indexes = {}
        self.free = {}  # by index: whether threads of Python can search at the same time
        self.queries = None

    def hello(self, request):
        version = importlib.metadata.version(self.peer.package)
        return {"settings": self.peer.settings, "version": version}

    def build(self, request):
        base, self.queries = read_fvecs(request["base"]), read_fvecs(request["queries"])
        name = self.kept(request)
        if name and os.path.exists(name) and os.path.getmtime(name) > os.path.getmtime(request["base"]):
            self.indexes[request["index"]] = self.peer.load(name, base, request)
            with open(name + ".seconds") as file:
                return {"seconds": float(file.read()), "kept": True}
        start = time.perf_counter()
        index = self.peer.build(base, request, int(request["threads"]))
        seconds = time.perf_counter() - start
        self.indexes[request["index"]] = index
        if name:
            with open(name + ".seconds", "w") as file:
                file.write(str(seconds))
            self.peer.save(index, name + ".part")
            os.rename(name + ".part", name)
        return {"seconds": seconds}

    def kept(self, request):
        """Returns the file of an index that is kept for later runs, empty if it is not."""
        if "keep" not in request or not hasattr(self.peer, "save"):
            return ""
        shape = [f"{key}={value}" for key, value in sorted(request.items()) if key not in ("base", "queries", "threads", "index", "keep")]
        package = self.peer.package + "-" + importlib.metadata.version(self.peer.package)
        return os.path.join(request["keep"], "-".join([package, *shape]))

    def readier(self, request):
        """Returns a function that makes searches of queries, with the settings of a request."""
        index = self.indexes[request["index"]]
        self.peer.turn(index, request)
        k = int(request["k"])
        return lambda queries, threads=1: self.peer.ready(index, queries, k, request, threads)

    def walk(self, request):
        ready = self.readier(request)
        first, n, size = (int(request[key]) for key in ("first", "n", "batch"))
        at = np.arange(first, first + n) % len(self.queries)
        if request["mode"] != "callers":
            return self.alone(self.batches(ready, at, size), size, float(request["budget_ms"]) / 1e3)
        if self.peer.single:
            return self.processes(ready, at)
        if request["index"] not in self.free:
            self.free[request["index"]] = self.peer.reentrant and releases(ready, self.queries)
        if self.free[request["index"]]:
            return self.pair(self.batches(ready, at, size), n)
        search = ready(np.ascontiguousarray(self.queries[at]), threads=2)
        start = time.perf_counter()
        ids = search()
        return {"us": [(time.perf_counter() - start) * 1e6 / n], "ids": np.asarray(ids).tolist()}

    def batches(self, ready, at, size):
        return [ready(np.ascontiguousarray(self.queries[at[i : i + size]])) for i in range(0, len(at), size)]

    def alone(self, searches, size, budget):
        us, ids = [], []
        begun = time.perf_counter()
        for search in searches:
            if ids and time.perf_counter() - begun > budget:
                break
            start = time.perf_counter()
            found = search()
            took = time.perf_counter() - start
            us.append(took * 1e6 / len(found))
            ids.extend(np.asarray(found).tolist())
        return {"us": us, "ids": ids}

    def pair(self, searches, n):
        found = [None] * len(searches)
        failed = []
        following = iter(range(len(searches)))

        def caller():
            try:
                for i in following:  # one step of it is atomic
                    found[i] = searches[i]()
            except Exception as e:
                failed.append(e)

        other = threading.Thread(target=caller)
        start = time.perf_counter()
        other.start()
        caller()
        other.join()
        took = time.perf_counter() - start
        if failed:
            raise failed[0]
        return {"us": [took * 1e6 / n], "ids": np.concatenate([np.asarray(f) for f in found]).tolist()}

    def processes(self, ready, at):
        """Searches half of the queries in a child, which has the index by fork. Forking is not timed."""
        halves = [ready(np.ascontiguousarray(self.queries[half])) for half in np.array_split(at, 2)]
        (told, tell), (asked, ask) = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(tell)  # so that a parent that ends is noticed
                os.close(asked)
                os.read(told, 1)
                found = np.ascontiguousarray(halves[1](), dtype=np.int64)
                with os.fdopen(ask, "wb") as out:
                    out.write(b".")  # the end of the clock
                    out.flush()
                    out.write(found.tobytes())
            finally:
                os._exit(0)
        os.close(told)
        os.close(ask)
        with os.fdopen(asked, "rb") as answer:
            start = time.perf_counter()
            os.write(tell, b".")
            found = halves[0]()
            done = answer.read(1)
            took = time.perf_counter() - start
            rest = np.frombuffer(answer.read(), dtype=np.int64)
        os.close(tell)
        os.waitpid(child, 0)
        if not done:
            raise RuntimeError("the second process ended without an answer")
        ids = np.concatenate([np.asarray(found), rest.reshape(-1, found.shape[1])])
        return {"us": [took * 1e6 / len(at)], "ids": ids.tolist()}

    def overhead(self, request):
        """Returns the microseconds that calls cost a query.

        They are the difference between queries one by one and the same in one call.
        """
        free = self.free.get(request["index"], False)
        answer = {"released": free, "single": self.peer.single}
        if self.peer.single:
            return {**answer, "us": self.peer.call_cost(self.queries)}
        ready = self.readier(request)
        queries = self.queries[: int(request["n"])]
        single = [ready(queries[i : i + 1]) for i in range(len(queries))]
        whole = ready(queries)
        one = all = float("inf")
        for _ in range(5):
            one = min(one, seconds(lambda: [search() for search in single]))
            all = min(all, seconds(whole))
        return {**answer, "us": max(0.0, (one - all) * 1e6 / len(queries)) / int(request["batch"])}


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def releases(ready, queries):
    """Whether another thread of Python can run while a search does."""
    took = seconds(ready(queries))
    search = ready(np.tile(queries, (1 + int(0.1 / took), 1)))
    stamps, stop = [], threading.Event()

    def tick():
        while not stop.is_set():
            stamps.append(time.perf_counter())
            time.sleep(0.001)

    ticker = threading.Thread(target=tick)
    ticker.start()
    start = time.perf_counter()
    search()
    end = time.perf_counter()
    stop.set()
    ticker.join()
    margin = (end - start) / 10
    return any(start + margin < at < end - margin for at in stamps)


def main():
    peers = {"hnswlib": Hnswlib, "symphonyqg": SymphonyQG, "faiss": Faiss, "glass": Glass}
    driver, failure = None, ""
    try:
        driver = Driver(peers[sys.argv[1]]())
    except Exception as e:
        failure = f"{type(e).__name__}: {e}"
    operations = ("hello", "build", "walk", "overhead")
    for line in sys.stdin:
        op, *fields = line.rstrip("\n").split("\t")
        try:
            if driver is None:
                raise RuntimeError(failure)
            if op not in operations:
                raise ValueError("unknown operation " + op)
            answer = getattr(driver, op)(dict(field.split("=", 1) for field in fields))
        except Exception as e:
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), file=answers, flush=True)


main()
