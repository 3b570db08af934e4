package embed_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vecbolt/vecbolt/rag/embed"
)

func trigram(t *testing.T, dim int) embed.Embedder {
	t.Helper()
	e, err := embed.Trigram(dim)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func vector(t *testing.T, e embed.Embedder, text string) []float32 {
	t.Helper()
	v, err := e.Embed(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	return ab / math.Sqrt(aa*bb)
}

// The definition never changes, and so neither do these.
func TestTrigramVectors(t *testing.T) {
	for _, tt := range []struct {
		dim  int
		text string
		want []float32
	}{
		{8, "", []float32{0, 0, 0, 0, 0, 0, 0, 0}},
		{8, " -?\n", []float32{0, 0, 0, 0, 0, 0, 0, 0}},
		{8, "a", []float32{0, 0, 0, 0, 0, -1, 0, 0}},
		{8, "Tree", []float32{0, 0, 0.6324555, 0, -0.31622776, 0, -0.31622776, 0.6324555}},
		{8, "tree, tree; TREE house", []float32{0, 0.24433888, 0.48867777, 0.36650833, -0.36650833, 0, -0.24433888, 0.61084723}},
		{5, "Grüße\x00日本 \xff", []float32{0, -0.5345225, 0.80178374, 0, 0.26726124}},
	} {
		got := vector(t, trigram(t, tt.dim), tt.text)
		if !cmp.Equal(got, tt.want) {
			t.Errorf("%q: %#v", tt.text, got)
		}
	}
}

// reference follows the package comment line by line, with other means.
func reference(text string, dim int) []float32 {
	lower := []byte(text)
	for i, c := range lower {
		if c >= 'A' && c <= 'Z' {
			lower[i] = c | 0x20
		}
	}
	words := bytes.FieldsFunc(latin1(lower), func(r rune) bool {
		return r < 0x80 && !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789", r)
	})
	weights := map[string]float64{}
	for _, w := range words {
		padded := " " + string(bytesOf(w)) + " "
		for i := range len(padded) - 2 {
			weights[padded[i:i+3]]++
		}
		if len(padded) > 5 {
			weights[padded]++
		}
	}
	c := make([]float64, dim)
	for f, n := range weights {
		w := 1 + math.Floor(math.Log2(n))
		if len(f) > 3 {
			w *= 2
		}
		h := uint64(14695981039346656037)
		for _, b := range []byte(f) {
			h ^= uint64(b)
			h *= 1099511628211
		}
		h ^= h >> 33
		h *= 0xff51afd7ed558ccd
		h ^= h >> 33
		h *= 0xc4ceb9fe1a85ec53
		h ^= h >> 33
		if int64(h) < 0 {
			w = -w
		}
		c[h%uint64(dim)] += w
	}
	s := 0.0
	for _, x := range c {
		s += x * x
	}
	v := make([]float32, dim)
	for i, x := range c {
		if s > 0 {
			v[i] = float32(x / math.Sqrt(s))
		}
	}
	return v
}

// latin1 makes each byte a character, and bytesOf undoes that.
func latin1(b []byte) []byte {
	runes := make([]rune, len(b))
	for i, c := range b {
		runes[i] = rune(c)
	}
	return []byte(string(runes))
}

func bytesOf(b []byte) []byte {
	var out []byte
	for _, r := range string(b) {
		out = append(out, byte(r))
	}
	return out
}

func TestTrigramFollowsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`([a-cA-C]{1,5}[ ,.]){0,40}`),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
		dim := rapid.SampledFrom([]int{1, 2, 7, 64, 384}).Draw(t, "dim")
		e, err := embed.Trigram(dim)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Embed(context.Background(), text)
		if err != nil {
			t.Fatal(err)
		}
		if want := reference(text, dim); !cmp.Equal(got, want) {
			t.Fatalf("%q:\n got %v\nwant %v", text, got, want)
		}
	})
}

func TestTrigramTellsTextsApart(t *testing.T) {
	e := trigram(t, 0)
	if e.Provider() != "hash" || e.Model() != "trigram-v1" || e.Dimensions() != 384 {
		t.Errorf("%s %s %d", e.Provider(), e.Model(), e.Dimensions())
	}
	a := vector(t, e, "How do I change the chain of a bicycle?")
	near := cosine(a, vector(t, e, "Changing bicycle chains"))
	far := cosine(a, vector(t, e, "Steep the tea for four minutes."))
	if near < 0.3 || far > 0.2 {
		t.Errorf("near %.3f, far %.3f", near, far)
	}
	if n := cosine(a, a); math.Abs(n-1) > 1e-6 {
		t.Error(n)
	}
}

