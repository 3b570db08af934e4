package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/vecbolt/vecbolt/internal/blocks"
	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// DerivedExts are the extensions of the derived files that a segment may have.
var DerivedExts = []string{"cols", "codes", "graph", "terms"}

// derivedName returns the name of a derived file.
func derivedName(id uint64, ext string) string {
	return fmt.Sprintf("%s/%08x.%s", SegDir, id, ext)
}

// A Derived is a file beside the vectors of a segment that can be rebuilt at any time
// from segments and documents. It is mapped at its first use. A file that is missing,
// damaged or from another segment counts as absent: the caller then does without it, or
// has it built. A nil derived means that the segment has no such file.
//
// A new kind of file needs its extension above, a handle in openSegment, and the
// functions below.
type Derived[T any] struct {
	engine *Engine
	Name   string
	when   stage

	// parse decodes the bytes. It checks first that they belong to the segment.
	parse func([]byte) (*T, error)
	// verify checks the parts that parse does not read; nil if parse checks everything.
	verify func(*T) error
	// deep compares the content with its sources, for a deep check; nil if there is no such
	// comparison.
	deep func(context.Context, *T) error
	// write builds the content. It may read the segment's vectors, other derived files
	// and meta.bolt. It is called inside Guard.
	write func(context.Context, io.WriterAt) error
	// scratch, if set, reports whether the content must stay in memory.
	scratch func() bool
	// outdated, if set, reports whether the file should be replaced although it fits the segment:
	// it was made for another index of the collection. It is used until then.
	outdated func(*T) bool
	// unwanted, if set, reports whether the segment should have no such file at present. Then one
	// is removed. Whoever reads the content has to look at the index as well.
	unwanted func() bool
	// dropped, if set, is called before that.
	dropped func()
	// newer is the error that parse returns for a file of a newer release.
	newer error
	// lacks, if set, is the error that parse returns while another file, which this one needs, is
	// absent. Then this file counts as absent, but is not built again.
	lacks error
	// stale, if set, reports whether the content must be parsed again, because another file, which
	// it needs, is absent or was replaced.
	stale func(*T) bool

	building gate // held while the file is built; taken before mu

	mu      sync.Mutex
	value   *T
	absent  bool           // until it is built
	again   bool           // the file may have been replaced by another process
	faults  int            // read faults so far
	edition int            // grows when the file is replaced
	maps    []*vfs.Mapping // of value, and of earlier contents that readers may still use
}

// stage says when a derived file is built.
type stage int

const (
	onDemand  stage = iota // by the first call that needs it, or by Compact
	ByClose                // in the background once the segment has settled, at the latest by Compact or Close
	ByCompact              // in the background after ByClose, at the latest by Compact, because it takes long
)

// A renewal says which files are built again although they are there.
type renewal int

const (
	absent   renewal = iota // none
	outdated                // those made for another index of the collection
	damaged                 // and those with damage, which the whole file is read for
)

// Publishable is a derived file as a Publisher sees it.
type Publishable interface {
	File() string
	Fits(*vfs.FS) error
	Behind(*vfs.FS) bool
	Edition() any
}

// derivedFile is a derived of any type.
type derivedFile interface {
	File() string
	stage() stage
	make(ctx context.Context, replace renewal) error
	Check() error
	Recompute(context.Context) error
	Present() Publishable
	retry()
	fault(*vfs.FaultError) error
	close()
}

func (d *Derived[T]) File() string { return d.Name }

func (d *Derived[T]) stage() stage { return d.when }

// Get returns the content, or nil if the file is absent. It must be called inside Guard.
func (d *Derived[T]) Get() *T {
	if d == nil {
		return nil
	}
	v, again := d.present()
	if again && v != nil && d.isOutdated(v) {
		return d.renew(v)
	}
	return v
}

// present returns the content, and whether the file may have been replaced since.
func (d *Derived[T]) present() (v *T, again bool) {
	d.mu.Lock()
	defer d.mu.Unlock() // also after a memory fault in load
	v = d.current()
	again, d.again = d.again, false
	return v, again
}

