#!/usr/bin/env python3
"""Makes data sets for TestPromiseOutOfDistribution, like vectors that users store: from noise, and from the texts of
--bge and the words of --glove. sets.py tells what the directories hold and how the test reads them.

    tools/promise/users.py FOLDER [NAME...] [--bge DIR] [--glove DIR]

    fields      --bge: 64 dimensions of a text, four numbers and rare tags side by side; the text or the rest alone
    items       factors of items, of lengths by popularity; users, new ones and averages of users
    sessions    means of one to eight items by Zipf's law; long sessions, popular and rare items together
    gradients   128 histograms of directions as bytes; others rotated, brighter, occluded and flat
    trends      series of 128 steps with a trend, a wave and a level; without level, steep, held, with a spike
    scales      clusters whose widths go over three decades; between tight and loose ones, and beside these
    hashed      5 to 40 features by Zipf's law, hashed to 256 components; two, many and rare ones
    templates   --bge: texts that are three quarters one of 25 templates; the rest alone, and between templates
    twomodels   --bge: texts beside texts of another model, which is a rotation; questions of both and of a third
    passages    --bge: means of one to eleven sections that follow each other; questions, single sections, whole books
    bytes       --glove: words as bytes; as floats, with two bits, saturated, averages
    hub         rows with a common direction of varying length; without it, and along directions of small variance
    units       100 fields whose units go over four decades, with outliers; the largest five alone, and without them
    logs        counts of words by 80 templates; two templates, single words, noise alone
    frequent    --glove: the 31,000 most frequent words; rarer ones, averages by Zipf's law, analogies

A set of more than one metric becomes a directory for each. Needs numpy.
"""

import numpy

from sets import QUERIES, arguments, read, texts_of, write_sets


def unit(x):
    return x / numpy.linalg.norm(x, axis=1, keepdims=True).clip(1e-30)


def zipf(n, power=1.0):
    shares = numpy.arange(1, n + 1) ** -power
    return shares / shares.sum()


def some(random, x):
    return x[random.integers(len(x), size=QUERIES)]


# Each set is a function of a generator and of the vectors that it needs. It returns its metrics, its rows, of which the
# first QUERIES are queries and not stored, and queries of other kinds by name.

def fields(random, texts):
    mixed = texts[random.integers(len(texts), size=31_500 + QUERIES)] + 0.02 * random.standard_normal((31_500 + QUERIES, 384))
    text = unit(mixed @ random.standard_normal((384, 64)))
    numbers = 0.3 * random.standard_normal((len(text), 4)) ** 2
    tags = 0.4 * (random.random((len(text), 30)) < 1 / numpy.arange(2, 32))
    rows = numpy.hstack([text, numbers, tags])
    asked = rows[:QUERIES]

    def without(*parts):
        x = asked.copy()
        for part in parts:
            x[:, part] = 0
        return x

    tag = without(slice(0, 98))
    tag[numpy.arange(QUERIES), 68 + random.integers(30, size=QUERIES)] = 0.4
    larger = asked.copy()
    larger[:, 64:68] *= 5
    return ("", ".l2"), rows, {"text alone": without(slice(64, 98)), "numbers and tags alone": without(slice(0, 64)),
                               "one tag": tag, "numbers five times": larger}


def items(random):
    groups = random.standard_normal((30, 64))
    near = groups[random.integers(30, size=48_000 + QUERIES)] + 0.8 * random.standard_normal((48_000 + QUERIES, 64))
    popular = numpy.exp(1.6 * random.standard_normal((len(near), 1))).clip(0.01, 100)
    users = unit(some(random, groups) + some(random, groups) + 0.7 * random.standard_normal((QUERIES, 64)))
    users *= numpy.exp(random.standard_normal((QUERIES, 1)))
    return (".dot",), unit(near) * popular, {
        "users": users, "new users": 0.05 * random.standard_normal((QUERIES, 64)),
        "average users": users.mean(axis=0) + 0.05 * users,
        "niches": unit(some(random, groups) - 2 * some(random, groups))}


def sessions(random):
    groups = random.standard_normal((40, 96))
    shop = unit(groups[random.integers(40, size=3000)] + 0.9 * random.standard_normal((3000, 96)))
    shares = zipf(3000, 1.1)

    def means(n, least, most):
        return numpy.array([shop[random.choice(3000, size=random.integers(least, most + 1), p=shares)].mean(axis=0)
                            for _ in range(n)])

    return ("",), means(32_000 + QUERIES, 1, 8), {
        "long sessions": means(QUERIES, 30, 60), "rare items": some(random, shop[1500:]),
        "two popular items": some(random, shop[:10]) + some(random, shop[:10]),
        "a popular and a rare item": some(random, shop[:10]) + some(random, shop[1500:])}


