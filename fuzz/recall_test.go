package fuzz_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/codec"
)

// FuzzRecallTally opens a database beside any recall.tally, signed on request. Whatever that says,
// the database opens and answers, and the recall that it reports is a share.
func FuzzRecallTally(f *testing.F) {
	dir := dbDir(f)
	vdb, err := db.Open(dir, nil)
	if err != nil {
		f.Fatal(err)
	}
	c, err := vdb.CreateCollection(f.Context(), "c", db.Schema{Dim: 1}, nil)
	if err == nil {
		_, err = c.Upsert(f.Context(), db.Document{ID: "a", Vector: []float32{1}})
	}
	if err != nil {
		f.Fatal(err)
	}
	if err := vdb.Close(); err != nil {
		f.Fatal(err)
	}
	meta, err := os.ReadFile(filepath.Join(dir, "meta.bolt"))
	if err != nil {
		f.Fatal(err)
	}
	vec, err := os.ReadFile(filepath.Join(dir, "seg", "00000001.vec"))
	if err != nil {
		f.Fatal(err)
	}
	// A whole file, by docs/format/recall.md: a graph and a target. The identity of the database
	// is behind magic, version and metric of the segment.
	good := append([]byte("VECBOLTR\x01\x00\x00\x00"), vec[16:32]...)
	if !bytes.Contains(meta, vec[16:32]) {
		f.Fatal("that is not the identity")
	}
	good = binary.LittleEndian.AppendUint32(good, 1)
	good = binary.LittleEndian.AppendUint32(good, 1)
	good = binary.LittleEndian.AppendUint64(good, 1)
	good = append(good, vec[4092:4096]...)
	good = binary.LittleEndian.AppendUint32(good, 1)
	good = binary.LittleEndian.AppendUint32(good, 3)
	good = append(good, make([]byte, 8+48)...)
	good = binary.LittleEndian.AppendUint32(good, 1)
	good = append(good, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f) // 0.5
	for _, v := range []uint64{2, 4, 3} {
		good = binary.LittleEndian.AppendUint64(good, v)
	}
	for range 3 {
		good = append(good, 0, 0, 0, 0, 0, 0, 0x10, 0x40) // 4
	}
	f.Add(true, good)
	f.Add(false, good)
	rng := rand.New(rand.NewPCG(8, 9))
	for i := range 60 {
		bad := bytes.Clone(good)
		switch i % 3 {
		case 0:
			bad[rng.IntN(len(bad))] ^= 1 << rng.IntN(8)
		case 1:
			bad = bad[:rng.IntN(len(bad))]
		case 2:
			binary.LittleEndian.PutUint32(bad[28+4*rng.IntN(len(bad)/4-7):], rng.Uint32())
		}
		f.Add(i%5 > 0, bad)
	}
	f.Fuzz(func(t *testing.T, sign bool, b []byte) {
		if sign {
			b = binary.LittleEndian.AppendUint32(slices.Clone(b), codec.CRC(b))
		}
		if err := os.WriteFile(filepath.Join(dir, "recall.tally"), b, 0o600); err != nil {
			t.Fatal(err)
		}
		vdb, err := db.Open(dir, &db.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer vdb.Close()
		s, err := vdb.Stats()
		if err != nil {
			t.Fatal(err)
		}
		if sign && len(b) == len(good)+4 && bytes.Equal(b[:len(good)], good) && (s.Collections[0].EFFactor < 3 || len(s.Collections[0].Recall) != 1) {
			t.Errorf("a whole file is ignored: %+v", s.Collections[0])
		}
		for _, r := range s.Collections[0].Recall {
			if !(0 <= r.Low && r.Low <= r.Recall && r.Recall <= r.High && r.High <= 1) {
				t.Errorf("%+v", r)
			}
		}
		if f := s.Collections[0].EFFactor; !(f >= 1 && f < 1e4) {
			t.Errorf("factor %v", f)
		}
		c, err := vdb.Collection("c")
		if err != nil {
			t.Fatal(err)
		}
		if r, err := c.Search(t.Context(), db.Query{Near: db.Vector([]float32{1})}); err != nil || len(r.Hits) != 1 {
			t.Error(r, err)
		}
	})
}
