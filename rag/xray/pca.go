package xray

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/viterin/vek"
)

const (
	components = 2
	oversample = 8 // additional directions in the iteration, so that the wanted ones converge
	iterations = 8
)

// project returns the coordinates of rows along the two directions of most variance, and the share
// of the variance along each. It computes principal components by randomised subspace iteration
// (Halko, Martinsson, Tropp 2011, algorithm 4.4). If ctx ends, the result is useless.
func project(ctx context.Context, rows [][]float32, rng *rand.Rand) (coords [][components]float64,
	explained [components]float64) {
	coords = make([][components]float64, len(rows))
	if len(rows) == 0 || len(rows[0]) == 0 {
		return coords, explained
	}
	dim := len(rows[0])
	mean, centred := make([]float64, dim), make([]float64, dim)
	for _, row := range rows {
		vek.Add_Inplace(mean, vek.FromFloat32_Into(centred, row))
	}
	vek.MulNumber_Inplace(mean, 1/float64(len(rows)))
	total := 0.0 // variance × number of rows
	for _, row := range rows {
		vek.Sub_Inplace(vek.FromFloat32_Into(centred, row), mean)
		total += vek.Dot(centred, centred)
	}
	if !(total > 0) || math.IsInf(total, 0) {
		return coords, explained
	}
	width := min(dim, components+oversample)
	basis := make([][]float64, width) // orthonormal directions
	for i := range basis {
		basis[i] = make([]float64, dim)
		for j := range basis[i] {
			basis[i][j] = rng.NormFloat64()
		}
	}
	orthonormalise(basis)
	for range iterations {
		basis = covariance(ctx, rows, mean, basis)
		orthonormalise(basis)
	}
	// Within this subspace the components are the eigenvectors of a small matrix.
	image := covariance(ctx, rows, mean, basis)
	small := make([][]float64, width)
	for i := range small {
		small[i] = make([]float64, width)
		for j := range small[i] {
			small[i][j] = vek.Dot(basis[i], image[j])
		}
	}
	values, vectors := eigen(small)
	left := 1.0 // share of the variance; rounding may put the sum of all above the total
	for c := range min(components, width) {
		axis := make([]float64, dim)
		for i, b := range basis {
			vek.Add_Inplace(axis, vek.MulNumber_Into(centred, b, vectors[c][i]))
		}
		upright(axis)
		for i, row := range rows {
			vek.Sub_Inplace(vek.FromFloat32_Into(centred, row), mean)
			coords[i][c] = vek.Dot(centred, axis)
		}
		explained[c] = min(max(0, values[c])/total, left)
		left -= explained[c]
	}
	return coords, explained
}

// upright fixes the sign of an axis: its largest component becomes positive.
func upright(axis []float64) {
	largest := 0.0
	for _, v := range axis {
		if math.Abs(v) > math.Abs(largest) {
			largest = v
		}
	}
	if largest < 0 {
		vek.Neg_Inplace(axis)
	}
}

// covariance multiplies each vector of the basis by the covariance matrix of rows, times their
// number.
func covariance(ctx context.Context, rows [][]float32, mean []float64, basis [][]float64) [][]float64 {
	image := make([][]float64, len(basis))
	for i := range image {
		image[i] = make([]float64, len(mean))
	}
	centred, scaled := make([]float64, len(mean)), make([]float64, len(mean))
	for i, row := range rows {
		if i%64 == 0 && ctx.Err() != nil {
			break
		}
		vek.Sub_Inplace(vek.FromFloat32_Into(centred, row), mean)
		for i, b := range basis {
			vek.Add_Inplace(image[i], vek.MulNumber_Into(scaled, centred, vek.Dot(b, centred)))
		}
	}
	return image
}

// orthonormalise applies the Gram-Schmidt process, twice because of rounding. A vector that depends
// on earlier ones becomes zero.
func orthonormalise(basis [][]float64) {
	part := make([]float64, len(basis[0]))
	for i, v := range basis {
		before := vek.Norm(v)
		for range 2 {
			for _, u := range basis[:i] {
				vek.Sub_Inplace(v, vek.MulNumber_Into(part, u, vek.Dot(u, v)))
			}
		}
		if norm := vek.Norm(v); norm > 1e-12*before {
			vek.DivNumber_Inplace(v, norm)
		} else {
			clear(v)
		}
	}
}

// eigen returns the eigenvalues of a symmetric matrix, the largest first, with their eigenvectors,
// by Jacobi's method. It destroys the matrix.
func eigen(m [][]float64) (values []float64, vectors [][]float64) {
	n := len(m)
	vectors = make([][]float64, n) // in rows
	for i := range vectors {
		vectors[i] = make([]float64, n)
		vectors[i][i] = 1
	}
	for range 30 { // sweeps; a handful is enough
		off := 0.0
		for p := range n {
			for q := p + 1; q < n; q++ {
				off += m[p][q] * m[p][q]
				if m[p][q] == 0 {
					continue
				}
				theta := (m[q][q] - m[p][p]) / (2 * m[p][q])
				t := 1 / (math.Abs(theta) + math.Hypot(theta, 1))
				if theta < 0 {
					t = -t
				}
				c := 1 / math.Hypot(t, 1)
				s := t * c
				for k := range n {
					m[k][p], m[k][q] = c*m[k][p]-s*m[k][q], s*m[k][p]+c*m[k][q]
				}
				for k := range n {
					m[p][k], m[q][k] = c*m[p][k]-s*m[q][k], s*m[p][k]+c*m[q][k]
					vectors[p][k], vectors[q][k] = c*vectors[p][k]-s*vectors[q][k], s*vectors[p][k]+c*vectors[q][k]
				}
			}
		}
		if off == 0 {
			break
		}
	}
	values = make([]float64, n)
	for i := range values {
		values[i] = m[i][i]
	}
	for i := range n { // n is small, so selection sort is enough
		best := i
		for j := i; j < n; j++ {
			if values[j] > values[best] {
				best = j
			}
		}
		values[i], values[best] = values[best], values[i]
		vectors[i], vectors[best] = vectors[best], vectors[i]
	}
	return values, vectors
}
