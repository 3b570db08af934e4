package engine

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

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/manifest"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/wal"
)

// hashBytes is how much of a file is read at once for its checksum.
const hashBytes = 1 << 20

// Names in a published folder, beside the names of a database.
const (
	ManifestDir = "manifest"
	MetaDir     = "meta"
)

// folderReader is the state of a reader of a published folder.
type folderReader struct {
	// Guarded by Engine.metaMu.
	manifest *manifest.Manifest  // of the current version
	verified map[string]struct{} // paths of files whose checksums were compared
	spoilt   bool                // the head has batches of a version that failed to load
	ahead    uint64              // Version.ahead of the next version that is loaded

	mu    sync.Mutex
	stats ReplicaStats
}

// ReplicaStats describe the served version of a published folder and the last look at the
// folder.
type ReplicaStats struct {
	Version   uint64    // number of the version
	Published time.Time // time of its publication
	Checked   time.Time // time of the last look
	Error     string    // why the last look took no newer version, if it failed
}

// Replica describes the state of a published folder; false for another directory.
func (e *Engine) Replica() (ReplicaStats, bool) {
	f := e.folder
	if f == nil {
		return ReplicaStats{}, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats, true
}

// IsFolder reports whether the database was opened from a published folder.
func (e *Engine) IsFolder() bool { return e.folder != nil }

// isPublished reports whether the directory is a published folder.
func (e *Engine) isPublished() (bool, error) {
	if !e.Opts.ReadOnly {
		return false, nil // mayCreate refuses it
	}
	_, err := e.FS.ReadDir(ManifestDir)
	if errors.Is(err, fs.ErrNotExist) && e.Opts.Follow == 0 {
		return false, nil
	}
	return err == nil, err
}

// openPublished opens the newest version of a published folder.
func (e *Engine) openPublished(start time.Time) error {
	e.folder = &folderReader{verified: map[string]struct{}{}}
	m, view, rejected, err := e.newest(context.Background(), 0, e.Opts.Follow > 0)
	if err != nil {
		return err
	}
	if m == nil && len(rejected) > 0 {
		return rejected[0]
	}
	if m == nil {
		return fmt.Errorf("%w: directory %q holds no version", ErrNotFound, e.Dir)
	}
	e.names.Store(view)
	if e.store, err = meta.Open(view, MetaName, meta.Options{ReadOnly: true}); err == nil {
		err = e.load(e.store)
	}
	if err == nil {
		err = e.catchUp(context.Background(), m, view)
	}
	if err != nil {
		return NewVersionError(m, err)
	}
	e.folder.manifest = m
	e.folder.note(m, nil)
	e.Opts.Logger.Info("opened", "dir", e.Dir, "version", m.Number, "lsn", e.cur.LSN, "segments",
		len(e.segments), "took", time.Since(start))
	e.background.start(e)
	return nil
}

// Files returns the files of the database or, in a published folder, of its newest
// version.
func (e *Engine) Files() *vfs.FS {
	if view := e.names.Load(); view != nil {
		return view
	}
	return e.FS
}

// catchUp replays the log of a version on top of the tip.
func (e *Engine) catchUp(ctx context.Context, m *manifest.Manifest, view *vfs.FS) error {
	o := wal.Options{FS: view, DB: m.DB, ReadOnly: true}
	_, err := wal.Replay(o, e.tip().LSN, func(lsn uint64, record []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return e.replay(lsn, record)
	})
	if last := e.tip().LSN; err == nil && last != m.Batch {
		err = &fileformat.CorruptError{File: WALDir, Offset: -1,
			Err: fmt.Errorf("the log ends with batch %d, version %d with %d", last, m.Number, m.Batch)}
	}
	return err
}

// ManifestName returns the name of the manifest of a version.
func ManifestName(number uint64) string { return fmt.Sprintf("%s/%016x.manifest", ManifestDir, number) }

// Manifests returns the numbers of the versions in a published folder,
// ascending.
func Manifests(fsys *vfs.FS) ([]uint64, error) {
	names, err := fsys.ReadDir(ManifestDir)
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, name := range names { // sorted by number: names have a fixed width
		hex, _ := strings.CutSuffix(name, ".manifest")
		if n, err := strconv.ParseUint(hex, 16, 64); err == nil && n > 0 && ManifestName(n) == ManifestDir+"/"+name {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}

// ReadManifest reads the manifest of a version.
func ReadManifest(fsys *vfs.FS, number uint64) (*manifest.Manifest, error) {
	b, err := fsys.ReadFile(ManifestName(number), manifest.MaxSize)
	if other := (*vfs.NotRegularError)(nil); errors.As(err, &other) {
		return nil, Translate(err) // treated as damage
	}
	if err != nil {
		return nil, err
	}
	m, err := manifest.Decode(b)
	if errors.Is(err, fileformat.ErrVersion) {
		return nil, fmt.Errorf("%w: %s: %w", fileformat.ErrVersion, ManifestName(number), err)
	}
	if err == nil && m.Number != number {
		err = fmt.Errorf("manifest of version %d", m.Number)
	}
	if err != nil {
		return nil, &fileformat.CorruptError{File: ManifestName(number), Offset: -1, Err: err}
	}
	return m, nil
}

// newest returns the newest complete version, nil if the folder has none newer than current.
// rejected says why the versions that are newer still were not taken, the newest first: their files
// may be damaged, or still be arriving.
func (e *Engine) newest(ctx context.Context, current uint64, verify bool) (
	m *manifest.Manifest, view *vfs.FS, rejected []error, err error,
) {
	numbers, err := Manifests(e.FS)
	if err != nil {
		return nil, nil, nil, err
	}
	if n := len(numbers); n > 0 && numbers[n-1] < current {
		return nil, nil, nil, fmt.Errorf("%w: the folder restarted with version %d: open it again",
			document.ErrInvalid, numbers[n-1])
	}
	for i := len(numbers) - 1; i >= 0 && numbers[i] > current; i-- {
		m, err := ReadManifest(e.FS, numbers[i])
		if err == nil {
			err = e.complete(ctx, m, verify)
		}
		if err == nil {
			if len(rejected) > 0 {
				e.Opts.Logger.Info("newer version is not complete", "version",
					numbers[len(numbers)-1], "reason", rejected[0])
			}
			return m, e.FS.Named(m.Names()), rejected, nil
		}
		if ctx.Err() != nil {
			return nil, nil, nil, ctx.Err()
		}
		rejected = append(rejected, &VersionError{numbers[i], err})
	}
	return nil, nil, rejected, nil
}

// Published returns the manifest of the current version of a published folder, and says why newer
// versions cannot be taken.
func (e *Engine) Published(ctx context.Context) (m *manifest.Manifest, rejected []error, err error) {
	e.metaMu.Lock()
	defer e.metaMu.Unlock()
	m = e.folder.manifest
	_, _, rejected, err = e.newest(ctx, m.Number, true)
	return m, rejected, err
}

// complete returns an error if a file of a version is missing or wrong. verify also
// compares checksums, once per file.
func (e *Engine) complete(ctx context.Context, m *manifest.Manifest, verify bool) error {
	f := e.folder
	if f.manifest != nil && m.DB != f.manifest.DB {
		return fmt.Errorf("%w: a version of another database: open the folder again", document.ErrInvalid)
	}
	for _, file := range m.Files {
		size, err := e.FS.Size(file.Path)
		if err == nil && size != file.Size {
			err = &fileformat.CorruptError{File: file.Path, Offset: min(size, file.Size),
				Err: fmt.Errorf("has %d bytes, want %d", size, file.Size)}
		}
		if err != nil {
			return err
		}
	}
	for _, file := range m.Files {
		if _, ok := f.verified[file.Path]; ok || !verify {
			continue
		}
		if err := Compare(ctx, e.FS, file); err != nil {
			return err
		}
		f.verified[file.Path] = struct{}{}
	}
	return nil
}

// Compare compares the content of a published file with its checksum.
func Compare(ctx context.Context, fsys *vfs.FS, file manifest.File) error {
	size, sum, err := Digest(ctx, fsys, file.Path)
	if err == nil && (size != file.Size || sum != file.Sum) {
		err = &fileformat.CorruptError{File: file.Path, Offset: -1,
			Err: errors.New("the content differs from the manifest")}
	}
	return err
}

// Digest returns size and SHA-256 of a file.
func Digest(ctx context.Context, fsys *vfs.FS, name string) (size int64, sum [sha256.Size]byte, err error) {
	in, err := fsys.Open(name)
	if err != nil {
		return 0, sum, err
	}
	defer in.Close()
	h, buf := sha256.New(), make([]byte, hashBytes)
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

// Refresh takes the newest version of a published folder, if it is newer than the present one.
func (e *Engine) Refresh(ctx context.Context) (bool, error) {
	if e.folder == nil {
		return false, document.Invalidf("directory %q is no published folder", e.Dir)
	}
	e.metaMu.Lock()
	defer e.metaMu.Unlock()
	if err := e.Begin(); err != nil {
		return false, err
	}
	defer e.End()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.background.stopped, cancel)()
	f := e.folder
	m, view, rejected, err := e.newest(ctx, f.manifest.Number, true)
	if m == nil && len(rejected) > 0 {
		err = rejected[0]
	}
	if err == nil && m != nil {
		start := time.Now()
		if err = e.take(ctx, m, view); err == nil {
			e.Opts.Logger.Info("took version", "version", m.Number, "lsn", m.Batch, "took", time.Since(start))
		} else {
			err = &VersionError{m.Number, err}
		}
	}
	swapped := err == nil && m != nil
	f.note(f.manifest, err)
	if err != nil {
		return false, err
	}
	return swapped, nil
}

// note keeps the result of a look for Stats.
func (f *folderReader) note(m *manifest.Manifest, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stats = ReplicaStats{Version: m.Number, Published: time.Unix(0, m.Time).UTC(), Checked: time.Now().UTC()}
	if err != nil {
		f.stats.Error = err.Error()
	}
}

// take makes a complete version the current one. metaMu is held.
func (e *Engine) take(ctx context.Context, m *manifest.Manifest, view *vfs.FS) error {
	f, before := e.folder, e.Files()
	e.names.Store(view) // prepare opens derived files by these names
	err := e.replace(func() (*meta.Store, error) {
		store, err := e.prepare(ctx, m, view)
		if err != nil {
			return nil, err
		}
		for _, s := range e.segments {
			for _, d := range s.Derived {
				if was, is := f.manifest.Find(d.File()), m.Find(d.File()); is != nil &&
					(was == nil || was.Path != is.Path) {
					d.retry()
				}
			}
		}
		return store, nil
	})
	if err != nil {
		e.names.Store(before)
		return err
	}
	f.manifest, f.spoilt = m, false
	for path := range f.verified {
		if !holds(m, path) {
			delete(f.verified, path)
		}
	}
	return nil
}

// replace makes the version that build prepares the current one: readers see the version before
// until all is ready. build returns the store with the documents. metaMu is held.
func (e *Engine) replace(build func() (*meta.Store, error)) (err error) {
	if err := e.WentBack(); err != nil {
		return err
	}
	active, nextNum, nextColl := e.head, e.nextNum, e.nextColl
	frozen := e.shared.received.frozen
	segments, stored, state := e.segments, e.stored, e.state
	e.hold(true)
	var store *meta.Store
	err = vfs.Catch(MetaName, func() (err error) { // a panic, too, must restore the version before
		if store, err = build(); err == nil {
			err = e.checkLater()
		}
		return err
	})
	if err != nil {
		e.commitMu.Lock()
		e.head, e.nextNum, e.nextColl = active, nextNum, nextColl
		e.shared.received.frozen = frozen
		e.commitMu.Unlock()
		e.segments, e.stored, e.state = segments, stored, state
		e.hold(false)
		return err
	}
	e.reveal(store)
	e.behind.Store(false)
	return nil
}

// prepare builds a version: on top of the tip if it continues the current version,
// otherwise from its own meta.bolt. It returns the store with the documents.
func (e *Engine) prepare(ctx context.Context, m *manifest.Manifest, view *vfs.FS) (store *meta.Store, err error) {
	f := e.folder
	store = e.store
	if f.spoilt || !m.Continues(f.manifest) {
		if store, err = meta.Open(view, MetaName, meta.Options{ReadOnly: true}); err != nil {
			return nil, err
		}
		if e.cur != nil { // not while the folder is opened
			if last := e.cur.Number(); m.Batch+f.ahead <= last {
				f.ahead = last + 1 - m.Batch
			}
		}
		e.reset()
		if err := e.load(store); err != nil {
			return nil, errors.Join(err, store.Close())
		}
	} else {
		f.spoilt = true
	}
	return store, e.catchUp(ctx, m, view)
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
func (e *Engine) hold(on bool) {
	e.commitMu.Lock()
	defer e.commitMu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.holding = on
	if v := e.held; v != nil {
		e.held = nil
		e.unref(v)
	}
}

// reveal makes the held version, if any, the current one.
func (e *Engine) reveal(store *meta.Store) {
	e.commitMu.Lock()
	defer e.commitMu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.holding, e.store = false, store
	if v := e.held; v != nil {
		old := e.cur
		e.cur, e.held = v, nil
		if old != nil {
			e.unref(old)
		}
	}
}

// closeStore closes the store of a published version without readers; mu is held.
func (e *Engine) closeStore(s *meta.Store) {
	e.left(s)
	if err := s.Close(); err != nil {
		e.Opts.Logger.Warn("cannot close", "error", err)
	}
}

// follow looks for newer versions until ctx ends.
func (e *Engine) follow(ctx context.Context) {
	ticker := time.NewTicker(e.Opts.Follow)
	defer ticker.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		said := ""
		if _, err := e.Refresh(ctx); err != nil && ctx.Err() == nil {
			said = err.Error()
		}
		if said != "" && said != last {
			e.Opts.Logger.Warn("cannot take a newer version", "error", said)
		}
		last = said
	}
}

// documents runs fn in a read transaction with the documents of all rows of a segment
// that are alive in any version in use. In a published folder, and in a process that follows
// or has followed a leader, only the store of the oldest such version has all of them.
func (s *OpenSegment) documents(fn func(tx *meta.Tx) error) error {
	e := s.engine
	e.mu.Lock()
	store, oldest := e.store, (*Version)(nil)
	if e.folder != nil || e.Opts.Upstream != nil {
		for v := range e.live {
			if (oldest == nil || v.Applied < oldest.Applied) && v.Files.Holds(s) {
				oldest = v
			}
		}
		if oldest != nil {
			oldest.refs++
			store = oldest.Files.Store
		}
	}
	e.mu.Unlock()
	if oldest != nil {
		defer e.Drop(oldest)
	}
	return store.View(fn)
}

// Holds reports whether a segment is in the set.
func (f *fileSet) Holds(s *OpenSegment) bool {
	for _, o := range f.Segments {
		if o == s {
			return true
		}
	}
	return false
}
