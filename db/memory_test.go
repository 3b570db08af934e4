package db

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/vecbolt/vecbolt/filter"
)

// TestMemory writes the same random batches to a database in memory and to one on disk, with
// flushes and compactions in between: both give the same answers, and a backup of the first too.
func TestMemory(t *testing.T) {
	t.Parallel() // one core each
	rapid.Check(t, func(rt *rapid.T) {
		opts := walking
		disk, memory := open(t, t.TempDir(), &opts), open(t, Memory, &opts)
		both := []*DB{disk, memory}
		for _, vdb := range both {
			if _, err := vdb.CreateCollection(t.Context(), "c", Schema{Dim: 3, Text: &TextIndex{Language: "none"}}, nil); err != nil {
				rt.Fatal(err)
			}
		}
		words := rapid.SampledFrom([]string{"red", "green", "blue", "red green", "blue blue"})
		for range rapid.IntRange(1, 8).Draw(rt, "batches") {
			b := make([]Batch, 2)
			for range rapid.IntRange(1, 30).Draw(rt, "writes") {
				id := rapid.StringMatching("[a-h]{1,2}").Draw(rt, "id")
				if rapid.IntRange(0, 4).Draw(rt, "kind") == 0 {
					b[0].Delete("c", id)
					b[1].Delete("c", id)
					continue
				}
				x := rapid.SliceOfN(rapid.Float32Range(-1, 1), 3, 3).Draw(rt, "vector")
				d := Document{ID: id, Vector: x, Text: words.Draw(rt, "text"), Metadata: Metadata{"n": rapid.IntRange(0, 5).Draw(rt, "n")}}
				b[0].Upsert("c", d)
				b[1].Upsert("c", d)
			}
			step := rapid.IntRange(0, 3).Draw(rt, "then")
			for i, vdb := range both {
				if err := vdb.Apply(t.Context(), &b[i]); err != nil {
					rt.Fatal(err)
				}
				var err error
				switch step {
				case 0:
					err = vdb.Flush(t.Context())
				case 1:
					err = vdb.Compact(t.Context())
				}
				if err != nil {
					rt.Fatal(err)
				}
			}
		}
		copied := filepath.Join(t.TempDir(), "copy")
		if err := memory.Backup(t.Context(), copied); err != nil {
			rt.Fatal(err)
		}
		saved := open(t, copied, &opts)
		q := Query{Near: Vector{1, 0.5, -0.25}, Text: "red", Where: filter.Gte("n", 2), K: 20, Accuracy: Exact, Select: Everything}
		var want *Result
		for i, vdb := range []*DB{disk, memory, saved} {
			check(t, vdb)
			c, err := vdb.Collection("c")
			if err != nil {
				rt.Fatal(err)
			}
			got, err := c.Search(t.Context(), q)
			if err != nil {
				rt.Fatal(err)
			}
			if i == 0 {
				want = got
			} else if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Result{}, "Plan", "Considered")); diff != "" {
				rt.Fatalf("database %d (-disk +other):\n%s", i, diff)
			}
			if err := vdb.Close(); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

// There is nothing in a new database in memory to be read or to be there already.
func TestMemoryHasNothing(t *testing.T) {
	for _, opts := range []Options{{ReadOnly: true}, {MustExist: true}} {
		if vdb, err := Open(Memory, &opts); vdb != nil || !errors.Is(err, ErrNotFound) {
			t.Errorf("%+v: %v", opts, err)
		}
	}
}

// TestMemoryLeavesNothing: a database in memory makes no file, each is one of its own, and what
// needs a database that exists is refused.
func TestMemoryLeavesNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	one, other := open(t, Memory, nil), open(t, Memory, nil)
	upsert(t, collection(t, one, "c", Schema{Dim: 2}), Document{ID: "a", Vector: []float32{1, 0}})
	if err := one.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if infos, err := other.Collections(); err != nil || len(infos) != 0 {
		t.Errorf("another database has %v, %v", infos, err)
	}
	if s, err := one.Stats(); err != nil || s.Dir != Memory || s.VectorBytes == 0 {
		t.Errorf("stats %+v, %v", s, err)
	}
	if err := one.Backup(t.Context(), Memory); !errors.Is(err, ErrInvalid) {
		t.Errorf("backup to memory: %v", err)
	}
	if _, err := one.NewPublisher(Memory, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("publish to memory: %v", err)
	}
	if left, err := os.ReadDir("."); err != nil || len(left) != 0 {
		t.Errorf("files %v, %v", left, err)
	}
	if err := errors.Join(one.Close(), other.Close()); err != nil {
		t.Error(err)
	}
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		for _, fd := range fds {
			if to, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.Contains(to, "memfd:vecbolt") {
				t.Errorf("%s is open", to)
			}
		}
	}
	for name, o := range map[string]Options{"read-only": {ReadOnly: true}, "existing": {MustExist: true}} {
		if vdb, err := Open(Memory, &o); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v, %v", name, vdb, err)
		}
	}
	again := open(t, Memory, nil)
	if infos, err := again.Collections(); err != nil || len(infos) != 0 {
		t.Errorf("a new database has %v, %v", infos, err)
	}
}
