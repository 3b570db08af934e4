package english_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/embed/static/english"
	"github.com/vecbolt/vecbolt/rag/knowledge"
)

func Example() {
	vecs, err := english.New().EmbedBatch(context.Background(), []string{"a sick dog", "an ill puppy", "interest rates"})
	if err != nil {
		log.Fatal(err)
	}
	dot := func(a, b []float32) (sum float32) {
		for i := range a {
			sum += a[i] * b[i]
		}
		return sum
	}
	fmt.Println(len(vecs[0]), dot(vecs[0], vecs[1]) > 0.3, dot(vecs[0], vecs[2]) > 0.3)
	// Output: 256 true false
}

// New bases of this engine get the model, as those of the tool do.
func ExampleProvider() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	model := english.Config()
	engine, err := knowledge.New(filepath.Join(dir, "workspace"), &knowledge.Options{
		Providers: embed.NewRegistry(append(embed.Builtin(), english.Provider())...),
		Default:   &model,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	ctx := context.Background()
	_, err = engine.Learn(ctx, "pets", knowledge.LearnOptions{
		Paths: []string{"-"}, Stdin: strings.NewReader("An ill puppy needs rest.\n")})
	if err != nil {
		log.Fatal(err)
	}
	config, err := engine.Config("pets")
	if err != nil {
		log.Fatal(err)
	}
	answer, err := engine.Query(ctx, "pets", "my sick dog", knowledge.QueryOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(config.Provider, config.Model)
	fmt.Println(answer.Chunks[0].Text)
	// Output:
	// static english-v1
	// An ill puppy needs rest.
}
