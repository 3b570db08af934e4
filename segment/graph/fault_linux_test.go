package graph

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// A vector file is cut while a graph is made of it, at any of the moments at which rows are asked
// for: of the survey, the coding, the calibration. Whichever goroutine meets that, Write returns
// an error, and the process lives.
func TestVectorsAreCutWhileBuilding(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	next := shapes["normal"](r, 16)
	d := &data{vectors{Dim: 16}}
	for range 150 {
		d.Vecs = append(d.Vecs, next()...)
	}
	base := d.graph(t, fileformat.L2, Options{})
	same := make([]int32, d.Len())
	for i := range same {
		same[i] = int32(i)
	}
	dir := t.TempDir()
	fsys, err := vfs.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer fsys.Close()
	path := filepath.Join(dir, "vectors")
	// build cuts the file when rows are asked for the cut-th time, and returns how often they were.
	build := func(cut int, opts Options) (asked int, err error) {
		if err := os.WriteFile(path, codec.BytesFromF32s(d.Vecs), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := fsys.Open("vectors")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		m, err := f.Map(int64(4 * len(d.Vecs)))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		vecs := codec.F32sFromBytes(m.Bytes())
		err = vfs.Guard("vectors", func() error {
			_, err := Write(t.Context(), new(memory), d.ident(fileformat.L2), func(lo, hi int) ([]float32, error) {
				if asked++; asked == cut {
					if err := os.Truncate(path, 0); err != nil {
						return nil, err
					}
				}
				return vecs[lo*d.Dim : hi*d.Dim], nil
			}, opts)
			return err
		})
		return asked, err
	}
	for name, opts := range map[string]Options{
		"new":    {Workers: 4},
		"merged": {Workers: 4, Base: base, Rows: same},
		"quick":  {Workers: 4, layout: quick},
	} {
		all, err := build(0, opts)
		if err != nil || all < 10 {
			t.Fatalf("%s: rows were asked for %d times, %v", name, all, err)
		}
		for cut := 1; cut <= all; cut += 1 + cut/2 {
			_, err := build(cut, opts)
			if _, ok := errors.AsType[*vfs.FaultError](err); !ok {
				t.Errorf("%s, cut when asked for the %d. time of %d: %v", name, cut, all, err)
			}
		}
	}
}

// A panic in one of the goroutines that build is an error, too.
func TestPanicWhileBuilding(t *testing.T) {
	b := newBuilder(t.Context(), nil, 4)
	err := b.each(100, func(_ *workerScratch, i int) error {
		if i == 17 {
			panic("seventeen")
		}
		return nil
	})
	if p, ok := errors.AsType[*vfs.PanicError](err); !ok || p.Value != "seventeen" || len(p.Stack) == 0 {
		t.Errorf("error %v", err)
	}
}
