package terms

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/text"
)

// TestRankingOfFTS5 gives SQLite's FTS5 the terms of the Cranfield collection. Its bm25() is the
// sum that this package defines, but for another idf: with that one, the definition gives the same
// scores, and with ours about the same ranking.
func TestRankingOfFTS5(t *testing.T) {
	sqlite, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Skip("there is no sqlite3 on this machine")
	}
	docs, queries := records(t, "corpus.jsonl"), records(t, "queries.jsonl")[:60]
	a := analyzer(t, "english")
	scanner := a.Scanner()
	ids := map[string]string{} // of terms, as words that FTS5 leaves alone
	word := func(term string) string {
		if ids[term] == "" {
			ids[term] = "t" + strconv.Itoa(len(ids))
		}
		return ids[term]
	}
	var script strings.Builder
	script.WriteString("create virtual table docs using fts5(words);\nbegin;\n")
	c := corpus{}
	x := NewIndex()
	for _, d := range docs {
		tokens, _ := scanner.Tokens(nil, d.Text)
		if len(tokens) == 0 {
			continue // counts as a document in FTS5
		}
		c.docs, c.live = append(c.docs, tokens), append(c.live, true)
		x.Add(tokens)
		script.WriteString("insert into docs values('")
		for _, tok := range tokens {
			script.WriteString(word(tok.Term) + " ")
		}
		script.WriteString("');\n")
	}
	script.WriteString("commit;\n")
	f := file(t, Ident{Rows: len(c.docs)}, Input{Source: x.View(len(c.docs))})

	asked := make([]text.Query, len(queries))
	for i, q := range queries {
		var terms, words []string
		for _, cl := range a.Parse(q.Text).Clauses {
			for _, tok := range cl.Tokens {
				if !slices.Contains(terms, tok.Term) {
					terms, words = append(terms, tok.Term), append(words, word(tok.Term))
					asked[i].Clauses = append(asked[i].Clauses, text.Clause{Tokens: []text.Token{tok}})
				}
			}
		}
		fmt.Fprintf(&script, "select %d, rowid-1, printf('%%.17g', -bm25(docs)) from docs where docs match '%s' order by 3;\n", i, strings.Join(words, " OR "))
	}
	cmd := exec.CommandContext(t.Context(), sqlite, "-batch", ":memory:")
	cmd.Stdin = strings.NewReader(script.String())
	out, err := cmd.CombinedOutput()
	if err != nil {
		if strings.Contains(string(out), "fts5") {
			t.Skipf("sqlite3 has no FTS5: %.200s", out)
		}
		t.Fatalf("%v: %.500s", err, out)
	}
	theirs := make([]map[int]float64, len(queries))
	for line := range strings.Lines(string(out)) {
		var query, doc int
		var score float64
		if _, err := fmt.Sscanf(strings.ReplaceAll(strings.TrimSpace(line), "|", " "), "%d %d %g", &query, &doc, &score); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if theirs[query] == nil {
			theirs[query] = map[int]float64{}
		}
		theirs[query][doc] = score
	}
	ftsIDF := func(all, n uint64) float64 {
		return max(1e-6, math.Log((float64(all-n)+0.5)/(float64(n)+0.5)))
	}
	p := Params{K1: 1.2, B: 0.75}
	same, of := 0, 0
	for i, q := range asked {
		ours, _ := c.search(q, p, ftsIDF)
		if len(ours) != len(theirs[i]) {
			t.Fatalf("query %q: %d hits, FTS5 has %d", queries[i].Text, len(ours), len(theirs[i]))
		}
		for _, h := range ours {
			if want := theirs[i][h.doc]; math.Abs(h.score-want) > 1e-9*want {
				t.Fatalf("query %q, document %d: score %v, FTS5 says %v", queries[i].Text, h.doc, h.score, want)
			}
		}
		s, err := Prepare(context.Background(), q, p, []Part{{Source: f}})
		if err != nil {
			t.Fatal(err)
		}
		got := best(t, s, 10)
		for _, h := range got {
			if slices.ContainsFunc(ours[:min(10, len(ours))], func(o hit) bool { return o.doc == h.doc }) {
				same++
			}
		}
		of += len(got)
	}
	t.Logf("%d queries: scores with the idf of FTS5 are equal; %d of %d best tens are the same with ours", len(asked), same, of)
	if float64(same) < 0.9*float64(of) {
		t.Errorf("only %d of %d", same, of)
	}
}

