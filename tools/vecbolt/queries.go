package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/exchange"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/eval"
	"github.com/vecbolt/vecbolt/rag/vectorize"
)

// queryVectors are the flags for the source of query vectors.
type queryVectors struct {
	QueryVectors string `placeholder:"FILE" help:"Vectors of the queries: JSON lines with id and vector, or .fvecs or .npy in the order of the queries."`
	Embedder     string `placeholder:"PROVIDER:MODEL" help:"Compute missing query vectors with this model, such as static:english-v1 or ollama:nomic-embed-text, or with a stored model; default the model that the collection is pinned to, or that its lineage names."`
	modelSettings
}

// modelSettings are settings of the model of questions.
type modelSettings struct {
	Set map[string]string `placeholder:"KEY=VALUE" help:"Settings of the provider of that model, such as host=…."`
}

// attach adds vectors to queries without one. Without a source of vectors it does nothing.
func (f *queryVectors) attach(ctx context.Context, queries []eval.Query, info db.CollectionInfo) error {
	if f.QueryVectors != "" {
		if err := attachVectors(ctx, queries, f.QueryVectors); err != nil {
			return err
		}
	}
	var lack []int
	var texts []string
	for i, q := range queries {
		if len(q.Vector) == 0 && q.Text != "" {
			lack = append(lack, i)
			texts = append(texts, q.Text)
		}
	}
	model, err := f.model(info)
	if err != nil || lack == nil {
		return err
	}
	switch {
	case model.Provider == "" && len(f.Set) > 0:
		return fmt.Errorf("--set: collection %q is pinned to no model, and --embedder names none", info.Name)
	case model.Provider == "":
		return nil
	}
	model.Settings = settings(model.Provider, f.Set)
	e, err := providers().Open(ctx, model, nil)
	switch {
	case f.Embedder == "" && errors.Is(err, embed.ErrProviderNotFound):
		return nil // written by another model
	case err != nil:
		return err
	}
	vectors, err := embed.Batches(embed.Retry(embed.Queries(e), nil), nil).EmbedBatch(ctx, texts)
	if err != nil {
		return fmt.Errorf("vectors of queries: %w", err)
	}
	for i, v := range vectors {
		queries[lack[i]].Vector = v
	}
	return nil
}

// model returns the model of questions: the model that the collection is pinned to, or otherwise
// the model of the flag or of the collection's lineage.
func (f *queryVectors) model(info db.CollectionInfo) (embed.Config, error) {
	pinned, ok := vectorize.Pinned(info)
	lineage := info.Schema.Lineage
	model := embed.Config{Provider: lineage.Provider, Model: lineage.Model, Dimensions: info.Schema.Dim}
	if f.Embedder != "" {
		model.Provider, model.Model = namedModel(f.Embedder)
	}
	switch {
	case !ok:
		return model, nil
	case f.Embedder != "" && (model.Provider != pinned.Provider || model.Model != "" && model.Model != pinned.Model):
		return model, fmt.Errorf("--embedder %s: %w: collection %q is pinned to %s",
			f.Embedder, embed.ErrMismatch, info.Name, pinned)
	}
	return pinned, nil
}

// attachVectors adds vectors from a file: by id in JSON lines, otherwise by position.
func attachVectors(ctx context.Context, queries []eval.Query, name string) error {
	format, err := exchange.Detect(name)
	if err != nil {
		return err
	}
	src, err := openSource(ctx, name, exchange.OpenOptions{Format: format})
	if err != nil {
		return err
	}
	place := map[string]int{}
	for i, q := range queries {
		if format != exchange.JSONL {
			q.ID = strconv.Itoa(i) // row numbers are ids
		}
		place[q.ID] = i
	}
	rows := 0
	for item, err := range src.Documents(ctx) {
		if err == nil {
			err = item.Skip
		}
		if err != nil {
			return err
		}
		rows++
		if i, ok := place[item.Document.ID]; ok {
			queries[i].Vector = item.Document.Vector
		}
	}
	if format != exchange.JSONL && rows != len(queries) {
		return fmt.Errorf("%s: %d vectors for %d queries", name, rows, len(queries))
	}
	return nil
}

// readQuestions reads the queries of a file, as JSON lines.
func readQuestions(name string) ([]eval.Query, error) {
	queries, err := readFile(name, eval.ReadQueries)
	if err == nil && len(queries) == 0 {
		err = noQueries(name)
	}
	return queries, err
}

// readVectors reads the vectors to search for from an .fvecs file.
func readVectors(ctx context.Context, name string) (all [][]float32, err error) {
	for vec, err := range queriesOf(ctx, name) {
		if err != nil {
			return nil, err
		}
		all = append(all, vec)
	}
	return all, nil
}

// queriesOf iterates over the vectors to search for in an .fvecs file, up to the first error.
func queriesOf(ctx context.Context, name string) iter.Seq2[[]float32, error] {
	return func(yield func([]float32, error) bool) {
		src, err := openSource(ctx, name, exchange.OpenOptions{Format: exchange.FVecs})
		if err != nil {
			yield(nil, err)
			return
		}
		n := 0
		for item, err := range src.Documents(ctx) {
			if err == nil && item.Skip != nil {
				err = fmt.Errorf("%v: %w", item.Position, item.Skip)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if n++; !yield(item.Document.Vector, nil) {
				return
			}
		}
		if n == 0 {
			yield(nil, noQueries(name))
		}
	}
}

// noQueries is the error of an empty file. Without queries, every measurement would pass.
func noQueries(name string) error { return fmt.Errorf("%s contains no queries", name) }
