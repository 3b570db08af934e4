package replica

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/manifest"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment"
	"github.com/vecbolt/vecbolt/wal"
)

// Options tune a Publisher.
type Options struct {
	Keep int      // versions that the folder holds, including the newest
	Hook vfs.Hook // faults and traces, for tests; nil for none
}

// A Publisher writes versions of a database to a folder. A file in the folder is written once and
// never changed: readers may use it. A file that is there already is not written again.
//
// Its methods are safe for concurrent use. It must be closed before the database.
type Publisher struct {
	engine *engine.Engine
	path   string  // of the folder
	to     *vfs.FS // the folder; nil while another process leads
	temp   *vfs.FS // tmp/ in it: laid out like a database
	hook   vfs.Hook
	lock   *vfs.Lock
	keep   int
	forget func() // has the engine call yield no more

	mu      sync.Mutex // held by Publish and Close
	closed  bool
	last    *manifest.Manifest // nil before the first
	based   bool               // this Publisher wrote the meta.bolt of last
	commits uint64             // of the database when it did
	known   map[string]any     // source of each file in last, by name: segment.Info or publishable
}

// A Publication reports the result of Publish.
type Publication struct {
	Version  uint64 // number of the newest version in the folder, from 1
	Batch    uint64 // the last batch in it
	New      bool   // false: the folder had this version already
	Files    int    // of the version
	Bytes    int64  // in them
	NewFiles int    // files written by this Publish
	NewBytes int64  // in the written files
}

// Limits for the batches that are published beside a copy of meta.bolt. Beyond
// them a new copy is made.
const (
	maxLogFiles = 32      // files of the log
	minLogBytes = 1 << 20 // and bytes, or a quarter of meta.bolt if that is more
)

// NewPublisher prepares directory dir. The directory must not exist, be empty, or be a folder to
// which this database was published before, and must lie outside the database's own directory. A
// second Publisher of the folder fails with engine.ErrLocked.
func NewPublisher(e *engine.Engine, dir string, o Options) (*Publisher, error) {
	if err := e.Begin(); err != nil {
		return nil, err
	}
	defer e.End()
	p := &Publisher{engine: e, path: dir, keep: o.Keep, hook: o.Hook}
	if err := p.open(); err != nil {
		return nil, err
	}
	p.forget = e.WhenDeposed(p.yield)
	p.yield() // if it has lost the lead before
	return p, nil
}

// lockFile is locked by the Publisher of a folder.
const lockFile = "publish.lock"

func (p *Publisher) open() (err error) {
	defer func() {
		if err != nil {
			_ = p.release()
		}
	}()
	if p.engine.Opts.ReadOnly {
		return engine.ErrReadOnly
	}
	if err := outside(p.engine, p.path); err != nil {
		return err
	}
	if p.engine.Role() == engine.Follower {
		return engine.ErrFollows
	}
	if err := vfs.MakeDir(p.path, nil); err != nil {
		return err
	}
	if p.to, err = vfs.Open(p.path, p.hook); err != nil {
		return err
	}
	p.path = p.to.Path() // the working directory may change until the folder is opened again
	if err := vacant(p.to); err != nil {
		return err
	}
	if p.lock, err = p.to.Lock(lockFile, true); err != nil {
		return err
	}
	// the first one marks a published folder
	for _, d := range []string{engine.ManifestDir, engine.MetaDir, engine.SegDir, engine.WALDir, engine.TmpDir} {
		if err := p.to.Mkdir(d); err != nil {
			return err
		}
	}
	if err := p.to.SyncDir("."); err != nil {
		return err
	}
	if p.temp, err = openTemp(p.path, p.hook); err != nil {
		return err
	}
	p.last, err = newest(p.to)
	if err == nil && p.last != nil && p.last.DB != p.engine.Identity {
		err = errOther
	}
	return err
}

// CheckFolder refuses a folder that no new database in directory db can be published to, and
// changes nothing: NewPublisher needs the database, which would be left behind.
func CheckFolder(dir, db string) error {
	if err := apart(dir, db, db); err != nil {
		return err
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	to, err := vfs.Open(dir, nil)
	if err != nil {
		return err
	}
	defer to.Close()
	if err := vacant(to); err != nil {
		return err
	}
	last, err := newest(to)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && last != nil:
		err = errOther
	}
	return err
}

