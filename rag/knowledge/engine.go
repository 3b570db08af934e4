package knowledge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/errtext"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/embed/bert"
)

// Options tune an Engine. The zero value, like nil, is the default.
type Options struct {
	// Providers are the embedding providers for configurations; nil means the builtin providers of
	// package embed.
	Providers *embed.Registry
	// Default is the embedder of new bases if Learn is not told one; nil means embed.DefaultConfig,
	// the trigrams of package embed. The tool sets it to english.Config of
	// rag/embed/static/english, which finds far better, and so should programs that may grow by the
	// 7.4 MB of that model: a program pays for them only if it imports the package, so this package
	// does not. The example of english.Provider is such a program.
	//
	// Bases that have a configuration file keep theirs; a file without a provider means
	// embed.DefaultConfig. The provider must be among Providers.
	Default *embed.Config
	// Embed holds what embedders, chat models and rerankers need from the program: secrets, an HTTP
	// client.
	Embed *embed.Options
	// Retry tunes how failed requests to models of embeddings and of chat are retried; nil means
	// the defaults of package embed.
	Retry *embed.RetryOptions
	// Tokens counts the tokens of chunks and contexts; the zero value estimates them.
	Tokens Tokens
	// KeepOpen is the time that the database of a base stays open for reading after a question, for
	// services: opening it takes longer than most questions. 0 means that each question opens
	// and closes it. Other processes can still learn files into the base, and later answers use
	// them.
	KeepOpen time.Duration
	// Logger receives skipped files, embedded texts and answered questions; nil
	// means none.
	Logger *slog.Logger
}

// Tokens is a token counter.
type Tokens struct {
	// Name identifies the counter. If it changes, files are split again.
	Name string
	// Count returns the number of tokens in a text. It must be safe for concurrent use.
	Count func(text string) int
}

// An Engine works with the bases in a workspace directory. It makes one embedder per base and
// reuses it. It is safe for concurrent use, and answers questions while it learns. Other processes
// can query and learn a base at the same time: runs of Learn wait for each other.
type Engine struct {
	workspace string
	opts      Options

	embedders opened[embedderKey, embed.Embedder]
	cross     opened[string, *bert.CrossEncoder] // by directory

	mu        sync.Mutex       // not held while anything is opened
	gates     map[string]*gate // by directory of a database
	states    map[string]*state
	questions map[string]*questions // by embedder

	at   func(step string) // hook between the steps of Learn, Reembed and Configure, for tests
	hook vfs.Hook          // sees how directories of bases and configurations are made, for tests; nil otherwise
}

type embedderKey struct{ base, config string } // the parts of the configuration that matter, as JSON

// New returns an Engine for a workspace, a directory that need not exist yet: ErrConfig if it is no
// directory.
func New(workspace string, opts *Options) (*Engine, error) {
	e := &Engine{workspace: workspace, gates: map[string]*gate{}, at: func(string) {},
		states: map[string]*state{}, questions: map[string]*questions{}}
	if opts != nil {
		e.opts = *opts
	}
	if e.opts.Providers == nil {
		e.opts.Providers = embed.NewRegistry(embed.Builtin()...)
	}
	if e.opts.Default == nil {
		d := embed.DefaultConfig()
		e.opts.Default = &d
	}
	if e.opts.Logger == nil {
		e.opts.Logger = slog.New(slog.DiscardHandler)
	}
	if workspace == "" {
		return nil, fmt.Errorf("%w: no workspace", ErrConfig)
	}
	switch info, err := os.Stat(workspace); {
	case err == nil && !info.IsDir():
		return nil, fmt.Errorf("%w: the workspace %s is not a directory", ErrConfig, workspace)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: the workspace: %w", ErrConfig, err)
	}
	if file := fileAbove(workspace); file != "" {
		return nil, fmt.Errorf("%w: the workspace: %s is not a directory", ErrConfig, file)
	}
	return e, nil
}

// fileAbove returns the file that is in place of the directory above a path, if there is one. On
// Windows, os.Stat says that a path below a file does not exist.
func fileAbove(path string) string {
	for up := filepath.Dir(path); up != path; path, up = up, filepath.Dir(up) {
		if info, err := os.Stat(up); err == nil {
			if !info.IsDir() {
				return up
			}
			return ""
		}
	}
	return ""
}

// Close closes the databases that KeepOpen keeps open, when the questions that use them have ended.
// The Engine remains usable. Without KeepOpen it does nothing.
func (e *Engine) Close() error { return e.release("") }

