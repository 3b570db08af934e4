package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/exchange"
	"github.com/vecbolt/vecbolt/internal/docjson"
	"github.com/vecbolt/vecbolt/rag/vectorize"
	"github.com/vecbolt/vecbolt/text"
)

// searchArgs are the arguments of verbs that search.
type searchArgs struct {
	collection
	Vector  string   `xor:"query" placeholder:"FILE|-|[...]" help:"Search for this vector: a JSON array, or a file that contains one."`
	Fvecs   string   `xor:"query" placeholder:"FILE" help:"Search for every vector of an .fvecs file."`
	ID      string   `xor:"query" name:"id" placeholder:"ID" help:"Search for the vector of this document. It is its own first hit."`
	Like    []string `xor:"query" sep:"none" placeholder:"ID" help:"Search for documents like this one. May be repeated."`
	Unlike  []string `sep:"none" placeholder:"ID" help:"With --like: and unlike this one. May be repeated."`
	Text    []string `sep:"none" placeholder:"QUERY" help:"Search for this text: words, \"phrases\", prefix*, +required, -excluded; + and - need a text index. With one of the above, both rankings are fused. May be repeated: the answers to several forms of a question are fused by rank."`
	NoEmbed bool     `help:"Search for --text by its words alone, although the collection is pinned to a model (import --embed)."`
	modelSettings
	Hybrid    weights         `placeholder:"V,T" help:"Weights of vector and text if both are given, such as 2,1. The default is equal weights for convex, and 0.01,0.99 for rrf."`
	Fusion    db.FusionMethod `default:"convex" placeholder:"METHOD" help:"Fusion method: convex, by scores, or rrf, by ranks (${default})."`
	Snippets  bool            `help:"Show the passage that answers --text best: instead of the text, or with --json in addition to it."`
	K         int             `short:"k" default:"10" help:"Number of hits (${default}); with --group, number of groups."`
	Offset    int             `placeholder:"N" help:"Number of hits to skip."`
	Threshold *float64        `placeholder:"SCORE" help:"Minimum score of a hit."`
	Group     *group          `placeholder:"FIELD[:N]" help:"Find the best N documents (default 1) of each of the best groups. A group is the documents with the same value in this field."`
	MMR       *float64        `name:"mmr" placeholder:"LAMBDA" help:"Prefer hits that differ from each other (maximal marginal relevance): 1 is relevance alone, 0 diversity alone."`
	Exact     bool            `xor:"how" help:"Find the exact answer, whatever the cost."`
	Recall    *float64        `xor:"how" placeholder:"R" help:"Sufficient share of the exact answer, up to 1. The default is 0.95, or an exact answer where it costs no more."`
	Ef        *int            `xor:"how" placeholder:"N" help:"Beam width of an approximate search (ef in HNSW), instead of --recall."`
	condition
	parts
}

// Validate is called by kong.
func (c *searchArgs) Validate() error {
	if c.K < 1 || c.Offset < 0 {
		return fmt.Errorf("-k %d --offset %d: at least one hit, and no negative offset", c.K, c.Offset)
	}
	switch {
	case c.Ef != nil && *c.Ef < 1:
		return fmt.Errorf("--ef %d: not positive", *c.Ef)
	case c.MMR != nil && !(*c.MMR >= 0 && *c.MMR <= 1):
		return fmt.Errorf("--mmr %v: not between 0 and 1", *c.MMR)
	}
	if c.Recall != nil {
		if err := shares([]float64{*c.Recall}); err != nil {
			return err
		}
	}
	if c.Vector == "" && c.Fvecs == "" && c.ID == "" && len(c.Like) == 0 && strings.Join(c.Text, "") == "" {
		return errors.New("no query: give --vector, --fvecs, --id, --like or --text")
	}
	if len(c.Unlike) > 0 && len(c.Like) == 0 {
		return errors.New("--unlike needs --like")
	}
	if c.Snippets && strings.Join(c.Text, "") == "" {
		return errors.New("--snippets needs --text")
	}
	return nil
}

// weights are the weights of vector and text.
type weights struct{ vector, text float64 }

// UnmarshalText implements encoding.TextUnmarshaler.
func (w *weights) UnmarshalText(b []byte) error {
	v, t, ok := strings.Cut(string(b), ",")
	var errs [2]error
	w.vector, errs[0] = strconv.ParseFloat(v, 64)
	w.text, errs[1] = strconv.ParseFloat(t, 64)
	if !ok || errs[0] != nil || errs[1] != nil {
		return fmt.Errorf("weights %q: not two numbers with a comma between", b)
	}
	if w.vector == 0 && w.text == 0 {
		return fmt.Errorf("weights %q: both are 0, but one must be more", b)
	}
	return nil
}

// snippetBytes is the approximate length of a passage.
const snippetBytes = 200

// group is a field, with the number of hits of each group after a colon.
type group struct{ db.Group }

