#!/usr/bin/env python3
"""Makes data sets for TestPromiseOutOfDistribution whose queries are computed from other vectors, as services do.
sets.py tells what the directories hold and how the test reads them.

    tools/promise/asked.py FOLDER [NAME...] [--bge DIR] [--glove DIR]

    computed    --bge: texts; the last twenty of a session, decaying, "this less that plus another", more of some and
                less of others, weights of a classifier, an instruction before each, an adapter, clipped, signs,
                shorter, longer
    analogies   --glove: 30,000 frequent words; the same queries
    tenants     --bge: texts of 400 tenants, of sizes by Zipf's law, each an offset; none, a new one, two, one alone
    versions    --bge: texts by eight versions of a model, each a small rotation of the one before; the next, no version
    broken      --bge: texts, 400 zero vectors and 60 of random numbers twenty times as long; noise, longer questions
    stamped     --bge: 128 components of texts, and the month of each; other months, no month, the future
    rectified   features of pictures, half of them zero; before the zeros, in words, one feature more, few features
    cells       logarithms of counts of 300 genes in cells of 25 types; fewer counts, two cells at once, few genes,
                means of a type, another laboratory
    topics      shares of 100 topics, most of them nearly zero; all alike, one, two, smoothed ones, roots
    noises      ten values in 128 components, each row with noise of its own length; without, with more, noise alone,
                values twice as large

A set of more than one metric becomes a directory for each. Needs numpy.
"""

import numpy

from sets import QUERIES, write_made
from users import some, unit, zipf


# Each set is a function of a generator and of the vectors that it needs. It returns its metrics, its rows, of which the
# first QUERIES are queries and not stored, and queries of other kinds by name.

def computed(random, texts, questions):
    asked, dim = questions[:QUERIES], texts.shape[1]
    first = random.integers(len(texts) - 20, size=QUERIES)
    near = sum(texts[first + i] for i in range(5)) / 5
    others = [some(random, texts) for _ in range(5)]
    common = unit(random.standard_normal((1, dim)))
    adapter = numpy.eye(dim) + 0.5 * random.standard_normal((dim, dim)) / dim ** 0.5
    deviation = texts.std()
    return ("", ".dot", ".l2"), numpy.vstack([asked, texts]), {
        "a session": unit(sum(0.85 ** i * texts[first + i] for i in range(20))),
        "less that plus another": others[0] - others[1] + others[2], "less half of that": others[3] - others[4] / 2,
        "more and less": asked + 0.75 * near - 0.5 * sum(others) / 5, "a classifier": unit(near - sum(others) / 5),
        "instructed": unit(asked + 0.8 * common), "adapted": unit(asked @ adapter),
        "centred": asked - texts.mean(axis=0), "clipped": asked.clip(-deviation, deviation),
        "signs": numpy.sign(asked) * deviation, "a hundredth": asked / 100, "a half": asked / 2,
        "twice as long": 2 * asked, "a hundred times": 100 * asked,
        "four to one": 0.8 * some(random, texts) + 0.2 * some(random, texts)}


def analogies(random, words):
    words = words / numpy.linalg.norm(words, axis=1).mean()
    return computed(random, words[1000:31_000], words[31_000:31_000 + 2 * QUERIES])


def tenants(random, texts, questions):
    offsets = unit(random.standard_normal((401, 384)))
    of = random.choice(400, size=len(texts), p=zipf(400, 0.8))
    asked = questions[:QUERIES]
    its = offsets[random.choice(400, size=QUERIES, p=zipf(400, 0.8))]
    return ("", ".dot", ".l2"), numpy.vstack([unit(asked + its), unit(texts + offsets[of])]), {
        "no tenant": asked, "a new tenant": unit(asked + offsets[400]), "of two": unit(asked + (its + its[::-1]) / 2),
        "a tenant alone": its, "less of a tenant": unit(asked + 0.3 * its), "not this tenant": unit(asked - 0.5 * its)}


def versions(random, texts, questions):
    turn = 0.035 * random.standard_normal((384, 384)) / 2 ** 0.5
    step = numpy.linalg.qr(numpy.eye(384) + turn - turn.T)[0]
    step *= numpy.sign(numpy.diag(step))
    turned = [numpy.linalg.matrix_power(step, i) for i in range(10)]
    asked, rows = questions[:QUERIES], texts.copy()
    of = random.integers(8, size=len(texts))
    for v in range(8):
        rows[of == v] = rows[of == v] @ turned[v]
    return ("", ".l2"), numpy.vstack([asked @ turned[7], rows]), {
        "the first version": asked, "the next version": asked @ turned[8], "a later version": asked @ turned[9],
        "first and last": unit(asked + asked @ turned[7]), "all versions": unit(sum(asked @ t for t in turned[:8]))}


def broken(random, texts, questions):
    asked, noise = questions[:QUERIES], unit(random.standard_normal((QUERIES, 384)))
    rows = numpy.vstack([texts, numpy.zeros((400, 384)), 20 * unit(random.standard_normal((60, 384)))])
    return (".l2", ".dot", ""), numpy.vstack([asked, rows[random.permutation(len(rows))]]), {
        "noise": noise, "short noise": 0.3 * noise, "longer noise": 3 * noise, "longest noise": 10 * noise,
        "longer questions": 2 * asked, "longest questions": 8 * asked, "half noise": asked + noise,
        "beside long ones": rows[-60:][random.integers(60, size=QUERIES)] + 3 * noise,
        "shorter questions": 0.5 * asked}


