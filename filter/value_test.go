package filter_test

import (
	"encoding/json"
	"math"
	"math/big"
	"testing"

	"github.com/vecbolt/vecbolt/filter"
	"pgregory.net/rapid"
)

func TestScalar(t *testing.T) {
	for _, tt := range []struct{ in, want any }{
		{nil, nil}, {true, true}, {"x", "x"}, {int64(-1), int64(-1)}, {1.5, 1.5},
		{int(1), int64(1)}, {int8(-1), int64(-1)}, {int16(1), int64(1)}, {int32(1), int64(1)},
		{uint(1), int64(1)}, {uint8(255), int64(255)}, {uint16(1), int64(1)}, {uint32(math.MaxUint32), int64(math.MaxUint32)},
		{uint64(math.MaxInt64), int64(math.MaxInt64)}, {float32(0.5), 0.5},
		{json.Number("12"), int64(12)}, {json.Number("-0"), int64(0)}, {json.Number("12.0"), 12.0}, {json.Number("1e2"), 100.0},
		{json.Number("9223372036854775808"), float64(1 << 63)}, {json.Number("1e-999"), 0.0},
	} {
		if got, err := filter.Scalar(tt.in); err != nil || got != tt.want {
			t.Errorf("Scalar(%T %v) = %T %v, %v", tt.in, tt.in, got, got, err)
		}
	}
	for _, v := range []any{
		math.NaN(), math.Inf(1), float32(math.Inf(-1)), uint64(math.MaxInt64 + 1), "\xff", []any{}, map[string]any{},
		[]byte("x"), struct{}{}, complex(1, 0), new(int), json.Number("1e999"), json.Number("x"), json.Number("Inf"), json.Number(""),
	} {
		if got, err := filter.Scalar(v); err == nil {
			t.Errorf("Scalar(%T %v) = %v", v, v, got)
		}
	}
}

// TestCompareRanks compares every pair of a sorted list in which equal values share a line.
func TestCompareRanks(t *testing.T) {
	for kind, ranks := range map[string][][]any{
		"null":   {{nil}},
		"bool":   {{false}, {true}},
		"string": {{""}, {"\x00"}, {"A"}, {"a"}, {"a\x00"}, {"aa"}, {"b"}, {"é"}, {"\uffff"}, {"\U0001f600"}},
		"number": {
			{-math.MaxFloat64},
			{math.Nextafter(-1<<63, math.Inf(-1))},
			{int64(math.MinInt64), float64(-1 << 63)},
			{int64(math.MinInt64 + 1)},
			{int64(-9007199254740993)},
			{int64(-9007199254740992), -9007199254740992.0},
			{int64(-3)}, {-2.5}, {int64(-2), -2.0}, {-1.5}, {int64(-1)}, {-0.5}, {-math.SmallestNonzeroFloat64},
			{int64(0), 0.0, math.Copysign(0, -1)},
			{math.SmallestNonzeroFloat64}, {0.5}, {int64(1), 1.0}, {1.5}, {int64(2)},
			{int64(9007199254740992), 9007199254740992.0},
			{int64(9007199254740993)},
			{int64(9007199254740994), 9007199254740994.0},
			{int64(math.MaxInt64 - 1)}, {int64(math.MaxInt64)},
			{float64(1 << 63)}, {float64(1 << 64)}, {math.MaxFloat64},
		},
	} {
		for i, low := range ranks {
			for j, high := range ranks {
				want := min(max(i-j, -1), 1)
				for _, a := range low {
					for _, b := range high {
						if got, ok := filter.Compare(a, b); !ok || got != want {
							t.Errorf("%s: Compare(%v, %v) = %d, %v, want %d", kind, a, b, got, ok, want)
						}
					}
				}
			}
		}
	}
}

func TestCompareKinds(t *testing.T) {
	values := []any{nil, true, int64(1), "1", []any{int64(1)}, map[string]any{}, math.NaN(), int(1), uint8(1)}
	for i, a := range values {
		for j, b := range values {
			if _, ok := filter.Compare(a, b); ok != (i == j && i < 4) {
				t.Errorf("Compare(%T %v, %T %v): %v", a, a, b, b, ok)
			}
		}
	}
	if _, ok := filter.Compare(math.NaN(), 1.0); ok {
		t.Error("NaN compares")
	}
	if _, ok := filter.Compare(1.0, math.NaN()); ok {
		t.Error("NaN compares")
	}
}

// TestCompareExact holds mixed comparisons against arbitrary precision.
func TestCompareExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		i := rapid.Int64().Draw(t, "i")
		f := rapid.OneOf(
			rapid.Float64(),
			rapid.Custom(func(t *rapid.T) float64 { // a neighbour of i
				return float64(i) + rapid.SampledFrom([]float64{0, 0.5, -0.5, 1, -1, 1024, -1024}).Draw(t, "step")
			}),
		).Filter(func(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }).Draw(t, "f")
		want := new(big.Rat).SetInt64(i).Cmp(new(big.Rat).SetFloat64(f))
		if got, ok := filter.Compare(i, f); !ok || got != want {
			t.Fatalf("Compare(%d, %v) = %d, %v, want %d", i, f, got, ok, want)
		}
		if got, ok := filter.Compare(f, i); !ok || got != -want {
			t.Fatalf("Compare(%v, %d) = %d, %v, want %d", f, i, got, ok, -want)
		}
	})
}