// peek returns the content, or nil if the file is absent. Unlike Get, it does not look for
// another file in the place of an outdated one, and takes no lock of the engine.
func (d *Derived[T]) peek() *T {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.current()
}

// current is peek with mu held.
func (d *Derived[T]) current() *T {
	if d.value != nil && d.stale != nil && d.stale(d.value) {
		d.value = nil
	}
	if d.value == nil && !d.absent {
		if err := d.load(); err != nil {
			d.engine.Opts.Logger.Debug("derived file is absent", "file", d.Name, "reason", err)
		}
	}
	return d.value
}

// isLack reports whether parse returned err only because it needs another file.
func (d *Derived[T]) isLack(err error) bool { return d.lacks != nil && errors.Is(err, d.lacks) }

// isOutdated reports whether the file should be replaced. mu must not be held: outdated takes
// Engine.mu.
func (d *Derived[T]) isOutdated(v *T) bool { return d.outdated != nil && d.outdated(v) }

// renew returns the content of the file that another process has put in the place of v, or v.
func (d *Derived[T]) renew(v *T) *T {
	m, err := mapFile(d.engine.Files(), d.Name)
	if err != nil {
		return v
	}
	d.mu.Lock()
	d.maps = append(d.maps, m) // before parse, as in load
	d.mu.Unlock()
	fresh, err := d.parse(m.Bytes())
	fits := err == nil && !d.isOutdated(fresh)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !fits || d.value != v {
		d.maps = slices.DeleteFunc(d.maps, func(o *vfs.Mapping) bool { return o == m })
		m.Close()
		return v
	}
	d.value = fresh
	d.edition++
	return fresh
}

// load maps the file. mu is held. A process that lacks file handles or address space does not make
// the file absent, nor does another file that it lacks: the next use tries again.
func (d *Derived[T]) load() (err error) {
	d.value, d.again = nil, false
	defer func() { d.absent = err != nil && !isExhausted(err) && !d.isLack(err) }()
	m, err := mapFile(d.engine.Files(), d.Name)
	if err != nil {
		return err
	}
	d.maps = append(d.maps, m) // before parse, because fault looks for the mapping here
	if d.value, err = d.parse(m.Bytes()); err != nil {
		d.maps = d.maps[:len(d.maps)-1]
		m.Close()
	}
	return err
}

