"""Embeds with Sentence Transformers and PyTorch what tools/bench/encoder.go gives Vecbolt.

Needs Python 3.9 with sentence-transformers (rag/embed/bert/testdata/reference.py names versions).

    python3 torch_encoder.py MODEL_DIR

speaks the protocol of encoder.py. The clock covers SentenceTransformer.encode. The number of threads holds for
PyTorch and for its BLAS: threads of OpenBLAS that share processors with others wait for each other.
"""

import json
import sys
import time

import sentence_transformers
import threadpoolctl
import torch

encoder = sentence_transformers.SentenceTransformer(sys.argv[1], device="cpu")
for line in sys.stdin:
    request = json.loads(line)
    if request["do"] == "open":
        torch.set_num_threads(request["threads"])
        limits = threadpoolctl.threadpool_limits(request["threads"])
        versions = f"sentence-transformers {sentence_transformers.__version__}, PyTorch {torch.__version__}"
        answer = {"version": versions}
    else:
        texts, size = request["texts"], request["batch"]
        start, cpu = time.perf_counter(), time.process_time()
        if size == 1:  # one question at a time, not a list of them
            vectors = [encoder.encode([text], batch_size=1, show_progress_bar=False)[0] for text in texts]
        else:
            vectors = encoder.encode(texts, batch_size=size, show_progress_bar=False)
        answer = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
        if request.get("vectors"):
            answer["vectors"] = [[float(c) for c in v] for v in vectors]
    print(json.dumps(answer), flush=True)
