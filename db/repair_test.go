package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fsck"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

func TestRepair(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	vdb := open(t, dir, &Options{Compaction: Manual})
	c := collection(t, vdb, "c", Schema{Dim: 1024, Metric: Dot})
	bare := collection(t, vdb, "bare", Schema{})
	if err := c.SetMetadata(ctx, Metadata{"k": "v"}); err != nil {
		t.Fatal(err)
	}
	want := map[string]Document{}
	for i := range 200 {
		d := Document{ID: fmt.Sprint(i), Text: fmt.Sprintf("<text of %d>", i), Vector: make([]float32, 1024), Metadata: Metadata{"i": int64(i)}}
		d.Vector[0] = float32(i)
		upsert(t, c, d)
		upsert(t, bare, Document{ID: d.ID, Text: "bare " + d.Text})
		want[d.ID] = d
		if i == 99 {
			if err := vdb.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := c.Delete(ctx, "7", "150"); err != nil {
		t.Fatal(err)
	}
	delete(want, "7")
	delete(want, "150")
	if err := vdb.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	for i := range 5 { // in the log alone
		d := Document{ID: fmt.Sprint("late", i), Vector: make([]float32, 1024)}
		upsert(t, c, d)
		want[d.ID] = d
	}
	lose(t, vdb)

	// Untouched, everything comes over.
	whole := filepath.Join(t.TempDir(), "whole")
	r, err := Repair(ctx, dir, whole)
	if err != nil || len(r.Lost) != 0 || len(r.Problems) != 0 || r.Documents != len(want)+200 || r.Collections != 2 {
		t.Fatalf("%+v %v", r, err)
	}
	if _, err := Repair(ctx, dir, whole); !errors.Is(err, ErrExists) {
		t.Errorf("repair over a closed database: %v", err)
	}
	fixed := open(t, whole, nil) // the refused repair keeps no lock
	got := collection(t, fixed, "c", Schema{Metric: Dot})
	if diff := cmp.Diff(want, dump(t, got)); diff != "" {
		t.Fatalf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(Metadata{"k": "v"}, must(got.Info()).Metadata); diff != "" {
		t.Error(diff)
	}
	check(t, fixed)
	if _, err := Repair(ctx, dir, whole); !errors.Is(err, ErrExists) {
		t.Errorf("repair over an open database: %v", err)
	}

	// A rotten block of vectors (16 rows) and a rotten document.
	vec := filepath.Join(dir, "seg", "00000001.vec")
	if info, err := os.Stat(vec); err != nil || info.Size() < 100*4096 {
		vec = filepath.Join(dir, "seg", "00000002.vec") // segments are numbered in no order
	}
	flip(t, vec, 4096+20*4096)
	metaBytes, err := os.ReadFile(filepath.Join(dir, engine.MetaName))
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(metaBytes, []byte("<text of 180>"))
	if at < 0 {
		t.Fatal("the document is not found")
	}
	for off := 0; ; off++ { // all copies that bbolt has left lying about
		i := bytes.Index(metaBytes[off:], []byte("<text of 180>"))
		if i < 0 {
			break
		}
		if off += i; !bytes.HasPrefix(metaBytes[max(0, off-5):], []byte("bare ")) {
			flip(t, filepath.Join(dir, engine.MetaName), int64(off))
		}
	}
	damaged := snapshotDir(t, dir)
	half := filepath.Join(t.TempDir(), "half")
	r, err = Repair(ctx, dir, half)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(damaged, snapshotDir(t, dir)); diff != "" {
		t.Errorf("repair changed the source")
	}
	lost := map[string]int{}
	for _, l := range r.Lost {
		lost[l.What]++
		d := want[l.ID]
		if l.Collection != "c" || d.ID == "" {
			t.Errorf("%+v", l)
		}
		switch l.What {
		case "vector":
			d.Vector = nil
		case "text and metadata":
			d.Text, d.Metadata = "", nil
			if l.ID != "180" {
				t.Errorf("%+v", l)
			}
		default:
			t.Errorf("%+v", l)
		}
		want[l.ID] = d
	}
	if lost["vector"] < 15 || lost["vector"] > 17 || lost["text and metadata"] != 1 || len(r.Problems) != 2 {
		t.Errorf("lost %v, problems %v", lost, r.Problems)
	}
	fixed = open(t, half, nil)
	if diff := cmp.Diff(want, dump(t, collection(t, fixed, "c", Schema{Metric: Dot}))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if n := must(collection(t, fixed, "bare", Schema{}).Info()).Documents; n != 200 {
		t.Errorf("%d of the other collection", n)
	}
	check(t, fixed)
}

// TestRepairOfALog damages batches that only the log has: Check and Repair say how many are lost,
// and Repair saves what the others wrote.
func TestRepairOfALog(t *testing.T) {
	put := func(coll, id, text string) func(*DB) error {
		return func(vdb *DB) error {
			c, err := vdb.OpenCollection(t.Context(), coll, Schema{})
			if err == nil {
				_, err = c.Upsert(t.Context(), Document{ID: id, Text: text})
			}
			return err
		}
	}
	remove := func(coll, id string) func(*DB) error {
		return func(vdb *DB) error {
			_, err := existing(t, vdb, coll).Delete(t.Context(), id)
			return err
		}
	}
	rename := func(from, to string) func(*DB) error {
		return func(vdb *DB) error { return vdb.Rename(t.Context(), from, to) }
	}
	drop := func(coll string) func(*DB) error {
		return func(vdb *DB) error { return vdb.Drop(t.Context(), coll) }
	}
	for _, test := range []struct {
		name    string
		batches []func(*DB) error // after one that made collection c with documents a and b
		marks   []string          // in the damaged records
		numbers []string          // of the lost batches
		want    string
		lost    []string // other losses
	}{
		{"a put", []func(*DB) error{put("c", "a", "<lost>"), put("c", "b", "new"), remove("c", "a"), put("c", "d", "new")},
			[]string{"<lost>"}, []string{"number 3 is lost"}, "c/b=new, c/d=new", nil},
		{"two puts", []func(*DB) error{put("c", "a", "<lost 1>"), put("c", "d", "<lost 2>"), put("c", "e", "new")},
			[]string{"<lost 1>", "<lost 2>"}, []string{"number 3 is lost", "number 4 is lost"}, "c/a=old, c/b=old, c/e=new", nil},
		{"a put of what is deleted", []func(*DB) error{put("c", "d", "<lost>"), remove("c", "d"), put("c", "e", "new")},
			[]string{"<lost>"}, []string{"number 3 is lost"}, "c/a=old, c/b=old, c/e=new", nil},
		{"a rename", []func(*DB) error{rename("c", "<renamed>"), put("c", "a", "another"), put("<renamed>", "b", "new")},
			[]string{"<renamed>"}, []string{"number 3 is lost"}, "c/a=another, collection 1/a=old, collection 1/b=new", []string{"collection 1"}},
		{"a rename, then the definition", []func(*DB) error{rename("c", "<renamed>"), rename("<renamed>", "again")},
			[]string{"<renamed>"}, []string{"number 3 is lost"}, "again/a=old, again/b=old", nil},
		{"a definition", []func(*DB) error{put("<made>", "a", "old"), put("c", "d", "new"), drop("<made>")},
			[]string{"<made>"}, []string{"number 3 is lost"}, "c/a=old, c/b=old, c/d=new", []string{"a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			vdb := open(t, dir, &Options{Compaction: Manual})
			c := collection(t, vdb, "c", Schema{})
			upsert(t, c, Document{ID: "a", Text: "old"}, Document{ID: "b", Text: "old"})
			flush(t, vdb)
			for _, batch := range append(test.batches, put("last", "z", "the witness")) {
				if err := batch(vdb); err != nil {
					t.Fatal(err)
				}
			}
			lose(t, vdb)
			logs, err := filepath.Glob(filepath.Join(dir, engine.WALDir, "*.wal"))
			if err != nil || len(logs) == 0 {
				t.Fatal(logs, err)
			}
			log := logs[len(logs)-1] // the others are flushed
			content, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			for _, mark := range test.marks {
				flip(t, log, int64(bytes.Index(content, []byte(mark))))
			}
			report, err := CheckFiles(t.Context(), dir, CheckBytes)
			if err != nil || len(report.Problems) != len(test.numbers) {
				t.Fatalf("check: %v, %v", report, err)
			}
			saved := filepath.Join(t.TempDir(), "saved")
			r, err := Repair(t.Context(), dir, saved)
			if err != nil || len(r.Problems) != len(test.numbers) || len(r.Lost) != len(test.numbers)+len(test.lost) {
				t.Fatalf("repair: %+v, %v", r, err)
			}
			for i, number := range test.numbers {
				if p := report.Problems[i]; !strings.HasSuffix(p.Detail, "of the batches, "+number) {
					t.Errorf("check: %v", p)
				}
				if l := r.Lost[i]; !strings.Contains(l.Reason, number) {
					t.Errorf("lost: %v", l)
				}
			}
			for i, what := range test.lost {
				if l := r.Lost[len(test.numbers)+i]; l.Collection+l.ID != what {
					t.Errorf("lost: %+v", l)
				}
			}
			vdb = open(t, saved, nil)
			check(t, vdb)
			var got []string
			for _, info := range must(vdb.Collections()) {
				for id, d := range dump(t, existing(t, vdb, info.Name)) {
					got = append(got, fmt.Sprintf("%s/%s=%s", info.Name, id, d.Text))
				}
			}
			slices.Sort(got)
			if want := test.want + ", last/z=the witness"; strings.Join(got, ", ") != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// TestRepairOfAZeroedLog zeroes the header of the log, as a disk may that loses power: Open names
// the place, and Repair saves all batches, which only the log has.
func TestRepairOfAZeroedLog(t *testing.T) {
	dir := t.TempDir()
	vdb := open(t, dir, &Options{Compaction: Manual})
	c := collection(t, vdb, "c", Schema{})
	for _, id := range []string{"a", "b", "c"} {
		upsert(t, c, Document{ID: id, Vector: []float32{1}})
	}
	lose(t, vdb)
	logs, err := filepath.Glob(filepath.Join(dir, engine.WALDir, "*.wal"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	content, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	clear(content[:4096])
	if err := os.WriteFile(logs[0], content, 0o600); err != nil {
		t.Fatal(err)
	}
	place := engine.WALDir + "/" + filepath.Base(logs[0]) + " at offset 0: file header is damaged"
	if _, err := Open(dir, nil); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), place) {
		t.Errorf("%v, want %q", err, place)
	}
	report, err := CheckFiles(t.Context(), dir, CheckBytes)
	if err != nil || len(report.Problems) != 1 || !strings.HasPrefix(report.Problems[0].String(), place) ||
		!strings.HasSuffix(report.Problems[0].Detail, "of the batches, none is lost") {
		t.Errorf("%v, %v", report, err)
	}
	saved := filepath.Join(t.TempDir(), "saved")
	r, err := Repair(t.Context(), dir, saved)
	if err != nil || len(r.Problems) != 1 || len(r.Lost) > 0 || r.Documents != 3 || r.Vectors != 3 {
		t.Errorf("%+v, %v", r, err)
	}
	check(t, open(t, saved, nil))
}

// TestRepairOfDefinitions repairs a database whose log changes what a collection was made with.
func TestRepairOfDefinitions(t *testing.T) {
	german := &TextIndex{Language: "german"}
	for _, text := range []*TextIndex{german, nil} {
		dir := t.TempDir()
		vdb := open(t, dir, &Options{Compaction: Manual})
		c := collection(t, vdb, "c", Schema{Dim: 2, Text: &TextIndex{}})
		upsert(t, c, Document{ID: "a", Vector: []float32{1, 2}, Text: "Häuser"})
		flush(t, vdb)
		err := errors.Join(c.SetText(t.Context(), text), c.SetIndex(t.Context(), IndexSmall))
		upsert(t, c, Document{ID: "b", Text: "Haus"})
		lose(t, vdb)
		saved := filepath.Join(t.TempDir(), "saved")
		r, err2 := Repair(t.Context(), dir, saved)
		if err := errors.Join(err, err2); err != nil || len(r.Lost) > 0 || r.Documents != 2 {
			t.Fatalf("%+v, %v", r, err)
		}
		vdb = open(t, saved, nil)
		check(t, vdb)
		s := must(existing(t, vdb, "c").Info()).Schema
		if s.Index != IndexSmall || s.Dim != 2 || (s.Text == nil) != (text == nil) || text != nil && s.Text.Language != "german" {
			t.Errorf("%+v", s)
		}
	}
}

// TestRepairWithoutASegment repairs a database whose only segment is gone, or has the vectors of
// another database: texts and metadata stay, without vectors.
func TestRepairWithoutASegment(t *testing.T) {
	fill := func(t *testing.T, vec []float32) (dir, segment string) {
		dir = t.TempDir()
		vdb := open(t, dir, nil)
		c := collection(t, vdb, "c", Schema{Dim: 2})
		for _, id := range []string{"a", "b"} {
			upsert(t, c, Document{ID: id, Text: "text of " + id, Vector: vec, Metadata: Metadata{"k": id}})
		}
		if err := vdb.Close(); err != nil {
			t.Fatal(err)
		}
		return dir, filepath.Join(dir, "seg", "00000001.vec")
	}
	for name, replace := range map[string]func(t *testing.T, path string) error{
		"removed":                  func(*testing.T, string) error { return nil },
		"a directory in its place": func(_ *testing.T, path string) error { return os.Mkdir(path, 0o700) },
		"of another database": func(t *testing.T, path string) error {
			_, other := fill(t, []float32{3, 4})
			return os.Rename(other, path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, segment := fill(t, []float32{1, 2})
			if err := os.Remove(segment); err != nil {
				t.Fatal(err)
			}
			if err := replace(t, segment); err != nil {
				t.Fatal(err)
			}
			to := filepath.Join(t.TempDir(), "repaired")
			r, err := Repair(t.Context(), dir, to)
			if err != nil || len(r.Lost) != 2 || r.Lost[0].What != "vector" {
				t.Fatalf("%+v, %v", r, err)
			}
			want := map[string]Document{}
			for _, id := range []string{"a", "b"} {
				want[id] = Document{ID: id, Text: "text of " + id, Metadata: Metadata{"k": id}}
			}
			fixed := open(t, to, nil)
			if diff := cmp.Diff(want, dump(t, collection(t, fixed, "c", Schema{}))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			check(t, fixed)
		})
	}
}

func flip(t *testing.T, name string, off int64) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, off); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b, off); err != nil {
		t.Fatal(err)
	}
}

// TestBackupIsWhole fails every step of a backup, or cancels it there: it leaves nothing.
func TestBackupIsWhole(t *testing.T) {
	var step, at atomic.Int64 // from the first one in the new directory
	var fail func() error
	vdb := open(t, t.TempDir(), &Options{Compaction: Manual, tests: testOptions{hook: func(op vfs.Op) error {
		if at.Load() == 0 || step.Load() == 0 && op.Kind != vfs.OpMkdir || step.Add(1) != at.Load() {
			return nil
		}
		return fail()
	}}})
	upsert(t, collection(t, vdb, "c", Schema{Dim: 2}), Document{ID: "a", Vector: []float32{1, 2}})
	broken := errors.New("broken")
	for _, failure := range []error{broken, context.Canceled} {
		for _, there := range []bool{false, true} {
			n := int64(1)
			for whole := false; !whole; n++ {
				top := t.TempDir()
				dst := filepath.Join(top, "copy")
				if !there {
					dst = filepath.Join(top, "a", "b", "copy")
				} else if err := os.Mkdir(dst, 0o700); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				fail = func() error {
					if failure == broken {
						return broken
					}
					cancel()
					return nil
				}
				step.Store(0)
				at.Store(n)
				err := vdb.Backup(ctx, dst)
				at.Store(0)
				cancel()
				entries, absent := os.ReadDir(dst)
				parents := must(os.ReadDir(top))
				_, unmade := os.Stat(filepath.Join(dst, engine.MetaName))
				switch {
				case err == nil || unmade == nil:
					whole = step.Load() < n // otherwise the failure came too late
				case !errors.Is(err, failure):
					t.Fatalf("step %d: %v", n, err)
				case len(entries) > 0 || there != (absent == nil) || there != (len(parents) > 0):
					t.Fatalf("step %d, %v: it leaves %v, %v in %v", n, err, entries, absent, parents)
				}
			}
			if n < 20 {
				t.Errorf("only %d steps", n)
			}
		}
	}
}

// flushPages writes a document b with a text, and others that take several pages, to collection c.
func flushPages(t *testing.T, vdb *DB, text string) {
	docs := []Document{{ID: "b", Text: text}}
	for i := range 50 {
		docs = append(docs, Document{ID: fmt.Sprint(i), Text: strings.Repeat("long ", 200)})
	}
	upsert(t, collection(t, vdb, "c", Schema{}), docs...)
	flush(t, vdb)
}

// TestCopiesOfASuccessor damages a document before another process takes over the lead, which does
// not verify pages that were in use until then. Its copies name the document all the same.
func TestCopiesOfASuccessor(t *testing.T) {
	dir, text := t.TempDir(), "<the text of b>"
	first := open(t, dir, &Options{Compaction: Manual})
	flushPages(t, first, text)
	second := open(t, dir, &Options{Compaction: Manual})
	defer second.Close()
	content, err := os.ReadFile(filepath.Join(dir, engine.MetaName))
	if err != nil {
		t.Fatal(err)
	}
	flip(t, filepath.Join(dir, engine.MetaName), int64(bytes.LastIndex(content, []byte(text))))
	_ = first.Close()                                                  // it may notice the damage
	upsert(t, collection(t, second, "c", Schema{}), Document{ID: "y"}) // by the leader
	const want = `document "b" of collection "c"`
	if err := second.Backup(t.Context(), filepath.Join(t.TempDir(), "copy")); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), want) {
		t.Errorf("backup: %v", err)
	}
	p := publisher(t, second, filepath.Join(t.TempDir(), "folder"), nil)
	defer p.Close()
	if _, err := p.Publish(t.Context()); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), want) {
		t.Errorf("publish: %v", err)
	}
}

// TestCopiesOfDamage damages a document of a database, and makes a backup of it and publishes it:
// both fail and name the document, whatever was written before. A page that had its checksum keeps
// it.
func TestCopiesOfDamage(t *testing.T) {
	for _, test := range []struct {
		name   string
		closed bool // when the damage happens
		refuse bool // to open for writing
		then   func(t *testing.T, dir string)
		want   string
	}{
		{"killed", false, false, nil, `document "b" of collection "c"`},
		{"killed, then closed", false, false, func(t *testing.T, dir string) {
			if err := open(t, dir, nil).Close(); err != nil {
				t.Fatal(err)
			}
		}, `document "b" of collection "c"`},
		{"closed", true, false, nil, "checksum mismatch"},
		{"closed, written to twice", true, true, func(t *testing.T, dir string) {
			vdb, err := Open(dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = collection(t, vdb, "c", Schema{}).Upsert(t.Context(), Document{ID: "d"})
			if flushed := vdb.Flush(t.Context()); err != nil || !errors.Is(flushed, ErrCorrupt) {
				t.Fatal(err, flushed)
			}
			_ = vdb.Close()
		}, "checksum mismatch"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir, text := t.TempDir(), "<the text of b>"
			vdb := open(t, dir, &Options{Compaction: Manual})
			flushPages(t, vdb, text)
			if test.closed {
				if err := vdb.Close(); err != nil {
					t.Fatal(err)
				}
			} else {
				lose(t, vdb)
			}
			content, err := os.ReadFile(filepath.Join(dir, engine.MetaName))
			if err != nil {
				t.Fatal(err)
			}
			for at, end := 0, 0; ; at = end { // and earlier copies of the page
				i := bytes.Index(content[at:], []byte(text))
				if i < 0 {
					break
				}
				flip(t, filepath.Join(dir, engine.MetaName), int64(at+i))
				end = at + i + len(text)
			}
			if test.then != nil {
				test.then(t, dir)
			}
			vdb, err = Open(dir, nil)
			if test.refuse {
				if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), test.want) {
					t.Errorf("it is opened: %v", err)
				}
				vdb, err = Open(dir, &Options{ReadOnly: true})
			}
			if err != nil {
				t.Fatal(err)
			}
			defer vdb.Close()
			copied := filepath.Join(t.TempDir(), "copy")
			if err := vdb.Backup(t.Context(), copied); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("backup: %v", err)
			}
			if left, err := os.ReadDir(copied); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the backup has left %v, %v", left, err)
			}
			if test.refuse {
				return
			}
			p := publisher(t, vdb, filepath.Join(t.TempDir(), "folder"), nil)
			if _, err := p.Publish(t.Context()); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("publish: %v", err)
			}
		})
	}
}

