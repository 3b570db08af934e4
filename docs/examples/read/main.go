// Command read shows how to read documents without a vector to look for.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	vdb, err := db.Open("days.vdb", nil)
	if err != nil {
		return err
	}
	defer vdb.Close()
	days, err := vdb.OpenCollection(ctx, "days", db.Schema{})
	if err != nil {
		return err
	}
	for i, name := range []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"} {
		if _, err := days.Upsert(ctx, db.Document{ID: name, Metadata: db.Metadata{"n": i, "free": i > 4}}); err != nil {
			return err
		}
	}
	for _, show := range []func(context.Context, *db.Collection) error{get, pages, all} {
		if err := show(ctx, days); err != nil {
			return err
		}
	}
	return nil
}

func get(ctx context.Context, days *db.Collection) error {
	found, err := days.GetMany(ctx, []string{"sun", "noday", "mon"}, db.WithMetadata)
	if err != nil {
		return err
	}
	for _, d := range found {
		if d == nil {
			fmt.Println("not there")
			continue
		}
		fmt.Println(d.ID, d.Metadata["n"])
	}
	return nil
}

func pages(ctx context.Context, days *db.Collection) error {
	q := db.ListQuery{Where: filter.Eq("free", false), Limit: 3, Select: db.IDsOnly}
	for {
		page, err := days.List(ctx, q)
		if err != nil {
			return err
		}
		fmt.Print(page.Total, ":")
		for _, d := range page.Documents {
			fmt.Print(" ", d.ID)
		}
		fmt.Println()
		if page.Next == "" {
			return nil
		}
		q.After = page.Next
	}
}

func all(ctx context.Context, days *db.Collection) error {
	n, err := days.Count(ctx, filter.Gte("n", 5))
	if err != nil {
		return err
	}
	fmt.Println(n, "late in the week")
	for d, err := range days.All(ctx, filter.Gte("n", 5), db.IDsOnly) {
		if err != nil {
			return err
		}
		fmt.Println(d.ID)
	}
	return nil
}
