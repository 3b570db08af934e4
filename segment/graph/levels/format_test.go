package levels

import (
	"encoding/binary"
	"math"
	"testing"
)

// level returns the bytes of a level.
func level(t *testing.T) []byte {
	l := Level{EF: 10, StopRatio: 1.5, MeanNodes: 20, UsualNodes: 12, Recall: 0.9, Whole: 0.95, Within: 3, Spread: 0.5,
		Second: Stage{EF: 40, StopRatio: 2, Deviations: 1.5}, Measured: &Measured{Poor: 0.25}}
	for i := range l.Measured.Recall {
		l.Measured.Recall[i] = float32(i) / 10
	}
	var b []byte
	table := NewTable([Columns][]Level{{l}})
	for _, w := range Encode(&table) {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	got, err := Decode(b)
	if err != nil || *got.Measured != *l.Measured {
		t.Fatalf("%+v, %v", got, err)
	}
	if got.Measured = l.Measured; got != l || len(b) != Size {
		t.Fatalf("%d bytes: %+v, want %+v", len(b), got, l)
	}
	return b
}

// TestDecode: a figure outside its range is refused. One that is not a number would pass any
// comparison with the recall asked for.
func TestDecode(t *testing.T) {
	valid := level(t)
	nan, negative := float32(math.NaN()), float32(-0.5)
	for _, c := range []struct {
		name string
		at   int
		bad  []float32
	}{
		{"stop ratio", 4, []float32{nan, 0.5, 101}},
		{"nodes", 8, []float32{nan, negative, math.MaxFloat32}},
		{"recall", 12, []float32{nan, negative, 1.5}},
		{"recall of a whole beam", 16, []float32{nan, negative, 1.5}},
		{"recall of a kind", 28, []float32{nan, negative, 1.5}},
		{"share of poor answers", 40, []float32{nan, negative, 1.5}},
		{"usual nodes", 44, []float32{nan, negative, math.MaxFloat32}},
		{"within", 48, []float32{nan, negative, float32(math.Inf(1))}},
		{"second stop ratio", 56, []float32{nan, 0.5, 101}},
		{"spread", 60, []float32{nan, negative, float32(math.Inf(1))}},
		{"deviations", 64, []float32{nan, negative, 101}},
	} {
		for _, v := range c.bad {
			b := append([]byte(nil), valid...)
			binary.LittleEndian.PutUint32(b[c.at:], math.Float32bits(v))
			if l, err := Decode(b); err == nil {
				t.Errorf("%s %g: %+v", c.name, v, l)
			}
		}
	}
	b := append([]byte(nil), valid...)
	binary.LittleEndian.PutUint32(b, 0)
	if l, err := Decode(b); err == nil {
		t.Errorf("ef 0: %+v", l)
	}
}