// release closes what KeepOpen keeps open of a base, or of all bases if name is empty.
func (e *Engine) release(name string) error {
	e.mu.Lock()
	var all []*gate
	for dir, g := range e.gates {
		if name == "" || filepath.Dir(dir) == e.dir(name) {
			all = append(all, g)
		}
	}
	e.mu.Unlock()
	var err error
	for _, g := range all {
		err = errors.Join(err, g.release())
	}
	if err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	return nil
}

// Embedder returns the embedder of a base, which is made once. It returns ErrNotFound if the base
// does not exist.
func (e *Engine) Embedder(ctx context.Context, name string) (embed.Embedder, error) {
	c, err := e.Config(name)
	if err != nil {
		return nil, err
	}
	return e.embedder(ctx, c)
}

// embedder returns the embedder of a configuration, which is made once, with batches and retries.
// If the provider needs the network, it also has a cache on disk, which learning and questions
// share.
func (e *Engine) embedder(ctx context.Context, c Config) (embed.Embedder, error) {
	key, err := c.embedderKey()
	if err != nil {
		return nil, err
	}
	provider, err := e.opts.Providers.Lookup(c.Provider)
	if err != nil {
		return nil, err
	}
	embedder, err := e.embedders.get(ctx, key, func() (embed.Embedder, error) { return e.openEmbedder(ctx, c, provider) })
	if err != nil || provider.Capabilities.Network { // whose requests may have the dimension
		return embedder, err
	}
	// A configuration that names the model and the dimension means the same model.
	full := c
	full.Model = cmp.Or(c.Model, embedder.Model())
	full.Embedding.Dimensions = cmp.Or(c.Embedding.Dimensions, embedder.Dimensions())
	also, err := full.embedderKey()
	if err == nil && also != key {
		e.embedders.also(key, also)
	}
	return embedder, err
}

// embedderKey returns what tells the embedder of a configuration from others.
func (c *Config) embedderKey() (embedderKey, error) {
	b, err := json.Marshal([]any{c.embedding(), c.Embedding})
	if err != nil {
		return embedderKey{}, fmt.Errorf("knowledge: %w", err)
	}
	return embedderKey{c.Name, string(b)}, nil
}

// dropEmbedders drops the embedders of a base but the one of its configuration.
func (e *Engine) dropEmbedders(c Config) {
	key, err := c.embedderKey()
	if err != nil { // not with what a file can hold
		return
	}
	e.embedders.drop(func(k embedderKey) bool { return k.base == c.Name && k != key })
}

func (e *Engine) openEmbedder(ctx context.Context, c Config, provider embed.Provider) (embed.Embedder, error) {
	inner, err := e.opts.Providers.Open(ctx, c.embedding(), e.opts.Embed)
	if err != nil {
		return nil, err
	}
	inner = e.meter(inner, e.state(c.Name), c.Embedding.Price)
	if rate := c.Embedding.RequestsPerSecond; rate > 0 {
		inner = embed.Limit(inner, embed.LimitOptions{PerSecond: rate})
	}
	if provider.Capabilities.Network {
		retry := e.retry()
		retry.Attempts = cmp.Or(c.Embedding.Attempts, retry.Attempts)
		inner = embed.Retry(inner, &retry)
	}
	inner = embed.Batches(inner, &embed.BatchOptions{Size: c.Embedding.BatchSize})
	if provider.Capabilities.Network {
		cache, err := embed.NewCache(filepath.Join(e.dir(c.Name), "embeddings"), &embed.CacheOptions{Logger: e.opts.Logger})
		if err != nil {
			return nil, err
		}
		inner = cache.Wrap(inner)
	}
	return inner, nil
}

// uncached returns the embedder of a base without its cache, so that every text reaches the model.
// The cache, if there is one, is the outermost wrapper.
func uncached(e embed.Embedder) embed.Embedder {
	if wrapper, ok := e.(interface{ Unwrap() embed.Embedder }); ok {
		return wrapper.Unwrap()
	}
	return e
}

// retry returns how requests to models are repeated.
func (e *Engine) retry() embed.RetryOptions {
	if e.opts.Retry != nil {
		return *e.opts.Retry
	}
	return embed.RetryOptions{Logger: e.opts.Logger}
}

const (
	chunksName = "chunks"
	filesName  = "files"
	// pinned is the field in the metadata of the collection of files that stores the configuration
	// of the vectors.
	pinned = "embedding"
	// active is the field that stores the name of the collection of chunks.
	active = "chunks"
	// identity is the field that stores a random text that no other database has: answers from a
	// database of the same name must not be taken for answers from this one.
	identity = "id"
)

