package formattest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/simd"
)

// Score is the canonical score of a row, as packages db and codes define it.
func Score(metric fileformat.Metric, q, x []float32) float64 {
	switch metric {
	case fileformat.Dot:
		return simd.Dot64(q, x)
	case fileformat.L2:
		return -simd.L264(q, x)
	}
	norms := math.Sqrt(simd.Dot64(x, x)) * math.Sqrt(simd.Dot64(q, q))
	if norms == 0 {
		return 0
	}
	return max(-1, min(1, simd.Dot64(q, x)/norms))
}

// Vectors are vectors of Dim components, one after the other.
type Vectors struct {
	Dim  int
	Vecs []float32
}

// Len returns the number of vectors.
func (v *Vectors) Len() int { return len(v.Vecs) / v.Dim }

// Row returns vector i.
func (v *Vectors) Row(i int) []float32 { return v.Vecs[i*v.Dim : (i+1)*v.Dim] }

// Source returns vectors lo to hi, as the writers of files ask for them.
func (v *Vectors) Source(lo, hi int) ([]float32, error) { return v.Vecs[lo*v.Dim : hi*v.Dim], nil }

// A Set holds the rows and queries of a benchmark.
type Set struct {
	Name          string
	Rows, Queries Vectors
}

// Sets returns a synthetic data set, or the ones in the directories that VECBOLT_BENCH_DATA lists:
// each with base.fvecs and query.fvecs.
func Sets(t testing.TB, queries int) (all []Set) {
	list := os.Getenv("VECBOLT_BENCH_DATA")
	if list == "" {
		return []Set{clustered(768, 20_000, queries)}
	}
	for _, dir := range filepath.SplitList(list) {
		read := func(name string) Vectors { return readVecs(t, filepath.Join(dir, name)) }
		all = append(all, Set{filepath.Base(dir), read("base.fvecs"), read("query.fvecs")})
	}
	return all
}

// clustered returns vectors of length 1 around many centres with a common mean, like the vectors of
// a text model.
func clustered(dim, rows, queries int) Set {
	r := rand.New(rand.NewPCG(1, 2))
	const centres, latent = 1000, 48
	noise := func(sd float64) float64 { return sd * r.NormFloat64() }
	basis := make([]float32, latent*dim)
	for i := range basis {
		basis[i] = float32(noise(math.Pow(0.95, float64(i/dim))))
	}
	where := make([]float32, centres*latent)
	for i := range where {
		where[i] = float32(noise(1))
	}
	at := make([]float32, latent)
	some := func(n int) Vectors {
		vecs := make([]float32, n*dim)
		for i := range n {
			x := vecs[i*dim : (i+1)*dim]
			c := r.IntN(centres)
			for j := range at {
				at[j] = where[c*latent+j] + float32(noise(0.5))
			}
			for j := range x {
				x[j] = float32(1 + noise(0.6))
			}
			for j, w := range at {
				for k, b := range basis[j*dim : (j+1)*dim] {
					x[k] += w * b
				}
			}
			inv := float32(1 / math.Sqrt(simd.Dot64(x, x)))
			for j := range x {
				x[j] *= inv
			}
		}
		return Vectors{dim, vecs}
	}
	return Set{fmt.Sprintf("clustered-%dx%d", rows, dim), some(rows), some(queries)}
}

func readVecs(t testing.TB, name string) (v Vectors) {
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	v.Dim = int(binary.LittleEndian.Uint32(file))
	v.Vecs = make([]float32, 0, len(file)/4)
	for ; len(file) > 0; file = file[4+4*v.Dim:] {
		for i := range v.Dim {
			v.Vecs = append(v.Vecs, math.Float32frombits(binary.LittleEndian.Uint32(file[4+4*i:])))
		}
	}
	return v
}
