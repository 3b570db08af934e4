#!/usr/bin/env python3
"""Installs Python clients of Chroma for the test of `vecbolt serve`, outside of the repository.

    server/chroma/testdata/clients.py [FOLDER]

FOLDER is $VECBOLT_CHROMA_PYTHON, or vecbolt-chroma-python in the user's cache. Prints the folder
when everything is in it, which takes minutes and 0.6 GB the first time. Needs Python 3.9 and pip.
"""

import os
import subprocess
import sys
import tempfile

PACKAGES = ["chromadb==1.5.9", "langchain-chroma==1.1.0"]


def cache():
    if len(sys.argv) > 1:
        return sys.argv[1]
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("VECBOLT_CHROMA_PYTHON") or os.path.join(base, "vecbolt-chroma-python")


folder = os.path.abspath(cache())
stamp = os.path.join(folder, "vecbolt-packages.txt")
try:
    with open(stamp) as f:
        if f.read().split() == PACKAGES:
            print(folder)
            sys.exit()
except OSError:
    pass
if os.path.exists(folder):
    sys.exit(f"{folder} has other packages: remove it")
os.makedirs(os.path.dirname(folder), exist_ok=True)
with tempfile.TemporaryDirectory(dir=os.path.dirname(folder)) as temporary:
    out = os.path.join(temporary, "packages")  # complete, or not at all
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:", "--target", out]
    try:
        subprocess.run(pip + PACKAGES, check=True, timeout=1500, stdout=sys.stderr)
    except (OSError, subprocess.SubprocessError) as e:
        sys.exit(f"the clients cannot be had: {e}")
    with open(os.path.join(out, "vecbolt-packages.txt"), "w") as f:
        f.write("\n".join(PACKAGES) + "\n")
    os.rename(out, folder)
print(folder)