// Need returns the content and builds the file if it is absent. The content stays in
// memory if it cannot be written. It must be called inside Guard.
func (d *Derived[T]) Need(ctx context.Context) (*T, error) {
	if v := d.Get(); v != nil {
		return v, nil
	}
	if d.engine.Leads() && d.engine.Err() == nil && (d.scratch == nil || !d.scratch()) {
		if err := d.make(ctx, absent); ctx.Err() != nil {
			return nil, ctx.Err()
		} else if err != nil {
			d.engine.Opts.Logger.Warn("cannot keep derived file", "file", d.Name, "error", err)
		}
	}
	if err := d.building.enter(ctx); err != nil {
		return nil, err
	}
	defer d.building.leave()
	if v := d.Get(); v != nil {
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

// make builds the file unless it is there and nothing is to be replaced.
func (d *Derived[T]) make(ctx context.Context, replace renewal) error {
	if err := d.building.enter(ctx); err != nil {
		return err
	}
	defer d.building.leave()
	if d.unwanted != nil && d.unwanted() {
		return d.discard()
	}
	if replace >= damaged && d.Get() != nil {
		d.examine()
	}
	if v := d.Get(); v != nil && !(replace >= outdated && d.isOutdated(v)) {
		return nil
	}
	d.mu.Lock()
	faults := d.faults
	d.mu.Unlock()
	if faults > 1 { // a bad disk would otherwise cause endless rebuilds
		return fmt.Errorf("%s: could not be read after a rebuild either", d.Name)
	}
	if err := d.keep(func(w io.WriterAt) error { return d.write(ctx, w) }); err != nil {
		return err
	}
	if o := d.engine.observer(); o != nil {
		o.Made()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.edition++
	return d.load()
}

// keep writes the file durably with the content from write and replaces an existing file.
func (d *Derived[T]) keep(write func(io.WriterAt) error) error {
	e, temp := d.engine, TmpDir+d.Name[len(SegDir):]
	if err := e.beginKeeping(); err != nil {
		return err
	}
	defer e.endKeeping()
	f, err := e.FS.Create(temp)
	for i := 1; errors.Is(err, fs.ErrExist) && i < 100; i++ { // foreign files stay
		temp = fmt.Sprintf("%s%s.%d", TmpDir, d.Name[len(SegDir):], i)
		f, err = e.FS.Create(temp)
	}
	if err != nil {
		return err
	}
	// The sources may fault while write reads them. The temporary file must not remain,
	// because it would block the next attempt.
	err = vfs.Catch(d.Name, func() error { return write(f) })
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		// an empty directory was in the way
		if err = e.FS.Rename(temp, d.Name); err != nil && e.FS.Remove(d.Name) == nil {
			err = e.FS.Rename(temp, d.Name)
		}
	}
	if err != nil {
		return errors.Join(err, e.FS.Remove(temp))
	}
	return e.FS.SyncDir(SegDir)
}

// discard removes the file, if there is one. Readers may still use its content.
func (d *Derived[T]) discard() error {
	if d.dropped != nil {
		d.dropped()
	}
	if err := d.engine.beginKeeping(); err != nil {
		return err
	}
	defer d.engine.endKeeping()
	d.mu.Lock()
	d.value, d.absent = nil, true
	d.mu.Unlock()
	if _, err := d.engine.FS.Size(d.Name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := d.engine.FS.Remove(d.Name); err != nil {
		return err
	}
	return d.engine.FS.SyncDir(SegDir)
}

// examine reads the whole file, and stops the use of its content if it is damaged or gone.
func (d *Derived[T]) examine() {
	err := d.engine.Guard(func() error { return d.Fits(d.engine.Files()) })
	if err != nil && !isExhausted(err) && !d.isLack(err) {
		d.Distrust(err)
	}
}

// Distrust stops the use of damaged content.
func (d *Derived[T]) Distrust(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.distrust(err)
}

// distrustOf is Distrust of the content v, which may have been replaced.
func (d *Derived[T]) distrustOf(v *T, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.value == v {
		d.distrust(err)
	}
}

// distrust is Distrust with mu held.
func (d *Derived[T]) distrust(err error) {
	if d.absent {
		return // another call was first
	}
	d.value, d.absent = nil, true
	d.engine.Opts.Logger.Warn("derived file is damaged and will be rebuilt", "file", d.Name, "error", err)
	d.engine.background.wakeDerive()
}

// ErrDerived says that a derived file could not be read and is no longer used. The call
// can be repeated: it then does without the file.
var ErrDerived = errors.New("derived, will be rebuilt")

// fault returns an error if the memory that faulted belongs to this file.
func (d *Derived[T]) fault(f *vfs.FaultError) error {
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
	err := &fileformat.CorruptError{File: d.Name, Offset: at, Err: fmt.Errorf("%w; %w", f, ErrDerived)}
	d.Distrust(err)
	return err
}

// retry makes the next use look for an absent or outdated file again: a newer published version
// may have it.
func (d *Derived[T]) retry() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.absent, d.again = false, true
}

// Check reads the whole file on disk.
func (d *Derived[T]) Check() error {
	if d.unwanted != nil && d.unwanted() {
		return nil // about to be removed
	}
	err := d.Fits(d.engine.Files())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, d.newer) || d.isLack(err) {
		return nil
	}
	return err
}

// Fits reads the whole file of the same name in from and returns the first error. It must
// be called inside Guard.
func (d *Derived[T]) Fits(from *vfs.FS) error {
	m, err := mapFile(from, d.Name)
	if err != nil {
		return err
	}
	v, err := d.parse(m.Bytes())
	if err == nil && d.verify != nil {
		err = d.verify(v)
	}
	return errors.Join(err, m.Close())
}

// Behind reports whether the file of the same name in from is outdated and the one here is not. It
// must be called inside Guard.
func (d *Derived[T]) Behind(from *vfs.FS) bool {
	if d.outdated == nil {
		return false
	}
	outdated := func(in *vfs.FS) (old, ok bool) {
		m, err := mapFile(in, d.Name)
		if err != nil {
			return false, false
		}
		defer m.Close()
		v, err := d.parse(m.Bytes())
		return err == nil && d.outdated(v), err == nil
	}
	if old, ok := outdated(from); !ok || !old {
		return false
	}
	old, ok := outdated(d.engine.Files())
	return ok && !old
}

// Edition returns a value that changes when the file is replaced.
func (d *Derived[T]) Edition() any {
	type edition struct {
		d      *Derived[T]
		number int
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return edition{d, d.edition}
}

func (d *Derived[T]) Present() Publishable {
	if d.unwanted != nil && d.unwanted() {
		return nil
	}
	return d
}

func (d *Derived[T]) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.value, d.absent = nil, true
	for _, m := range d.maps {
		m.Close()
	}
	d.maps = nil
}

// isExhausted reports whether the process lacked file handles or address space, in which
// case the file itself may be sound.
func isExhausted(err error) bool {
	return noDescriptor(err) || errors.Is(err, syscall.ENOMEM)
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

// SettleTime is the age at which the background builds the derived files of a segment.
// While documents are being loaded, segments are soon merged, and their derived files
// would be wasted. A head that takes as long to fill was not loaded: its flush makes codes.
// A head that is not written to for as long is flushed.
const SettleTime = 5 * time.Second

// MakeDerived builds missing derived files, except those made on demand, up to stage
// last, for segments of the given age. If that is ByCompact, it also replaces outdated
// files and removes unwanted ones. It stops to build for a segment that leaves the database. It
// returns the time until the youngest segment reaches that age, 0 if all have. A file that cannot
// be written costs speed, not data; Stats reports the error.
func (e *Engine) MakeDerived(ctx context.Context, last stage, age time.Duration) (next time.Duration, err error) {
	replace := absent
	if last == ByCompact {
		replace = outdated
	}
	return e.makeDerived(ctx, ByClose, last, age, replace)
}

// renewDerived is MakeDerived for all derived files and segments. It also replaces damaged files.
func (e *Engine) renewDerived(ctx context.Context) error {
	_, err := e.makeDerived(ctx, onDemand, ByCompact, 0, damaged)
	return err
}

func (e *Engine) makeDerived(ctx context.Context, first, last stage, age time.Duration, replace renewal) (
	next time.Duration, err error) {
	ver := e.Current() // keeps the segments mapped
	defer e.Drop(ver)
	var failed []error
	for now := first; now <= last; now++ {
		for _, s := range ver.Files.Segments {
			wait := age - time.Since(s.made)
			for _, d := range s.Derived {
				if d.stage() != now {
					continue
				}
				if wait > 0 {
					next = max(next, wait)
					continue
				}
				work, end := s.whileStays(ctx)
				err := vfs.Catch(d.File(), func() error {
					return e.Guard(func() error { return d.make(work, replace) })
				})
				end()
				if ctx.Err() != nil {
					return 0, ctx.Err()
				}
				if err != nil && s.stays.Err() == nil {
					e.Opts.Logger.Warn("cannot keep derived file", append(reasons(err), "file", d.File())...)
					failed = append(failed, fmt.Errorf("%s: %w", d.File(), err))
				}
			}
		}
	}
	e.record("making derived files", errors.Join(failed...))
	return next, nil
}

// makeNow builds a derived file of a segment that is not in a version yet. A failure costs speed
// only, and the background tries again.
func (e *Engine) makeNow(ctx context.Context, d derivedFile) {
	err := vfs.Catch(d.File(), func() error {
		return e.Guard(func() error { return d.make(ctx, absent) })
	})
	if err != nil && ctx.Err() == nil {
		e.Opts.Logger.Warn("cannot keep derived file", append(reasons(err), "file", d.File())...)
	}
}

// RetryDerived repeats fn after it met a damaged derived file. The next run does without
// the file.
func RetryDerived(fn func() error) error {
	for {
		if err := fn(); !errors.Is(err, ErrDerived) {
			return err
		}
	}
}
