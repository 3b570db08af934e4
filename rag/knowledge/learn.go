package knowledge

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	slashpath "path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/load"
	"github.com/vecbolt/vecbolt/rag/split"
)

// LearnOptions say what to learn.
type LearnOptions struct {
	// Paths are files and directories; "-" is Stdin. A relative path refers to the working
	// directory. Files below them that no longer exist, or that a .gitignore or .vecboltignore now
	// excludes, are removed from the base; files that exist and that Load leaves out stay as they
	// are.
	Paths []string
	// Below, if set, is a directory that Paths are relative to, and that they may not leave, not
	// even by symbolic links: for paths that a client of the program chose.
	Below string
	// Stdin is the input for "-", one document that replaces the previous input. nil means the
	// standard input.
	Stdin io.Reader
	// Config configures a base that does not exist yet; zero values mean defaults. For an existing
	// base, zero values leave the setting unchanged; provider, model and dimensions must agree with
	// the base, and other settings are updated. If the way of splitting changes, files are split
	// again.
	Config *Config
	// Set sets keys of config.yaml, after Config, as Config.Set does.
	Set map[string]any
	// Load says which files of a directory are read, and how.
	Load *load.Options
	// Progress, if set, is called after each file.
	Progress func(file string)
}

// A Report describes a run of Learn.
type Report struct {
	Files    int     `json:"files"`    // found and readable
	Chunks   int     `json:"chunks"`   // chunks of these files in the base now
	Embedded int     `json:"embedded"` // chunks that had to be embedded
	Skipped  int     `json:"skipped"`  // unchanged files
	Removed  int     `json:"removed"`  // deleted or newly ignored files
	Broken   int     `json:"broken"`   // files that cannot be read, stored or embedded
	Seconds  float64 `json:"seconds"`
	// Unread are the files and rows that have no readable text, or that cannot be stored or
	// embedded, at most 1,000. Every run has all of them, whether or not the files changed.
	Unread []Unread `json:"unread,omitempty"`
}

// Unread is a file, or a row of a file, that was not read.
type Unread struct {
	File   string `json:"file"`   // with escapes if it is not UTF-8 or has control characters
	Reason string `json:"reason"` // begins with the row, if it is one
}

// Learn brings a base up to date with the files below some paths. It reads, splits, embeds and
// indexes new and changed files, removes deleted and ignored ones and leaves unchanged ones alone.
// Each file is replaced atomically: after an interruption the next call continues where this one
// stopped. If a file cannot be read, stored or embedded, its previous content stays in the base; of
// a file of rows, those that can be are learnt. A base is created when its first files are written;
// an error before that leaves no base. While another run learns the base, in this process or
// another, Learn waits; if ctx ends first, the error matches db.ErrLocked as well.
func (e *Engine) Learn(ctx context.Context, name string, o LearnOptions) (*Report, error) {
	start := time.Now()
	if len(o.Paths) == 0 {
		return nil, fmt.Errorf("%w: nothing to learn: no path", ErrConfig)
	}
	if o.Below != "" {
		below := make([]string, len(o.Paths))
		for i, path := range o.Paths {
			var err error
			if below[i], err = inside(o.Below, path); err != nil {
				return nil, err
			}
		}
		o.Paths = below
	}
	for _, path := range o.Paths {
		if path == stdin {
			continue
		}
		if _, err := os.Stat(path); err != nil && !(errors.Is(err, fs.ErrNotExist) && e.learnt(ctx, name, path)) {
			return nil, fmt.Errorf("knowledge: learn %q: %w", name, err)
		}
	}
	l, err := e.learner(ctx, name, o)
	if err != nil {
		return nil, err
	}
	defer l.unlock()
	defer e.state(name).at(nil)
	if err = l.run(start); err == nil {
		err = l.close()
	} else {
		err = l.giveUp(err)
	}
	if err != nil {
		return nil, fmt.Errorf("knowledge: learn %q: %w", name, err)
	}
	l.report.Seconds = time.Since(start).Seconds()
	return &l.report, nil
}

