package blocks

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

var testFormat = Format{Magic: "TESTTEST", Version: 3, Name: "test"}

// write writes pieces as runs; all but the last end at the end of a block. The header holds the end
// of the content.
func write(w io.WriterAt, runs ...[][]byte) error {
	var all []*Writer
	off := int64(HeaderSize)
	for _, pieces := range runs {
		r := NewWriter(w, off)
		for i, p := range pieces {
			if i%2 == 0 {
				r.Add(p)
			} else {
				r.Out = append(r.Out, p...)
				_ = r.Spill()
			}
		}
		off = r.At()
		all = append(all, r)
	}
	return testFormat.Finish(w, func(end int64, crc uint32) []byte {
		e := testFormat.Header()
		e.U64(uint64(end))
		e.U32(crc)
		return fileformat.SealHeader(e)
	}, all...)
}

func open(b []byte) (*Content, error) {
	d, err := testFormat.Open(b)
	if err != nil {
		return nil, err
	}
	end, crc := int64(d.U64()), d.U32()
	if end < HeaderSize || end > int64(len(b)) || int64(len(b)) != end+TableSize(end) {
		return nil, testFormat.Corrupt(12, "ends at %d of %d", end, len(b))
	}
	return testFormat.Content(b, end, crc)
}

func random(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func TestRoundTrip(t *testing.T) {
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, sizes := range [][][]int{{{1}}, {{Size}}, {{Size - 1, 2}}, {{0, 5 * gathered, 3}}, {{17, 9 * Size, 1, gathered}}, {{Size, Size}, {5}}, {{3 * Size}, {2, 700_000}}} {
		t.Run(fmt.Sprint(sizes), func(t *testing.T) {
			var want []byte
			var runs [][][]byte
			for _, run := range sizes {
				var pieces [][]byte
				for _, n := range run {
					pieces = append(pieces, random(rng, n))
					want = append(want, pieces[len(pieces)-1]...)
				}
				runs = append(runs, pieces)
			}
			var file Memory
			if err := write(&file, runs...); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(file[HeaderSize:][:len(want)], want) {
				t.Fatal("content differs")
			}
			c, err := open(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Touch(HeaderSize+1, HeaderSize+1); err != nil || c.Verified() {
				t.Fatalf("nothing was touched: %v, verified %t", err, c.Verified())
			}
			for range 2 {
				if err := c.Verify(); err != nil || !c.Verified() {
					t.Fatalf("verify: %v, verified %t", err, c.Verified())
				}
			}
		})
	}
}

func TestPad(t *testing.T) {
	var file Memory
	w := NewWriter(&file, HeaderSize)
	w.Add([]byte{1, 2, 3})
	if w.Pad(64); w.At() != HeaderSize+64 {
		t.Errorf("padded to %d", w.At())
	}
	if w.Pad(64); w.At() != HeaderSize+64 {
		t.Errorf("padded again to %d", w.At())
	}
	if w.PadTo(HeaderSize + Size); w.At() != HeaderSize+Size {
		t.Errorf("padded to %d", w.At())
	}
}

// VerifyOne comes to the end of a range, one block at a time, and reports a damaged one.
func TestVerifyOne(t *testing.T) {
	const seed, size, bad = 3, 150, 77
	var file Memory
	if err := write(&file, [][]byte{random(rand.New(rand.NewPCG(seed, 0)), size*Size)}); err != nil {
		t.Fatal(err)
	}
	file[HeaderSize+bad*Size+5]++
	c, err := open(file)
	if err != nil {
		t.Fatal(err)
	}
	start, end := int64(HeaderSize+70*Size+9), int64(HeaderSize+140*Size+1)
	if err := c.Touch(start, start+1); err != nil {
		t.Fatal(err)
	}
	damaged := 0
	for range 200 {
		if err := c.VerifyOne(start, end); err != nil {
			if damaged++; !errors.Is(err, fileformat.ErrDamaged) {
				t.Fatal(err)
			}
			file[HeaderSize+bad*Size+5]--
		}
	}
	if left := c.left.Load(); damaged != 1 || left != size-71 || !c.Touched(start, end) {
		t.Errorf("%d damaged blocks, %d left", damaged, left)
	}
	for range c.left.Load() {
		if err := c.VerifyOne(HeaderSize, c.end); err != nil {
			t.Fatal(err)
		}
	}
	if !c.Verified() || c.VerifyOne(HeaderSize, c.end) != nil {
		t.Errorf("%d blocks left", c.left.Load())
	}
}

// TestDamage changes every byte of the header and some of every other block: Touch must report each
// change in its own block.
func TestDamage(t *testing.T) {
	const seed = 2
	rng := rand.New(rand.NewPCG(seed, 0))
	var good Memory
	if err := write(&good, [][]byte{random(rng, 3*Size+100)}); err != nil {
		t.Fatal(err)
	}
	end := int64(HeaderSize + 3*Size + 100)
	for at := int64(0); at < int64(len(good)); at++ {
		if at == HeaderSize+10 {
			at = end - 3 // skip the rest of the blocks, tested below
		}
		bad := bytes.Clone(good)
		bad[at] ^= 1 << rng.IntN(8)
		c, err := open(bad)
		if at < HeaderSize || at >= end {
			if !errors.Is(err, fileformat.ErrDamaged) {
				t.Fatalf("byte %d: %v", at, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("byte %d, before it is touched: %v", at, err)
		}
		for b := range int64(4) {
			from := HeaderSize + b*Size
			err := c.Touch(from, min(from+Size, end))
			if hit := b == (at-HeaderSize)/Size; hit != errors.Is(err, fileformat.ErrDamaged) {
				t.Fatalf("byte %d, block %d: %v", at, b, err)
			}
		}
		if c.Verified() || !errors.Is(c.Verify(), fileformat.ErrDamaged) {
			t.Fatalf("byte %d: verified", at)
		}
	}
	for _, n := range []int{0, 7, HeaderSize - 1, HeaderSize, len(good) - 1} {
		if _, err := open(good[:n]); !errors.Is(err, fileformat.ErrDamaged) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestOtherVersion(t *testing.T) {
	later := testFormat
	later.Version++
	if _, err := testFormat.Open(fileformat.SealHeader(later.Header())); !errors.Is(err, fileformat.ErrVersion) {
		t.Errorf("a later version: %v", err)
	}
	other := testFormat
	other.Magic = "OTHEROTH"
	if _, err := testFormat.Open(fileformat.SealHeader(other.Header())); !errors.Is(err, fileformat.ErrDamaged) {
		t.Errorf("another format: %v", err)
	}
}

// A failing file accepts a number of writes and fails the next.
type failing int

var errFull = errors.New("full")

func (f *failing) WriteAt(b []byte, _ int64) (int, error) {
	if *f--; *f < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestFailedWrites(t *testing.T) {
	content := [][]byte{make([]byte, 2*vfs.HugePage)} // three pieces
	for n := failing(0); ; n++ {
		f := n
		err := write(&f, content)
		if f >= 0 { // accepted all writes
			if err != nil || n < 5 {
				t.Errorf("%d writes taken: %v", n, err)
			}
			return
		}
		if !errors.Is(err, errFull) {
			t.Fatalf("%d writes taken: %v", n, err)
		}
	}
}

func TestChecksumOfNothing(t *testing.T) {
	b := fileformat.SealHeader(testFormat.Header())
	c, err := testFormat.Content(b, HeaderSize, codec.CRC())
	if err != nil || !c.Verified() || c.Verify() != nil {
		t.Errorf("no content: %v", err)
	}
}
