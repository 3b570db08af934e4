"""Writes characters.txt: hashes of the token ids of texts around each character.

    pip install tokenizers==0.23.3
    python3 characters.py tokenizer.json >characters.txt

The tokenizer.json is that of all-MiniLM-L6-v2. A line stands for 4096 characters: the first of
them, and the first half of the SHA-256 of the ids, separated by spaces and each text by a newline.
"""

import hashlib
import sys

from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file(sys.argv[1])
tokenizer.no_truncation()
tokenizer.no_padding()
for begin in [*range(0, 0x40000, 0x1000), 0xE0000]:
    texts = [f"ab{c}cd {c} e{c}" for c in map(chr, range(begin, begin + 0x1000)) if not "\ud800" <= c <= "\udfff"]
    if texts:
        ids = "".join(" ".join(map(str, e.ids)) + "\n" for e in tokenizer.encode_batch(texts))
        print(f"{begin:05x} {hashlib.sha256(ids.encode()).hexdigest()[:32]}")
