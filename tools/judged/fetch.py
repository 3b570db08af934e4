#!/usr/bin/env python3
"""Fetches judged sets for the retrieval figure of tools/bench.

    tools/judged/fetch.py [FOLDER]

FOLDER is $VECBOLT_JUDGED, or vecbolt-judged in the user's cache; `go run . -what retrieval -judged
FOLDER` reads it. Each set becomes a directory in the layout of BEIR: corpus.jsonl, queries.jsonl
and qrels/test.tsv. The sets are

    cisi, cacm, med     collections of the SMART project
    npl                 of the National Physical Laboratory
    xquad-en, xquad-de  the paragraphs and questions of XQuAD (Artetxe, Ruder and Yogatama, 2020;
                        CC BY-SA 4.0); the paragraph of a question is its relevant document

Files come from copies on GitHub, each from one commit, and are compared with their SHA-256, as are
the sets that they become. $VECBOLT_JUDGED_URL names another server with the same paths. A set that
cannot be had is left out with a line that says why. The sets are for measurements only: no text of
them is part of the project.
"""

import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import urllib.request

BASE = os.environ.get("VECBOLT_JUDGED_URL", "https://raw.githubusercontent.com")


def file(path, sha256):
    """The text of a file. The old collections are ASCII with some bytes of other sets."""
    with urllib.request.urlopen(f"{BASE}/{path}", timeout=60) as r:
        data = r.read()
    check(path, data, sha256)
    return data.decode("utf-8" if path.endswith(".json") else "latin-1")


def check(name, data, sha256):
    digest = hashlib.sha256(data).hexdigest()
    if digest != sha256:
        raise ValueError(f"{name}: SHA-256 is {digest}, want {sha256}")


def words(text):
    return " ".join(text.split())


def smart(text):
    """The records of a file of SMART: .I begins one, .T is the title, .W the text."""
    records, field = [], None
    for line in text.splitlines():
        begin = re.match(r"\s*\.I\s+(\S+)", line.lstrip("\ufeff\xef\xbb\xbf"))
        name = re.match(r"\.([A-Z])\s*$", line)
        if begin:
            records.append({"id": begin.group(1)})
            field = None
        elif name and records:
            field = name.group(1)
            records[-1].setdefault(field, "")
        elif field:
            records[-1][field] += line + " "
    return records


def smart_set(docs, queries, judged):
    return (
        [(d["id"], words(d.get("T", "")), words(d.get("W", ""))) for d in smart(docs)],
        [(str(int(q["id"])), words(q.get("W", ""))) for q in smart(queries)],
        judged,
    )


def cisi():
    base = "PsychoProg/tf-idf/beee251dd1356ee4ffb453ac60cf8f9112840f5d/"
    judged = file(base + "CISI.REL", "f7396c92586c61953ccb7ae99ad8d3ac749ac3b989041fc93a9e311568f58997")
    return smart_set(
        file(base + "CISI.ALL", "c751e11dcdce83a572a4fcfd67eea453bdb9ecfd7bc93c21e50fc792ba8fb9a0"),
        file(base + "CISI.QRY", "b72de0e0cb8aa5c93ac988e5be0400cc18949d0a94913a248783a37dd97d5470"),
        [tuple(line.split()[:2]) for line in judged.splitlines() if line.strip()],
    )


def cacm():
    base = "kavinsan/Information-Retrieval-Project/feda4806b8d19af85753c580640d40e572f99339/"
    judged = file(base + "qrels.text", "da4202b0c70cad7d91c9a028eaf8cbd0a4ca981ebdc3955eb75ba7b6de6f185c")
    pairs = [line.split()[:2] for line in judged.splitlines() if line.strip()]
    return smart_set(
        file(base + "cacm.all", "0d0eaa9e54987161482a217dcef670a8032d687b1bbe84ba0a8e310b675bd52f"),
        file(base + "query.text", "2fe81273fd7db3beccad1090c84630dea561469b7c19ad03e71370c8c7399cc9"),
        [(str(int(q)), d.lstrip("0")) for q, d in pairs],
    )


def med():
    base = "ronancummins/gen_polya/6415a5fab3c976c32a8eebf6be45e68fc957cc44/data/med/"
    judged = file(base + "MED.REL", "aef5ac922c08d5711ffd525985e03cda4272694e35f646deab90177f329ff575")
    rows = [line.split() for line in judged.splitlines()]
    return smart_set(
        file(base + "MED.ALL", "87980b3ccb7f0aad3025bcbefbc0aa4882f9fdbce7868a0f2ab0c2e310460055"),
        file(base + "MED.QRY", "41fbc9d7a0ac8620d53e09b3429d2695cecc63d4bf7e15e55bbcee0785a1798c"),
        [(row[0], row[2]) for row in rows if len(row) >= 3],
    )


