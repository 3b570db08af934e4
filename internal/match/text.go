package match

import (
	"context"
	"errors"
	"fmt"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/terms"
	"github.com/vecbolt/vecbolt/text"
)

// Parse parses a text query. field names it in errors.
func Parse(a *engine.Analysis, field, query string) (text.Query, error) {
	q, err := a.Analyzer.Query(query)
	if err != nil {
		return q, document.Invalidf("%s: %v", field, err)
	}
	return q, nil
}

// Prepare prepares a text query for all parts of the view.
func Prepare(ctx context.Context, v *engine.View, a *engine.Analysis, q text.Query) (*Text, error) {
	s := &Text{view: v}
	parts := make([]terms.Part, len(v.Parts))
	for i, p := range v.Parts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var err error
		if parts[i].Source, err = p.Terms(ctx, a); err != nil {
			return nil, err
		}
		if p.Dead.Count() > 0 {
			parts[i].Live = p.Alive()
		}
	}
	var err error
	s.Search, err = terms.Prepare(ctx, q, a.Params, parts)
	return s, s.Damaged(err)
}

// A Text is a text query on a view.
type Text struct {
	*terms.Search
	view *engine.View
}

// Damaged stops the use of an index that turned out to be damaged.
func (s *Text) Damaged(err error) error {
	var part *terms.PartError
	if !errors.As(err, &part) || s.view.Parts[part.Part].Segment == nil {
		return err
	}
	t := s.view.Parts[part.Part].Segment.Terms
	for _, d := range t.All() {
		d.Distrust(err)
	}
	return &fileformat.CorruptError{File: t.File(), Offset: -1, Err: fmt.Errorf("%w; %w", err, engine.ErrDerived)}
}
