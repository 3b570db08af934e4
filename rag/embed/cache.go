package embed

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"golang.org/x/crypto/blake2b"

	"github.com/vecbolt/vecbolt/internal/vfs"
)

// keys maps a key encoder to the file name for a text.
var keys = map[string]func(text string) string{
	"sha256": func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:])
	},
	"sha1": func(text string) string {
		// uuid5(UUID(int=1985), sha1(text).hexdigest())
		digest := sha1.Sum([]byte(text))
		return uuid.NewSHA1(uuid.UUID{14: 1985 >> 8, 15: 1985 & 0xff}, []byte(hex.EncodeToString(digest[:]))).String()
	},
	"sha512": func(text string) string {
		sum := sha512.Sum512([]byte(text))
		return hex.EncodeToString(sum[:])
	},
	"blake2b": func(text string) string {
		sum := blake2b.Sum512([]byte(text))
		return hex.EncodeToString(sum[:])
	},
	"js": func(text string) string {
		sum := sha1.Sum([]byte(text))
		return hex.EncodeToString(sum[:]) + ".txt"
	},
}

// CacheOptions tune a Cache. The zero value, like nil, is the default.
type CacheOptions struct {
	// Key says how a text becomes the name of a file, with LangChain's names for key_encoder:
	// "sha256", "sha512", "blake2b", or the oldest, "sha1", a UUID of the SHA-1; and "js" for
	// LangChain for JavaScript, SHA-1 and ".txt". Empty means "sha256".
	Key string

	// Namespace is the prefix of the names of all entries. It may contain letters, digits and
	// "_.-/"; a slash creates a directory. If it is empty, it is built from provider, model and
	// dimension, so that several models can share a cache.
	Namespace string

	// Bare disables the namespace, as in caches of a single model.
	Bare bool

	// Logger receives a warning for each entry that is damaged or cannot be written; nil
	// means none.
	Logger *slog.Logger
}

// A Cache keeps vectors on disk, so that no text is embedded twice. Each text has a file, named by
// its hash, with a JSON array of numbers, as in the file stores of LangChain. "vecbolt import
// --format emb-cache" and package rag can read it, and so can LangChain, if the key encoder and the
// namespace are the same. The texts themselves are not stored.
//
// Files are written under a temporary name and renamed, so that readers never see a partial file.
// They are not synced: a power failure may damage entries, whose texts are then embedded again.
// Several processes may share a cache. Its methods are safe for concurrent use.
type Cache struct {
	dir  string
	opts CacheOptions
	key  func(text string) string

	hits, misses, damaged, unwritten atomic.Int64
}

var namespacePattern = regexp.MustCompile(`^[a-zA-Z0-9_.\-/]*$`)

// NewCache returns a cache in a directory, which need not exist yet.
func NewCache(dir string, opts *CacheOptions) (*Cache, error) {
	c := &Cache{dir: dir}
	if opts != nil {
		c.opts = *opts
	}
	if c.opts.Logger == nil {
		c.opts.Logger = slog.New(slog.DiscardHandler)
	}
	c.key = keys[cmp.Or(c.opts.Key, "sha256")]
	ns := c.opts.Namespace
	switch {
	case dir == "":
		return nil, fmt.Errorf("embed: cache: %w: no directory", ErrConfig)
	case !namespacePattern.MatchString(ns) || ns != "" && !filepath.IsLocal(filepath.FromSlash(ns)) || strings.HasPrefix(ns, ".") || strings.Contains(ns, "/."):
		return nil, fmt.Errorf("embed: cache: %w: namespace %q", ErrConfig, ns)
	case ns != "" && c.opts.Bare:
		return nil, fmt.Errorf("embed: cache: %w: namespace %q, but Bare", ErrConfig, ns)
	case c.key == nil:
		return nil, fmt.Errorf("embed: cache: %w: key encoder %q; want one of %q", ErrConfig, c.opts.Key, slices.Sorted(maps.Keys(keys)))
	}
	return c, nil
}

// CacheStats are counts since NewCache.
type CacheStats struct {
	Hits      int64 `json:"hits"`
	Misses    int64 `json:"misses"`    // texts embedded, each once per call
	Damaged   int64 `json:"damaged"`   // misses because of an unusable entry
	Unwritten int64 `json:"unwritten"` // entries that could not be written
}

// Stats returns the current counts.
func (c *Cache) Stats() CacheStats {
	return CacheStats{c.hits.Load(), c.misses.Load(), c.damaged.Load(), c.unwritten.Load()}
}

// Wrap returns an embedder that calls e only for texts missing from the cache, and once per text.
// It stores the vectors of e, batch by batch if e is made by Batches, so that paid results survive
// the failure of a later batch. It replaces an entry that is damaged or has another dimension than
// e. If an entry cannot be written, it logs a warning and returns no error.
//
// The cache stores the vectors of e: wrap the model itself, without Config.Normalize, to share the
// cache with programs that scale vectors themselves.
func (c *Cache) Wrap(e Embedder) Embedder {
	ns := c.opts.Namespace
	if ns == "" && !c.opts.Bare {
		ns = namespace(e)
	}
	return &cached{e, c, ns}
}

