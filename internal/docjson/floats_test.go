package docjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// sharedData is the directory of the project's development data, which may be absent.
const sharedData = "../../../shared/data"

// shared returns the path of a development file or folder, and skips the test if it is absent.
func shared(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(sharedData, filepath.FromSlash(name))
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no development data: %v", err)
	}
	return path
}

// cacheFiles returns the contents of the real embedding cache.
func cacheFiles(t testing.TB) [][]byte {
	t.Helper()
	dir := shared(t, "emb-cache-ada002/cache")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var files [][]byte
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, b)
	}
	return files
}

// reference reads a compact array with strconv.
func reference(dst []float32, b []byte) ([]float32, error) {
	b = bytes.TrimSpace(b)
	if len(b) < 2 || b[0] != '[' || b[len(b)-1] != ']' {
		return dst, errors.New("not an array")
	}
	b = b[1 : len(b)-1]
	for len(b) > 0 {
		end := bytes.IndexByte(b, ',')
		if end < 0 {
			end = len(b)
		}
		f, err := strconv.ParseFloat(string(bytes.TrimLeft(b[:end], " ")), 64)
		if err != nil {
			return dst, err
		}
		dst = append(dst, float32(f))
		b = b[min(end+1, len(b)):]
	}
	return dst, nil
}

func sameBits(a, b []float32) error {
	if len(a) != len(b) {
		return fmt.Errorf("%d elements and %d", len(a), len(b))
	}
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return fmt.Errorf("element %d: %v (%#x) and %v (%#x)", i, a[i], math.Float32bits(a[i]), b[i], math.Float32bits(b[i]))
		}
	}
	return nil
}

func TestParseVectorRealCache(t *testing.T) {
	for i, b := range cacheFiles(t) {
		got, err := ParseVector(nil, b)
		if err != nil {
			t.Fatalf("file %d: %v", i, err)
		}
		want, err := reference(nil, b)
		if err != nil {
			t.Fatal(err)
		}
		if err := sameBits(got, want); err != nil {
			t.Fatalf("file %d: %v", i, err)
		}
	}
}

// TestParseVectorStyles compares with strconv on random numbers of every magnitude, printed in
// every common way.
func TestParseVectorStyles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	numbers := map[string]func() float64{
		"unit":       func() float64 { return rng.Float64()*2 - 1 },
		"unit32":     func() float64 { return float64(rng.Float32()*2 - 1) },
		"small":      func() float64 { return rng.NormFloat64() * 1e-3 },
		"any32":      func() float64 { return float64(math.Float32frombits(rng.Uint32())) },
		"any64":      func() float64 { return math.Float64frombits(rng.Uint64()) },
		"integer":    func() float64 { return float64(rng.Int64N(1<<40) - 1<<39) },
		"subnormal":  func() float64 { return float64(math.Float32frombits(rng.Uint32N(1 << 23))) },
		"halfway":    func() float64 { return halfway(rng) },
		"by halfway": func() float64 { return math.Nextafter(halfway(rng), rng.NormFloat64()) },
		"power":      func() float64 { return math.Pow(10, float64(rng.IntN(80)-45)) },
	}
	styles := []func(float64) string{
		func(f float64) string { b, _ := json.Marshal(f); return string(b) },
		func(f float64) string { return strconv.FormatFloat(f, 'g', 17, 64) },
		func(f float64) string { return strconv.FormatFloat(f, 'g', 19, 64) },
		func(f float64) string { return strconv.FormatFloat(f, 'g', 25, 64) },
		func(f float64) string { return strconv.FormatFloat(f, 'f', 8, 64) },
		func(f float64) string { return strconv.FormatFloat(f, 'f', 20, 64) },
		func(f float64) string { return strconv.FormatFloat(f, 'f', 23, 64) },
		func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) },
		func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 32) },
		func(f float64) string { return strconv.FormatFloat(f, 'E', -1, 64) },
		func(f float64) string { return strconv.FormatFloat(f, 'e', 3, 64) },
	}
	for name, number := range numbers {
		for style, format := range styles {
			var text []byte
			var want []float32
			for range 2000 {
				f := number()
				if math.IsNaN(f) || math.Abs(f) > math.MaxFloat32 {
					continue
				}
				s := format(f)
				wide, _ := strconv.ParseFloat(s, 64)
				if narrow := float32(wide); !math.IsInf(float64(narrow), 0) {
					want = append(want, narrow)
					text = append(append(text, s...), ',')
				}
			}
			if len(want) == 0 {
				continue
			}
			text = append(append([]byte{'['}, text[:len(text)-1]...), ']')
			got, err := ParseVector(nil, text)
			if err != nil {
				t.Fatalf("%s, style %d: %v", name, style, err)
			}
			if err := sameBits(got, want); err != nil {
				t.Fatalf("%s, style %d: %v", name, style, err)
			}
		}
	}
}

