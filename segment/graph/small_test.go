package graph

import (
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// TestSmall: a small graph has the plain layout. Its header says so where the layout would else be
// quick, so that the file is replaced once the choice changes, and only then.
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
			for i := range d.vecs[d.dim:] {
				d.vecs[d.dim+i] /= 100
			}
		}
		opts := Options{quiet: true, QuickSize: c.quickSize}
		fast := d.graph(t, c.metric, opts)
		opts.Small = true
		small := d.graph(t, c.metric, opts)
		if fast.Quick() != c.quick || small.Quick() {
			t.Errorf("%s: quick %v, small %v", c.name, fast.Quick(), small.Quick())
		}
		if fast.Outdated(false) || small.Outdated(true) {
			t.Errorf("%s: a new file is outdated", c.name)
		}
		if fast.Outdated(true) != c.quick || small.Outdated(false) != c.quick {
			t.Errorf("%s: outdated for small graphs: %v, for others: %v", c.name, fast.Outdated(true),
				small.Outdated(false))
		}
		// The plain layout saves two factors for each of 32 neighbours, and 32 bits of each
		// element, padded.
		saved := int64(300 * (256 + (c.dim+15)/16*64))
		if got := fast.geo.size - small.geo.size; c.quick && (got < saved || got > saved+saved/1000+sectionEnd) ||
			!c.quick && got != 0 {
			t.Errorf("%s: %d bytes less, want %d", c.name, got, saved)
		}
		for _, q := range queries {
			if found, want := check(t, small, d, c.metric, q, 10, 300, nil, new(Buffer)); found != want {
				t.Errorf("%s: %d of %d found", c.name, found, want)
			}
		}
	}
}
