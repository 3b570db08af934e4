package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/exchange"
)

type searchCmd struct {
	collection
	Vector    string   `required:"" xor:"query" placeholder:"FILE|-|[...]" help:"Look for this vector: a JSON array, or a file that holds one."`
	Fvecs     string   `required:"" xor:"query" placeholder:"FILE" help:"Look for every vector of an .fvecs file."`
	ID        string   `required:"" xor:"query" name:"id" placeholder:"ID" help:"Look for the vector of this document. It is its own first hit."`
	K         int      `short:"k" default:"10" help:"How many hits to find (${default})."`
	Offset    int      `placeholder:"N" help:"Leave out the best N hits."`
	Threshold *float64 `placeholder:"SCORE" help:"The least score of a hit."`
	Exact     bool     `help:"Find the true answer, whatever it costs."`
	Explain   bool     `help:"With --json, say how the answer was found as well."`
	condition
	parts
}

func (c *searchCmd) Help() string {
	return "A score is higher for better hits under every metric: the cosine, the inner product, or the squared Euclidean " +
		"distance with a minus sign. Hits of equal score come in order of id."
}

// Validate is called by kong.
func (c *searchCmd) Validate() error {
	if c.K < 1 || c.Offset < 0 {
		return fmt.Errorf("-k %d --offset %d: at least one hit, and no negative offset", c.K, c.Offset)
	}
	return nil
}

func (c *searchCmd) Run(ctx context.Context, t *tool) error {
	return c.read(func(coll *db.Collection) error {
		const together = 256 // queries that share a pass over the vectors
		batch, n := []db.Query{}, 0
		answer := func() error {
			results, err := coll.SearchBatch(ctx, batch)
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

// queries yields what to search for.
func (c *searchCmd) queries(ctx context.Context, t *tool) iter.Seq2[db.Query, error] {
	q := db.Query{
		ID: c.ID, K: c.K, Offset: c.Offset, Where: c.Where.Expr, Threshold: c.Threshold, Exact: c.Exact, Select: c.selection(),
	}
	return func(yield func(db.Query, error) bool) {
		switch {
		case c.ID != "":
			yield(q, nil)
		case c.Vector != "":
			var err error
			q.Vector, err = t.vector(c.Vector)
			yield(q, err)
		default:
			src, err := exchange.Open(c.Fvecs, &exchange.OpenOptions{Format: exchange.FVecs})
			if err != nil {
				yield(q, err)
				return
			}
			for item, err := range src.Items(ctx) {
				if err == nil && item.Skip != nil {
					err = fmt.Errorf("%v: %w", item.Position, item.Skip)
				}
				if err != nil {
					yield(q, err)
					return
				}
				q.Vector = item.Document.Vector
				if !yield(q, nil) {
					return
				}
			}
		}
	}
}

// vector reads a vector that is given as a JSON array, or as the name of a file that holds one.
func (t *tool) vector(arg string) ([]float32, error) {
	text, name := []byte(arg), "vector"
	if !strings.HasPrefix(strings.TrimSpace(arg), "[") {
		f, err := t.open(arg)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if text, err = io.ReadAll(f); err != nil {
			return nil, err
		}
		name = arg
	}
	v, err := exchange.ParseVector(nil, text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}

func (c *searchCmd) answer(t *tool, n int, r *db.Result) error {
	if !t.json {
		return c.table(t, n, r)
	}
	line := fmt.Appendf(nil, `{"query":%d,"exact":%t,`, n, r.Exact)
	if c.Explain {
		plan, err := json.Marshal(r.Plan)
		if err != nil {
			return err
		}
		line = fmt.Appendf(line, `"complete":%t,"matched":%d,"considered":%d,"plan":%s,`,
			r.Complete, r.Matched, r.Considered, plan)
	}
	line = append(line, `"hits":[`...)
	for i := range r.Hits {
		if i > 0 {
			line = append(line, ',')
		}
		var err error
		if line, err = c.appendHit(line, &r.Hits[i]); err != nil {
			return err
		}
	}
	_, err := t.out.Write(append(line, "]}\n"...))
	return err
}

// appendHit appends a hit as JSON: id, score, and what it carries of the document.
func (c *searchCmd) appendHit(dst []byte, h *db.Hit) ([]byte, error) {
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
	whole = slices.Insert(whole, len(id)-len("}\n"), append([]byte(`,"score":`), score...)...)
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

func (c *searchCmd) table(t *tool, n int, r *db.Result) error {
	if c.Fvecs != "" {
		fmt.Fprintf(t.out, "query %d\n", n)
	}
	var rows []table.Row
	for i := range r.Hits {
		h := &r.Hits[i]
		rows = append(rows, append(table.Row{fmt.Sprintf("%.6f", h.Score)}, c.cells(&h.Document)...))
	}
	if err := t.table(append(table.Row{"score"}, c.columns()...), rows); err != nil {
		return err
	}
	quality := "approximate"
	if r.Exact {
		quality = "exact"
	}
	fmt.Fprintf(t.out, "%d hits, %s; %s documents match, %s vectors considered\n", len(r.Hits), quality,
		humanize.Comma(int64(r.Matched)), humanize.Comma(int64(r.Considered)))
	return nil
}
