package split_test

import (
	"context"
	"fmt"
	"log"

	"github.com/vecbolt/vecbolt/rag/split"
)

func Example() {
	const text = "# Log\n\nThe log is written before memory.\n\n## Groups\n\nWriters share one sync.\n"
	s, err := split.New(split.Markdown("Design"), split.Options{MaxTokens: 16, Overlap: -1})
	if err != nil {
		log.Fatal(err)
	}
	chunks, err := s.Split(context.Background(), text)
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range chunks {
		fmt.Printf("%d %q under %q\n", c.Offset, c.Text, c.Header)
	}
	// Output:
	// 0 "# Log\n\nThe log is written before memory." under "Design › Log"
	// 42 "## Groups\n\nWriters share one sync." under "Design › Log › Groups"
}
