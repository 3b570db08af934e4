package wal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// salvage returns the numbers of the records that Salvage delivers, whose bytes it checks, and the
// gaps, which fit in between.
func salvage(t testing.TB, o Options, after uint64) (lsns []uint64, gaps []string, tail Tail, err error) {
	t.Helper()
	next := after + 1
	tail, err = Salvage(o, after, func(lsn uint64, b []byte) error {
		if lsn != next {
			t.Errorf("record %d, expected %d", lsn, next)
		}
		if !bytes.Equal(b, payload(lsn, len(b))) {
			t.Errorf("record %d has other bytes", lsn)
		}
		lsns, next = append(lsns, lsn), lsn+1
		return nil
	}, func(g Gap) {
		if g.First != next || !errors.Is(g.Err, fileformat.ErrCorrupt) {
			t.Errorf("gap %+v, expected from %d on", g, next)
		}
		gaps, next = append(gaps, g.String()), g.Last+1
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
		{"the header of a file", flip(40), 0, []uint64{6}, []string{"5 are lost, numbers 1 to 5"}},
		{"a file", func(t *testing.T, b built) { ok(t, os.Remove(b.path)) }, 0, []uint64{6}, []string{"5 are lost, numbers 1 to 5"}},
		{"a file cut short", func(t *testing.T, b built) { ok(t, os.Truncate(b.path, 5000)) }, 0, []uint64{6},
			[]string{"5 are lost, numbers 1 to 5"}},
		{"the header of the last file", func(t *testing.T, b built) {
			ok(t, os.WriteFile(file(b, 2), make([]byte, 16<<10), 0o600))
		}, 0, []uint64{1, 2, 3, 4, 5}, []string{"all from number 6 on are lost, and nothing tells how many"}},
		{"the headers of the last two files", func(t *testing.T, b built) {
			ok(t, os.WriteFile(file(b, 2), make([]byte, 16<<10), 0o600))
			ok(t, os.WriteFile(file(b, 3), make([]byte, 16<<10), 0o600))
		}, 0, []uint64{1, 2, 3, 4, 5}, []string{"all from number 6 on are lost, and nothing tells how many"}},
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
			got, gaps, tail, err := salvage(t, b.o, test.after)
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
			got, gaps, tail, err := salvage(t, b.o, 0)
			sizes, whole, damage := replay(t, b.o, 0)
			switch {
			case err != nil || len(gaps) > 1 || (damage == nil) != (gaps == nil):
				t.Fatalf("byte %d: %v, %q, %v, %v", off, got, gaps, err, damage)
			case damage == nil && (len(got) != len(sizes) || tail != whole):
				t.Fatalf("byte %d: %v, %+v; replay delivers %d, %+v", off, got, tail, len(sizes), whole)
			case off >= headerSize && len(got) < len(builtSizes)-2:
				t.Fatalf("byte %d: only %v", off, got)
			}
		}
	}
}