// inside returns a path below a directory. Links in directories are not followed by package load.
func inside(dir, path string) (string, error) {
	outside := fmt.Errorf("%w: %.100q is not a relative path below the directory of files", ErrConfig, path)
	rel := filepath.FromSlash(path)
	if !filepath.IsLocal(rel) || path == stdin {
		return "", outside
	}
	joined := filepath.Join(dir, rel)
	real, err := filepath.EvalSymlinks(joined)
	if errors.Is(err, fs.ErrNotExist) {
		return joined, nil // its files are removed from the base
	}
	root, err2 := filepath.EvalSymlinks(dir)
	if err = errors.Join(err, err2); err != nil {
		return "", fmt.Errorf("knowledge: %w", err)
	}
	if _, ok := below(root, real); !ok {
		return "", outside
	}
	return joined, nil
}

// learnt reports whether a base contains a file, or files below a directory, whether or not they
// still exist.
func (e *Engine) learnt(ctx context.Context, name, path string) bool {
	r, err := e.read(ctx, name)
	if err != nil {
		return false
	}
	defer r.close()
	root, err := e.root(ctx, name, r.files, []string{path})
	if err != nil {
		return false
	}
	id := root.id(path)
	for d, err := range r.files.All(ctx, nil, db.IDsOnly) {
		if err != nil {
			return false
		}
		if root.has(id, d.ID) {
			return true
		}
	}
	return false
}

// A learner is one run of Learn.
type learner struct {
	*Engine
	ctx      context.Context
	o        LearnOptions
	config   Config
	embedder embed.Embedder
	vdb      *db.DB
	close    func() error
	unlock   func() // lets the next run begin
	chunks   *db.Collection
	current  string // name of chunks
	files    *db.Collection
	root     root
	seen     map[string]bool
	report   Report
	broken   []Unread // files that cannot be read, by id

	made    bool // the database did not exist before
	changed bool // the configuration is not in its file yet
	created bool // this run made the file of the configuration
	begun   bool // the configuration is in its file, and pinned
	written bool // a batch of files is written

	before  map[string]*db.Document // files by content hash, as they were before the run; nil until needed
	pending []change                // files that are read but not written yet
	texts   int                     // chunks in pending
	bytes   int                     // size of pending in a batch
}

// A change is the update of one file.
type change struct {
	id        string
	docs      []db.Document
	rows      []int        // of docs; nil if the file is no list of rows
	unread    reasons      // why rows of the file are not in docs
	before    int          // chunks before the update
	duplicate *db.Document // an existing file with the same content, if this file is new
	record    db.Metadata
	bytes     int // size in a batch, with vectors
}

// learner opens or creates a base for writing, when no other run writes it.
func (e *Engine) learner(ctx context.Context, name string, o LearnOptions) (l *learner, err error) {
	if err := validName(name); err != nil {
		return nil, err
	}
	unlock, err := e.lock(ctx, name, toLearn, true)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			unlock()
		}
	}()
	asked := Config{}
	if o.Config != nil {
		asked = *o.Config
	}
	c, err := e.Config(name)
	changed := errors.Is(err, ErrNotFound)
	switch {
	case changed:
		if c, err = asked.fresh(name, o.Set, e.Defaults(name)); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	default:
		if c, changed, err = e.change(ctx, c, asked, o.Set); err != nil {
			return nil, err
		}
	}
	var read load.Options
	if o.Load != nil {
		read = *o.Load
	}
	if skip := read.Skip; skip == nil {
		read.Skip = e.isPart
	} else {
		read.Skip = func(path string) bool { return e.isPart(path) || skip(path) }
	}
	o.Load = &read
	l = &learner{Engine: e, ctx: ctx, o: o, config: c, unlock: unlock, seen: map[string]bool{}, changed: changed}
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := l.settle(); err != nil {
		return nil, err
	}
	_, err = os.Stat(e.database(c))
	l.made = errors.Is(err, fs.ErrNotExist)
	g := e.gate(e.database(c))
	if l.vdb, err = g.write(ctx, e.database(c)); err != nil {
		return nil, fmt.Errorf("knowledge: %w", err)
	}
	l.close = func() error { return g.close(ctx) }
	e.sweep(c)
	if err := l.open(); err != nil {
		return nil, l.giveUp(err)
	}
	return l, nil
}