def stamped(random, texts, questions):
    rows = unit(numpy.vstack([questions[:QUERIES], texts])[:, :128])
    month = 36 * random.random((len(rows), 1)) ** 0.5

    def at(x, months):
        return numpy.hstack([x, 0.3 * (numpy.zeros((len(x), 1)) + months)])

    asked = rows[:QUERIES]
    return (".l2", ""), at(rows, month), {
        "now": at(asked, 36), "in a year": at(asked, 48), "the first month": at(asked, 0.5), "before": at(asked, -12),
        "a month alone": at(0 * asked, month[QUERIES:2 * QUERIES]), "longer texts": at(3 * asked, month[:QUERIES]),
        "between two months": at((asked + some(random, rows)) / 2, 18)}


def rectified(random):
    concepts = random.standard_normal((300, 32))
    weights = random.standard_normal((32, 256)) / (1 + numpy.arange(32))[:, None] ** 0.5
    bias, gap = 0.3 * random.standard_normal(256), 0.5 * random.standard_normal(256)

    def before(n):
        meaning = concepts[random.choice(300, size=n, p=zipf(300, 0.6))] + 0.7 * random.standard_normal((n, 32))
        return meaning @ weights + bias

    x = before(30_000 + QUERIES)
    rows, asked = x.clip(0), x[:QUERIES]
    strong = numpy.sort(rows[:QUERIES], axis=1)[:, -12:-11]
    return ("", ".l2", ".dot"), rows, {
        "before the zeros": asked, "in words": asked + gap, "as magnitudes": numpy.abs(asked),
        "centred": rows[:QUERIES] - rows.mean(axis=0), "few features": rows[:QUERIES] * (rows[:QUERIES] >= strong),
        "one feature more": rows[:QUERIES] + 4 * numpy.eye(256)[random.integers(256, size=QUERIES)],
        "one picture less another": some(random, rows) - some(random, rows),
        "a concept": (some(random, concepts) @ weights + bias).clip(0)}


def cells(random):
    usual = random.lognormal(-1, 1.2, 300)
    types = usual * random.lognormal(0, 0.9, (25, 300)) ** (random.random((25, 300)) < 0.2)

    def counts(of, depth=1.0):
        size = depth * random.lognormal(0, 0.4, (len(of), 1))
        return random.poisson(types[of] * size * random.gamma(3, 1 / 3, (len(of), 300)))

    def logarithms(x):
        return numpy.log1p(200 * x / x.sum(axis=1, keepdims=True).clip(1))

    of = random.choice(25, size=25_000 + QUERIES, p=zipf(25))
    x = counts(of)
    rows = logarithms(x)
    few = numpy.argsort(-rows.var(axis=0))[:20]
    alone = numpy.zeros((QUERIES, 300))
    alone[:, few] = rows[:QUERIES][:, few]
    other = random.lognormal(0, 0.5, 300)
    return ("", ".l2"), rows, {
        "fewer counts": logarithms(counts(of[:QUERIES], 0.2)), "more counts": logarithms(counts(of[:QUERIES], 20)),
        "two cells": logarithms(x[:QUERIES] + some(random, x)), "few genes": alone,
        "means of a type": numpy.array([rows[of == t].mean(axis=0) for t in random.integers(25, size=QUERIES)]),
        "another laboratory": logarithms(x[:QUERIES] * other), "counts": x[:QUERIES]}


def topics(random):
    common = 4 * zipf(100, 0.6)
    rows = random.dirichlet(common, 34_000 + QUERIES)
    asked = rows[:QUERIES]
    one = numpy.eye(100)[random.integers(100, size=QUERIES)]
    return (".l2", "", ".dot"), rows, {
        "all alike": 0.01 + 0.0005 * random.standard_normal((QUERIES, 100)), "one topic": one,
        "two topics": (one + one[::-1]) / 2,
        "smoothed": asked / 2 + 0.005, "roots": asked ** 0.5, "the usual": 0.8 * rows.mean(axis=0) + 0.2 * asked,
        "without the largest": unit(asked * (asked < asked.max(axis=1, keepdims=True)))}


def noises(random):
    basis = numpy.linalg.qr(random.standard_normal((128, 10)))[0].T

    def rows(n, noise):
        return random.standard_normal((n, 10)) @ basis + noise * random.standard_normal((n, 128)) / 128 ** 0.5

    x = rows(32_000 + QUERIES, 10 ** random.uniform(-1, 0.7, (32_000 + QUERIES, 1)))
    return (".l2", "", ".dot"), x, {
        "no noise": rows(QUERIES, 0), "little noise": rows(QUERIES, 0.3), "as much noise": rows(QUERIES, 3),
        "more noise": rows(QUERIES, 8), "noise alone": 2 * random.standard_normal((QUERIES, 128)) / 128 ** 0.5,
        "strong": 2 * rows(QUERIES, 0.3), "weak": 0.2 * rows(QUERIES, 0.3)}


if __name__ == "__main__":
    write_made(__doc__, (rectified, cells, topics, noises), of_texts=(computed, tenants, versions, broken, stamped),
               of_words=(analogies,))
