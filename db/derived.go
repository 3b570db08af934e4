package db

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"syscall"
	"time"

	"github.com/vecbolt/vecbolt/internal/blocks"
	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// derivedExts are the files that a segment may have beside its vectors.
var derivedExts = []string{"cols", "codes", "graph", "terms"}

// derivedName returns the name of a file beside the vectors of a segment.
func derivedName(id uint64, ext string) string {
	return fmt.Sprintf("%s/%08x.%s", segDir, id, ext)
}

// A derived is a file beside the vectors of a segment that can be made anew
// at any time from what is true. It is mapped when it is first used. One that
// is missing, damaged or of another segment is absent: the caller then does
// without, or has it made. A nil derived is a file that the segment does not
// want, always absent.
//
// A new kind of file needs its extension above, a handle in openSegment, and
// the functions below.
type derived[T any] struct {
	db   *DB
	name string
	when stage

	// parse opens the bytes for the segment: identity first.
	parse func([]byte) (*T, error)
	// verify compares what parse leaves for later; nil if that is nothing.
	verify func(*T) error
	// deep compares the content with what it is made from, for CheckDeep; nil
	// if there is no telling.
	deep func(context.Context, *T) error
	// write makes the content. It may read the segment's vectors, other
	// derived files and meta.bolt; it is called inside guard.
	write func(context.Context, io.WriterAt) error
	// scratch, if set, tells that the content is not to be kept as a file.
	scratch func() bool
	// newer is the error of parse for a file that a newer release wrote.
	newer error

	building gate // held while the file is being made; taken first

	mu     sync.Mutex
	value  *T
	absent bool           // until it is made
	faults int            // how often it could not be read
	maps   []*vfs.Mapping // the value's, and those of distrusted ones: others may be reading them
}

// stage says when a derived file is made.
type stage int

const (
	onDemand  stage = iota // by the first call that cannot do without
	byClose                // in the background, once the segment has settled, and at the latest by Compact or Close
	byCompact              // likewise, after those, and at the latest by Compact: it takes long
)

// derivedFile is a derived of any type.
type derivedFile interface {
	file() string
	stage() stage
	make(context.Context) error
	check() error
	recompute(context.Context) error
	present() publishable
	retry()
	fault(*vfs.FaultError) error
	close()
}

func (d *derived[T]) file() string { return d.name }

func (d *derived[T]) stage() stage { return d.when }

// get returns the content, or nil if there is none yet. It must be called
// inside guard.
func (d *derived[T]) get() *T {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.value == nil && !d.absent {
		if err := d.load(); err != nil {
			d.db.opts.Logger.Debug("derived file is absent", "file", d.name, "reason", err)
		}
	}
	return d.value
}

// load maps the file. mu is held. Without file handles or room to map it, it is
// not absent: the next use tries again.
func (d *derived[T]) load() (err error) {
	defer func() { d.absent = err != nil && !isExhausted(err) }()
	m, err := mapFile(d.db.files(), d.name)
	if err != nil {
		return err
	}
	d.maps = append(d.maps, m) // before a fault can happen
	if d.value, err = d.parse(m.Bytes()); err != nil {
		d.maps = d.maps[:len(d.maps)-1]
		m.Close()
	}
	return err
}

// need returns the content, making the file if there is none; in memory, if
// it cannot be kept. It must be called inside guard.
func (d *derived[T]) need(ctx context.Context) (*T, error) {
	if v := d.get(); v != nil {
		return v, nil
	}
	if !d.db.opts.ReadOnly && d.db.err() == nil && (d.scratch == nil || !d.scratch()) {
		if err := d.make(ctx); ctx.Err() != nil {
			return nil, ctx.Err()
		} else if err != nil {
			d.db.opts.Logger.Warn("cannot keep derived file", "file", d.name, "error", err)
		}
	}
	if err := d.building.enter(ctx); err != nil {
		return nil, err
	}
	defer d.building.leave()
	if v := d.get(); v != nil {
		return v, nil
	}
	var b blocks.Memory
	if err := d.write(ctx, &b); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	v, err := d.parse(b)
	d.value = v
	return v, err
}

// make makes the file unless it is there.
func (d *derived[T]) make(ctx context.Context) error {
	if err := d.building.enter(ctx); err != nil {
		return err
	}
	defer d.building.leave()
	if d.get() != nil {
		return nil
	}
	d.mu.Lock()
	faults := d.faults
	d.mu.Unlock()
	if faults > 1 { // writing it again would go on for ever
		return fmt.Errorf("%s: made anew, it could not be read either", d.name)
	}
	if err := d.keep(func(w io.WriterAt) error { return d.write(ctx, w) }); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.load()
}