var errOther = fmt.Errorf("%w: the directory holds another database", engine.ErrExists)

// vacant refuses a directory that holds something else than a published database.
func vacant(to *vfs.FS) error {
	names, err := to.ReadDir(".")
	if err != nil || slices.Contains(names, engine.ManifestDir) {
		return err
	}
	for _, name := range names {
		if name != lockFile && name != engine.TmpDir && !strings.HasPrefix(name, ".") {
			return fmt.Errorf("%w: the directory holds %q and no published database", engine.ErrExists, name)
		}
	}
	return nil
}

// newest returns the newest version in a folder that can be read, or nil.
func newest(to *vfs.FS) (*manifest.Manifest, error) {
	numbers, err := engine.Manifests(to)
	if err != nil {
		return nil, err
	}
	for _, number := range slices.Backward(numbers) {
		m, err := engine.ReadManifest(to, number)
		if !errors.Is(err, fileformat.ErrCorrupt) { // readers skip it, too
			return m, err
		}
	}
	return nil, nil
}

// openTemp opens tmp/ of a folder.
func openTemp(dir string, hook vfs.Hook) (*vfs.FS, error) {
	var inside vfs.Hook
	if hook != nil {
		inside = func(op vfs.Op) error {
			op.Name = path.Join(engine.TmpDir, op.Name)
			if op.To != "" {
				op.To = path.Join(engine.TmpDir, op.To)
			}
			return hook(op)
		}
	}
	return vfs.Open(filepath.Join(dir, engine.TmpDir), inside)
}

// startAfresh prepares the folder again after a directory in it could not be
// synced. Names that the failed sync covered may be lost, and no later sync
// brings them back. So files that no version uses are removed, to be written
// again under a new sync.
func (p *Publisher) startAfresh() error {
	to, err := vfs.Open(p.path, p.hook)
	if err != nil {
		return err
	}
	temp, err := openTemp(p.path, p.hook)
	if err != nil {
		return errors.Join(err, to.Close())
	}
	old := []*vfs.FS{p.to, p.temp}
	p.to, p.temp = to, temp
	return errors.Join(old[0].Close(), old[1].Close(), p.removeUnnamed(engine.MetaDir, engine.SegDir, engine.WALDir))
}

// Close releases the folder. It waits for a running Publish.
func (p *Publisher) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	p.forget()
	return p.release()
}

// yield releases the folder if this process does not lead any more: the next leader may publish to
// it. A Publish that runs does so at its end.
func (p *Publisher) yield() {
	if p.engine.Leads() || !p.mu.TryLock() {
		return
	}
	defer p.mu.Unlock()
	if err := p.release(); err != nil {
		p.engine.Opts.Logger.Warn("met errors while it released a published folder", "dir", p.path, "error", err)
	}
}

// release closes the folder; mu is held, or nobody else has p.
func (p *Publisher) release() error {
	var errs []error
	if p.lock != nil {
		errs = append(errs, p.lock.Close())
	}
	for _, f := range []*vfs.FS{p.temp, p.to} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	p.lock, p.temp, p.to, p.based, p.known = nil, nil, nil, false, nil
	return errors.Join(errs...)
}

// Publish writes the present version of the database to the folder, unless it is there already.
// Readers and writers go on. After an error, and after a crash at any moment, the folder holds the
// previous version, whole; Publish can be called again. A process that has lost the lead has
// released the folder, and takes it again once it leads again.
func (p *Publisher) Publish(ctx context.Context) (Publication, error) {
	defer p.yield()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return Publication{}, engine.ErrClosed
	}
	if err := p.engine.Usable(ctx); err != nil {
		return Publication{}, err
	}
	defer p.engine.End()
	if p.to == nil {
		if err := p.open(); err != nil {
			return Publication{}, err
		}
	}
	return p.publish(ctx)
}

