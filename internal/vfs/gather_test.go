package vfs_test

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/vecbolt/vecbolt/internal/vfs"
)

// pieces is a file in memory that records the length of each write, or fails all of them.
type pieces struct {
	b    []byte // the file
	lens []int
	fail error
}

func (p *pieces) WriteAt(b []byte, off int64) (int, error) {
	if p.fail != nil {
		return 0, p.fail
	}
	if n := int(off) + len(b) - len(p.b); n > 0 {
		p.b = append(p.b, make([]byte, n)...)
	}
	p.lens = append(p.lens, len(b))
	return copy(p.b[off:], b), nil
}

// TestGather: however the bytes come, they are in the file, in pieces that end at multiples of
// HugePage.
func TestGather(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		off := rapid.Int64Range(0, 2*vfs.HugePage).Draw(t, "off")
		var file pieces
		g := vfs.NewGather(&file, off)
		want := make([]byte, off)
		for i, n := range rapid.SliceOfN(rapid.IntRange(0, 3*vfs.HugePage/2), 1, 6).Draw(t, "lens") {
			b := bytes.Repeat([]byte{byte(i + 1)}, n)
			want = append(want, b...)
			if got, err := g.Write(b); got != n || err != nil {
				t.Fatal(got, err)
			}
		}
		at := off
		for _, n := range file.lens {
			if at += int64(n); at%vfs.HugePage != 0 {
				t.Fatalf("a piece ends at %d", at)
			}
		}
		if err := g.Flush(); err != nil {
			t.Fatal(err)
		}
		if len(want) > int(off) && !bytes.Equal(file.b, want) {
			t.Fatal("other bytes")
		}
	})
}

func TestGatherFails(t *testing.T) {
	file := pieces{fail: errors.New("disk")}
	g := vfs.NewGather(&file, 0)
	if _, err := g.Write(make([]byte, vfs.HugePage-1)); err != nil {
		t.Error(err)
	}
	if err := g.Flush(); !errors.Is(err, file.fail) {
		t.Error(err)
	}
	g = vfs.NewGather(&file, 0)
	if _, err := g.Write(make([]byte, vfs.HugePage)); !errors.Is(err, file.fail) {
		t.Error(err)
	}
}
