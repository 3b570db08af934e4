package terms

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/internal/topk"
	"github.com/vecbolt/vecbolt/text"
)

// cranfield is a classic test collection of 1,400 abstracts; it is not part of the repository.
const cranfield = "../../../shared/data/cranfield/"

// record is a line of corpus.jsonl or queries.jsonl.
type record struct {
	ID    string `json:"_id"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

func readLines(t testing.TB, name string, each func(line []byte)) {
	t.Helper()
	f, err := os.Open(cranfield + name)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the Cranfield collection is not at " + cranfield)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		each(lines.Bytes())
	}
}

func records(t testing.TB, name string) (all []record) {
	t.Helper()
	readLines(t, name, func(line []byte) {
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	})
	return all
}

// shuffled makes texts of 200 words each, cut from the abstracts in random order.
func shuffled(t testing.TB, n int) []string {
	r := rand.New(rand.NewPCG(1, 2))
	docs := records(t, "corpus.jsonl")
	var words []string
	texts := make([]string, n)
	for i := range texts {
		for len(words) < 200 {
			words = append(words, strings.Fields(docs[r.IntN(len(docs))].Text)...)
		}
		texts[i] = strings.Join(words[:200], " ")
		words = words[200:]
	}
	return texts
}

// BenchmarkCollection indexes 100,000 texts of 200 words, as head, file and merger of two files,
// and runs the Cranfield queries on the file, on one core. Its figures are of one run: -benchtime
// 1x.
func BenchmarkCollection(b *testing.B) {
	const n = 100_000
	texts := shuffled(b, n)
	a := analyzer(b, "english")
	size := 0
	for _, s := range texts {
		size += len(s)
	}
	for b.Loop() {
		start := time.Now()
		halves := []*Index{NewIndex(), NewIndex()}
		scanner := a.Scanner()
		var tokens []text.Token
		for i, s := range texts {
			tokens, _ = scanner.Tokens(tokens[:0], s)
			halves[2*i/n].Add(tokens)
		}
		indexed := time.Since(start)
		start = time.Now()
		var files []Input
		for i, x := range halves {
			rows := make([]uint32, n/2)
			for row := range rows {
				rows[row] = uint32(row + i*n/2)
			}
			files = append(files, Input{file(b, Ident{Rows: n / 2}, Input{Source: x.View(n / 2)}), rows})
		}
		written := time.Since(start)
		start = time.Now()
		whole, err := Build(Ident{Rows: n}, files...)
		merged := time.Since(start)
		if err != nil {
			b.Fatal(err)
		}
		f, err := Parse(whole, Ident{Rows: n})
		if err != nil {
			b.Fatal(err)
		}
		var prepare, search []float64
		offered := 0
		var buf Buffer
		for range 2 {
			prepare, search, offered = nil, nil, 0
			for _, q := range records(b, "queries.jsonl") {
				start := time.Now()
				s, err := Prepare(context.Background(), a.Parse(q.Text), Params{1.2, 0.75}, []Part{{Source: f}})
				if err != nil {
					b.Fatal(err)
				}
				prepare = append(prepare, float64(time.Since(start))/1e3)
				c := topk.New(10, math.Inf(-1))
				if err := s.Scan(0, 0, n, nil, c, &buf); err != nil {
					b.Fatal(err)
				}
				found := topk.Merge(c)
				for _, cand := range found {
					if _, err := s.Score(0, int(cand.Row)); err != nil {
						b.Fatal(err)
					}
				}
				offered += len(found)
				search = append(search, float64(time.Since(start))/1e3)
			}
		}
		at := func(v []float64, share float64) float64 { slices.Sort(v); return v[int(share*float64(len(v)))] }
		b.ReportMetric(n/indexed.Seconds(), "indexed/s")
		b.ReportMetric(n/written.Seconds(), "written/s")
		b.ReportMetric(n/merged.Seconds(), "merged/s")
		b.ReportMetric(float64(len(whole))/float64(size), "of-the-text")
		b.ReportMetric(at(prepare, 0.5), "prepare-us")
		b.ReportMetric(at(search, 0.5), "query-p50-us")
		b.ReportMetric(at(search, 0.99), "query-p99-us")
		b.ReportMetric(float64(offered)/float64(len(search)), "scored")
	}
}
