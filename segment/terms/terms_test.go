package terms

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/topk"
	"github.com/vecbolt/vecbolt/text"
)

func analyzer(t testing.TB, language string) *text.Analyzer {
	t.Helper()
	a, err := text.New(language)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A corpus is documents as a plain list: the reference of everything.
type corpus struct {
	docs [][]text.Token
	live []bool
}

func (c *corpus) lengths() (texts, tokens uint64) {
	for i, d := range c.docs {
		if c.live[i] && len(d) > 0 {
			texts, tokens = texts+1, tokens+uint64(len(d))
		}
	}
	return texts, tokens
}

// frequency is how often a document has a unit.
func frequency(doc []text.Token, u *unit) uint32 {
	n := uint32(0)
	for _, t := range doc {
		switch u.kind {
		case aTerm:
			if t.Term == u.tokens[0].Term {
				n++
			}
		case aPrefix:
			if strings.HasPrefix(t.Term, u.tokens[0].Term) || len(u.tokens) > 1 && t.Term == u.tokens[1].Term {
				n++
			}
		case aPhrase:
			all := t.Term == u.tokens[0].Term
			for _, want := range u.tokens[1:] {
				all = all && slices.ContainsFunc(doc, func(o text.Token) bool {
					return o.Term == want.Term && o.Position-t.Position == want.Position-u.tokens[0].Position
				})
			}
			if all {
				n++
			}
		}
	}
	return n
}

// hit is a document with its score.
type hit struct {
	doc   int
	score float64
}

// same says what it means that two units are one.
func same(u, v *unit) bool {
	return u.kind == v.kind && slices.EqualFunc(u.tokens, v.tokens, func(a, b text.Token) bool {
		return a.Term == b.Term && a.Position-u.tokens[0].Position == b.Position-v.tokens[0].Position
	})
}

// search scores every document by the definition.
func (c *corpus) search(q text.Query, p Params, idf func(all, n uint64) float64) (hits []hit, matches []bool) {
	var units []unit
	for i := range q.Clauses {
		if q.Clauses[i].Occur != text.MustNot {
			for _, u := range unitsOf(&q.Clauses[i]) {
				u.count = 1
				if at := slices.IndexFunc(units, func(v unit) bool { return same(&v, &u) }); at >= 0 {
					units[at].count++
				} else {
					units = append(units, u)
				}
			}
		}
	}
	texts, tokens := c.lengths()
	for i := range units {
		for d, doc := range c.docs {
			if c.live[d] && frequency(doc, &units[i]) > 0 {
				units[i].n++
			}
		}
	}
	rate := 0.0
	if tokens > 0 {
		rate = float64(p.K1*p.B) * float64(texts) / float64(tokens)
	}
	matches = make([]bool, len(c.docs))
	for d, doc := range c.docs {
		allowed, conditions := true, false
		for i := range q.Clauses {
			cl := &q.Clauses[i]
			if cl.Occur == text.Should {
				continue
			}
			u := condition(cl)
			conditions = true
			allowed = allowed && (frequency(doc, &u) > 0) == (cl.Occur == text.Must)
		}
		score := 0.0
		for _, u := range units {
			if f := frequency(doc, &u); f > 0 {
				norm := float64(p.K1*(1-p.B)) + float64(rate*float64(len(doc)))
				score += float64(float64(u.count*idf(texts, uint64(u.n)))*(p.K1+1)*float64(f)) / (float64(f) + norm)
			}
		}
		matches[d] = allowed && (score > 0 || len(units) == 0 && conditions)
		if allowed && score > 0 && c.live[d] {
			hits = append(hits, hit{d, score})
		}
	}
	slices.SortFunc(hits, func(a, b hit) int { return cmp.Or(cmp.Compare(b.score, a.score), a.doc-b.doc) })
	return hits, matches
}

// A place is where a document is.
type place struct{ part, row int }

// spread puts documents into sources: files, merged files, views of growing indexes. Some files
// lack rows that are dead.
func (c *corpus) spread(t *rapid.T) (parts []Part, where map[place]int) {
	where = map[place]int{}
	for at := 0; at < len(c.docs); {
		n := rapid.IntRange(1, len(c.docs)-at).Draw(t, "rows")
		docs := make([]int, n)
		x := NewIndex()
		for i := range n {
			docs[i] = at + i
			x.Add(c.docs[at+i])
		}
		var src Source
		switch rapid.SampledFrom([]string{"view", "view of more", "file", "merged"}).Draw(t, "source") {
		case "view":
			src = x.View(n)
		case "view of more":
			v := x.View(n)
			for range 300 {
				x.Add(c.docs[rapid.IntRange(0, len(c.docs)-1).Draw(t, "more")])
			}
			src = v
		case "file":
			src = file(t, Ident{Rows: n}, Input{Source: x.View(n)})
		case "merged":
			// Two indexes with rows that interleave; dead ones are left out.
			two := [2]*Index{NewIndex(), NewIndex()}
			rows := [2][]uint32{}
			docs = docs[:0]
			for i := range n {
				k := rapid.IntRange(0, 1).Draw(t, "which")
				two[k].Add(c.docs[at+i])
				if !c.live[at+i] && rapid.Bool().Draw(t, "drop") {
					rows[k] = append(rows[k], Dropped)
					continue
				}
				rows[k] = append(rows[k], uint32(len(docs)))
				docs = append(docs, at+i)
			}
			if len(docs) > 0 {
				src = file(t, Ident{Rows: len(docs)}, Input{two[0].View(len(rows[0])), rows[0]}, Input{two[1].View(len(rows[1])), rows[1]})
			}
		}
		at += n
		if src == nil {
			continue
		}
		p := Part{Source: src, Live: bitset.New(len(docs))}
		all := true
		for row, d := range docs {
			where[place{len(parts), row}] = d
			if c.live[d] {
				p.Live.Set(row)
			} else {
				all = false
			}
		}
		if all && rapid.Bool().Draw(t, "nil") {
			p.Live = nil
		}
		parts = append(parts, p)
	}
	return parts, where
}

type fataler interface {
	Helper()
	Fatal(...any)
}

func file(t fataler, ident Ident, inputs ...Input) *Terms {
	t.Helper()
	b, err := Build(ident, inputs...)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse(b, ident)
	if err == nil {
		err = f.Verify()
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// top runs a search for the k best.
func top(t fataler, s *Search, parts []Part, k, step int, sets []bitset.Set) []hit {
	t.Helper()
	c := topk.New(k, math.Inf(-1))
	var buf Buffer
	for i, p := range parts {
		set := p.Live
		if sets != nil {
			set = sets[i]
		}
		if r := s.Restriction(i); r != nil {
			if set == nil {
				set = r
			} else {
				set = slices.Clone(set)
				set.And(r)
			}
		}
		for lo := 0; lo < p.Rows(); lo += step {
			if err := s.Scan(i, lo, min(lo+step, p.Rows()), set, c, &buf); err != nil {
				t.Fatal(err)
			}
		}
	}
	var hits []hit
	for _, cand := range topk.Merge(c) {
		score, err := s.Score(int(cand.Part), int(cand.Row))
		if err != nil {
			t.Fatal(err)
		}
		if score > cand.Upper {
			t.Fatal(fmt.Sprintf("score %v above its bound %v", score, cand.Upper))
		}
		hits = append(hits, hit{int(cand.Part)<<32 | int(cand.Row), score})
	}
	return hits
}

var vocabulary = strings.Fields(`a the of wing flow flows flowing heat layer bound boundary boundaries shock mach getHTTPServer http_server server x 東京 東京都 水`)

// The k best rows, with the bits of their scores, are those of the definition, however documents
// are spread over sources.
func TestSearchIsTheDefinition(t *testing.T) {
	for _, language := range []string{"none", "english"} {
		a := analyzer(t, language)
		scanner := a.Scanner()
		rapid.Check(t, func(t *rapid.T) {
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			c := corpus{docs: make([][]text.Token, rapid.SampledFrom([]int{1, 5, 60, 700}).Draw(t, "docs"))}
			common := rapid.SampledFrom([]float64{0.5, 2, 6}).Draw(t, "skew")
			words := func(most int) string {
				n := r.IntN(most + 1)
				if r.IntN(30) == 0 {
					n *= 20
				}
				w := make([]string, n)
				for i := range w {
					w[i] = vocabulary[int(math.Pow(r.Float64(), common)*float64(len(vocabulary)))]
				}
				return strings.Join(w, " ")
			}
			dead := rapid.SampledFrom([]int{0, 10, 60}).Draw(t, "dead")
			for i := range c.docs {
				c.docs[i], _ = scanner.Tokens(nil, words(12))
				c.live = append(c.live, r.IntN(100) >= dead)
			}
			parts, where := c.spread(t)
			for range 4 {
				query := ""
				for range 1 + r.IntN(5) {
					w := words(1)
					switch r.IntN(10) {
					case 0:
						w = "+" + w
					case 1:
						w = "-" + w
					case 2:
						w = `"` + words(3) + `"`
					case 3:
						w = `+"` + words(2) + `"`
					case 4:
						w = w[:min(len(w), 2)] + "*"
					}
					query += w + " "
				}
				q := a.Parse(query)
				p := Params{K1: []float64{1.2, 0, 2}[r.IntN(3)], B: []float64{0.75, 0, 1}[r.IntN(3)]}
				s, err := Prepare(context.Background(), q, p, parts)
				if err != nil {
					t.Fatal(err)
				}
				want, matches := c.search(q, p, idf)
				for i, part := range parts {
					got, err := s.Matches(i)
					if err != nil {
						t.Fatal(err)
					}
					for row := range part.Rows() {
						if doc := where[place{i, row}]; got.Has(row) != matches[doc] {
							t.Fatalf("query %q: document %d: matches %v, want %v", query, doc, got.Has(row), matches[doc])
						}
					}
				}
				// A filter on top.
				var sets []bitset.Set
				if share := r.IntN(4); share < 3 {
					allowed := map[int]bool{}
					for i, part := range parts {
						set := bitset.New(part.Rows())
						for row := range part.Rows() {
							if doc := where[place{i, row}]; c.live[doc] && r.IntN([]int{2, 20, 200}[share]) == 0 {
								set.Set(row)
								allowed[doc] = true
							}
						}
						sets = append(sets, set)
					}
					want = slices.DeleteFunc(want, func(h hit) bool { return !allowed[h.doc] })
				}
				k := []int{1, 3, 10, 1000}[r.IntN(4)]
				got := top(t, s, parts, k, []int{7, 100, 5000}[r.IntN(3)], sets)
				for i := range got {
					got[i].doc = where[place{got[i].doc >> 32, got[i].doc & math.MaxUint32}]
				}
				slices.SortFunc(got, func(a, b hit) int { return cmp.Or(cmp.Compare(b.score, a.score), a.doc-b.doc) })
				want, got = want[:min(k, len(want))], got[:min(k, len(got))]
				if !slices.Equal(got, want) {
					t.Fatalf("query %q (%+v): the %d best\n got %v\nwant %v", query, q, k, got, want)
				}
			}
		})
	}
}

func TestLogarithm(t *testing.T) {
	for x := 1.0; x < 1e12; x *= 1.0037 {
		if got, want := logarithm(x), math.Log(x); math.Abs(got-want) > 4e-16*max(1, want) {
			t.Errorf("logarithm(%v) = %v, want %v", x, got, want)
		}
	}
	if logarithm(1) != 0 {
		t.Errorf("logarithm(1) = %v", logarithm(1))
	}
}

// Many postings: skip tables, blocks over windows, pruning.
func TestManyRows(t *testing.T) {
	a := analyzer(t, "none")
	scanner := a.Scanner()
	r := rand.New(rand.NewPCG(1, 2))
	const n = 20_000
	c := corpus{docs: make([][]text.Token, n), live: make([]bool, n)}
	x := NewIndex()
	live := bitset.New(n)
	for i := range n {
		var words []string
		for range 3 + r.IntN(20) {
			words = append(words, fmt.Sprint("w", int(math.Pow(r.Float64(), 5)*1000)))
		}
		c.docs[i], _ = scanner.Tokens(nil, strings.Join(words, " "))
		if c.live[i] = r.IntN(50) > 0; c.live[i] {
			live.Set(i)
		}
		x.Add(c.docs[i])
	}
	f := file(t, Ident{Rows: n}, Input{Source: x.View(n)})
	for _, src := range []Source{f, x.View(n)} {
		parts := []Part{{src, live}}
		for _, query := range []string{"w0", "w0 w1 w2 w900", "w999 w0", "w3 w500 w501 w502 w1", `"w0 w1"`, "w1* -w0", "+w7 w0 w1"} {
			q := a.Parse(query)
			s, err := Prepare(context.Background(), q, Params{1.2, 0.75}, parts)
			if err != nil {
				t.Fatal(err)
			}
			want, _ := c.search(q, Params{1.2, 0.75}, idf)
			got := top(t, s, parts, 10, n, nil)
			slices.SortFunc(got, func(a, b hit) int { return cmp.Or(cmp.Compare(b.score, a.score), a.doc-b.doc) })
			if got = got[:min(10, len(got))]; !slices.Equal(got, want[:min(10, len(want))]) {
				t.Errorf("%s:\n got %v\nwant %v", query, got, want[:min(10, len(want))])
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	x := NewIndex()
	scanner := analyzer(t, "").Scanner()
	tokens, _ := scanner.Tokens(nil, "some words in a row")
	x.Add(tokens)
	ident := Ident{DB: [16]byte{1}, Segment: 2, Rows: 1, CRC: 3, Analysis: [16]byte{4}}
	b, err := Build(ident, Input{Source: x.View(1)})
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Ident){
		"database": func(i *Ident) { i.DB[15] = 1 }, "segment": func(i *Ident) { i.Segment++ }, "rows": func(i *Ident) { i.Rows++ },
		"checksum": func(i *Ident) { i.CRC++ }, "analysis": func(i *Ident) { i.Analysis[0]++ },
		"documents": func(i *Ident) { i.Docs[15]++ },
	} {
		other := ident
		change(&other)
		if _, err := Parse(b, other); !errors.Is(err, fileformat.ErrMismatch) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	for i := range b {
		bad := slices.Clone(b)
		bad[i] ^= 0x10
		f, err := Parse(bad, ident)
		if err == nil {
			err = f.Verify()
		}
		if !errors.Is(err, fileformat.ErrDamaged) && !errors.Is(err, fileformat.ErrVersion) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
	}
	for n := range len(b) {
		if _, err := Parse(b[:n], ident); !errors.Is(err, fileformat.ErrDamaged) {
			t.Fatalf("first %d bytes: %v", n, err)
		}
	}
	if _, err := Build(Ident{Rows: 1}, Input{Source: x.View(1), Rows: []uint32{1}}); err == nil {
		t.Error("a row beyond the segment")
	}
	if _, err := Build(Ident{}); err == nil {
		t.Error("no rows")
	}
}

func TestEmpty(t *testing.T) {
	x := NewIndex()
	x.Add(nil)
	x.Add(nil)
	f := file(t, Ident{Rows: 2}, Input{Source: x.View(2)})
	a := analyzer(t, "")
	for _, query := range []string{"", "word", "word*", `"two words"`, "-word"} {
		s, err := Prepare(context.Background(), a.Parse(query), Params{1.2, 0.75}, []Part{{Source: f}, {Source: x.View(2)}})
		if err != nil {
			t.Fatal(err)
		}
		if got := top(t, s, []Part{{Source: f}}, 3, 10, nil); len(got) > 0 {
			t.Errorf("%q: %v", query, got)
		}
		got, err := s.Matches(0)
		if want := strings.HasPrefix(query, "-"); err != nil || (got.Count() == 2) != want {
			t.Errorf("%q matches %d rows, %v", query, got.Count(), err)
		}
	}
}

// A source yields the terms with a prefix, and no others: an index in memory would sort them all.
func TestWithPrefix(t *testing.T) {
	scanner := analyzer(t, "none").Scanner()
	x := NewIndex()
	const rows = 1000 // several groups of a dictionary
	for i := range rows {
		tokens, _ := scanner.Tokens(nil, fmt.Sprintf("w%03d common", i))
		x.Add(tokens)
	}
	f := file(t, Ident{Rows: rows}, Input{Source: x.View(rows)})
	for prefix, want := range map[string]int{"": rows + 1, "w": rows, "w12": 10, "w120": 1, "w999": 1, "common": 1,
		"a": 0, "w1200": 0, "x": 0} {
		for _, s := range []Source{x.View(rows), f} {
			n, last := 0, ""
			for term, err := range s.withPrefix(prefix) {
				if err != nil {
					t.Fatal(err)
				}
				if !strings.HasPrefix(term.term, prefix) || n > 0 && term.term <= last {
					t.Fatalf("%T, prefix %q: %q after %q", s, prefix, term.term, last)
				}
				n, last = n+1, term.term
			}
			if n != want {
				t.Errorf("%T, prefix %q: %d terms, want %d", s, prefix, n, want)
			}
		}
	}
}

func TestCompare(t *testing.T) {
	scanner := analyzer(t, "none").Scanner()
	index := func(texts ...string) Source {
		x := NewIndex()
		for _, s := range texts {
			tokens, _ := scanner.Tokens(nil, s)
			x.Add(tokens)
		}
		return x.View(len(texts))
	}
	rows := bitset.New(3)
	rows.Fill(3)
	texts := []string{"a b c", "", "b b d"}
	same := index(texts...)
	if err := Compare(same, file(t, Ident{Rows: 3}, Input{Source: index(texts...)}), rows); err != nil {
		t.Error(err)
	}
	for _, other := range [][]string{{"a b c", "", "b d b"}, {"a b", "", "b b d"}, {"a b c", "", "b b e"}, {"a b a", "", "b b d"}, {"a b c", "x", "b b d"}} {
		if err := Compare(same, index(other...), rows); err == nil {
			t.Errorf("%q is the same", other)
		}
	}
	rows.Clear(1)
	if err := Compare(same, index("a b c", "x d", "b b d"), rows); err != nil {
		t.Errorf("a row that does not count: %v", err)
	}
}
