// Package weights reads the tensors of a trained model from memory, in the formats safetensors,
// GGUF (versions 2 and 3) and ONNX. Input is untrusted: malformed bytes are an error, and
// allocations are bounded by the size of the file.
//
// A safetensors file is the length of a header in 8 bytes, the header, and the data
// (https://github.com/huggingface/safetensors). The header is a JSON object of tensor names with
// type, shape and position. A GGUF file is a list of keys with typed values, a list of tensors, and
// the data (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Its shapes are stored
// innermost dimension first, and its types can be blocks of quantized numbers. An ONNX file is a
// message of Protocol Buffers with a graph of operations
// (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto); only the constants of the graph are
// read. Tensors in other files and quantized graphs are not supported. All numbers are
// little-endian.
package weights
