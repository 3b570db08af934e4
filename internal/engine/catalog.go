package engine

import (
	"context"
	"fmt"
)

// Define creates a collection, or checks that the schema of an existing one fits: the collection
// takes a dimension and a text index from the schema if it has none. It returns the definition in
// force. With mustCreate, ErrExists says that the name is taken. The metadata, in the types that a
// read returns, is for a new collection only.
func (e *Engine) Define(ctx context.Context, name string, s Schema, metadata map[string]any,
	mustCreate bool) (*Definition, error) {
	if err := ValidateName(name); err != nil {
		return nil, err
	}
	if err := s.validate(name); err != nil {
		return nil, err
	}
	if err := s.Lineage.validate(name); err != nil {
		return nil, err
	}
	words, err := NewAnalysis(name, s.Text)
	if err != nil {
		return nil, err
	}
	var def *Definition
	_, err = e.Exclusively(ctx, func(g *Group) ([]Op, error) {
		old, exists := g.Base.Names[name]
		if !exists {
			def = &Definition{ID: g.NextID, Name: name, Schema: s, Analysis: words, Metadata: metadata}
			g.NextID++
			return []Op{{Kind: OpDefine, Coll: def.ID, Def: def}}, nil
		}
		if mustCreate {
			return nil, fmt.Errorf("%w: collection %q", ErrExists, name)
		}
		def = g.Base.Views[old].Def
		if err := def.Schema.Accepts(name, s); err != nil {
			return nil, err
		}
		fixed := *def
		if def.Schema.Dim == 0 {
			fixed.Schema.Dim = s.Dim
		}
		if def.Schema.Text == nil {
			fixed.Schema.Text, fixed.Analysis = s.Text, words
		}
		if fixed.Schema == def.Schema {
			return nil, nil
		}
		def = &fixed
		return []Op{{Kind: OpDefine, Coll: def.ID, Def: def}}, nil
	})
	if err != nil {
		return nil, err
	}
	if s.Text != nil {
		e.WakeCompact() // segments lack the new index
	}
	return def, nil
}

// Rename gives a collection another name; ErrExists if the name is taken.
func (e *Engine) Rename(ctx context.Context, from, to string) error {
	if err := ValidateName(to); err != nil {
		return err
	}
	_, err := e.Exclusively(ctx, func(g *Group) ([]Op, error) {
		id, ok := g.Base.Names[from]
		if !ok {
			return nil, Missing(from, g.Base.Names)
		}
		if from == to {
			return nil, nil
		}
		if _, taken := g.Base.Names[to]; taken {
			return nil, fmt.Errorf("%w: collection %q", ErrExists, to)
		}
		def := *g.Base.Views[id].Def
		def.Name = to
		return []Op{{Kind: OpDefine, Coll: id, Def: &def}}, nil
	})
	return err
}

// Redefine gives a collection another schema, but for a dimension that it has and s lacks.
func (e *Engine) Redefine(ctx context.Context, name string, s Schema) (*Definition, error) {
	words, err := NewAnalysis(name, s.Text)
	if err != nil {
		return nil, err
	}
	var def Definition
	_, err = e.Exclusively(ctx, func(g *Group) ([]Op, error) {
		id, ok := g.Base.Names[name]
		if !ok {
			return nil, Missing(name, g.Base.Names)
		}
		def = *g.Base.Views[id].Def
		if s.Dim == 0 {
			s.Dim = def.Schema.Dim
		}
		def.Schema, def.Analysis = s, words
		return []Op{{Kind: OpDefine, Coll: id, Def: &def}}, nil
	})
	return &def, err
}

// SetMetadata replaces the metadata of a collection by m, in the types that a read returns.
func (e *Engine) SetMetadata(ctx context.Context, id uint32, m map[string]any) error {
	_, err := e.Exclusively(ctx, func(g *Group) ([]Op, error) {
		v := g.Base.Views[id]
		if v == nil {
			return nil, fmt.Errorf("%w: the collection was dropped", ErrNotFound)
		}
		def := *v.Def
		def.Metadata = m
		return []Op{{Kind: OpDefine, Coll: id, Def: &def}}, nil
	})
	return err
}

// DropCollection removes a collection with all its documents; ErrNotFound if it does not exist.
func (e *Engine) DropCollection(ctx context.Context, name string) error {
	_, err := e.Exclusively(ctx, func(g *Group) ([]Op, error) {
		id, ok := g.Base.Names[name]
		if !ok {
			return nil, Missing(name, g.Base.Names)
		}
		return []Op{{Kind: OpDrop, Coll: id}}, nil
	})
	return err
}