// best returns the k best rows of the only part.
func best(t *testing.T, s *Search, k int) []hit {
	t.Helper()
	hits := top(t, s, []Part{s.parts[0].Part}, k, window, nil)
	slices.SortFunc(hits, func(a, b hit) int { return cmp.Or(cmp.Compare(b.score, a.score), a.doc-b.doc) })
	return hits[:min(k, len(hits))]
}

// nDCG at 10 as trec_eval computes it (ndcg_cut_10).
func nDCG(ranked []string, gains map[string]float64) float64 {
	ideal := make([]float64, 0, len(gains))
	for _, g := range gains {
		ideal = append(ideal, max(0, g))
	}
	slices.Sort(ideal)
	slices.Reverse(ideal)
	dcg, most := 0.0, 0.0
	for i := range 10 {
		discount := math.Log2(float64(i) + 2)
		if i < len(ranked) {
			dcg += max(0, gains[ranked[i]]) / discount
		}
		if i < len(ideal) {
			most += ideal[i] / discount
		}
	}
	if most == 0 {
		return 0
	}
	return dcg / most
}

// TestCranfield measures what the analysis is worth on a test collection.
func TestCranfield(t *testing.T) {
	docs, queries := records(t, "corpus.jsonl"), records(t, "queries.jsonl")
	qrels := map[string]map[string]float64{}
	readLines(t, "qrels.tsv", func(line []byte) {
		f := strings.Fields(string(line))
		if g, err := strconv.ParseFloat(f[2], 64); err == nil {
			if qrels[f[0]] == nil {
				qrels[f[0]] = map[string]float64{}
			}
			qrels[f[0]][f[1]] = g
		}
	})
	// exponential is the gain 2^j - 1 of a judgement j, in place of j itself: that of Burges et al.
	// 2005, which others report.
	mean := func(a *text.Analyzer, p Params, titles, exponential bool) float64 {
		scanner := a.Scanner()
		x := NewIndex()
		for _, d := range docs {
			if titles {
				d.Text = d.Title + " " + d.Text
			}
			tokens, _ := scanner.Tokens(nil, d.Text)
			x.Add(tokens)
		}
		f := file(t, Ident{Rows: len(docs)}, Input{Source: x.View(len(docs))})
		sum, n := 0.0, 0
		for _, q := range queries {
			if qrels[q.ID] == nil {
				continue
			}
			s, err := Prepare(context.Background(), a.Parse(q.Text), p, []Part{{Source: f}})
			if err != nil {
				t.Fatal(err)
			}
			var ranked []string
			for _, h := range best(t, s, 10) {
				ranked = append(ranked, docs[h.doc].ID)
			}
			gains := maps.Clone(qrels[q.ID])
			for id, j := range gains {
				if exponential {
					gains[id] = math.Exp2(j) - 1
				}
			}
			sum += nDCG(ranked, gains)
			n++
		}
		return sum / float64(n)
	}
	p := Params{K1: 1.2, B: 0.75}
	for _, titles := range []bool{false, true} {
		for _, exponential := range []bool{false, true} {
			plain, english := mean(analyzer(t, "none"), p, titles, exponential), mean(analyzer(t, "english"), p, titles, exponential)
			t.Logf("nDCG@10: none %.4f, english %.4f; titles %t, exponential gain %t", plain, english, titles, exponential)
			least := 0.49
			if titles && exponential {
				least = 0.515
			}
			if plain < least || english < 0.52 || english < plain {
				t.Errorf("nDCG@10: none %.4f, english %.4f", plain, english)
			}
		}
	}
}
