package main

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
)

// The shape of synth768: a mixture of clusters on a latent space of few dimensions with a decaying
// spectrum, lifted to the full dimension by a random linear map, plus noise in every dimension and
// one mean common to all rows, normalised. The numbers are chosen so that the mean cosine of a
// query with its nearest row is 0.80, with its tenth 0.74 and with a random row 0.16.
const (
	synthClusters = 1000
	synthLatent   = 48
	synthDecay    = 0.5  // the standard deviation of latent dimension j is (j+1)^-synthDecay
	synthSpread   = 0.88 // of a cluster's rows around its centre, relative to the spread of the centres
	synthNoise    = 0.28 // length of the noise, relative to the latent part
	synthMean     = 0.59 // length of the common mean, relative to the latent part
	synthSeed     = 768
)

// synth generates rows vectors of dimension dim, deterministically. Row i depends on i and seed
// alone, so that parallel generation and longer sets give the same rows.
func synth(rows, dim int) matrix {
	return newSynth(dim).rows(0, rows)
}

// synthModel holds what the rows of one dimension share.
type synthModel struct {
	sigma, centres, lift, mean []float64
	scale                      float64
}

func newSynth(dim int) *synthModel {
	rng := rand.New(rand.NewPCG(synthSeed, 0))
	sigma := make([]float64, synthLatent)
	var energy float64
	for j := range sigma {
		sigma[j] = math.Pow(float64(j+1), -synthDecay)
		energy += sigma[j] * sigma[j]
	}
	scale := 1 / math.Sqrt(energy) // the latent part has length 1 on average
	centres := make([]float64, synthClusters*synthLatent)
	for i := range centres {
		centres[i] = rng.NormFloat64() * sigma[i%synthLatent] * scale
	}
	lift := make([]float64, synthLatent*dim)
	for i := range lift {
		lift[i] = rng.NormFloat64() / math.Sqrt(float64(dim))
	}
	mean := make([]float64, dim)
	for i := range mean {
		mean[i] = rng.NormFloat64() * synthMean / math.Sqrt(float64(dim))
	}
	return &synthModel{sigma, centres, lift, mean, scale}
}

// rows generates n rows from row first on.
func (s *synthModel) rows(first, n int) matrix {
	dim := len(s.mean)
	m := matrix{dim, make([]float32, n*dim)}
	parallel(n, func(lo, hi int) {
		z, x := make([]float64, synthLatent), make([]float64, dim)
		for i := lo; i < hi; i++ {
			synthRow(m.row(i), z, x, s.centres, s.sigma, s.lift, s.mean, s.scale, uint64(first+i)+1)
		}
	})
	return m
}

// synthPiece is the number of rows that are generated before they are written.
const synthPiece = 16_384

// writeSynth writes n rows from row first on. A set of a million rows is never in memory as a whole.
func writeSynth(name string, dim, first, n int) error {
	model := newSynth(dim)
	var piece matrix
	return writeVecs(name, n, dim, func(i, j int) uint32 {
		if i%synthPiece == 0 && j == 0 {
			piece = model.rows(first+i, min(synthPiece, n-i))
		}
		return math.Float32bits(piece.data[i%synthPiece*dim+j])
	})
}

// synthRow fills dst with one row. The explicit conversions keep the compiler from fusing multiply
// and add, so that every architecture generates the same bits.
func synthRow(dst []float32, z, x, centres, sigma, lift, mean []float64, scale float64, stream uint64) {
	rng := rand.New(rand.NewPCG(synthSeed, stream))
	c := rng.IntN(synthClusters)
	for j := range z {
		z[j] = centres[c*synthLatent+j] + float64(rng.NormFloat64()*sigma[j]*scale*synthSpread)
	}
	copy(x, mean)
	for j, zj := range z {
		for d, l := range lift[j*len(x) : (j+1)*len(x)] {
			x[d] += float64(zj * l)
		}
	}
	noise := synthNoise / math.Sqrt(float64(len(x)))
	var norm float64
	for d := range x {
		x[d] += float64(rng.NormFloat64() * noise)
		norm += float64(x[d] * x[d])
	}
	norm = 1 / math.Sqrt(norm)
	for d := range x {
		dst[d] = float32(x[d] * norm)
	}
}

// parallel splits [0, n) among all processors and waits.
func parallel(n int, fn func(lo, hi int)) {
	workers := runtime.NumCPU()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { fn(n*w/workers, n*(w+1)/workers) })
	}
	wg.Wait()
}