// giveUp closes the database after an error. Before the first file is written, it removes the
// configuration and the database that this run made.
func (l *learner) giveUp(err error) error {
	err = errors.Join(err, l.close())
	if l.written {
		return err
	}
	if l.created {
		err = errors.Join(err, l.uncreate())
	}
	if l.made {
		err = errors.Join(err, removeIndex(l.database(l.config)))
	}
	return err
}

// uncreate removes the configuration, even if ctx has ended. Then it does not wait for others that
// change the configuration, and leaves it to them.
func (l *learner) uncreate() error {
	unlock, err := l.lock(l.ctx, l.config.Name, toConfigure, true)
	if err != nil {
		return err
	}
	defer unlock()
	return os.RemoveAll(l.ConfigPath(l.config.Name))
}

// settle opens the embedder and fills in the model and dimension that the configuration leaves
// open, because the pinned configuration must be complete.
func (l *learner) settle() (err error) {
	if l.embedder, err = l.Engine.embedder(l.ctx, l.config); err != nil {
		return err
	}
	l.config.Model = cmp.Or(l.config.Model, l.embedder.Model())
	if err := l.dimension(); err != nil {
		return err
	}
	// The completed configuration is part of the names of cache entries, so open the embedder
	// again.
	l.embedder, err = l.Engine.embedder(l.ctx, l.config)
	return err
}

// dimension embeds one text to find the dimension, unless the configuration names it.
func (l *learner) dimension() error {
	dim := &l.config.Embedding.Dimensions
	if *dim = cmp.Or(*dim, l.embedder.Dimensions()); *dim != 0 {
		return nil
	}
	vec, err := l.embedder.Embed(l.ctx, "dimension")
	*dim = len(vec)
	return err
}

// open opens the collections. A base without files is not bound to its pinned configuration.
func (l *learner) open() (err error) {
	if l.files, err = l.vdb.OpenCollection(l.ctx, filesName, db.Schema{}); err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	files, err := l.files.Info()
	if err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	want, chunks := l.config.embedding(), chunksName
	if learnt, current, ok := pinnedConfig(files.Metadata); ok {
		if err := match(l.config.Name, learnt, want); err != nil && files.Documents > 0 {
			return err
		}
		chunks = current
	}
	have, err := infoOf(l.vdb, chunks)
	if err != nil && !errors.Is(err, db.ErrNotFound) {
		return fmt.Errorf("knowledge: %w", err)
	}
	made := err != nil
	if !made && files.Documents == 0 && have.Documents == 0 { // its vectors may be from another embedder
		if err := l.vdb.Drop(l.ctx, chunks); err != nil {
			return fmt.Errorf("knowledge: %w", err)
		}
		made = true
	}
	if from := have.Schema.Lineage; !made && from.Provider != "" && from.Normalized != want.Normalize {
		return otherLengths(l.config.Name, from.Normalized)
	}
	schema := db.Schema{Dim: want.Dimensions, Metric: db.Cosine, Text: &db.TextIndex{Language: l.config.Language},
		Lineage: db.Lineage{Provider: want.Provider, Model: want.Model, Normalized: want.Normalize}}
	if !made { // the text index belongs to the collection: users can change it by command
		schema.Text = have.Schema.Text
	}
	if l.chunks, err = l.vdb.OpenCollection(l.ctx, chunks, schema); err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	l.current = chunks
	if err := l.speak(files, schema.Text); err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	if l.root, err = l.Engine.root(l.ctx, l.config.Name, l.files, l.o.Paths); err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	return nil
}

// infoOf describes a collection.
func infoOf(vdb *db.DB, name string) (db.CollectionInfo, error) {
	c, err := vdb.Collection(name)
	if err != nil {
		return db.CollectionInfo{}, err
	}
	return c.Info()
}

// spoken is the field in the metadata of the collection of files that stores the language of the
// configuration when the base was last learnt. Bases of earlier releases do not have it.
const spoken = "language"

// speak gives the text index the language of the configuration, if the configuration was changed
// since the base was last learnt. Otherwise an index that was changed by command stays as it is.
func (l *learner) speak(files db.CollectionInfo, now *db.TextIndex) error {
	want := language(l.config)
	_, asked := l.o.Set["language"]
	asked = asked || l.o.Config != nil && l.o.Config.Language != ""
	before, known := files.Metadata[spoken].(string)
	if !asked && (!known || before == want) {
		return nil
	}
	index := db.TextIndex{Language: want}
	if now != nil {
		if cmp.Or(now.Language, english) == want {
			return nil
		}
		index = *now
		index.Language = want
	}
	return l.chunks.SetText(l.ctx, &index)
}

