package wal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// built is a log of two files: records 1 to 5 in three groups, each synced, and record 6 in the
// second file.
type built struct {
	dir    string
	o      Options
	path   string // of the first file
	bytes  []byte // its content
	groups []int  // start offsets of its groups, and the end of the last
}

func build(t *testing.T) built {
	t.Helper()
	dir := memDir(t)
	b := built{dir: dir, o: options(t, dir, nil), path: filepath.Join(dir, "wal", "00000001.wal")}
	b.o.FileSize = 16 << 10
	l := create(t, b.o, 1, 0)
	b.groups = []int{int(headerSize)}
	next := uint64(1)
	for _, sizes := range [][]int{{100}, {10, 700, 472}, {600}} {
		next = add(t, l, next, sizes...) + 1
		ok(t, l.Sync())
		b.groups = append(b.groups, int(l.off))
	}
	ok(t, l.Rotate())
	add(t, l, next, 30)
	ok(t, l.Close())
	var err error
	b.bytes, err = os.ReadFile(b.path)
	ok(t, err)
	return b
}

// alone removes the second file, so that no witness follows the last group of the first.
func (b *built) alone(t *testing.T) {
	ok(t, os.Remove(filepath.Join(b.dir, "wal", "00000002.wal")))
}

var builtSizes = []int{100, 10, 700, 472, 600, 30}

// inFrame reports whether the byte at off belongs to a frame and not to the padding.
func (b *built) inFrame(t *testing.T, off int) bool {
	t.Helper()
	for _, at := range b.groups[:len(b.groups)-1] {
		for pos := at; ; {
			h, ok := decodeFrame(b.bytes[pos:], le.Uint32(b.bytes[56:]))
			if !ok {
				t.Fatalf("no frame at %d", pos)
			}
			if off >= pos && off < pos+frameSize+int(h.length) {
				return true
			}
			pos = int(h.end(int64(pos), groupAlign))
			if h.flags&flagLast != 0 {
				break
			}
		}
	}
	return false
}

// TestBitFlips flips every bit of the frames, and of the header, one at a time. If a later frame or
// file witnesses that the damaged record was durable, it is corruption; in the last group of the
// last file it is a torn tail. A record with other bytes is never delivered (replay checks that).
func TestBitFlips(t *testing.T) {
	for _, second := range []bool{true, false} {
		b := build(t)
		if !second {
			b.alone(t)
		}
		flip := func(off int, mask byte) ([]int, Tail, error) {
			d := slices.Clone(b.bytes)
			d[off] ^= mask
			ok(t, os.WriteFile(b.path, d, 0o600))
			return replay(t, b.o, 0)
		}
		last := b.groups[len(b.groups)-2]
		for off := 0; off < b.groups[len(b.groups)-1]; off++ {
			step := 1
			if off >= 64 && off < fileformat.HeaderCRC || off >= headerSize && !b.inFrame(t, off) {
				step = 8 // the rest of the header, and padding: one bit of each byte
			}
			for bit := 0; bit < 8; bit += step {
				got, tail, err := flip(off, 1<<bit)
				var c *fileformat.CorruptError
				switch {
				case off < headerSize || b.inFrame(t, off) && (second || off < last):
					if !errors.As(err, &c) || c.File != "wal/00000001.wal" || c.Offset > int64(off) {
						t.Fatalf("bit %d of byte %d: %v %v", bit, off, got, err)
					}
				case b.inFrame(t, off):
					if err != nil || tail.Last != 4 {
						t.Fatalf("bit %d of byte %d in the last group: %v %v", bit, off, got, err)
					}
				default:
					if err != nil || tail.Last < 5 {
						t.Fatalf("bit %d of byte %d in the padding: %v %v", bit, off, got, err)
					}
				}
			}
		}
	}
}

// TestWitnesses damages a record and more and more frames of the next group: each remaining frame
// witnesses that the record was durable.
func TestWitnesses(t *testing.T) {
	dir := memDir(t)
	o := options(t, dir, nil)
	l := create(t, o, 1, 0)
	add(t, l, 1, 100)
	ok(t, l.Sync())
	at := int(l.off)
	add(t, l, 2, 10, 700, 472)
	ok(t, l.Close())
	path := filepath.Join(dir, "wal", "00000001.wal")
	d, err := os.ReadFile(path)
	ok(t, err)
	head, err := decodeHeader(d)
	ok(t, err)
	d[headerSize+frameSize] ^= 1
	for left := 3; left >= 0; left-- {
		ok(t, os.WriteFile(path, d, 0o600))
		got, tail, err := replay(t, o, 0)
		var c *fileformat.CorruptError
		if left > 0 && (!errors.As(err, &c) || c.Offset != headerSize) || left == 0 && (err != nil || !tail.Torn) || got != nil {
			t.Errorf("%d frames left: %v %+v %v", left, got, tail, err)
		}
		if left > 0 {
			h, _ := decodeFrame(d[at:], head.salt)
			d[at] ^= 1
			at = int(h.end(int64(at), groupAlign))
		}
	}
}

