#!/usr/bin/env python3
"""Makes data sets for TestPromiseOutOfDistribution, like what services store: catalogues, streams and languages.
sets.py tells what the directories hold and how the test reads them.

    tools/promise/services.py FOLDER [NAME...] [--bge DIR]

    languages   --bge: texts in eight languages, of sizes by Zipf's law, each an offset; a ninth, none, the rarest, two
    bits        --bge: the signs of 256 components as 0 and 1; numbers, half of the bits, bits of two, wrong ones
    rotated     --bge: 256 principal components, made steeper; the first 32, the last ones, scaled, of two
    whitened    --bge: the same, each divided by its deviation; questions that are not, half so and twice so
    catalogue   7,000 products of 1 to thousands of nearly equal variants by Zipf's law; products of one, two at once,
                with an attribute, whole categories, in other words
    drift       a stream of 30 kinds whose mean moves each day; the newest, the future, the first, two, one and all days
    places      a place, an hour and a text at different scales; around cities, at sea, without place or text, at night
    frames      energies that change slowly; next frames, mixed and cut ones, averages, louder ones, silence and noise
    nodes       random projections of the neighbours of nodes, with hubs; new nodes, other steps, groups, pairs
    factors     items with a bias, of lengths by popularity; users, new ones, two tastes, dislikes, groups, no bias
    hashes      256 bits of pictures, and copies with errors; cut, inverted, blank, halves and means of two, signs

A set of more than one metric becomes a directory for each. Needs numpy.
"""

import numpy

from sets import QUERIES, write_made
from users import some, unit, zipf


# Each set is a function of a generator and of the vectors that it needs. It returns its metrics, its rows, of which the
# first QUERIES are queries and not stored, and queries of other kinds by name.

def languages(random, texts, questions):
    offsets = 0.9 * unit(random.standard_normal((9, 384)))
    of = random.choice(8, size=len(texts), p=zipf(8))
    asked = questions[:QUERIES]
    rows = numpy.vstack([unit(asked + offsets[random.choice(8, size=QUERIES, p=zipf(8))]), unit(texts + offsets[of])])
    return ("", ".dot"), rows, {
        "a ninth": unit(asked + offsets[8]), "no language": asked, "the rarest": unit(asked + offsets[7]),
        "two at once": unit(asked + offsets[0] + offsets[7]), "translated": unit(some(random, texts) + offsets[5]),
        "words of a language": unit(offsets[random.integers(8, size=QUERIES)] + 0.2 * asked)}


def bits(random, texts, questions):
    asked = questions[:QUERIES, :256]
    rows = (numpy.vstack([asked, texts[:, :256]]) > 0).astype("f4")
    stored, wrong = rows[QUERIES:], random.random((QUERIES, 256))
    return ("", ".l2", ".dot"), rows, {
        "numbers": 16 * asked, "half of the bits": rows[:QUERIES] * (numpy.arange(256) < 128),
        "in the middle": numpy.where(wrong < 0.5, rows[:QUERIES], 0.5),
        "bits of two": numpy.maximum(some(random, stored), some(random, stored)),
        "bits in common": numpy.minimum(some(random, stored), some(random, stored)),
        "a quarter wrong": numpy.where(wrong < 0.25, 1 - rows[:QUERIES], rows[:QUERIES])}


def components(texts, questions):
    values, vectors = numpy.linalg.eigh(numpy.cov(texts.T))
    basis = vectors[:, ::-1][:, :256]
    return (numpy.vstack([questions[:QUERIES], texts]) - texts.mean(axis=0)) @ basis, values[::-1][:256] ** 0.5


def rotated(random, texts, questions):
    rows, deviations = components(texts, questions)
    rows *= numpy.arange(1, 257) ** -0.5  # as steep as spectra of image models
    asked, order = rows[:QUERIES], numpy.arange(256)
    return ("", ".l2"), rows, {
        "the first 32": asked * (order < 32), "the last 192": 8 * asked * (order >= 64),
        "without the first": asked * (order > 0),
        "scaled": asked / deviations * deviations[0], "another sign": asked * numpy.where(order < 4, -1, 1),
        "two halves": numpy.hstack([some(random, rows)[:, :16], some(random, rows)[:, 16:]])}


