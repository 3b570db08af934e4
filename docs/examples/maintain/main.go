// Command maintain checks, compacts and copies a database.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	vdb, err := db.Open("notes.vdb", nil)
	if err != nil {
		return err
	}
	defer vdb.Close()
	notes, err := vdb.OpenCollection(ctx, "notes", db.Schema{Dim: 2})
	if err != nil {
		return err
	}
	for i := range 100 {
		d := db.Document{ID: strconv.Itoa(i), Vector: []float32{1, float32(i)}, Metadata: db.Metadata{"even": i%2 == 0}}
		if _, err := notes.Upsert(ctx, d); err != nil {
			return err
		}
	}
	if _, err := notes.DeleteWhere(ctx, filter.Eq("even", true)); err != nil {
		return err
	}

	if err := vdb.Compact(ctx); err != nil {
		return err
	}
	s, err := vdb.Stats()
	if err != nil {
		return err
	}
	fmt.Println(s.Collections[0].Documents, "documents,", s.Collections[0].DeadRows, "dead rows")

	if err := vdb.Backup(ctx, "copy.vdb"); err != nil {
		return err
	}
	if err := sound(ctx, "copy.vdb"); err != nil {
		return err
	}

	if err := damage("copy.vdb"); err != nil {
		return err
	}
	if err := sound(ctx, "copy.vdb"); err != nil {
		return err
	}
	return save(ctx, "copy.vdb", "saved.vdb")
}

// sound reads every byte of a database.
func sound(ctx context.Context, dir string) error {
	vdb, err := db.Open(dir, &db.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer vdb.Close()
	report, err := vdb.Check(ctx, db.CheckBytes)
	if err != nil {
		return err
	}
	for _, p := range report.Problems {
		fmt.Println(p) // file, offset, what is wrong
	}
	fmt.Println("sound:", report.OK(), "-", report.Documents, "documents in", report.Segments, "segments")
	return nil
}

// damage flips one bit of one vector, as a disk may.
func damage(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "seg", "*.vec"))
	if err != nil {
		return err
	}
	if len(files) != 1 {
		return fmt.Errorf("%d vector files instead of one", len(files))
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		return err
	}
	b[4096] ^= 1 // vectors begin there
	return os.WriteFile(files[0], b, 0o600)
}

// save copies what is intact.
func save(ctx context.Context, from, to string) error {
	report, err := db.Repair(ctx, from, to)
	if err != nil {
		return err
	}
	fmt.Println("saved", report.Documents, "documents,", report.Vectors, "with a vector")
	for _, l := range report.Lost[:min(2, len(report.Lost))] {
		fmt.Println("lost:", l.Collection, l.ID, l.What)
	}
	return nil
}
