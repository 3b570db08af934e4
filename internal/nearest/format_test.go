package nearest

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/formattest"
)

var update = flag.Bool("update", false, "rewrite the page of the format")

// exampleRecords returns the records of the page.
func exampleRecords() *records {
	r := &records{db: [16]byte{0xd0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}
	var few, all Tally
	few.Add(9, 10)
	all.Add(9, 10)
	all.Add(10, 10)
	r.graphs = []graphRecord{
		{segment: 7, crc: 0xcafe, coll: 1, graphTally: graphTally{few, 9.5}},
		{segment: 42, crc: 0xbeef, coll: 1, raised: 2},
	}
	r.targets = []targetRecord{{1, 0.95, all}}
	return r
}

// TestRecallPage compares the example in docs/format/recall.md with a new file.
func TestRecallPage(t *testing.T) {
	b := exampleRecords().encode()
	d := formattest.New(t, b)
	float := func(name string) { d.Line(8, name, "%v", d.F64()) }
	tally := func() {
		d.Int64("queries")
		d.Int64("true hits")
		d.Int64("found")
		float("found, squared")
		float("found times true hits")
		float("true hits, squared")
	}
	d.Line(8, "magic", "%q", d.Raw(8))
	d.Int32("version")
	d.Line(16, "database", "%x", d.Raw(16))
	graphs := d.Int32("graphs")
	targets := d.Int32("targets")
	for range graphs {
		d.Int64("segment")
		d.Line(4, "checksum of its header", "%#08x", d.U32())
		d.Int32("collection")
		d.Int32("raises")
		float("hits promised")
		tally()
	}
	for range targets {
		d.Int32("collection")
		float("target")
		tally()
	}
	sum := d.U32()
	d.Line(4, "checksum", "of everything before")
	if d.Err() != nil || d.Len() > 0 || sum != codec.CRC(b[:len(b)-4]) {
		t.Error(d.Err(), d.Len(), sum)
	}
	formattest.Page(t, "../../docs/format/recall.md", d.Out.String(), *update)
}

// Records are read as they were written. Bytes that are damaged or make no sense are errors.
func TestRecords(t *testing.T) {
	want := exampleRecords()
	good := want.encode()
	all := cmp.AllowUnexported(records{}, graphRecord{}, graphTally{}, targetRecord{}, Tally{})
	for _, r := range []*records{want, {db: want.db}} {
		got, err := decodeRecords(r.encode())
		if diff := cmp.Diff(r, got, all); err != nil || diff != "" {
			t.Error(err, diff)
		}
	}
	for i := range good {
		bad := slices.Clone(good)
		bad[i] ^= 4
		if _, err := decodeRecords(bad); err == nil {
			t.Errorf("byte %d of %d changed, and nobody noticed", i, len(good))
		}
		if _, err := decodeRecords(good[:i]); err == nil {
			t.Errorf("%d of %d bytes are enough", i, len(good))
		}
	}
	seal := func(b []byte) []byte { return binary.LittleEndian.AppendUint32(b, codec.CRC(b)) }
	const graph, target = 36, 36 + 2*graphSize
	for _, c := range []struct {
		name string
		at   int
		v    uint64
	}{
		{"magic", 0, 1}, {"version", 8, 2 | 0xd0<<32}, {"too many graphs", 28, 3 | 1<<32}, {"too many targets", 32, 2},
		{"raised too often", graph + 12, 1 | 21<<32}, {"raised less than never", graph + 12, 1 | 0xffffffff<<32},
		{"more promised than wanted", graph + 20, math.Float64bits(11)}, {"a promise below 0", graph + 20, math.Float64bits(-1)},
		{"a promise that is no number", graph + 20, math.Float64bits(math.NaN())},
		{"more queries than hits", graph + 28, 11}, {"too many hits", graph + 36, 1 << 41}, {"more found than wanted", graph + 44, 11},
		{"a sum below 0", graph + 52, math.Float64bits(-1)}, {"an infinite sum", graph + 60, math.Float64bits(math.Inf(1))},
		{"a sum that is no number", graph + 68, math.Float64bits(math.NaN())},
		{"a target of 0", target + 4, 0}, {"a target of 1", target + 4, math.Float64bits(1)}, {"a target that is no number", target + 4, math.Float64bits(math.NaN())},
		{"a target with more found than wanted", target + 28, 21},
	} {
		bad := slices.Clone(good[:len(good)-4])
		binary.LittleEndian.PutUint64(bad[c.at:], c.v)
		if r, err := decodeRecords(seal(bad)); err == nil {
			t.Errorf("%s: %s", c.name, fmt.Sprintf("%+v", r))
		}
	}
}

// Halving keeps the recall, and gives what comes next twice the weight.
func TestHalve(t *testing.T) {
	var old, young Tally
	for i := range 1000 {
		old.Add(9+i%2, 10)
		young.Add(5, 10)
	}
	before := old.Estimate(Usual)
	old.halve()
	after := old.Estimate(Usual)
	if after.Recall != before.Recall || after.Queries != 500 || after.High-after.Low <= before.High-before.Low {
		t.Errorf("%+v, then %+v", before, after)
	}
	for range 1000 {
		old.Add(5, 10)
	}
	if got, want := old.Estimate(Usual).Recall, (0.95+2*0.5)/3; math.Abs(got-want) > 1e-9 {
		t.Errorf("recall %v, want %v", got, want)
	}
}