// TestBackupCut takes the files that a process leaves if it is killed at any step of a backup, or
// while it discards one whose last step has failed. They are the whole database or refused, even by
// a writer.
func TestBackupCut(t *testing.T) {
	broken := errors.New("broken")
	for _, failure := range []error{nil, broken} {
		dst, cuts := filepath.Join(t.TempDir(), "copy"), t.TempDir()
		var begun atomic.Bool
		cut := func(n int) int { // a directory without names has nothing of a backup
			if left, err := os.ReadDir(dst); err != nil || len(left) == 0 {
				return n
			}
			if err := os.CopyFS(filepath.Join(cuts, fmt.Sprint(n)), os.DirFS(dst)); err != nil {
				t.Error(err)
			}
			return n + 1
		}
		n := 0
		vdb := open(t, t.TempDir(), &Options{Compaction: Manual, tests: testOptions{hook: func(op vfs.Op) error {
			if !begun.Load() {
				return nil
			}
			n = cut(n)
			if op.Kind == vfs.OpRename && op.To == engine.MetaName {
				return failure
			}
			return nil
		}}})
		upsert(t, collection(t, vdb, "c", Schema{Dim: 2}), Document{ID: "a", Vector: []float32{1, 2}})
		begun.Store(true)
		if err := vdb.Backup(t.Context(), dst); !errors.Is(err, failure) {
			t.Fatal(err)
		}
		begun.Store(false)
		n = cut(n)
		whole := 0
		for i := range n {
			dir := filepath.Join(cuts, fmt.Sprint(i))
			_, err := os.Stat(filepath.Join(dir, engine.MetaName))
			complete := err == nil
			if complete {
				whole++
			}
			for how, opts := range []*Options{{ReadOnly: true}, {MustExist: true}, nil} {
				got, err := Open(dir, opts)
				switch {
				case err == nil && complete:
					if n, err := existing(t, got, "c").Count(t.Context(), nil); n != 1 || err != nil {
						t.Errorf("cut %d: %d documents, %v", i, n, err)
					}
				case complete, !errors.Is(err, ErrNotFound), !strings.Contains(err.Error(), engine.Unfinished):
					t.Errorf("cut %d, complete %v, options %d: %v", i, complete, how, err)
				}
				if err == nil {
					if err := got.Close(); err != nil {
						t.Error(err)
					}
				}
			}
		}
		if n < 20 || (whole > 0) != (failure == nil) {
			t.Errorf("failure %v: %d cuts, of which %d are whole", failure, n, whole)
		}
	}
}

