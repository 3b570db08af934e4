package torture

import (
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A policy decides which unsynced changes survive a power failure.
type policy struct {
	name string
	data dataPolicy
	dirs dirPolicy
}

type (
	dataPolicy uint8
	dirPolicy  uint8
)

const (
	dataNone        dataPolicy = iota // nothing
	dataAll                           // everything
	dataSectors                       // each sector of 512 bytes or not
	dataPages                         // each page of 4096 bytes or not
	dataWhole                         // each write or truncate or not: they may be reordered
	dataZero                          // the new size, with zeros in the added bytes
	dataGarbage                       // the new size, with garbage in the added bytes
	dataShred                         // each written sector old, new or partly garbage
	dataSectorsLost                   // each written sector old, new or all garbage
	dataPagesLost                     // each written page old, new or all garbage
	dataRot                           // nothing, and the newest root of meta.bolt cannot be read
)

const (
	dirsNone   dirPolicy = iota
	dirsAll              // everything
	dirsSubset           // each or not
	dirsPrefix           // the first few
	dirsLie              // the syncs of the last few changes lied: each change survives or not
)

// policies are tried at every operation. The first is the guarantee of a sane disk, the second the
// result of a killed process.
var policies = []policy{
	{"synced-only", dataNone, dirsNone},
	{"all-applied", dataAll, dirsAll},
	{"torn-512", dataSectors, dirsSubset},
	{"torn-512-again", dataSectors, dirsPrefix},
	{"torn-4096", dataPages, dirsSubset},
	{"reordered", dataWhole, dirsSubset},
	{"reordered-names-first", dataWhole, dirsAll},
	{"size-first", dataZero, dirsAll},
	{"garbage-first", dataGarbage, dirsPrefix},
	{"shredded", dataShred, dirsAll},
	{"sectors-lost", dataSectorsLost, dirsAll},
	{"pages-lost", dataPagesLost, dirsAll},
	{"data-first", dataAll, dirsNone},
	{"names-first", dataNone, dirsAll},
	{"names-subset", dataAll, dirsSubset},
	{"names-prefix", dataAll, dirsPrefix},
	{"rotten-root", dataRot, dirsNone},
	{"rotten-root-names-first", dataRot, dirsAll},
	{"lying-directories", dataNone, dirsLie},
}

// lies reports whether the disk acknowledged syncs that it had not done, and may therefore lose
// synced changes.
func (p policy) lies() bool { return p.dirs == dirsLie }

const rootIno = 1

// A node is a file or directory of a Disk.
type node struct {
	dir      bool
	cur, dur *file // content as the system shows it; content certainly on disk. nil for a directory
	pending  []*Op // writes and truncates since the last sync
	lossy    bool  // a sync has failed: dur plus pending is no longer cur
	rooted   bool  // the last sync also wrote a root of a bbolt file, and nothing was written since
}

type directory map[string]uint64

// A Disk replays a recording and knows, at each operation, which changes are durable.
type Disk struct {
	nodes    map[uint64]*node
	cur, dur map[uint64]directory
	pending  []*Op // changes of directories that no SyncDir has covered, in order
	rng      *rand.Rand

	// lost are the pending changes whose SyncDir failed: later calls by the same process do not
	// make them durable.
	lost  map[*Op]bool
	names []*Op                // all changes of directories since the start, durable or not, in order
	first map[uint64]directory // durable directories at the start
}

// newDisk returns an empty Disk. rng decides what a failed sync has written.
func newDisk(rng *rand.Rand) *Disk {
	return &Disk{
		nodes: map[uint64]*node{rootIno: {dir: true}},
		cur:   map[uint64]directory{rootIno: {}}, dur: map[uint64]directory{rootIno: {}}, rng: rng,
		lost: map[*Op]bool{}, first: map[uint64]directory{rootIno: {}},
	}
}

// apply replays one operation.
func (d *Disk) apply(op *Op) {
	if n := d.nodes[op.Ino]; op.Failed && n != nil {
		n.rooted = false
	}
	if op.Failed && (op.Kind != Sync && op.Kind != SyncDir || op.Interrupted) {
		return
	}
	switch op.Kind {
	case Write, Truncate:
		n := d.nodes[op.Ino]
		change(n.cur, op)
		n.pending = append(n.pending, op)
		n.rooted = false
	case Sync:
		n := d.nodes[op.Ino]
		n.rooted = !op.Failed && (n.rooted || slices.ContainsFunc(n.pending, func(p *Op) bool {
			return p.Kind == Write && p.Off < 2*pageSize
		}))
		if op.Failed {
			// Linux then marks the pages clean: bytes that are not on disk by now never get there.
			for _, p := range n.pending {
				if d.rng.IntN(2) == 0 {
					change(n.dur, p)
				}
			}
			n.lossy = true
		} else if !n.lossy {
			n.dur = n.cur.clone()
		} else {
			for _, p := range n.pending {
				change(n.dur, p)
			}
		}
		n.pending = nil
	case Create, Mkdir:
		n := &node{dir: op.Kind == Mkdir}
		if n.dir {
			d.cur[op.Ino], d.dur[op.Ino] = directory{}, directory{}
		} else {
			n.cur, n.dur = &file{}, &file{}
		}
		d.nodes[op.Ino] = n
		d.rename(op)
	case Rename:
		moved := *op
		moved.Ino = d.cur[op.Dir][op.Name]
		d.rename(&moved)
	case Exchange:
		moved := *op
		moved.Ino, moved.Ino2 = d.cur[op.Dir][op.Name], d.cur[op.Dir2][op.Name2]
		d.rename(&moved)
	case Remove, Link:
		d.rename(op)
	case SyncDir:
		d.pending = slices.DeleteFunc(slices.Clone(d.pending), func(p *Op) bool {
			covered := (p.Dir == op.Dir || (p.Kind == Rename || p.Kind == Exchange) && p.Dir2 == op.Dir) && !d.lost[p]
			if covered && op.Failed && d.rng.IntN(2) == 0 {
				d.lost[p] = true
				return false
			}
			if covered {
				name(d.dur, p)
			}
			return covered
		})
	}
}

// rename updates directories.
func (d *Disk) rename(op *Op) {
	name(d.cur, op)
	d.pending = append(d.pending, op)
	d.names = append(d.names, op)
}

// reopened notes that another process has started. It does not know of failed syncs; its own syncs
// make names durable.
func (d *Disk) reopened() { clear(d.lost) }

// settle makes everything durable, as if the power had come back after a full sync.
func (d *Disk) settle() {
	for _, n := range d.nodes {
		n.pending = nil
		if !n.dir {
			n.dur = n.cur.clone()
		}
	}
	for ino, dir := range d.cur {
		d.dur[ino] = maps.Clone(dir)
		d.first[ino] = maps.Clone(dir)
	}
	d.pending, d.names = nil, nil
	clear(d.lost)
}

// unsynced reports whether different policies may give different states.
func (d *Disk) unsynced() bool {
	if len(d.pending) > 0 {
		return true
	}
	for _, n := range d.nodes {
		if len(n.pending) > 0 {
			return true
		}
	}
	return false
}

func change(f *file, op *Op) {
	if op.Kind == Truncate {
		f.truncate(op.Off)
	} else {
		f.write(op.Off, op.Len, op.Data)
	}
}

func name(dirs map[uint64]directory, op *Op) {
	in := func(ino uint64) directory {
		if dirs[ino] == nil {
			dirs[ino] = directory{}
		}
		return dirs[ino]
	}
	switch op.Kind {
	case Create, Mkdir, Link:
		in(op.Dir)[op.Name] = op.Ino
	case Exchange:
		in(op.Dir)[op.Name], in(op.Dir2)[op.Name2] = op.Ino2, op.Ino
	case Remove:
		delete(in(op.Dir), op.Name)
	case Rename:
		if in(op.Dir)[op.Name] == op.Ino {
			delete(in(op.Dir), op.Name)
		}
		in(op.Dir2)[op.Name2] = op.Ino
	}
}

// A state is the content of the disk after a crash: paths below the root, directories before their
// content. It shares files with its Disk and changes with it; a clone does not.
type state []entry

type entry struct {
	path string
	file *file // nil for a directory
}

// lastLies is the largest number of directory changes that a lying disk may lose.
const lastLies = 16

// state computes a state after a crash at the current operation.
func (d *Disk) state(p policy, rng *rand.Rand) state {
	dirs := map[uint64]directory{}
	from, pending := d.dur, d.pending
	if p.lies() {
		from, pending = d.first, d.names
	}
	for ino, dir := range from {
		dirs[ino] = maps.Clone(dir)
	}
	first := rng.IntN(len(pending) + 1)
	if p.lies() {
		first = max(0, len(pending)-1-rng.IntN(lastLies))
	}
	for i, op := range pending {
		keep := false
		switch p.dirs {
		case dirsNone:
		case dirsAll:
			keep = true
		case dirsSubset:
			keep = rng.IntN(2) == 0
		case dirsPrefix:
			keep = i < first
		case dirsLie:
			keep = i < first || rng.IntN(2) == 0
		}
		if keep && (p.kill() || !d.lost[op]) {
			name(dirs, op)
		}
	}
	var s state
	seen := map[uint64]*file{} // a file may have two names
	d.walk(&s, "", rootIno, dirs, p.data, rng, seen)
	return s
}

func (d *Disk) walk(s *state, path string, ino uint64, dirs map[uint64]directory, p dataPolicy,
	rng *rand.Rand, seen map[uint64]*file) {
	for _, base := range slices.Sorted(maps.Keys(dirs[ino])) {
		child := dirs[ino][base]
		n := d.nodes[child]
		at := filepath.Join(path, base)
		if n.dir {
			*s = append(*s, entry{path: at})
			d.walk(s, at, child, dirs, p, rng, seen)
			continue
		}
		if seen[child] == nil {
			seen[child] = n.after(p, rng)
			if p == dataRot && n.rooted && strings.HasPrefix(at, databaseName) && base == "meta.bolt" {
				seen[child] = rot(n.dur, rng)
			}
		}
		*s = append(*s, entry{at, seen[child]})
	}
}

// after returns the content of a file after a crash.
func (n *node) after(p dataPolicy, rng *rand.Rand) *file {
	switch {
	case p == dataNone || p == dataRot || len(n.pending) == 0 && p != dataAll:
		return n.dur
	case p == dataAll:
		return n.cur
	}
	f := n.dur.clone()
	for _, op := range n.pending {
		switch {
		case p == dataZero || p == dataGarbage:
			n.extend(f, op, p, rng)
		case p == dataSectorsLost && op.Kind == Write:
			lose(f, op, sectorSize, n.cur.size, rng)
		case p == dataPagesLost && op.Kind == Write:
			lose(f, op, pageSize, n.cur.size, rng)
		case p == dataWhole || op.Kind == Truncate:
			if rng.IntN(2) == 0 {
				change(f, op)
			}
		case p == dataPages:
			pieces(op, pageSize, func(off, n int64, b []byte) {
				if rng.IntN(2) == 0 {
					f.write(off, n, b)
				}
			})
		default:
			pieces(op, sectorSize, func(off, n int64, b []byte) {
				switch r := rng.IntN(4); {
				case p == dataShred && r == 0:
					f.write(off, n, rubbish(rng, n))
				case r < 2:
					f.write(off, n, b)
				}
			})
		}
	}
	return f
}

// lose gives each unit of the disk that op wrote one of three contents: old, new, or garbage over
// the whole unit. size is the length of the file, which the last unit may exceed.
func lose(f *file, op *Op, unit, size int64, rng *rand.Rand) {
	pieces(op, unit, func(off, n int64, b []byte) {
		switch rng.IntN(4) {
		case 0:
			from := off / unit * unit
			if to := min((off+n+unit-1)/unit*unit, size); to-from <= unit {
				f.write(from, to-from, rubbish(rng, to-from))
			}
		case 1, 2:
			f.write(off, n, b)
		}
	})
}

// rot returns a bbolt file whose newest root is damaged.
func rot(f *file, rng *rand.Rand) *file {
	const head, txid, length = 16, 48, 64 // of a root, within its page
	newest := func(page int64) uint64 {
		var b [8]byte
		f.readAt(b[:], page*pageSize+head+txid)
		return binary.LittleEndian.Uint64(b[:])
	}
	at := int64(head + rng.IntN(length))
	if newest(1) > newest(0) {
		at += pageSize
	}
	var b [1]byte
	f = f.clone()
	f.readAt(b[:], at)
	b[0] ^= 1 << rng.IntN(8)
	f.write(at, 1, b[:])
	return f
}

// extend gives a file its new size but not its new bytes.
func (n *node) extend(f *file, op *Op, p dataPolicy, rng *rand.Rand) {
	end := op.Off + op.Len
	if op.Kind == Truncate {
		end = op.Off
	}
	if end <= f.size {
		return
	}
	from := f.size
	f.truncate(end)
	if p == dataGarbage {
		f.write(from, min(end-from, 64<<10), rubbish(rng, min(end-from, 64<<10)))
	}
}

// pieces splits a write at multiples of size. Of a large write of zeros, such as a new log file,
// only the edges are split: more or fewer zeros in a file of zeros make no difference.
func pieces(op *Op, size int64, fn func(off, n int64, b []byte)) {
	if op.Data == nil && op.Len > 64<<10 {
		fn(op.Off, op.Len/2, nil)
		fn(op.Off+op.Len/2, op.Len-op.Len/2, nil)
		return
	}
	for off := int64(0); off < op.Len; {
		end := min((op.Off+off)/size*size+size-op.Off, op.Len)
		var b []byte
		if op.Data != nil {
			b = op.Data[off:end]
		}
		fn(op.Off+off, end-off, b)
		off = end
	}
}

func rubbish(rng *rand.Rand, n int64) []byte {
	b := make([]byte, n)
	for i := 0; i < len(b); i += 8 {
		r := rng.Uint64()
		for j := i; j < min(i+8, len(b)); j++ {
			b[j] = byte(r)
			r >>= 8
		}
	}
	return b
}

func (s state) clone() state {
	s = slices.Clone(s)
	for i := range s {
		if s[i].file != nil {
			s[i].file = s[i].file.clone()
		}
	}
	return s
}

// sum is equal for states with equal content.
func (s state) sum() uint64 {
	h := uint64(len(s))
	for _, e := range s {
		h = mix(h*31 + hashString(e.path))
		if e.file != nil {
			h = mix(h ^ e.file.sum())
		}
	}
	return h
}

// write creates the files of the state below dir, which must be empty. Holes stay holes.
func (s state) write(dir string, buf []byte) (err error) {
	for _, e := range s {
		path := filepath.Join(dir, e.path)
		if e.file == nil {
			err = os.Mkdir(path, 0o700)
		} else {
			err = e.file.writeTo(path, buf)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *file) writeTo(path string, buf []byte) (err error) {
	out, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := out.Truncate(f.size); err != nil {
		return err
	}
	return f.runs(buf, func(off int64, b []byte) error {
		_, err := out.WriteAt(b, off)
		return err
	})
}

// runs calls fn with the ranges of a file that are not holes, at most len(buf) bytes each.
func (f *file) runs(buf []byte, fn func(off int64, b []byte) error) error {
	for i := 0; i < len(f.pages); {
		if f.pages[i] == nil {
			i++
			continue
		}
		n, start := 0, i
		for ; i < len(f.pages) && f.pages[i] != nil && n+pageSize <= len(buf); i++ {
			n += copy(buf[n:], f.pages[i].b[:])
		}
		off := int64(start) * pageSize
		if err := fn(off, buf[:min(int64(n), f.size-off)]); err != nil {
			return err
		}
	}
	return nil
}
