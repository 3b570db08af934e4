#!/usr/bin/env python3
"""Makes data sets for TestPromiseOutOfDistribution from real pictures, source code and models' vectors, with queries
that tools compute. sets.py tells what the directories hold and how the test reads them.

    tools/promise/further.py FOLDER [NAME...] [--bge DIR] [--glove DIR]

    patches     12 x 12 pixels of photographs; of another one, of more contrast, inverted, blurred, edges, waves, flat
    sift        4 x 4 histograms of 8 directions in photographs, as bytes; of another, turned, wider, two, roots, flat
    colours     256 colours and brightnesses of tiles of photographs, shares that add up to 1; of another, brighter,
                one, two and three colours, all alike, the union of two tiles
    identifiers names of Go's sources as hashed trigrams, signed; with errors, one word, two names, prefixes
    cooccurring words of Go's sources by the words around them; as context, lines, rare words, less another
    beats       128 steps of heartbeats; other rhythms, a beat less, slower, upside down, flat ones, noise
    attributes  sums of one of 8, of 40 and of 300 vectors, and noise; without one of them, one alone, two, a new one
    feedback    --bge: texts; with the nearest added, without these, their mean alone, one half of two near ones
    prefixes    --bge: the first 128 components of texts, centred, of length 1; not centred, weighted, signs, two
    boosted     --bge: texts, longer by popularity; questions, feedback, unpopular, classes, two questions
    probable    --bge: probabilities of 150 classes of texts; one, two and three classes, all alike, less sure, surer
    tagged      --bge: texts, a tag and a user side by side; without these, these alone, two tags, all tags alike
    phrases     --glove: means of two to five words by Zipf's law; one word, twelve, without the mean, less a word
    keys        --glove: keys of an attention over 30,000 words, turned by place; queries near and far, of two, first

A set of more than one metric becomes a directory for each. Needs numpy, scikit-image, scikit-learn and Go's sources.
"""

import pathlib
import re
import subprocess
import zlib

import numpy

from sets import QUERIES, write_made
from users import some, unit, zipf


# Each set is a function of a generator and of the vectors that it needs. It returns its metrics, its rows, of which the
# first QUERIES are queries and not stored, and queries of other kinds by name.

def photographs():
    """Photographs of three colours from 0 to 1, and one more that is not stored."""
    import skimage
    import sklearn.datasets
    folder = pathlib.Path(skimage.__file__).parent / "data"
    names = ["coffee.png", "chelsea.png", "rocket.jpg", "hubble_deep_field.jpg", "ihc.png", "camera.png", "moon.png",
             "coins.png", "grass.png", "gravel.png", "brick.png", "retina.jpg", "astronaut.png"]
    read = [skimage.io.imread(folder / n) for n in names] + list(sklearn.datasets.load_sample_images().images)
    read = [skimage.util.img_as_float(p) for p in read]
    read = [numpy.repeat(p[:, :, None], 3, axis=2) if p.ndim == 2 else p[:, :, :3] for p in read]
    return read[:12] + read[13:], read[12]


def cut(random, pictures, n, size):
    """Squares of pictures, of one size, at random places."""
    of = random.integers(len(pictures), size=n)
    for i in of:
        y, x = (random.integers(s - size) for s in pictures[i].shape[:2])
        yield pictures[i][y:y + size, x:x + size]


