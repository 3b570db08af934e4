package fuzz_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// FuzzPageSums opens a store beside any meta.sums, signed on request. Whatever that says, the store
// gives an error or what was written.
func FuzzPageSums(f *testing.F) {
	dir := dbDir(f)
	if err := os.Mkdir(dir, 0o700); err != nil {
		f.Fatal(err)
	}
	fsys, err := vfs.Open(dir, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { fsys.Close() })
	s, err := meta.Open(fsys, "meta.bolt", meta.Options{Create: true, DB: [16]byte{1}})
	if err == nil {
		err = s.Update(func(tx *meta.Tx) error {
			err := tx.PutCollection(1, "c", nil)
			for i := range uint64(100) {
				err = errors.Join(err, tx.PutDocument(1, i+1, []byte(strings.Repeat("x", 100))),
					tx.PutID(1, fmt.Sprintf("%03d%s", i, strings.Repeat("k", 300)), i+1))
			}
			return err
		})
	}
	if err == nil {
		err = errors.Join(s.Seal(), s.Close())
	}
	if err != nil {
		f.Fatal(err)
	}
	file := filepath.Join(dir, "meta.sums")
	good, err := os.ReadFile(file)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(false, good)
	f.Add(true, good[:len(good)-4])
	rng := rand.New(rand.NewPCG(8, 9))
	for i := range 60 {
		bad := bytes.Clone(good[:len(good)-4*(i%2)])
		switch i % 3 {
		case 0:
			bad[rng.IntN(len(bad))] ^= 1 << rng.IntN(8)
		case 1:
			bad = bad[:rng.IntN(len(bad))]
		case 2:
			binary.LittleEndian.PutUint32(bad[12+4*rng.IntN(8):], rng.Uint32())
		}
		f.Add(i%2 == 1, bad)
	}
	f.Fuzz(func(t *testing.T, sign bool, b []byte) {
		if sign {
			b = binary.LittleEndian.AppendUint32(slices.Clone(b), codec.CRC(b))
		}
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := meta.Open(fsys, "meta.bolt", meta.Options{ReadOnly: true})
		n := 0
		if err == nil {
			err = s.View(func(tx *meta.Tx) error {
				return tx.IDs(1, "", true, func(id string, doc uint64) (bool, error) {
					if want := fmt.Sprintf("%03d%s", n, strings.Repeat("k", 300)); id != want || doc != uint64(n+1) {
						t.Errorf("id %q names %d", id, doc)
					}
					n++
					got, ok, err := tx.Document(1, doc)
					if err == nil && (!ok || len(got) != 100) {
						t.Errorf("document %d: %v, %d bytes", doc, ok, len(got))
					}
					return true, err
				})
			})
			if cerr := s.Close(); cerr != nil {
				t.Error(cerr)
			}
		}
		var corrupt *fileformat.CorruptError
		if err == nil && n != 100 || err != nil && !errors.As(err, &corrupt) {
			t.Errorf("%d documents, %v", n, err)
		}
	})
}