// TestBackupBesideAnother begins another backup to the same directory while the database is
// flushed: the later one is refused, and leaves the files of the other.
func TestBackupBesideAnother(t *testing.T) {
	dst := filepath.Join(t.TempDir(), "copy")
	other := filepath.Join(dst, engine.SegDir)
	var begin atomic.Bool
	vdb := open(t, t.TempDir(), &Options{Compaction: Manual, tests: testOptions{hook: func(vfs.Op) error {
		if begin.CompareAndSwap(true, false) {
			return os.MkdirAll(other, 0o700)
		}
		return nil
	}}})
	upsert(t, collection(t, vdb, "c", Schema{Dim: 2}), Document{ID: "a", Vector: []float32{1, 2}})
	begin.Store(true)
	if err := vdb.Backup(t.Context(), dst); !errors.Is(err, ErrExists) {
		t.Errorf("backup: %v", err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}

// TestRepairIsWhole fails every step of a repair: no database is left then, and nothing else.
// What a process that was killed has left is no database either, and is refused.
func TestRepairIsWhole(t *testing.T) {
	src := t.TempDir()
	vdb := open(t, src, nil)
	c := collection(t, vdb, "c", Schema{Dim: 2})
	upsert(t, c, Document{ID: "a", Vector: []float32{1, 2}, Text: "flushed"})
	if err := vdb.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	upsert(t, c, Document{ID: "b", Text: "logged"})
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for _, there := range []bool{true, false} {
		for n := int64(1); ; n++ {
			top := t.TempDir()
			dst := top
			if !there {
				dst = filepath.Join(top, "a", "b", "new") + "/"
			}
			var steps atomic.Int64
			opts := (&Options{tests: testOptions{hook: func(vfs.Op) error {
				if steps.Add(1) == n {
					return broken
				}
				return nil
			}}}).withDefaults()
			if _, err := fsck.Repair(t.Context(), src, dst, opts.settings()); err == nil {
				if steps.Load() >= n {
					continue // a step whose failure does not matter
				}
				if got, err := collectionOf(t, open(t, dst, nil), "c").Count(t.Context(), nil); err != nil || got != 2 {
					t.Error(got, err)
				}
				if _, err := os.Stat(filepath.Join(dst, engine.Unfinished)); !errors.Is(err, fs.ErrNotExist) {
					t.Error("it is not moved as a whole:", err)
				}
				break
			}
			if left, err := os.ReadDir(top); len(left) > 0 || err != nil {
				t.Fatalf("after step %d: %v, %v", n, left, err)
			}
		}
	}
	// Segments of a database that has lost its meta.bolt are not removed.
	lost := t.TempDir()
	vec := filepath.Join(lost, engine.SegDir, "00000001.vec")
	if err := errors.Join(os.Mkdir(filepath.Dir(vec), 0o700), os.WriteFile(vec, []byte("rows"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := Repair(t.Context(), src, lost); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	if b, err := os.ReadFile(vec); string(b) != "rows" {
		t.Errorf("%q, %v", b, err)
	}
	dst := t.TempDir()
	if err := os.Mkdir(filepath.Join(dst, engine.Unfinished), 0o700); err != nil {
		t.Fatal(err)
	}
	for how, opts := range []*Options{{ReadOnly: true}, {MustExist: true}, nil} {
		if _, err := Open(dst, opts); !errors.Is(err, ErrNotFound) {
			t.Errorf("half a repair is a database with options %d: %v", how, err)
		}
	}
	if _, err := Repair(t.Context(), src, dst); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	for _, dst := range []string{filepath.Join(src, "inside"), src, Memory} {
		if _, err := Repair(t.Context(), src, dst); !errors.Is(err, ErrInvalid) {
			t.Errorf("to %s: %v", dst, err)
		}
	}
}