// TestTruncations: files get their size before their name, so a shorter one is damaged.
func TestTruncations(t *testing.T) {
	b := build(t)
	b.alone(t)
	for n := range b.bytes {
		if n > 5000 && n%7 > 0 {
			continue
		}
		ok(t, os.WriteFile(b.path, b.bytes[:n], 0o600))
		var c *fileformat.CorruptError
		if got, _, err := replay(t, b.o, 0); !errors.As(err, &c) || c.Offset != int64(n) || got != nil {
			t.Fatalf("%d bytes: %v %v", n, got, err)
		}
	}
	// A longer file is odd and harmless.
	ok(t, os.WriteFile(b.path, append(slices.Clone(b.bytes), make([]byte, 100)...), 0o600))
	if got, _, err := replay(t, b.o, 0); err != nil || len(got) != 5 {
		t.Errorf("%v %v", got, err)
	}
}

// TestSectors replaces sectors: zeros, garbage, another sector.
func TestSectors(t *testing.T) {
	b := build(t)
	first, last := b.groups[0], b.groups[len(b.groups)-1]
	for off := 0; off < last; off += sector {
		if off >= headerSize && !b.inFrame(t, off) {
			continue // padding is not looked at
		}
		for name, with := range map[string][]byte{
			"zeros":   make([]byte, sector),
			"garbage": bytes.Repeat([]byte{0xa5, 0x17}, sector/2),
			"another": b.bytes[first+groupAlign*((off/sector+1)%3):][:sector],
		} {
			d := slices.Clone(b.bytes)
			copy(d[off:], with)
			if bytes.Equal(d, b.bytes) {
				continue // zeros within the header
			}
			ok(t, os.WriteFile(b.path, d, 0o600))
			var c *fileformat.CorruptError
			if got, _, err := replay(t, b.o, 0); !errors.As(err, &c) || c.Offset > int64(off) {
				t.Errorf("%s at %d: %v %v", name, off, got, err)
			}
		}
	}
}

// TestTornTail keeps the first n bytes of the last group, or all but the first n, for every n,
// followed by zeros or by the old bytes of a recycled file.
func TestTornTail(t *testing.T) {
	dir := memDir(t)
	o := options(t, dir, nil)
	o.FileSize = 16 << 10
	path := func(name string) string { return filepath.Join(dir, "wal", name) }
	l := create(t, o, 1, 0)
	add(t, l, 1, 1500)
	add(t, l, 2, 1500)
	ok(t, l.Rotate())
	ok(t, l.Release(2))
	add(t, l, 3, 200) // in the recycled file, over the bytes of record 1
	ok(t, l.Sync())
	old, err := os.ReadFile(path("00000002.wal"))
	ok(t, err)
	begin := int(l.off)
	add(t, l, 4, 10, 600, 900)
	end := int(l.off)
	ok(t, l.Close())
	whole, err := os.ReadFile(path("00000002.wal"))
	ok(t, err)
	zeroed := append(slices.Clone(old[:begin]), make([]byte, len(old)-begin)...)

	want := []int{200, 10, 600, 900}
	for name, rest := range map[string][]byte{"recycled": old, "zeroed": zeroed} {
		for n := begin; n <= end; n++ {
			for _, head := range []bool{true, false} {
				d := slices.Clone(whole[:end])
				if head {
					copy(d[n:], rest[n:])
				} else {
					copy(d[:n], rest[:n])
				}
				d = append(d, rest[end:]...)
				ok(t, os.WriteFile(path("00000002.wal"), d, 0o600))
				got, tail, err := replay(t, o, 2)
				if err != nil || len(got) < 1 || !slices.Equal(got, want[:len(got)]) {
					t.Fatalf("%s, cut at %d: %v %v", name, n, got, err)
				}
				complete := bytes.Equal(d[:end], whole[:end]) || len(got) == 4
				if complete && (len(got) != 4 || tail.Torn) || !complete && len(got) == 4 {
					t.Fatalf("%s, cut at %d: %v %+v", name, n, got, tail)
				}
				// The first header is there and the payload is not: visibly torn.
				if head && n >= begin+frameSize && n < begin+frameSize+10 &&
					(!tail.Torn || tail.TornFile != "wal/00000002.wal" || tail.TornOffset != int64(begin)) {
					t.Fatalf("%s, cut at %d: %+v", name, n, tail)
				}
			}
		}
	}
}

