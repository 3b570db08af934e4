package db

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// labelled holds documents, queries and relevance judgements, and word vectors to embed
// them with. The data are not part of the repository.
type labelled struct {
	docs    []Document
	queries []Query
	gains   []map[string]float64 // by query
}

const labelledData = "../../shared/data"

func readLabelled(t testing.TB) *labelled {
	t.Helper()
	lines := func(name string, each func(string)) {
		f, err := os.Open(filepath.Join(labelledData, name))
		if errors.Is(err, fs.ErrNotExist) {
			t.Skipf("%s is not there", filepath.Join(labelledData, name))
		}
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			each(s.Text())
		}
	}
	vectors := map[string][]byte{}
	file, err := os.ReadFile(filepath.Join(labelledData, "glove100k/base.fvecs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	const dim = 100
	row := 0
	lines("glove100k/base.txt", func(word string) {
		vectors[word] = file[row*(4+4*dim)+4:][:4*dim]
		row++
	})
	embed := func(text string) []float32 {
		v := make([]float32, dim)
		for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !(r >= 'a' && r <= 'z') }) {
			if b := vectors[w]; b != nil {
				for i := range v {
					v[i] += math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
				}
			}
		}
		return v
	}
	type record struct {
		ID   string `json:"_id"`
		Text string `json:"text"`
	}
	l := &labelled{}
	read := func(name string, each func(record)) {
		lines(name, func(line string) {
			var r record
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			each(r)
		})
	}
	read("cranfield/corpus.jsonl", func(r record) {
		l.docs = append(l.docs, Document{ID: r.ID, Text: r.Text, Vector: embed(r.Text)})
	})
	at := map[string]int{}
	read("cranfield/queries.jsonl", func(r record) {
		at[r.ID] = len(l.queries)
		l.queries = append(l.queries, Query{Text: r.Text, Near: Vector(embed(r.Text))})
		l.gains = append(l.gains, map[string]float64{})
	})
	lines("cranfield/qrels.tsv", func(line string) {
		f := strings.Fields(line)
		if g, err := strconv.ParseFloat(f[2], 64); err == nil {
			l.gains[at[f[0]]][f[1]] = g
		}
	})
	return l
}

// mean returns the mean nDCG@10, as trec_eval defines it, of the queries of l after
// change.
func (l *labelled) mean(t testing.TB, c *Collection, change func(Query) Query) float64 {
	t.Helper()
	sum := 0.0
	for i, q := range l.queries {
		q = change(q)
		q.K, q.Select = 10, IDsOnly
		r, err := c.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		var ideal []float64
		for _, g := range l.gains[i] {
			ideal = append(ideal, g)
		}
		slices.Sort(ideal)
		slices.Reverse(ideal)
		dcg, most := 0.0, 0.0
		for rank := range 10 {
			discount := math.Log2(float64(rank) + 2)
			if rank < len(r.Hits) {
				dcg += l.gains[i][r.Hits[rank].ID] / discount
			}
			if rank < len(ideal) {
				most += ideal[rank] / discount
			}
		}
		sum += dcg / most
	}
	return sum / float64(len(l.queries))
}

// TestFusionOnCranfield holds the default weights to their purpose: with a weak vector
// model, fusion is no worse than text alone.
func TestFusionOnCranfield(t *testing.T) {
	l := readLabelled(t)
	coll := openText(t, Schema{Text: &TextIndex{}}, l.docs...)
	only := func(f func(*Query)) func(Query) Query {
		return func(q Query) Query { f(&q); return q }
	}
	byText := l.mean(t, coll, only(func(q *Query) { q.Near = nil }))
	byVector := l.mean(t, coll, only(func(q *Query) { q.Text = "" }))
	t.Logf("nDCG@10: text %.4f, vector %.4f", byText, byVector)
	if testing.Verbose() {
		for _, m := range []FusionMethod{RRF, Convex} {
			line := fmt.Sprint(m)
			for _, w := range []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5} {
				got := l.mean(t, coll, only(func(q *Query) { q.Fusion = Fusion{Method: m, Vector: w, Text: 1 - w} }))
				line += fmt.Sprintf("  %.2f: %.4f", w, got)
			}
			t.Log(line)
		}
	}
	for _, m := range []FusionMethod{RRF, Convex} {
		fused := l.mean(t, coll, only(func(q *Query) { q.Fusion.Method = m }))
		t.Logf("nDCG@10: %v with default weights %.4f", m, fused)
		if fused < byText {
			t.Errorf("%v: %.4f, by text alone %.4f", m, fused, byText)
		}
	}
}