const english = "english"

func language(c Config) string { return cmp.Or(c.Language, english) }

// begin saves and pins the configuration, before the first file is written.
func (l *learner) begin() error {
	if l.begun {
		return nil
	}
	if l.changed {
		if err := l.saveChanges(); err != nil {
			return err
		}
		l.at("configured")
	}
	files, err := l.files.Info()
	if err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	if err := l.note(files.Metadata[learntAt], files.Metadata[brokenFiles]); err != nil {
		return err
	}
	l.begun = true
	return nil
}

// saveChanges saves the configuration. Keys that were changed since this run began keep their new
// values, unless this run was asked to change them.
func (l *learner) saveChanges() error {
	unlock, err := l.lock(l.ctx, l.config.Name, toConfigure, true)
	if err != nil {
		return err
	}
	defer unlock()
	now, err := l.Engine.Config(l.config.Name)
	if errors.Is(err, ErrNotFound) {
		l.created = true
		return l.save(l.config)
	}
	if err != nil {
		return err
	}
	asked := Config{}
	if l.o.Config != nil {
		asked = *l.o.Config
	}
	if now, _, err = l.change(l.ctx, now, asked, l.o.Set); err != nil {
		return err
	}
	now.Model, now.Embedding.Dimensions = l.config.Model, l.config.Embedding.Dimensions
	return l.save(now)
}

// learntAt is the field in the metadata of the collection of files that stores when Learn last
// completed.
const learntAt = "learnt"

// note pins the configuration and the root and, if not nil, the time and the list of broken files.
func (l *learner) note(learnt, broken any) error {
	base, err := l.realDir(l.config.Name)
	if err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	m := pin(l.config.embedding(), l.current)
	m[spoken] = language(l.config)
	files, err := l.files.Info()
	if err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	id, _ := files.Metadata[identity].(string)
	m[identity] = cmp.Or(id, rand.Text())
	if learnt != nil {
		m[learntAt] = learnt
	}
	if broken != nil {
		m[brokenFiles] = broken
	}
	if !l.root.guess {
		m[rooted] = l.root.recorded(base)
	}
	if err := l.files.SetMetadata(l.ctx, m); err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	return nil
}

func (l *learner) run(start time.Time) error {
	state := l.state(l.config.Name)
	at := func(file string) {
		p := &Progress{Started: start.UTC(), File: file, Report: l.report}
		p.Seconds = time.Since(start).Seconds()
		state.at(p)
	}
	at("")
	for _, path := range l.o.Paths {
		if path == stdin {
			if err := l.input(); err != nil {
				return err
			}
			continue
		}
		id := l.root.id(path)
		for name, err := range load.Files(l.ctx, path, l.o.Load) {
			if errors.Is(err, fs.ErrNotExist) && !errors.As(err, new(*load.SkipError)) {
				break // the path itself is gone: its files are removed below
			}
			var skip *load.SkipError
			if errors.As(err, &skip) {
				file, err := idBelow(id, path, skip.Source)
				if err != nil {
					return err
				}
				l.skip(file, skip.Err)
				continue
			}
			if err != nil {
				return err
			}
			file, err := idBelow(id, path, name)
			if err != nil {
				return err
			}
			if err := l.file(file, name); err != nil {
				return err
			}
			at(name)
			if l.o.Progress != nil {
				l.o.Progress(name)
			}
		}
	}
	if err := l.write(); err != nil {
		return err
	}
	for _, path := range l.o.Paths { // after all paths: one may name a file below another
		if path == stdin {
			continue
		}
		if err := l.forget(path); err != nil {
			return err
		}
	}
	if err := l.begin(); err != nil {
		return err
	}
	files, err := l.files.Info()
	if err != nil {
		return err
	}
	return l.note(time.Now().UTC().Format(time.RFC3339), l.brokenFiles(files.Metadata[brokenFiles]))
}