def gradients(random):
    kinds = random.gamma(0.4, 1, (120, 128))
    x = kinds[random.integers(120, size=24_000 + QUERIES)] * random.gamma(2, 0.5, (24_000 + QUERIES, 128))
    x += 0.1 * random.gamma(0.3, 1, x.shape)
    rows = numpy.floor(512 * unit(unit(x).clip(max=0.2))).clip(0, 255)
    occluded = rows[:QUERIES].copy()
    occluded[:, 64:] = 0
    return (".l2", ".dot"), rows, {
        "rotated": numpy.roll(rows[:QUERIES], 8, axis=1), "brighter": (2 * rows[:QUERIES]).clip(0, 255), "occluded": occluded,
        "flat": numpy.floor(45 + 3 * random.standard_normal((QUERIES, 128)))}


def trends(random):
    time = numpy.linspace(0, 1, 128)

    def series(n, slope):
        wave = numpy.sin(2 * numpy.pi * (random.choice([1, 2, 4, 7], (n, 1)) * time + random.random((n, 1))))
        walk = 0.045 * numpy.cumsum(random.standard_normal((n, 128)), axis=1)
        return slope * random.standard_normal((n, 1)) * time + random.random((n, 1)) * wave + walk + 5 * random.standard_normal((n, 1))

    rows = series(24_000 + QUERIES, 3)
    asked = rows[:QUERIES]
    held = asked.copy()
    held[:, 64:] = held[:, 63:64]
    return (".l2",), rows, {
        "no level": asked - asked.mean(axis=1, keepdims=True), "steep": series(QUERIES, 9), "half held": held,
        "noisy": asked + random.standard_normal(asked.shape), "reversed": asked[:, ::-1],
        "a spike": asked + 10 * numpy.eye(128)[random.integers(128, size=QUERIES)]}


def scales(random):
    centres, widths = random.standard_normal((60, 96)), 10 ** random.uniform(-3, 0, (60, 1))

    def near(cluster, times=1):
        return centres[cluster] + times * widths[cluster] * random.standard_normal((len(cluster), 96))

    by_width = numpy.argsort(widths[:, 0])
    tight, loose = some(random, by_width[:20]), some(random, by_width[40:])
    return (".l2",), near(random.integers(60, size=32_000 + QUERIES)), {
        "near a centre": some(random, centres) + 0.1 * random.standard_normal((QUERIES, 96)),
        "between centres": (some(random, centres) + some(random, centres)) / 2,
        "between tight and loose": (centres[tight] + near(loose)) / 2, "beside tight": near(tight, 5)}


def hashed(random):
    shares, place, sign = zipf(20_000, 0.9), random.integers(256, size=20_000), random.choice((-1, 1), 20_000)

    def of(features):
        rows = numpy.zeros((len(features), 256))
        for row, f in zip(rows, features):
            numpy.add.at(row, place[f], sign[f])
        return rows

    def drawn(n, least, most):
        return of([random.choice(20_000, size=random.integers(least, most + 1), p=shares) for _ in range(n)])

    return ("", ".l2"), drawn(15_000 + QUERIES, 5, 40), {
        "two features": drawn(QUERIES, 2, 2), "many features": drawn(QUERIES, 200, 300),
        "rare features": of(random.integers(10_000, 20_000, size=(QUERIES, 3)))}


def templates(random, texts):
    kinds = texts[random.permutation(len(texts))[:25]]

    def rows(n, share):
        return unit(share * kinds[random.integers(25, size=n)] + (1 - share) * texts[random.integers(len(texts), size=n)])

    noise = random.standard_normal((QUERIES, 384))
    return ("",), rows(15_000 + QUERIES, 0.75), {
        "content alone": some(random, texts), "templates": some(random, kinds) + 0.0005 * noise,
        "between templates": some(random, kinds) + some(random, kinds) + 0.002 * noise, "less of a template": rows(QUERIES, 0.4)}


def twomodels(random, texts, questions):
    def model():
        return numpy.linalg.qr(random.standard_normal((384, 384)))[0]

    other, order = model(), random.permutation(len(texts))
    asked = questions[:QUERIES]
    rows = numpy.vstack([asked, texts[order[:9000]], texts[order[4500:13_500]] @ other])
    return ("",), rows, {"the other model": asked @ other, "both models": asked + asked @ other, "a third model": asked @ model(),
                         "three to one": 0.75 * asked + 0.25 * asked @ other}