// halfway returns the middle of two neighbouring float32, which float64 holds exactly.
func halfway(rng *rand.Rand) float64 {
	f := math.Float32frombits(rng.Uint32N(0x7f000000) + 0x00800000)
	return (float64(f) + float64(math.Nextafter32(f, math.MaxFloat32))) / 2
}

// TestRound32Hard visits decimals as close as 19 digits allow to the middle between two float32,
// and to the points near it where rounding to float64 first changes the result.
func TestRound32Hard(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	undecided := 0
	for range 50_000 {
		middle := halfway(rng)
		for _, f := range []float64{middle, math.Nextafter(middle, 0), math.Nextafter(middle, 1e300),
			middle * (1 + 1.0/(1<<54)), middle * (1 + 1.0/(1<<50)), middle * (1 - 1.0/(1<<50))} {
			digits, exp, _ := strings.Cut(strconv.FormatFloat(f, 'e', 18, 64), "e")
			mantissa, err := strconv.ParseUint(strings.Replace(digits, ".", "", 1), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			e, err := strconv.Atoi(exp)
			if err != nil {
				t.Fatal(err)
			}
			for d := range uint64(3) {
				m := mantissa - 1 + d
				bits, ok := round32(m, e-18)
				if !ok {
					undecided++
					continue
				}
				want, _ := strconv.ParseFloat(fmt.Sprintf("%de%d", m, e-18), 64)
				if bits != math.Float32bits(float32(want)) {
					t.Fatalf("%de%d: %#x, want %#x", m, e-18, bits, math.Float32bits(float32(want)))
				}
			}
		}
	}
	if undecided == 0 {
		t.Error("no number was close enough to the middle to be left to strconv")
	}
}

func TestPow10Table(t *testing.T) {
	for i, got := range pow10 {
		exp := minPow10 + i
		power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(exp, -exp))), nil)
		want := new(big.Int)
		var log int
		if exp >= 0 {
			log = power.BitLen() - 1
			want.Rsh(want.Lsh(power, 64), uint(log+1))
		} else {
			log = -power.BitLen()
			want.Div(want.Lsh(big.NewInt(1), uint(63-log)), power)
		}
		if !want.IsUint64() || want.Uint64() != got {
			t.Errorf("10^%d: %#x, want %#x", exp, got, want)
		}
		if log2Pow10(exp) != log {
			t.Errorf("10^%d: binary exponent %d, want %d", exp, log2Pow10(exp), log)
		}
	}
}

