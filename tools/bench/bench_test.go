package main

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/internal/docjson"
)

func TestSynthIsDeterministic(t *testing.T) {
	a, b := synth(300, 64), synth(200, 64)
	if !slices.Equal(a.head(200).data, b.data) {
		t.Fatal("a longer set does not begin with the shorter one")
	}
	for i := range b.rows() {
		if n := dot(b.row(i), b.row(i)); math.Abs(n-1) > 1e-6 {
			t.Fatalf("row %d has squared length %v", i, n)
		}
	}
}

// A set that is written in pieces has the rows of one that is made at once.
func TestWriteSynth(t *testing.T) {
	const dim, first, n = 3, 5, 2*synthPiece + 7
	name := filepath.Join(t.TempDir(), "a.fvecs")
	if err := writeSynth(name, dim, first, n); err != nil {
		t.Fatal(err)
	}
	got, err := readFvecs(name)
	if err != nil || got.dim != dim || !slices.Equal(got.data, synth(first+n, dim).data[first*dim:]) {
		t.Fatalf("read back %d rows of %d dimensions that differ, %v", got.rows(), got.dim, err)
	}
}

func TestBatched(t *testing.T) {
	us := make([]float64, graphBatch+2)
	for i := range us {
		us[i] = float64(i)
	}
	if got := batched(us); !slices.Equal(got, []float64{(graphBatch - 1) / 2., graphBatch + .5}) {
		t.Fatalf("means are %v", got)
	}
}

// Every contestant of a peer has a name of its own, and large sets have no more indexes than small ones.
func TestGraphIndexes(t *testing.T) {
	for _, peer := range graphPeers {
		small, large := graphIndexes(peer, 100_000, 384, 10), graphIndexes(peer, millionRows, 384, 100)
		if len(large) == 0 || len(large) > len(small) {
			t.Errorf("%s: %d indexes of a large set, %d of a small one", peer, len(large), len(small))
		}
		names := map[string]bool{}
		for _, index := range small {
			for _, variant := range index.variants {
				if names[variant.name] {
					t.Errorf("%s: two contestants are %q", peer, variant.name)
				}
				names[variant.name] = true
			}
		}
		if got := large[0]; got.parameter == "ef" && got.settings[0] != 100 {
			t.Errorf("%s: 100 results with ef %v", peer, got.settings[0])
		}
	}
}

// A set that is too small for the strictest filter is refused before anything is loaded.
func TestCheckFilters(t *testing.T) {
	const least = 9001 // one row of each thousand matches 0.1 %, the first one first
	if err := checkFilters(least); err != nil {
		t.Fatal(err)
	}
	err := checkFilters(least - 1)
	if err == nil || !strings.Contains(err.Error(), "the filter of 0.1 % matches 9 of 9000 rows") {
		t.Fatalf("%v", err)
	}
	small := &vectorSet{name: "small", base: synth(least-1, 3)}
	if err := new(env).filteredSet(small, nil); err == nil || !strings.Contains(err.Error(), "small: the filter of 0.1 %") {
		t.Fatalf("%v", err)
	}
}

func TestVecsRoundTrip(t *testing.T) {
	dir := t.TempDir()
	m := synth(7, 5)
	name := filepath.Join(dir, "a.fvecs")
	if err := writeFvecs(name, m); err != nil {
		t.Fatal(err)
	}
	got, err := readFvecs(name)
	if err != nil || got.dim != 5 || !slices.Equal(got.data, m.data) {
		t.Fatalf("read back %d dimensions, %v", got.dim, err)
	}
	ids := [][]int{{3, 1}, {0, 2}}
	name = filepath.Join(dir, "a.ivecs")
	if err := writeIvecs(name, ids); err != nil {
		t.Fatal(err)
	}
	back, err := readIvecs(name)
	if err != nil || !slices.EqualFunc(back, ids, slices.Equal[[]int]) {
		t.Fatalf("read back %v, %v", back, err)
	}
	if err := os.Truncate(name, 13); err != nil {
		t.Fatal(err)
	}
	if _, err := readIvecs(name); err == nil {
		t.Fatal("a torn file was read without an error")
	}
}

func TestExactTop(t *testing.T) {
	m := matrix{2, []float32{0, 1, 1, 0, .6, .8, 1, 0}}
	if got := exactTop(m, matrix{2, []float32{1, 0}}, 3); !slices.Equal(got[0], []int{1, 3, 2}) {
		t.Fatalf("top is %v", got[0])
	}
	if r := recall([][]int{{1, 3, 2}}, [][]int{{3, 2, 9}}, 3); math.Abs(r-2./3) > 1e-12 {
		t.Fatalf("recall is %v", r)
	}
}

// Every loop of the yardstick must read every word once.
func TestStreamingSums(t *testing.T) {
	b := make([]byte, 8192)
	for i := 0; i < len(b); i += 8 {
		b[i] = 1
	}
	want := sumWords(b)
	if want != 1024 {
		t.Fatalf("sum in Go is %d", want)
	}
	for name, sum := range vectorSums() {
		// The vector loops return the lowest lane of their accumulators: 1 in 8 words with 512
		// bits, 1 in 4 with 256.
		lanes := map[string]uint64{"avx512": 8, "avx2": 4}[name]
		if got := sum(b); got*lanes != want {
			t.Errorf("%s: %d, want %d", name, got, want/lanes)
		}
	}
}