// TestTornTailThenMore: after a torn tail the next file begins with the first lost record, and the
// tail is void forever, even if its bytes reappear.
func TestTornTailThenMore(t *testing.T) {
	b := build(t)
	b.alone(t)
	at := b.groups[2] + frameSize
	d := slices.Clone(b.bytes)
	d[at] ^= 1
	ok(t, os.WriteFile(b.path, d, 0o600))
	got, tail, err := replay(t, b.o, 0)
	if err != nil || len(got) != 4 || !tail.Torn || tail.TornOffset != int64(b.groups[2]) {
		t.Fatalf("%v %+v %v", got, tail, err)
	}
	l := create(t, b.o, 5, 4)
	add(t, l, 5, 33)
	ok(t, l.Close())
	for range 2 {
		got, tail, err := replay(t, b.o, 0)
		if err != nil || !slices.Equal(got, []int{100, 10, 700, 472, 33}) || tail.Torn {
			t.Fatalf("%v %+v %v", got, tail, err)
		}
		ok(t, os.WriteFile(b.path, b.bytes, 0o600))
	}
}

// TestNotNeeded: damage in records that are durable elsewhere does not prevent opening the log.
func TestNotNeeded(t *testing.T) {
	b := build(t)
	d := slices.Clone(b.bytes)
	d[b.groups[1]+60] ^= 1
	ok(t, os.WriteFile(b.path, d, 0o600))
	if got, _, err := replay(t, b.o, 5); err != nil || !slices.Equal(got, []int{30}) {
		t.Errorf("%v %v", got, err)
	}
	if _, _, err := replay(t, b.o, 4); err == nil {
		t.Error("damage was not found")
	}
	d[40] ^= 1 // the header too
	ok(t, os.WriteFile(b.path, d, 0o600))
	if got, _, err := replay(t, b.o, 5); err != nil || !slices.Equal(got, []int{30}) {
		t.Errorf("header: %v %v", got, err)
	}
	l := create(t, b.o, 7, 6)
	if f := l.Files()[0]; f.Last != 5 {
		t.Errorf("%+v", f)
	}
	ok(t, l.Release(5))
	ok(t, l.Close())
	if got, tail, err := replay(t, b.o, 5); err != nil || len(got) != 1 || tail.Files != 1 {
		t.Errorf("%v %+v %v", got, tail, err)
	}

	// In the only file: above `after` there are no records, or there are.
	b = build(t)
	b.alone(t)
	d = slices.Clone(b.bytes)
	d[b.groups[1]+60] ^= 1
	ok(t, os.WriteFile(b.path, d, 0o600))
	if _, _, err := replay(t, b.o, 5); err != nil {
		t.Error(err)
	}
	if _, _, err := replay(t, b.o, 4); err == nil {
		t.Error("damage was not found")
	}
}

// TestOtherKindsNotNeeded puts other things in the place of a file that is no longer needed. They
// are removed, so that every later replay succeeds; a directory with something in it is refused.
func TestOtherKindsNotNeeded(t *testing.T) {
	for what, put := range map[string]func(path string) error{
		"directory":      func(path string) error { return os.Mkdir(path, 0o700) },
		"full directory": func(path string) error { return os.MkdirAll(filepath.Join(path, "x"), 0o700) },
		"link":           func(path string) error { return os.Symlink("nowhere", path) },
		"loop":           func(path string) error { return os.Symlink(filepath.Base(path), path) },
		"link out":       func(path string) error { return os.Symlink(os.DevNull, path) },
	} {
		t.Run(what, func(t *testing.T) {
			b := build(t)
			ok(t, os.Remove(b.path))
			if err := put(b.path); err != nil {
				t.Skip("skipped: no symbolic links: ", err)
			}
			_, tail, err := replay(t, b.o, 5)
			ok(t, err)
			l, err := Create(b.o, tail.Last+1, tail.Last)
			if what == "full directory" {
				if err == nil || !strings.Contains(err.Error(), "wal/00000001.wal: a directory, not a regular file; the log does not need it") {
					t.Errorf("create: %v", err)
				}
				return
			}
			ok(t, err)
			ok(t, l.Release(tail.Last))
			ok(t, l.Close())
			if _, tail, err = replay(t, b.o, tail.Last); err != nil || tail.Files != 0 {
				t.Errorf("replay: %+v, %v", tail, err)
			}
		})
	}
}

