package main

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/vecbolt/vecbolt/internal/tokenizer"
)

// Settings of the fit.
const (
	components = 256  // of a vector; a power of two
	rare       = 1e-4 // frequency of tokens with half of the weight before the fit
	ridge      = 0.1  // pull towards the vectors before the fit, in texts
	flatten    = 0.5  // exponent by which principal components are brought to the same size
	steps      = 30   // of the conjugate gradients
	columns    = 16   // that are fitted together
)

// A problem is what a fit needs.
type problem struct {
	tok     *tokenizer.Tokenizer
	tokens  int
	pool    []source    // for the frequencies of tokens
	texts   []string    // of the fit
	vectors [][]float32 // of texts
	prior   [][]float32 // of tokens
}

// A model has a row per token.
type model struct {
	rows   [][]float64
	cosine float64
}

// distil finds the token vectors whose mean is nearest to the vector of a text, over all texts:
//
//	Σ |mean of e(token) - t(text)|² + ridge · Σ |e(token) - e₀(token)|²
//
// t are the vectors of the encoder minus their mean, in their principal components. e₀ are the
// vectors of single tokens, with the weights of Arora, Liang and Ma, A Simple but Tough-to-Beat
// Baseline for Sentence Embeddings, 2017. The result is scaled: components with much variance
// drown the others in a mean of tokens.
func distil(p problem) model {
	center := meanOf(p.vectors)
	basis, size := principal(p.vectors, center)
	targets := project(p.vectors, center, basis)
	rows := project(p.prior, meanOf(p.prior), basis)
	for i, f := range frequencies(p) {
		scale(rows[i], rare/(rare+f))
	}
	x := tokenMeans(p)
	// The scale of the prior is the best one for all texts together.
	up, down := 0.0, 0.0
	for i, text := range x {
		y := text.mean(rows)
		up += dot(y, targets[i])
		down += dot(y, y)
	}
	for _, r := range rows {
		scale(r, up/down)
	}
	solve(x, rows, targets)

	m := model{rows: rows}
	for i, text := range x {
		y := text.mean(rows)
		if d := math.Sqrt(dot(y, y) * dot(targets[i], targets[i])); d > 0 {
			m.cosine += dot(y, targets[i]) / d / float64(len(x))
		}
	}
	for _, r := range rows {
		for j := range r {
			r[j] *= math.Pow(size[j]/size[0], -flatten)
		}
		rotate(r)
	}
	return m
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}

func scale(v []float64, f float64) {
	for i := range v {
		v[i] *= f
	}
}

func meanOf(vectors [][]float32) []float64 {
	sum := make([]float64, len(vectors[0]))
	for _, v := range vectors {
		for i, x := range v {
			sum[i] += float64(x)
		}
	}
	scale(sum, 1/float64(len(vectors)))
	return sum
}

// project returns the coordinates of centred vectors in a basis.
func project(vectors [][]float32, center []float64, basis [][]float64) [][]float64 {
	out := make([][]float64, len(vectors))
	parallel(len(vectors), func(i int) {
		v := make([]float64, len(center))
		for j, x := range vectors[i] {
			v[j] = float64(x) - center[j]
		}
		out[i] = make([]float64, len(basis))
		for j, b := range basis {
			out[i][j] = dot(v, b)
		}
	})
	return out
}

// parallel calls f for 0..n-1 on all cores.
func parallel(n int, f func(int)) {
	var wg sync.WaitGroup
	cores := runtime.GOMAXPROCS(0)
	for c := range cores {
		wg.Go(func() {
			for i := c; i < n; i += cores {
				f(i)
			}
		})
	}
	wg.Wait()
}

// principal returns the first principal components of vectors and their standard deviations.
func principal(vectors [][]float32, center []float64) (basis [][]float64, size []float64) {
	n := len(center)
	cov := make([][]float64, n)
	parallel(n, func(i int) {
		cov[i] = make([]float64, n)
		for _, v := range vectors {
			x := (float64(v[i]) - center[i]) / float64(len(vectors))
			for j, y := range v {
				cov[i][j] += x * (float64(y) - center[j])
			}
		}
	})
	values, axes := eigen(cov)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(values[b], values[a]) })
	for _, i := range order[:components] {
		basis = append(basis, axes[i])
		size = append(size, math.Sqrt(values[i]))
	}
	return basis, size
}

// eigen returns the eigenvalues and eigenvectors of a symmetric matrix, which it overwrites, by the
// cyclic method of Jacobi (Golub and Van Loan, Matrix Computations, 8.5). The sign of a vector is
// that its largest component is positive.
func eigen(a [][]float64) (values []float64, vectors [][]float64) {
	n := len(a)
	v := make([][]float64, n) // transposed
	for i := range v {
		v[i] = make([]float64, n)
		v[i][i] = 1
	}
	turn := func(x, y []float64, c, s float64) {
		for i := range x {
			x[i], y[i] = c*x[i]-s*y[i], s*x[i]+c*y[i]
		}
	}
	for range 12 {
		off, all := 0.0, 0.0
		for i := range n {
			for j := range n {
				all += a[i][j] * a[i][j]
				if i != j {
					off += a[i][j] * a[i][j]
				}
			}
		}
		if off <= 1e-24*all {
			break
		}
		for p := range n {
			for q := p + 1; q < n; q++ {
				if a[p][q] == 0 {
					continue
				}
				theta := (a[q][q] - a[p][p]) / (2 * a[p][q])
				t := 1 / (math.Abs(theta) + math.Sqrt(theta*theta+1))
				if theta < 0 {
					t = -t
				}
				c := 1 / math.Sqrt(t*t+1)
				s := t * c
				turn(a[p], a[q], c, s)
				for _, row := range a {
					row[p], row[q] = c*row[p]-s*row[q], s*row[p]+c*row[q]
				}
				turn(v[p], v[q], c, s)
			}
		}
	}
	for i := range n {
		values = append(values, a[i][i])
		at := 0
		for j, x := range v[i] {
			if math.Abs(x) > math.Abs(v[i][at]) {
				at = j
			}
		}
		if v[i][at] < 0 {
			scale(v[i], -1)
		}
	}
	return values, v
}