func TestParseVectorAccepts(t *testing.T) {
	const pad = "                                        " // so that the fast path applies
	for _, tt := range []struct {
		in   string
		want []float32
	}{
		{"[]", nil},
		{" [ ] ", nil},
		{"[1]", []float32{1}},
		{"\n[\t1 ,\r\n2\n]\n", []float32{1, 2}},
		{"[1,2,3]", []float32{1, 2, 3}},
		{"[1, 2,  3]", []float32{1, 2, 3}},
		{"[0,-0,0.0,-0.0,0e5,-0E-5]", []float32{0, negativeZero, 0, negativeZero, 0, negativeZero}},
		{"[1e2,1E2,1e+2,1e-2,1.5e1]", []float32{100, 100, 100, 0.01, 15}},
		{"[3.4028234663852886e38,-3.4028234663852886e38]", []float32{math.MaxFloat32, -math.MaxFloat32}},
		{"[1e-45,1e-46,1e-400,0e999999999999999999999]", []float32{math.SmallestNonzeroFloat32, 0, 0, 0}},
		{"[16777217,16777219,9007199254740993]", []float32{16777216, 16777220, 9007199254740992}},
		{"[0.00000000000000000000000000001,100000000000000000000000000]", []float32{1e-29, 1e26}},
		{"[1234567890.1234567890123456789]", []float32{1234567890.1234567890123456789}},
		{"[1.00000005960464477539,1.00000005960464477540]", []float32{1, 1}}, // both are 1+2^-24 as float64
		{"[1.0000000596046449]", []float32{1.0000001}},
	} {
		for _, in := range []string{tt.in, tt.in + pad} {
			got, err := ParseVector(nil, []byte(in))
			if err == nil {
				err = sameBits(got, tt.want)
			}
			if err != nil {
				t.Errorf("%q: %v", in, err)
			}
		}
	}
	got, err := ParseVector([]float32{7}, []byte("[8]"))
	if err != nil || len(got) != 2 || got[0] != 7 || got[1] != 8 {
		t.Errorf("appending gives %v, %v", got, err)
	}
}

var negativeZero = math.Float32frombits(1 << 31)

func TestParseVectorRefuses(t *testing.T) {
	const pad = "                                        "
	for _, tt := range []struct {
		in     string
		index  int
		offset int
		is     error
		msg    string
	}{
		{"", 0, 0, io.ErrUnexpectedEOF, ""},
		{"  ", 0, 2, io.ErrUnexpectedEOF, ""},
		{"[", 0, 1, io.ErrUnexpectedEOF, ""},
		{"[1", 1, 2, io.ErrUnexpectedEOF, ""},
		{"[1,", 1, 3, io.ErrUnexpectedEOF, ""},
		{"[1, ", 1, 4, io.ErrUnexpectedEOF, ""},
		{"[0.5, -", 1, 7, io.ErrUnexpectedEOF, ""},
		{"[0.5, 0.", 1, 8, io.ErrUnexpectedEOF, ""},
		{"[1e", 0, 3, io.ErrUnexpectedEOF, ""},
		{"[1e+", 0, 4, io.ErrUnexpectedEOF, ""},
		{"[NaN]", 0, 1, ErrNotFinite, "NaN"},
		{"[1, Infinity]", 1, 4, ErrNotFinite, "Infinity"},
		{"[1, 2, -Infinity]", 2, 7, ErrNotFinite, "-Infinity"},
		{"[1e39]", 0, 1, ErrNotFinite, "1e39"},
		{"[1, -1e400]", 1, 4, ErrNotFinite, "-1e400"},
		{"[3.4028236e38]", 0, 1, ErrNotFinite, "3.4028236e38"},
		{"[1e99999999999999999999]", 0, 1, ErrNotFinite, ""},
		{"[nan]", 0, 1, nil, "'n' instead of a number"},
		{"[null]", 0, 1, nil, "null instead of a number"},
		{"[true]", 0, 1, nil, "a boolean instead of a number"},
		{`["1"]`, 0, 1, nil, "a string instead of a number"},
		{"[[1]]", 0, 1, nil, "an array instead of a number"},
		{"[{}]", 0, 1, nil, "an object instead of a number"},
		{`{"a":1}`, 0, 0, nil, "an object instead of an array of numbers"},
		{"null", 0, 0, nil, "null instead of an array of numbers"},
		{"1", 0, 0, nil, "a number instead of an array of numbers"},
		{"[01]", 0, 2, nil, ""},
		{"[-01]", 0, 3, nil, ""},
		{"[00.5]", 0, 2, nil, ""},
		{"[+1]", 0, 1, nil, "'+' instead of a number"},
		{"[.5]", 0, 1, nil, "'.' instead of a number"},
		{"[1.]", 0, 3, nil, "']' instead of a digit"},
		{"[1.e5]", 0, 3, nil, ""},
		{"[1e]", 0, 3, nil, ""},
		{"[--1]", 0, 2, nil, ""},
		{"[0x10]", 1, 2, nil, "'x' instead of a comma"},
		{"[1_000]", 1, 2, nil, ""},
		{"[1 2]", 1, 3, nil, ""},
		{"[1,]", 1, 3, nil, "']' instead of a number"},
		{"[,1]", 0, 1, nil, ""},
		{"[1]]", 1, 3, nil, "']' after the array"},
		{"[1] x", 1, 4, nil, ""},
		{"[1\x00]", 1, 2, nil, "byte 0x00"},
		{"\xef\xbb\xbf[1]", 0, 0, nil, "byte 0xef"},
		{"[1\u00a0]", 1, 2, nil, ""},
	} {
		for _, in := range []string{tt.in, tt.in + pad} {
			if in != tt.in && tt.is == io.ErrUnexpectedEOF {
				continue
			}
			got, err := ParseVector([]float32{7}, []byte(in))
			var v *VectorError
			if !errors.As(err, &v) {
				t.Errorf("%q: %v, %v", in, got, err)
				continue
			}
			// The path decides where a superfluous digit is reported: inside the number, or after
			// it.
			if v.Offset != tt.offset || v.Index != tt.index && !strings.HasPrefix(strings.TrimLeft(tt.in, "[-"), "0") {
				t.Errorf("%q: element %d, byte %d: %v", in, v.Index, v.Offset, err)
			}
			if !strings.Contains(err.Error(), tt.msg) || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("%q: %v", in, err)
			}
			if errors.Is(err, ErrFormat) == errors.Is(err, ErrNotFinite) {
				t.Errorf("%q: %v is of %v kinds", in, err, errors.Is(err, ErrFormat))
			}
			if len(got) != 1 {
				t.Errorf("%q: returned %v", in, got)
			}
		}
	}
}