// idBelow returns the id of a file below a path with an id.
func idBelow(id, path, file string) (string, error) {
	rel, err := filepath.Rel(path, file)
	return fileID(slashpath.Join(id, filepath.ToSlash(rel))), err
}

// skip counts a file that cannot be read.
func (l *learner) skip(file string, err error) {
	file = printable(file)
	l.report.Broken++
	var skip *load.SkipError
	if errors.As(err, &skip) {
		err = skip.Err
	}
	reason := reasonOf(err)
	if len(l.broken) < maxUnread {
		l.broken = append(l.broken, Unread{file, reason})
	}
	l.unread(file, []any{reason})
}

// reasonOf returns an error as UTF-8: errors of the system contain names of files, which may be
// none.
func reasonOf(err error) string { return strings.ToValidUTF8(err.Error(), "\uFFFD") }

// printable returns the name of a file with escapes if it is not UTF-8 or has control characters.
// Such names are no ids, and lists of unread files, stored or printed, could not hold them.
func printable(name string) string {
	if utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl) {
		return name
	}
	quoted := strconv.Quote(name)
	return quoted[1 : len(quoted)-1]
}

// maxUnread is the number of files and rows that are listed as unread.
const maxUnread = 1000

// unread reports reasons why a file, or rows of it, were not read.
func (l *learner) unread(file string, reasons []any) {
	for _, r := range reasons {
		reason, _ := r.(string)
		l.opts.Logger.InfoContext(l.ctx, "not read", "file", file, "reason", reason)
		if len(l.report.Unread) < maxUnread {
			l.report.Unread = append(l.report.Unread, Unread{file, reason})
		}
	}
}

// Metadata of a document in the collection of files.
const (
	fileHash     = "hash"     // content hash
	fileSplitter = "splitter" // how the file was split
	fileChunks   = "chunks"   // number of chunks
	fileUnread   = "unread"   // reasons why the file or rows of it have no text, as a list
	fileRefused  = "refused"  // true: the provider refused rows, and the next run tries them again
)

// stdin is the path of the standard input, and the id of the document read from it.
const stdin = "-"

// input brings the base up to date with the standard input.
func (l *learner) input() error {
	in := l.o.Stdin
	if in == nil {
		in = os.Stdin
	}
	l.seen[stdin] = true
	if err := l.read(stdin, in); err != nil {
		return err
	}
	return l.write()
}

// file brings the base up to date with one file.
func (l *learner) file(id, name string) error {
	if l.seen[id] {
		return nil
	}
	l.seen[id] = true
	f, err := vfs.OpenFile(name)
	if err != nil {
		l.skip(id, err)
		return nil
	}
	defer f.Close()
	return l.read(id, f)
}

// validID returns an error if no document can have an id.
func validID(id string) error {
	_, err := (&db.Document{ID: id}).Canonical()
	return err
}

// read brings the base up to date with the content of a file.
func (l *learner) read(id string, r io.Reader) error {
	if err := validID(id); err != nil {
		l.skip(id, err)
		return nil
	}
	content, err := load.Bytes(id, r, l.o.Load)
	if err != nil {
		l.skip(id, err)
		return nil
	}
	sum := sha256.Sum256(content)
	hash := hex.EncodeToString(sum[:])
	how, err := l.config.splits()
	if err != nil {
		return err
	}
	if l.opts.Tokens.Count != nil {
		how += "/" + l.opts.Tokens.Name
	}
	before := 0
	var duplicate *db.Document
	old, err := l.files.Get(l.ctx, id, db.WithMetadata)
	switch {
	case errors.Is(err, db.ErrNotFound):
		if duplicate, err = l.duplicate(hash); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		n, _ := old.Metadata[fileChunks].(int64)
		before = int(n)
		if old.Metadata[fileHash] == hash && old.Metadata[fileSplitter] == how && old.Metadata[fileRefused] == nil {
			l.report.Files++
			l.report.Skipped++
			l.report.Chunks += before
			reasons, _ := old.Metadata[fileUnread].([]any)
			l.unread(id, reasons)
			return nil
		}
	}
	c, err := l.split(id, content)
	if c == nil || err != nil {
		return err // unreadable: the previous content stays
	}
	if err := validID(chunkID(id, len(c.docs))); err != nil { // too long for the ids of its chunks
		l.skip(id, err)
		return nil
	}
	c.before, c.duplicate = before, duplicate
	c.record = db.Metadata{fileHash: hash, fileSplitter: how}
	c.complete()
	var b db.Batch
	c.write(&b, l.current)
	c.bytes = b.Size() + 4*l.config.Embedding.Dimensions*len(c.docs)
	err = b.Err()
	if err == nil && c.bytes > maxChange {
		err = fmt.Errorf("%w: its chunks take %d bytes, the limit is %d", load.ErrTooLarge, c.bytes, maxChange)
	}
	if err != nil {
		l.skip(id, err)
		return nil
	}
	if l.bytes+c.bytes > maxChange {
		if err := l.write(); err != nil {
			return err
		}
	}
	l.pending = append(l.pending, *c)
	l.texts += len(c.docs)
	l.bytes += c.bytes
	if l.texts >= 4*l.config.Embedding.BatchSize { // enough for requests in parallel
		return l.write()
	}
	return nil
}

