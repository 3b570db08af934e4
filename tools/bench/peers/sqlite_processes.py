"""One process of the processes figure: inserts rows into SQLite, each durable, and reads them back.

Arguments: the path of the database and the work as JSON. It prints "ready", waits for a line, works
for the given time, prints its result as JSON, and ends when its input does. See processes.go.
"""

import array
import json
import random
import sqlite3
import sys
import time

path, work = sys.argv[1], json.loads(sys.argv[2])
base = sqlite3.connect(path, timeout=60, isolation_level=None)
base.execute("PRAGMA busy_timeout=60000")
base.execute("PRAGMA journal_mode=WAL")
base.execute("PRAGMA synchronous=FULL")
base.execute("CREATE TABLE IF NOT EXISTS rows (id TEXT PRIMARY KEY, vec BLOB, text TEXT)")
rng = random.Random(1)
rows = [(array.array("f", (rng.random() - 0.5 for _ in range(384))).tobytes(), ("w%x " % i * 50)[:200]) for i in range(64)]

print("ready", flush=True)
sys.stdin.readline()
start, n, micros = time.perf_counter(), 0, []
while time.perf_counter() - start < work["ms"] / 1000:
    vec, text = rows[n % len(rows)]
    name = "%s-%d" % (work["name"], n)
    t = time.perf_counter()
    base.execute("BEGIN IMMEDIATE")
    base.execute("INSERT INTO rows VALUES (?, ?, ?)", (name, vec, text))
    base.execute("COMMIT")
    micros.append(int((time.perf_counter() - t) * 1e6))
    if base.execute("SELECT text FROM rows WHERE id = ?", (name,)).fetchone()[0] != text:
        sys.exit("a row is not there")
    n += 1
seconds = time.perf_counter() - start
print(json.dumps({"n": n, "seconds": seconds, "us": micros}), flush=True)
sys.stdin.read()
base.close()
