"""Chunks, embeds and searches in Python what tools/bench/rag.go gives Vecbolt.

Needs Python 3.9. With numpy, vectors are rows of one float32 array and a question is one product with it; without, lists
and sums. Chunks are runs of 40 words that overlap by 8; the embedding is trigram-v1 as the package comment of rag/embed
defines it, which agrees to the bit before it is rounded to float32.

    python3 rag.py corpus.jsonl queries.jsonl
"""

import hashlib
import heapq
import json
import math
import operator
import sys
import time

try:
    import numpy
except ImportError:
    numpy = None

CHUNK, OVERLAP, DIM, K = 40, 8, 384, 5
MASK = (1 << 64) - 1


def resident():
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    return 0


def chunks(text):
    words = text.split()
    at = 0
    while True:
        yield " ".join(words[at : at + CHUNK])
        if at + CHUNK >= len(words):
            return
        at += CHUNK - OVERLAP


slots = {}  # feature: (component, sign)


def slot(feature):
    found = slots.get(feature)
    if found is None:
        h = 0xCBF29CE484222325
        for b in feature:
            h = ((h ^ b) * 0x100000001B3) & MASK
        h = ((h ^ h >> 33) * 0xFF51AFD7ED558CCD) & MASK
        h = ((h ^ h >> 33) * 0xC4CEB9FE1A85EC53) & MASK
        h ^= h >> 33
        found = slots[feature] = (h % DIM, -1 if h >> 63 else 1)
    return found


def words_of(text):
    word = bytearray()
    for c in text.encode():
        if 65 <= c <= 90:
            c += 32
        if 97 <= c <= 122 or 48 <= c <= 57 or c >= 128:
            word.append(c)
        elif word:
            yield bytes(word)
            word.clear()
    if word:
        yield bytes(word)


def embed(text):
    threes, wholes = {}, {}
    for word in words_of(text):
        word = b" " + word + b" "
        for i in range(len(word) - 2):
            three = word[i : i + 3]
            threes[three] = threes.get(three, 0) + 1
        if len(word) > 5:
            wholes[word] = wholes.get(word, 0) + 1
    sums = [0] * DIM
    for counts, factor in ((threes, 1), (wholes, 2)):
        for feature, n in counts.items():
            at, sign = slot(feature)
            sums[at] += sign * factor * n.bit_length()
    norm = math.sqrt(sum(c * c for c in sums)) or 1.0
    return [c / norm for c in sums]


def read(name):
    with open(name) as f:
        return [json.loads(line) for line in f]


def main():
    docs, asked = read(sys.argv[1]), read(sys.argv[2])
    before, start = resident(), time.perf_counter()
    ids, texts, vectors = [], [], []
    for d in docs:
        for i, text in enumerate(chunks(d["text"])):
            ids.append(f"{d['id']}#{i}")
            texts.append(text)
            vectors.append(embed(text))
    if numpy:
        vectors = numpy.array(vectors, dtype=numpy.float32)
    seconds, after = time.perf_counter() - start, resident()

    micros, found = [], []
    for q in asked if numpy else asked[:10]:  # lists take a second per question
        vec = embed(q["text"])
        if numpy:
            vec = numpy.array(vec, dtype=numpy.float32)
        start = time.perf_counter()
        if numpy:
            scores = vectors @ vec
            best = numpy.argpartition(-scores, K)[:K]
            best = best[numpy.argsort(-scores[best], kind="stable")]
        else:
            scores = [sum(map(operator.mul, v, vec)) for v in vectors]
            best = heapq.nlargest(K, range(len(scores)), key=scores.__getitem__)
        micros.append(1e6 * (time.perf_counter() - start))
        found.append([ids[i] for i in best])
    digest = hashlib.sha256("".join(t + "\n" for t in texts).encode()).hexdigest()
    how = f"Python {sys.version.split()[0]}, " + (f"numpy {numpy.__version__}" if numpy else "lists")
    json.dump({"chunks": len(ids), "digest": digest, "seconds": seconds, "rss_before_mib": before, "rss_after_mib": after,
               "micros": {"dense": micros}, "ids": found, "how": how}, sys.stdout)


main()
