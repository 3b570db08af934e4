package load_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/vecbolt/vecbolt/rag/load"
)

func ExampleRead() {
	const table = "title,year\nWrite-ahead logging,1992\nSkip lists,1990\n"
	for doc, err := range load.Read(context.Background(), "papers.csv", strings.NewReader(table), nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d %q %v\n", doc.Row, doc.Text, doc.Metadata)
	}
	// Output:
	// 1 "title: Write-ahead logging\nyear: 1992\n" map[title:Write-ahead logging year:1992]
	// 2 "title: Skip lists\nyear: 1990\n" map[title:Skip lists year:1990]
}

// A file that cannot be read is skipped with a reason.
func ExamplePath() {
	for doc, err := range load.Path(context.Background(), "notes", nil) {
		var skipped *load.SkipError
		if errors.As(err, &skipped) {
			log.Print(skipped)
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(doc.Source, doc.Format, len(doc.Text))
	}
}
