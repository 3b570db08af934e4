package db

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/manifest"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/wal"
)

// Names in a published folder, in addition to those of a database.
const (
	manifestDir = "manifest"
	metaDir     = "meta"
)

// follower is the state of a reader of a published folder.
type follower struct {
	// Guarded by DB.metaMu.
	manifest *manifest.Manifest  // of the current version
	verified map[string]struct{} // paths of files whose checksums were compared
	spoilt   bool                // the head has batches of a version that failed to load

	mu    sync.Mutex
	stats ReplicaStats
}

// ReplicaStats describe the served version of a published folder and the last look at the
// folder.
type ReplicaStats struct {
	Version   uint64    `json:"version"`         // number of the version
	Published time.Time `json:"published"`       // time of its publication
	Checked   time.Time `json:"checked"`         // time of the last look
	Error     string    `json:"error,omitempty"` // why the last look took no newer version, if it failed
}

// isPublished reports whether the directory is a published folder.
func (db *DB) isPublished() (bool, error) {
	if !db.opts.ReadOnly {
		return false, nil // mayCreate refuses it
	}
	_, err := db.fs.ReadDir(manifestDir)
	if errors.Is(err, fs.ErrNotExist) && db.opts.Follow == 0 {
		return false, nil
	}
	return err == nil, err
}

// openPublished opens the newest version of a published folder.
func (db *DB) openPublished(start time.Time) error {
	db.following = &follower{verified: map[string]struct{}{}}
	m, view, err := db.newest(context.Background(), 0, db.opts.Follow > 0)
	if err != nil {
		return err
	}
	if m == nil {
		return fmt.Errorf("%w: directory %q holds no version", ErrNotFound, db.dir)
	}
	db.names.Store(view)
	if db.store, err = meta.Open(view, metaName, meta.Options{ReadOnly: true}); err != nil {
		return err
	}
	if err := db.load(db.store); err != nil {
		return err
	}
	if err := db.catchUp(context.Background(), m, view); err != nil {
		return err
	}
	db.following.manifest = m
	db.following.note(m, nil)
	db.opts.Logger.Info("opened", "dir", db.dir, "version", m.Number, "lsn", db.cur.lsn, "segments", len(db.segments), "took", time.Since(start))
	db.background.start(db)
	return nil
}

// files returns the files of the database or, in a published folder, of its newest
// version.
func (db *DB) files() *vfs.FS {
	if view := db.names.Load(); view != nil {
		return view
	}
	return db.fs
}

// catchUp replays the log of a version on top of the tip.
func (db *DB) catchUp(ctx context.Context, m *manifest.Manifest, view *vfs.FS) error {
	o := wal.Options{FS: view, DB: m.DB, ReadOnly: true}
	_, err := wal.Replay(o, db.tip().lsn, func(lsn uint64, record []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return db.replay(lsn, record)
	})
	if last := db.tip().lsn; err == nil && last != m.Batch {
		err = &CorruptError{File: walDir, Offset: -1, Err: fmt.Errorf("the log ends with batch %d, version %d with %d", last, m.Number, m.Batch)}
	}
	return err
}

// manifestName returns the name of the manifest of a version.
func manifestName(number uint64) string { return fmt.Sprintf("%s/%016x.manifest", manifestDir, number) }

