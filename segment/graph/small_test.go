package graph

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/blocks"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
	"github.com/vecbolt/vecbolt/simd"
)

// TestSmall: a small graph shares the codes of the segment or, without these, has the plain layout.
// Its header says why, so that the file is replaced once the choice changes, and only then.
func TestSmall(t *testing.T) {
	for _, c := range []struct {
		name      string
		dim       int
		metric    fileformat.Metric
		shape     string
		quickSize int64
		quick     bool // without Small
	}{
		{"short", 24, fileformat.Cosine, "normal", 1, false},
		{"middle", 200, fileformat.L2, "normal", 1, true},
		{"middle, few rows", 200, fileformat.L2, "normal", 0, false},
		{"long", quickDim, fileformat.Cosine, "normal", 0, true},
		{"long, inner product", quickDim, fileformat.Dot, "normal", 0, true},
		{"long, inner product of lengths that differ", quickDim, fileformat.Dot, "lengths", 0, false},
	} {
		shape := c.shape
		if shape == "lengths" {
			shape = "normal"
		}
		d, queries := make1(shape, c.dim, 300, 5)
		if c.shape == "lengths" {
			for i := range d.Vecs[d.Dim:] {
				d.Vecs[d.Dim+i] /= 100
			}
		}
		opts := Options{quiet: true, QuickSize: c.quickSize}
		fast := d.graph(t, c.metric, opts)
		opts.Small = true
		small := d.graph(t, c.metric, opts)
		opts.Codes = d.codes(t, c.metric)
		sharing := d.graph(t, c.metric, opts)
		if fast.Quick() != c.quick || small.head.layout != plain || sharing.head.layout != shared {
			t.Errorf("%s: layouts %d, %d, %d", c.name, fast.head.layout, small.head.layout, sharing.head.layout)
		}
		if fast.Outdated(false) || small.Outdated(true) || sharing.Outdated(true) {
			t.Errorf("%s: a new file is outdated", c.name)
		}
		if !fast.Outdated(true) || small.Outdated(false) != c.quick || !sharing.Outdated(false) {
			t.Errorf("%s: outdated for small graphs: %v, for others: %v, %v", c.name, fast.Outdated(true),
				small.Outdated(false), sharing.Outdated(false))
		}
		// The plain layout saves two factors for each of 32 neighbours, and 32 bits of each
		// component, padded.
		saved := int64(300 * (256 + (c.dim+15)/16*64))
		if got := fast.geo.size - small.geo.size; c.quick && (got < saved || got > saved+saved/1000+sectionEnd) ||
			!c.quick && got != 0 {
			t.Errorf("%s: %d bytes less, want %d", c.name, got, saved)
		}
		// The shared layout saves a byte for each component, the padding, and the mean.
		saved = 300*(recordSize(c.dim)-simd.RecordTail) + align(int64(4*c.dim))
		if got := small.geo.size - sharing.geo.size; got < saved-sectionEnd || got > saved+saved/1000+sectionEnd {
			t.Errorf("%s: %d bytes less, want %d", c.name, got, saved)
		}
		for _, q := range queries {
			for _, g := range []*Graph{small, sharing} {
				if found, want := check(t, g, d, c.metric, q, 10, 300, nil, new(Buffer)); found != want {
					t.Errorf("%s: %d of %d found", c.name, found, want)
				}
			}
		}
	}
}

// whole returns a graph in memory as it was before its codes were split off.
func whole(g *Graph) *Graph {
	twin := *g
	twin.file, twin.codes, twin.codeBytes, twin.records = nil, nil, nil, nil
	twin.geo.stride = recordSize(g.Dim())
	for row := range uint32(g.Len()) {
		coded, tail := g.parts(row)
		record := bytes.Repeat([]byte{128}, int(recordSize(g.Dim())))
		copy(record, coded[:g.Dim()])
		copy(record[len(record)-len(tail):], tail)
		twin.records = append(twin.records, record...)
	}
	return &twin
}