def whitened(random, texts, questions):
    rows, deviations = components(texts, questions)
    asked = rows[:QUERIES]
    return ("", ".l2", ".dot"), rows / deviations, {
        "as they were": asked / deviations[128], "half so": asked / (deviations * deviations[128]) ** 0.5,
        "twice so": asked * deviations[128] / deviations ** 2,
        "the first 32": asked / deviations * (numpy.arange(256) < 32),
        "two questions": (some(random, asked) + some(random, asked)) / deviations}


def catalogue(random):
    categories = random.standard_normal((40, 128))
    products = unit(categories[random.integers(40, size=7000)] + 0.8 * random.standard_normal((7000, 128)))
    attributes = unit(random.standard_normal((60, 128)))
    sold = numpy.concatenate([random.choice(1000, size=24_000, p=zipf(1000)), numpy.arange(1000, 7000)])
    random.shuffle(sold)

    def variants(of, much=0.1):
        chosen = attributes[random.integers(60, size=len(of))]
        return unit(products[of] + much * chosen + 0.02 * unit(random.standard_normal((len(of), 128))))

    single, large = random.integers(1000, 7000, size=QUERIES), random.integers(40, size=(2, QUERIES))
    return ("", ".l2", ".dot"), variants(sold), {
        "products of one variant": variants(single),
        "two large products": variants(large[0]) + variants(large[1]),
        "a large and a small one": variants(large[0]) + variants(single),
        "with an attribute": variants(sold[:QUERIES], 0.8),
        "categories": some(random, categories) + 0.2 * random.standard_normal((QUERIES, 128)),
        "in words": unit(variants(sold[:QUERIES]) * (random.random((QUERIES, 128)) < 0.4)
                         + 0.04 * random.standard_normal(128))}


def drift(random):
    days = 400
    means = numpy.cumsum(random.standard_normal((days + 40, 128)), axis=0) / 8
    kinds = random.standard_normal((30, 128))

    def of(day):
        return means[day] + kinds[random.integers(30, size=len(day))] + 0.6 * random.standard_normal((len(day), 128))

    now = numpy.full(QUERIES, days - 1)
    return ("", ".l2", ".dot"), of(random.integers(days, size=36_000 + QUERIES)), {
        "newest": of(now), "future": of(now + random.integers(1, 41, size=QUERIES)), "the first day": of(0 * now),
        "now and then": (of(now) + of(0 * now)) / 2, "a day": means[random.integers(days, size=QUERIES)],
        "all days": sum(of(random.integers(days, size=QUERIES)) for _ in range(20)) / 20}


def places(random):
    cities = random.uniform((-60, -180), (70, 180), (200, 2))
    kinds = random.standard_normal((50, 96))

    def of(where, hour, text):
        angle = 2 * numpy.pi * hour[:, None] / 24
        return numpy.hstack([where, 3 * numpy.cos(angle), 3 * numpy.sin(angle), text])

    def drawn(n):
        return (cities[random.choice(200, size=n, p=zipf(200))] + 0.1 * random.standard_normal((n, 2)),
                random.normal(15, 4, n), unit(kinds[random.integers(50, size=n)] + random.standard_normal((n, 96))))

    where, hour, text = drawn(34_000 + QUERIES)
    asked = where[:QUERIES], hour[:QUERIES], text[:QUERIES]
    nearby = asked[0] + random.standard_normal((QUERIES, 2))
    return (".l2", ""), of(where, hour, text), {
        "around cities": of(nearby, *asked[1:]),
        "at sea": of(random.uniform((-60, -180), (70, 180), (QUERIES, 2)), *asked[1:]),
        "no text": of(asked[0], asked[1], 0 * text[:QUERIES]), "no place": of(0 * asked[0], *asked[1:]),
        "at night": of(asked[0], asked[1] + 12, asked[2]), "three times the text": of(asked[0], asked[1], 3 * asked[2])}


