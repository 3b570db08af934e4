package meta

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/vecbolt/vecbolt/internal/formattest"
)

// TestSumsPage compares the example in docs/format/sums.md with a new file.
func TestSumsPage(t *testing.T) {
	s := newStore(t)
	if err := s.Seal(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(s.fs.Dir(), "meta.sums"))
	if err != nil {
		t.Fatal(err)
	}
	bolt := fileOf(t, s)
	p := &printer{t: t, b: b}
	table := crc32.MakeTable(crc32.Castagnoli)
	p.field(8, "magic", "%q", p.b[:8])
	p.little32("version")
	p.field(16, "database", "%x", p.b[:16])
	p.little64("of the root")
	pages := int(binary.LittleEndian.Uint64(p.b))
	p.little64("pages")
	for page := range pages {
		sum := binary.LittleEndian.Uint32(p.b)
		kind := "in use"
		if sum == 0 {
			kind = "a root, or free"
		} else if want := crc32.Checksum(bolt[4096*page:][:4096], table); sum != want {
			t.Errorf("page %d has checksum %#x, want %#x", page, sum, want)
		}
		p.field(4, "page", "%d, %s", page, kind)
	}
	if sum := binary.LittleEndian.Uint32(p.b); sum != crc32.Checksum(b[:len(b)-4], table) {
		t.Errorf("checksum of the file %#x", sum)
	}
	p.field(4, "checksum", "of everything before")
	if len(p.b) > 0 {
		t.Errorf("%d bytes left over", len(p.b))
	}
	got := p.out.String()
	formattest.Page(t, "../../docs/format/sums.md", got, *updatePage)
}
