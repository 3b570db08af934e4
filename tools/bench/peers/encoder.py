"""Embeds with onnxruntime what tools/bench/encoder.go gives Vecbolt.

Needs Python 3.9 with numpy, onnx, onnxruntime and tokenizers. The graph is built here from the safetensors of a BERT
encoder, out of the fused operators that onnxruntime's own optimiser for transformers makes: EmbedLayerNormalization,
Attention, SkipLayerNormalization, BiasGelu. So onnxruntime runs its fastest form of the model. int8 is its dynamic
quantisation with a scale per channel.

    python3 encoder.py MODEL_DIR

reads one request in JSON per line and answers each with one line:

    {"do": "open", "precision": "float32", "threads": 1}    {"version": ...}
    {"do": "embed", "texts": [...], "batch": 32}            {"seconds": ..., "cpu": ..., "tokens": ..., "vectors": [...]}

"vectors" are there if the request has "vectors": true. Texts are sorted by length, as Sentence Transformers does, and
padded to the longest of their batch. The clock covers tokenizer, model, mean and norm.
"""

import json
import os
import sys
import tempfile
import time

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from tokenizers import Tokenizer

TYPES = {"F32": numpy.float32, "F16": numpy.float16, "I64": numpy.int64}


def tensors(name):
    with open(name, "rb") as f:
        data = f.read()
    end = 8 + int.from_bytes(data[:8], "little")
    out = {}
    for key, info in json.loads(data[8:end]).items():
        if key != "__metadata__":
            at, to = info["data_offsets"]
            array = numpy.frombuffer(data[end + at : end + to], dtype=TYPES[info["dtype"]])
            out[key.removeprefix("bert.")] = array.reshape(info["shape"])
    return out


def graph(model_dir):
    with open(os.path.join(model_dir, "config.json")) as f:
        config = json.load(f)
    heads, epsilon = config["num_attention_heads"], config["layer_norm_eps"]
    weights = tensors(os.path.join(model_dir, "model.safetensors"))
    nodes, initial = [], []

    def put(name, array):
        initial.append(numpy_helper.from_array(numpy.ascontiguousarray(array, dtype=numpy.float32), name))
        return name

    def weight(name):
        return put(name, weights[name])

    def node(op, inputs, outputs, **attributes):
        nodes.append(helper.make_node(op, inputs, outputs, name=outputs[0], domain="com.microsoft" if op != "MatMul" else "", **attributes))
        return outputs[0]

    e = "embeddings."
    names = [weight(e + t + "_embeddings.weight") for t in ("word", "position", "token_type")]
    norm = [weight(e + "LayerNorm.weight"), weight(e + "LayerNorm.bias")]
    x = node("EmbedLayerNormalization", ["ids", "types", *names, *norm, "mask"], ["embedded", "lengths"], epsilon=epsilon)
    for i in range(config["num_hidden_layers"]):
        p = f"encoder.layer.{i}."
        qkv = [p + "attention.self." + s for s in ("query", "key", "value")]
        w = put(p + "qkv.weight", numpy.concatenate([weights[s + ".weight"] for s in qkv]).T)
        b = put(p + "qkv.bias", numpy.concatenate([weights[s + ".bias"] for s in qkv]))
        mixed = node("Attention", [x, w, b, "lengths"], [p + "mixed"], num_heads=heads)

        def linear(name, source):
            return node("MatMul", [source, put(name + ".weight", weights[name + ".weight"].T)], [name + ".out"])

        def add(name, norm, y, x):
            inputs = [y, x, weight(norm + ".weight"), weight(norm + ".bias"), weight(name + ".bias")]
            return node("SkipLayerNormalization", inputs, [norm + ".out"], epsilon=epsilon)

        name = p + "attention.output"
        x = add(name + ".dense", name + ".LayerNorm", linear(name + ".dense", mixed), x)
        name = p + "intermediate.dense"
        up = node("BiasGelu", [linear(name, x), weight(name + ".bias")], [p + "gelu"])
        name = p + "output"
        x = add(name + ".dense", name + ".LayerNorm", linear(name + ".dense", up), x)
    shape = ["batch", "tokens"]
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT32, shape) for n in ("ids", "types", "mask")]
    output = helper.make_tensor_value_info(x, TensorProto.FLOAT, [*shape, config["hidden_size"]])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(helper.make_graph(nodes, "bert", inputs, [output], initial), opset_imports=opsets, ir_version=9)


class Encoder:
    def __init__(self, model_dir, folder):
        self.folder = folder
        self.tokenizer = Tokenizer.from_file(os.path.join(model_dir, "tokenizer.json"))
        self.tokenizer.enable_truncation(256)
        self.tokenizer.enable_padding()
        self.float32 = os.path.join(folder, "float32.onnx")
        self.int8 = os.path.join(folder, "int8.onnx")
        onnx.save(graph(model_dir), self.float32)
        extra = {"DefaultTensorType": TensorProto.FLOAT}
        quantize_dynamic(self.float32, self.int8, per_channel=True, weight_type=QuantType.QInt8, extra_options=extra)
        self.sessions = {}

    def open(self, precision, threads):
        options = onnxruntime.SessionOptions()
        os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        name = getattr(self, precision)
        if (precision, threads) not in self.sessions:
            self.sessions[precision, threads] = onnxruntime.InferenceSession(name, options, providers=["CPUExecutionProvider"])
        self.session = self.sessions[precision, threads]

    def batch(self, texts):
        encoded = self.tokenizer.encode_batch(texts)
        ids = numpy.array([e.ids for e in encoded], dtype=numpy.int32)
        mask = numpy.array([e.attention_mask for e in encoded], dtype=numpy.int32)
        x = self.session.run(None, {"ids": ids, "types": numpy.zeros_like(ids), "mask": mask})[0]
        weights = mask[:, :, None].astype(numpy.float32)
        mean = (x * weights).sum(axis=1) / weights.sum(axis=1)
        return mean / numpy.linalg.norm(mean, axis=1, keepdims=True), int(mask.sum())

    def embed(self, texts, size):
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        out, tokens = [None] * len(texts), 0
        for at in range(0, len(order), size):
            part = order[at : at + size]
            vectors, n = self.batch([texts[i] for i in part])
            tokens += n
            for i, v in zip(part, vectors):
                out[i] = v
        return out, tokens


def main():
    with tempfile.TemporaryDirectory() as folder:
        encoder = Encoder(sys.argv[1], folder)
        for line in sys.stdin:
            request = json.loads(line)
            if request["do"] == "open":
                encoder.open(request["precision"], request["threads"])
                answer = {"version": onnxruntime.__version__}
            else:
                start, cpu = time.perf_counter(), time.process_time()
                vectors, tokens = encoder.embed(request["texts"], request["batch"])
                answer = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu, "tokens": tokens}
                if request.get("vectors"):
                    answer["vectors"] = [[float(c) for c in v] for v in vectors]
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
