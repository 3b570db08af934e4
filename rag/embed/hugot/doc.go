// Package hugot embeds texts with any ONNX model, using github.com/knights-analytics/hugot and its
// backend in pure Go. It is a separate module, because hugot has some twenty dependencies.
// [Provider] is for a registry:
//
//	r := embed.NewRegistry(append(embed.Builtin(), hugot.Provider())...)
//	settings := map[string]any{"model_path": "bge-small"}
//	e, err := r.Open(ctx, embed.Config{Provider: "onnx", Settings: settings}, nil)
//
// A model is a directory with tokenizer.json and one .onnx file. For architectures that package
// bert supports, that package is faster.
package hugot