// frequencies returns the share of each token among the tokens of all texts.
func frequencies(p problem) []float64 {
	n := make([]float64, p.tokens)
	all := 0.0
	for _, s := range p.pool {
		for _, text := range s.texts {
			for _, id := range p.tok.EncodePlain(text) {
				n[id]++
				all++
			}
		}
	}
	for i := range n {
		n[i] = (n[i] + 1) / all
	}
	return n
}

// A tokenMean is a text as a list of tokens with their shares.
type tokenMean struct {
	ids   []int
	share []float64
}

func tokenMeans(p problem) []tokenMean {
	unknown, _ := p.tok.Unknown()
	out := make([]tokenMean, len(p.texts))
	parallel(len(out), func(i int) {
		ids := slices.DeleteFunc(p.tok.EncodePlain(p.texts[i]), func(id int) bool { return id == unknown })
		one := 1 / float64(max(1, len(ids)))
		slices.Sort(ids)
		for _, id := range ids {
			if m := &out[i]; len(m.ids) > 0 && m.ids[len(m.ids)-1] == id {
				m.share[len(m.share)-1] += one
			} else {
				m.ids, m.share = append(m.ids, id), append(m.share, one)
			}
		}
	})
	return out
}

func (t tokenMean) mean(rows [][]float64) []float64 {
	out := make([]float64, len(rows[0]))
	for i, id := range t.ids {
		for j, x := range rows[id] {
			out[j] += t.share[i] * x
		}
	}
	return out
}

// solve changes rows to the solution of the least squares. Components are independent of each
// other.
func solve(x []tokenMean, rows, targets [][]float64) {
	diagonal := make([]float64, len(rows))
	for i := range diagonal {
		diagonal[i] = ridge
	}
	for _, text := range x {
		for i, id := range text.ids {
			diagonal[id] += text.share[i] * text.share[i]
		}
	}
	parallel(len(rows[0])/columns, func(block int) {
		conjugate(x, rows, targets, diagonal, block*columns)
	})
}

// matrix has a row per token with some columns of the problem.
type matrix [][columns]float64

// normal adds xᵀ·(x·m) to dst, or xᵀ·(targets - x·m) if there are targets.
func normal(dst, m matrix, x []tokenMean, targets [][]float64, begin int) {
	for k, text := range x {
		var y [columns]float64
		for i, id := range text.ids {
			s, row := text.share[i], &m[id]
			for j := range y {
				y[j] += s * row[j]
			}
		}
		if targets != nil {
			for j := range y {
				y[j] = targets[k][begin+j] - y[j]
			}
		}
		for i, id := range text.ids {
			s, row := text.share[i], &dst[id]
			for j := range y {
				row[j] += s * y[j]
			}
		}
	}
}

// conjugate solves the columns from begin on by conjugate gradients with the diagonal as
// preconditioner (Golub and Van Loan, Matrix Computations, 11.5).
func conjugate(x []tokenMean, rows, targets [][]float64, diagonal []float64, begin int) {
	n := len(rows)
	start, delta, rest, dir, image := make(
		matrix,
		n,
	), make(
		matrix,
		n,
	), make(
		matrix,
		n,
	), make(
		matrix,
		n,
	), make(
		matrix,
		n,
	)
	for i := range start {
		copy(start[i][:], rows[i][begin:])
	}
	normal(rest, start, x, targets, begin)
	var energy [columns]float64
	for i := range rest {
		for j, r := range rest[i] {
			dir[i][j] = r / diagonal[i]
			energy[j] += r * dir[i][j]
		}
	}
	for range steps {
		for i := range image {
			for j := range image[i] {
				image[i][j] = ridge * dir[i][j]
			}
		}
		normal(image, dir, x, nil, begin)
		var along, length, next [columns]float64
		for i := range dir {
			for j, d := range dir[i] {
				along[j] += d * image[i][j]
			}
		}
		for j := range length {
			if along[j] > 0 {
				length[j] = energy[j] / along[j]
			}
		}
		for i := range rest {
			for j := range rest[i] {
				delta[i][j] += length[j] * dir[i][j]
				rest[i][j] -= length[j] * image[i][j]
				next[j] += rest[i][j] * rest[i][j] / diagonal[i]
			}
		}
		for i := range dir {
			for j := range dir[i] {
				keep := 0.0
				if energy[j] > 0 {
					keep = next[j] / energy[j]
				}
				dir[i][j] = rest[i][j]/diagonal[i] + keep*dir[i][j]
			}
		}
		energy = next
	}
	for i := range rows {
		for j := range delta[i] {
			rows[i][begin+j] += delta[i][j]
		}
	}
}

// rotate applies the Walsh-Hadamard transform, which keeps angles and lengths. Afterwards all
// components have about the same variance, so that one step serves to quantise all of them.
func rotate(v []float64) {
	for h := 1; h < len(v); h *= 2 {
		for i := range v {
			if i&h == 0 {
				v[i], v[i|h] = v[i]+v[i|h], v[i]-v[i|h]
			}
		}
	}
	scale(v, 1/math.Sqrt(float64(len(v))))
}
