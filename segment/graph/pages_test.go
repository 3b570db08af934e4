package graph

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
	"github.com/vecbolt/vecbolt/simd"
)

// inPieces divides writes, so that none fills a huge page.
type inPieces struct{ io.WriterAt }

func (w inPieces) WriteAt(b []byte, off int64) (n int, err error) {
	for piece := range slices.Chunk(b, 256<<10) {
		if _, err := w.WriterAt.WriteAt(piece, off+int64(n)); err != nil {
			return n, err
		}
		n += len(piece)
	}
	return n, nil
}

// mapped returns the content of a file that write writes, as the system maps it.
func mapped(b *testing.B, name string, write func(w io.WriterAt) error, wrap func(io.WriterAt) io.WriterAt) []byte {
	f, err := os.Create(filepath.Join(b.TempDir(), name))
	if err != nil {
		b.Fatal(err)
	}
	if err := write(wrap(f)); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	m, err := vfs.MapFile(f.Name())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { m.Close() })
	return m.Bytes()
}

// BenchmarkPages searches one graph, for the 10 best rows, in two pairs of files, in turn: graph
// and vectors as they are written, and written in small pieces. It prints queries per second on
// one thread: see vfs.Gather for the file systems where they differ. The best time of seven counts
// for each 50 queries.
func BenchmarkPages(b *testing.B) {
	for _, size := range [][2]int{{100_000, 100}, {340_000, 100}, {26_000, 1536}, {100_000, 768}, {300_000, 384}} {
		b.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(b *testing.B) {
			dim := size[1]
			rows := lowRankData(size[0]+1000, dim)
			queries := data{vectors{Dim: dim, Vecs: rows.Vecs[size[0]*dim:]}}
			rows.Vecs = rows.Vecs[:size[0]*dim]
			ident := rows.ident(fileformat.Cosine)
			built, err := create(b.Context(), ident, rows.Source, Options{Planned: true})
			if err != nil {
				b.Fatal(err)
			}
			var graphs [2]*Graph
			var vectors [2][]float32
			for i, wrap := range [2]func(w io.WriterAt) io.WriterAt{
				func(w io.WriterAt) io.WriterAt { return inPieces{w} },
				func(w io.WriterAt) io.WriterAt { return w },
			} {
				file := mapped(b, "graph", func(w io.WriterAt) error { _, err := built.write(w); return err }, wrap)
				if graphs[i], err = Parse(file, ident, nil); err != nil {
					b.Fatal(err)
				}
				if err := graphs[i].Verify(); err != nil {
					b.Fatal(err)
				}
				vectors[i] = codec.F32sFromBytes(mapped(b, "vectors", func(w io.WriterAt) error {
					to := vfs.NewGather(w, 0)
					if _, err := to.Write(codec.BytesFromF32s(rows.Vecs)); err != nil {
						return err
					}
					return to.Flush()
				}, wrap))
			}
			for b.Loop() {
				for _, ef := range []int{12, 24, 48, 96, 192} {
					qps, _ := inTurn(b, graphs, vectors, &queries, ef)
					fmt.Printf("ef %d: %.0f queries/s in small pieces, %.0f as written, %.2f x\n", ef, qps[0], qps[1], qps[1]/qps[0])
				}
			}
		})
	}
}

// inTurn searches two graphs for the 10 best rows of vectors, in turn. It returns the queries per
// second, where the best time of seven counts for each 50 queries, and the rows found.
func inTurn(b *testing.B, graphs [2]*Graph, vectors [2][]float32, queries *data, ef int) (qps [2]float64, found [2][][]Hit) {
	const group, rounds = 50, 7
	var buf Buffer
	best := [2][]float64{}
	for i := range best {
		best[i] = slices.Repeat([]float64{math.Inf(1)}, queries.Len()/group)
		found[i] = make([][]Hit, queries.Len())
	}
	for round := range rounds * len(best) {
		i := round % len(best)
		for j := range best[i] {
			start := time.Now()
			for at := range group {
				n := j*group + at
				vec := queries.Row(n)
				hits, _, err := graphs[i].Query(vec).Search(10, levels.Setting{EF: ef}, nil, func(row int) (float64, error) {
					return simd.Dot64(vec, vectors[i][row*queries.Dim:][:queries.Dim]), nil
				}, &buf)
				if err != nil {
					b.Fatal(err)
				}
				found[i][n] = append(found[i][n][:0], hits...)
			}
			best[i][j] = min(best[i][j], time.Since(start).Seconds())
		}
	}
	for i := range qps {
		total := 0.0
		for _, s := range best[i] {
			total += s
		}
		qps[i] = float64(queries.Len()) / total
	}
	return qps, found
}

// BenchmarkShared compares graphs of the quick layout with codes of their own, and with the codes
// of the segment: bytes, times of building, queries per second on one thread and recall.
func BenchmarkShared(b *testing.B) {
	for _, size := range [][2]int{{85_000, 384}, {40_000, 768}, {20_000, 1536}} {
		b.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(b *testing.B) {
			rows := lowRankData(size[0]+1000, size[1])
			queries := data{vectors{Dim: rows.Dim, Vecs: rows.Vecs[size[0]*rows.Dim:]}}
			rows.Vecs = rows.Vecs[:size[0]*rows.Dim]
			for i := range size[0] { // so that inner products order rows as the cosine does
				x := rows.Row(i)
				factor := float32(1 / math.Sqrt(simd.Dot64(x, x)))
				for j := range x {
					x[j] *= factor
				}
			}
			m := fileformat.Cosine
			with := rows.codes(b, m)
			if err := with.Verify(); err != nil {
				b.Fatal(err)
			}
			var graphs [2]*Graph
			var seconds [2]float64
			for i, layout := range []uint32{quick, quickShared} {
				var file memory
				start := time.Now()
				opts := Options{layout: layout, Codes: with, Planned: true}
				if _, err := Write(b.Context(), &file, rows.ident(m), rows.Source, opts); err != nil {
					b.Fatal(err)
				}
				seconds[i] = time.Since(start).Seconds()
				var err error
				if graphs[i], err = Parse(file, rows.ident(m), with); err != nil {
					b.Fatal(err)
				}
				if err := graphs[i].Verify(); err != nil {
					b.Fatal(err)
				}
			}
			fmt.Printf("bytes per row %d, %d; built in %.1f, %.1f s\n", graphs[0].geo.size/int64(size[0]),
				graphs[1].geo.size/int64(size[0]), seconds[0], seconds[1])
			truth := make([][]Hit, queries.Len())
			for i := range truth {
				truth[i] = exact(m, rows, queries.Row(i), 10, nil)
			}
			for b.Loop() {
				for _, ef := range []int{12, 24, 48, 96, 192} {
					qps, found := inTurn(b, graphs, [2][]float32{rows.Vecs, rows.Vecs}, &queries, ef)
					var hits [2]int
					for i := range hits {
						for n := range truth {
							hits[i] += common(found[i][n], truth[n])
						}
					}
					n := float64(10 * queries.Len())
					fmt.Printf("ef %d: %.0f queries/s and recall %.4f with codes of its own, %.0f and %.4f with shared ones, %.2f x\n",
						ef, qps[0], float64(hits[0])/n, qps[1], float64(hits[1])/n, qps[1]/qps[0])
				}
			}
		})
	}
}
