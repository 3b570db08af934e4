"""Embeds texts with Sentence Transformers, or with onnxruntime if the weights are an ONNX file.

    apt-get install python3-torch     # 1.13, without CUDA
    python3 -m venv --system-site-packages venv
    venv/bin/pip install "numpy<2" sentence-transformers==2.7.0 transformers==4.40.2 onnxruntime==1.19.2
    venv/bin/python reference.py DIRECTORY <texts >embeddings

The input is a JSON string per line. The output begins with a line about the versions; a line per
text follows: the ids of its tokens, cut off as the model demands, and its embedding, as float32 in
base64. DIRECTORY has the layout of Hugging Face.
"""

import base64
import json
import os
import sys

# PyTorch's own limit leaves out the threads of OpenBLAS, which wait for each other on a busy machine.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy
import tokenizers

model = sys.argv[1]
texts = [json.loads(line) for line in sys.stdin]


def read(name):
    with open(os.path.join(model, name)) as f:
        return json.load(f)


def sentence_transformers():
    import sentence_transformers as st
    import torch
    import transformers

    torch.set_num_threads(1)
    encoder = st.SentenceTransformer(model, device="cpu")
    yield f"sentence-transformers {st.__version__}, transformers {transformers.__version__}, torch {torch.__version__}"
    # Sentence Transformers sorts texts by length, so that few rows of a batch are padding.
    vectors = encoder.encode(texts, batch_size=8, show_progress_bar=True)
    for text, v in zip(texts, vectors):
        yield encoder.tokenize([text])["input_ids"][0].tolist(), v


def onnx():
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(os.path.join(model, "model.onnx"), options)
    inputs = {i.name for i in session.get_inputs()}
    tokenizer = tokenizers.Tokenizer.from_file(os.path.join(model, "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(read("sentence_bert_config.json")["max_seq_length"])
    cls = read("1_Pooling/config.json")["pooling_mode_cls_token"]
    yield f"onnxruntime {onnxruntime.__version__}"
    for text in texts:
        ids = tokenizer.encode(text).ids
        row = numpy.array([ids], dtype=numpy.int64)
        feed = {"input_ids": row, "attention_mask": numpy.ones_like(row), "token_type_ids": numpy.zeros_like(row)}
        last = session.run(None, {k: v for k, v in feed.items() if k in inputs})[0][0].astype(numpy.float64)
        v = last[0] if cls else last.mean(axis=0)
        yield ids, v / numpy.linalg.norm(v)


rows = onnx() if os.path.exists(os.path.join(model, "model.onnx")) else sentence_transformers()
print(json.dumps({"made_with": f"{next(rows)}, tokenizers {tokenizers.__version__}"}))
for ids, v in rows:
    vector = base64.b64encode(numpy.asarray(v, dtype="<f4").tobytes()).decode()
    print(json.dumps({"ids": ids, "vector": vector}))