// TestSharedWalk: a graph that shares codes does what one with the same records and nodes does, in
// every walk: the same rows, the same work. It has the records of the rows.
func TestSharedWalk(t *testing.T) {
	for i, name := range shapeNames() {
		for j, dim := range []int{3, 48, 50, 64, 100, 200, quickDim} {
			m := metrics[(i+j)%len(metrics)]
			d, queries := make1(name, dim, 700, 10)
			layout := uint32(shared)
			if dim > 64 {
				layout = quickShared
			}
			g := d.graph(t, m, Options{layout: layout, quiet: true})
			if (name == "huge" || name == "tiny") && m != fileformat.Cosine && g.head.layout == layout-2 {
				continue // codes leave out such components
			}
			if g.head.layout != layout {
				t.Fatalf("%s, %d dimensions: layout %d", name, dim, g.head.layout)
			}
			if err := g.Compare(t.Context(), d.Source); err != nil {
				t.Fatal(err)
			}
			twin := whole(g)
			some := bitset.New(d.Len())
			for i := range d.Len() {
				if i%3 > 0 {
					some.Set(i)
				}
			}
			var buf, other Buffer
			for n, vec := range queries {
				for _, allowed := range []bitset.Set{nil, some} {
					for _, s := range []levels.Setting{{EF: 10}, {EF: 60, StopRatio: 1.2}, {EF: 300, StopRatio: 1.5}} {
						q, p := g.Query(vec), twin.Query(vec)
						q.Guard(10, s, 467)
						p.Guard(10, s, 467)
						if n%2 > 0 {
							q, p = queryRow(g, d.Row(n), n), queryRow(twin, d.Row(n), n)
						}
						rows, did, err := q.Find(10, s, allowed, &buf)
						want, stats, problem := p.Find(10, s, allowed, &other)
						if !errors.Is(err, problem) || !slices.Equal(rows, want) || did != stats {
							t.Fatalf("%s, %d dimensions, %+v: %v, %+v, %v; plain: %v, %+v, %v", name, dim, s, rows, did, err,
								want, stats, problem)
						}
					}
				}
			}
		}
	}
}

// TestSharedCodes: a graph is refused without the codes that it was made with, and takes them from
// any file that has them.
func TestSharedCodes(t *testing.T) {
	const m = fileformat.Cosine
	d, queries := make1("clusters", 64, 1100, 1) // more than a block of codes
	with := d.codes(t, m)
	b := d.file(t, m, Options{layout: shared, quiet: true})
	var small memory
	if _, err := codes.WriteSmall(&small, d.ident(m), d.Source); err != nil {
		t.Fatal(err)
	}
	lean, err := codes.Parse(small, d.ident(m))
	if err != nil || !with.HasNibbles() || lean.HasNibbles() {
		t.Fatalf("codes with nibbles: %v, %v; %v", with.HasNibbles(), lean.HasNibbles(), err)
	}
	var want []uint32
	for i, c := range []*codes.Codes{with, lean} {
		g, err := Parse(b, d.ident(m), c)
		if err != nil {
			t.Fatal(err)
		}
		rows, _, err := g.Query(queries[0]).Find(10, levels.Setting{EF: 1100}, nil, new(Buffer))
		if i > 0 && !slices.Equal(rows, want) || len(rows) < 10 || err != nil {
			t.Errorf("%v, %v, want %v", rows, err, want)
		}
		if want = rows; g.Codes() != c || g.Layout() != "shared: to save space" {
			t.Errorf("layout %q", g.Layout())
		}
	}
	if _, err := Parse(b, d.ident(m), nil); !errors.Is(err, ErrCodes) || errors.Is(err, fileformat.ErrDamaged) {
		t.Errorf("without codes: %v", err)
	}
	other := slices.Clone(d.Vecs)
	other[len(other)-1]++
	changed := &data{vectors{Dim: d.Dim, Vecs: other}} // of the same segment, although the last row differs
	moved := d.ident(m)
	moved.Segment++
	foreign, err := codes.Build(moved, d.Source)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := codes.Parse(foreign, moved)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*codes.Codes{changed.codes(t, m), elsewhere} {
		if _, err := Parse(b, d.ident(m), c); !errors.Is(err, fileformat.ErrMismatch) || errors.Is(err, ErrCodes) {
			t.Errorf("with other codes: %v", err)
		}
	}
	if _, err := Write(t.Context(), new(memory), d.ident(m), d.Source, Options{Small: true, Codes: elsewhere}); !errors.Is(err, fileformat.ErrMismatch) {
		t.Errorf("made with other codes: %v", err)
	}
}

