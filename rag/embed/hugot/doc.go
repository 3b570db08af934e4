// Package hugot embeds texts with any ONNX model, by way of github.com/knights-analytics/hugot and
// its backend in pure Go. It is a module of its own, because hugot brings some twenty others.
// [Provider] is for a registry:
//
//	r := embed.NewRegistry(append(embed.Builtin(), hugot.Provider())...)
//	e, err := r.Open(ctx, embed.Config{Provider: "onnx", Settings: map[string]any{"model_path": "bge-small"}}, nil)
//
// A model is a directory with tokenizer.json and one .onnx file. Where package bert knows the
// architecture, it is faster.
package hugot