// namespace returns a name for a model that is valid in file names.
func namespace(e Embedder) string {
	name := e.Provider() + "-" + e.Model()
	if e.Dimensions() != 0 {
		name += "-" + strconv.Itoa(e.Dimensions())
	}
	id := name
	for in := e; in != nil; {
		if f, ok := in.(interface{ fingerprint() string }); ok {
			id += "\x00" + f.fingerprint()
		}
		u, ok := in.(interface{ Unwrap() Embedder })
		if !ok {
			break
		}
		in = u.Unwrap()
	}
	safe := regexp.MustCompile(`[^a-zA-Z0-9_.\-]`).ReplaceAllString(name, "_")
	safe = safe[:min(len(safe), 80)]
	if safe != id || safe[0] == '.' {
		sum := sha256.Sum256([]byte(id))
		safe = "m" + strings.TrimPrefix(safe, ".") + "-" + hex.EncodeToString(sum[:4])
	}
	return safe + "-"
}

type cached struct {
	Embedder
	cache     *Cache
	namespace string
}

func (c *cached) Unwrap() Embedder { return c.Embedder }

// Queries keeps the vectors of questions apart from the vectors of passages with the same text.
func (c *cached) Queries() Embedder {
	if q := queries(c.Embedder); q != nil {
		return &cached{q, c.cache, c.namespace + "query-"}
	}
	return nil
}

func (c *cached) Embed(ctx context.Context, text string) ([]float32, error) {
	return one(ctx, c.EmbedBatch, text)
}

func (c *cached) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	found := make(map[string][]float32, len(texts)) // nil: missing
	var missing []string
	dim := c.Dimensions()
	for _, text := range texts {
		if _, seen := found[text]; seen {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, &Error{Kind: contextKind(err), Provider: c.Provider(), Model: c.Model(), Err: err}
		}
		v := c.read(ctx, text, dim)
		found[text] = v
		if v == nil {
			missing = append(missing, text)
		} else {
			dim = len(v)
		}
	}
	err := c.embed(ctx, missing, found)
	if err == nil && len(missing) > 0 {
		// The model may have shown its dimension only now; then entries may have another one.
		dim = len(found[missing[0]])
		var stale []string
		for text, v := range found {
			if len(v) != dim {
				stale = append(stale, text)
				c.cache.damaged.Add(1)
			}
		}
		err = c.embed(ctx, stale, found)
		missing = append(missing, stale...)
	}
	if err != nil {
		return nil, err
	}
	c.cache.hits.Add(int64(len(found) - len(missing)))
	vecs := make([][]float32, len(texts))
	for i, text := range texts {
		vecs[i] = slices.Clone(found[text]) // texts may repeat
	}
	if err := sameDimension(c, vecs); err != nil {
		return nil, err
	}
	return vecs, nil
}

// embed adds the vectors of distinct texts to found and to the cache.
func (c *cached) embed(ctx context.Context, texts []string, found map[string][]float32) error {
	if len(texts) == 0 {
		return nil
	}
	c.cache.misses.Add(int64(len(texts)))
	var mu sync.Mutex
	keep := func(at int, vecs [][]float32) {
		for i, v := range vecs {
			c.write(ctx, texts[at+i], v)
		}
		mu.Lock()
		defer mu.Unlock()
		for i, v := range vecs {
			found[texts[at+i]] = v
		}
	}
	if b, ok := c.Embedder.(*batches); ok {
		return b.each(ctx, texts, keep)
	}
	vecs, err := c.Embedder.EmbedBatch(ctx, texts)
	if err != nil {
		return err
	}
	if err := checkReply(vecs, len(texts), c.Dimensions()); err != nil {
		return &Error{Kind: ErrInvalidResponse, Provider: c.Provider(), Model: c.Model(), Err: err}
	}
	keep(0, vecs)
	return nil
}

func (c *cached) path(text string) string {
	return filepath.Join(c.cache.dir, filepath.FromSlash(c.namespace+c.cache.key(text)))
}

// maxEntry bounds the size of a file; the largest vector fits.
const maxEntry = 4 << 20

// read returns the vector of a text, or nil without a usable entry.
func (c *cached) read(ctx context.Context, text string, dim int) []float32 {
	v, err := readEntry(c.path(text))
	if err == nil && dim != 0 && len(v) != dim {
		err = &DimensionError{Expected: dim, Got: len(v)}
	}
	if err == nil {
		return v
	}
	if !errors.Is(err, fs.ErrNotExist) {
		c.cache.damaged.Add(1)
		c.cache.opts.Logger.WarnContext(ctx, "cached embedding is unusable, will embed again", "file", c.path(text), "error", err)
	}
	return nil
}

func readEntry(name string) ([]float32, error) {
	f, err := vfs.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxEntry+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxEntry {
		return nil, fmt.Errorf("more than %d bytes", maxEntry)
	}
	if bytes.IndexByte(b, '[') < 0 {
		return nil, errors.New("want an array of numbers")
	}
	var v vector
	if err := json.Unmarshal(b, &v); err != nil {
		return nil, err
	}
	return v, checkReply([][]float32{v}, 1, 0)
}

// write stores the vector of a text. Failures are logged.
func (c *cached) write(ctx context.Context, text string, v []float32) {
	if err := writeEntry(c.path(text), v); err != nil {
		c.cache.unwritten.Add(1)
		c.cache.opts.Logger.WarnContext(ctx, "embedding cannot be cached", "error", err)
	}
}

func writeEntry(name string, v []float32) error {
	b := make([]byte, 0, 14*len(v)+2)
	b = append(b, '[')
	for i, x := range v {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = strconv.AppendFloat(b, float64(x), 'g', -1, 32)
	}
	b = append(b, ']')
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".tmp-*") // readers of caches ignore names that begin with a dot
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