// pin returns the embedding configuration as metadata.
func pin(c embed.Config, chunks string) db.Metadata {
	return db.Metadata{pinned: map[string]any{"provider": c.Provider, "model": c.Model, "dimensions": int64(c.Dimensions)}, active: chunks}
}

func pinnedConfig(m db.Metadata) (c embed.Config, chunks string, ok bool) {
	fields, ok := m[pinned].(map[string]any)
	if !ok {
		return c, "", false
	}
	c.Provider, _ = fields["provider"].(string)
	c.Model, _ = fields["model"].(string)
	dim, _ := fields["dimensions"].(int64)
	c.Dimensions = int(dim)
	chunks, _ = m[active].(string)
	return c, cmp.Or(chunks, chunksName), true
}

// match compares a configuration with the configuration that the base was learnt with.
func match(name string, learnt, found embed.Config) error {
	if err := learnt.Match(found); err != nil {
		return &mismatchError{Base: name, Expected: learnt, Found: found}
	}
	return nil
}

// A reader is a base that is open for questions.
type reader struct {
	close    func() error
	vdb      *db.DB
	files    *db.Collection
	chunks   *db.Collection
	embedder embed.Embedder
	config   Config
	id       string // of the database; empty for bases of earlier releases
}

// read opens a base for reading, even while this Engine learns it.
func (e *Engine) read(ctx context.Context, name string) (*reader, error) {
	return e.readBy(ctx, name, func(ctx context.Context, dir string) (*db.DB, func() error, error) {
		return e.gate(dir).read(ctx, dir)
	})
}

// readAlone opens a base for reading and keeps everyone from learning it in the meantime.
func (e *Engine) readAlone(ctx context.Context, name string) (*reader, error) {
	unlock, err := e.lock(ctx, name, toLearn, true)
	if err != nil {
		return nil, err
	}
	r, err := e.readBy(ctx, name, opener(db.Options{ReadOnly: true}).open)
	if err != nil {
		unlock()
		return nil, err
	}
	closeIt := r.close
	r.close = func() error { defer unlock(); return closeIt() }
	return r, nil
}

// opener are options with which a database is opened for one reader.
type opener db.Options

func (o opener) open(_ context.Context, dir string) (*db.DB, func() error, error) {
	vdb, err := db.Open(dir, (*db.Options)(&o))
	if err != nil {
		return nil, nil, err
	}
	return vdb, vdb.Close, nil
}

// openFunc opens a database for reading.
type openFunc func(ctx context.Context, dir string) (vdb *db.DB, closeIt func() error, err error)

func (e *Engine) readBy(ctx context.Context, name string, open openFunc) (*reader, error) {
	c, err := e.Config(name)
	for {
		if err != nil {
			return nil, err
		}
		r, err := e.readIndex(ctx, c, open)
		if err == nil {
			return r, nil
		}
		again, changed := e.Config(name)
		switch {
		case errors.Is(changed, ErrNotFound): // Clean has removed the base
			return nil, changed
		case changed == nil && again.Index != c.Index: // Reembed has switched to another index
			c = again
			continue
		}
		if errors.Is(err, ErrNotFound) {
			return nil, err
		}
		// Clean removes the database before the configuration.
		if _, gone := os.Stat(e.database(c)); errors.Is(gone, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: base %q is being removed", ErrNotFound, name)
		}
		return nil, err
	}
}

