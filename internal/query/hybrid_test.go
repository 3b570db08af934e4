package query

import (
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// TestVectorScale: the best is 1, all other values lie between 0 and 1 in the same order,
// and with Dot scaling the vectors changes nothing, unless the best product is 0.
func TestVectorScale(t *testing.T) {
	for _, tt := range []struct {
		metric             fileformat.Metric
		best, middle, last float64
	}{
		{fileformat.Cosine, 0.9, 0.8, -1}, {fileformat.Cosine, -0.5, -0.7, -0.9}, {fileformat.Dot, 40, 3, -60}, {fileformat.Dot, -1, -2, -3}, {fileformat.Dot, 0, -1, -2}, {fileformat.L2, -0.5, -3, -1e9}, {fileformat.L2, 0, -1, -2},
	} {
		scale := vectorScale(tt.metric, tt.best)
		best, middle, last := scale.Of(tt.best), scale.Of(tt.middle), scale.Of(tt.last)
		if best != 1 || !(best > middle && middle > last && last >= 0) {
			t.Errorf("%+v: %v, %v, %v", tt, best, middle, last)
		}
		scaled := vectorScale(tt.metric, 16*tt.best).Of(16 * tt.middle)
		if tt.metric == fileformat.Dot && tt.best != 0 && scaled != middle {
			t.Errorf("%+v: scaled %v, not %v", tt, scaled, middle)
		}
	}
	if vectorScale(fileformat.Cosine, -1).Of(-1) != 0 {
		t.Error("all are opposite")
	}
}
