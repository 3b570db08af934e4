package db_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log"
	"os"
	"path/filepath"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
)

var ctx = context.Background()

// tempDir returns a new directory and a function that removes it.
func tempDir() (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "vecbolt-example-")
	check(err)
	return dir, func() { check(os.RemoveAll(dir)) }
}

// notes opens a database with a collection of three small documents.
func notes() (vdb *db.DB, notes *db.Collection, done func()) {
	dir, remove := tempDir()
	vdb, err := db.Open(filepath.Join(dir, "notes.vdb"), nil)
	check(err)
	notes, err = vdb.OpenCollection(ctx, "notes", db.Schema{Dim: 2})
	check(err)
	_, err = notes.Upsert(ctx,
		db.Document{ID: "bolt", Vector: []float32{1, 0}, Text: "A key-value store.", Metadata: db.Metadata{"lang": "go", "year": 2013}},
		db.Document{ID: "faiss", Vector: []float32{0, 1}, Text: "A library for vectors.", Metadata: db.Metadata{"lang": "c++", "year": 2017}},
		db.Document{ID: "vek", Vector: []float32{1, 1}, Text: "Vector kernels.", Metadata: db.Metadata{"lang": "go", "year": 2022}},
	)
	check(err)
	return vdb, notes, func() {
		check(vdb.Close())
		remove()
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func Example() {
	dir, remove := tempDir()
	defer remove()

	vdb, err := db.Open(filepath.Join(dir, "notes.vdb"), nil)
	check(err)
	defer vdb.Close()
	notes, err := vdb.OpenCollection(ctx, "notes", db.Schema{Dim: 2})
	check(err)
	_, err = notes.Upsert(ctx,
		db.Document{ID: "a", Vector: []float32{1, 0}, Text: "east"},
		db.Document{ID: "b", Vector: []float32{0, 1}, Text: "north"},
	)
	check(err)
	res, err := notes.Search(ctx, db.Query{Near: db.Vector{3, 4}, K: 5})
	check(err)
	for _, h := range res.Hits {
		fmt.Printf("%s %.1f %s\n", h.ID, h.Score, h.Text)
	}
	// Output:
	// b 0.8 north
	// a 0.6 east
}

func ExampleOpen_memory() {
	vdb, err := db.Open(db.Memory, nil)
	check(err)
	defer vdb.Close() // discards it
	notes, err := vdb.OpenCollection(ctx, "notes", db.Schema{Dim: 2})
	check(err)
	_, err = notes.Upsert(ctx, db.Document{ID: "a", Vector: []float32{1, 0}})
	check(err)
	n, err := notes.Count(ctx, nil)
	check(err)
	fmt.Println(n, "document")
	// Output: 1 document
}

func ExampleCollection_Search() {
	_, notes, done := notes()
	defer done()

	res, err := notes.Search(ctx, db.Query{
		Near:      db.Vector{1, 0},
		K:         10,
		Where:     filter.And(filter.Eq("lang", "go"), filter.Gte("year", 2010)),
		Threshold: new(0.5),
		Select:    db.WithMetadata,
	})
	check(err)
	for _, h := range res.Hits {
		fmt.Printf("%s %.3f %v\n", h.ID, h.Score, h.Metadata["year"])
	}
	fmt.Println("exact:", res.Exact, "matched:", res.Matched)
	// Output:
	// bolt 1.000 2013
	// vek 0.707 2022
	// exact: true matched: 2
}

func ExampleCollection_Search_json() {
	_, notes, done := notes()
	defer done()

	where, err := filter.Parse([]byte(`{"year": {"$gt": 2015}}`))
	check(err)
	res, err := notes.Search(ctx, db.Query{Near: db.Stored("bolt"), Where: where, Select: db.IDsOnly})
	check(err)
	for _, h := range res.Hits {
		fmt.Printf("%s %.3f\n", h.ID, h.Score)
	}
	// Output:
	// vek 0.707
	// faiss 0.000
}

func ExampleCollection_SearchBatch() {
	_, notes, done := notes()
	defer done()

	// All queries see the same state and share one pass over the vectors.
	results, err := notes.SearchBatch(ctx, []db.Query{
		{Near: db.Vector{1, 0}, K: 1},
		{Near: db.Vector{0, 1}, K: 1},
	})
	check(err)
	for i, res := range results {
		fmt.Println(i, res.Hits[0].ID)
	}
	// Output:
	// 0 bolt
	// 1 faiss
}

func ExampleCollection_Insert() {
	_, notes, done := notes()
	defer done()

	_, err := notes.Insert(ctx, db.Document{ID: "new"}, db.Document{ID: "vek"})
	fmt.Println(errors.Is(err, db.ErrExists))
	n, err := notes.Count(ctx, nil)
	check(err)
	fmt.Println(n, "documents")
	// Output:
	// true
	// 3 documents
}

func ExampleCollection_Patch() {
	_, notes, done := notes()
	defer done()

	err := notes.Patch(ctx, db.Patch{
		ID:    "vek",
		Set:   db.Metadata{"stars": 120},
		Unset: []string{"year"},
	})
	check(err)
	d, err := notes.Get(ctx, "vek", db.Everything)
	check(err)
	fmt.Println(d.Metadata, d.Text, d.Vector)
	// Output: map[lang:go stars:120] Vector kernels. [1 1]
}

func ExampleCollection_DeleteWhere() {
	_, notes, done := notes()
	defer done()

	n, err := notes.DeleteWhere(ctx, filter.Lt("year", 2020))
	check(err)
	left, err := notes.Count(ctx, nil)
	check(err)
	fmt.Println(n, "deleted,", left, "left")
	// Output: 2 deleted, 1 left
}

func ExampleCollection_List() {
	_, notes, done := notes()
	defer done()

	q := db.ListQuery{Limit: 2, Select: db.IDsOnly}
	for {
		page, err := notes.List(ctx, q)
		check(err)
		for _, d := range page.Documents {
			fmt.Println(d.ID)
		}
		if page.Next == "" {
			break
		}
		fmt.Println("-- next page, of", page.Total)
		q.After = page.Next
	}
	// Output:
	// bolt
	// faiss
	// -- next page, of 3
	// vek
}

func ExampleCollection_All() {
	_, notes, done := notes()
	defer done()

	for d, err := range notes.All(ctx, filter.Prefix("lang", "g"), db.WithText) {
		check(err)
		fmt.Println(d.ID, "-", d.Text)
	}
	// Output:
	// bolt - A key-value store.
	// vek - Vector kernels.
}

func ExampleCollection_Load() {
	vdb, _, done := notes()
	defer done()

	points, err := vdb.CreateCollection(ctx, "points", db.Schema{Metric: db.L2}, nil)
	check(err)
	var docs iter.Seq2[db.Document, error] = func(yield func(db.Document, error) bool) {
		for i := range 1000 {
			d := db.Document{ID: fmt.Sprintf("p%03d", i), Vector: []float32{float32(i), 0, 0}}
			if !yield(d, nil) {
				return
			}
		}
	}
	n, err := points.Load(ctx, docs, &db.LoadOptions{
		BatchSize: 500,
		Progress:  func(n int) { fmt.Println(n, "written") },
	})
	check(err)
	fmt.Println("in all", n)
	// Output:
	// 500 written
	// 1000 written
	// in all 1000
}

func ExampleDB_Apply() {
	vdb, _, done := notes()
	defer done()
	_, err := vdb.OpenCollection(ctx, "log", db.Schema{})
	check(err)

	// Both collections change, or neither does.
	var b db.Batch
	b.Delete("notes", "faiss")
	b.Insert("log", db.Document{ID: "1", Text: "faiss removed"})
	check(vdb.Apply(ctx, &b))

	infos, err := vdb.Collections()
	check(err)
	for _, info := range infos {
		fmt.Println(info.Name, info.Documents)
	}
	// Output:
	// log 1
	// notes 2
}

func ExampleDB_Snapshot() {
	vdb, notes, done := notes()
	defer done()

	snap, err := vdb.Snapshot()
	check(err)
	defer snap.Close()

	_, err = notes.Delete(ctx, "bolt", "vek")
	check(err)

	frozen, err := snap.Collection("notes")
	check(err)
	then, err := frozen.Info()
	check(err)
	now, err := notes.Info()
	check(err)
	fmt.Println("then:", then.Documents, "now:", now.Documents)
	// Output: then: 3 now: 1
}

func ExampleDB_Backup() {
	vdb, _, done := notes()
	defer done()
	dir, remove := tempDir()
	defer remove()

	target := filepath.Join(dir, "copy.vdb")
	check(vdb.Backup(ctx, target))

	backup, err := db.Open(target, &db.Options{ReadOnly: true})
	check(err)
	defer backup.Close()
	report, err := backup.Check(ctx, db.CheckBytes)
	check(err)
	fmt.Println("sound:", report.OK(), "documents:", report.Documents)
	// Output: sound: true documents: 3
}

func ExampleDimensionError() {
	_, notes, done := notes()
	defer done()

	_, err := notes.Upsert(ctx, db.Document{ID: "x", Vector: []float32{1, 2, 3}})
	var wrong *db.DimensionError
	if errors.As(err, &wrong) {
		fmt.Printf("%s: expected %d, got %d\n", wrong.ID, wrong.Expected, wrong.Got)
	}
	// Output: x: expected 2, got 3
}