def patches(random):
    pictures, other = photographs()
    grey = [p.mean(axis=2) for p in pictures]
    rows = numpy.array([p.ravel() for p in cut(random, grey, 32_000 + QUERIES, 12)])
    asked = rows[:QUERIES]
    mean = asked.mean(axis=1, keepdims=True)
    y, x = numpy.mgrid[:12, :12].reshape(2, 1, 144) - 5.5
    angle = 2 * numpy.pi * random.random((QUERIES, 1))
    along = numpy.cos(angle) * x + numpy.sin(angle) * y
    blurred = asked.reshape(-1, 12, 12)
    blurred = sum(numpy.roll(blurred, (i, j), axis=(1, 2)) for i in range(-2, 3) for j in range(-2, 3)) / 25
    return (".l2", ""), rows, {
        "another": numpy.array([p.ravel() for p in cut(random, [other.mean(axis=2)], QUERIES, 12)]),
        "contrast": mean + 2.5 * (asked - mean), "inverted": 1 - asked, "blurred": blurred.reshape(-1, 144),
        "edges": (along > 3 * random.standard_normal((QUERIES, 1))) * random.random((QUERIES, 1)),
        "waves": mean + 0.3 * numpy.sin(along * random.uniform(0.3, 2, (QUERIES, 1))),
        "flat": mean + 0.002 * random.standard_normal((QUERIES, 144)), "turned": asked.reshape(-1, 12, 12).swapaxes(
            1, 2)[:, :, ::-1].reshape(-1, 144), "covered": asked * (numpy.arange(144) < 72),
        "centred": asked - mean}


def directions(squares):
    """Histograms of eight directions in 4 x 4 parts of each square, as bytes."""
    p = numpy.array(squares)
    dy, dx = numpy.gradient(p, axis=(1, 2))
    strength, angle = numpy.hypot(dx, dy), numpy.arctan2(dy, dx)
    place = (angle / numpy.pi * 4 + 4) % 8
    size = p.shape[1] // 4
    bins = numpy.zeros((len(p), 4, 4, 8))
    for b in range(8):
        near = numpy.abs((place - b + 4) % 8 - 4)
        share = strength * (1 - near).clip(0)
        bins[..., b] = share.reshape(len(p), 4, size, 4, size).sum(axis=(2, 4))
    x = unit(bins.reshape(len(p), 128))
    return numpy.floor(512 * unit(x.clip(0, 0.2))).clip(0, 255)


def sift(random):
    pictures, other = photographs()
    grey = [p.mean(axis=2) for p in pictures]
    squares = list(cut(random, grey, 30_000 + QUERIES, 16))
    rows = directions(squares)
    asked = rows[:QUERIES]
    wide = numpy.array(list(cut(random, grey, QUERIES, 48))).reshape(-1, 16, 3, 16, 3).mean(axis=(2, 4))
    noise = [s + 0.05 * random.standard_normal((16, 16)) for s in squares[:QUERIES]]
    return (".l2", ""), rows, {
        "another": directions(list(cut(random, [other.mean(axis=2)], QUERIES, 16))),
        "turned": directions([numpy.rot90(s) for s in squares[:QUERIES]]), "wider": directions(wide),
        "two": directions([(a + b) / 2 for a, b in zip(squares[:QUERIES], squares[QUERIES:])]),
        "roots": 512 * unit(asked ** 0.5), "with noise": directions(noise), "one direction": 512 * unit(
            asked * (numpy.arange(128) % 8 == random.integers(8, size=(QUERIES, 1)))),
        "words": numpy.array([rows[random.integers(len(rows), size=8)].mean(axis=0) for _ in range(QUERIES)])}


def colours(random):
    pictures, other = photographs()

    def of(tile):
        b = (tile.reshape(-1, 3) * (7.999, 7.999, 3.999)).astype(int)
        return numpy.bincount(b @ (32, 4, 1), minlength=256) / len(b)

    tiles = list(cut(random, [pictures[i] for i in (0, 1, 2, 3, 4, 11, 12, 13)], 30_000 + QUERIES, 24))
    rows = numpy.array([of(t) for t in tiles])
    asked, common = rows[:QUERIES], numpy.flatnonzero(rows.mean(axis=0) > 0.002)
    one = [numpy.eye(256)[common[random.integers(len(common), size=QUERIES)]] for _ in range(3)]
    return (".l2", "", ".dot"), rows, {
        "another": numpy.array([of(t) for t in cut(random, [other], QUERIES, 24)]),
        "brighter": numpy.array([of((1.3 * t).clip(0, 1)) for t in tiles[:QUERIES]]),
        "one colour": one[0], "two colours": (one[0] + one[1]) / 2, "three colours": sum(one) / 3,
        "all alike": numpy.full((QUERIES, 256), 1 / 256) + 0.0005 * random.standard_normal((QUERIES, 256)),
        "of two tiles": (asked + rows[QUERIES:2 * QUERIES]) / 2, "roots": asked ** 0.5,
        "as often": (asked > 0) / (asked > 0).sum(axis=1, keepdims=True)}


