package db

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/blocks"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment/terms"
	"github.com/vecbolt/vecbolt/text"
)

// A TextIndex says how the documents of a collection are indexed for full-text
// search. Package text describes the analysis.
type TextIndex struct {
	// Language is the language of the texts, for stemming and stop words: one
	// of text.Languages. Empty means "english"; "none" neither stems nor has
	// stop words.
	Language string `json:"language"`
	// Fields are paths of metadata fields whose strings, or lists of
	// strings, are indexed behind the text, at most MaxTextFields.
	Fields []string `json:"fields,omitempty"`
	// K1 and B are the parameters of BM25. K1 (0 to 100) is the weight of
	// repeated terms, B (0 to 1) the weight of a document's length. nil means
	// 1.2 and 0.75.
	K1 *float64 `json:"k1,omitempty"`
	B  *float64 `json:"b,omitempty"`
}

// MaxTextFields is the most metadata fields in a text index.
const MaxTextFields = 64

func (t *TextIndex) clone() *TextIndex {
	if t == nil {
		return nil
	}
	c := *t
	c.Language = cmp.Or(c.Language, "english")
	c.Fields = slices.Clone(c.Fields)
	if t.K1 != nil {
		c.K1 = new(*t.K1)
	}
	if t.B != nil {
		c.B = new(*t.B)
	}
	return &c
}

func (t *TextIndex) equal(o *TextIndex) bool {
	return t.clone().Language == o.clone().Language && slices.Equal(t.Fields, o.Fields) && t.params() == o.params()
}

func (t *TextIndex) params() terms.Params {
	p := terms.Params{K1: 1.2, B: 0.75}
	if t.K1 != nil {
		p.K1 = *t.K1
	}
	if t.B != nil {
		p.B = *t.B
	}
	return p
}

// An analysis turns documents into terms, as a TextIndex says.
type analysis struct {
	analyzer *text.Analyzer
	fields   []string
	params   terms.Params
	id       [16]byte // identifies the terms that it makes
}

// newAnalysis validates t; nil gives nil.
func newAnalysis(collection string, t *TextIndex) (*analysis, error) {
	if t == nil {
		return nil, nil
	}
	a := &analysis{fields: t.Fields, params: t.params()}
	var err error
	if a.analyzer, err = text.New(t.Language); err != nil {
		return nil, invalidf("collection %q: %v", collection, err)
	}
	if len(t.Fields) > MaxTextFields {
		return nil, invalidf("collection %q: %d text fields, the limit is %d", collection, len(t.Fields), MaxTextFields)
	}
	for i, f := range t.Fields {
		if err := filter.Validate(filter.Exists(f)); err != nil || slices.Contains(t.Fields[:i], f) {
			return nil, invalidf("collection %q: text field %q is no path, or given twice", collection, f)
		}
	}
	if !(a.params.K1 >= 0 && a.params.K1 <= 100 && a.params.B >= 0 && a.params.B <= 1) {
		return nil, invalidf("collection %q: k1 = %v is outside 0..100 or b = %v outside 0..1", collection, a.params.K1, a.params.B)
	}
	sum := sha256.Sum256([]byte(a.analyzer.ID() + "\x00" + strings.Join(a.fields, "\x00")))
	copy(a.id[:], sum[:])
	return a, nil
}

// SetText changes the full-text index of the collection; nil drops it. The new
// index is built in the background; a query that needs it earlier waits for it.
func (c *Collection) SetText(ctx context.Context, t *TextIndex) error {
	defer c.db.background.wakeCompact()
	return c.wrap("set text index", c.change(ctx, func(g *group, v *view) ([]op, error) {
		def := *v.def
		def.schema.Text = t.clone()
		var err error
		if def.analysis, err = newAnalysis(def.name, t); err != nil {
			return nil, err
		}
		return []op{{kind: opDefine, coll: c.id, def: &def}}, nil
	}))
}

// An indexer adds documents to an index in memory. It is for one goroutine.
type indexer struct {
	*analysis
	scanner *text.Scanner
	index   *terms.Index
	tokens  []text.Token
}

func (a *analysis) indexer() *indexer {
	return &indexer{analysis: a, scanner: a.analyzer.Scanner(), index: terms.NewIndex()}
}

// fieldGap is the distance of positions between text and fields, so that no
// phrase matches across them.
const fieldGap = 100

// add adds the next document, in its stored form; nil adds an empty row.
func (x *indexer) add(doc []byte) error {
	x.tokens = x.tokens[:0]
	if doc != nil {
		if err := x.document(doc); err != nil {
			return err
		}
	}
	x.index.Add(x.tokens)
	return nil
}

