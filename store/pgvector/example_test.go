package pgvector_test

import (
	"context"
	"fmt"
	"log"

	"github.com/vecbolt/vecbolt/store"
	"github.com/vecbolt/vecbolt/store/pgvector"
)

func ExampleOpen() {
	ctx := context.Background()
	s, err := pgvector.Open(ctx, "postgres://user@host:5432/database", &pgvector.Options{HNSW: &pgvector.HNSW{}})
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
