// Package bert embeds texts with sentence encoders of the BERT architecture, such as all-MiniLM,
// BGE, GTE or E5, in pure Go on the kernels of package simd. [Open] reads a model from disk. It
// accepts a Hugging Face directory (config.json, model.safetensors or model.onnx, tokenizer.json or
// vocab.txt, and the files of Sentence Transformers). It also accepts a GGUF file of llama.cpp or
// Ollama, with weights of 32 or 16 bits or of the types Q4_0 to Q8_0. The file is mapped, and
// the linear maps are packed for the kernels, as float32 or, after [Model.Quantize], as codes of
// one byte.
//
// The computation follows Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers,
// 2019, without dropout: the sum of token, position and segment embeddings, normalized; layers of
// self-attention and of two linear maps with GELU between them, each added to its input and
// normalized; and the mean over all tokens, or the first one. Sums are float32. GGUF models use the
// exact GELU, too, which llama.cpp approximates.
//
// [Model.EmbedBatch] runs texts together: their tokens are rows of the same matrices, one text
// after the other, without padding. Kernels compute every row by itself, so that a vector depends
// on its text alone, and not on the batch or the number of threads.
//
// A [CrossEncoder] has the same layers and reads two texts at once, to score how well they fit.
//
// The arithmetic is tested against a second implementation in float64, and trained models against
// others' programs: all-MiniLM-L6-v2 against Sentence Transformers, bge-small-en-v1.5 against
// onnxruntime. Tokens are equal. Cosines are at least 0.99999 and components differ by 1e-4 at
// most. Scores of a cross-encoder with the layers of all-MiniLM-L6-v2 and a random head are those
// of transformers to 1e-5. The tests are TestTrained, TestReference and TestReferenceCross.
//
// docs/bench has the figures of all-MiniLM-L6-v2 beside onnxruntime.
package bert
