package knowledge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	slashpath "path"
	"path/filepath"
	"syscall"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/rag/load"
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
	// Load says which files of a directory are read, and how. With another WholePages than before,
	// files are read again.
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
	if namesNoFile(err) {
		return "", fmt.Errorf("%w: %.100q names no file", ErrConfig, path)
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

// namesNoFile reports whether the system says that no file can have a path: a name is too long or
// has a zero byte, or a file stands where a directory should.
func namesNoFile(err error) bool {
	return errors.Is(err, syscall.ENAMETOOLONG) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTDIR)
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

// Metadata of a document in the collection of files.
const (
	fileHash     = "hash"     // content hash
	fileSplitter = "splitter" // how the file was read and split
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
	if l.o.Load.WholePages {
		how += "/whole pages" // also for other formats, which the content decides; vectors are kept
	}
	before := 0 // chunks
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
	if err := l.measure(c); err != nil {
		l.skip(id, err)
		return nil
	}
	return l.enqueue(c)
}

// measure sets the size of a change. It returns the reason why the database would refuse it.
func (l *learner) measure(c *change) error {
	var b db.Batch
	c.write(&b, l.current)
	if err := b.Err(); err != nil {
		return err
	}
	c.bytes = b.Size() + 4*l.config.Embedding.Dimensions*len(c.docs)
	if c.bytes > maxChange {
		return fmt.Errorf("%w: its chunks take %d bytes, the limit is %d", load.ErrTooLarge, c.bytes, maxChange)
	}
	return nil
}

// enqueue adds a change to those that are written together, and writes them when they are enough.
func (l *learner) enqueue(c *change) error {
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
