package query

import (
	"fmt"
	"math"

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
		for i := range like {
			like[i] = 2*like[i] - unlike[i]
		}
	}
	vec := make([]float32, len(like))
	for i, x := range like {
		vec[i] = float32(x)
	}
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
		if sum == nil {
			sum = make([]float64, len(vec))
		}
		length := 1.0
		if s.view.Def.Schema.Metric == fileformat.Cosine {
			if length = math.Sqrt(simd.Dot64(vec, vec)); length == 0 {
				length = 1
			}
		}
		for i, x := range vec {
			sum[i] += float64(x) / length
		}
		places = append(places, at)
	}
	for i := range sum {
		sum[i] /= float64(len(ids))
	}
	return sum, places, nil
}
