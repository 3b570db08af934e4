#!/usr/bin/env python3
"""Makes data sets for TestPromiseOutOfDistribution, like features that users compute and embeddings that they change
before they store them. sets.py tells what the directories hold and how the test reads them.

    tools/promise/features.py FOLDER [NAME...] [--bge DIR] [--glove DIR] [--cranfield DIR]

    shortened   --bge: the first 192 of 384 components of texts; the first 96, the other ones, two questions
    halves      --bge: a title and a body of 160 dimensions each, either may be zero; one half, halves exchanged
    failed      --bge: 24,000 texts, and 600 rows of noise, as of failed calls; noise, and what lies between these
    lsa         --cranfield: 200 singular vectors of windows of 24 words; real questions, terms, whole documents
    trigrams    --cranfield: trigrams of such windows, hashed to 256 counts; real questions, with errors, single words
    tokens      --glove: words by Zipf's law, each moved by the words around it; words alone, rare ones, means
    captions    pictures in one cone, by meaning; captions in another, short ones, of one topic, with pictures
    molecules   bits of parts, by Zipf's law, of 512; one part, two, unions, intersections, any bits
    people      1,500 people with 4 to 40 pictures each; strangers, two people, bad light, turned
    defects     160 readings of four hidden values; one row in 50 is noise, no farther from others than usual; more
                such rows, means of these, and around them

A set of more than one metric becomes a directory for each. Needs numpy.
"""

import json
import re
import zlib

import numpy

from sets import QUERIES, arguments, read, texts_of, write_sets
from users import some, unit, zipf


# Each set is a function of a generator and of the vectors that it needs. It returns its metrics, its rows, of which the
# first QUERIES are queries and not stored, and queries of other kinds by name.

def shortened(random, texts, questions):
    rows = numpy.vstack([questions[:QUERIES], texts])
    half = questions[:QUERIES, :192].copy()
    half[:, 96:] = 0
    return ("", ".dot", ".l2"), rows[:, :192], {
        "the first 96": half, "other components": questions[:QUERIES, 192:],
        "questions of length 1": unit(questions[:QUERIES, :192]),
        "two questions": some(random, questions)[:, :192] + some(random, questions)[:, :192]}


def halves(random, texts, questions):
    first, second = random.standard_normal((2, 384, 160))
    title, body = 0.6 * unit(texts @ first), unit((texts[random.permutation(len(texts))] + 0.7 * texts) @ second)
    missing = random.random(len(texts))
    title[missing < 0.3], body[missing > 0.9] = 0, 0
    rows = numpy.hstack([title, body])
    asked, zero = questions[:QUERIES], numpy.zeros((QUERIES, 160))
    whole = rows[(missing >= 0.3) & (missing <= 0.9)]
    picked = some(random, whole)
    return ("", ".dot", ".l2"), rows, {
        "title alone": numpy.hstack([picked[:, :160], zero]), "body alone": numpy.hstack([zero, picked[:, 160:]]),
        "exchanged": numpy.hstack([picked[:, 160:], picked[:, :160]]),
        "a question for both": numpy.hstack([0.6 * unit(asked @ first), unit(asked @ second)]),
        "of two": numpy.hstack([picked[:, :160], some(random, whole)[:, 160:]])}


def windows_of(texts):
    lists = (re.findall("[a-z0-9]+", t.lower()) for t in texts)
    return [words[i:i + 24] for words in lists for i in range(0, max(1, len(words) - 12), 10)]


