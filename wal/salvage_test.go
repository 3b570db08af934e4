package wal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// salvage returns the numbers of the records that Salvage delivers, whose bytes it checks, and the
// gaps, which fit in between.
func salvage(t testing.TB, o Options, after, last uint64) (lsns []uint64, gaps []string, tail Tail, err error) {
	t.Helper()
	next := after + 1
	tail, err = Salvage(o, after, last, func(lsn uint64, b []byte) error {
		if lsn != next {
			t.Errorf("record %d, expected %d", lsn, next)
		}
		if !bytes.Equal(b, payload(lsn, len(b))) {
			t.Errorf("record %d has other bytes", lsn)
		}
		lsns, next = append(lsns, lsn), lsn+1
		return nil
	}, func(g Gap) {
		if !errors.Is(g.Err, fileformat.ErrCorrupt) {
			t.Errorf("gap of %v", g.Err)
		}
		if gaps = append(gaps, g.String()); g.First == 0 {
			return
		}
		if g.First != next {
			t.Errorf("gap %+v, expected from %d on", g, next)
		}
		next = g.Last + 1
	})
	return lsns, gaps, tail, err
}

func TestSalvage(t *testing.T) {
	file := func(b built, number int) string { return filepath.Join(b.dir, "wal", fmt.Sprintf("%08x.wal", number)) }
	flip := func(offs ...int) func(*testing.T, built) {
		return func(t *testing.T, b built) {
			d := slices.Clone(b.bytes)
			for _, off := range offs {
				d[off] ^= 1
			}
			ok(t, os.WriteFile(b.path, d, 0o600))
		}
	}
	zero := func(off int) func(*testing.T, built) { // the header, and changes a byte behind it
		return func(t *testing.T, b built) {
			b.bytes[off] ^= 1
			clear(b.bytes[:headerSize])
			ok(t, os.WriteFile(b.path, b.bytes, 0o600))
		}
	}
	cut := func(size int) func(*testing.T, built) {
		return func(t *testing.T, b built) { ok(t, os.Truncate(b.path, int64(size))) }
	}
	earlier := func(t *testing.T, b built) {
		b.bytes[8] = unpaged
		ok(t, os.WriteFile(b.path, b.bytes, 0o600))
	}
	sample := build(t)
	first, second, third := sample.groups[0], sample.groups[1], sample.groups[2]
	fourth := second + frameSize + 16 // record 3 follows record 2, of 10 bytes
	for _, test := range []struct {
		name   string
		damage func(*testing.T, built)
		after  uint64
		want   []uint64
		gaps   []string
	}{
		{"none", flip(), 0, []uint64{1, 2, 3, 4, 5, 6}, nil},
		{"a payload", flip(second + frameSize), 0, []uint64{1, 3, 4, 5, 6}, []string{"number 2 is lost"}},
		{"a header", flip(second + 8), 0, []uint64{1, 3, 4, 5, 6}, []string{"number 2 is lost"}},
		{"the first two", flip(first, second), 0, []uint64{3, 4, 5, 6}, []string{"2 are lost, numbers 1 to 2"}},
		{"two places", flip(first, fourth+frameSize), 0, []uint64{2, 4, 5, 6}, []string{"number 1 is lost", "number 3 is lost"}},
		{"the last of a file", flip(third + frameSize), 0, []uint64{1, 2, 3, 4, 6}, []string{"number 5 is lost"}},
		{"not needed", flip(second + frameSize), 2, []uint64{3, 4, 5, 6}, nil},
		{"partly needed", flip(first, second), 1, []uint64{3, 4, 5, 6}, []string{"number 2 is lost"}},
		{"the header of a file", flip(headerSize - 8), 0, []uint64{1, 2, 3, 4, 5, 6}, []string{"none is lost"}},
		{"a field of the header", flip(40), 0, []uint64{1, 2, 3, 4, 5, 6}, []string{"none is lost"}},
		{"the size in the header", flip(48), 0, []uint64{1, 2, 3, 4, 5, 6}, []string{"none is lost"}},
		{"the size in the header of the only file", func(t *testing.T, b built) {
			b.alone(t)
			flip(48)(t, b)
		}, 0, []uint64{1, 2, 3, 4, 5}, []string{"none is lost"}},
		{"the size in the header, and a torn tail", func(t *testing.T, b built) {
			b.alone(t)
			flip(48, third+frameSize)(t, b)
		}, 0, []uint64{1, 2, 3, 4}, []string{"none is lost"}},
		{"the version reads as the one before", earlier, 0, []uint64{1, 2, 3, 4, 5, 6}, []string{"none is lost"}},
		{"the version of the only file reads as the one before", func(t *testing.T, b built) {
			b.alone(t)
			earlier(t, b)
		}, 0, []uint64{1, 2, 3, 4, 5}, []string{"none is lost"}},
		{"the version reads as the one before, and a payload is damaged", func(t *testing.T, b built) {
			b.bytes[second+frameSize] ^= 1
			earlier(t, b)
		}, 0, []uint64{1, 3, 4, 5, 6}, []string{"number 2 is lost", "none is lost"}},
		{"the version before reads as this one", func(t *testing.T, b built) {
			d := slices.Clone(b.bytes[:headerSize])
			for i, at := range b.groups[:3] {
				group := bytes.TrimRight(b.bytes[at:b.groups[i+1]], "\x00")
				d = append(d, group...)
				d = append(d, make([]byte, -len(d)&(sector-1))...)
			}
			copy(b.bytes, append(d, make([]byte, len(b.bytes)-len(d))...))
			flip(40)(t, b)
		}, 0, []uint64{1, 2, 3, 4, 5, 6}, []string{"none is lost"}},
		{"the salt", flip(56), 0, []uint64{1, 2, 3, 4, 5, 6}, []string{"none is lost"}},
		{"the database of the header", flip(16), 0, []uint64{1, 2, 3, 4, 5, 6}, []string{"none is lost"}},
		{"a header of zeros", zero(0), 0, []uint64{1, 2, 3, 4, 5, 6}, []string{"none is lost"}},
		{"a header of zeros in the only file", func(t *testing.T, b built) {
			b.alone(t)
			zero(0)(t, b)
		}, 0, []uint64{1, 2, 3, 4, 5}, []string{"none is lost"}},
		{"a header of zeros, and a payload", zero(second + frameSize), 0, []uint64{1, 3, 4, 5, 6},
			[]string{"number 2 is lost", "none is lost"}},
		{"a header of zeros, and the first payload", zero(first + frameSize), 0, []uint64{2, 3, 4, 5, 6},
			[]string{"number 1 is lost", "none is lost"}},
		{"a header of zeros, and the first frame", zero(first + 8), 0, []uint64{6}, []string{"5 are lost, numbers 1 to 5"}},
		{"the header and the first frame", flip(40, first), 0, []uint64{6}, []string{"5 are lost, numbers 1 to 5"}},
		{"the header and another frame", flip(40, second), 0, []uint64{1, 3, 4, 5, 6}, []string{"number 2 is lost", "none is lost"}},
		{"the header of the only file", func(t *testing.T, b built) {
			b.alone(t)
			flip(32, second)(t, b)
		}, 0, []uint64{1, 3, 4, 5}, []string{"number 2 is lost", "none is lost"}},
		{"a file", func(t *testing.T, b built) { ok(t, os.Remove(b.path)) }, 0, []uint64{6}, []string{"5 are lost, numbers 1 to 5"}},
		{"a file cut short", cut(second - 1), 0, []uint64{1, 6}, []string{"4 are lost, numbers 2 to 5"}},
		{"a file cut short in its header", cut(headerSize - 1), 0, []uint64{6}, []string{"5 are lost, numbers 1 to 5"}},
		{"a file cut short behind its records", cut(sample.groups[3] - 1), 0, []uint64{1, 2, 3, 4, 5, 6}, []string{"none is lost"}},
		{"the last file cut short", func(t *testing.T, b built) {
			b.alone(t)
			cut(third)(t, b)
		}, 0, []uint64{1, 2, 3, 4}, []string{"any from number 5 on are lost, and nothing tells how many"}},
		{"the last file cut short, and a payload", func(t *testing.T, b built) {
			b.alone(t)
			flip(first+frameSize)(t, b)
			ok(t, os.Truncate(b.path, int64(third)))
		}, 0, []uint64{2, 3, 4}, []string{"number 1 is lost", "any from number 5 on are lost, and nothing tells how many"}},
		{"the header of the last file", func(t *testing.T, b built) {
			ok(t, os.WriteFile(file(b, 2), make([]byte, 16<<10), 0o600))
		}, 0, []uint64{1, 2, 3, 4, 5}, []string{"any from number 6 on are lost, and nothing tells how many"}},
		{"the headers of the last two files", func(t *testing.T, b built) {
			ok(t, os.WriteFile(file(b, 2), make([]byte, 16<<10), 0o600))
			ok(t, os.WriteFile(file(b, 3), make([]byte, 16<<10), 0o600))
		}, 0, []uint64{1, 2, 3, 4, 5}, []string{"any from number 6 on are lost, and nothing tells how many"}},
		{"a torn tail", func(t *testing.T, b built) {
			b.alone(t)
			flip(third+frameSize)(t, b)
		}, 0, []uint64{1, 2, 3, 4}, nil},
		{"damage before a torn tail", func(t *testing.T, b built) {
			b.alone(t)
			flip(first, third+frameSize)(t, b)
		}, 0, []uint64{2, 3, 4}, []string{"number 1 is lost"}},
		{"a header between files", func(t *testing.T, b built) {
			l := create(t, b.o, 7, 6)
			add(t, l, 7, 40)
			ok(t, l.Close())
			ok(t, os.WriteFile(file(b, 2), make([]byte, 16<<10), 0o600))
			flip(second)(t, b)
		}, 0, []uint64{1, 3, 4, 5, 7}, []string{"number 2 is lost", "number 6 is lost"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := build(t)
			test.damage(t, b)
			got, gaps, tail, err := salvage(t, b.o, test.after, 0)
			if err != nil || !slices.Equal(got, test.want) || !slices.Equal(gaps, test.gaps) || tail.Last != got[len(got)-1] {
				t.Errorf("%v, %q, %+v, %v", got, gaps, tail, err)
			}
			if test.after > 0 {
				return // Replay needs the records before that one too, to find the others
			}
			_, whole, err := replay(t, b.o, 0)
			if (err == nil) != (gaps == nil) || err == nil && whole != tail {
				t.Errorf("replay ends with %+v, %v, salvage with %+v", whole, err, tail)
			}
		})
	}
}

