package db

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkReplica publishes a database of 100,000 documents with vectors of 100 numbers and 200
// bytes of text each, and follows it: as it is, after a batch of 100 documents, and after that is
// flushed.
//
//	go test ./db -run '^$' -bench Replica -benchtime 20x
func BenchmarkReplica(b *testing.B) {
	const n, dim = 100_000, 100
	rng := rand.New(rand.NewPCG(1, 2))
	vdb := open(b, filepath.Join(b.TempDir(), "db"), &Options{Compaction: Manual})
	c := collection(b, vdb, "c", Schema{Dim: dim})
	next := 0
	docs := func(n int) []Document {
		docs := make([]Document, n)
		for i, v := range randomVectors(rng, n, dim) {
			docs[i] = Document{ID: fmt.Sprint(next), Vector: v, Text: strings.Repeat(fmt.Sprintf("%07d ", next), 25)}
			next++
		}
		return docs
	}
	for range n / 10_000 {
		upsert(b, c, docs(10_000)...)
	}
	if err := vdb.Compact(b.Context()); err != nil {
		b.Fatal(err)
	}
	folder := b.TempDir()
	p := publisher(b, vdb, folder, nil)
	first := publish(b, p)
	b.Run("publish/first", func(b *testing.B) {
		for range b.N {
			p := publisher(b, vdb, b.TempDir(), nil)
			publish(b, p)
		}
		b.ReportMetric(float64(first.Bytes), "bytes/op")
	})
	replica := open(b, folder, &Options{ReadOnly: true, Follow: byHand})
	change := func(b *testing.B, flushed bool) {
		upsert(b, c, docs(100)...)
		if flushed {
			flush(b, vdb)
		}
	}
	for _, way := range []string{"unchanged", "batch", "flushed"} {
		b.Run("publish/"+way, func(b *testing.B) {
			bytes := int64(0)
			for range b.N {
				b.StopTimer()
				if way != "unchanged" {
					change(b, way == "flushed")
				}
				b.StartTimer()
				bytes += publish(b, p).NewBytes
			}
			b.ReportMetric(float64(bytes)/float64(b.N), "bytes/op")
		})
	}
	for _, way := range []string{"unchanged", "batch", "flushed"} {
		b.Run("refresh/"+way, func(b *testing.B) {
			refresh(b, replica)
			for range b.N {
				b.StopTimer()
				if way != "unchanged" {
					change(b, way == "flushed")
					publish(b, p)
				}
				b.StartTimer()
				refresh(b, replica)
			}
		})
	}
}
