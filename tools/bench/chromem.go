package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	chromem "github.com/philippgille/chromem-go"

	"github.com/vecbolt/vecbolt/db"
)

// chromemScanner searches a chromem-go collection in memory. chromem-go divides every query among
// one goroutine per processor, so one thread means GOMAXPROCS=1.
type chromemScanner struct {
	c       *chromem.Collection
	queries matrix
}

func (*chromemScanner) title() string { return "chromem-go" }
func (s *chromemScanner) close()      { s.c = nil }

// noEmbedding is never called: all documents and queries bring their vectors.
func noEmbedding(context.Context, string) ([]float32, error) {
	return nil, errors.New("no embedding model")
}

func (s *chromemScanner) load(set *vectorSet, _ string) (err error) {
	s.queries = set.queries
	if s.c, err = chromem.NewDB().CreateCollection(collection, nil, noEmbedding); err != nil {
		return err
	}
	docs := make([]chromem.Document, set.base.rows())
	for i := range docs {
		docs[i] = chromem.Document{ID: strconv.Itoa(i), Embedding: set.base.row(i)}
	}
	return s.c.AddDocuments(context.Background(), docs, runtime.NumCPU())
}

func (s *chromemScanner) scan(r scanRequest) (scanResult, error) {
	callers := 1
	switch r.mode {
	case modeOne:
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	case modeCallers:
		callers = 2
	}
	return each(r, s.queries, callers, func(q []float32, k int) ([]int, error) {
		found, err := s.c.QueryEmbedding(context.Background(), q, k, nil, nil)
		if err != nil {
			return nil, err
		}
		ids := make([]int, len(found))
		for i, f := range found {
			if ids[i], err = strconv.Atoi(f.ID); err != nil {
				return nil, err
			}
		}
		return ids, nil
	})
}

// chromemIngest adds the documents in batches to a new database on disk.
func chromemIngest(dir string, docs []db.Document) (ingestResult, error) {
	d, err := chromem.NewPersistentDB(filepath.Join(dir, "chromem"), false)
	if err != nil {
		return ingestResult{}, err
	}
	c, err := d.CreateCollection(collection, nil, noEmbedding)
	if err != nil {
		return ingestResult{}, err
	}
	rows := make([]chromem.Document, len(docs))
	for i, d := range docs {
		meta := make(map[string]string, len(d.Metadata))
		for k, v := range d.Metadata {
			meta[k] = fmt.Sprint(v)
		}
		rows[i] = chromem.Document{ID: d.ID, Embedding: d.Vector, Content: d.Text, Metadata: meta}
	}
	t := time.Now()
	for rest := rows; len(rest) > 0; {
		n := min(ingestBatch, len(rest))
		if err := c.AddDocuments(context.Background(), rest[:n], runtime.NumCPU()); err != nil {
			return ingestResult{}, err
		}
		rest = rest[n:]
	}
	return ingestResult{Rows: len(rows), Seconds: time.Since(t).Seconds()}, nil
}

// openChromem is openVecbolt for a database of chromemIngest.
func openChromem(w *watch, dir string, q []float32) error {
	d, err := chromem.NewPersistentDB(filepath.Join(dir, "chromem"), false)
	if err != nil {
		return err
	}
	c := d.GetCollection(collection, noEmbedding)
	w.opened()
	if _, err = c.QueryEmbedding(context.Background(), q, 10, nil, nil); err != nil {
		return err
	}
	w.answered()
	runtime.KeepAlive(d)
	return nil
}
