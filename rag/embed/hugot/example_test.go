package hugot_test

import (
	"context"
	"fmt"
	"log"

	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/embed/hugot"
)

func ExampleProvider() {
	ctx := context.Background()
	registry := embed.NewRegistry(append(embed.Builtin(), hugot.Provider())...)
	settings := map[string]any{"model_path": "bge-small"} // a directory with tokenizer.json and an .onnx file
	model, err := registry.Open(ctx, embed.Config{Provider: "onnx", Settings: settings}, nil)
	if err != nil {
		log.Fatal(err)
	}
	vec, err := model.Embed(ctx, "a sentence")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(vec) == model.Dimensions())
}
