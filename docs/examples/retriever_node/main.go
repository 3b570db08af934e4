// Command retriever_node is a graph of two steps: one retrieves, the next uses what was found.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
)

// A state is what the steps pass on.
type state struct {
	question string
	docs     []db.Document
	answer   string
}

func (s *state) Query() string                       { return s.question }
func (s *state) SetRetrievedDocs(docs []db.Document) { s.docs = docs }

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	model, err := embed.Open(ctx, embed.DefaultConfig(), nil)
	if err != nil {
		return err
	}
	vdb, err := db.Open("facts.vdb", nil)
	if err != nil {
		return err
	}
	defer vdb.Close()
	facts, err := vdb.OpenCollection(ctx, "facts", db.Schema{})
	if err != nil {
		return err
	}
	for _, text := range []string{"Bees dance to tell each other where flowers are.", "Ants follow trails of scent."} {
		vec, err := model.Embed(ctx, text)
		if err != nil {
			return err
		}
		if _, err := facts.Upsert(ctx, db.Document{ID: text[:4], Text: text, Vector: vec}); err != nil {
			return err
		}
	}

	retriever := &rag.RetrieverNode[*state]{Embedder: model, Store: facts, TopK: 1}
	steps := []func(context.Context, *state) (*state, error){retriever.Run, answer}
	s := &state{question: "how do bees tell where flowers are?"}
	for i, step := range steps {
		start := time.Now()
		if s, err = step(ctx, s); err != nil {
			return err
		}
		fmt.Println("step", i+1, "took", time.Since(start))
	}
	fmt.Println(s.answer)
	return nil
}

// answer stands for a language model.
func answer(_ context.Context, s *state) (*state, error) {
	s.answer = s.docs[0].Text
	return s, nil
}
