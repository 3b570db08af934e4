// Command errors tells failures apart.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"

	"github.com/vecbolt/vecbolt/db"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	vdb, err := db.Open("small.vdb", nil)
	if err != nil {
		return err
	}
	defer vdb.Close()
	points, err := vdb.OpenCollection(ctx, "points", db.Schema{Dim: 2})
	if err != nil {
		return err
	}

	_, err = points.Upsert(ctx, db.Document{ID: "p", Vector: []float32{1, 2, 3}})
	var wrong *db.DimensionError
	if errors.As(err, &wrong) {
		fmt.Println("dimension:", wrong.ID, wrong.Expected, wrong.Got)
	}

	_, err = points.Upsert(ctx, db.Document{ID: "p", Metadata: db.Metadata{"ratio": math.NaN()}})
	fmt.Println("invalid:", errors.Is(err, db.ErrInvalid), "-", err)

	_, err = vdb.OpenCollection(ctx, "points", db.Schema{Dim: 2, Metric: db.Dot})
	fmt.Println("schema:", errors.Is(err, db.ErrSchema), "-", err)

	_, err = db.Open("small.vdb", &db.Options{Exclusive: true})
	fmt.Println("locked:", errors.Is(err, db.ErrLocked))
	return nil
}
