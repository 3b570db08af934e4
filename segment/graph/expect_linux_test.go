package graph

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
)

// A search that expects its memory on disk finds what any other finds, whether its file is in
// memory or not, verified or not. Where the file is on disk, it waits for far fewer pages: the
// system has read them when the search comes to them, or is reading them.
func TestCold(t *testing.T) {
	for _, walk := range []struct {
		layout uint32
		dim    int
	}{{plain, 200}, {quick, 200}, {quick, quickDim}, {shared, 200}, {quickShared, 200}, {quickShared, quickDim}} {
		t.Run(fmt.Sprint(walk.layout, " ", walk.dim), func(t *testing.T) {
			runtime.LockOSThread() // faults are counted for each thread
			defer runtime.UnlockOSThread()
			d, queries := make1("clusters", walk.dim, 3000, 4)
			fsys, err := vfs.Open(t.TempDir(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer fsys.Close()
			b := d.file(t, fileformat.Cosine, Options{quiet: true, layout: walk.layout})
			var files []*vfs.File
			var maps []*vfs.Mapping
			for i, b := range [][]byte{b, d.codeFile(t, fileformat.Cosine)} {
				name := fmt.Sprint(i)
				if err := fsys.WriteFileAtomic(name, b); err != nil {
					t.Fatal(err)
				}
				f, err := fsys.Open(name)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				m, err := f.Map(int64(len(b)))
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				m.Advise(vfs.Random) // so that a fault brings one page
				files, maps = append(files, f), append(maps, m)
			}
			fresh := func() *Graph {
				t.Helper()
				g, err := Parse(maps[0].Bytes(), d.ident(fileformat.Cosine), parsed(t, maps[1].Bytes(), d.ident(fileformat.Cosine)))
				if err != nil {
					t.Fatal(err)
				}
				return g
			}
			evict := func() {
				for i, m := range maps {
					m.Advise(vfs.Forget) // pages of a process stay
					m.Advise(vfs.Random)
					files[i].DropCache()
				}
			}
			some := bitset.New(d.Len())
			for i := range d.Len() {
				if i%3 == 0 {
					some.Set(i)
				}
			}
			g := fresh()
			var buf Buffer
			// find returns what a search finds, and how many pages it waited for.
			find := func(g *Graph, vec []float32, cold bool, allowed bitset.Set) (rows []uint32, stats Stats, faults int64) {
				t.Helper()
				var before, after unix.Rusage
				if err := unix.Getrusage(unix.RUSAGE_THREAD, &before); err != nil {
					t.Fatal(err)
				}
				q := g.Query(vec)
				q.Cold(cold)
				rows, stats, err := q.Find(10, levels.Setting{EF: 40}, allowed, &buf)
				if err != nil {
					t.Fatal(err)
				}
				if err := unix.Getrusage(unix.RUSAGE_THREAD, &after); err != nil {
					t.Fatal(err)
				}
				return slices.Clone(rows), stats, after.Majflt - before.Majflt
			}
			var waited [2]int64
			for i, vec := range queries {
				for _, allowed := range []bitset.Set{nil, some} {
					want, stats, _ := find(fresh(), vec, false, allowed)
					for _, cold := range []bool{false, true} {
						for state, at := range []*Graph{fresh(), g} { // the second one has verified the file
							if state == 1 {
								if err := g.Verify(); err != nil {
									t.Fatal(err)
								}
								if g.Codes() != nil {
									if err := g.Codes().Verify(); err != nil {
										t.Fatal(err)
									}
								}
							}
							evict()
							rows, did, faults := find(at, vec, cold, allowed)
							if !slices.Equal(rows, want) || !reflect.DeepEqual(did, stats) {
								t.Fatalf("query %d, cold %t: rows %v, want %v; did %+v, want %+v", i, cold, rows, want, did, stats)
							}
							if state == 1 && cold {
								waited[1] += faults
							} else if state == 1 {
								waited[0] += faults
							}
						}
					}
				}
			}
			t.Logf("waited for %d pages, and for %d where they were announced", waited[0], waited[1])
			if waited[0] < 100 {
				t.Skip("the file system keeps pages in memory")
			}
			if waited[1] > waited[0]/2 {
				t.Errorf("announced, %d pages are waited for instead of %d", waited[1], waited[0])
			}
		})
	}
}