// manifests returns the numbers of the versions in a published folder,
// ascending.
func manifests(fsys *vfs.FS) ([]uint64, error) {
	names, err := fsys.ReadDir(manifestDir)
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, name := range names { // sorted by number: names have a fixed width
		hex, _ := strings.CutSuffix(name, ".manifest")
		if n, err := strconv.ParseUint(hex, 16, 64); err == nil && n > 0 && manifestName(n) == manifestDir+"/"+name {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}

// readManifest reads the manifest of a version.
func readManifest(fsys *vfs.FS, number uint64) (*manifest.Manifest, error) {
	b, err := fsys.ReadFile(manifestName(number), manifest.MaxSize)
	if other := (*vfs.NotRegularError)(nil); errors.As(err, &other) {
		return nil, translate(err) // treated as damage
	}
	if err != nil {
		return nil, err
	}
	m, err := manifest.Decode(b)
	if errors.Is(err, fileformat.ErrVersion) {
		return nil, fmt.Errorf("%w: %s: %w", ErrVersion, manifestName(number), err)
	}
	if err == nil && m.Number != number {
		err = fmt.Errorf("manifest of version %d", m.Number)
	}
	if err != nil {
		return nil, &CorruptError{File: manifestName(number), Offset: -1, Err: err}
	}
	return m, nil
}

// newest returns the newest complete version, nil if the folder has none newer than
// current. Without a version, the error says why the newest one was rejected. With an
// older complete version, that reason is only logged, because files of the newest may
// still be arriving.
func (db *DB) newest(ctx context.Context, current uint64, verify bool) (*manifest.Manifest, *vfs.FS, error) {
	numbers, err := manifests(db.fs)
	if err != nil {
		return nil, nil, err
	}
	if n := len(numbers); n > 0 && numbers[n-1] < current {
		return nil, nil, fmt.Errorf("%w: the folder restarted with version %d: open it again", ErrInvalid, numbers[n-1])
	}
	var first error
	for i := len(numbers) - 1; i >= 0 && numbers[i] > current; i-- {
		m, err := readManifest(db.fs, numbers[i])
		if err == nil {
			err = db.complete(ctx, m, verify)
		}
		if err == nil {
			if first != nil {
				db.opts.Logger.Info("newer version is not complete", "version", numbers[len(numbers)-1], "reason", first)
			}
			return m, db.fs.Named(m.Names()), nil
		}
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if first == nil {
			first = fmt.Errorf("version %d: %w", numbers[i], err)
		}
	}
	return nil, nil, first
}

// complete returns an error if a file of a version is missing or wrong. verify also
// compares checksums, once per file.
func (db *DB) complete(ctx context.Context, m *manifest.Manifest, verify bool) error {
	f := db.following
	if f.manifest != nil && m.DB != f.manifest.DB {
		return fmt.Errorf("%w: a version of another database: open the folder again", ErrInvalid)
	}
	for _, file := range m.Files {
		size, err := db.fs.Size(file.Path)
		if err == nil && size != file.Size {
			err = &CorruptError{File: file.Path, Offset: min(size, file.Size), Err: fmt.Errorf("has %d bytes, want %d", size, file.Size)}
		}
		if err != nil {
			return err
		}
	}
	for _, file := range m.Files {
		if _, ok := f.verified[file.Path]; ok || !verify {
			continue
		}
		if err := compare(ctx, db.fs, file); err != nil {
			return err
		}
		f.verified[file.Path] = struct{}{}
	}
	return nil
}

// published compares all files of the current version with its manifest.
func (c *checker) published() error {
	if c.db.following == nil {
		return nil
	}
	c.db.metaMu.Lock()
	m := c.db.following.manifest
	c.db.metaMu.Unlock()
	for _, file := range m.Files {
		if err := compare(c.ctx, c.db.fs, file); err != nil {
			c.problem(err)
		}
	}
	return nil
}

// compare compares the content of a published file with its checksum.
func compare(ctx context.Context, fsys *vfs.FS, file manifest.File) error {
	size, sum, err := digest(ctx, fsys, file.Path)
	if err == nil && (size != file.Size || sum != file.Sum) {
		err = &CorruptError{File: file.Path, Offset: -1, Err: errors.New("the content differs from the manifest")}
	}
	return err
}

// digest returns size and SHA-256 of a file.
func digest(ctx context.Context, fsys *vfs.FS, name string) (size int64, sum [sha256.Size]byte, err error) {
	in, err := fsys.Open(name)
	if err != nil {
		return 0, sum, err
	}
	defer in.Close()
	h, buf := sha256.New(), make([]byte, copyBytes)
	for {
		if err := ctx.Err(); err != nil {
			return 0, sum, err
		}
		n, err := in.ReadAt(buf, size)
		h.Write(buf[:n])
		size += int64(n)
		if errors.Is(err, io.EOF) {
			h.Sum(sum[:0])
			return size, sum, nil
		}
		if err != nil {
			return 0, sum, fmt.Errorf("read %s at offset %d: %w", name, size, err)
		}
	}
}

// Refresh looks for a newer version of a published folder that was opened read-only. It
// reports whether later reads see one. An incomplete or damaged version is an error, and
// the previous version stays. Earlier reads and snapshots keep their version. Reads do
// not wait for Refresh. See Options.Follow.
func (db *DB) Refresh(ctx context.Context) (bool, error) {
	if db.following == nil {
		return false, fmt.Errorf("db: refresh: %w", invalidf("directory %q is no published folder", db.dir))
	}
	db.metaMu.Lock()
	defer db.metaMu.Unlock()
	db.mu.Lock()
	closed := db.closed
	db.mu.Unlock()
	if closed {
		return false, fmt.Errorf("db: refresh: %w", ErrClosed)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(db.background.stopped, cancel)()
	f := db.following
	m, view, err := db.newest(ctx, f.manifest.Number, true)
	if err == nil && m != nil {
		start := time.Now()
		if err = db.take(ctx, m, view); err == nil {
			db.opts.Logger.Info("took version", "version", m.Number, "lsn", m.Batch, "took", time.Since(start))
		} else {
			err = fmt.Errorf("version %d: %w", m.Number, err)
		}
	}
	swapped := err == nil && m != nil
	f.note(f.manifest, err)
	if err != nil {
		return false, fmt.Errorf("db: refresh: %w", translate(err))
	}
	return swapped, nil
}

// note keeps the result of a look for Stats.
func (f *follower) note(m *manifest.Manifest, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stats = ReplicaStats{Version: m.Number, Published: time.Unix(0, m.Time).UTC(), Checked: time.Now().UTC()}
	if err != nil {
		f.stats.Error = err.Error()
	}
}

// take makes a complete version the current one. It builds the version aside: readers see
// the previous one until all is ready. metaMu is held.
func (db *DB) take(ctx context.Context, m *manifest.Manifest, view *vfs.FS) (err error) {
	f, before := db.following, db.files()
	active, nextNum, nextColl := db.active, db.nextNum, db.nextColl
	segments, stored := db.segments, db.stored
	db.hold(true)
	db.names.Store(view) // prepare opens derived files by these names
	var store *meta.Store
	err = vfs.Catch(metaName, func() (err error) { // a panic, too, must restore the version before
		store, err = db.prepare(ctx, m, view)
		return err
	})
	if err != nil {
		db.names.Store(before)
		db.commitMu.Lock()
		db.active, db.nextNum, db.nextColl = active, nextNum, nextColl
		db.commitMu.Unlock()
		db.segments, db.stored = segments, stored
		db.hold(false)
		return err
	}
	for _, s := range db.segments {
		for _, d := range s.derived {
			if was, is := f.manifest.Find(d.file()), m.Find(d.file()); is != nil && (was == nil || was.Path != is.Path) {
				d.retry()
			}
		}
	}
	db.reveal(store)
	f.manifest, f.spoilt = m, false
	for path := range f.verified {
		if !holds(m, path) {
			delete(f.verified, path)
		}
	}
	return nil
}

// prepare builds a version: on top of the tip if it continues the current version,
// otherwise from its own meta.bolt. It returns the store with the documents.
func (db *DB) prepare(ctx context.Context, m *manifest.Manifest, view *vfs.FS) (store *meta.Store, err error) {
	f := db.following
	store = db.store
	if f.spoilt || !m.Continues(f.manifest) {
		if store, err = meta.Open(view, metaName, meta.Options{ReadOnly: true}); err != nil {
			return nil, err
		}
		db.commitMu.Lock()
		db.active = newHead()
		db.commitMu.Unlock()
		if err := db.load(store); err != nil {
			return nil, errors.Join(err, store.Close())
		}
	} else {
		f.spoilt = true
	}
	return store, db.catchUp(ctx, m, view)
}

// holds reports whether a version has a file with that path.
func holds(m *manifest.Manifest, path string) bool {
	for _, f := range m.Files {
		if f.Path == path {
			return true
		}
	}
	return false
}

// hold(true) makes publish keep new versions aside until reveal. hold(false) drops such a
// version.
func (db *DB) hold(on bool) {
	db.commitMu.Lock()
	defer db.commitMu.Unlock()
	db.mu.Lock()
	defer db.mu.Unlock()
	db.holding = on
	if v := db.held; v != nil {
		db.held = nil
		db.unref(v)
	}
}

// reveal makes the held version, if any, the current one.
func (db *DB) reveal(store *meta.Store) {
	db.commitMu.Lock()
	defer db.commitMu.Unlock()
	db.mu.Lock()
	defer db.mu.Unlock()
	db.holding, db.store = false, store
	if v := db.held; v != nil {
		old := db.cur
		db.cur, db.held = v, nil
		db.unref(old)
	}
}

// closeStore closes the store of a published version without readers; mu is held.
func (db *DB) closeStore(s *meta.Store) {
	if err := s.Close(); err != nil {
		db.opts.Logger.Warn("cannot close", "error", err)
	}
}

// follow looks for newer versions until ctx ends.
func (db *DB) follow(ctx context.Context) {
	ticker := time.NewTicker(db.opts.Follow)
	defer ticker.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		said := ""
		if _, err := db.Refresh(ctx); err != nil && ctx.Err() == nil {
			said = err.Error()
		}
		if said != "" && said != last {
			db.opts.Logger.Warn("cannot take a newer version", "error", said)
		}
		last = said
	}
}

// documents runs fn in a read transaction with the documents of all rows of a segment
// that are alive in any version in use. In a published folder only the store of the
// oldest such version has all of them.
func (s *openSegment) documents(fn func(tx *meta.Tx) error) error {
	db := s.db
	db.mu.Lock()
	store, oldest := db.store, (*version)(nil)
	if db.following != nil {
		for v := range db.live {
			if (oldest == nil || v.applied < oldest.applied) && v.files.holds(s) {
				oldest = v
			}
		}
		if oldest != nil {
			oldest.refs++
			store = oldest.files.store
		}
	}
	db.mu.Unlock()
	if oldest != nil {
		defer db.drop(oldest)
	}
	return store.View(fn)
}

// holds reports whether a segment is in the set.
func (f *fileSet) holds(s *openSegment) bool {
	for _, o := range f.segments {
		if o == s {
			return true
		}
	}
	return false
}
