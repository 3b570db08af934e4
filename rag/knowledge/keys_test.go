package knowledge

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag/embed"
)

// TestKeys holds the list of keys to the fields of Config, and the defaults to the bases without
// the keys.
func TestKeys(t *testing.T) {
	var fields []string
	var walk func(prefix string, typ reflect.Type)
	walk = func(prefix string, typ reflect.Type) {
		for _, f := range reflect.VisibleFields(typ) {
			name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if other, _, _ := strings.Cut(f.Tag.Get("json"), ","); other != name {
				t.Errorf("%s is %s in JSON", name, other)
			}
			if f.Type.Kind() == reflect.Struct {
				walk(name+".", f.Type)
				continue
			}
			fields = append(fields, prefix+name)
		}
	}
	walk("", reflect.TypeFor[Config]())
	var names []string
	c := Config{Embedding: Embedding{Normalize: true}}
	for _, k := range Keys() {
		names = append(names, k.Name)
		got, err := c.Get(k.Name)
		if err != nil || !cmp.Equal(got, k.Schema.Default) {
			t.Errorf("%s: %v instead of %v, %v", k.Name, got, k.Schema.Default, err)
		}
		if k.Schema.Description == "" || k.Allowed() == "" || k.Changes == "" {
			t.Errorf("%+v", k)
		}
		if k.Schema.Default != nil {
			if err := k.check(k.Schema.Default); err != nil {
				t.Errorf("default: %v", err)
			}
		}
	}
	less := func(a, b string) bool { return a < b }
	if diff := cmp.Diff(fields, names, cmpSorted(less)); diff != "" {
		t.Errorf("(-fields +keys)\n%s", diff)
	}
}

func cmpSorted(less func(a, b string) bool) cmp.Option {
	return cmp.Transformer("set", func(in []string) map[string]bool {
		out := map[string]bool{}
		for _, s := range in {
			out[s] = less("", s)
		}
		return out
	})
}

func TestSetKey(t *testing.T) {
	for _, tt := range []struct {
		key   string
		value any
		want  any    // what Get returns then
		err   string // or the error
	}{
		{"top_k", "7", 7, ""},
		{"top_k", 7.0, 7, ""},
		{"top_k", nil, 5, ""},
		{"top_k", "many", nil, `top_k: "many": want an integer from 0 to 1000000`},
		{"top_k", -1, nil, `top_k: -1: want an integer from 0 to 1000000`},
		{"top_k", 1.5, nil, `top_k: 1.5: want an integer from 0 to 1000000`},
		{"top_k", 1e30, nil, `top_k: 1e+30: want an integer from 0 to 1000000`},
		{"threshold", "-0.25", -0.25, ""},
		{"strategy", "mmr", "mmr", ""},
		{"strategy", "psychic", nil, `strategy: "psychic": want one of auto, dense, text, hybrid, hyde, multi-query, mmr`},
		{"strategy", true, nil, `strategy: true: want one of`},
		{"diversity", "0", 0.0, ""},
		{"diversity", "2", nil, `diversity: 2: want a number from 0 to 1`},
		{"language", "german", "german", ""},
		{"language", "klingon", nil, `language: "klingon": want one of `},
		{"cache_ttl", "10m", "10m", ""},
		{"cache_ttl", "soon", nil, `cache_ttl: "soon": want a duration such as 30s, 10m or 24h`},
		{"cache_ttl", "-1s", nil, `cache_ttl: "-1s": want a duration`},
		{"separators", `["\n\n", ". "]`, []string{"\n\n", ". "}, ""},
		{"separators", `. `, nil, `separators: ". ": want a list of texts`},
		{"separators", []any{1}, nil, `separators: [1]: want a list of texts`},
		{"separators", 1, nil, `separators: 1: want a list of texts`},
		{"chat_url", "http://localhost:1", "http://localhost:1", ""},
		{"chat_url", "localhost", nil, `chat_url: "localhost": want a URL that begins with http:// or https://`},
		{"chunk_overlap", "0", 0, ""},
		{"chunk_overlap", "-3", 0, ""},
		{"embedding.normalize", "false", false, ""},
		{"embedding.normalize", "perhaps", nil, `embedding.normalize: "perhaps": want true or false`},
		{"embedding.provider_config.api_base", "http://localhost:1", "http://localhost:1", ""},
		{"embedding.provider_config.api_base", nil, nil, ""},
		{"embedding.provider_config", map[string]any{"host": "x"}, map[string]any{"host": "x"}, ""},
		{"embedding.provider_config", "x", nil, `embedding.provider_config: "x": want settings of the provider`},
		{"topk", 1, nil, `unknown key "topk": the nearest is "top_k"`},
		{"dimension", 1, nil, `unknown key "dimension": the nearest is "embedding.dimensions"`},
		{"rerank", 1, nil, `unknown key "rerank": the nearest is "reranker"`},
		{"", 1, nil, `unknown key "": the nearest is `},
		{"embedding", 1, nil, `unknown key "embedding": the nearest is `},
		{"embedding.provider_config.a.b", 1, nil, `unknown key "embedding.provider_config.a.b": the nearest is "embedding.provider_config"`},
	} {
		c := Defaults("b")
		err := c.Set(tt.key, tt.value)
		if tt.err != "" {
			if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s, %v: %v", tt.key, tt.value, err)
			}
			continue
		}
		got, err2 := c.Get(tt.key)
		if err != nil || err2 != nil || !cmp.Equal(got, tt.want) {
			t.Errorf("%s, %v: %v, %v, %v", tt.key, tt.value, got, err, err2)
		}
	}
}

