//go:build unix

package db

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cpuTime is the processor time of the process on all cores: on a busy machine it
// tells more than the clock.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkText loads 100,000 documents of 200 words, cut from the Cranfield
// abstracts in random order, with vectors of dimension 384, and asks the Cranfield
// queries by text, by vector and by both in turn: medians in milliseconds, and
// means of the processor's time. "more" is the time of a hybrid query beyond the
// sum of the other two. Its figures are from one run: -benchtime 1x.
func BenchmarkText(b *testing.B) {
	const rows, dim = 100_000, 384
	l := readLabelled(b)
	r := rand.New(rand.NewPCG(1, 2))
	var words []string
	var bytes int64
	text := func() string {
		for len(words) < 200 {
			words = append(words, strings.Fields(l.docs[r.IntN(len(l.docs))].Text)...)
		}
		s := strings.Join(words[:200], " ")
		words = words[200:]
		bytes += int64(len(s))
		return s
	}
	docs := make([]Document, rows)
	for i := range docs {
		docs[i] = Document{ID: fmt.Sprint(i), Text: text(), Vector: randomVectors(r, 1, dim)[0]}
	}
	load := func(s Schema) (*DB, *Collection, time.Duration, time.Duration) {
		vdb := open(b, b.TempDir(), &Options{Sync: SyncNever})
		c := collection(b, vdb, "c", s)
		start, cpu := time.Now(), cpuTime(b)
		for batch := range slices.Chunk(docs, 1000) {
			upsert(b, c, batch...)
		}
		if err := vdb.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
		return vdb, c, time.Since(start), cpuTime(b) - cpu
	}
	for b.Loop() {
		_, _, plain, plainCPU := load(Schema{})
		vdb, c, indexed, indexedCPU := load(Schema{Text: &TextIndex{}})
		b.ReportMetric(rows/plain.Seconds(), "plain-docs/s")
		b.ReportMetric(rows/indexed.Seconds(), "indexed-docs/s")
		b.ReportMetric(rows/(indexedCPU-plainCPU).Seconds(), "indexed-docs/cpu-s")
		if err := vdb.Compact(b.Context()); err != nil {
			b.Fatal(err)
		}
		var size int64
		for _, s := range segmentsOf(vdb) {
			n, err := vdb.engine.FS.Size(s.Terms.File())
			if err != nil {
				b.Fatal(err)
			}
			size += n
		}
		b.ReportMetric(float64(size)/float64(bytes), "index/text")
		var times [3][]float64
		var more []float64
		var cpu [3]time.Duration
		for round := range 3 {
			for i, q := range l.queries {
				var took [3]float64
				for kind, q := range []Query{{Text: q.Text}, {Near: Vector(docs[i].Vector)}, {Text: q.Text, Near: Vector(docs[i].Vector)}} {
					q.Select = IDsOnly
					start, used := time.Now(), cpuTime(b)
					if _, err := c.Search(b.Context(), q); err != nil {
						b.Fatal(err)
					}
					took[kind] = float64(time.Since(start)) / 1e6
					if round > 0 {
						cpu[kind] += cpuTime(b) - used
					}
				}
				if round > 0 { // the first one warms up
					for kind, t := range took {
						times[kind] = append(times[kind], t)
					}
					more = append(more, took[2]-took[0]-took[1])
				}
			}
		}
		for kind, name := range []string{"text", "vector", "hybrid"} {
			slices.Sort(times[kind])
			b.ReportMetric(times[kind][len(times[kind])/2], name+"-ms")
			b.ReportMetric(float64(cpu[kind])/1e6/float64(len(times[kind])), name+"-cpu-ms")
		}
		slices.Sort(more)
		b.ReportMetric(more[len(more)/2], "more-ms")
		b.ReportMetric(times[0][len(times[0])*99/100], "text-p99-ms")
	}
}