def sources():
    root = subprocess.run(["go", "env", "GOROOT"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    for path in sorted(pathlib.Path(root, "src").rglob("*.go")):
        if "testdata" not in path.parts:
            yield path.read_text(errors="replace")


def identifiers(random):
    names = sorted({n for s in sources() for n in re.findall(r"\b[A-Za-z][A-Za-z0-9_]{5,40}\b", s)})
    names = [names[i] for i in random.permutation(len(names))[:40_000 + QUERIES]]

    def of(names):
        x = numpy.zeros((len(names), 256))
        for row, n in zip(x, names):
            n = f"^{n.lower()}$"
            for i in range(len(n) - 2):
                h = zlib.crc32(n[i:i + 3].encode())
                row[h & 255] += 1 - (h >> 16 & 2)
        return x

    def wrong(n):
        i = random.integers(len(n))
        return n[:i] + chr(97 + random.integers(26)) + n[i + 1:]

    words = [w for n in names[QUERIES:] for w in re.findall("[A-Z]?[a-z]{3,}", n)]
    word = [words[i] for i in random.integers(len(words), size=QUERIES)]
    return ("", ".l2", ".dot"), of(names), {
        "with errors": of([wrong(n) for n in names[:QUERIES]]), "one word": of(word),
        "two words": of([a + b for a, b in zip(word, word[::-1])]),
        "two names": of([a + b for a, b in zip(names[:QUERIES], names[QUERIES:])]),
        "a prefix": of([n[:4] for n in names[:QUERIES]]), "ten words": of(["_".join(
            words[i:i + 10]) for i in random.integers(len(words) - 10, size=QUERIES)]),
        "one less another": of(names[:QUERIES]) - of(names[QUERIES:2 * QUERIES])}


def cooccurring(random):
    from scipy.sparse import coo_matrix
    from scipy.sparse.linalg import svds
    lines = [re.findall("[a-z]{2,}", x.lower()) for s in sources() for x in s.splitlines()]
    lines = [x for x in lines if 3 <= len(x) <= 40]
    counts = {}
    for x in lines:
        for w in x:
            counts[w] = counts.get(w, 0) + 1
    words = sorted(counts, key=lambda w: (-counts[w], w))[:24_000 + QUERIES]
    of = {w: i for i, w in enumerate(words)}
    coded = [[of[w] for w in x if w in of] for x in lines]
    pairs = numpy.array([(a, b) for x in coded for i, a in enumerate(x) for b in x[max(0, i - 4):i]], dtype="i4")
    pairs = numpy.vstack([pairs, pairs[:, ::-1]])
    m = coo_matrix((numpy.ones(len(pairs)), pairs.T), shape=(len(words),) * 2).tocsr().tocoo()
    often = numpy.bincount(pairs[:, 0], minlength=len(words)) + 1.0
    smoothed = often ** 0.75 / (often ** 0.75).sum()
    m.data = numpy.log(m.data / often[m.row] / smoothed[m.col]).clip(0)
    u, s, v = svds(m.tocsr(), k=128, v0=numpy.ones(len(words)))
    inside, context = u * s ** 0.5, v.T * s ** 0.5
    order = random.permutation(len(words))
    picked = random.integers(len(coded), size=4 * QUERIES)
    said = [numpy.array(coded[i]) for i in picked if len(coded[i]) > 3][:QUERIES]
    return ("", ".dot", ".l2"), inside[order], {
        "as context": context[order[:QUERIES]], "lines": numpy.array([inside[x].mean(axis=0) for x in said]),
        "context of lines": numpy.array([context[x].sum(axis=0) for x in said]),
        "the most frequent": inside[:QUERIES] * 0.9 + 0.1 * inside[order[:QUERIES]],
        "the rarest": context[-QUERIES:], "less another": 2 * inside[order[:QUERIES]] - some(random, inside),
        "both": inside[order[:QUERIES]] + context[order[:QUERIES]]}


def beats(random):
    t = numpy.arange(128)

    def of(n, period=(20, 60), width=1.2, kinds=12, late=0.0):
        shapes = numpy.random.default_rng(5).standard_normal((kinds, 3))
        shape = shapes[random.integers(kinds, size=n)]
        every = random.uniform(*period, (n, 1))
        phase = (t + every * random.random((n, 1))) / every % 1 + late
        x = 3 * numpy.exp(-((phase - 0.5) * every / width) ** 2)
        for i, at in enumerate((0.3, 0.7, 0.85)):
            x += shape[:, i:i + 1] * numpy.exp(-((phase - at) * 9) ** 2)
        x += 0.15 * random.standard_normal((n, 128)) + numpy.sin(t / 30 + 6.3 * random.random((n, 1)))
        return (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)

    rows = of(32_000 + QUERIES)
    asked = rows[:QUERIES]
    gone = numpy.abs(t - random.integers(128, size=(QUERIES, 1))) < 24
    return (".l2", ""), rows, {
        "faster": of(QUERIES, (9, 15)), "slower": of(QUERIES, (100, 160)), "wider": of(QUERIES, width=4),
        "a part gone": asked * ~gone, "upside down": -asked, "backwards": asked[:, ::-1],
        "noise": random.standard_normal((QUERIES, 128)), "flat": 0.05 * asked, "a step": numpy.where(
            t > random.integers(8, 120, size=(QUERIES, 1)), 1.0, -1.0),
        "two at once": (asked + rows[QUERIES:2 * QUERIES]) / 2, "loud": 3 * asked}


def nearest(rows, asked, n):
    return numpy.argsort(-(asked @ rows.T), axis=1)[:, :n]


def feedback(random, texts, questions):
    asked = questions[:QUERIES]
    near = nearest(texts, asked, 60)
    first = texts[near[:, :5]].mean(axis=1)
    rows = texts[random.integers(len(texts), size=QUERIES)]
    beside = nearest(texts, rows, 9)
    return ("", ".dot", ".l2"), numpy.vstack([asked, texts]), {
        "with the nearest": asked + 0.75 * first - 0.25 * texts[near[:, 30:]].mean(axis=1),
        "guessed answers": (asked + 5 * unit(first + 0.03 * random.standard_normal(first.shape))) / 6,
        "without the nearest": asked - 0.9 * first, "at right angles": asked - first * (
            (asked * first).sum(axis=1) / (first * first).sum(axis=1))[:, None],
        "not the first": asked - 0.4 * texts[near[:, 0]], "between near ones": unit(rows + texts[beside[:, 8]]),
        "the mean of 60": texts[near].mean(axis=1), "their differences": texts[near[:, 0]] - texts[near[:, 9]],
        "negated": -first, "two questions": asked + asked[::-1], "five questions": sum(
            numpy.roll(asked, i, axis=0) for i in (0, 1, 200, 400, 600)) / 5,
        "mostly one": asked + 0.3 * asked[::-1]}


def prefixes(random, texts, questions):
    whole = numpy.vstack([questions[:QUERIES], texts])[:, :128]
    mean = whole.mean(axis=0)
    rows = unit(whole - mean)
    asked = rows[:QUERIES]
    return ("", ".l2", ".dot"), rows, {
        "not centred": unit(whole[:QUERIES]), "twice centred": unit(whole[:QUERIES] - 2 * mean),
        "weighted": asked * random.random(128), "signs": numpy.sign(asked) / 11, "other components": unit(
            questions[:QUERIES, 128:256]), "two": (asked + asked[::-1]) / 2, "the first 16": asked * (
            numpy.arange(128) < 16), "ternary": numpy.sign(asked) * (numpy.abs(asked) > 0.07),
        "the mean alone": unit(mean + 0.01 * random.standard_normal((QUERIES, 128)))}


def boosted(random, texts, questions):
    asked = questions[:QUERIES]
    boost = 1 + random.lognormal(-1.5, 1, (len(texts), 1))
    near = nearest(texts, asked, 10)
    classes = unit(some(random, texts) + some(random, texts))
    return (".dot", "", ".l2"), numpy.vstack([asked, texts * boost]), {
        "feedback": asked + texts[near].mean(axis=1), "centred": asked - texts.mean(axis=0),
        "classes": classes - texts.mean(axis=0), "two": asked + asked[::-1], "not this": asked - 0.8 * asked[::-1],
        "not the nearest": asked - texts[near[:, 0]], "the mean": texts.mean(axis=0) + 0.1 * asked,
        "a hundred": texts[random.integers(len(texts), size=(QUERIES, 100))].mean(axis=1)}


def probable(random, texts, questions):
    whole = numpy.vstack([questions[:QUERIES], texts])
    whole = unit(whole - whole.mean(axis=0))
    classes = unit(whole[random.choice(len(texts), size=150, replace=False)])

    def of(x, sure=12.0):
        y = numpy.exp(sure * x @ classes.T)
        return y / y.sum(axis=1, keepdims=True)

    one = [numpy.eye(150)[random.integers(150, size=QUERIES)] for _ in range(3)]
    asked = whole[:QUERIES]
    return (".l2", "", ".dot"), of(whole), {
        "one class": one[0], "two classes": (one[0] + one[1]) / 2, "three classes": sum(one) / 3,
        "all alike": 1 / 150 + 0.0003 * random.standard_normal((QUERIES, 150)), "less sure": of(asked, 5), "surer": of(
            asked, 40), "of two": of(unit(asked + asked[::-1])), "not the first": unit(of(asked) * (
            of(asked) < of(asked).max(axis=1, keepdims=True))), "mostly one": 0.9 * one[0] + 0.1 * one[1]}


def phrases(random, words):
    words = words[:20_000]
    shares = zipf(len(words), 0.7)

    def of(n, m):
        return words[random.choice(len(words), size=(n, m), p=shares)].mean(axis=1)

    rows = numpy.vstack([of(8250, m) for m in (2, 3, 4, 5)])
    rows = rows[random.permutation(len(rows))]
    asked = rows[:QUERIES]
    return ("", ".dot", ".l2"), rows, {
        "one word": of(QUERIES, 1), "twelve words": of(QUERIES, 12), "without the mean": asked - rows.mean(axis=0),
        "less a word": asked - of(QUERIES, 1) / 2, "rare words": words[-QUERIES:], "a page": of(QUERIES, 100),
        "doubled": 2 * asked, "two phrases": (asked + rows[QUERIES:2 * QUERIES]) / 2, "one word repeated": (
            asked + 3 * of(QUERIES, 1)) / 4}


def keys(random, words):
    n, dim = 30_000, 128
    said = words[random.choice(20_000, size=n + QUERIES, p=zipf(20_000, 0.9))]
    said = unit(said + 0.3 * numpy.roll(said, 1, axis=0))
    into, asking = random.standard_normal((2, 100, dim)) * numpy.linspace(2, 0.3, dim)
    asking = 0.5 * asking + into
    bias = numpy.zeros((2, dim))
    bias[0, [3, 20, 41]], bias[1, [3, 20, 50]] = (6, -4, 8), (-3, 2, 5)

    def at(x, place):
        angle = numpy.atleast_1d(place)[:, None] / 10_000 ** (numpy.arange(dim // 2) / (dim // 2))
        a, b = x[:, :dim // 2], x[:, dim // 2:]
        return numpy.hstack([a * numpy.cos(angle) - b * numpy.sin(angle), a * numpy.sin(angle) + b * numpy.cos(angle)])

    place = random.permutation(n + QUERIES)
    rows = at(said @ into + bias[0], place)
    new = said[random.integers(len(said), size=QUERIES)] @ asking + bias[1]
    last = numpy.full(QUERIES, n)
    return (".dot", "", ".l2"), rows, {
        "now": at(new, last), "earlier": at(new, place[:QUERIES]), "far ahead": at(new, last + 10_000),
        "without bias": at(new - bias[1], last), "groups of queries": at(
            (new + new[::-1] + numpy.roll(new, 7, axis=0) + numpy.roll(new, 99, axis=0)) / 4, last),
        "without place": new, "the bias alone": at(bias[1] + 0.1 * new, last)}


def attributes(random):
    values = [times * unit(random.standard_normal((n, 128))) for n, times in ((8, 1.0), (40, 0.8), (300, 0.7))]
    usual = [random.permutation(len(v)) for v in values]

    def of(n, weights=(1, 1, 1), noise=0.35):
        drawn = [usual[i][random.choice(len(v), size=n, p=zipf(len(v), 0.7))] for i, v in enumerate(values)]
        drawn[2] = (drawn[2] + 7 * drawn[0]) % 300  # some are more usual together
        return sum(w * v[d] for w, v, d in zip(weights, values, drawn)) + noise * unit(random.standard_normal((n, 128)))

    rows = of(32_000 + QUERIES)
    return (".l2", "", ".dot"), rows, {
        "not the first": of(QUERIES, (0, 1, 1)), "not the second": of(QUERIES, (1, 0, 1)), "the last alone": of(
            QUERIES, (0, 0, 1)), "the first alone": of(QUERIES, (1, 0, 0)), "no noise": of(QUERIES, noise=0),
        "not the first, no noise": of(QUERIES, (0, 1, 1), 0), "less of the first": of(QUERIES, (0.3, 1, 1)),
        "the last alone, no noise": of(QUERIES, (0, 0, 1), 0), "two of the first": of(QUERIES, (0.5, 1, 1)) + values[0][
            random.integers(8, size=QUERIES)] / 2, "a new first": of(QUERIES, (0, 1, 1)) + unit(
            random.standard_normal((1, 128)))}


def tagged(random, texts, questions):
    tags = numpy.eye(24)[random.choice(24, size=len(texts) + QUERIES, p=zipf(24, 0.6))]
    user = numpy.eye(40)[random.choice(40, size=len(texts) + QUERIES, p=zipf(40, 0.8))]
    whole = numpy.vstack([questions[:QUERIES], texts])

    def of(x, tag, user):
        return numpy.hstack([x, 0.7 * tag, 0.5 * user])

    asked, zero = whole[:QUERIES], numpy.zeros((QUERIES, 40))
    return (".l2", "", ".dot"), of(whole, tags, user), {
        "no tag": of(asked, zero[:, :24], user[:QUERIES]), "no user": of(asked, tags[:QUERIES], zero), "neither": of(
            asked, zero[:, :24], zero), "two tags": of(
            asked, tags[:QUERIES] + tags[QUERIES:2 * QUERIES], user[:QUERIES]),
        "tag and user": of(0 * asked, tags[:QUERIES], user[:QUERIES]), "another tag": of(
            some(random, texts), tags[:QUERIES], user[:QUERIES]), "any tag": of(asked, zero[:, :24] + 1 / 24, zero)}


if __name__ == "__main__":
    write_made(__doc__, (patches, sift, colours, identifiers, cooccurring, beats, attributes),
               of_texts=(feedback, prefixes, boosted, probable, tagged), of_words=(phrases, keys))