func TestParseFloats(t *testing.T) {
	const text = "[-0.002724295249208808, 5.9e-05,1 , 0.25]\n"
	want := []float32{-0.002724295249208808, 5.9e-05, 1, .25}
	for name, parse := range map[string]parser{
		"strconv": func(dst []float32, b []byte) ([]float32, error) { return parseFloats(dst, b, 32) },
		"json":    parseJSON,
		"vecbolt": docjson.ParseVector,
	} {
		if got, err := parse(nil, []byte(text)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s parsed %v, %v", name, got, err)
		}
	}
	if _, err := parseFloats(nil, []byte("[1, x]"), 32); err == nil {
		t.Fatal("a letter was parsed")
	}
}

func TestNumber(t *testing.T) {
	for want, v := range map[string]float64{"": math.NaN(), "0": 0, "17": 17, "0.851": .8512, "12.3": 12.34, "1,235": 1234.6, "1,000,000": 1e6, "-1,500": -1500} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestReport(t *testing.T) {
	r := &report{Figure: "scan", Title: "Scan", Date: "2026-01-02", Command: "go run ."}
	r.add(measurement{Set: "s", Who: "vecbolt", How: "a|b", Value: 2, Unit: "us", Detail: map[string]float64{"GB/s": 3}})
	r.add(measurement{Set: "s", Who: "peer", How: "c", Value: 8, Unit: "us", Ratio: 4})
	r.add(measurement{Set: "s", Who: "nobody", Value: math.NaN()})
	r.atLeast("as fast", 3, 4)
	r.atMost("slow", 3, 4)
	md := r.markdown()
	for _, want := range []string{
		"| who | how | value | unit | Vecbolt is × as good | GB/s |", `| vecbolt | a\|b | 2 | us |  | 3 |`,
		"| peer | c | 8 | us | 4 |  |", "| as fast | ≥ 3 | 4 | met |", "| slow | ≤ 3 | 4 | missed |",
	} {
		if !strings.Contains(md, want) {
			t.Errorf("no line %q in\n%s", want, md)
		}
	}
	dir := t.TempDir()
	if err := r.write(dir); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "2026-01-02-scan.json"))
	if err != nil {
		t.Fatal(err)
	}
	var back report
	if err := json.Unmarshal(b, &back); err != nil || len(back.Rows) != 2 {
		t.Fatalf("read back %d rows, %v", len(back.Rows), err)
	}
}

func TestChoosePeers(t *testing.T) {
	if p, err := choosePeers("hnswlib,lancedb"); err != nil || len(p) != 2 {
		t.Fatalf("chose %v, %v", p, err)
	}
	if _, err := choosePeers("nobody"); err == nil {
		t.Fatal("an unknown peer was accepted")
	}
}

// Rows have texts of one length and every kind of value that the drivers' formulas produce.
func TestRows(t *testing.T) {
	base := synth(3, 4)
	docs := rowDocuments(base, 1, 4, 2)
	if docs[3].ID != "00000007" || !slices.Equal(docs[3].Vector, base.row(7%3)) {
		t.Fatalf("row 7 is %+v", docs[3])
	}
	for _, d := range docs {
		if len(d.Text) != textBytes || len(d.Metadata) != 4 {
			t.Fatalf("row %s has %d bytes of text and %d keys", d.ID, len(d.Text), len(d.Metadata))
		}
	}
}

func TestWaits(t *testing.T) {
	second := time.Second
	inserted := []time.Duration{0, 1 * second, 2 * second, 3 * second}
	samples := []serving{
		{at: 1 * second, written: 1, uncoded: 1}, // nothing served
		{at: 3 * second, written: 3, uncoded: 1},
		{at: 5 * second, written: 4, uncoded: 2}, // a row that was served is replaced
		{at: 6 * second, written: 4, uncoded: 1},
	}
	if got := waits(inserted, samples); !slices.Equal(got, []float64{3, 2, 4, 3}) {
		t.Errorf("rows waited %v", got)
	}
	calls := []timing{{second / 2, 9}, {3 * second / 2, 9000}, {5 * second / 2, 9000}, {7 * second / 2, 2000}, {9 * second / 2, 2000}}
	if got := between(calls, second, 3*second); !slices.Equal(got, []float64{9, 9}) {
		t.Errorf("calls of two seconds took %v", got)
	}
	if got := back(calls, second, 5*second, 2); got != 2 {
		t.Errorf("back after %v s", got)
	}
	if got := back(calls, second, 5*second, 1); !math.IsInf(got, 1) {
		t.Errorf("back after %v s", got)
	}
}

// The interval of a median holds the median of the distribution in about 95 of 100 samples.
func TestMedianInterval(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const samples = 2000
	held := 0
	for range samples {
		values := make([]float64, 100)
		for i := range values {
			values[i] = rng.ExpFloat64()
		}
		if from, to := medianInterval(values); from <= math.Ln2 && math.Ln2 <= to {
			held++
		}
	}
	if held < samples*94/100 || held > samples*98/100 {
		t.Errorf("%d of %d intervals hold the median", held, samples)
	}
	if from, to := medianInterval([]float64{2, 1, 3}); from != 1 || to != 3 {
		t.Errorf("%v to %v of three values", from, to)
	}
}
