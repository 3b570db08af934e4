package pgvector

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
)

// Escaped strings have no U+0000, come back, and keep order and prefixes.
func TestEscape(t *testing.T) {
	var all []string
	for _, alphabet := range []string{"\x00\x01\x02", "\x00\x01a"} {
		var grow func(s string)
		grow = func(s string) {
			all = append(all, s)
			if len(s) < 3 {
				for _, r := range alphabet {
					grow(s + string(r))
				}
			}
		}
		grow("")
	}
	for _, a := range all {
		if e := escape(a); strings.Contains(e, "\x00") || unescape(e) != a {
			t.Errorf("%q becomes %q, and that %q", a, e, unescape(e))
		}
		for _, b := range all {
			if cmp.Compare(a, b) != cmp.Compare(escape(a), escape(b)) {
				t.Errorf("the order of %q and %q is lost", a, b)
			}
			if strings.HasPrefix(a, b) != strings.HasPrefix(escape(a), escape(b)) {
				t.Errorf("whether %q begins with %q is lost", a, b)
			}
		}
	}
}

// Decimals in jsonb order like the numbers that they stand for, and come back.
func TestNumbers(t *testing.T) {
	const seed = 5
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, seed))
	numbers := []any{int64(0), 0.0, math.Copysign(0, -1), int64(math.MaxInt64), int64(math.MinInt64), 0x1p63, -0x1p63, math.MaxFloat64, math.SmallestNonzeroFloat64, 1e21, 0.1, 1e-7}
	for range 300 {
		i := rng.Int64() >> rng.IntN(64)
		f := float64(i)
		numbers = append(numbers, i, f, math.Nextafter(f, math.Inf(1)), math.Float64frombits(rng.Uint64()&^(1<<62)), f/3)
	}
	decimals := make([]*big.Rat, len(numbers))
	for i, v := range numbers {
		s := literal(v)
		got, err := decodeNumber(s)
		if err != nil || gocmp.Diff(v, got) != "" || v == 0.0 && math.Signbit(v.(float64)) != math.Signbit(got.(float64)) {
			t.Fatalf("%T %v becomes %s and then %T %v, %v", v, v, s, got, got, err)
		}
		if !json.Valid([]byte(s)) {
			t.Fatalf("%s is not JSON", s)
		}
		decimals[i], _ = new(big.Rat).SetString(s)
	}
	for i, a := range numbers {
		for j, b := range numbers {
			want, _ := filter.Compare(a, b)
			if got := decimals[i].Cmp(decimals[j]); got != want {
				t.Fatalf("%T %v and %T %v compare as %d, their decimals as %d", a, a, b, b, want, got)
			}
		}
	}
}

func TestDecodeMetadata(t *testing.T) {
	for in, want := range map[string]db.Metadata{
		`{}`: nil, `null`: nil, `{"a":1e2,"b":18446744073709551616}`: {"a": 100.0, "b": 18446744073709551616.0},
		`{"a\u0001\u0001":["\u0001\u0002",{"b":null}]}`: {"a\x00": []any{"\x01", map[string]any{"b": nil}}},
	} {
		got, err := decodeMetadata([]byte(in))
		if diff := gocmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", in, err, diff)
		}
	}
	for _, in := range []string{``, `[]`, `{"a":1e999}`, `{"a"`, strings.Repeat(`{"a":`, 100_000)} {
		if m, err := decodeMetadata([]byte(in)); err == nil {
			t.Errorf("%.20s is %v", in, m)
		}
	}
}

func TestParseURL(t *testing.T) {
	for in, want := range map[string]struct {
		address string
		options Options
	}{
		"postgres://h/d": {"postgres://h/d", Options{}},
		"postgresql://u:p@h1:1,h2:2/d?vecbolt_schema=x&sslmode=disable&vecbolt_hnsw=on": {"postgresql://u:p@h1:1,h2:2/d?sslmode=disable", Options{Schema: "x", HNSW: &HNSW{}}},
		"postgres://h/d?options=-c%20a%3D1%20-c%20b%3D2&vecbolt_schema=a%20b":           {"postgres://h/d?options=-c%20a%3D1%20-c%20b%3D2", Options{Schema: "a b"}},
		"postgres://h/d?vecbolt_hnsw=24,200":                                            {"postgres://h/d", Options{HNSW: &HNSW{24, 200}}},
	} {
		address, options, err := parseURL(in, nil)
		if err != nil || address != want.address || gocmp.Diff(want.options, *options) != "" {
			t.Errorf("%s: %s, %+v, %v", in, address, options, err)
		}
	}
	for _, in := range []string{"", "weaviate://h", "h:5432", "postgres://h/d?vecbolt_hnsw=1", "postgres://h/d?vecbolt_x=1", "postgres://h/d?vecbolt_schema=%"} {
		if _, _, err := parseURL(in, nil); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%s: %v", in, err)
		}
	}
	if err := (&HNSW{M: 1}).validate(); err == nil {
		t.Error("m = 1 is taken")
	}
}