func TestTrigramRefusesDimensions(t *testing.T) {
	for _, dim := range []int{-1, 1<<16 + 1} {
		if _, err := embed.Trigram(dim); !errors.Is(err, embed.ErrConfig) {
			t.Errorf("%d: %v", dim, err)
		}
	}
}

func TestTrigramHonoursContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := trigram(t, 8).EmbedBatch(ctx, []string{"x"})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, embed.ErrOther) {
		t.Error(err)
	}
}

func TestNormalize(t *testing.T) {
	e := embed.Normalize(&fake{dim: 3, vec: func(string) []float32 { return []float32{0, 3, 4} }})
	if got := vector(t, e, "x"); !cmp.Equal(got, []float32{0, 0.6, 0.8}) {
		t.Error(got)
	}
	vecs, err := e.EmbedBatch(t.Context(), []string{"a", "b"})
	if err != nil || !cmp.Equal(vecs, [][]float32{{0, 0.6, 0.8}, {0, 0.6, 0.8}}) {
		t.Error(vecs, err)
	}
}

func TestDefaultConfigOpens(t *testing.T) {
	e, err := embed.Open(t.Context(), embed.DefaultConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	text := "tea"
	for n := range 200 { // its vectors have the length 1: to ask for it changes no bit
		text += fmt.Sprintf(" cake%d", n*n)
		if got, want := vector(t, e, text), vector(t, trigram(t, 384), text); !cmp.Equal(got, want) {
			t.Fatalf("%q: got %v\nwant %v", text, got, want)
		}
	}
	e, err = embed.Open(t.Context(), embed.Config{Provider: "mock", Model: "trigram-v1", Dimensions: 64}, nil)
	if err != nil || e.Provider() != "mock" || e.Dimensions() != 64 {
		t.Error(e, err)
	}
}

func TestConfigErrors(t *testing.T) {
	for _, tt := range []struct {
		json string
		kind error
		want string
	}{
		{`{"provider":"nobody"}`, embed.ErrProviderNotFound, `embed: nobody: provider not found: registered: [`},
		{`{}`, embed.ErrProviderNotFound, ``},
		{`{"provider":"hash","model":"x"}`, embed.ErrConfig, `embed: hash "x": invalid configuration: the only model is "trigram-v1"`},
		{`{"provider":"hash","dimensions":-1}`, embed.ErrConfig, `embed: hash: invalid configuration: dimensions: -1 is less than 0`},
		{`{"provider":"hash","dimensions":65537}`, embed.ErrConfig, `dimensions: 65537 is more than 65536`},
		{`{"provider":"hash","batch_size":-1}`, embed.ErrConfig, `batch_size`},
		{`{"provider":"hash","provider_config":{"host":"x"}}`, embed.ErrConfig, `provider_config: unknown field "host"; there is none`},
	} {
		var c embed.Config
		if err := json.Unmarshal([]byte(tt.json), &c); err != nil {
			t.Fatal(err)
		}
		err := embed.NewRegistry(embed.Builtin()...).Validate(c)
		if err == nil {
			_, err = embed.Open(t.Context(), c, nil)
		}
		if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.json, err)
		}
	}
}

// dimension reports whether err is a *embed.DimensionError.
func dimension(err error) bool {
	_, ok := errors.AsType[*embed.DimensionError](err)
	return ok
}

func TestMatch(t *testing.T) {
	a := embed.DefaultConfig()
	b := a
	b.BatchSize, b.Settings = 7, map[string]any{"x": 1}
	if err := a.Match(b); err != nil {
		t.Error(err)
	}
	b.Dimensions = 8
	err := a.Match(b)
	if !errors.Is(err, embed.ErrMismatch) ||
		err.Error() != "embed: configuration mismatch: expected provider=hash, model=trigram-v1, dimensions=384, found provider=hash, model=trigram-v1, dimensions=8" {
		t.Error(err)
	}
}

func TestRegistry(t *testing.T) {
	own := embed.Provider{Name: "own", Open: func(context.Context, embed.Config, *embed.Options) (embed.Embedder, error) { return &fake{dim: 2}, nil }}
	r := embed.NewRegistry(own)
	if err := r.Register(own); !errors.Is(err, embed.ErrConfig) {
		t.Error(err)
	}
	if err := r.Register(embed.Provider{Name: "x"}); !errors.Is(err, embed.ErrConfig) {
		t.Error(err)
	}
	if _, err := r.Open(t.Context(), embed.Config{Provider: "own", Dimensions: 3}, nil); !dimension(err) || !errors.Is(err, embed.ErrConfig) {
		t.Error(err)
	}
	if _, err := r.Open(t.Context(), embed.Config{Provider: "own", Dimensions: 2}, nil); err != nil {
		t.Error(err)
	}
}

