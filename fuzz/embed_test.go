package fuzz_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/vecbolt/vecbolt/rag/embed"
)

// A reply answers every request.
type reply struct {
	status int
	header string // of Retry-After
	body   []byte
}

func (r reply) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: r.status, Header: http.Header{"Retry-After": {r.header}}, Body: io.NopCloser(bytes.NewReader(r.body)), Request: req}, nil
}

// FuzzReply lets servers of embeddings answer anything. What is accepted must
// be as many vectors as texts, of one dimension and finite.
func FuzzReply(f *testing.F) {
	for _, body := range []string{
		`{"data":[{"index":1,"embedding":[1,2]},{"index":0,"embedding":"AACAPwAAAEA="}]}`, `{"data":[{"embedding":[]},{"embedding":null}]}`, `{"data":[{"index":-1},{"index":2}]}`,
		`{"embeddings":[[1,2],[3,4]]}`, `{"embeddings":[[1],[2,3]]}`, `{"embeddings":[[1e39],[null]]}`, `{"embedding":[1,2]}`,
		`{"embeddings":[{"values":[1,2]},{"values":[3,4]}]}`, `{"error":"x"}`, `{"error":{"message":"x","code":1,"status":2,"details":[{"retryDelay":"9s"}]}}`,
		`{"detail":[{"msg":1}],"message":3}`, `{`, ``, `null`, `[]`, "\x00\xff",
	} {
		for _, status := range []int{200, 404, 429, 503} {
			f.Add(status, "3", []byte(body))
		}
	}
	f.Add(429, "Fri, 31 Dec 9999 23:59:59 GMT", []byte(`x`))
	f.Add(429, "1e400", []byte(`x`))
	f.Fuzz(func(t *testing.T, status int, header string, body []byte) {
		key := func(context.Context) (string, error) { return "", nil }
		client := &http.Client{Transport: reply{status, header, body}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		var all []embed.Embedder
		for _, open := range []func() (embed.Embedder, error){
			func() (embed.Embedder, error) {
				return embed.OpenAI("m", 0, &embed.OpenAIOptions{Client: client, Secret: key})
			},
			func() (embed.Embedder, error) {
				return embed.Ollama("m", 0, &embed.OllamaOptions{Host: "x", Client: client, Secret: key})
			},
			func() (embed.Embedder, error) {
				return embed.Gemini("m", 0, &embed.GeminiOptions{Client: client, Secret: key})
			},
		} {
			e, err := open()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, e)
		}
		for _, e := range all {
			vecs, err := e.EmbedBatch(t.Context(), []string{"a", "b"})
			var known *embed.Error
			if err != nil {
				if !errors.As(err, &known) || known.RetryAfter < 0 || len(err.Error()) > 2000 {
					t.Fatalf("%v", err)
				}
				continue
			}
			if len(vecs) != 2 || len(vecs[0]) == 0 || len(vecs[0]) != len(vecs[1]) || len(vecs[0]) != e.Dimensions() {
				t.Fatalf("%s: %v", e.Provider(), vecs)
			}
			for _, x := range append(vecs[0], vecs[1]...) {
				if x-x != 0 {
					t.Fatalf("%s: %v", e.Provider(), vecs)
				}
			}
		}
	})
}

// FuzzCacheEntry puts any bytes into a file of a cache of embeddings. Either
// they are a vector of the right dimension, or they are replaced by one.
func FuzzCacheEntry(f *testing.F) {
	for _, s := range []string{"", "[1, 2]", "[1,2,3]", "[NaN,1]", "[1e39,1]", "[null,1]", "[1,2]x", " [ 1 , 2e-3 ] ", `"AACAPwAAAEA="`, "{}", "null", "[\"1\",2]", "[1,2", "\x00"} {
		f.Add([]byte(s))
	}
	for _, b := range variants([]byte("[0.5, -2.25e-3]"), 50) {
		f.Add(b)
	}
	dir := f.TempDir()
	cache, err := embed.NewCache(dir, &embed.CacheOptions{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	model, err := embed.Trigram(2)
	if err != nil {
		f.Fatal(err)
	}
	e := cache.Wrap(model)
	if _, err := e.Embed(f.Context(), "text"); err != nil {
		f.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		f.Fatal(files, err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(files[0], b, 0o600); err != nil {
			t.Fatal(err)
		}
		first, err := e.Embed(t.Context(), "text")
		if err != nil || len(first) != 2 || first[0]-first[0] != 0 || first[1]-first[1] != 0 {
			t.Fatal(first, err)
		}
		before := cache.Stats()
		second, err := e.Embed(t.Context(), "text")
		if err != nil || second[0] != first[0] || second[1] != first[1] || cache.Stats().Misses != before.Misses {
			t.Fatal(first, second, err)
		}
	})
}
