package db

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/internal/boltcheck"
	"github.com/vecbolt/vecbolt/internal/engine"
)

// Whatever page of meta.bolt is destroyed, Repair saves the content of the other
// pages. Losing branch pages, the freelist or one root loses no data. Data lost
// with a leaf page is reported by id, or counted where the ids are lost too.
func TestWreck(t *testing.T) {
	for _, closed := range []bool{true, false} {
		t.Run(map[bool]string{true: "closed", false: "killed"}[closed], func(t *testing.T) { wreck(t, closed) })
	}
}

func wreck(t *testing.T, closed bool) {
	ctx := t.Context()
	dir := filepath.Join(memDir(t), "db")
	opts := Options{Sync: SyncNever, Compaction: Manual, HeadSize: 1 << 20} // small files of the log: all are read for each page
	vdb := open(t, dir, &opts)
	want := map[string]map[string]Document{"c": {}, "plain": {}}
	known := map[string]bool{}
	rng := rand.New(rand.NewPCG(7, 7))
	put := func(name string, i, version int) {
		t.Helper()
		d := Document{ID: fmt.Sprintf("document %04d", i), Text: strings.Repeat(fmt.Sprintf("%d of %d ", version, i), 20), Metadata: Metadata{"i": int64(i)}}
		if name == "c" {
			d.Vector = randomVectors(rng, 1, 4)[0]
		}
		upsert(t, collection(t, vdb, name, Schema{}), d)
		want[name][d.ID] = d
		known[docString(name, &d)] = true
	}
	const docs = 500
	for i := range docs {
		put("c", i, 0)
		if i%5 == 0 {
			put("plain", i, 0)
		}
	}
	flush(t, vdb)
	for i := range docs / 10 {
		put("c", i*7%docs, 1)
	}
	for i := range docs / 20 {
		id := fmt.Sprintf("document %04d", i*11)
		if _, err := existing(t, vdb, "c").Delete(ctx, id); err != nil {
			t.Fatal(err)
		}
		delete(want["c"], id)
	}
	flush(t, vdb)
	if closed {
		if err := vdb.Close(); err != nil {
			t.Fatal(err)
		}
	} else {
		put("c", 3, 2) // in the log alone
		lose(t, vdb)
	}
	files := readFiles(t, dir)
	good := files[engine.MetaName]
	roots, newest, err := boltcheck.Roots(strings.NewReader(string(good)), int64(len(good)))
	if err != nil {
		t.Fatal(err)
	}
	root := roots[newest]
	bolt := strings.NewReader(string(good))
	free, err := boltcheck.FreePages(bolt, root)
	if err != nil {
		t.Fatal(err)
	}
	if root.Pages > 400 {
		t.Fatalf("%d pages", root.Pages)
	}
	total := 0
	for _, docs := range want {
		total += len(docs)
	}
	kinds := map[string]int{}
	try := func(what string, pages []uint64, kind string, destroy func(page []byte)) {
		t.Helper()
		bad := []byte(string(good))
		for _, page := range pages {
			destroy(bad[page*boltcheck.PageSize:][:boltcheck.PageSize])
		}
		files[engine.MetaName] = bad
		writeFiles(t, dir, files)
		before := snapshotDir(t, dir)
		fixed := filepath.Join(memDir(t), "fixed")
		defer os.RemoveAll(filepath.Dir(fixed))
		r, err := Repair(ctx, dir, fixed)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		if diff := cmp.Diff(before, snapshotDir(t, dir)); diff != "" {
			t.Errorf("%s: the source has changed", what)
		}
		kinds[kind]++
		vdb := open(t, fixed, &opts)
		defer vdb.Close()
		check(t, vdb)
		lost, uncounted := map[string]bool{}, false
		for _, l := range r.Lost {
			lost[l.Collection+" "+l.ID] = true
			uncounted = uncounted || l.ID == ""
		}
		missing := 0
		for name, docs := range want {
			got := map[string]Document{}
			if c, err := vdb.Collection(name); err == nil {
				got = dump(t, c)
			}
			for id, d := range got {
				w, ok := docs[id]
				switch {
				case ok && docString(name, &d) == docString(name, &w) || lost[name+" "+id]:
				case known[docString(name, &d)] && kind == "nothing is known to be free":
				default:
					t.Errorf("%s: %q has %q, want %q", what, name, docString(name, &d), docString(name, &w))
				}
			}
			for id := range docs {
				if _, ok := got[id]; !ok && !lost[name+" "+id] {
					missing++
				}
			}
		}
		switch {
		case missing > 0 && (!uncounted || kind == "branch" || kind == "freelist" || kind == "one root"):
			t.Errorf("%s: %d of %d documents are missing and nobody says so: %+v", what, missing, total, r.Lost)
		case len(r.Problems) == 0 && !strings.HasSuffix(what, "half") && kind != "one root": // may be empty, and may be so after a crash
			t.Errorf("%s: no problem", what)
		case (kind == "branch" || kind == "freelist" || kind == "one root") && len(r.Lost) > 0:
			t.Errorf("%s: lost %+v", what, r.Lost)
		case len(r.Lost) > 3*total/4:
			t.Errorf("%s: lost %d of %d", what, len(r.Lost), total)
		}
	}
	for page := uint64(2); page < root.Pages; page++ {
		if free[page/64]>>(page%64)&1 != 0 {
			continue
		}
		kind := "leaf"
		switch header := good[page*boltcheck.PageSize:]; {
		case binary.NativeEndian.Uint64(header) != page:
			kind = "overflow"
		case header[8] == 1:
			kind = "branch"
		case header[8] == 16:
			kind = "freelist"
		}
		if page == root.Root {
			kind = "root bucket"
		}
		for what, destroy := range map[string]func(page []byte){
			"zeroed": func(b []byte) { clear(b) },
			"garbled": func(b []byte) {
				for i := range b {
					b[i] = byte(rng.Uint32())
				}
			},
			"another number": func(b []byte) { b[0] ^= 0x55 },
			"another kind":   func(b []byte) { b[8] = 0x40 },
			"half":           func(b []byte) { clear(b[2048:]) },
			"elements of air": func(b []byte) {
				for i := 16; i < 128; i++ {
					b[i] ^= byte(rng.Uint32())
				}
			},
		} {
			if kind == "leaf" && (page%6 != 0 || testing.Short()) && (page%3 != 0 || what != "zeroed") {
				continue
			}
			try(fmt.Sprintf("page %d, a %s, %s", page, kind, what), []uint64{page}, kind, destroy)
		}
	}
	try("newest root", []uint64{uint64(newest)}, "one root", func(b []byte) { clear(b) })
	try("both roots", []uint64{0, 1}, "nothing is known to be free", func(b []byte) { clear(b) })
	try("both roots and the freelist", []uint64{0, 1, root.Freelist}, "nothing is known to be free", func(b []byte) { clear(b) })
	t.Logf("%d pages: %v", root.Pages, kinds)
	if kinds["branch"] == 0 || kinds["leaf"] == 0 || kinds["freelist"] == 0 || kinds["root bucket"] == 0 {
		t.Errorf("pages destroyed: %v", kinds)
	}
}
