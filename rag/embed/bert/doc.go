// Package bert embeds texts with sentence encoders of the BERT architecture, such as all-MiniLM,
// BGE, GTE or E5, in pure Go on the kernels of package simd. [Open] reads a model from disk. It
// accepts a Hugging Face directory (config.json, model.safetensors or model.onnx, tokenizer.json or
// vocab.txt, and the files of Sentence Transformers). It also accepts a GGUF file of llama.cpp or
// Ollama, with weights of 32 or 16 bits or of the types Q4_0 to Q8_0. Weights are kept as float32.
//
// The computation follows Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers,
// 2019, without dropout: the sum of token, position and segment embeddings, normalized; layers of
// self-attention and of two linear maps with GELU between them, each added to its input and
// normalized; and the mean over all tokens, or the first one. Sums are float32, except in layer
// norms and softmax, where they are float64. GGUF models use the exact GELU, too, which llama.cpp
// approximates.
//
// A [CrossEncoder] has the same layers and reads two texts at once, to score how well they fit.
//
// The arithmetic is tested against a second implementation in float64, and trained models against
// others' programs: all-MiniLM-L6-v2 against Sentence Transformers, bge-small-en-v1.5 against
// onnxruntime. Tokens are equal. Cosines are at least 0.99999 and components differ by 1e-4 at
// most. Scores of a cross-encoder with the layers of all-MiniLM-L6-v2 and a random head are those
// of transformers to 1e-5. The tests are TestTrained, TestReference and TestReferenceCross.
//
// A text of 128 tokens takes a model of the shape of all-MiniLM-L6-v2 (6 layers, 384 components, 12
// heads), in CPU time of one core of an AMD EPYC (Zen 5): 70 ms with AVX-512, 98 ms with AVX2, 450
// ms in portable Go (BenchmarkMiniLM, the difference in user and system time of runs of 2 and 22
// rounds).
package bert