def lsa(random, documents, questions):
    parts = windows_of(documents)
    terms = {w: i for i, w in enumerate(sorted({w for p in parts for w in p}))}

    def counts(lists):
        x = numpy.zeros((len(lists), len(terms)), "f4")
        for row, words in zip(x, lists):
            numpy.add.at(row, [terms[w] for w in words if w in terms], 1)
        return numpy.log1p(x)

    x = counts(parts)
    weight = numpy.log(len(x) / (x > 0).sum(axis=0))
    x *= weight
    basis = numpy.linalg.qr(x.T @ (x @ random.standard_normal((len(terms), 240)).astype("f4")))[0]
    basis = basis @ numpy.linalg.svd(x @ basis, full_matrices=False)[2].T[:, :200]

    def projected(lists):
        return (counts(lists) * weight) @ basis

    rows = (x @ basis)[random.permutation(len(x))]
    words = list(terms)
    picked = random.integers(len(words), size=(QUERIES, 2))
    return ("", ".l2"), rows, {
        "questions": projected([re.findall("[a-z0-9]+", q) for q in questions]),
        "one term": projected([[words[a]] for a, _ in picked]),
        "two terms": projected([[words[a], words[b]] for a, b in picked]),
        "documents": projected([re.findall("[a-z0-9]+", d) for d in documents[:QUERIES]])}