// TestSalvageToAKnownEnd salvages a log whose last record the caller knows: all records up to it
// were durable.
func TestSalvageToAKnownEnd(t *testing.T) {
	sample := build(t)
	first, second, third := sample.groups[0], sample.groups[1], sample.groups[2]
	for _, test := range []struct {
		name  string
		flips []int
		cut   int // 0: not
		last  uint64
		want  []uint64
		gaps  []string
	}{
		{"none", nil, 0, 5, []uint64{1, 2, 3, 4, 5}, nil},
		{"fewer records", nil, 0, 3, []uint64{1, 2, 3}, nil},
		{"more records", nil, 0, 7, []uint64{1, 2, 3, 4, 5}, []string{"2 are lost, numbers 6 to 7"}},
		{"the last group", []int{third}, 0, 5, []uint64{1, 2, 3, 4}, []string{"number 5 is lost"}},
		{"in a group", []int{second, third}, 0, 5, []uint64{1, 3, 4}, []string{"number 2 is lost", "number 5 is lost"}},
		{"behind the end", []int{third}, 0, 4, []uint64{1, 2, 3, 4}, nil},
		{"the header", []int{56}, 0, 5, []uint64{1, 2, 3, 4, 5}, []string{"none is lost"}},
		{"the header and the first frame", []int{56, first}, 0, 5, nil, []string{"5 are lost, numbers 1 to 5"}},
		{"cut", nil, third, 5, []uint64{1, 2, 3, 4}, []string{"number 5 is lost"}},
		{"cut behind the end", nil, third, 4, []uint64{1, 2, 3, 4}, []string{"none is lost"}},
		{"a payload, and cut", []int{first + frameSize}, third, 5, []uint64{2, 3, 4}, []string{"number 1 is lost", "number 5 is lost"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := build(t)
			b.alone(t)
			for _, off := range test.flips {
				b.bytes[off] ^= 1
			}
			if test.cut > 0 {
				b.bytes = b.bytes[:test.cut]
			}
			ok(t, os.WriteFile(b.path, b.bytes, 0o600))
			got, gaps, _, err := salvage(t, b.o, 0, test.last)
			if err != nil || !slices.Equal(got, test.want) || !slices.Equal(gaps, test.gaps) {
				t.Errorf("%v, %q, %v", got, gaps, err)
			}
		})
	}
}