func TestHoles(t *testing.T) {
	dir := memDir(t)
	o := options(t, dir, nil)
	l := create(t, o, 1, 0)
	for i := range uint64(4) {
		add(t, l, i+1, 10)
		ok(t, l.Rotate())
	}
	ok(t, l.Close())
	var c *fileformat.CorruptError
	check := func(after uint64, file string, delivered int) {
		t.Helper()
		got, _, err := replay(t, o, after)
		if !errors.As(err, &c) || c.File != file || len(got) != delivered {
			t.Errorf("after %d: %v %v", after, got, err)
		}
	}
	ok(t, os.Remove(filepath.Join(dir, "wal", "00000001.wal")))
	check(0, "wal/00000002.wal", 0)
	ok(t, os.Rename(filepath.Join(dir, "wal", "00000003.wal"), filepath.Join(dir, "wal", "x")))
	check(1, "wal/00000002.wal", 1)
	check(2, "wal/00000002.wal", 0)
	named := func(err error) { // the file that was removed
		t.Helper()
		const want = "wal/00000004.wal begins with record 4, and wal/00000003.wal is not there"
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	named(c)
	var gaps []Gap
	_, err := Salvage(o, 1, 0, func(uint64, []byte) error { return nil }, func(g Gap) { gaps = append(gaps, g) })
	if ok(t, err); len(gaps) != 1 {
		t.Fatal(gaps)
	}
	named(gaps[0].Err)
	if got, _, err := replay(t, o, 3); err != nil || len(got) != 1 {
		t.Errorf("%v %v", got, err)
	}
	// A file with the number of another.
	ok(t, os.Rename(filepath.Join(dir, "wal", "x"), filepath.Join(dir, "wal", "00000005.wal")))
	check(3, "wal/00000005.wal", 0)
	ok(t, os.Remove(filepath.Join(dir, "wal", "00000005.wal")))
	// A file of another database.
	o.DB[3]++
	check(3, "wal/00000002.wal", 0)
}

func TestVersion(t *testing.T) {
	b := build(t)
	d := slices.Clone(b.bytes)
	d[8] = 3
	le.PutUint32(d[fileformat.HeaderCRC:], codec.CRC(d[:fileformat.HeaderCRC]))
	ok(t, os.WriteFile(b.path, d, 0o600))
	_, _, err := replay(t, b.o, 0)
	var c *fileformat.CorruptError
	if !errors.Is(err, fileformat.ErrVersion) || errors.As(err, &c) {
		t.Error(err)
	}
}

// TestChain: an intact frame in the wrong place is not part of the log.
func TestChain(t *testing.T) {
	b := build(t)
	salt := le.Uint32(b.bytes[56:])
	for name, change := range map[string]func(h *frameHeader){
		"substituted": func(h *frameHeader) { h.durable++ }, // so that the next frame does not follow
		"other LSN":   func(h *frameHeader) { h.lsn += 2 },
		"other chain": func(h *frameHeader) { h.prev ^= 1 },
		"beyond file": func(h *frameHeader) { h.length = 1 << 20 },
		"too long":    func(h *frameHeader) { h.length = 1<<32 - 1 },
	} {
		d := slices.Clone(b.bytes)
		frame := d[b.groups[1]:][:frameSize]
		h, _ := decodeFrame(frame, salt)
		change(&h)
		h.encode(frame, salt)
		ok(t, os.WriteFile(b.path, d, 0o600))
		got, _, err := replay(t, b.o, 0)
		var c *fileformat.CorruptError
		if !errors.As(err, &c) || len(got) > 2 {
			t.Errorf("%s: %v %v", name, got, err)
		}
		// Damage to the last frame does not affect the others.
		b2 := build(t)
		b2.alone(t)
		d = slices.Clone(b2.bytes)
		frame = d[b2.groups[2]:][:frameSize]
		salt2 := le.Uint32(d[56:])
		h, _ = decodeFrame(frame, salt2)
		change(&h)
		h.encode(frame, salt2)
		ok(t, os.WriteFile(b2.path, d, 0o600))
		if got, _, err := replay(t, b2.o, 0); len(got) < 4 || len(got) == 5 && name != "substituted" {
			t.Errorf("last, %s: %v %v", name, got, err)
		}
	}
}