def passages(random, texts, questions):
    sums = numpy.vstack([numpy.zeros(384), numpy.cumsum(texts, axis=0)])

    def means(n, least, most):
        length = random.integers(least, most + 1, size=n)
        first = random.integers(len(texts) - most, size=n)
        return (sums[first + length] - sums[first]) / length[:, None]

    asked = questions[:QUERIES]
    return ("", ".dot"), means(15_000 + QUERIES, 1, 11), {
        "questions": asked, "one section": some(random, texts), "prefixed": unit(asked + 0.7 * texts[7]),
        "whole books": means(QUERIES, 300, 300)}


def as_bytes(random, words):
    floats = 40 * words[random.permutation(len(words))[:31_000 + QUERIES]]
    rows, asked = numpy.round(floats).clip(-128, 127), floats[:QUERIES]
    return (".l2", ".dot"), rows, {
        "floats": asked, "two bits": 8 * numpy.round(asked / 8), "saturated": numpy.round(10 * asked).clip(-128, 127),
        "averages": numpy.round(numpy.mean([some(random, rows) for _ in range(12)], axis=0))}


def hub(random):
    rows = random.standard_normal((20_000 + QUERIES, 200)) / numpy.sqrt(1 + numpy.arange(200) / 4)
    rows += 0.6 * random.standard_normal(200) * random.gamma(1, 1, (len(rows), 1))
    mean, asked = rows.mean(axis=0), rows[:QUERIES]
    weak, few = numpy.zeros((2, QUERIES, 200))
    weak[:, 120:] = 2 * random.standard_normal((QUERIES, 80))
    few[:, :10] = asked[:, :10]
    return ("", ".l2"), rows, {"without the mean": asked - mean, "near the mean": mean + 0.1 * asked,
                               "along the last directions": mean + weak, "first ten components": few}


def units(random):
    sizes = 10 ** random.uniform(-2, 2, 100)
    rows = random.standard_normal((31_000 + QUERIES, 100)) * sizes
    rows += 20 * sizes * (random.random(rows.shape) < 0.02)
    largest, asked = numpy.argsort(-sizes), rows[:QUERIES]
    alone, without, outlier = numpy.zeros_like(asked), asked.copy(), asked.copy()
    alone[:, largest[:5]] = asked[:, largest[:5]]
    without[:, largest[:5]] = 0
    outlier[:, largest[0]] *= 4
    return ("", ".l2"), rows, {"the largest alone": alone, "without the largest": without, "an outlier": outlier}


def logs(random):
    kinds = (random.random((80, 100)) < 0.1).astype(float)
    rows = kinds[random.choice(80, size=31_000 + QUERIES, p=zipf(80))]
    for _ in range(3):
        rows[numpy.arange(len(rows)), random.integers(100, size=len(rows))] += random.integers(2, size=len(rows))
    noise = 0.05 * random.standard_normal((QUERIES, 100))
    return ("", ".l2"), rows, {
        "two templates": some(random, kinds) + some(random, kinds), "templates with noise": some(random, kinds) + noise,
        "one word": numpy.eye(100)[random.integers(100, size=QUERIES)], "noise alone": noise}


def most_frequent(random, words):
    frequent, shares = words[:31_000], zipf(31_000)

    def averages(least, most):
        return numpy.array([frequent[random.choice(31_000, size=random.integers(least, most + 1), p=shares)].mean(axis=0)
                            for _ in range(QUERIES)])

    rows = numpy.vstack([words[32_000:32_000 + QUERIES], frequent])
    return (".dot",), rows, {
        "sentences": averages(3, 14), "without the mean": averages(8, 8) - frequent.mean(axis=0),
        "analogies": some(random, words[:3000]) - some(random, words[:3000]) + some(random, words[:3000])}


def main():
    args = arguments(__doc__, "bge", "glove").parse_args()
    made = {m.__name__: m for m in (items, sessions, gradients, trends, scales, hashed, hub, units, logs)}
    if args.bge:
        texts, questions = texts_of(args.bge)
        made |= {"fields": lambda r: fields(r, texts), "templates": lambda r: templates(r, texts),
                 "twomodels": lambda r: twomodels(r, texts, questions), "passages": lambda r: passages(r, texts, questions)}
    if args.glove:
        words = read(args.glove / "base.fvecs").astype("f8")
        made |= {"bytes": lambda r: as_bytes(r, unit(words)), "frequent": lambda r: most_frequent(r, words)}
    write_sets(args.folder, args.names, made)


if __name__ == "__main__":
    main()