func (p *Publisher) publish(ctx context.Context) (done Publication, err error) {
	start := time.Now()
	defer func() {
		if err != nil {
			p.based = false // the next Publish checks all files again
			// Segments stay: the next one needs them, too.
			err = errors.Join(err, p.wipe(), p.removeUnnamed(engine.MetaDir, engine.WALDir))
		}
	}()
	if p.to.Failed() != nil || p.temp.Failed() != nil {
		if err := p.startAfresh(); err != nil {
			return done, err
		}
	}
	if err := p.wipe(); err != nil {
		return done, err
	}
	if p.long() {
		if err := p.engine.Flush(); err != nil {
			return done, err
		}
	}
	if _, err := p.engine.MakeDerived(ctx, engine.ByClose, 0); err != nil {
		return done, err
	}
	next := &publication{Publisher: p, ctx: ctx, m: &manifest.Manifest{DB: p.engine.Identity},
		found: map[string]any{}, old: map[string]string{}}
	if p.last != nil {
		next.old = p.last.Names()
	}
	var commits uint64
	err = p.engine.BetweenCommits(func(n uint64) error {
		commits = n
		return next.documents(n)
	})
	if next.ver != nil {
		defer p.engine.Drop(next.ver)
	}
	if err == nil {
		err = p.engine.Guard(next.segments)
	}
	if err != nil {
		return done, err
	}
	m := next.m
	slices.SortFunc(m.Files, func(a, b manifest.File) int { return strings.Compare(a.Name, b.Name) })
	if err := next.checkFiles(); err != nil {
		return done, err
	}
	same := p.last != nil && m.Batch == p.last.Batch && slices.Equal(m.Files, p.last.Files)
	if same {
		m = p.last
	} else if err := p.commit(m); err != nil {
		return done, err
	}
	p.last, p.based, p.commits, p.known = m, true, commits, next.found
	p.tidy()
	done = Publication{
		Version: m.Number, Batch: m.Batch, New: !same, Files: len(m.Files), Bytes: m.Bytes(),
		NewFiles: next.files, NewBytes: next.bytes,
	}
	if !same {
		p.engine.Opts.Logger.Info("published", "dir", p.path, "version", m.Number, "lsn", m.Batch,
			"files", next.files, "bytes", next.bytes, "took", time.Since(start))
	}
	return done, nil
}