// TestSalvageUnreadable has bytes that cannot be read. Replay ends with the error of the disk, and
// for Salvage they are damage.
func TestSalvageUnreadable(t *testing.T) {
	sample := build(t)
	second, third := int64(sample.groups[1]), int64(sample.groups[2])
	for _, test := range []struct {
		name     string
		from, to int64 // of the first file
		alone    bool
		want     []uint64
		gaps     []string
	}{
		{"the header", 0, 1, false, []uint64{1, 2, 3, 4, 5, 6}, []string{"none is lost"}},
		{"the header of the last file", 0, 1, true, []uint64{1, 2, 3, 4, 5}, []string{"none is lost"}},
		{"the header and the first frame", 0, headerSize + 1, false, []uint64{6}, []string{"5 are lost, numbers 1 to 5"}},
		{"the beginning of the last file", 0, headerSize + 1, true, nil,
			[]string{"any from number 1 on are lost, and nothing tells how many"}},
		{"a group", second, second + 1, false, []uint64{1, 5, 6}, []string{"3 are lost, numbers 2 to 4"}},
		{"a group before the last", second, second + 1, true, []uint64{1, 5}, []string{"3 are lost, numbers 2 to 4"}},
		{"the last group", third, third + 1, true, []uint64{1, 2, 3, 4},
			[]string{"any from number 5 on are lost, and nothing tells how many"}},
		{"all groups", headerSize, 1 << 20, false, []uint64{6}, []string{"5 are lost, numbers 1 to 5"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := build(t)
			if test.alone {
				b.alone(t)
			}
			broken := options(t, b.dir, func(op vfs.Op) error {
				if op.Kind == vfs.OpRead && op.Name == "wal/00000001.wal" && op.Off < test.to && test.from < op.Off+int64(op.Len) {
					return syscall.EIO
				}
				return nil
			})
			got, gaps, _, err := salvage(t, broken, 0, 0)
			if err != nil || !slices.Equal(got, test.want) || !slices.Equal(gaps, test.gaps) {
				t.Errorf("%v, %q, %v", got, gaps, err)
			}
			if _, _, err := replay(t, broken, 0); (gaps != nil) != (err != nil) || errors.Is(err, fileformat.ErrCorrupt) {
				t.Errorf("replay: %v", err)
			}
		})
	}
}

