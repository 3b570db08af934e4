//go:build unix

package db

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// BenchmarkHybrid searches 50,000 documents of dimension 64 for ten, with a text of three
// words and a vector. "exact" is the share of exact answers.
func BenchmarkHybrid(b *testing.B) {
	const rows, dim = 50_000, 64
	r := rand.New(rand.NewPCG(4, 4))
	word := func() string { return fmt.Sprint("w", int(3000*r.Float64()*r.Float64()*r.Float64())) }
	text := func(n int) string {
		words := make([]string, n)
		for i := range words {
			words[i] = word()
		}
		return strings.Join(words, " ")
	}
	vdb := open(b, b.TempDir(), &Options{Sync: SyncNever})
	c := collection(b, vdb, "c", Schema{Dim: dim, Text: &TextIndex{Language: "none"}})
	for range rows / 1000 {
		docs := make([]Document, 1000)
		for i, v := range randomVectors(r, len(docs), dim) {
			docs[i] = Document{Vector: v, Text: text(30)}
		}
		upsert(b, c, docs...)
	}
	if err := vdb.Compact(b.Context()); err != nil {
		b.Fatal(err)
	}
	queries := make([]Query, 64)
	for i, v := range randomVectors(r, len(queries), dim) {
		queries[i] = Query{Near: Vector(v), Text: text(3), Select: IDsOnly}
	}
	for _, method := range []FusionMethod{Convex, RRF} {
		for _, exact := range []bool{false, true} {
			b.Run(fmt.Sprintf("%v/exact=%v", method, exact), func(b *testing.B) {
				n, certain := 0, 0
				cpu := cpuTime(b)
				for b.Loop() {
					q := queries[n%len(queries)]
					q.Fusion.Method = method
					if exact {
						q.Accuracy = Exact
					}
					res, err := c.Search(b.Context(), q)
					if err != nil {
						b.Fatal(err)
					}
					if n++; res.Exact {
						certain++
					}
				}
				b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/float64(n), "cpu-us/op")
				b.ReportMetric(float64(certain)/float64(n), "exact")
			})
		}
	}
}