// TestConfigsOfReleases reads files as earlier releases wrote them, and as people did.
func TestConfigsOfReleases(t *testing.T) {
	hash := Embedding{Dimensions: 384, Normalize: true, BatchSize: 100}
	std := Defaults("configs")
	for name, want := range map[string]Config{
		"default": {Name: "default", Provider: "hash", Model: "trigram-v1", Embedding: hash, ChunkSize: 512, ChunkOverlap: 64, MaxContextTokens: 2048},
		"office": {Name: "office", Provider: "openai", Model: "text-embedding-3-small", Embedding: Embedding{Dimensions: 1536, Normalize: true, BatchSize: 16,
			ProviderConfig: map[string]any{"api_base": "http://localhost:8080/v1", "timeout_seconds": uint64(30)}},
			ChunkSize: 300, ChunkOverlap: -1, MaxContextTokens: 4000, Language: "german", Index: "index-3.vdb"},
		"byhand": {Name: "configs", Provider: "mock", Embedding: Embedding{BatchSize: 100}, ChunkSize: 512, ChunkOverlap: -1, MaxContextTokens: 2048},
		"empty":  {Name: "configs", Provider: std.Provider, Model: std.Model, Embedding: std.Embedding, ChunkSize: 512, ChunkOverlap: -1, MaxContextTokens: 2048},
		"digits": {Name: "digits", Provider: std.Provider, Model: "42", Embedding: std.Embedding, ChunkSize: 4, ChunkOverlap: 0, MaxContextTokens: 2048},
	} {
		file := filepath.Join("testdata", "configs", name+".yaml")
		got, err := readConfig(file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
	// What was written is written again in the same way, with comments.
	for _, name := range []string{"default", "office"} {
		before, err := os.ReadFile(filepath.Join("testdata", "configs", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, before, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := readConfig(file)
		if err == nil {
			err = writeConfig(file, c, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(file)
		if diff := cmp.Diff(string(before), string(after)); diff != "" || err != nil {
			t.Errorf("%s: (-before +after)\n%s %v", name, diff, err)
		}
	}
}

// TestNumbersInFiles writes and reads numbers that YAML reads as texts.
func TestNumbersInFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	for _, n := range []float64{1e6, 1e-7, 0.15, 2, 1e21} {
		c := Defaults("b")
		c.PromptPrice, c.Threshold = n, &n
		if err := writeConfig(file, c, nil); err != nil {
			t.Fatal(err)
		}
		got, err := readConfig(file)
		if diff := cmp.Diff(c, got); err != nil || diff != "" {
			t.Errorf("%v: %v %s", n, err, diff)
		}
	}
}

func TestWrongConfigs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	for text, want := range map[string]string{
		"nonsense: 1\n":                    `unknown key "nonsense": the nearest is "`,
		"chunksize: 1\n":                   `unknown key "chunksize": the nearest is "chunk_size"`,
		"embedding:\n  dimension: 3\n":     `unknown key "embedding.dimension": the nearest is "embedding.dimensions"`,
		"embedding: 3\n":                   `unknown key "embedding"`,
		"chunk_size: many\n":               `chunk_size: "many": want an integer of 0 or more`,
		"top_k: 1000001\n":                 `top_k: 1000001: want an integer from 0 to 1000000`,
		"vector_weight: 1e7\n":             `want a number from 0 to 1000000`,
		"strategy: hybird\n":               `strategy: "hybird": want one of auto, dense, text, hybrid`,
		"top_k: {}\ntop_k2: 1\n":           `unknown key "top_k2": the nearest is "top_k"`,
		"index: ../../etc\n":               `want index.vdb or index-NUMBER.vdb`,
		"chunk_size: [\n":                  "sequence end",
		"a: &a [*a, *a]\n":                 "",
		strings.Repeat("[", 10_000) + "\n": "",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readConfig(file); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

// TestConfigure changes what may change, and refuses the rest.
func TestConfigure(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", strings.Repeat("One sentence of six words here. ", 12))
	f.learn("b", counted)
	for _, tt := range []struct {
		set  string // JSON
		want string // the error
	}{
		{`{"top_k": 2, "strategy": "dense"}`, ""},
		{`{"top_k": 2, "nonsense": 1}`, `unknown key "nonsense"`},
		{`{"name": "c"}`, "name: it cannot be changed"},
		{`{"index": "index-2.vdb"}`, "index: it cannot be changed"},
		{`{"provider": "hash"}`, "vecbolt rag reembed b --provider hash --model trigram-v1"},
		{`{"embedding.dimensions": 128}`, "vecbolt rag reembed b"},
		{`{"embedding.dimensions": 64, "provider": "counting", "model": "m"}`, ""}, // as it is
		{`{"embedding.normalize": true}`, "vecbolt rag reembed b makes others"},
		{`{"reranker": "cross-encoder"}`, "reranker: cross-encoder: it needs the key rerank_model"},
		{`{"reranker": "tei"}`, "reranker: tei: it needs the key rerank_url"},
		{`{"strategy": "hyde"}`, "strategy: hyde: it needs the key chat_model"},
		{`{"chunk_size": 4}`, "chunk_size 4, chunk_overlap 0"},
		{`{"chunk_size": 30, "chunk_overlap": 30}`, "chunk_size 30, chunk_overlap 30"},
		{`{"splitter": "sentences", "max_sentences": 1, "chunk_overlap": 0}`, ""},
	} {
		before, err := f.Config("b")
		if err != nil {
			t.Fatal(err)
		}
		var set map[string]any
		if err := json.Unmarshal([]byte(tt.set), &set); err != nil {
			t.Fatal(err)
		}
		got, err := f.Configure(t.Context(), "b", set)
		if tt.want == "" && err == nil {
			for name, value := range set {
				have, _ := got.Get(name)
				if b, _ := json.Marshal(have); string(b) != shown(value) {
					t.Errorf("%s is %s", name, b)
				}
			}
			continue
		}
		if after, _ := f.Config("b"); err == nil || tt.want == "" || !strings.Contains(err.Error(), tt.want) || !cmp.Equal(before, after) {
			t.Errorf("%s: %v", tt.set, err)
		}
	}
	// The splitter is changed: files are split again, and no other embedder is needed.
	f.expect(f.learn("b", nil), Report{Files: 1, Chunks: 12, Embedded: 12})
	f.expect(f.learn("b", nil), Report{Files: 1, Chunks: 12, Skipped: 1})
	if _, err := f.Configure(t.Context(), "c", map[string]any{"top_k": 1}); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

// TestChangeToDefault: a key that is removed, or set to 0, has its default, and other keys stay.
func TestChangeToDefault(t *testing.T) {
	f := newFixture(t)
	for i, tt := range []struct {
		have, set map[string]any
		size      int
		overlap   int
	}{
		{nil, map[string]any{"chunk_size": 0}, 512, 64},
		{nil, map[string]any{"chunk_size": nil}, 512, 64},
		{nil, map[string]any{"chunk_overlap": nil}, 512, 64},
		{map[string]any{"chunk_size": 80}, map[string]any{"chunk_size": nil}, 512, 10},
		{map[string]any{"chunk_size": 80, "chunk_overlap": 5}, map[string]any{"chunk_overlap": nil}, 80, 10},
		{map[string]any{"chunk_size": 2000, "chunk_overlap": 500}, map[string]any{"chunk_size": 0}, 512, 500},
		{map[string]any{"chunk_size": 2000, "chunk_overlap": 512}, map[string]any{"chunk_size": 0}, 512, 64},
		{map[string]any{"chunk_overlap": 0}, map[string]any{"chunk_size": nil}, 512, -1},
	} {
		name := fmt.Sprint("b", i)
		if _, err := f.Create(name, tt.have); err != nil {
			t.Fatal(err)
		}
		got, err := f.Configure(t.Context(), name, tt.set)
		if err != nil || got.ChunkSize != tt.size || got.ChunkOverlap != tt.overlap {
			t.Errorf("%v: size %d, overlap %d, %v", tt, got.ChunkSize, got.ChunkOverlap, err)
		}
		if read, err := f.Config(name); err != nil || !cmp.Equal(got, read) {
			t.Errorf("%v: the file has %+v, %v", tt, read, err)
		}
	}
}

// TestSplitters learns the same files with each splitter.
func TestSplitters(t *testing.T) {
	f := newFixture(t)
	f.write("a.md", "# One\n\nCats purr. Cats sleep.\n\n# Two\n\nThe engine pumped water. It burnt coal.\n")
	f.write("b.go", "package b\n\nfunc f() {\n}\n\nfunc g() {\n}\n")
	f.learn("b", counted)
	for _, tt := range []struct {
		set    map[string]any
		chunks int
	}{
		{map[string]any{"splitter": "fixed"}, 2},
		{map[string]any{"splitter": "sentences", "max_sentences": 1}, 11},
		{map[string]any{"splitter": "sentences", "max_sentences": 2}, 9},
		{map[string]any{"splitter": "paragraphs"}, 7},
		{map[string]any{"splitter": "recursive"}, 2},
		{map[string]any{"splitter": "recursive", "separators": []any{"\n"}, "chunk_size": 8, "chunk_overlap": 0}, 8},
		{map[string]any{"splitter": "semantic", "topic_threshold": 1, "chunk_size": 40}, 11},
		{map[string]any{"splitter": "semantic", "topic_threshold": -1}, 2},
		{map[string]any{"splitter": "code"}, 2},
		{map[string]any{"splitter": "markdown"}, 3},
		{map[string]any{"splitter": "format"}, 3},
	} {
		r, err := f.Learn(t.Context(), "b", LearnOptions{Paths: []string{f.docs}, Set: tt.set})
		if err != nil || r.Chunks != tt.chunks || r.Skipped != 0 {
			t.Errorf("%v: %+v, %v", tt.set, r, err)
		}
	}
}

// TestFresh makes bases from settings.
func TestFresh(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	for name, tt := range map[string]struct {
		set  map[string]any
		want func(c *Config) // changes of the defaults
	}{
		"plain": {map[string]any{"top_k": 3}, func(c *Config) { c.TopK = 3 }},
		"small": {map[string]any{"provider": "hash", "embedding.dimensions": "64", "chunk_size": "80"}, func(c *Config) {
			c.Provider, c.Model, c.Embedding.Dimensions, c.ChunkSize, c.ChunkOverlap = "hash", "trigram-v1", 64, 80, 10
		}},
		"provided": {map[string]any{"provider": "mock"}, func(c *Config) {
			c.Provider, c.Model, c.Embedding.Dimensions = "mock", "trigram-v1", embed.TrigramDimensions
		}},
	} {
		if _, err := f.Learn(t.Context(), name, LearnOptions{Paths: []string{f.docs}, Set: tt.set}); err != nil {
			t.Fatal(err)
		}
		want := Defaults(name)
		tt.want(&want)
		got, err := f.Config(name)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: (-want +got)\n%s %v", name, diff, err)
		}
	}
	for key, want := range map[string]string{"index": "it cannot be changed", "modle": `the nearest is "model"`} {
		if _, err := f.Learn(t.Context(), "new", LearnOptions{Paths: []string{f.docs}, Set: map[string]any{key: "x"}}); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
	if _, err := os.Stat(f.dir("new")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestCreate(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	if _, err := f.Create("b", map[string]any{"top_k": 1, "splitter": "sentences"}); err != nil {
		t.Fatal(err)
	}
	f.learn("b", nil)
	if c, err := f.Config("b"); err != nil || c.TopK != 1 || c.Splitter != "sentences" {
		t.Errorf("%+v, %v", c, err)
	}
	for _, tt := range []struct {
		name string
		set  map[string]any
		want error
	}{
		{"b", nil, db.ErrExists},
		{"../c", nil, ErrConfig},
		{"c", map[string]any{"topk": 1}, ErrConfig},
		{"c", map[string]any{"provider": "nobody"}, embed.ErrProviderNotFound},
		{"c", map[string]any{"strategy": "hyde"}, ErrConfig},
	} {
		if _, err := f.Create(tt.name, tt.set); !errors.Is(err, tt.want) {
			t.Errorf("%v: %v", tt, err)
		}
	}
	if names, err := f.Bases(); err != nil || len(names) != 1 {
		t.Error(names, err)
	}
}

// TestGuide holds the table of keys in the guide to the code. UPDATE_GUIDE=1 writes it.
func TestGuide(t *testing.T) {
	const first, guide = "| key | default | allowed | a change takes effect | meaning |\n|---|---|---|---|---|\n", "../../docs/guide.md"
	var b strings.Builder
	for _, k := range Keys() {
		std := ""
		if k.Schema.Default != nil {
			std = "`" + strings.Trim(shown(k.Schema.Default), `"`) + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", k.Name, std, k.Allowed(), k.Changes, k.Schema.Description)
	}
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), first)
	have, after, _ := strings.Cut(rest, "\n\n")
	if !found {
		t.Fatal("the guide has no table of keys")
	}
	if os.Getenv("UPDATE_GUIDE") != "" {
		if err := os.WriteFile(guide, []byte(before+first+b.String()+"\n"+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(b.String(), have+"\n"); diff != "" {
		t.Errorf("(-code +guide)\n%s", diff)
	}
}

// The keys of an engine have its default embedder, which new bases get.
func TestKeysOfEngine(t *testing.T) {
	e, err := New(t.TempDir(), &Options{Default: &embed.Config{Provider: "hash", Model: "trigram-v1", Dimensions: 64}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	of := func(keys []Key) any {
		i := slices.IndexFunc(keys, func(k Key) bool { return k.Name == "embedding.dimensions" })
		return keys[i].Schema.Default
	}
	if got, function := of(e.Keys()), of(Keys()); got != 64 || function != 384 {
		t.Errorf("defaults %v and %v, want 64 and 384", got, function)
	}
	if len(e.Keys()) != len(Keys()) {
		t.Error("the engine has other keys")
	}
}

// Texts of a configuration are read from config.yaml as they were set.
func TestTextsInYAML(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	for _, text := range []string{
		"\n\n", "\n", " ", "\t", "\r\n", "? x", ".inf", ".nan", "a\tb", "x\r\ny", "plain", "two words", "2.0", "true", "null",
		"- x", "# x", "a: b", `"`, "'", `\`, "{", "é", "\x00", "\u2028", "| x", "> x", "&a", "*a", "!a", "%", "@", "`",
	} {
		c := Defaults("b")
		c.Separators, c.Siblings, c.ChatModel = []string{text, "x", text}, text, "m"
		c.Embedding.ProviderConfig = map[string]any{"key": text, "n": uint64(2)}
		if err := writeConfig(path, c, nil); err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var back Config
		if err := yaml.Unmarshal(b, &back); err != nil {
			t.Errorf("%q: %v\n%s", text, err, b)
			continue
		}
		if diff := cmp.Diff(c, back); diff != "" {
			t.Errorf("%q: (-want +got)\n%s%s", text, diff, b)
		}
	}
}
