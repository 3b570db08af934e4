package wal

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/vecbolt/vecbolt/internal/vfs"
)

// disk models the effect of a power cut on a directory. As a hook it follows the file operations;
// image then builds a directory that a crash at this moment could leave. Each sector of a file,
// of 512 or of 4096 bytes, is as at its last sync, as it is now, or destroyed if it was being
// written; of the directory changes since the last sync, any subset survives.
type disk struct {
	dir     string
	live    map[string]*node // names now
	durable map[string]*node // names at the last SyncDir of wal/
	changes []change         // since the last SyncDir
	hasWal  bool             // wal/ itself is durable
	left    int              // operations until the crash; negative: none is planned
	down    bool
}

type node struct {
	synced, now []byte
}

type change struct {
	kind     vfs.Kind
	name, to string
	node     *node
}

func newDisk(dir string) *disk {
	d := &disk{dir: dir, live: map[string]*node{}, left: -1}
	names, _ := os.ReadDir(filepath.Join(dir, "wal"))
	for _, e := range names {
		name := "wal/" + e.Name()
		d.live[name] = &node{}
		d.load(name)
		d.live[name].synced = d.live[name].now
	}
	d.durable, d.hasWal = maps.Clone(d.live), names != nil
	return d
}

// load reads the current content of the file.
func (d *disk) load(name string) {
	b, err := os.ReadFile(filepath.Join(d.dir, name))
	if err == nil {
		d.live[name].now = b
	}
}

func (d *disk) hook(op vfs.Op) error {
	if d.left == 0 {
		d.down = true
	}
	if d.down {
		return syscall.EIO
	}
	d.left--
	switch op.Kind {
	case vfs.OpCreate:
		d.live[op.Name] = &node{}
		d.changes = append(d.changes, change{op.Kind, op.Name, "", d.live[op.Name]})
	case vfs.OpRemove:
		d.load(op.Name)
		d.changes = append(d.changes, change{op.Kind, op.Name, "", d.live[op.Name]})
		delete(d.live, op.Name)
	case vfs.OpRename:
		d.load(op.Name)
		if d.live[op.To] != nil {
			d.load(op.To)
		}
		n := d.live[op.Name]
		d.changes = append(d.changes, change{op.Kind, op.Name, op.To, n})
		delete(d.live, op.Name)
		d.live[op.To] = n
	case vfs.OpSync:
		d.load(op.Name)
		d.live[op.Name].synced = d.live[op.Name].now
	case vfs.OpSyncDir:
		if op.Name == "." {
			d.hasWal = true
		} else {
			d.durable, d.changes = maps.Clone(d.live), nil
		}
	}
	return nil
}