// Programs build forms from a schema, so it must be valid JSON Schema.
func TestSchemas(t *testing.T) {
	last := ""
	for p := range embed.NewRegistry(embed.Builtin()...).Providers() {
		if p.Name <= last || p.Description == "" {
			t.Errorf("%q after %q, %q", p.Name, last, p.Description)
		}
		last = p.Name
		b, err := json.Marshal(p.Schema())
		if err != nil {
			t.Fatal(err)
		}
		var s struct {
			Type       string
			Additional *bool `json:"additionalProperties"`
			Properties map[string]struct {
				Type       string
				Enum       []string
				Additional *bool `json:"additionalProperties"`
			}
		}
		if err := json.Unmarshal(b, &s); err != nil {
			t.Fatal(err)
		}
		settings := s.Properties["provider_config"]
		if s.Type != "object" || s.Additional == nil || *s.Additional || settings.Type != "object" || settings.Additional == nil ||
			!cmp.Equal(s.Properties["provider"].Enum, []string{p.Name}) {
			t.Errorf("%s", b)
		}
	}
}

func TestSchemaValidate(t *testing.T) {
	least := 1.0
	s := &embed.Schema{Type: "object", Required: []string{"n"}, Properties: map[string]*embed.Schema{
		"n": {Type: "integer", Minimum: &least}, "f": {Type: "number"}, "s": {Type: "string", Enum: []string{"a", "b"}},
		"u": {Type: "string", Format: "uri"}, "b": {Type: "boolean"},
	}}
	for in, want := range map[string]string{
		`{"n":1}`:         "",
		`{"n":1,"z":[1]}`: "",
		`{"n":1,"f":0.5,"s":"a","u":"https://x/y","b":true}`: "",
		`{}`:                      `configuration: "n" is missing`,
		`[]`:                      `configuration: want an object`,
		`{"n":0}`:                 `n: 0 is less than 1`,
		`{"n":1.5}`:               `n: want an integer`,
		`{"n":"1"}`:               `n: want an integer`,
		`{"n":null}`:              `n: want an integer`,
		`{"n":1,"f":"x"}`:         `f: want a number`,
		`{"n":1,"s":"sk-secret"}`: `s: want one of a, b`,
		`{"n":1,"s":3}`:           `s: want a string`,
		`{"n":1,"u":"x/y"}`:       `u: want a URL that begins with http:// or https://`,
		`{"n":1,"u":"file:///x"}`: `u: want a URL that begins with http:// or https://`,
		`{"n":1,"b":"yes"}`:       `b: want true or false`,
	} {
		var v any
		if err := json.Unmarshal([]byte(in), &v); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := s.Validate(v); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
	s.Closed = true
	if err := s.Validate(map[string]any{"n": 1, "api_key": "sk-secret"}); err == nil || strings.Contains(err.Error(), "sk-secret") {
		t.Error(err)
	}
}

func TestTemporary(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("x"), false},
		{&embed.Error{Kind: embed.ErrRateLimited}, true},
		{&embed.Error{Kind: embed.ErrRateLimited, Code: "insufficient_quota"}, false},
		{&embed.Error{Kind: embed.ErrTimeout, Err: context.DeadlineExceeded}, true},
		{&embed.Error{Kind: embed.ErrOther, Err: context.Canceled}, false},
		{&embed.Error{Kind: embed.ErrProvider, Status: 500}, true},
		{&embed.Error{Kind: embed.ErrProvider, Status: 400}, false},
		{&embed.Error{Kind: embed.ErrInvalidResponse}, false},
	} {
		if got := embed.Temporary(tt.err); got != tt.want {
			t.Errorf("%v: %v", tt.err, got)
		}
	}
}

// BenchmarkTrigram embeds a chunk of 2,000 characters.
func BenchmarkTrigram(b *testing.B) {
	e, err := embed.Trigram(0)
	if err != nil {
		b.Fatal(err)
	}
	words := strings.Fields("the quick brown fox jumps over a lazy dog and runs away from retrieval benchmarks of embedded databases")
	var text strings.Builder
	for i := 0; text.Len() < 2000; i++ {
		text.WriteString(words[i*i%len(words)])
		text.WriteString([]string{" ", ", ", "s ", "ing "}[i/3%4])
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		if _, err := e.Embed(b.Context(), text.String()); err != nil {
			b.Fatal(err)
		}
	}
}
