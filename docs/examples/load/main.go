// Command load writes many documents from an iterator.
package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"log"
	"strconv"
	"strings"

	"github.com/vecbolt/vecbolt/db"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

const table = `city,east,north
Oslo,10.75,59.91
Lima,-77.04,-12.05
Nairobi,36.82,-1.29
Hanoi,105.83,21.03
`

func run(ctx context.Context) error {
	vdb, err := db.Open("cities.vdb", nil)
	if err != nil {
		return err
	}
	defer vdb.Close()
	cities, err := vdb.OpenCollection(ctx, "cities", db.Schema{Metric: db.L2})
	if err != nil {
		return err
	}

	n, err := cities.Load(ctx, rows(strings.NewReader(table)), &db.LoadOptions{
		BatchSize: 2, // for the demonstration; 0 makes batches of about 4 MiB
		Progress:  func(n int) { fmt.Println(n, "written") },
	})
	if err != nil {
		return err // n documents are written and stay
	}
	info, err := cities.Info()
	if err != nil {
		return err
	}
	fmt.Println(n, "cities of dimension", info.Schema.Dim)
	return nil
}

// rows yields one document per row; Load stops at the first error.
func rows(in io.Reader) iter.Seq2[db.Document, error] {
	return func(yield func(db.Document, error) bool) {
		r := csv.NewReader(in)
		if _, err := r.Read(); err != nil { // the header
			yield(db.Document{}, err)
			return
		}
		for {
			row, err := r.Read()
			if errors.Is(err, io.EOF) {
				return
			}
			var d db.Document
			if err == nil {
				d, err = city(row)
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

func city(row []string) (db.Document, error) {
	east, err1 := strconv.ParseFloat(row[1], 32)
	north, err2 := strconv.ParseFloat(row[2], 32)
	return db.Document{ID: row[0], Vector: []float32{float32(east), float32(north)}}, errors.Join(err1, err2)
}