func (e *Engine) readIndex(ctx context.Context, c Config, open openFunc) (*reader, error) {
	name := c.Name
	if _, err := os.Stat(e.database(c)); err != nil {
		return nil, fmt.Errorf("%w: base %q was never learnt", ErrNotFound, name)
	}
	vdb, closeIt, err := open(ctx, e.database(c))
	if errors.Is(err, db.ErrNotFound) { // another process is about to make it
		return nil, fmt.Errorf("%w: base %q was never learnt: %w", ErrNotFound, name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("knowledge: %w", err)
	}
	r := &reader{close: closeIt, vdb: vdb, config: c}
	err = func() error {
		if r.files, err = vdb.Collection(filesName); err != nil {
			return fmt.Errorf("%w: base %q was never learnt: %w", ErrNotFound, name, err)
		}
		files, err := r.files.Info()
		if err != nil {
			return err
		}
		learnt, chunks, ok := pinnedConfig(files.Metadata)
		r.id, _ = files.Metadata[identity].(string)
		if !ok {
			return fmt.Errorf("%w: base %q was never learnt", ErrNotFound, name)
		}
		if r.chunks, err = vdb.Collection(chunks); err != nil {
			return fmt.Errorf("%w: base %q: %w", ErrNotFound, name, err)
		}
		if r.embedder, err = e.embedder(ctx, c); err != nil {
			return err
		}
		found := c.embedding()
		found.Model = cmp.Or(found.Model, r.embedder.Model())
		found.Dimensions = cmp.Or(found.Dimensions, r.embedder.Dimensions(), learnt.Dimensions)
		return match(name, learnt, found)
	}()
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// A Status describes a base.
type Status struct {
	Name     string    `json:"name"`
	Config   Config    `json:"config"`
	Files    int       `json:"files"`
	Chunks   int       `json:"chunks"`
	Bytes    int64     `json:"bytes"`              // on disk
	Root     string    `json:"root,omitempty"`     // the directory that relative file names refer to
	Learnt   time.Time `json:"learnt,omitzero"`    // when Learn last completed
	Locked   string    `json:"locked,omitempty"`   // if another process keeps the database for itself: which; Files, Chunks and Learnt are then unknown
	Mismatch string    `json:"mismatch,omitempty"` // why the base cannot be queried
	Next     string    `json:"next,omitempty"`     // the embedder of an unfinished re-embedding
	Learning *Progress `json:"learning,omitempty"` // the run of Learn that this Engine is at
}

// Progress is a run of Learn that has not ended.
type Progress struct {
	Started time.Time `json:"started"`
	File    string    `json:"file"` // read last
	Report            // so far; files that are read are counted when they are written
}

// Status describes a base. While another process keeps the database for itself
// (db.Options.Exclusive), the status contains only what can be told without it.
func (e *Engine) Status(ctx context.Context, name string) (*Status, error) {
	c, err := e.Config(name)
	learning := e.learning(name)
	if errors.Is(err, ErrNotFound) && learning != nil { // its first files are not written yet
		return &Status{Name: name, Learning: learning}, nil
	}
	if err != nil {
		return nil, err
	}
	s := &Status{Name: name, Config: c, Learning: learning}
	if next, ok, err := e.next(c); err != nil {
		return nil, err
	} else if ok {
		s.Next = next.embedding().String()
	}
	if s.Bytes, err = vfs.DirSize(e.dir(name)); err != nil {
		return nil, fmt.Errorf("knowledge: %w", err)
	}
	r, err := e.read(ctx, name)
	var mismatch *mismatchError
	if errors.As(err, &mismatch) {
		s.Mismatch = mismatch.Error()
		return s, nil
	}
	if errors.Is(err, ErrNotFound) {
		return s, nil // configured, not learnt yet
	}
	if errors.Is(err, db.ErrLocked) {
		s.Locked = errtext.Plain(err.Error()) // for people
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.close()
	files, err := r.files.Info()
	if err != nil {
		return nil, fmt.Errorf("knowledge: %w", err)
	}
	chunks, err := r.chunks.Info()
	if err != nil {
		return nil, fmt.Errorf("knowledge: %w", err)
	}
	s.Config, s.Files, s.Chunks = r.config, files.Documents, chunks.Documents
	if _, ok := files.Metadata[rooted]; ok {
		root, err := e.root(ctx, name, r.files, nil)
		if err != nil {
			return nil, fmt.Errorf("knowledge: %w", err)
		}
		s.Root = root.dir
	}
	if text, ok := files.Metadata[learntAt].(string); ok {
		s.Learnt, _ = time.Parse(time.RFC3339, text)
	}
	return s, nil
}

// Bases lists the bases of the workspace, by name.
func (e *Engine) Bases() ([]string, error) {
	entries, err := vfs.ReadDir(e.workspace)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("knowledge: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if _, err := os.Stat(e.ConfigPath(entry.Name())); err == nil && validName(entry.Name()) == nil {
			names = append(names, entry.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// Create writes the configuration of a base that does not exist yet: the defaults, and set as in
// Configure. The first Learn makes its database. The error matches db.ErrExists if there is a base
// with the name, and db.ErrLocked while another call makes it.
func (e *Engine) Create(name string, set map[string]any) (Config, error) {
	if err := validName(name); err != nil {
		return Config{}, err
	}
	c, err := Config{}.fresh(name, set, e.Defaults(name))
	if err == nil {
		err = c.check()
	}
	if err == nil {
		err = e.opts.Providers.Validate(c.embedding())
	}
	if err != nil {
		return c, err
	}
	unlock, err := e.lock(context.Background(), name, toConfigure, false)
	if err == nil {
		defer unlock()
	}
	if _, missing := os.Stat(e.ConfigPath(name)); missing == nil { // also while it is being changed
		return Config{}, fmt.Errorf("knowledge: base %q: %w", name, db.ErrExists)
	}
	if err != nil {
		return c, err
	}
	return c, e.save(c)
}

// Clean removes the database and the configuration of a base, durably. It returns ErrNotFound if
// the base does not exist. The error matches db.ErrLocked while the base is learnt or embedded
// again, its configuration is being changed, or another process has it open.
func (e *Engine) Clean(name string) error {
	if err := validName(name); err != nil {
		return err
	}
	if _, err := os.Stat(e.dir(name)); err != nil {
		return e.missing(name)
	}
	embedded, err := e.lock(context.Background(), name, toReembed, false)
	if err != nil {
		return err
	}
	defer embedded()
	learnt, err := e.lock(context.Background(), name, toLearn, false)
	if err != nil {
		return err
	}
	defer learnt()
	configured, err := e.lock(context.Background(), name, toConfigure, false)
	if err != nil {
		return err
	}
	defer configured()
	e.forget(name)
	if err := e.release(name); err != nil {
		return err
	}
	entries, err := os.ReadDir(e.dir(name))
	if err != nil {
		return fmt.Errorf("knowledge: clean %q: %w", name, err)
	}
	for _, entry := range entries {
		index := strings.TrimSuffix(entry.Name(), removedSuffix)
		if _, ok := generation(index); ok {
			if err := removeIndex(filepath.Join(e.dir(name), index)); err != nil {
				return fmt.Errorf("knowledge: clean %q: %w", name, err)
			}
		}
	}
	dir, err := vfs.Open(e.dir(name), e.hook)
	if err != nil {
		return fmt.Errorf("knowledge: clean %q: %w", name, err)
	}
	defer dir.Close()
	for _, part := range baseParts {
		if part == configFile { // a database that comes back without it would be part of a new base
			err = dir.SyncDir(".")
		}
		if err == nil {
			err = os.RemoveAll(filepath.Join(e.dir(name), part))
		}
		if err != nil {
			return fmt.Errorf("knowledge: clean %q: %w", name, err)
		}
	}
	if err := dir.SyncDir("."); err != nil {
		return fmt.Errorf("knowledge: clean %q: %w", name, err)
	}
	return nil // the last lock removes the directory, unless it holds other files
}

// baseParts are the names in the directory of a base, but for its databases and its locks. The
// configuration makes it a base, so it is the last to be removed.
var baseParts = []string{"embeddings", nextConfig, nextConfig + newSuffix, configFile + newSuffix, configFile}

// lockNames are the names of the locks.
var lockNames = []string{toReembed.name, toLearn.name, toConfigure.name}

// isPart reports whether a path is part of a base in the workspace. The directory of a base may
// hold other files.
func (e *Engine) isPart(path string) bool {
	path, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	part := strings.TrimSuffix(filepath.Base(path), removedSuffix)
	_, index := generation(part)
	if !index && !slices.Contains(baseParts, part) && !slices.Contains(lockNames, part) {
		return false
	}
	dir := filepath.Dir(path)
	workspace, err := os.Stat(e.workspace)
	if err != nil {
		return false
	}
	above, err := os.Stat(filepath.Dir(dir))
	if err != nil || !os.SameFile(workspace, above) {
		return false
	}
	// A base that is learnt for the first time has a lock and no configuration.
	_, err = os.Stat(filepath.Join(dir, configFile))
	_, err2 := os.Stat(filepath.Join(dir, toLearn.name))
	return err == nil || err2 == nil
}

// forget drops the embedders of a base, and its state.
func (e *Engine) forget(name string) {
	e.mu.Lock()
	delete(e.states, name)
	e.mu.Unlock()
	e.embedders.drop(func(k embedderKey) bool { return k.base == name })
}

// removedSuffix marks databases that are being removed.
const removedSuffix = ".removed"

// removeIndex removes a database, unless it is in use. The database loses its name first, so that a
// reader that fails to open it can tell that it is gone. What an interrupted call has left is
// removed too.
func removeIndex(dir string) error {
	if err := os.RemoveAll(dir + removedSuffix); err != nil {
		return err
	}
	if _, err := os.Stat(dir); err != nil {
		return nil
	}
	vdb, err := db.Open(dir, &db.Options{Exclusive: true})
	if errors.Is(err, db.ErrLocked) {
		return err
	}
	if err == nil {
		_ = vdb.Close() // it is removed next
	}
	if err := os.Rename(dir, dir+removedSuffix); err != nil {
		return err
	}
	return os.RemoveAll(dir + removedSuffix)
}
