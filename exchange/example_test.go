package exchange_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/exchange"
)

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	vdb, err := db.Open(filepath.Join(dir, "notes.vdb"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer vdb.Close()
	notes, err := vdb.CreateCollection(ctx, "notes", db.Schema{}, nil)
	if err != nil {
		log.Fatal(err)
	}

	lines := `{"id": "b", "text": "beta", "vector": [0.5, 2], "metadata": {"year": 2026}}
{"id": "a", "text": "alpha", "vector": [1, 0]}
`
	for range 2 { // the second import finds nothing new
		report, err := exchange.Import(ctx, notes, exchange.Stream(strings.NewReader(lines), "lines"), nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("added", report.Added, "unchanged", report.Unchanged)
	}

	out := exchange.NewJSONLWriter(os.Stdout, db.Everything)
	for doc, err := range notes.All(ctx, nil, db.Everything) {
		if err != nil {
			log.Fatal(err)
		}
		if err := out.Write(doc); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// added 2 unchanged 0
	// added 0 unchanged 2
	// {"id":"b","text":"beta","metadata":{"year":2026},"vector":[0.5,2]}
	// {"id":"a","text":"alpha","metadata":{},"vector":[1,0]}
}