def frames(random):
    shapes = numpy.abs(random.standard_normal((40, 96))) ** 2

    def sequences(n):
        x, level = numpy.zeros((n, 80, 40)), random.standard_normal((n, 40))
        for t in range(80):
            level = 0.97 * level + 0.25 * random.standard_normal((n, 40))
            x[:, t] = level
        return numpy.log1p(numpy.exp(1.5 * x) @ shapes)  # of energies

    rows, new = sequences(450), sequences(50)
    asked = new.reshape(-1, 96)[random.permutation(4000)[:QUERIES]]
    whole = rows.reshape(-1, 96)[random.permutation(36_000)]
    mixed = numpy.log1p(numpy.expm1(some(random, whole)) + numpy.expm1(some(random, whole)))
    return ("", ".l2", ".dot"), numpy.vstack([asked, whole]), {
        "next ones": rows[random.integers(450, size=QUERIES), 40] + 0.02 * random.standard_normal((QUERIES, 96)),
        "mixed": mixed, "cut": asked * (numpy.arange(96) < 40), "averages": some(random, rows.mean(axis=1)),
        "louder": asked + 2, "silence": 0.05 * numpy.abs(random.standard_normal((QUERIES, 96))),
        "noise": numpy.log1p(random.gamma(2, 30, (QUERIES, 96)))}


def nodes(random):
    n = 30_000 + QUERIES
    group = random.choice(100, size=n, p=zipf(100, 0.7))
    hubs = random.choice(n, size=(n, 2), p=random.permutation(zipf(n, 0.8)))
    inside = numpy.empty((n, 6), int)
    for members in (numpy.flatnonzero(group == g) for g in range(100)):
        inside[members] = members[random.integers(len(members), size=(len(members), 6))]
    near = numpy.hstack([hubs, inside])
    first = random.standard_normal((n, 128))
    once = unit(first[near].mean(axis=1))
    twice = unit(once[near].mean(axis=1))
    thrice = unit(twice[near].mean(axis=1))
    rows = once + twice + thrice
    stored = rows[QUERIES:]
    return ("", ".dot", ".l2"), rows, {
        "new nodes": sum(some(random, stored) for _ in range(3)) / 3, "later steps": twice[:QUERIES] + thrice[:QUERIES],
        "the first step": once[:QUERIES],
        "groups": numpy.array([rows[group == g].mean(axis=0) for g in random.integers(100, size=QUERIES)]),
        "pairs": some(random, stored) * some(random, stored), "alone": unit(first[:QUERIES])}


def factors(random):
    tastes = random.standard_normal((25, 80))
    popular = random.lognormal(0, 1, (38_000 + QUERIES, 1)).clip(max=30)
    items = tastes[random.integers(25, size=len(popular))] + 0.7 * random.standard_normal((len(popular), 80))
    items *= popular ** 0.4 / 30
    rows = numpy.hstack([items, 0.15 * numpy.log(popular) + 0.1 * random.standard_normal(popular.shape)])

    def users(n, much):
        x = much * unit(some(random, tastes)[:n] + 0.8 * random.standard_normal((n, 80)))
        return numpy.hstack([x, numpy.ones((n, 1))])

    def of(x, bias=1):
        return numpy.hstack([x, numpy.full((QUERIES, 1), bias)])

    asked = users(QUERIES, 1.5)
    return (".dot",), rows, {
        "users": asked, "new users": users(QUERIES, 0.05), "no bias": of(asked[:, :80], 0),
        "two tastes": of(unit(some(random, tastes) + some(random, tastes))), "dislikes": of(-asked[:, :80]),
        "groups of users": asked.mean(axis=0) + 0.1 * asked, "hidden gems": of(asked[:, :80], -1)}


def hashes(random):
    basis = random.standard_normal((24, 256))

    def of(x):
        return (x @ basis > 0).astype("f4")

    pictures = random.standard_normal((21_000 + QUERIES, 24))
    rows = numpy.vstack([of(pictures), of(pictures[random.choice(300, size=9000, p=zipf(300))])])
    rows[len(pictures):] = numpy.abs(rows[len(pictures):] - (random.random((9000, 256)) < 0.02))
    asked, stored = rows[:QUERIES], rows[random.permutation(len(rows))]
    return ("", ".l2"), rows, {
        "cut": numpy.where(random.random((QUERIES, 256)) < 0.3, random.random((QUERIES, 256)) < 0.5, asked),
        "inverted": 1 - asked, "blank": (random.random((QUERIES, 256)) < 0.02).astype("f4"),
        "halves of two": numpy.hstack([asked[:, :128], stored[:QUERIES, 128:]]),
        "means of two": (some(random, stored) + some(random, stored)) / 2, "signs": 2 * asked - 1}


if __name__ == "__main__":
    write_made(__doc__, (catalogue, drift, places, frames, nodes, factors, hashes), of_texts=(languages, bits, rotated, whitened))
