// Package weights reads the tensors of a trained model from memory: of safetensors files, and of
// GGUF files of versions 2 and 3. Any bytes will do: what is malformed is an error, and nothing is
// allocated that the file does not justify.
//
// A file of safetensors is the length of a header in 8 bytes, the header, which is a JSON object of
// tensor names with type, shape and position, and the data
// (https://github.com/huggingface/safetensors). A file of GGUF is a list of keys with typed values,
// a list of tensors, and the data; the shapes are written innermost dimension first, and types can
// be blocks of quantized numbers (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). All
// numbers are little-endian.
package weights
