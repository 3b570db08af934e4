package query

import (
	"math"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/nearest"
	"github.com/vecbolt/vecbolt/text"
)

// An Answer has the rows that a query found.
type Answer struct {
	Rows     []Row          // in order
	Matched  int            // rows that match the query, see db.Result
	Complete bool           // no row that belongs to Rows is missing
	Ledger   nearest.Ledger // promised recall, and the work of the search
	Plan     string
	Passages *Passages      // of the texts of hits; nil: the query has no text
	Trace    *nearest.Trace // its stages; nil: nobody asks
}

// A Row is a row with its score in an answer.
type Row struct {
	nearest.Ranked
	Group any   // the value of Group.Field
	Legs  []Leg // of a fused row
}

// A Leg is the place of a row in one list of a fusion.
type Leg struct {
	Name  string // "vector" or "text", or the index of the query in Fused
	Rank  int    // from 1; 0: not among the ranked ones
	Score *float64
}

// finish sets a to the answer of a query: it groups or diversifies the best rows.
func (s *search) finish(q *probe, a *Answer) error {
	*a = Answer{
		Rows: q.rows, Matched: q.Matched, Trace: s.near.Trace,
		Complete: q.Ledger.Complete(len(q.rows), min(q.limit(), q.Matched)),
	}
	var err error
	switch {
	case q.MMR != nil:
		a.Rows, err = s.diversify(q, q.rows)
	case q.Group != nil:
		a.Rows, a.Complete, err = s.group(q, q.rows)
	}
	if err != nil {
		return err
	}
	if q.Group == nil {
		a.Rows = a.Rows[:min(q.limit(), len(a.Rows))]
		skipped := min(q.Offset, len(a.Rows))
		q.skipped, a.Rows = a.Rows[:skipped], a.Rows[skipped:]
	}
	if q.text != nil {
		a.Passages = &Passages{view: s.view, text: q.text}
	}
	a.Ledger, a.Plan = q.Ledger, q.plan()
	return nil
}

// plan says how a query was answered.
func (q *probe) plan() string {
	if q.text != nil {
		if !q.vector {
			return "text index"
		}
		return q.Ledger.Plan() + " and text index, fused by " + q.Fusion.Method.String()
	}
	return q.Ledger.Plan()
}

// Passages finds the passages of documents that answer the text of a query best.
type Passages struct {
	view  *engine.View
	text  *textLeg
	forms []*probe // the queries that Fused fuses: the text that ranks a row best counts
}

// Best returns the best passage of the document at a row, of about size bytes.
func (p *Passages) Best(tx *meta.Tx, h Row, size int) (*text.Snippet, error) {
	b, err := p.view.Stored(tx, h.Part, h.Row)
	if err != nil {
		return nil, err
	}
	d, err := document.Decode(b, document.Text)
	if err != nil {
		return nil, engine.CorruptDocument(h.Part.Nums[h.Row], err)
	}
	leg, rank := p.text, math.MaxInt
	for i, f := range p.forms {
		if r := h.Legs[i].Rank; f.text != nil && r > 0 && r < rank {
			leg, rank = f.text, r
		}
	}
	sn := leg.scanner.Highlight(&leg.query, d.Text, size, leg.Weight)
	return &sn, nil
}