func (x *indexer) document(doc []byte) error {
	want := document.Text
	if len(x.fields) > 0 {
		want |= document.Metadata
	}
	d, err := document.Decode(doc, want)
	if err != nil {
		return err
	}
	at := 0
	add := func(s string) {
		first, n := len(x.tokens), 0
		x.tokens, n = x.scanner.Tokens(x.tokens, s)
		for i := range x.tokens[first:] {
			x.tokens[first+i].Position += at
		}
		at += n + fieldGap
	}
	add(d.Text)
	for _, f := range x.fields {
		v, _ := filter.Lookup(d.Metadata, f)
		switch v := v.(type) {
		case string:
			add(v)
		case []any:
			for _, e := range v {
				if s, ok := e.(string); ok {
					add(s)
				}
			}
		}
	}
	return nil
}

// tableTerms indexes the rows of a table when a query first needs them.
type tableTerms struct {
	mu gate // held while rows are indexed
	by map[[16]byte]*indexer
}

// view returns the index of docs, the first rows of the table.
func (t *tableTerms) view(ctx context.Context, a *analysis, docs [][]byte) (*terms.View, error) {
	if err := t.mu.enter(ctx); err != nil {
		return nil, err
	}
	defer t.mu.leave()
	if t.by[a.id] == nil {
		if t.by == nil {
			t.by = map[[16]byte]*indexer{}
		}
		t.by[a.id] = a.indexer()
	}
	x := t.by[a.id]
	for row := x.index.Rows(); row < len(docs); row++ {
		if row%16 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err := x.add(docs[row]); err != nil {
			return nil, err
		}
	}
	return x.index.View(len(docs)), nil
}

// segmentTerms is the full-text index of a segment: one file, for the present
// analysis of the collection. A Snapshot may need the index of an earlier
// analysis, which is built in memory.
type segmentTerms struct {
	s *openSegment

	mu sync.Mutex
	by map[[16]byte]*derived[terms.Terms]
}

// of returns the index for an analysis.
func (t *segmentTerms) of(a *analysis) *derived[terms.Terms] {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.by[a.id]; d != nil {
		return d
	}
	ident := t.s.termsIdent(a)
	d := &derived[terms.Terms]{
		db: t.s.db, name: t.file(), when: t.stage(),
		parse:   func(b []byte) (*terms.Terms, error) { return terms.Parse(b, ident) },
		verify:  (*terms.Terms).Verify,
		write:   func(ctx context.Context, w io.WriterAt) error { return t.s.writeTerms(ctx, w, a) },
		newer:   fileformat.ErrVersion,
		scratch: func() bool { now := t.s.db.analysis(t.s.info.Collection); return now == nil || now.id != a.id },
	}
	if t.by == nil {
		t.by = map[[16]byte]*derived[terms.Terms]{}
	}
	t.by[a.id] = d
	return d
}

// analysis returns the present analysis of a collection; nil if it has no
// index.
func (db *DB) analysis(coll uint32) *analysis {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.cur == nil || db.cur.views[coll] == nil {
		return nil
	}
	return db.cur.views[coll].def.analysis
}

func (s *openSegment) termsIdent(a *analysis) terms.Ident {
	return terms.Ident{DB: s.db.state.DB, Segment: s.info.ID, Rows: s.info.Rows, CRC: s.info.CRC, Analysis: a.id, Docs: s.info.Docs}
}

// The methods of a derivedFile go to the index of the present analysis.

func (t *segmentTerms) file() string { return derivedName(t.s.info.ID, "terms") }

func (t *segmentTerms) stage() stage { return byClose }

func (t *segmentTerms) make(ctx context.Context) error {
	if a := t.s.db.analysis(t.s.info.Collection); a != nil {
		return t.of(a).make(ctx)
	}
	return nil
}

func (t *segmentTerms) check() error {
	a := t.s.db.analysis(t.s.info.Collection)
	if a == nil {
		return nil
	}
	err := t.of(a).check()
	if errors.Is(err, fileformat.ErrMismatch) {
		return nil // of the previous analysis, and about to be replaced
	}
	return err
}

func (t *segmentTerms) recompute(ctx context.Context) error {
	if a := t.s.db.analysis(t.s.info.Collection); a != nil {
		return t.of(a).recompute(ctx)
	}
	return nil
}

func (t *segmentTerms) present() publishable {
	if a := t.s.db.analysis(t.s.info.Collection); a != nil {
		return t.of(a)
	}
	return nil
}

func (t *segmentTerms) retry() {
	for _, d := range t.all() {
		d.retry()
	}
}

func (t *segmentTerms) all() []*derived[terms.Terms] {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*derived[terms.Terms]
	for _, d := range t.by {
		all = append(all, d)
	}
	return all
}

func (t *segmentTerms) fault(f *vfs.FaultError) error {
	for _, d := range t.all() {
		if err := d.fault(f); err != nil {
			return err
		}
	}
	return nil
}

func (t *segmentTerms) close() {
	for _, d := range t.all() {
		d.close()
	}
}