def npl():
    base = "stefreschke/Information-Retrieval/ec84884f012ae2c655004f1025753381bef27adb/npl/"

    def records(name, sha256):
        blocks = re.split(r"\n\s*/\s*\n", file(base + name, sha256))
        found = [re.match(r"\s*(\d+)\s+(.*)", block, re.S) for block in blocks]
        return [(m.group(1), words(m.group(2)).lower()) for m in found if m]

    docs = records("doc-text", "a69b907bdbf59e43b8004e521eb3560dbbaa9cd5facfad4b30b0392434ba18e4")
    queries = records("query-text", "0f5e9a179334183cc3b04fe24d9bdfc3f656b08330e6798d8df5dc621bf8e6d5")
    judged = records("rlv-ass", "1af78732abed49055218c1548c27cfa354c5d02a9b6c9cb854b9d0b74fcce24c")
    return [(i, "", text) for i, text in docs], queries, [(q, d) for q, ids in judged for d in ids.split()]


def xquad(language, sha256):
    base = "google-deepmind/xquad/7d30520c717524000f0d9d2f9c10a069acd9d285/"
    docs, queries, judged = [], [], []
    for article in json.loads(file(f"{base}xquad.{language}.json", sha256))["data"]:
        for paragraph in article["paragraphs"]:
            docs.append((f"p{len(docs)}", "", paragraph["context"]))
            for question in paragraph["qas"]:
                queries.append((question["id"], question["question"]))
                judged.append((question["id"], docs[-1][0]))
    return docs, queries, judged


# The SHA-256 is the one of the three files of a set, one after the other.
SETS = {
    "cisi": (cisi, "b0d06513334e4596b69eea2c95005893e00e18d31c79fa31258fa67e7f847fa0"),
    "cacm": (cacm, "b9c0d51e245bbb69b62e668f41adc02fe139b617171e37afd359a8c52e3c8d1f"),
    "med": (med, "9d5b83c67fec5534a416f0d68c712c959f59e7dbd63e03f24449ccd065f6e6d7"),
    "npl": (npl, "4af1238b8ed8f6423619a7b5fe5d71c691d6b6b86ad8881bc15b8fd754a223c6"),
    "xquad-en": (lambda: xquad("en", "e4c57d1c9143aaa1c5d265ba5987a65f4e69528d2a98f29d6e75019b10344f29"), "e9bc106e76eeacc6674d7337a68e01d64fead7108f6999202a19d6e19dac28b3"),
    "xquad-de": (lambda: xquad("de", "990b5d746746ed65ed4702ea5f35f99ffa4e2f1c390c07d003642acd937916f9"), "096c6efd9647536f8d91df9123e306918a8e6748fab1e8355868f945cc939da4"),
}


def lines(rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def write(name, make, sha256, folder):
    """Puts a set into a folder, completely or not at all. Queries without a relevant document are left out."""
    docs, queries, judged = make()
    ids = {i for i, _, _ in docs}
    judged = [(q, d) for q, d in judged if d in ids]
    asked = {q for q, _ in judged}
    files = {
        "corpus.jsonl": lines({"_id": i, "title": title, "text": text} for i, title, text in docs),
        "queries.jsonl": lines({"_id": i, "text": text} for i, text in queries if i in asked),
        "qrels/test.tsv": ("query-id\tcorpus-id\tscore\n" + "".join(f"{q}\t{d}\t1\n" for q, d in judged)).encode(),
    }
    check(name, b"".join(files.values()), sha256)
    temporary = tempfile.mkdtemp(dir=folder)
    try:
        for path, data in files.items():
            path = os.path.join(temporary, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as f:
                f.write(data)
        os.rename(temporary, os.path.join(folder, name))
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return f"{len(docs):,} documents, {len(asked):,} questions"


def main():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.environ.get("VECBOLT_JUDGED") or os.path.join(base, "vecbolt-judged")
    folder = sys.argv[1] if len(sys.argv) > 1 else folder
    os.makedirs(folder, exist_ok=True)
    for name, (make, sha256) in SETS.items():
        if os.path.isdir(os.path.join(folder, name)):
            print(f"{name}: there already")
            continue
        try:
            print(f"{name}: {write(name, make, sha256, folder)}")
        except (OSError, ValueError) as e:
            print(f"{name}: skipped, it cannot be had: {e}")


main()