// TestSalvageBitFlips flips a bit of every byte: each record is delivered or in a gap, and there is
// a gap where Replay finds damage.
func TestSalvageBitFlips(t *testing.T) {
	for _, second := range []bool{true, false} {
		b := build(t)
		if !second {
			b.alone(t)
		}
		for off := range b.groups[len(b.groups)-1] {
			d := slices.Clone(b.bytes)
			d[off] ^= 1 << (off % 8)
			ok(t, os.WriteFile(b.path, d, 0o600))
			got, gaps, tail, err := salvage(t, b.o, 0, 0)
			sizes, whole, damage := replay(t, b.o, 0)
			switch {
			case err != nil || len(gaps) > 1 || (damage == nil) != (gaps == nil):
				t.Fatalf("byte %d: %v, %q, %v, %v", off, got, gaps, err, damage)
			case damage == nil && (len(got) != len(sizes) || tail != whole):
				t.Fatalf("byte %d: %v, %+v; replay delivers %d, %+v", off, got, tail, len(sizes), whole)
			case len(got) < len(builtSizes)-2 && !(off >= 16 && off < 32 || off >= 56 && off < 60): // database and salt
				t.Fatalf("byte %d: only %v", off, got)
			}
		}
	}
}

// TestRemakeHeader makes headers of both versions from their first frames, and from no others.
func TestRemakeHeader(t *testing.T) {
	for v, align := range map[uint32]int64{version: groupAlign, unpaged: sector} {
		for _, salt := range []uint32{0, 1, 0x5a17, 1 << 31, ^uint32(0)} {
			want := fileHeader{db: [16]byte{3, 14}, seq: 15, base: 92, size: 65 << 10, salt: salt, align: align}
			want.encodeAs(v)
			first := frameHeader{length: 3, lsn: want.base, durable: 91, prev: want.crc, payload: 5, flags: flagLast}
			b := make([]byte, frameSize)
			first.encode(b, salt)
			if got, ok := remakeHeader(b, want.db, want.seq, int64(want.size)); !ok || got != want {
				t.Errorf("version %d, salt %x: %+v, %v, want %+v", v, salt, got, ok, want)
			}
			if _, ok := remakeHeader(b, [16]byte{3}, want.seq, int64(want.size)); ok {
				t.Errorf("version %d, salt %x: taken for another database", v, salt)
			}
			if _, ok := remakeHeader(b, want.db, want.seq+1, int64(want.size)); ok {
				t.Errorf("version %d, salt %x: taken for another file", v, salt)
			}
			for i := range b {
				b[i] ^= 1
				if _, ok := remakeHeader(b, want.db, want.seq, int64(want.size)); ok {
					t.Errorf("version %d, salt %x: taken with a change at %d", v, salt, i)
				}
				b[i] ^= 1
			}
		}
	}
}