// image writes a crash state into dir. keep decides whether an unsynced sector or directory change
// has survived.
func (d *disk) image(t fatal, dir string, keep func() bool) {
	if !d.hasWal && !keep() {
		return
	}
	for name := range d.live {
		d.load(name)
	}
	names := maps.Clone(d.durable)
	if names == nil {
		names = map[string]*node{}
	}
	for _, c := range d.changes {
		if !keep() {
			continue
		}
		switch c.kind {
		case vfs.OpCreate:
			names[c.name] = c.node
		case vfs.OpRemove:
			delete(names, c.name)
		case vfs.OpRename:
			if names[c.name] == c.node {
				delete(names, c.name)
			}
			names[c.to] = c.node
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "wal"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if err := os.WriteFile(filepath.Join(dir, name), names[name].crash(keep), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (n *node) crash(keep func() bool) []byte {
	b := slices.Clone(n.synced)
	if len(n.now) > len(b) && keep() {
		b = append(b, make([]byte, len(n.now)-len(b))...)
	}
	size := sector // of the disk, where it takes writes of 512 bytes
	if keep() {
		size = groupAlign
	}
	for off := 0; off < min(len(b), len(n.now)); off += size {
		end := min(off+size, len(b), len(n.now))
		if string(b[off:end]) == string(n.now[off:end]) || !keep() {
			continue
		}
		copy(b[off:end], n.now[off:end])
		if torn := !keep(); torn && !keep() { // neither old nor new: hence no write may share a sector with durable bytes
			for i := range b[off:end] {
				b[off+i] ^= byte(i) | 0x80
			}
		}
	}
	return b
}

type fatal interface{ Fatal(...any) }

// model is the log from the view of its user.
type model struct {
	sizes    []int  // of record i+1, for records appended for certain
	synced   uint64 // everything up to here must survive
	released uint64 // released records
}

// TestCrash runs random histories of appends, syncs, rotations, releases, clean reopenings, kills
// and power cuts at any file operation, also during reopening, and compares the log with the model.
func TestCrash(t *testing.T) {
	var crashes, records, lost, torn int
	base := memDir(t)
	rapid.Check(t, func(rt *rapid.T) {
		root, err := os.MkdirTemp(base, "")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(root)
		generation := 0
		var m model
		var d *disk
		var o Options
		var l *Log
		fileSize := rapid.SampledFrom([]int64{8 << 10, 12 << 10, 40 << 10}).Draw(rt, "fileSize")

		// open replays, checks and creates. A crash on the way is left to the caller.
		open := func() error {
			fsys, err := vfs.Open(d.dir, d.hook)
			if err != nil {
				rt.Fatal(err)
			}
			if o.FS != nil {
				o.FS.Close()
			}
			o = Options{FS: fsys, DB: testDB, FileSize: fileSize}
			next := m.released
			tail, err := Replay(o, m.released, func(lsn uint64, b []byte) error {
				if next++; lsn != next || lsn > uint64(len(m.sizes)) || len(b) != m.sizes[lsn-1] || string(b) != string(payload(lsn, len(b))) {
					rt.Fatalf("record %d of %d bytes (record %d was due, %d appended)", lsn, len(b), next, len(m.sizes))
				}
				return nil
			})
			if d.down {
				return errors.New("crash")
			}
			if err != nil {
				rt.Fatal(err)
			}
			if tail.Last < m.synced {
				rt.Fatalf("the log ends with record %d, synced were %d", tail.Last, m.synced)
			}
			if tail.Torn {
				torn++
			}
			l, err = Create(o, tail.Last+1, m.synced)
			if d.down {
				return errors.New("crash")
			}
			if err != nil {
				rt.Fatal(err)
			}
			lost += len(m.sizes) - int(tail.Last)
			m.sizes = m.sizes[:tail.Last]
			m.synced = tail.Last
			return nil
		}
		// recover opens the directory that a killed process leaves (everything, synced or not), or
		// an image of a power cut; now and then with further crashes during recovery.
		recover := func() {
			for {
				crashes++
				if l != nil && l.f != nil {
					l.f.Close()
				}
				l = nil
				if rapid.IntRange(0, 3).Draw(rt, "kill only") == 0 {
					d.down, d.left = false, -1
					if err := open(); err != nil {
						rt.Fatal(err)
					}
					return
				}
				generation++
				dir := filepath.Join(root, fmt.Sprint(generation))
				if err := os.Mkdir(dir, 0o700); err != nil {
					rt.Fatal(err)
				}
				percent := rapid.SampledFrom([]int{0, 10, 50, 90, 100}).Draw(rt, "survive")
				rnd := rapid.Uint64().Draw(rt, "seed")
				d.image(rt, dir, func() bool {
					rnd = rnd*6364136223846793005 + 1442695040888963407
					return int(rnd>>33%100) < percent
				})
				d = newDisk(dir)
				d.left = rapid.SampledFrom([]int{-1, -1, 0, 3, 8}).Draw(rt, "ops until crash at open")
				err := open()
				d.left = -1
				if err == nil {
					return
				}
			}
		}
		d = newDisk(root)
		if err := open(); err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			if rapid.IntRange(0, 5).Draw(rt, "crash soon") == 0 {
				d.left = rapid.IntRange(0, 12).Draw(rt, "ops until crash")
			}
			var err error
			switch rapid.SampledFrom([]string{"append", "append", "append", "sync", "rotate", "release", "reopen"}).Draw(rt, "op") {
			case "append":
				sizes := rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 100, 465, 472, 473, 1000, 2000, 5000, 50000}), 1, 4).Draw(rt, "sizes")
				next := uint64(len(m.sizes)) + 1
				m.sizes = append(m.sizes, sizes...) // after a crash any of them may be there
				records += len(sizes)
				_, err = l.Append(group(next, sizes...))
				// Beginning a new file syncs the old one.
				if files := l.Files(); err == nil && files[len(files)-1].First > m.synced {
					m.synced = files[len(files)-1].First - 1
				}
			case "sync":
				if err = l.Sync(); err == nil {
					m.synced = uint64(len(m.sizes))
				}
			case "rotate":
				if err = l.Rotate(); err == nil {
					m.synced = uint64(len(m.sizes))
				}
			case "release":
				upTo := rapid.Uint64Range(m.released, m.synced).Draw(rt, "upTo")
				m.released = upTo
				err = l.Release(upTo)
			case "reopen":
				if err = l.Close(); err == nil {
					m.synced = uint64(len(m.sizes))
					err = open()
				}
			}
			if err != nil && !d.down {
				rt.Fatal(err)
			}
			if d.down || rapid.IntRange(0, 9).Draw(rt, "crash now") == 0 {
				recover()
			}
		}
		recover()
		l.Close()
		o.FS.Close()
	})
	t.Logf("%d crashes, %d records, %d unsynced records lost, %d torn tails", crashes, records, lost, torn)
	if crashes > 300 && (lost == 0 || torn == 0) {
		t.Error("the test does not test")
	}
}
