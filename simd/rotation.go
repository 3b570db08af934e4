package simd

import (
	"fmt"
	"math"
)

// A Rotation is a random orthogonal transform: random sign flips and a fast Hadamard transform,
// applied twice, over the first and the last power-of-two block of the vector. It spreads skewed
// components evenly, so that one bit per component says about equally much. It changes no distance,
// because it is orthogonal.
type Rotation struct {
	flips [2][]uint32 // sign bits to flip, per round
	size  int
}

// NewRotation returns a rotation of vectors of dimension dim. The same seed makes the same one.
func NewRotation(dim int, seed uint64) *Rotation {
	r := &Rotation{size: 1}
	for 2*r.size <= dim {
		r.size *= 2
	}
	for i := range r.flips {
		r.flips[i] = make([]uint32, dim)
		for j := range dim {
			// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
			seed += 0x9e3779b97f4a7c15
			z := seed
			z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
			z = (z ^ z>>27) * 0x94d049bb133111eb
			r.flips[i][j] = uint32(z>>63) << 31
		}
	}
	return r
}

// Apply rotates v in place. The bits are the same from every implementation on every CPU. It panics
// if v has another dimension.
func (r *Rotation) Apply(v []float32) {
	if len(v) != len(r.flips[0]) {
		panic(fmt.Sprintf("simd: Rotation of dimension %d of %d components", len(r.flips[0]), len(v)))
	}
	scale := float32(1 / math.Sqrt(float64(r.size)))
	for _, flips := range r.flips {
		Flip(v, flips)
		Hadamard(v[:r.size], scale)
		if r.size < len(v) {
			Hadamard(v[len(v)-r.size:], scale)
		}
	}
}