def trigrams(random, documents, questions):
    def of(texts):
        x = numpy.zeros((len(texts), 256))
        for row, t in zip(x, texts):
            t = f" {t} "
            numpy.add.at(row, [zlib.crc32(t[i:i + 3].encode()) & 255 for i in range(len(t) - 2)], 1)
        return x

    def wrong(text):
        letters = list(text)
        for i in random.integers(len(letters), size=1 + len(letters) // 12):
            letters[i] = chr(97 + random.integers(26))
        return "".join(letters)

    parts = [" ".join(p) for p in windows_of(documents)]
    parts = [parts[i] for i in random.permutation(len(parts))]
    words = sorted({w for p in parts for w in p.split()})
    return ("", ".l2", ".dot"), of(parts), {
        "questions": of(questions), "questions with errors": of([wrong(q) for q in questions]),
        "windows with errors": of([wrong(p) for p in parts[:QUERIES]]),
        "one word": of([words[i] for i in random.integers(len(words), size=QUERIES)]),
        "documents": of(documents[:QUERIES])}


def tokens(random, words):
    said = random.choice(20_000, size=40_000, p=zipf(20_000, 0.9))
    vectors = words[said]
    around = sum(numpy.roll(vectors, i, axis=0) for i in (-3, -2, -1, 1, 2, 3)) / 6
    rows = unit(vectors + 0.5 * around)[random.permutation(40_000)]
    return ("", ".dot"), rows, {
        "words alone": some(random, words[:20_000]), "rare words": some(random, words[20_000:]),
        "frequent words": words[:30][random.integers(30, size=QUERIES)], "around alone": some(random, around),
        "means of windows": sum(rows[i:i + QUERIES] for i in range(0, 8000, 1000)) / 8}


def people(random):
    faces = unit(random.standard_normal((1500, 40)) @ random.standard_normal((40, 128)))
    light, turn = unit(random.standard_normal((3, 128))), unit(random.standard_normal((2, 128)))
    person = numpy.repeat(numpy.arange(1500), random.integers(4, 41, size=1500))
    person = person[random.permutation(len(person))]

    def pictures(of, bright=0.3, turned=0.3):
        x = of + bright * random.standard_normal((len(of), 3)) @ light
        x += turned * random.standard_normal((len(of), 2)) @ turn
        return unit(x + 0.4 * unit(random.standard_normal((len(of), 128))))

    strangers = unit(random.standard_normal((QUERIES, 40)) @ random.standard_normal((40, 128)))
    asked = faces[person[:QUERIES]]
    return ("", ".l2"), pictures(faces[person]), {
        "strangers": pictures(strangers), "two people": pictures(asked) + pictures(some(random, faces)),
        "bad light": pictures(asked, bright=2), "turned": pictures(asked, turned=2), "means of a person": asked,
        "light alone": unit(random.standard_normal((QUERIES, 3)) @ light)}


def captions(random):
    mixed = random.standard_normal((48, 192)) / numpy.sqrt(1 + numpy.arange(48))[:, None]
    other = mixed + 0.5 * random.standard_normal((48, 192)) / numpy.sqrt(1 + numpy.arange(48))[:, None]
    topics = random.standard_normal((400, 48))
    cones = 3 * unit(random.standard_normal((2, 192)))

    def meaning(n):
        return topics[random.choice(400, size=n, p=zipf(400, 0.6))] + 0.7 * random.standard_normal((n, 48))

    def pictures(x):
        return unit(x @ mixed + 0.1 * random.standard_normal((len(x), 192)) + cones[0])

    def said(x):
        return unit(x @ other + 0.3 * random.standard_normal((len(x), 192)) + cones[1])

    asked = meaning(QUERIES)
    return ("", ".dot", ".l2"), pictures(meaning(30_000 + QUERIES)), {
        "captions": said(asked), "one topic": said(some(random, topics)), "short captions": said(0.3 * asked),
        "pictures and captions": pictures(asked) + said(asked),
        "captions without their cone": said(asked) - unit(cones[1:]) * 0.5}


def failed(random, texts, questions):
    noise = unit(random.standard_normal((600 + QUERIES, 384)))
    near = unit(some(random, texts) + 3 * noise[:QUERIES])
    rows = numpy.vstack([questions[:QUERIES], texts[:24_000], noise[QUERIES:]])
    return ("", ".l2"), rows, {
        "noise": noise[:QUERIES], "a failed row with noise": unit(some(random, noise[QUERIES:]) + noise[:QUERIES]),
        "mostly noise": near, "between failed rows": some(random, noise[QUERIES:]) + some(random, noise[QUERIES:]),
        "a failed row and a text": some(random, noise[QUERIES:]) + some(random, texts),
        "means of failed rows": numpy.mean([some(random, noise[QUERIES:]) for _ in range(8)], axis=0)}


def molecules(random):
    parts = random.random((300, 512)) < 0.012
    many = 1 + random.poisson(3, 24_000 + QUERIES)
    rows = numpy.array([parts[random.choice(300, size=n, p=zipf(300, 0.8))].any(axis=0) for n in many]).astype(float)
    rows = numpy.maximum(rows, random.random(rows.shape) < 0.002)
    return ("", ".l2", ".dot"), rows, {
        "one part": some(random, parts).astype(float), "two parts": some(random, parts) | some(random, parts),
        "large ones": numpy.maximum(some(random, rows), numpy.maximum(some(random, rows), some(random, rows))),
        "bits in common": numpy.minimum(rows[:QUERIES], rows[QUERIES:2 * QUERIES]),
        "any bits": random.random((QUERIES, 512)) < 0.05}


def defects(random):
    frequency, phase = random.standard_normal((4, 160)), random.uniform(0, 2 * numpy.pi, 160)
    usual = numpy.cos(random.uniform(0, 1.3, (40_000 + QUERIES, 4)) @ frequency + phase)

    def noise(n, times=1):
        return usual[0] + 0.06 * times * random.standard_normal((n, 160))

    defect = random.random(len(usual)) < 0.02
    rows = numpy.where(defect[:, None], noise(len(usual)), usual)
    some_defects = [some(random, rows[QUERIES:][defect[QUERIES:]]) for _ in range(5)]
    return (".l2", ""), rows, {
        "defects": noise(QUERIES), "farther": noise(QUERIES, 1.3), "nearer": noise(QUERIES, 0.3),
        "between two": sum(some_defects[:2]) / 2, "means of five": sum(some_defects) / 5,
        "between a defect and another row": (some_defects[0] + some(random, rows)) / 2}


def main():
    args = arguments(__doc__, "bge", "glove", "cranfield").parse_args()
    made = {m.__name__: m for m in (captions, molecules, people, defects)}
    if args.bge:
        texts, questions = texts_of(args.bge)
        texts = texts[numpy.random.default_rng(1).permutation(len(texts))]
        made |= {m.__name__: lambda r, m=m: m(r, texts, questions) for m in (shortened, halves, failed)}
    if args.glove:
        words = unit(read(args.glove / "base.fvecs").astype("f8"))
        made["tokens"] = lambda r: tokens(r, words)
    if args.cranfield:
        documents, needs = ([json.loads(line)["text"] for line in open(args.cranfield / (n + ".jsonl"))]
                            for n in ("corpus", "queries"))
        made |= {m.__name__: lambda r, m=m: m(r, documents, needs) for m in (lsa, trigrams)}
    write_sets(args.folder, args.names, made)


if __name__ == "__main__":
    main()
