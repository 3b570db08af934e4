"""Scores pairs of texts with the BertForSequenceClassification of transformers.

    venv/bin/python cross.py DIRECTORY <pairs >scores

See reference.py for the packages. The input is a JSON list of two strings per line. The output has
a line per pair: the ids of its tokens, the number of the first token of the second text, and the
score. DIRECTORY has config.json, vocab.txt and model.safetensors.
"""

import json
import sys

import torch
from safetensors.torch import load_file
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

directory = sys.argv[1]
torch.set_num_threads(1)
config = BertConfig.from_pretrained(directory, num_labels=1)
model = BertForSequenceClassification(config)
missing, unexpected = model.load_state_dict(load_file(directory + "/model.safetensors"), strict=False)
assert not unexpected and not [m for m in missing if not m.endswith("position_ids")], (missing, unexpected)
model.eval()
tokenizer = BertTokenizerFast(directory + "/vocab.txt", do_lower_case=True, model_max_length=config.max_position_embeddings)
for line in sys.stdin:
    a, b = json.loads(line)
    encoded = tokenizer([a], [b], truncation="longest_first", return_tensors="pt")
    with torch.no_grad():
        score = model(**encoded).logits[0, 0].item()
    types = encoded["token_type_ids"][0].tolist()
    print(json.dumps({"ids": encoded["input_ids"][0].tolist(), "second": types.index(1), "score": score}))
