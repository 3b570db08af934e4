package manifest

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/formattest"
)

var update = flag.Bool("update", false, "rewrite the dump in docs/format and the file in testdata")

// example has one file of each kind.
func example() *Manifest {
	m := &Manifest{Number: 7, Batch: 42, Time: 1_700_000_000_000_000_000}
	for i := range m.DB {
		m.DB[i] = 0xd0 + byte(i)
	}
	for i, f := range []File{
		{Name: "meta.bolt", Path: "meta/6f1ed002ab559585.bolt", Size: 32768},
		{Name: "meta.sums", Path: "meta/cf2b0a1c7d9e4f55.sums", Size: 76},
		{Name: "seg/00000002.cols", Path: "seg/00000002-90b6e1c40f6d7a31.cols", Size: 412},
		{Name: "seg/00000002.vec", Path: "seg/00000002-1b4f0e9851971998.vec", Size: 4132},
		{Name: "wal/00000001.wal", Path: "wal/00000001-60303ae22b998861.wal", Size: 8192},
	} {
		for j := range f.Sum {
			f.Sum[j] = byte(16*i + j)
		}
		m.Files = append(m.Files, f)
	}
	return m
}

func encode(t testing.TB, m *Manifest) []byte {
	t.Helper()
	b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRoundTrip(t *testing.T) {
	for _, m := range []*Manifest{example(), {Number: 1, Files: []File{}}} {
		got, err := Decode(encode(t, m))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, got); diff != "" {
			t.Error(diff)
		}
	}
	m := example()
	if f := m.Find("seg/00000002.vec"); f == nil || f.Size != 4132 {
		t.Errorf("found %+v", f)
	}
	if f := m.Find("seg/00000003.vec"); f != nil {
		t.Errorf("found %+v", f)
	}
	if n := m.Bytes(); n != 32768+76+412+4132+8192 {
		t.Errorf("%d bytes", n)
	}
}

// TestFixture reads a file that is never rewritten.
func TestFixture(t *testing.T) {
	const name = "testdata/v1.manifest"
	if *update {
		if _, err := os.Stat(name); err != nil {
			if err := os.WriteFile(name, encode(t, example()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(example(), got); diff != "" {
		t.Error(diff)
	}
	if !bytes.Equal(encode(t, got), b) {
		t.Error("is written differently now")
	}
}

// TestDamage flips every bit and truncates at every length.
func TestDamage(t *testing.T) {
	b := encode(t, example())
	for i := range b {
		for bit := range 8 {
			bad := bytes.Clone(b)
			bad[i] ^= 1 << bit
			if _, err := Decode(bad); !errors.Is(err, fileformat.ErrChecksum) {
				t.Errorf("byte %d, bit %d: %v", i, bit, err)
			}
		}
		if _, err := Decode(b[:i]); !errors.Is(err, fileformat.ErrChecksum) {
			t.Errorf("cut to %d bytes: %v", i, err)
		}
	}
	if _, err := Decode(append(bytes.Clone(b), 0)); !errors.Is(err, fileformat.ErrChecksum) {
		t.Errorf("longer: %v", err)
	}
	// A copy program that sets the size first leaves zeros.
	for n := range len(b) {
		bad := append(bytes.Clone(b[:n]), make([]byte, len(b)-n)...)
		if _, err := Decode(bad); err == nil && !bytes.Equal(bad, b) {
			t.Errorf("zeros from %d on are taken", n)
		}
	}
}

// TestSigned has valid checksums over invalid content.
func TestSigned(t *testing.T) {
	sign := func(b []byte) []byte {
		body := b[:len(b)-crcSize]
		e := codec.Encoder{B: bytes.Clone(body)}
		e.U32(codec.CRC(body))
		return e.B
	}
	b := encode(t, example())
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		bad := bytes.Clone(b)
		bad[r.IntN(len(bad)-crcSize)] = byte(r.IntN(256))
		m, err := Decode(sign(bad))
		if err == nil {
			if got := encode(t, m); !bytes.Equal(got, sign(bad)) {
				t.Fatalf("%x is read as %+v, which is written as %x", sign(bad), m, got)
			}
		}
	}
	bad := bytes.Clone(b)
	bad[len(magic)] = 2
	if _, err := Decode(sign(bad)); !errors.Is(err, fileformat.ErrVersion) {
		t.Errorf("version 2: %v", err)
	}
	for what, change := range map[string]func(m *Manifest){
		"order":      func(m *Manifest) { m.Files[0], m.Files[1] = m.Files[1], m.Files[0] },
		"twice":      func(m *Manifest) { m.Files[1].Name = m.Files[0].Name },
		"way out":    func(m *Manifest) { m.Files[1].Path = "../x" },
		"absolute":   func(m *Manifest) { m.Files[1].Path = "/x" },
		"backslash":  func(m *Manifest) { m.Files[1].Path = `a\x` },
		"capitals":   func(m *Manifest) { m.Files[1].Path = "A" },
		"empty":      func(m *Manifest) { m.Files[1].Path = "" },
		"itself":     func(m *Manifest) { m.Files[1].Path = "." },
		"long":       func(m *Manifest) { m.Files[1].Path = strings.Repeat("x", 256) },
		"sizes":      func(m *Manifest) { m.Files[0].Size, m.Files[1].Size = 1<<62, 1<<62 },
		"negative":   func(m *Manifest) { m.Files[0].Size = -1 },
		"no version": func(m *Manifest) { m.Number = 0 },
	} {
		m := example()
		change(m)
		if _, err := m.Encode(); !errors.Is(err, fileformat.ErrFormat) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestPage compares the example in docs/format/manifest.md with a new manifest.
func TestPage(t *testing.T) {
	b := encode(t, example())
	d := formattest.New(t, b)
	d.Raw(8)
	d.Line(8, "magic", "%q", b[:8])
	d.Int32("version")
	files := d.Int32("files")
	d.Line(16, "database", "%x", d.Raw(16))
	d.Int64("number")
	d.Int64("batch")
	d.Int64("time")
	for range files {
		for _, what := range []string{"name", "path"} {
			s := d.String()
			d.Line(1+len(s), what, "%s", s)
		}
		d.Int64("size")
		sum := d.Raw(32)
		d.Line(32, "SHA-256", "%s…", hex.EncodeToString(sum[:8]))
	}
	crc := d.U32()
	if crc != codec.CRC(b[:len(b)-4]) {
		t.Errorf("checksum %#x", crc)
	}
	d.Line(4, "checksum", "of everything before")
	if d.Err() != nil || d.Len() > 0 {
		t.Errorf("%v, %d bytes left over", d.Err(), d.Len())
	}
	formattest.Page(t, "../../docs/format/manifest.md", d.Out.String(), *update)
}

func ExampleManifest_Names() {
	fmt.Println(example().Names()["meta.bolt"])
	// Output: meta/6f1ed002ab559585.bolt
}
