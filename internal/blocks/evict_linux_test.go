package blocks

import (
	"math/rand/v2"
	"testing"

	"github.com/vecbolt/vecbolt/internal/vfs"
)

// A file is evicted once verified blocks of it are no longer in memory. Blocks that were never read
// say nothing.
func TestEvicted(t *testing.T) {
	const seed, blocks = 8, 200
	var file Memory
	if err := write(&file, [][]byte{random(rand.New(rand.NewPCG(seed, 0)), blocks*Size)}); err != nil {
		t.Fatal(err)
	}
	fsys, err := vfs.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer fsys.Close()
	if err := fsys.WriteFileAtomic("file", file); err != nil {
		t.Fatal(err)
	}
	f, err := fsys.Open("file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := f.Map(int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	c, err := open(m.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	m.Advise(vfs.Random)
	evict := func() {
		t.Helper()
		m.Advise(vfs.Forget) // pages of a process stay
		f.DropCache()
		if vfs.Resident(m.Bytes()[HeaderSize+100*Size:]) {
			t.Skip("the file system keeps pages in memory")
		}
	}
	evict()
	if c.Evicted() {
		t.Error("evicted, but nothing was read")
	}
	if err := c.VerifyOne(HeaderSize, c.end); err != nil || c.left.Load() != blocks {
		t.Errorf("verified %d blocks that are not in memory: %v", blocks-c.left.Load(), err)
	}
	for _, verified := range []int64{3, 40, blocks} {
		if err := c.Touch(HeaderSize, HeaderSize+verified*Size); err != nil {
			t.Fatal(err)
		}
		if c.Evicted() {
			t.Errorf("%d blocks were verified, and are evicted", verified)
		}
		evict()
		if !c.Evicted() {
			t.Errorf("%d verified blocks are gone, and not noticed", verified)
		}
		sum := byte(0)
		for i := range verified { // they come back
			sum += m.Bytes()[HeaderSize+i*Size]
		}
		if c.Evicted() {
			t.Errorf("%d blocks came back, and it was not noticed; sum %d", verified, sum)
		}
	}
}
