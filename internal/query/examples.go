package query

import (
	"fmt"
	"math"

	"github.com/viterin/vek"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/nearest"
	"github.com/vecbolt/vecbolt/simd"
)

// recommend computes a query vector from examples, and returns the places of
// the examples. It is the strategy "average vector" of Qdrant: the mean of the
// unwanted examples, mirrored at the mean of the wanted ones.
func (s *search) recommend(e Examples) ([]float32, []nearest.Place, error) {
	like, at, err := s.mean(e.Like)
	if err != nil {
		return nil, nil, err
	}
	if len(e.Unlike) > 0 {
		unlike, more, err := s.mean(e.Unlike)
		if err != nil {
			return nil, nil, err
		}
		at = append(at, more...)
		vek.MulNumber_Inplace(like, 2)
		vek.Sub_Inplace(like, unlike)
	}
	vec := vek.ToFloat32(like)
	if !simd.Finite(vec) {
		return nil, nil, document.Invalidf("the mean of the examples is too large")
	}
	return vec, at, nil
}

// mean returns the mean of the vectors of documents. With Cosine the vectors
// are normalised first.
func (s *search) mean(ids []string) ([]float64, []nearest.Place, error) {
	var sum []float64
	var places []nearest.Place
	for _, id := range ids {
		vec, at, err := s.vectorOf(id)
		if err != nil {
			return nil, nil, fmt.Errorf("example: %w", err)
		}
		wide := vek.FromFloat32(vec)
		if s.view.Def.Schema.Metric == fileformat.Cosine {
			if length := math.Sqrt(simd.Dot64(vec, vec)); length > 0 {
				vek.MulNumber_Inplace(wide, 1/length)
			}
		}
		if sum == nil {
			sum = wide
		} else {
			vek.Add_Inplace(sum, wide)
		}
		places = append(places, at)
	}
	vek.MulNumber_Inplace(sum, 1/float64(len(ids)))
	return sum, places, nil
}
