//go:build linux || darwin

package db

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestProcessesModel opens and closes handles of one database in any order, as processes do, some
// of them only to read. Behind a barrier each sees all that any has written; backups hold it, and
// checks find nothing.
func TestProcessesModel(t *testing.T) {
	bounded(t)
	rapid.Check(t, func(rt *rapid.T) {
		dir := t.TempDir()
		opts := Options{Sync: SyncNever, Compaction: Manual, HeadSize: 64 << 10}
		ok := func(err error) {
			rt.Helper()
			if err != nil {
				rt.Fatal(err)
			}
		}
		first, err := Open(dir, &opts)
		ok(err)
		_, err = first.CreateCollection(t.Context(), "c", Schema{}, nil)
		ok(err)
		handles := []*DB{first}
		defer func() {
			for _, h := range handles {
				if err := h.Close(); err != nil {
					rt.Error(err)
				}
			}
		}()
		written := map[string]string{}
		texts := func(h *DB) map[string]string {
			rt.Helper()
			c, err := h.Collection("c")
			ok(err)
			found := map[string]string{}
			for d, err := range c.All(t.Context(), nil, Everything) {
				ok(err)
				found[d.ID] = d.Text
			}
			return found
		}
		reads := map[*DB]bool{}
		some := func(rt *rapid.T, which func(*DB) bool) *DB {
			found := slices.DeleteFunc(slices.Clone(handles), func(h *DB) bool { return !which(h) })
			if len(found) == 0 {
				rt.Skip("no such handle")
			}
			return found[rapid.IntRange(0, len(found)-1).Draw(rt, "handle")]
		}
		any := func(*DB) bool { return true }
		writer := func(h *DB) bool { return !reads[h] }
		writes := 0
		write := func(rt *rapid.T, h *DB) {
			var b Batch
			for range rapid.IntRange(1, 5).Draw(rt, "writes") {
				id := rapid.StringMatching("[a-f]").Draw(rt, "id")
				if rapid.IntRange(0, 3).Draw(rt, "kind") == 0 {
					b.Delete("c", id)
					delete(written, id)
					continue
				}
				writes++
				written[id] = fmt.Sprint(writes)
				b.Upsert("c", Document{ID: id, Text: written[id]})
			}
			ok(h.Apply(t.Context(), &b))
			if diff := cmp.Diff(written, texts(h)); diff != "" {
				rt.Fatalf("after a write: (-want +got)\n%s", diff)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"open": func(rt *rapid.T) {
				if len(handles) == 4 {
					rt.Skip("enough")
				}
				o := opts
				o.ReadOnly = rapid.Bool().Draw(rt, "read-only")
				h, err := Open(dir, &o)
				ok(err)
				handles = append(handles, h)
				reads[h] = o.ReadOnly
			},
			"close": func(rt *rapid.T) {
				h := some(rt, any)
				handles = slices.DeleteFunc(handles, func(other *DB) bool { return other == h })
				ok(h.Close())
			},
			"write": func(rt *rapid.T) { write(rt, some(rt, writer)) },
			"visit": func(rt *rapid.T) { // between two calls of all others
				h, err := Open(dir, &opts)
				ok(err)
				write(rt, h)
				ok(h.Close())
			},
			"read": func(rt *rapid.T) {
				h := some(rt, any)
				ok(h.Barrier(t.Context()))
				if diff := cmp.Diff(written, texts(h)); diff != "" {
					rt.Fatalf("behind a barrier: (-want +got)\n%s", diff)
				}
			},
			"flush":   func(rt *rapid.T) { ok(some(rt, writer).Flush(t.Context())) },
			"compact": func(rt *rapid.T) { ok(some(rt, writer).Compact(t.Context())) },
			"check": func(rt *rapid.T) {
				r, err := some(rt, any).Check(t.Context(), CheckBytes)
				ok(err)
				for _, p := range r.Problems {
					rt.Error(p)
				}
			},
			"backup": func(rt *rapid.T) {
				copied := filepath.Join(t.TempDir(), "copy")
				ok(some(rt, any).Backup(t.Context(), copied))
				saved, err := Open(copied, &Options{ReadOnly: true})
				ok(err)
				defer saved.Close()
				if diff := cmp.Diff(written, texts(saved)); diff != "" {
					rt.Fatalf("in a backup: (-want +got)\n%s", diff)
				}
			},
		})
	})
}
