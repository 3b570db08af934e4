package weaviate_test

import (
	"context"
	"fmt"
	"log"

	"github.com/vecbolt/vecbolt/store"
	"github.com/vecbolt/vecbolt/store/weaviate"
)

func ExampleOpen() {
	ctx := context.Background()
	s, err := weaviate.Open(ctx, []string{"10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.3:8080"}, &weaviate.Options{Replicas: 3})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	notes, err := s.Create(ctx, "notes", store.Schema{Dim: 384})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(notes.Name())
}

func ExampleParse() {
	endpoints, opts, err := weaviate.Parse("weaviate://10.0.0.1:8080,10.0.0.2:8080?class=Notes&replicas=3")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(endpoints, opts.Class, opts.Replicas)
	// Output: [http://10.0.0.1:8080 http://10.0.0.2:8080] Notes 3
}