// TestParseVectorPrefixes cuts a vector at every byte, and then damages every byte. ParseVector
// must return an error or a vector, never panic, and accept only input that encoding/json accepts.
func TestParseVectorPrefixes(t *testing.T) {
	text := []byte("[-0.0027242952492088081, 1.5e-07, 12, 0.25, -3.4028234663852886e+38 ,\n0, 7]")
	for n := range text {
		if _, err := ParseVector(nil, text[:n]); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut after %d bytes: %v", n, err)
		}
	}
	for i := range text {
		for c := range 256 {
			damaged := bytes.Clone(text)
			damaged[i] = byte(c)
			got, err := ParseVector(nil, damaged)
			var want []float64
			jsonErr := json.Unmarshal(damaged, &want)
			if (err == nil) != (jsonErr == nil) && !errors.Is(err, ErrNotFinite) {
				t.Fatalf("%q: %v, encoding/json says %v", damaged, err, jsonErr)
			}
			if err != nil {
				continue
			}
			for k, f := range want {
				if math.Float32bits(got[k]) != math.Float32bits(float32(f)) {
					t.Fatalf("%q: element %d is %v, want %v", damaged, k, got[k], float32(f))
				}
			}
		}
	}
}

func BenchmarkParseVector(b *testing.B) {
	files := cacheFiles(b)
	var size int64
	for _, f := range files {
		size += int64(len(f))
	}
	for _, p := range []struct {
		name  string
		parse func([]float32, []byte) ([]float32, error)
	}{
		{"docjson", ParseVector},
		{"strconv", reference},
		{"encoding-json", func(dst []float32, b []byte) ([]float32, error) {
			var v []float64
			err := json.Unmarshal(b, &v)
			for _, f := range v {
				dst = append(dst, float32(f))
			}
			return dst, err
		}},
	} {
		b.Run(p.name, func(b *testing.B) {
			b.SetBytes(size)
			var v []float32
			for b.Loop() {
				for _, f := range files {
					var err error
					if v, err = p.parse(v[:0], f); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