// wipe removes unfinished files.
func (p *Publisher) wipe() error {
	for _, dir := range []string{".", engine.SegDir, engine.WALDir, engine.TmpDir} {
		names, err := p.temp.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for _, name := range names {
			if dir == "." && slices.Contains([]string{engine.SegDir, engine.WALDir, engine.TmpDir}, name) {
				continue
			}
			if err := p.temp.Remove(path.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	for _, dir := range []string{engine.SegDir, engine.WALDir} {
		if err := p.temp.Mkdir(dir); err != nil {
			return err
		}
	}
	return nil
}

// long reports whether a new copy of meta.bolt is due, because too many batches
// are not in the published one.
func (p *Publisher) long() bool {
	limit, files := int64(minLogBytes), 0
	if p.last != nil {
		for _, f := range p.last.Files {
			if strings.HasPrefix(f.Name, engine.WALDir+"/") {
				files++
			}
		}
	}
	if size, err := p.engine.FS.Size(engine.MetaName); err == nil {
		limit = max(limit, size/4)
	}
	bytes := p.engine.HeadBytes()
	return bytes > limit || files >= maxLogFiles && bytes > 0
}

// commit writes the manifest of a version whose files are in place.
func (p *Publisher) commit(m *manifest.Manifest) error {
	for _, dir := range []string{engine.MetaDir, engine.SegDir, engine.WALDir} {
		if err := p.to.SyncDir(dir); err != nil {
			return err
		}
	}
	numbers, err := engine.Manifests(p.to)
	if err != nil {
		return err
	}
	m.Number = 1
	if n := len(numbers); n > 0 {
		m.Number = numbers[n-1] + 1
	}
	m.Time = time.Now().UnixNano()
	b, err := m.Encode()
	if err != nil {
		return err
	}
	return p.to.WriteFileAtomic(engine.ManifestName(m.Number), b)
}

// tidy removes old versions, and files that no version uses. A file that cannot
// be removed is tried again after the next Publish.
func (p *Publisher) tidy() {
	if err := p.removeOld(); err != nil {
		p.engine.Opts.Logger.Warn("cannot remove old versions", "dir", p.path, "error", err)
	}
}

// removeOld removes versions beyond those to keep, and their files.
func (p *Publisher) removeOld() error {
	numbers, err := engine.Manifests(p.to)
	if err != nil {
		return err
	}
	if old := len(numbers) - p.keep; old > 0 {
		for _, number := range numbers[:old] {
			if err := p.to.Remove(engine.ManifestName(number)); err != nil {
				return err
			}
		}
		if err := p.to.SyncDir(engine.ManifestDir); err != nil {
			return err
		}
	}
	return p.removeUnnamed(engine.MetaDir, engine.SegDir, engine.WALDir)
}

// removeUnnamed removes the files of some directories that no manifest names. It goes on after an
// error: on Windows a file stays that a reader of an earlier version has mapped.
func (p *Publisher) removeUnnamed(dirs ...string) error {
	numbers, err := engine.Manifests(p.to)
	if err != nil {
		return err
	}
	named := map[string]bool{}
	for _, number := range numbers {
		m, err := engine.ReadManifest(p.to, number)
		if errors.Is(err, fileformat.ErrCorrupt) {
			continue // nobody can use it
		}
		if err != nil {
			return err
		}
		for _, f := range m.Files {
			named[f.Path] = true
		}
	}
	var failed error // the first one
	for _, dir := range dirs {
		names, err := p.to.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			if name = path.Join(dir, name); !named[name] && isPublishedName(name) {
				if err := p.to.Remove(name); failed == nil {
					failed = err
				}
			}
		}
	}
	return failed
}

// publishedPath returns the path of a file in a published folder, from its name
// in a database and the checksum of its content.
func publishedPath(name string, sum []byte) string {
	hash, ext := hex.EncodeToString(sum[:8]), path.Ext(name)
	if path.Dir(name) == "." {
		return engine.MetaDir + "/" + hash + ext
	}
	return strings.TrimSuffix(name, ext) + "-" + hash + ext
}

// isPublishedName reports whether publishedPath may have made a path.
func isPublishedName(name string) bool {
	base, ext := strings.TrimSuffix(path.Base(name), path.Ext(name)), strings.TrimPrefix(path.Ext(name), ".")
	known := slices.Contains([]string{"bolt", "sums", "vec", "wal"}, ext) || slices.Contains(engine.DerivedExts, ext)
	return known && len(base) >= 16 && strings.Trim(base, "0123456789abcdef-") == ""
}

// A publication is a version that is being published.
type publication struct {
	*Publisher
	ctx   context.Context
	ver   *engine.Version
	m     *manifest.Manifest
	old   map[string]string // names in the previous version
	found map[string]any    // becomes known
	files int               // that were written
	bytes int64             // in them
}

// documents adds meta.bolt and the batches after it: the published files, as
// long as they are valid, and the batches since then. It also chooses the
// version. It runs between two commits to meta.bolt; commits is the number of the last one.
func (p *publication) documents(commits uint64) error {
	e := p.engine
	if !e.Leads() { // it has lost the lead since
		return engine.ErrFollows
	}
	p.ver = e.Current()
	// A replica must not have what the database may lose. Writers go on: their
	// writes after this sync are not in the version, which was chosen before.
	if !e.Opts.SyncAlways {
		if err := e.SyncLog(); err != nil {
			return err
		}
	}
	p.m.Batch = p.ver.LSN
	from := p.ver.Applied
	if p.based && p.commits == commits && p.last.Batch >= from && p.last.Batch <= p.ver.LSN {
		from = p.last.Batch
		for _, f := range p.last.Files {
			if !strings.HasPrefix(f.Name, engine.SegDir+"/") {
				p.m.Files = append(p.m.Files, f)
			}
		}
	} else {
		store := p.ver.Files.Store
		err := store.CopyTo(p.ctx, p.temp, engine.MetaName)
		if err == nil {
			err = store.SealCopy(p.temp, engine.MetaName)
		}
		if err == nil {
			err = p.adopt(engine.MetaName)
		}
		if err == nil {
			err = p.adopt(engine.SumsName)
		}
		if err != nil {
			return err
		}
	}
	if from < p.ver.LSN {
		seq := uint64(1)
		for _, f := range p.m.Files {
			if strings.HasPrefix(f.Name, engine.WALDir+"/") {
				seq++
			}
		}
		name, err := wal.Copy(wal.Options{FS: e.FS, DB: e.Identity, ReadOnly: true}, from, p.ver.LSN,
			wal.Options{FS: p.temp, DB: e.Identity}, seq)
		if err == nil {
			err = p.adopt(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// adopt moves a complete and synced file from tmp/ to its place.
func (p *publication) adopt(name string) error {
	size, sum, err := engine.Digest(p.ctx, p.temp, name)
	if err != nil {
		return err
	}
	f := manifest.File{Name: name, Path: publishedPath(name, sum[:]), Size: size, Sum: sum}
	p.m.Files = append(p.m.Files, f)
	if engine.Compare(p.ctx, p.to, f) == nil { // left by an unfinished Publish, or the same content again
		return p.temp.Remove(name)
	}
	p.files++
	p.bytes += size
	return p.to.Rename(path.Join(engine.TmpDir, name), f.Path)
}

// segments adds the segments of the version, with the derived files that exist.
func (p *publication) segments() error {
	view := p.to.Named(p.old)
	progress := engine.ProgressOf(p.ctx)
	for _, s := range p.ver.Files.Segments {
		progress.Expect(s.Info.Size)
	}
	for _, s := range p.ver.Files.Segments {
		name := segment.FileName(s.Info.ID)
		if !p.have(name, s.Info, func() error {
			published, err := segment.Open(view, p.engine.Identity, s.Info)
			if err == nil {
				err = published.Close()
			}
			return err
		}) {
			err := copySegment(p.ctx, p.engine, p.temp, s)
			if err == nil {
				err = p.adopt(name)
			}
			if err != nil {
				return err
			}
			p.found[name] = s.Info
		}
		for _, d := range s.Derived {
			if err := p.derived(d.Present(), view); err != nil {
				return err
			}
		}
		progress.Add(s.Info.Size)
	}
	return nil
}

// have adds the file of the previous version with this name, if it was made
// from the same source (of). fits decides where the source is not known.
func (p *publication) have(name string, of any, fits func() error) bool {
	if p.last == nil {
		return false
	}
	f := p.last.Find(name)
	if f == nil || p.known[name] != of && fits() != nil {
		return false
	}
	p.found[name] = of
	p.m.Files = append(p.m.Files, *f)
	return true
}

// checkFiles returns an error unless all files of the version are there with the right size.
func (p *publication) checkFiles() error {
	for _, f := range p.m.Files {
		if size, err := p.to.Size(f.Path); err != nil || size != f.Size {
			p.last, p.known = nil, nil // the next Publish writes the missing files
			return fmt.Errorf("%s, published before, is gone or has changed: %w", f.Path,
				cmp.Or(err, fileformat.ErrCorrupt))
		}
	}
	return nil
}

// errBehind says that a published file was made for another index of the collection.
var errBehind = errors.New("made for another index")

// derived adds a derived file, if it exists and is valid.
func (p *publication) derived(d engine.Publishable, view *vfs.FS) error {
	if d == nil {
		return nil
	}
	name := d.File()
	edition := d.Edition()
	if p.have(name, edition, func() error {
		if d.Behind(view) {
			return errBehind
		}
		return d.Fits(view)
	}) {
		return nil
	}
	in, err := p.engine.FS.Open(name)
	other := (*vfs.NotRegularError)(nil)
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, &other) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	size, err := in.Size() // of this file: SetText may replace the one of that name at any time
	if err == nil {
		err = engine.CopyFile(p.ctx, in, p.temp, name, size)
	}
	if err != nil {
		return err
	}
	if err := d.Fits(p.temp); err != nil { // damaged, or of an earlier schema: readers do without
		p.engine.Opts.Logger.Debug("derived file is not published", "file", name, "reason", err)
		return p.temp.Remove(name)
	}
	p.found[name] = edition
	return p.adopt(name)
}