// keep makes the file durable with the content that write gives it, replacing
// one that is there.
func (d *derived[T]) keep(write func(io.WriterAt) error) error {
	db, temp := d.db, tmpDir+d.name[len(segDir):]
	f, err := db.fs.Create(temp)
	for i := 1; errors.Is(err, fs.ErrExist) && i < 100; i++ { // what is not of this database is left alone
		temp = fmt.Sprintf("%s%s.%d", tmpDir, d.name[len(segDir):], i)
		f, err = db.fs.Create(temp)
	}
	if err != nil {
		return err
	}
	// What write reads may fault: the file must not stay, and be in the way of the next one.
	err = vfs.Catch(d.name, func() error { return write(f) })
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		if err = db.fs.Rename(temp, d.name); err != nil && db.fs.Remove(d.name) == nil { // an empty directory was in the way
			err = db.fs.Rename(temp, d.name)
		}
	}
	if err != nil {
		return errors.Join(err, db.fs.Remove(temp))
	}
	return db.fs.SyncDir(segDir)
}

// distrust stops the use of a damaged content.
func (d *derived[T]) distrust(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.absent {
		return // others saw it too
	}
	d.value, d.absent = nil, true
	d.db.opts.Logger.Warn("derived file is damaged and will be made anew", "file", d.name, "error", err)
	d.db.background.wakeDerive()
}

// errDerived says that a derived file could not be read and is not used any
// more: the call can be made again.
var errDerived = errors.New("derived, will be made anew")

// fault returns an error if the memory that faulted is of this file.
func (d *derived[T]) fault(f *vfs.FaultError) error {
	d.mu.Lock()
	at, ok := int64(0), false
	for _, m := range d.maps {
		if at, ok = codec.OffsetIn(m.Bytes(), f.Addr); ok {
			d.faults++
			break
		}
	}
	d.mu.Unlock()
	if !ok {
		return nil
	}
	err := &CorruptError{File: d.name, Offset: at, Err: fmt.Errorf("%w; %w", f, errDerived)}
	d.distrust(err)
	return err
}

// retry looks for an absent file again when it is next used: it may be there
// by now, of a newer published version.
func (d *derived[T]) retry() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.absent = false
}

// check reads the file as it is on disk, all of it.
func (d *derived[T]) check() error {
	err := d.fits(d.db.files())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, d.newer) {
		return nil
	}
	return err
}

// fits reads the file of its name in from, all of it, and says what is wrong
// with it. It must be called inside guard.
func (d *derived[T]) fits(from *vfs.FS) error {
	m, err := mapFile(from, d.name)
	if err != nil {
		return err
	}
	v, err := d.parse(m.Bytes())
	if err == nil && d.verify != nil {
		err = d.verify(v)
	}
	return errors.Join(err, m.Close())
}

func (d *derived[T]) present() publishable { return d }

func (d *derived[T]) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.value, d.absent = nil, true
	for _, m := range d.maps {
		m.Close()
	}
	d.maps = nil
}

// isExhausted reports whether the process had no file handle or no room to map
// a file, which says nothing of the file.
func isExhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// mapFile maps a whole file.
func mapFile(from *vfs.FS, name string) (*vfs.Mapping, error) {
	f, err := from.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	return f.Map(size)
}

// settleTime is how old a segment must be before the background makes its
// derived files: while documents are loaded, segments are soon merged.
const settleTime = 5 * time.Second

// makeDerived makes the derived files that are missing and not made on
// demand, those of the last stage and before, for segments of the given age.
// It returns how long it takes the next one to come of age, 0 if there is
// none. A file that cannot be written costs speed, not data; Stats says so.
func (db *DB) makeDerived(ctx context.Context, last stage, age time.Duration) (next time.Duration, err error) {
	ver := db.current() // keeps the segments mapped
	defer db.drop(ver)
	var failed []error
	for now := byClose; now <= last; now++ {
		for _, s := range ver.files.segments {
			wait := age - time.Since(s.made)
			for _, d := range s.derived {
				if d.stage() != now {
					continue
				}
				if wait > 0 {
					next = max(next, wait)
					continue
				}
				err := vfs.Catch(d.file(), func() error {
					return db.guard(func() error { return d.make(ctx) })
				})
				if ctx.Err() != nil {
					return 0, ctx.Err()
				}
				if err != nil {
					db.opts.Logger.Warn("cannot keep derived file", append(reasons(err), "file", d.file())...)
					failed = append(failed, fmt.Errorf("%s: %w", d.file(), err))
				}
			}
		}
	}
	db.record("making derived files", errors.Join(failed...))
	return next, nil
}

// retryDerived runs fn again after it met a damaged derived file, which it
// then does without.
func retryDerived(fn func() error) error {
	for {
		if err := fn(); !errors.Is(err, errDerived) {
			return err
		}
	}
}
