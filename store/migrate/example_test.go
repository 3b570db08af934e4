package migrate_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/store"
	"github.com/vecbolt/vecbolt/store/migrate"
)

func Example() {
	dir, err := os.MkdirTemp("", "migrate-")
	check(err)
	defer os.RemoveAll(dir)
	open := func(name string) *db.DB {
		vdb, err := db.Open(filepath.Join(dir, name), nil)
		check(err)
		return vdb
	}
	from, to := open("from"), open("to")
	defer from.Close()
	defer to.Close()

	ctx := context.Background()
	notes, err := store.Embedded(from).Create(ctx, "notes", store.Schema{Dim: 2})
	check(err)
	check(notes.Upsert(ctx, []db.Document{{ID: "a", Vector: []float32{1, 0}}, {ID: "b", Vector: []float32{0, 1}}}))

	report, err := migrate.Run(ctx, notes, store.Embedded(to), "copy", &migrate.Options{
		Checkpoint: filepath.Join(dir, "progress"), // a run that was interrupted continues here
		ID:         "notes to copy",
		Resume:     true,
	})
	check(err)
	fmt.Println(report.Documents, "documents")

	target, err := store.Embedded(to).Collection(ctx, "copy")
	check(err)
	v, err := migrate.Verify(ctx, notes, target)
	check(err)
	fmt.Println("faithful:", v.OK())
	// Output:
	// 2 documents
	// faithful: true
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
