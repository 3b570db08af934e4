package embed_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/exchange"
	"github.com/vecbolt/vecbolt/rag/embed"
)

func newCache(t *testing.T, dir string, opts embed.CacheOptions) *embed.Cache {
	t.Helper()
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	c, err := embed.NewCache(dir, &opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// entries lists the files below a directory, with slashes.
func entries(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			rel, relErr := filepath.Rel(dir, path)
			if relErr != nil {
				return relErr
			}
			names = append(names, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "cache")
	f := &fake{dim: 2}
	cache := newCache(t, dir, embed.CacheOptions{})
	e := cache.Wrap(f)
	first, err := e.EmbedBatch(t.Context(), []string{"a", "bb", "a", "ccc", "a"})
	if err != nil || !cmp.Equal(first, [][]float32{{1, 0}, {2, 0}, {1, 0}, {3, 0}, {1, 0}}) {
		t.Fatal(first, err)
	}
	first[0][0] = 99 // the caller's own
	if first[2][0] != 1 {
		t.Error("two texts share a vector")
	}
	second, err := e.EmbedBatch(t.Context(), []string{"dddd", "ccc", "a"})
	if err != nil || !cmp.Equal(second, [][]float32{{4, 0}, {3, 0}, {1, 0}}) {
		t.Fatal(second, err)
	}
	if got := fmt.Sprint(f.batches); got != "[[a bb ccc] [dddd]]" {
		t.Error(got)
	}
	if got, want := cache.Stats(), (embed.CacheStats{Hits: 2, Misses: 4}); got != want {
		t.Errorf("%+v", got)
	}
	// Another process, and a query: nobody is asked.
	g := failing(errors.New("asked"))
	if v, err := newCache(t, dir, embed.CacheOptions{}).Wrap(g).Embed(t.Context(), "bb"); err != nil || !cmp.Equal(v, []float32{2, 0}) {
		t.Error(v, err)
	}
	if vecs, err := e.EmbedBatch(t.Context(), nil); len(vecs) != 0 || err != nil {
		t.Error(vecs, err)
	}
}

// The expected names were made by Python's hashlib and uuid as LangChain
// calls them.
func TestCacheNames(t *testing.T) {
	names := map[string][]string{
		"sha256":  {"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "0b836833dc8ecad120bdeafe52e9eab681da2d0d7704e451b216aad3d2b2ab78"},
		"sha1":    {"954df814-8333-5939-8060-cfa363855605", "1872b4e4-2fe3-5844-82c0-13fa992cdd8d"},
		"sha512":  {"cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e", "2523d8ae6818cd9ef6af1f372e03ba887ad61c67307ec39a4e31405fa9394e94e82fec1890ef95e19e024ae685d040e22e928fcdc9c096d1c79775fe0b3f1254"},
		"blake2b": {"786a02f742015903c6c6fd852552d272912f4740e15847618a86e217f71f5419d25e1031afee585313896444934eb04b903a685b1448b755d56f701afe9be2ce", "cd9c53e47ba82563819c9148bed61188b6c5ae6ec14cb790465937898d71cd97bc07fed36df28a989c4f9ae678336a574473c40feb840cdccef840d8951849eb"},
		"js":      {"da39a3ee5e6b4b0d3255bfef95601890afd80709.txt", "9bf5806d4c3000a05ca4cf77938b34ac28c9cf06.txt"},
	}
	for key, want := range names {
		for _, ns := range []string{"", "model-", "team/model_1."} {
			dir := t.TempDir()
			if _, err := newCache(t, dir, embed.CacheOptions{Key: key, Namespace: ns, Bare: ns == ""}).Wrap(&fake{dim: 2}).EmbedBatch(t.Context(), []string{"", "Grüße, 日本"}); err != nil {
				t.Fatal(err)
			}
			full := []string{ns + want[0], ns + want[1]}
			slices.Sort(full)
			if got := entries(t, dir); !slices.Equal(got, full) {
				t.Errorf("%s %q: %q, want %q", key, ns, got, full)
			}
		}
	}
}

// A real cache, written by LangChain for Python, answers without the model.
func TestCacheOfLangChain(t *testing.T) {
	root := "../../../shared/data/emb-cache-ada002"
	file, err := os.Open(filepath.Join(root, "texts.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("skipped: no embedding cache %s here", root)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cache := newCache(t, filepath.Join(root, "cache"), embed.CacheOptions{Key: "sha1", Namespace: "text-embedding-ada-002"})
	var all []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct{ Text string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		all = append(all, line.Text)
	}
	e := cache.Wrap(&ada{fake: &fake{err: func(int) error { return errors.New("asked for a text that is cached") }}})
	vecs, err := e.EmbedBatch(t.Context(), all)
	if err != nil || len(vecs) != 500 || len(vecs[0]) != 1536 {
		t.Fatal(len(vecs), err)
	}
	if s := cache.Stats(); s.Hits != 500 || s.Misses != 0 {
		t.Errorf("%+v", s)
	}
}

// ada does not know its dimension.
type ada struct{ *fake }

func (*ada) Dimensions() int { return 0 }

// What Wrap writes, "vecbolt import --format emb-cache" reads.
func TestCacheCanBeImported(t *testing.T) {
	dir := t.TempDir()
	want := []float32{-0.1, 1e-40, math.MaxFloat32, 0, 3, 1e-7}
	vector(t, newCache(t, dir, embed.CacheOptions{}).Wrap(&fake{dim: 6, vec: func(string) []float32 { return want }}), "a text")
	src, err := exchange.Open(dir, &exchange.OpenOptions{Format: exchange.EmbeddingCache})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for item, err := range src.Documents(t.Context()) {
		if err != nil || item.Skip != nil || !cmp.Equal(item.Document, db.Document{ID: item.Document.ID, Vector: want}) {
			t.Errorf("%+v %v", item, err)
		}
		n++
	}
	if n != 1 {
		t.Error(n)
	}
}

func TestDamagedEntriesAreReplaced(t *testing.T) {
	for name, damage := range map[string]string{
		"empty": "", "cut off": "[0.1, 0.", "not JSON": "hello", "NaN": "[NaN, 1]", "infinite": "[Infinity, 1]", "null": "null", "null inside": "[1, null]",
		"no components": "[]", "another dimension": "[1]", "more than a vector": "[1, 2] [3]", "base64": `"AAAAAAAAAAA="`, "object": "{}", "beyond float32": "[1e39, 0]",
		"huge": "[" + strings.Repeat("1,", 3<<20) + "1]",
	} {
		dir := t.TempDir()
		var log bytes.Buffer
		cache := newCache(t, dir, embed.CacheOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		e := cache.Wrap(&fake{dim: 2})
		vector(t, e, "abc")
		file := filepath.Join(dir, entries(t, dir)[0])
		if err := os.WriteFile(file, []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		if v := vector(t, e, "abc"); !cmp.Equal(v, []float32{3, 0}) {
			t.Errorf("%s: %v", name, v)
		}
		if b, err := os.ReadFile(file); err != nil || string(b) != "[3, 0]" {
			t.Errorf("%s: %.40s %v", name, b, err)
		}
		if s := cache.Stats(); s.Damaged != 1 || s.Misses != 2 || !strings.Contains(log.String(), filepath.Base(file)) {
			t.Errorf("%s: %+v %s", name, s, log.String())
		}
	}
}

// Entries of a model that did not tell its dimension, and now has another.
func TestStaleEntriesAreReplaced(t *testing.T) {
	dir := t.TempDir()
	dim := 2
	f := &fake{vec: func(text string) []float32 { v := make([]float32, dim); v[0] = float32(len(text)); return v }}
	cache := newCache(t, dir, embed.CacheOptions{})
	e := cache.Wrap(f)
	if _, err := e.EmbedBatch(t.Context(), []string{"a", "bb"}); err != nil {
		t.Fatal(err)
	}
	dim = 3
	vecs, err := e.EmbedBatch(t.Context(), []string{"a", "ccc", "bb"})
	if err != nil || !cmp.Equal(vecs, [][]float32{{1, 0, 0}, {3, 0, 0}, {2, 0, 0}}) {
		t.Error(vecs, err)
	}
	if got, want := cache.Stats(), (embed.CacheStats{Misses: 5, Damaged: 2}); got != want {
		t.Errorf("%+v", got)
	}
}

// What a batch gave is kept although a later one failed.
func TestCacheKeepsWhatWasPaidFor(t *testing.T) {
	dir := t.TempDir()
	f := failing(nil, nil, &embed.Error{Kind: embed.ErrProvider, Status: 400})
	cache := newCache(t, dir, embed.CacheOptions{})
	e := cache.Wrap(embed.Batches(f, &embed.BatchOptions{Size: 10, Parallel: 1}))
	if _, err := e.EmbedBatch(t.Context(), texts(45)); !errors.Is(err, embed.ErrProvider) {
		t.Fatal(err)
	}
	if n := len(entries(t, dir)); n != 20 {
		t.Error(n)
	}
	vecs, err := e.EmbedBatch(t.Context(), texts(45))
	if err != nil || vecs[44][0] != 45 || len(f.batches) != 3+3 {
		t.Error(err, len(f.batches))
	}
}

func TestModelsDoNotShareEntries(t *testing.T) {
	dir := t.TempDir()
	cache := newCache(t, dir, embed.CacheOptions{})
	seen := map[string]string{}
	for _, e := range []embed.Embedder{
		named{trigram(t, 8), "p", "m"}, named{trigram(t, 16), "p", "m"}, named{trigram(t, 8), "q", "m"}, named{trigram(t, 8), "p", "m2"},
		named{trigram(t, 8), "p", "a/b:c"}, named{trigram(t, 8), "p", "a_b_c"}, named{trigram(t, 8), "p", "../../x"}, named{trigram(t, 8), ".p", "m"},
		named{trigram(t, 8), "p", strings.Repeat("long", 100)}, named{trigram(t, 8), "p", strings.Repeat("long", 101)}, named{trigram(t, 8), "p", "日本"},
	} {
		before := len(seen)
		vector(t, cache.Wrap(e), "text")
		for _, name := range entries(t, dir) {
			if _, ok := seen[name]; !ok {
				seen[name] = e.Model()
				if strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/:\\") || len(name) > 180 {
					t.Errorf("%q", name)
				}
			}
		}
		if len(seen) != before+1 {
			t.Errorf("%s %s shares an entry", e.Provider(), e.Model())
		}
	}
}

type named struct {
	embed.Embedder
	provider, model string
}

func (n named) Provider() string { return n.provider }
func (n named) Model() string    { return n.model }

func TestCacheOptionErrors(t *testing.T) {
	for _, opts := range []embed.CacheOptions{
		{Namespace: "../x"}, {Namespace: "a/../b"}, {Namespace: "/a"}, {Namespace: "a b"}, {Namespace: "a:b"}, {Namespace: ".hidden"}, {Namespace: "a/.b"}, {Namespace: "a", Bare: true}, {Key: "md5"},
	} {
		if _, err := embed.NewCache("x", &opts); !errors.Is(err, embed.ErrConfig) {
			t.Errorf("%+v: %v", opts, err)
		}
	}
	if _, err := embed.NewCache("", nil); !errors.Is(err, embed.ErrConfig) {
		t.Error(err)
	}
}

// A cache that cannot be written is no cache, and no error.
func TestUnwritableCache(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cache := newCache(t, filepath.Join(file, "cache"), embed.CacheOptions{})
	if v := vector(t, cache.Wrap(&fake{dim: 2}), "abc"); v[0] != 3 || cache.Stats().Unwritten != 1 {
		t.Errorf("%v %+v", v, cache.Stats())
	}
}

func TestCacheLeavesNoTemporaryFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipped: a directory in the way is reported otherwise on Windows")
	}
	dir := t.TempDir()
	cache := newCache(t, dir, embed.CacheOptions{})
	e := cache.Wrap(&fake{dim: 2})
	vector(t, e, "abc")
	name := filepath.Join(dir, entries(t, dir)[0])
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(name, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if v := vector(t, e, "abc"); v[0] != 3 || len(entries(t, dir)) != 0 || cache.Stats().Unwritten != 1 {
		t.Errorf("%v %q %+v", v, entries(t, dir), cache.Stats())
	}
}

func TestCacheConcurrently(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 4 {
		e := newCache(t, dir, embed.CacheOptions{}).Wrap(embed.Batches(&fake{dim: 2}, &embed.BatchOptions{Size: 3}))
		for range 2 {
			wg.Go(func() {
				vecs, err := e.EmbedBatch(context.Background(), texts(40))
				if err != nil || vecs[39][0] != 40 {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if n := len(entries(t, dir)); n != 40 {
		t.Error(n)
	}
}

func TestCacheHonoursContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newCache(t, t.TempDir(), embed.CacheOptions{}).Wrap(&fake{dim: 2}).Embed(ctx, "x"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