// UnmarshalText implements encoding.TextUnmarshaler.
func (g *group) UnmarshalText(b []byte) error {
	g.Field = string(b)
	if i := strings.LastIndexByte(g.Field, ':'); i >= 0 {
		n, err := strconv.Atoi(g.Field[i+1:])
		if err != nil || n < 1 {
			return fmt.Errorf("group %q: not FIELD:N with a positive number N", b)
		}
		g.Field, g.Size = g.Field[:i], n
	}
	return nil
}

type searchCmd struct {
	searchArgs
}

func (c *searchCmd) Help() string {
	return "A score is higher for better hits under every metric: the cosine, the inner product, or the squared Euclidean " +
		"distance with a minus sign. Hits of equal score come in order of id."
}

func (c *searchCmd) Run(ctx context.Context, t *tool) error {
	return c.read(func(coll *db.Collection) error {
		const together = 256 // queries that share a pass over the vectors
		asked, err := c.asked(ctx, t, coll)
		if err != nil {
			return err
		}
		batch, n := []db.Query{}, 0
		answer := func() error {
			results, err := c.search(ctx, asked, batch)
			if err != nil {
				return err
			}
			for _, r := range results {
				if err := c.answer(t, n, r); err != nil {
					return err
				}
				n++
			}
			batch = batch[:0]
			return t.out.Flush()
		}
		for q, err := range c.queries(ctx, t) {
			if err != nil {
				return err
			}
			if batch = append(batch, q); len(batch) == together {
				if err := answer(); err != nil {
					return err
				}
			}
		}
		if len(batch) == 0 {
			return nil
		}
		return answer()
	})
}

// asked returns the collection with its embedder, if the query needs it.
func (c *searchArgs) asked(ctx context.Context, t *tool, coll *db.Collection) (*vectorize.Collection, error) {
	if c.NoEmbed || strings.Join(c.Text, "") == "" {
		return t.models(nil).Collection(coll), nil
	}
	return (&embedding{Set: c.Set}).pin(ctx, t, t.models(nil), nil, coll)
}

// ask gives queries by text the vectors of their texts.
func (c *searchArgs) ask(ctx context.Context, coll *vectorize.Collection, queries []db.Query) (err error) {
	for i := range queries {
		if c.NoEmbed || err != nil {
			break
		}
		queries[i], err = coll.Ask(ctx, queries[i])
	}
	return err
}

