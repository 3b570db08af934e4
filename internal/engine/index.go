package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/errtext"
)

// An Index says which files search the vectors of a collection; package db describes the choices.
// Definitions store its name. It decides about speed and space only, never about answers.
type Index uint8

// The choices.
const (
	IndexFast  Index = iota // graphs for speed
	IndexSmall              // graphs and codes that save space
	IndexNone               // no graphs
)

// String returns the name of the index.
func (i Index) String() string {
	switch i {
	case IndexFast:
		return "fast"
	case IndexSmall:
		return "small"
	case IndexNone:
		return "none"
	}
	return fmt.Sprintf("index(%d)", uint8(i))
}

// ParseIndex reads the name of an index, in upper or lower case.
func ParseIndex(s string) (Index, error) {
	for i := IndexFast; i <= IndexNone; i++ {
		if strings.EqualFold(s, i.String()) {
			return i, nil
		}
	}
	return 0, document.Invalidf("index %.40q: want fast, small or none", s)
}

// MarshalText implements encoding.TextMarshaler.
func (i Index) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (i *Index) UnmarshalText(b []byte) (err error) {
	*i, err = ParseIndex(string(b))
	return err
}

// stored returns the name that a definition stores; none for the default.
func (i Index) stored() string {
	if i == IndexFast {
		return ""
	}
	return i.String()
}

// storedIndex is the inverse. A name of a later release counts as the default: every index gives
// right answers, and a database must not be closed to its owner over the space of its graphs.
func storedIndex(name string) Index {
	i, err := ParseIndex(name)
	if err != nil {
		return IndexFast
	}
	return i
}

// validate returns an error unless the index is one of the choices.
func (i Index) validate(collection string) error {
	if i > IndexNone {
		return document.Invalidf("collection %q: unknown index %d", collection, i)
	}
	return nil
}

// SetIndex changes the index of a collection. Searches go on with the files that are there until
// the background, or Compact, has written others.
func (e *Engine) SetIndex(ctx context.Context, id uint32, index Index) error {
	_, err := e.Exclusively(ctx, func(g *Group) ([]Op, error) {
		v := g.Base.Views[id]
		if v == nil {
			return nil, fmt.Errorf("%w: the collection was dropped", ErrNotFound)
		}
		if err := index.validate(v.Def.Name); err != nil {
			return nil, err
		}
		if v.Def.Schema.Index == index {
			return nil, nil
		}
		def := *v.Def
		def.Schema.Index = index
		return []Op{{Kind: OpDefine, Coll: id, Def: &def}}, nil
	})
	return err
}

// otherIndex is the error for a collection that has another index than its caller expects.
func otherIndex(collection string, have, want Index) error {
	return errtext.InGo(fmt.Errorf("%w: collection %q has index %v, opened with %v", ErrSchema, collection, have, want),
		"Collection.SetIndex changes it")
}

// index returns the present index of the segment's collection.
func (s *OpenSegment) index() Index {
	e := s.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cur == nil || e.cur.Views[s.Info.Collection] == nil {
		return IndexFast
	}
	return e.cur.Views[s.Info.Collection].Def.Schema.Index
}
