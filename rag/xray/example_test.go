package xray_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag/xray"
)

func ExampleInspect() {
	dir, err := os.MkdirTemp("", "xray-")
	check(err)
	defer os.RemoveAll(dir)
	vdb, err := db.Open(dir, nil)
	check(err)
	defer vdb.Close()
	ctx := context.Background()
	notes, err := vdb.OpenCollection(ctx, "notes", db.Schema{})
	check(err)
	_, err = notes.Upsert(ctx,
		db.Document{ID: "a", Vector: []float32{1, 0}, Text: "the log"},
		db.Document{ID: "b", Vector: []float32{1, 0.01}, Text: "the log"},
		db.Document{ID: "c", Vector: []float32{0, 1}, Text: "a cat"})
	check(err)

	report, err := xray.Inspect(ctx, notes, xray.Options{})
	check(err)
	fmt.Println(report.Vectors, "vectors")
	fmt.Println("near-duplicates:", report.Duplicates.Groups[0].IDs)
	fmt.Println("the same text:", report.SameText.Groups[0].IDs)
	// Output:
	// 3 vectors
	// near-duplicates: [a b]
	// the same text: [a b]
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