// maxChange is the most bytes of files that are written in one batch. A file that has more cannot
// be replaced atomically. Tests change it.
var maxChange = db.MaxBatchLen

// write adds the update of a file to a batch.
func (c *change) write(b *db.Batch, chunks string) {
	for _, d := range c.docs {
		b.Upsert(chunks, d)
	}
	for i := len(c.docs); i < c.before; i++ {
		b.Delete(chunks, chunkID(c.id, i))
	}
	b.Upsert(filesName, db.Document{ID: c.id, Metadata: c.record})
}

// write embeds the pending files and writes them in one batch.
func (l *learner) write() error {
	files := l.pending
	l.pending, l.texts, l.bytes = nil, 0, 0
	if len(files) == 0 {
		return nil
	}
	files, err := l.embed(files)
	if err != nil || len(files) == 0 {
		return err
	}
	if err := l.begin(); err != nil {
		return err
	}
	var b db.Batch
	for i := range files {
		files[i].write(&b, l.current)
	}
	if err := l.vdb.Apply(l.ctx, &b); err != nil {
		return err
	}
	l.written = true
	for i := range files {
		l.report.Files++
		l.report.Chunks += len(files[i].docs)
		l.unread(files[i].id, files[i].unread.list())
	}
	return nil
}

func chunkID(file string, i int) string { return fmt.Sprintf("%s#%d", file, i) }

// reasons are why a file, or rows of it, were not read.
type reasons struct {
	first []any // as they are kept with the file
	rows  int   // whose reasons are in first
	more  int   // rows with other reasons
}

// row adds the reason for a row.
func (r *reasons) row(row int, err error) {
	const most = 19
	if r.rows == most {
		r.more++
		return
	}
	r.rows++
	r.first = append(r.first, brief(rowReason(row, err).Error()))
}

// list returns the first reasons, and the number of rows that have others.
func (r *reasons) list() []any {
	if r.more > 0 {
		return append(slices.Clip(r.first), fmt.Sprintf("%d rows more", r.more))
	}
	return r.first
}

// rowReason returns the reason why a row is not read, in valid UTF-8.
func rowReason(row int, err error) error { return fmt.Errorf("row %d: %s", row, reasonOf(err)) }

