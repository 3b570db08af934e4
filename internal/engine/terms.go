package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment/terms"
	"github.com/vecbolt/vecbolt/text"
)

// A TextIndex says how the documents of a collection are indexed for full-text search: the
// language, the metadata fields, and the parameters of BM25.
type TextIndex struct {
	Language string
	Fields   []string
	K1, B    *float64 // nil: 1.2 and 0.75
}

// MaxTextFields is the most metadata fields in a text index.
const MaxTextFields = 64

// Clone returns a copy with the default language.
func (t *TextIndex) Clone() *TextIndex {
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
	return t.Clone().Language == o.Clone().Language && slices.Equal(t.Fields, o.Fields) && t.params() == o.params()
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

// An Analysis turns documents into terms, as a TextIndex says.
type Analysis struct {
	Analyzer *text.Analyzer
	fields   []string
	Params   terms.Params
	id       [16]byte // identifies the terms that it makes
}

// NewAnalysis validates t; nil gives nil. Paths of any length will do: they may be stored.
func NewAnalysis(collection string, t *TextIndex) (*Analysis, error) {
	if t == nil {
		return nil, nil
	}
	a := &Analysis{fields: t.Fields, Params: t.params()}
	var err error
	if a.Analyzer, err = text.New(t.Language); err != nil {
		return nil, document.Invalidf("collection %q: %v", collection, err)
	}
	if len(t.Fields) > MaxTextFields {
		return nil, document.Invalidf("collection %q: %d text fields, the limit is %d", collection,
			len(t.Fields), MaxTextFields)
	}
	var paths []string
	for i, f := range t.Fields {
		if f == "" || f[0] == '$' || !utf8.ValidString(f) || slices.Contains(t.Fields[:i], f) {
			return nil, document.Invalidf("collection %q: text field %q is no path, or given twice", collection, f)
		}
		paths = append(paths, strings.ReplaceAll(f, "\x00", "\x00\xff")) // which is not UTF-8: no path has it
	}
	if k1 := a.Params.K1; !(k1 >= 0 && k1 <= 100) {
		return nil, document.Invalidf("collection %q: k1 = %v is outside 0..100", collection, k1)
	}
	if b := a.Params.B; !(b >= 0 && b <= 1) {
		return nil, document.Invalidf("collection %q: b = %v is outside 0..1", collection, b)
	}
	sum := sha256.Sum256([]byte(a.Analyzer.ID() + "\x00" + strings.Join(paths, "\x00")))
	copy(a.id[:], sum[:])
	return a, nil
}

// An indexer adds documents to an index in memory. It is for one goroutine.
type indexer struct {
	*Analysis
	Scanner *text.Scanner
	Index   *terms.Index
	tokens  []text.Token
}

func (a *Analysis) Indexer() *indexer {
	return &indexer{Analysis: a, Scanner: a.Analyzer.Scanner(), Index: terms.NewIndex()}
}

// fieldGap is the distance of positions between text and fields, so that no
// phrase matches across them.
const fieldGap = 100

// Add adds the next document, in its stored form; nil adds an empty row.
func (x *indexer) Add(doc []byte) error {
	x.tokens = x.tokens[:0]
	if doc != nil {
		if err := x.document(doc); err != nil {
			return err
		}
	}
	x.Index.Add(x.tokens)
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
		x.tokens, n = x.Scanner.Tokens(x.tokens, s)
		for i := range x.tokens[first:] {
			x.tokens[first+i].Position += at
		}
		at += n + fieldGap
	}
	add(d.Text)
	for _, f := range x.fields {
		for s := range document.Strings(d.Metadata, f) {
			add(s)
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
func (t *tableTerms) view(ctx context.Context, a *Analysis, docs [][]byte) (*terms.View, error) {
	if err := t.mu.enter(ctx); err != nil {
		return nil, err
	}
	defer t.mu.leave()
	if t.by[a.id] == nil {
		if t.by == nil {
			t.by = map[[16]byte]*indexer{}
		}
		t.by[a.id] = a.Indexer()
	}
	x := t.by[a.id]
	for row := x.Index.Rows(); row < len(docs); row++ {
		if row%16 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err := x.Add(docs[row]); err != nil {
			return nil, err
		}
	}
	return x.Index.View(len(docs)), nil
}

// segmentTerms is the full-text index of a segment: one file, for the present
// analysis of the collection. A Snapshot may need the index of an earlier
// analysis, which is built in memory.
type segmentTerms struct {
	s *OpenSegment

	mu sync.Mutex
	by map[[16]byte]*Derived[terms.Terms]
}

// Of returns the index for an analysis.
func (t *segmentTerms) Of(a *Analysis) *Derived[terms.Terms] {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.by[a.id]; d != nil {
		return d
	}
	ident := t.s.TermsIdent(a)
	d := &Derived[terms.Terms]{
		engine: t.s.engine, Name: t.File(), when: t.stage(),
		parse:   func(b []byte) (*terms.Terms, error) { return terms.Parse(b, ident) },
		verify:  (*terms.Terms).Verify,
		write:   func(ctx context.Context, w io.WriterAt) error { return t.s.WriteTerms(ctx, w, a) },
		newer:   fileformat.ErrVersion,
		scratch: func() bool { now := t.s.engine.Analysis(t.s.Info.Collection); return now == nil || now.id != a.id },
	}
	if t.by == nil {
		t.by = map[[16]byte]*Derived[terms.Terms]{}
	}
	t.by[a.id] = d
	return d
}

// Analysis returns the present analysis of a collection; nil if it has no
// index.
func (e *Engine) Analysis(coll uint32) *Analysis {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cur == nil || e.cur.Views[coll] == nil {
		return nil
	}
	return e.cur.Views[coll].Def.Analysis
}

func (s *OpenSegment) TermsIdent(a *Analysis) terms.Ident {
	return terms.Ident{DB: s.engine.Identity, Segment: s.Info.ID, Rows: s.Info.Rows, CRC: s.Info.CRC,
		Analysis: a.id, Docs: s.Info.Docs}
}

// The methods of a derivedFile go to the index of the present analysis.

func (t *segmentTerms) File() string { return derivedName(t.s.Info.ID, "terms") }

func (t *segmentTerms) stage() stage { return ByClose }

func (t *segmentTerms) make(ctx context.Context, replace renewal) error {
	if a := t.s.engine.Analysis(t.s.Info.Collection); a != nil {
		return t.Of(a).make(ctx, replace)
	}
	return nil
}

func (t *segmentTerms) Check() error {
	a := t.s.engine.Analysis(t.s.Info.Collection)
	if a == nil {
		return nil
	}
	err := t.Of(a).Check()
	if errors.Is(err, fileformat.ErrMismatch) {
		return nil // of the previous analysis, and about to be replaced
	}
	return err
}

func (t *segmentTerms) Recompute(ctx context.Context) error {
	if a := t.s.engine.Analysis(t.s.Info.Collection); a != nil {
		return t.Of(a).Recompute(ctx)
	}
	return nil
}

func (t *segmentTerms) Present() Publishable {
	if a := t.s.engine.Analysis(t.s.Info.Collection); a != nil {
		return t.Of(a)
	}
	return nil
}

func (t *segmentTerms) retry() {
	for _, d := range t.All() {
		d.retry()
	}
}

func (t *segmentTerms) All() []*Derived[terms.Terms] {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*Derived[terms.Terms]
	for _, d := range t.by {
		all = append(all, d)
	}
	return all
}

func (t *segmentTerms) fault(f *vfs.FaultError) error {
	for _, d := range t.All() {
		if err := d.fault(f); err != nil {
			return err
		}
	}
	return nil
}

func (t *segmentTerms) close() {
	for _, d := range t.All() {
		d.close()
	}
}

// Keep writes the index of a new segment.
func (t *segmentTerms) Keep(a *Analysis, inputs []terms.Input) {
	d := t.Of(a)
	err := d.keep(func(w io.WriterAt) error {
		_, err := terms.Write(w, t.s.TermsIdent(a), inputs...)
		return err
	})
	if err != nil { // costs time later, not data
		t.s.engine.Opts.Logger.Warn("cannot keep derived file", "file", d.Name, "error", err)
	}
}

// runBytes is about how much text is indexed in memory before it is written.
const runBytes = 32 << 20

// WriteTerms indexes the documents of a segment. Rows whose document is gone,
// because a newer version replaced it, stay empty: they are dead.
func (s *OpenSegment) WriteTerms(ctx context.Context, w io.WriterAt, a *Analysis) error {
	var inputs []terms.Input // of runs, one after the other
	x, size, first := a.Indexer(), 0, 0
	nums := s.DocNums()
	end := func(row int) error {
		in := terms.Input{Source: x.Index.View(row - first), Rows: make([]uint32, row-first)}
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
		x.Index, size, first = terms.NewIndex(), 0, row
		return nil
	}
	for lo := 0; lo < len(nums); lo += docsPerTx {
		if err := ctx.Err(); err != nil {
			return err
		}
		hi := min(lo+docsPerTx, len(nums))
		err := s.documents(func(tx *meta.Tx) error {
			for row := lo; row < hi; row++ {
				doc, _, err := tx.Document(s.Info.Collection, nums[row])
				if err != nil {
					return err
				}
				if err := x.Add(doc); err != nil {
					return CorruptDocument(nums[row], err)
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
	_, err := terms.Write(w, s.TermsIdent(a), inputs...)
	return err
}

// Terms returns the index of a part.
func (p *Part) Terms(ctx context.Context, a *Analysis) (terms.Source, error) {
	if p.Segment != nil {
		return p.Segment.Terms.Of(a).Need(ctx)
	}
	return p.table.terms.view(ctx, a, p.docs[:p.N])
}
