package boltcheck_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/vecbolt/vecbolt/internal/boltcheck"
)

// salvaged returns the elements that Salvage finds, by bucket and key, or by key alone if the
// bucket is unknown.
func salvaged(t *testing.T, b []byte, most boltcheck.Origin) (found map[string]string, bad []*boltcheck.Error, listed bool) {
	t.Helper()
	found = map[string]string{}
	bad, listed, err := boltcheck.Salvage(bytes.NewReader(b), int64(len(b)), func(from boltcheck.Origin, bucket, key, value []byte) error {
		if from <= most {
			found[fmt.Sprintf("%s/%s", bucket, key)] = string(value)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found, bad, listed
}

// Salvage finds exactly the elements of an intact file, and without any one page all elements of
// the other pages.
func TestSalvage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bolt")
	db := open(t, path, true)
	want := map[string]string{}
	for round := range 3 {
		err := db.Update(func(tx *bbolt.Tx) error {
			for name, keys := range map[string]int{"large": 900, "small": 200, "inline": 3} {
				b, err := tx.CreateBucketIfNotExists([]byte(name))
				if err != nil {
					return err
				}
				for i := range keys {
					key, value := fmt.Sprintf("%s %04d", name, i), fmt.Sprintf("%d of round %d %0*d", i, round, i%200, 0)
					if i == 77 {
						value += string(make([]byte, 10_000))
					}
					if i%3 == 0 && round > 0 {
						continue
					}
					want[name+"/"+key] = value
					if err := b.Put([]byte(key), []byte(value)); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, bad, listed := salvaged(t, good, boltcheck.Freed)
	if !maps.Equal(got, want) || len(bad) > 0 || !listed {
		t.Fatalf("%d of %d elements, %v, %t", len(got), len(want), bad, listed)
	}
	roots, newest, err := boltcheck.Roots(bytes.NewReader(good), int64(len(good)))
	if err != nil {
		t.Fatal(err)
	}
	free, err := boltcheck.FreePages(bytes.NewReader(good), roots[newest])
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	kinds := map[byte]int{}
	for page := uint64(0); page < roots[newest].Pages; page++ {
		head := good[page*4096:]
		if free[page/64]>>(page%64)&1 != 0 || binary.NativeEndian.Uint64(head) != page {
			continue
		}
		for _, how := range []string{"zeros", "rubbish", "header", "elements"} {
			b := bytes.Clone(good)
			switch hurt := b[page*4096:][:4096]; how {
			case "zeros":
				clear(hurt)
			case "rubbish":
				for i := range hurt {
					hurt[i] = byte(rng.Uint32())
				}
			case "header":
				hurt[0] ^= 0xFF
			case "elements":
				for i := 16; i < 80; i++ {
					hurt[i] = byte(rng.Uint32())
				}
			}
			got, bad, _ := salvaged(t, b, boltcheck.Unreached)
			if len(bad) == 0 && head[8] != 4 {
				t.Errorf("page %d, %s: nothing is bad", page, how)
			}
			kinds[head[8]]++
			missing, wrong := 0, 0
			for key, value := range want {
				_, bare, _ := bytes.Cut([]byte(key), []byte("/"))
				switch {
				case got[key] == value || got["/"+string(bare)] == value:
				case got[key] == "" && got["/"+string(bare)] == "":
					missing++
				default:
					wrong++
				}
			}
			isLeaf := head[8] == 2
			if missing > 0 && !isLeaf || missing > 250 || wrong > 0 && how != "elements" && head[8] != 4 { // the other root is older
				t.Errorf("page %d of kind %d, %s: %d missing, %d wrong, %v", page, head[8], how, missing, wrong, bad)
			}
		}
	}
	if kinds[1] == 0 || kinds[2] == 0 || kinds[4] == 0 || kinds[16] == 0 {
		t.Errorf("pages by kind: %v", kinds)
	}
	// Without roots it finds all current elements, and outdated ones.
	b := bytes.Clone(good)
	clear(b[:8192])
	got, bad, listed = salvaged(t, b, boltcheck.Unreached)
	if len(bad) < 2 || listed {
		t.Errorf("without roots: %v, %t", bad, listed)
	}
	for key := range want {
		_, bare, _ := bytes.Cut([]byte(key), []byte("/"))
		if got[key] == "" && got["/"+string(bare)] == "" {
			t.Fatalf("without roots %q is missing", key)
		}
	}
	enough := errors.New("enough")
	for _, b := range [][]byte{good, b} {
		n := 0
		_, _, err := boltcheck.Salvage(bytes.NewReader(b), int64(len(b)), func(boltcheck.Origin, []byte, []byte, []byte) error { n++; return enough })
		if !errors.Is(err, enough) || n != 1 {
			t.Errorf("%d calls, %v", n, err)
		}
	}
	if got, bad, _ := salvaged(t, []byte("short"), boltcheck.Freed); len(got) > 0 || len(bad) == 0 {
		t.Errorf("a short file: %v, %v", got, bad)
	}
}