// split reads a file and divides it into chunks. It returns nil if the file cannot be read or
// stored. The change has the reasons why rows of it, or its pages, have no text or cannot be
// stored.
func (l *learner) split(id string, content []byte) (*change, error) {
	c := &change{id: id}
	var refusal error // of the first row that cannot be stored
	for doc, err := range load.Read(l.ctx, id, bytes.NewReader(content), l.o.Load) {
		var skip *load.SkipError
		if errors.As(err, &skip) {
			if skip.Row > 0 {
				c.unread.row(skip.Row, skip.Err)
				continue
			}
			if errors.Is(err, load.ErrEmpty) { // readable but empty: the previous content is removed
				c.unread.first = append(c.unread.first, skip.Err.Error())
				break
			}
			l.skip(id, err)
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		s, err := l.config.splitter(doc, l.embedder, l.opts.Tokens.Count)
		if err != nil {
			return nil, err
		}
		chunks, err := s.Split(l.ctx, doc.Text)
		if err != nil {
			return nil, err
		}
		before := len(c.docs)
		for _, chunk := range chunks {
			n := len(c.docs)
			d := db.Document{ID: chunkID(id, n), Text: chunk.Text, Metadata: metadata(id, doc, chunk, n)}
			if err = storable(d); err != nil {
				c.docs = c.docs[:before]
				break
			}
			c.docs = append(c.docs, d)
		}
		for doc.Row > 0 && len(c.rows) < len(c.docs) {
			c.rows = append(c.rows, doc.Row)
		}
		switch {
		case err != nil && doc.Row == 0:
			l.skip(id, err)
			return nil, nil
		case err != nil:
			c.unread.row(doc.Row, err)
			refusal = cmp.Or(refusal, rowReason(doc.Row, err))
		}
	}
	if len(c.docs) == 0 && refusal != nil {
		l.skip(id, refusal)
		return nil, nil
	}
	return c, nil
}

// storable returns the reason why the database would refuse a document.
func storable(d db.Document) error {
	var b db.Batch
	b.Upsert("", d)
	err := b.Err()
	if cause := errors.Unwrap(err); cause != nil && cause != db.ErrInvalid {
		return cause // without the id of the chunk
	}
	return err
}

// rowField is the metadata field with the row of a chunk in its file, from 1.
const rowField = "row"

// ownPrefix begins the name under which a chunk has a field of its file whose name Learn uses.
const ownPrefix = "own_"

// metadata has the fields of a document and the position of a chunk in it. A field of the document
// whose name the position takes is kept under another name.
func metadata(id string, doc *load.Document, c split.Chunk, index int) db.Metadata {
	m := db.Metadata(maps.Clone(doc.Metadata))
	if m == nil {
		m = db.Metadata{}
	}
	set := func(field string, value any) {
		own, taken := doc.Metadata[field]
		if _, other := doc.Metadata[ownPrefix+field]; taken && !other && own != value {
			m[ownPrefix+field] = own
		}
		m[field] = value
	}
	set(rag.FieldSourceFile, id)
	set(rag.FieldFormat, string(doc.Format))
	set(rag.FieldChunkIndex, int64(index))
	set(rag.FieldChunkLength, int64(len(c.Text)))
	set(rag.FieldOffset, int64(doc.Base+c.Offset))
	if page := doc.Page(c.Offset); page > 0 {
		set(rag.FieldPage, int64(page))
	} else if line := doc.Line(c.Offset); line > 0 {
		set(rag.FieldLineNumber, int64(line))
	}
	if doc.Row > 0 {
		set(rowField, int64(doc.Row))
	}
	if c.Header != "" {
		set(rag.FieldHeader, c.Header)
	}
	if doc.Title != "" {
		set(rag.FieldTitle, doc.Title)
	}
	return m
}

// duplicate returns a file that had this content before the run, or nil. Renamed and copied files
// reuse its vectors.
func (l *learner) duplicate(hash string) (*db.Document, error) {
	if l.before == nil {
		l.before = map[string]*db.Document{}
		for d, err := range l.files.All(l.ctx, nil, db.WithMetadata) {
			if err != nil {
				return nil, err
			}
			if h, ok := d.Metadata[fileHash].(string); ok {
				l.before[h] = d
			}
		}
	}
	return l.before[hash], nil
}

// embed gives every chunk of some files a vector, and returns the files. A row with a text that the
// provider refuses is left out of its file, and another file with such a text is skipped.
func (l *learner) embed(files []change) ([]change, error) {
	docs, err := l.unembedded(files)
	if err != nil {
		return nil, err
	}
	refusals := map[*db.Document]error{}
	if err := l.vectors(docs, refusals); err != nil || len(refusals) == 0 {
		return files, err
	}
	var taken []change
	for _, c := range files {
		if err := c.leaveOut(refusals); err != nil {
			l.skip(c.id, err)
			continue
		}
		taken = append(taken, c)
	}
	return taken, nil
}

// leaveOut removes rows with a text that the provider refused. The error has such
// a text, if the file has no rows or none would be left.
func (c *change) leaveOut(refusals map[*db.Document]error) error {
	out := map[int]bool{}
	var first error
	for i := range c.docs {
		err := refusals[&c.docs[i]]
		switch {
		case err == nil:
			continue
		case c.rows == nil:
			return fmt.Errorf("the passage %.60q: %w", c.docs[i].Text, err)
		}
		if row := c.rows[i]; !out[row] {
			out[row] = true
			c.unread.row(row, err)
			first = cmp.Or(first, rowReason(row, err))
		}
	}
	if len(out) == 0 {
		return nil
	}
	docs, rows := c.docs, c.rows
	c.docs, c.rows = nil, nil
	for i, d := range docs {
		if !out[rows[i]] {
			d.ID = chunkID(c.id, len(c.docs))
			d.Metadata[rag.FieldChunkIndex] = int64(len(c.docs))
			c.docs, c.rows = append(c.docs, d), append(c.rows, rows[i])
		}
	}
	if len(c.docs) == 0 {
		return first
	}
	c.record[fileRefused] = true
	c.complete()
	return nil
}

// complete gives the record of the file the number of its chunks, and the reasons.
func (c *change) complete() {
	c.record[fileChunks] = int64(len(c.docs))
	if unread := c.unread.list(); len(unread) > 0 {
		c.record[fileUnread] = unread
	}
}

// refused reports whether a provider answered that it does not embed some texts, for example
// because one is too long. Some servers call that an error of their own.
func refused(err error) bool {
	var e *embed.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity,
		http.StatusInternalServerError:
		return true
	}
	return false
}

