package provider_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/vecbolt/vecbolt/rag/provider"
)

func Example() {
	dir, err := os.MkdirTemp("", "provider-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	registry := provider.NewRegistry(provider.Weaviate())
	for _, p := range registry.Providers() {
		fmt.Println(p.Name, p.Can(provider.Search))
	}
	ctx := context.Background()
	conn, err := registry.Open(ctx, provider.EmbeddedName, map[string]any{
		"path": filepath.Join(dir, "notes.vdb"), "create": true,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	fmt.Println(conn.Health(ctx).Status)
	// Output:
	// vecbolt true
	// weaviate true
	// healthy
}