// keep writes the index of a new segment.
func (t *segmentTerms) keep(a *analysis, inputs []terms.Input) {
	d := t.of(a)
	err := d.keep(func(w io.WriterAt) error {
		_, err := terms.Write(w, t.s.termsIdent(a), inputs...)
		return err
	})
	if err != nil { // costs time later, not data
		t.s.db.opts.Logger.Warn("cannot keep derived file", "file", d.name, "error", err)
	}
}

// runBytes is about how much text is indexed in memory before it is written.
const runBytes = 32 << 20

// writeTerms indexes the documents of a segment. Rows whose document is gone,
// because a newer version replaced it, stay empty: they are dead.
func (s *openSegment) writeTerms(ctx context.Context, w io.WriterAt, a *analysis) error {
	var inputs []terms.Input // of runs, one after the other
	x, size, first := a.indexer(), 0, 0
	nums := s.DocNums()
	end := func(row int) error {
		in := terms.Input{Source: x.index.View(row - first), Rows: make([]uint32, row-first)}
		for i := range in.Rows {
			in.Rows[i] = uint32(first + i)
		}
		if row < len(nums) { // not the last: encode it, which is smaller
			ident := terms.Ident{Rows: row - first}
			b, err := terms.Build(ident, terms.Input{Source: in.Source})
			if err != nil {
				return err
			}
			if in.Source, err = terms.Parse(b, ident); err != nil {
				return err
			}
		}
		inputs = append(inputs, in)
		x.index, size, first = terms.NewIndex(), 0, row
		return nil
	}
	const perTx = 1024 // short transactions: a long one keeps pages from reuse
	for lo := 0; lo < len(nums); lo += perTx {
		if err := ctx.Err(); err != nil {
			return err
		}
		hi := min(lo+perTx, len(nums))
		err := s.documents(func(tx *meta.Tx) error {
			for row := lo; row < hi; row++ {
				doc, _, err := tx.Document(s.info.Collection, nums[row])
				if err != nil {
					return err
				}
				if err := x.add(doc); err != nil {
					return corruptDocument(nums[row], err)
				}
				size += len(doc)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if size >= runBytes || hi == len(nums) {
			if err := end(hi); err != nil {
				return err
			}
		}
	}
	_, err := terms.Write(w, s.termsIdent(a), inputs...)
	return err
}

// terms returns the index of a part.
func (p *part) terms(ctx context.Context, a *analysis) (terms.Source, error) {
	if p.segment != nil {
		return p.segment.terms.of(a).need(ctx)
	}
	return p.table.terms.view(ctx, a, p.docs[:p.n])
}

// query parses a text query. field names it in errors.
func (a *analysis) query(field, query string) (text.Query, error) {
	q, err := a.analyzer.Query(query)
	if err != nil {
		return q, invalidf("%s: %v", field, err)
	}
	return q, nil
}

// prepareText prepares a text query for all parts of the view.
func (v *view) prepareText(ctx context.Context, a *analysis, q text.Query) (*textSearch, error) {
	s := &textSearch{view: v}
	parts := make([]terms.Part, len(v.parts))
	for i, p := range v.parts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var err error
		if parts[i].Source, err = p.terms(ctx, a); err != nil {
			return nil, err
		}
		if p.dead.Count() > 0 {
			parts[i].Live = p.alive()
		}
	}
	var err error
	s.Search, err = terms.Prepare(ctx, q, a.params, parts)
	return s, s.damaged(err)
}

// A textSearch is a text query on a view.
type textSearch struct {
	*terms.Search
	view *view
}

// damaged stops the use of an index that turned out to be damaged.
func (s *textSearch) damaged(err error) error {
	var part *terms.PartError
	if !errors.As(err, &part) || s.view.parts[part.Part].segment == nil {
		return err
	}
	t := s.view.parts[part.Part].segment.terms
	for _, d := range t.all() {
		d.distrust(err)
	}
	return &CorruptError{File: t.file(), Offset: -1, Err: fmt.Errorf("%w; %w", err, errDerived)}
}

// texts checks that the index of a part, if it is there, says what the documents
// say.
func (c *checker) texts(v *view, p *part, live bitset.Set) error {
	a := v.def.analysis
	if a == nil || p.segment == nil {
		return nil
	}
	d := p.segment.terms.of(a)
	compare := func(index *terms.Terms) error {
		var b blocks.Memory
		if err := p.segment.writeTerms(c.ctx, &b, a); err != nil {
			return err
		}
		fresh, err := terms.Parse(b, p.segment.termsIdent(a))
		if err == nil {
			err = terms.Compare(index, fresh, live)
		}
		if err != nil {
			c.add(Problem{File: d.name, Offset: -1, Detail: fmt.Sprintf("%v; %v", err, errDerived)})
		}
		return nil
	}
	if c.deep {
		return d.onDisk(compare)
	}
	if index := d.get(); index != nil {
		return compare(index)
	}
	return nil
}

// noText is the error of a text query where there is no index.
func noText(collection string) error {
	return textIndexError{invalidf("collection %q has no text index", collection)}
}