// unembedded returns the chunks of some files that are to be embedded. The others get the vector of
// a chunk of the same files, or of files with the same content, that has the same text and header.
func (l *learner) unembedded(files []change) (missing []*db.Document, err error) {
	var docs []*db.Document
	var ids []string // of chunks that may have the same text
	for _, c := range files {
		for i := range c.docs {
			docs = append(docs, &c.docs[i])
			ids = append(ids, c.docs[i].ID)
		}
		if c.duplicate != nil {
			ids = append(ids, chunkIDs(c.duplicate)...)
		}
	}
	known := map[string][]float32{}
	old, err := l.chunks.GetMany(l.ctx, ids, db.Everything)
	if err != nil {
		return nil, err
	}
	for _, d := range old {
		if d != nil {
			known[rag.Embedded(d.Text, d.Metadata)] = d.Vector
		}
	}
	for _, d := range docs {
		if vec := known[rag.Embedded(d.Text, d.Metadata)]; len(vec) == l.config.Embedding.Dimensions {
			d.Vector = vec
			continue
		}
		missing = append(missing, d)
	}
	return missing, nil
}

// vectors embeds chunks. If the provider refuses a request, the halves are tried one after the
// other until the refused text is alone: the error need not name it.
func (l *learner) vectors(docs []*db.Document, refusals map[*db.Document]error) error {
	if len(docs) == 0 {
		return nil
	}
	texts := make([]string, len(docs))
	for i, d := range docs {
		texts[i] = rag.Embedded(d.Text, d.Metadata)
	}
	start := time.Now()
	vecs, err := l.embedder.EmbedBatch(l.ctx, texts)
	if refused(err) {
		// A wrong key or setting, or a broken server, gives the same answer to every text. So try
		// another one, whose vector is of no use to a cache.
		if _, other := uncached(l.embedder).Embed(l.ctx, rand.Text()); other != nil {
			return err
		}
		if len(docs) == 1 {
			refusals[docs[0]] = err
			return nil
		}
		half := len(docs) / 2
		if err := l.vectors(docs[:half], refusals); err != nil {
			return err
		}
		return l.vectors(docs[half:], refusals)
	}
	if err != nil {
		return err
	}
	l.opts.Logger.InfoContext(l.ctx, "embedded", "base", l.config.Name, "texts", len(texts), "provider", l.embedder.Provider(),
		"model", l.embedder.Model(), "dimensions", l.config.Embedding.Dimensions, "took", time.Since(start))
	for i, d := range docs {
		d.Vector = vecs[i]
	}
	l.report.Embedded += len(texts)
	return nil
}

// chunkIDs returns the ids of the chunks of a file.
func chunkIDs(file *db.Document) []string {
	n, _ := file.Metadata[fileChunks].(int64)
	ids := make([]string, max(0, n))
	for i := range ids {
		ids[i] = chunkID(file.ID, i)
	}
	return ids
}
