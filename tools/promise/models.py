#!/usr/bin/env python3
"""Makes data sets for TestPromiseOutOfDistribution, like embeddings of models of today and small collections. sets.py
tells what the directories hold and how the test reads them.

    tools/promise/models.py FOLDER [NAME...] [--bge DIR]

    modalities  pictures and captions in one collection, each kind in a cone of its own; questions in words and by
                picture, of both, without the gap between the cones, a picture with a change in words, class names
    outliers    --bge: texts beside a few components that are tens of times as large; without these, of other signs, of
                another layer, quantised, the outliers alone
    tiles       --bge: chunks with a header in common, many exact and near duplicates; headers alone, without header
    globe       points on a sphere of three dimensions, in cities; at sea, between cities, nearby, inside the earth
    maps        texts on a map of five dimensions: groups, and bridges between them; beside, between and inside groups
    few         --bge: 3,000 texts
    fewer       --bge: 1,500 texts

A set of more than one metric becomes a directory for each. Needs numpy.
"""

import numpy

from sets import QUERIES, write_made
from users import some, unit, zipf


# Each set is a function of a generator and of the vectors that it needs. It returns its metrics, its rows, of which the
# first QUERIES are queries and not stored, and queries of other kinds by name.

def modalities(random):
    concepts = random.standard_normal((600, 128)) * numpy.arange(1, 129) ** -0.3
    n = 32_000 + QUERIES
    meaning = concepts[random.choice(600, size=n, p=zipf(600, 0.7))] + 0.7 * random.standard_normal((n, 128))
    meaning = unit(meaning)
    cones = unit(random.standard_normal((2, 128)))
    into = numpy.eye(128) + 0.03 * random.standard_normal((2, 128, 128))

    def of(kind, x):
        return unit(0.8 * cones[kind] + unit(x @ into[kind] + 0.04 * random.standard_normal(x.shape)) * 0.6)

    word = random.random(n) < 0.35
    rows = numpy.where(word[:, None], of(1, meaning), of(0, meaning))
    asked, stored = meaning[:QUERIES], rows[QUERIES:]
    pictures = stored[~word[QUERIES:]]
    return ("", ".dot", ".l2"), rows, {
        "in words": of(1, asked), "by picture": of(0, asked), "of both": (of(0, asked) + of(1, asked)) / 2,
        "without the gap": unit(unit(of(1, asked) - 0.8 * cones[1])),
        "words as pictures": unit(of(1, asked) + 0.8 * (cones[0] - cones[1])),
        "changed in words": unit(some(random, pictures) + of(1, asked) - of(1, some(random, meaning))),
        "class names": of(1, some(random, concepts)),
        "several names": unit(sum(of(1, some(random, concepts)) for _ in range(4)))}


def outliers(random, texts, questions):
    rows = numpy.vstack([questions[:QUERIES], texts])
    where, sign = random.choice(384, size=4, replace=False), random.choice([-1, 1], size=4)
    large = numpy.zeros((len(rows), 384))
    large[:, where] = numpy.array([1.2, 0.8, 0.5, 0.3]) * sign * (1 + 0.1 * random.standard_normal((len(rows), 4)))
    large *= random.lognormal(0, 0.15, (len(rows), 1))
    rows = rows + large
    asked, others = rows[:QUERIES], large[:QUERIES]
    step = numpy.abs(asked).max(axis=1, keepdims=True) / 127
    return ("", ".dot", ".l2"), rows, {
        "without outliers": asked - others, "other signs": asked - 2 * others, "twice the outliers": asked + others,
        "half of the outliers": asked - others / 2, "one outlier less": asked * (numpy.arange(384) != where[0]),
        "quantised": numpy.round(asked / step) * step, "outliers alone": others,
        "two questions": some(random, asked) + some(random, asked)}


def tiles(random, texts, questions):
    headers = unit(random.standard_normal((200, 384)))
    of = random.choice(200, size=len(texts), p=zipf(200))
    share = random.uniform(0.2, 0.6, (len(texts), 1))
    rows = unit(share * headers[of] + (1 - share) * texts)
    copied = rows[random.choice(len(rows), size=9000, p=zipf(len(rows), 0.8))]
    copied[:3000] = unit(copied[:3000] + 0.003 * random.standard_normal((3000, 384)))
    asked = questions[:QUERIES]
    header = headers[random.choice(200, size=QUERIES, p=zipf(200))]
    rows = numpy.vstack([unit(0.4 * header + 0.6 * asked), rows, copied])
    return ("", ".dot", ".l2"), rows, {
        "without a header": asked, "headers alone": header, "other headers": unit(0.4 * unit(header[::-1] + asked) + 0.6 * asked),
        "two headers": unit(header + header[::-1]), "two headers and a text": unit(header + header[::-1] + 2 * asked),
        "duplicates": some(random, copied), "between duplicates": unit(some(random, copied) + some(random, copied))}


def globe(random):
    cities = unit(random.standard_normal((3000, 3)))
    widths = 10 ** random.uniform(-3.5, -1.5, 3000)

    def near(n):
        of = random.choice(3000, size=n, p=zipf(3000, 0.8))
        return unit(cities[of] + widths[of][:, None] * random.standard_normal((n, 3)))

    rows = near(30_000 + QUERIES)
    return ("", ".l2", ".dot"), rows, {
        "at sea": unit(random.standard_normal((QUERIES, 3))), "between cities": unit(some(random, rows) + some(random, rows)),
        "nearby": unit(some(random, cities) + 0.02 * random.standard_normal((QUERIES, 3))),
        "inside": 0.3 * some(random, rows), "above": 1.5 * some(random, rows), "cities": some(random, cities)}


def maps(random):
    centres = 4 * random.standard_normal((60, 5))
    size = zipf(60, 0.7)

    def of(n):
        group, other = random.choice(60, size=(2, n), p=size)
        bridge = (random.random((n, 1)) < 0.15) * random.random((n, 1))
        wide = 0.15 + 0.6 * ((group * 7919) % 60)[:, None] / 60
        return (1 - bridge) * centres[group] + bridge * centres[other] + wide * random.standard_normal((n, 5)) * (1 - bridge)

    rows = of(30_000 + QUERIES)
    stored = rows[QUERIES:]
    return (".l2", ""), rows, {
        "centres": some(random, centres), "between groups": (some(random, centres) + some(random, centres)) / 2,
        "beside": some(random, stored) + 0.7 * random.standard_normal((QUERIES, 5)),
        "anywhere": 4 * random.standard_normal((QUERIES, 5)), "the middle": 0.3 * random.standard_normal((QUERIES, 5)),
        "one coordinate off": some(random, stored) + 2 * numpy.eye(5)[random.integers(5, size=QUERIES)]}


def few(random, texts, questions, n=3000):
    asked = questions[:QUERIES]
    rows = numpy.vstack([asked, texts[random.permutation(len(texts))[:n]]])
    noise = unit(random.standard_normal(asked.shape))
    return ("", ".dot", ".l2"), rows, {
        "vague": unit(asked + 0.7 * noise), "two questions": unit(some(random, asked) + some(random, asked)),
        "not about it": unit(asked - 0.8 * some(random, texts)), "centred": asked - texts.mean(axis=0)}


def fewer(random, texts, questions):
    return few(random, texts, questions, 1500)


if __name__ == "__main__":
    write_made(__doc__, (modalities, globe, maps), of_texts=(outliers, tiles, few, fewer))
