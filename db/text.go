package db

import (
	"context"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/engine"
)

// A TextIndex says how the documents of a collection are indexed for full-text
// search. Package text describes the analysis.
type TextIndex struct {
	// Language is the language of the texts, for stemming and stop words: one
	// of text.Languages. Empty means "english"; "none" neither stems nor has
	// stop words.
	Language string `json:"language"`
	// Fields are paths of metadata fields whose strings, or lists of
	// strings, are indexed behind the text, at most MaxTextFields of at most
	// filter.MaxPath bytes each.
	Fields []string `json:"fields,omitempty"`
	// K1 and B are the parameters of BM25. K1 (0 to 100) is the weight of
	// repeated terms, B (0 to 1) the weight of a document's length. nil means
	// 1.2 and 0.75.
	K1 *float64 `json:"k1,omitempty"`
	B  *float64 `json:"b,omitempty"`
}

// MaxTextFields is the most metadata fields in a text index.
const MaxTextFields = engine.MaxTextFields // 64

// engine returns an own copy of t with the default language, as the engine keeps it.
func (t *TextIndex) engine() *engine.TextIndex { return (*engine.TextIndex)(t).Clone() }

// check returns an error if a collection cannot be given the index because of its paths. The engine
// does not check their length: it has to open collections that were made without that limit.
func (t *TextIndex) check(collection string) error {
	if t == nil {
		return nil
	}
	for _, f := range t.Fields {
		if err := filter.Validate(filter.Exists(f)); err != nil {
			return invalidf("collection %q: text field: %v", collection, err)
		}
	}
	return nil
}

// SetText changes the full-text index of the collection; nil drops it. The new
// index is built in the background; a query that needs it earlier waits for it.
func (c *Collection) SetText(ctx context.Context, t *TextIndex) error {
	defer c.db.engine.WakeCompact()
	return c.wrap("set text index", c.change(ctx, func(g *engine.Group, v *engine.View) ([]engine.Op, error) {
		def := *v.Def
		err := t.check(def.Name)
		if err != nil {
			return nil, err
		}
		def.Schema.Text = t.engine()
		if def.Analysis, err = engine.NewAnalysis(def.Name, def.Schema.Text); err != nil {
			return nil, err
		}
		return []engine.Op{{Kind: engine.OpDefine, Coll: c.id, Def: &def}}, nil
	}))
}