// TestSharedDamage: an error blames the codes for damage in them, and the graph for its own.
func TestSharedDamage(t *testing.T) {
	const m = fileformat.L2
	d, queries := make1("normal", 64, 3000, 1)
	id := d.ident(m)
	b, file := d.file(t, m, Options{layout: shared, quiet: true}), d.codeFile(t, m)
	find := func() error {
		with, err := codes.Parse(file, id)
		if err != nil {
			t.Fatal(err)
		}
		g, err := Parse(b, id, with)
		if err != nil {
			return err
		}
		_, _, err = g.Query(queries[0]).Find(10, levels.Setting{EF: 3000}, nil, new(Buffer))
		return err
	}
	if err := find(); err != nil {
		t.Fatal(err)
	}
	end := headerSize + 2*blocks.Size // the third block holds the mean: without it there are no codes
	for at := headerSize; at < end; at += end / 20 {
		file[at] ^= 1
		if err := find(); !errors.Is(err, ErrCodes) || !errors.Is(err, fileformat.ErrDamaged) {
			t.Errorf("byte %d of the codes: %v", at, err)
		}
		if _, err := Write(t.Context(), new(memory), id, d.Source, Options{Small: true, Codes: parsed(t, file, id)}); !errors.Is(err, ErrCodes) {
			t.Errorf("byte %d of the codes, building: %v", at, err)
		}
		file[at] ^= 1
	}
	for at := headerSize; at < len(b); at += len(b) / 50 {
		b[at] ^= 1
		if err := find(); errors.Is(err, ErrCodes) || !errors.Is(err, fileformat.ErrDamaged) {
			t.Errorf("byte %d of the graph: %v", at, err)
		}
		b[at] ^= 1
	}
}

func parsed(t *testing.T, file []byte, id codes.Ident) *codes.Codes {
	c, err := codes.Parse(file, id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestOddComponents: rows with components that are not finite, which a file of others may have, are
// calibrated like any others.
func TestOddComponents(t *testing.T) {
	for _, odd := range []float32{float32(math.Inf(1)), float32(math.NaN())} {
		for _, m := range metrics {
			d, _ := make1("normal", 8, 300, 0)
			for row := 0; row < 300; row += 50 { // some of them are trials
				d.Vecs[row*d.Dim+3] = odd
			}
			d.graph(t, m, Options{Trials: 40})
		}
	}
}

// TestFewRows: graphs of few and of equal rows can be opened, and compared with their rows.
func TestFewRows(t *testing.T) {
	for _, m := range metrics {
		for n := 1; n < 12; n++ {
			d := &data{vectors{Dim: 3}}
			for i := range n {
				d.Vecs = append(d.Vecs, float32(i%3), 1, 0)
			}
			for _, equal := range []bool{false, true} {
				if equal {
					copy(d.Vecs, slices.Repeat(d.Row(0), n))
				}
				g := d.graph(t, m, Options{Planned: true, Trials: 20})
				if err := g.Compare(t.Context(), d.Source); err != nil {
					t.Errorf("%v, %d rows, equal %v: %v", m, n, equal, err)
				}
			}
		}
	}
}

// TestUnshared: where the codes leave out a row, the records stay in the graph.
func TestUnshared(t *testing.T) {
	for name, odd := range map[string]float32{"large": 1e30, "infinite": float32(math.Inf(1)), "not a number": float32(math.NaN())} {
		for _, small := range []bool{true, false} {
			layouts, dim, text := []uint32{plain, shared}, 24, "plain: to save space, with codes that cannot be shared"
			if !small {
				layouts, dim, text = []uint32{quick, quickShared}, quickDim, "quick: from 512 dimensions"
			}
			d, queries := make1("normal", dim, 300, 5)
			d.Vecs[100*d.Dim] = odd
			for _, m := range metrics {
				// Where one row is very long, inner products have the plain layout, whole anyway.
				if m == fileformat.Dot && !small {
					continue
				}
				g := d.graph(t, m, Options{Small: small, Codes: d.codes(t, m), quiet: true})
				if m == fileformat.Cosine && name == "large" {
					if g.head.layout != layouts[1] { // directions are never large
						t.Errorf("%s, metric %d: layout %d", name, m, g.head.layout)
					}
					continue
				}
				if g.head.layout != layouts[0] || g.Outdated(small) || g.Codes() != nil || g.Layout() != text {
					t.Errorf("%s, metric %d: layout %d, %q, outdated %v", name, m, g.head.layout, g.Layout(), g.Outdated(small))
				}
				if err := g.Compare(t.Context(), d.Source); err != nil {
					t.Errorf("%s, metric %d: %v", name, m, err)
				}
				for _, q := range queries {
					if rows, _, err := g.Query(q).Find(10, levels.Setting{EF: 300}, nil, new(Buffer)); len(rows) < 10 || err != nil {
						t.Errorf("%s, metric %d: %v, %v", name, m, rows, err)
					}
				}
			}
		}
	}
}
