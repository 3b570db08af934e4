package rag

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag/split"
)

// BenchmarkIndexer splits, embeds and writes documents of some 90 words, in chunks of at most 64
// tokens.
func BenchmarkIndexer(b *testing.B) {
	s, err := split.New(split.Recursive(), split.Options{MaxTokens: 64, Overlap: 8})
	if err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{1000, 10_000} {
		docs := make([]db.Document, n)
		for i := range docs {
			var text strings.Builder
			for j := range 8 {
				fmt.Fprintf(&text, "%s As said in note %d. ", notes[(i+j)%len(notes)].text, i*7919%n+j)
			}
			docs[i] = db.Document{ID: fmt.Sprint(i), Text: text.String()}
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			chunks := 0
			for b.Loop() {
				b.StopTimer()
				x := indexer(b, emptyCollection(b), newCounted(b), IndexerOptions{Split: s})
				b.StartTimer()
				ids, err := x.Index(b.Context(), docs...)
				if err != nil {
					b.Fatal(err)
				}
				chunks += len(ids)
			}
			b.ReportMetric(float64(chunks)/b.Elapsed().Seconds(), "chunks/s")
		})
	}
}
