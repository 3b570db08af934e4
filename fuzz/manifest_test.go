package fuzz_test

import (
	"bytes"
	"errors"
	"io/fs"
	"testing"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/manifest"
)

// FuzzManifest decodes manifests of published folders, signed on request. What is taken is written
// as the same bytes and leads nowhere outside of the folder.
func FuzzManifest(f *testing.F) {
	m := &manifest.Manifest{Number: 3, Batch: 9, Time: 1}
	for _, name := range []string{"meta.bolt", "seg/00000001.vec", "wal/00000001.wal"} {
		m.Files = append(m.Files, manifest.File{Name: name, Path: "x/" + name, Size: int64(len(name))})
		b, err := m.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, false)
		for _, v := range variants(b, 20) {
			f.Add(v, true)
		}
	}
	f.Add([]byte{}, false)
	f.Fuzz(func(t *testing.T, b []byte, sign bool) {
		if sign && len(b) >= 4 {
			e := codec.Encoder{B: bytes.Clone(b[:len(b)-4])}
			e.U32(codec.CRC(e.B))
			b = e.B
		}
		m, err := manifest.Decode(b)
		if err != nil {
			if !errors.Is(err, fileformat.ErrChecksum) && !errors.Is(err, fileformat.ErrFormat) && !errors.Is(err, fileformat.ErrVersion) {
				t.Fatalf("error of no kind: %v", err)
			}
			return
		}
		for _, file := range m.Files {
			if !fs.ValidPath(file.Path) || !fs.ValidPath(file.Name) || m.Find(file.Name).Path != file.Path {
				t.Errorf("file %+v", file)
			}
		}
		again, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again, b) {
			t.Errorf("%x is written as %x", b, again)
		}
	})
}