// search answers queries; with several texts, each query in all of its forms.
func (c *searchCmd) search(ctx context.Context, coll *vectorize.Collection, queries []db.Query) ([]*db.Result, error) {
	if len(c.Text) < 2 {
		if err := c.ask(ctx, coll, queries); err != nil {
			return nil, err
		}
		return coll.SearchBatch(ctx, queries)
	}
	var results []*db.Result
	for _, q := range queries {
		forms := slices.Repeat([]db.Query{q}, len(c.Text))
		for i, text := range c.Text {
			forms[i].Text = text
		}
		if err := c.ask(ctx, coll, forms); err != nil {
			return nil, err
		}
		r, err := coll.SearchFused(ctx, forms)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

// queries yields the queries.
func (c *searchArgs) queries(ctx context.Context, t *tool) iter.Seq2[db.Query, error] {
	q := db.Query{
		K: c.K, Offset: c.Offset, Where: c.Where.Expr, Threshold: c.Threshold,
		Select: c.selection(),
		Fusion: db.Fusion{Method: c.Fusion, Vector: c.Hybrid.vector, Text: c.Hybrid.text},
	}
	if len(c.Text) > 0 {
		q.Text = c.Text[0]
	}
	switch {
	case c.ID != "":
		q.Near = db.Stored(c.ID)
	case len(c.Like) > 0:
		q.Near = db.Examples{Like: c.Like, Unlike: c.Unlike}
	}
	switch {
	case c.Exact:
		q.Accuracy = db.Exact
	case c.Recall != nil:
		q.Accuracy = db.Recall(*c.Recall)
	case c.Ef != nil:
		q.Accuracy = db.EF(*c.Ef)
	}
	if c.Snippets {
		q.Snippet = snippetBytes
	}
	if c.Group != nil {
		q.Group = &c.Group.Group
	}
	if c.MMR != nil {
		q.MMR = &db.MMR{Lambda: *c.MMR}
	}
	return func(yield func(db.Query, error) bool) {
		switch {
		case c.Vector == "" && c.Fvecs == "":
			yield(q, nil)
		case c.Vector != "":
			vec, err := t.vector(ctx, c.Vector)
			q.Near = db.Vector(vec)
			yield(q, err)
		default:
			for vec, err := range queriesOf(ctx, c.Fvecs) {
				q.Near = db.Vector(vec)
				if !yield(q, err) {
					return
				}
			}
		}
	}
}

// vector reads a vector from a JSON array, or from the file with this name.
func (t *tool) vector(ctx context.Context, arg string) ([]float32, error) {
	text, name := []byte(arg), "vector"
	if !strings.HasPrefix(strings.TrimSpace(arg), "[") {
		f, err := t.open(ctx, arg)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if text, err = io.ReadAll(f); err != nil {
			return nil, err
		}
		name = inputName(arg)
	}
	v, err := docjson.ParseVector(nil, text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}

func (c *searchCmd) answer(t *tool, n int, r *db.Result) error {
	if !t.json {
		return c.table(t, n, r)
	}
	line, err := c.appendResult(nil, n, r)
	if err != nil {
		return err
	}
	_, err = t.out.Write(append(line, "}\n"...))
	return err
}

// appendResult appends a JSON object without the closing brace.
func (c *searchArgs) appendResult(dst []byte, n int, r *db.Result) ([]byte, error) {
	plan, err := json.Marshal(r.Plan)
	if err != nil {
		return nil, err
	}
	dst = fmt.Appendf(dst, `{"query":%d,"exact":%t,"plan":%s,"recall":%v,`, n, r.Exact, plan, r.Recall)
	if !r.Exact {
		dst = fmt.Appendf(dst, `"usual_recall":%v,"poor":%v,`, r.UsualRecall, r.Poor)
	}
	dst = fmt.Appendf(dst, `"complete":%t,"matched":%d,"considered":%d,`, r.Complete, r.Matched, r.Considered)
	dst = append(dst, `"hits":[`...)
	for i := range r.Hits {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = c.appendHit(dst, &r.Hits[i]); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

// appendHit appends a hit as JSON: id, score, and the returned parts of the document.
func (c *searchArgs) appendHit(dst []byte, h *db.Hit) ([]byte, error) {
	carries := cmp.Or(c.selection()&^emptyParts(&h.Document), db.IDsOnly)
	id, err := exchange.AppendDocument(nil, &h.Document, db.IDsOnly)
	if err != nil {
		return nil, err
	}
	whole, err := exchange.AppendDocument(nil, &h.Document, carries)
	if err != nil {
		return nil, err
	}
	score, err := json.Marshal(h.Score)
	if err != nil {
		return nil, err
	}
	extra := append([]byte(`,"score":`), score...)
	if c.Group != nil {
		value, err := json.Marshal(h.Group)
		if err != nil {
			return nil, err
		}
		extra = append(append(extra, `,"group":`...), value...)
	}
	for _, field := range []struct {
		name  string
		value any
		given bool
	}{{"legs", h.Legs, h.Legs != nil}, {"snippet", h.Snippet, h.Snippet != nil}} {
		if field.given {
			value, err := json.Marshal(field.value)
			if err != nil {
				return nil, err
			}
			extra = append(fmt.Appendf(extra, ",%q:", field.name), value...)
		}
	}
	whole = slices.Insert(whole, len(id)-len("}\n"), extra...)
	return append(dst, whole[:len(whole)-len("\n")]...), nil
}

// emptyParts returns the parts that a document does not have.
func emptyParts(d *db.Document) (s db.Select) {
	if d.Text == "" {
		s |= db.WithText
	}
	if len(d.Metadata) == 0 {
		s |= db.WithMetadata
	}
	if len(d.Vector) == 0 {
		s |= db.WithVector
	}
	return s
}

// marked marks the matching words of a passage.
func marked(s *text.Snippet) string {
	var b strings.Builder
	at := 0
	for _, m := range s.Marks {
		b.WriteString(s.Text[at:m.Start] + "[" + s.Text[m.Start:m.End] + "]")
		at = m.End
	}
	return b.String() + s.Text[at:]
}

func (c *searchArgs) table(t *tool, n int, r *db.Result) error {
	if c.Fvecs != "" {
		fmt.Fprintf(t.out, "query %d\n", n)
	}
	var rows []table.Row
	for i := range r.Hits {
		h := &r.Hits[i]
		row := table.Row{fmt.Sprintf("%.6f", h.Score)}
		if c.Group != nil {
			value := h.Group
			if s, ok := value.(string); ok {
				value = brief(s)
			}
			row = append(row, value)
		}
		if h.Snippet != nil {
			h.Text = marked(h.Snippet)
		}
		for _, leg := range h.Legs {
			row = append(row, cmp.Or(strings.TrimPrefix(strconv.Itoa(leg.Rank), "0"), "-"))
		}
		rows = append(rows, append(row, c.cells(&h.Document)...))
	}
	header := table.Row{"score"}
	if c.Group != nil {
		header = append(header, c.Group.Field)
	}
	if len(r.Hits) > 0 {
		for _, leg := range r.Hits[0].Legs {
			header = append(header, "by "+leg.Name)
		}
	}
	if err := t.table(append(header, c.columns()...), rows); err != nil {
		return err
	}
	quality := fmt.Sprintf("approximate, recall %.3g", r.Recall)
	switch {
	case r.Exact:
		quality = "exact"
	case r.Recall == 0:
		quality = "approximate, of unknown recall"
	case r.UsualRecall > r.Recall:
		quality += fmt.Sprintf(" (%.3g for queries like the vectors)", r.UsualRecall)
	}
	fmt.Fprintf(t.out, "%d hits, %s; %s documents match, %s vectors considered\n", len(r.Hits),
		quality, comma(r.Matched), comma(r.Considered))
	return nil
}
