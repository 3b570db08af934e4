package fuzz_test

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/simd"
)

// A state is what a database holds: documents, as text, by collection and id.
type state map[string]map[string]string

func (s state) clone() state {
	c := state{}
	for name, docs := range s {
		c[name] = maps.Clone(docs)
	}
	return c
}

// docText prints all of a document.
func docText(d *db.Document) string {
	return fmt.Sprintf("%v %q %v", d.Vector, d.Text, d.Metadata)
}

// An image is the files of a database directory at one moment.
type image map[string][]byte

func readImage(t testing.TB, dir string) image {
	t.Helper()
	files := image{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() { // a process that was killed leaves its socket
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			files[filepath.ToSlash(name)], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// write replaces the content of dir.
func (files image) write(t testing.TB, dir string) {
	t.Helper()
	err := os.RemoveAll(dir)
	for _, sub := range []string{"seg", "wal", "tmp"} {
		err = errors.Join(err, os.MkdirAll(filepath.Join(dir, sub), 0o700))
	}
	for name, b := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// dbDir returns the name of a directory that does not exist, in memory where there is such a thing.
func dbDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "fuzz")
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "db")
}

// A recording is a small database that was written batch by batch. Its files come from testdata, so
// that scripts mean the same everywhere and for ever.
type recording struct {
	files   image
	earlier image           // the files at a moment before
	states  []state         // after each batch
	known   map[string]bool // collection, id and text of every version of every document
}

var recordAnew = flag.Bool("record", false, "write the databases in testdata/recording that are not there")

// load returns a recording.
func load(f *testing.F, name string) recording {
	file := filepath.Join("testdata", "recording", name+".zip")
	if _, err := os.Stat(file); *recordAnew && errors.Is(err, fs.ErrNotExist) {
		w := &writer{f: f, dir: dbDir(f)}
		w.write(name == "killed")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			f.Fatal(err)
		}
		w.pack(file)
	}
	r, err := zip.OpenReader(file)
	if err != nil {
		f.Fatal(err)
	}
	defer r.Close()
	dir := f.TempDir()
	if err := os.CopyFS(dir, r); err != nil {
		f.Fatal(err)
	}
	w := &writer{} // says which batches were written
	w.write(name == "killed")
	return recording{
		files: readImage(f, filepath.Join(dir, "files")), earlier: readImage(f, filepath.Join(dir, "earlier")),
		states: w.states, known: w.known,
	}
}

// A writer writes the database of a recording, or, without f, only keeps account.
type writer struct {
	f     *testing.F
	dir   string
	vdb   *db.DB
	batch db.Batch

	now            state
	states         []state
	known          map[string]bool
	files, earlier image
}

func (w *writer) do(fn func(ctx context.Context) error) {
	if w.f == nil {
		return
	}
	w.f.Helper()
	if err := fn(context.Background()); err != nil {
		w.f.Fatal(err)
	}
}

func (w *writer) put(name string, d db.Document) {
	w.batch.Upsert(name, d)
	w.now[name][d.ID] = docText(&d)
	w.known[name+" "+d.ID+" "+docText(&d)] = true
}

func (w *writer) drop(name, id string) {
	w.batch.Delete(name, id)
	delete(w.now[name], id)
}

// apply ends a batch.
func (w *writer) apply() {
	w.do(func(ctx context.Context) error { return w.vdb.Apply(ctx, &w.batch) })
	w.batch.Reset()
	w.states = append(w.states, w.now.clone())
}

func (w *writer) flush() {
	w.do(func(ctx context.Context) error { return w.vdb.Flush(ctx) })
}

// document returns a version of a document.
func document(i, version int) db.Document {
	d := db.Document{ID: fmt.Sprint("id ", i), Text: strings.Repeat(fmt.Sprintf("text %d of %d. ", version, i), 1+i%20)}
	if i%5 > 0 {
		d.Vector = []float32{float32(i), float32(version), float32(i%7) / 3, -1}
	}
	if i%3 > 0 {
		d.Metadata = db.Metadata{"i": int64(i), "lang": []any{"go", "c"}[i%2], "tags": []any{"x", int64(version)}}
	}
	return d
}

// write writes a database: closed in the end, or copied while it has batches in the log, a kept log
// file and a history.
func (w *writer) write(killed bool) {
	w.do(func(context.Context) (err error) {
		w.vdb, err = db.Open(w.dir, &db.Options{Compaction: db.Manual})
		return err
	})
	w.now, w.states, w.known = state{}, []state{{}}, map[string]bool{}
	for _, name := range []string{"a", "b"} {
		w.do(func(ctx context.Context) error {
			_, err := w.vdb.OpenCollection(ctx, name, map[string]db.Schema{"a": {Dim: 4}, "b": {Metric: db.L2}}[name])
			return err
		})
		w.now[name] = map[string]string{}
		w.states = append(w.states, w.now.clone())
	}
	for i := range 120 {
		w.put("a", document(i, 0))
		if i%4 == 0 {
			w.put("b", document(i, 0))
		}
		if i%30 == 29 {
			w.apply()
		}
	}
	w.flush()
	w.do(func(context.Context) error { w.earlier = readImage(w.f, w.dir); return nil })
	for i := range 20 {
		w.put("a", document(i*7, 1))
		w.drop("b", fmt.Sprint("id ", i*8))
	}
	w.apply()
	if killed {
		w.do(func(context.Context) error {
			snap, err := w.vdb.Snapshot()
			w.f.Cleanup(func() { snap.Close() })
			return err
		})
	}
	w.flush()
	w.put("a", document(1, 2))
	w.drop("a", "id 2")
	w.apply()
	if killed {
		w.flush()
		for i := range 4 {
			w.put("a", document(i*11, 3))
			w.put("b", document(i*12, 3))
			w.drop("a", fmt.Sprint("id ", 60+i))
			w.apply()
		}
		w.do(func(context.Context) error { w.files = readImage(w.f, w.dir); return nil })
	}
	w.do(func(context.Context) error { return w.vdb.Close() })
	if !killed {
		w.do(func(context.Context) error { w.files = readImage(w.f, w.dir); return nil })
	}
}

// pack writes both images to a file, without the zeros at the end of meta.bolt and of the log.
func (w *writer) pack(file string) {
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for at, files := range map[string]image{"files": w.files, "earlier": w.earlier} {
		for name, b := range files {
			switch { // shorter files fuzz faster
			case name == "meta.bolt":
				path := filepath.Join(w.f.TempDir(), name)
				if err := os.WriteFile(path, b, 0o600); err != nil {
					w.f.Fatal(err)
				}
				b = boltPages(w.f, path)
			case strings.HasSuffix(name, ".wal"):
				b = shortLog(b)
			}
			entry, err := z.Create(at + "/" + name)
			if err == nil {
				_, err = entry.Write(b)
			}
			if err != nil {
				w.f.Fatal(err)
			}
		}
	}
	if err := z.Close(); err != nil {
		w.f.Fatal(err)
	}
	if err := os.WriteFile(file, buf.Bytes(), 0o644); err != nil {
		w.f.Fatal(err)
	}
}

// shortLog cuts the zeros of a log file, but for a few, and makes the header say so.
func shortLog(b []byte) []byte {
	used := (len(bytes.TrimRight(b, "\x00")) + 511) / 512 * 512
	b = slices.Clone(b[:used])
	size := (used + 4095) / 4096 * 4096
	binary.LittleEndian.PutUint64(b[48:], uint64(size))
	walSign(b)
	return append(b, make([]byte, size-used)...)
}

// seal makes the checksums of a changed file right, so that the fuzzer gets behind them.
func seal(name string, b []byte) []byte {
	switch {
	case name == "meta.bolt":
		sealRoots(b)
	case strings.HasSuffix(name, ".wal"):
		walSign(b)
	case strings.HasSuffix(name, ".vec"):
		return sealSegment(b)
	case strings.HasSuffix(name, ".cols"):
		return sealColumns(b)
	}
	return b
}

// damageFiles changes a copy of the files as told, by 7 bytes for each change: what to do, to which
// file, at which offset (3 bytes), and a value (2 bytes).
func damageFiles(r *recording, script []byte, forge bool) image {
	files := maps.Clone(r.files)
	names := slices.Sorted(maps.Keys(files))
	for ; len(script) >= 7; script = script[7:] {
		name := names[int(script[1])%len(names)]
		off := int(script[2]) | int(script[3])<<8 | int(script[4])<<16
		value := binary.LittleEndian.Uint16(script[5:])
		b, there := files[name]
		if !there || len(b) == 0 {
			continue
		}
		b = bytes.Clone(b)
		off %= len(b)
		sector := b[off/512*512 : min(off/512*512+512, len(b))]
		switch script[0] % 12 {
		case 0:
			b[off] = byte(value)
		case 1:
			b[off] ^= 1 << (value % 8)
		case 2:
			copy(b[off:], script[5:7])
		case 3:
			clear(sector)
		case 4: // a sector of another place
			copy(sector, b[int(value)*512%len(b)/512*512:])
		case 5: // of another file
			copy(sector, files[names[int(value)%len(names)]])
		case 6: // of another time: a write that was lost
			if old := r.earlier[name]; off/512*512 < len(old) {
				copy(sector, old[off/512*512:])
			}
		case 7:
			b = b[:off]
		case 8:
			b = append(b, bytes.Repeat([]byte{0xFF}, int(value)%5000)...)
		case 9: // a file of another time
			if old, ok := r.earlier[name]; ok {
				b = bytes.Clone(old)
			}
		case 10: // two files change places
			other := names[int(value)%len(names)]
			if files[other] != nil {
				b, files[other] = files[other], b
			}
		case 11:
			delete(files, name)
			continue
		}
		if forge {
			b = seal(name, b)
		}
		files[name] = b
	}
	return files
}

// reading is what reading everything gave.
type reading struct {
	state state
	errs  []error
}

// readAll reads a database in every way. Whatever a document is found by, it must be one of those
// written.
func readAll(t *testing.T, vdb *db.DB, valid func(collection string, d *db.Document)) reading {
	ctx := context.Background()
	r := reading{state: state{}}
	note := func(err error) bool {
		if err != nil {
			dbError(t, err)
			r.errs = append(r.errs, err)
		}
		return err == nil
	}
	infos, err := vdb.Collections()
	note(err)
	for _, info := range infos {
		c, err := vdb.Collection(info.Name)
		if !note(err) {
			continue
		}
		docs, ids, vectors := map[string]string{}, []string{}, 0
		see := func(d *db.Document) {
			valid(info.Name, d)
			if old, ok := docs[d.ID]; ok && old != docText(d) && len(r.errs) == 0 {
				t.Errorf("document %q is %s, and also %s", d.ID, old, docText(d))
			}
		}
		for d, err := range c.All(ctx, nil, db.Everything) {
			if !note(err) {
				break
			}
			see(d)
			docs[d.ID] = docText(d)
			ids = append(ids, d.ID)
			if d.Vector != nil {
				vectors++
			}
		}
		page, err := c.List(ctx, db.ListQuery{Limit: 1000, Select: db.Everything})
		if note(err) {
			for _, d := range page.Documents {
				see(d)
			}
			if len(page.Documents) != len(docs) && len(r.errs) == 0 {
				t.Logf("List gives %d documents, All %d", len(page.Documents), len(docs)) // for Check to see
			}
		}
		many, err := c.GetMany(ctx, ids, db.Everything)
		if note(err) {
			for _, d := range many {
				if d != nil {
					see(d)
				}
			}
		}
		for _, where := range []filter.Expr{nil, filter.Eq("lang", "go"), filter.Contains("tags", 1)} {
			if info.Schema.Dim == 0 {
				break
			}
			res, err := c.Search(ctx, db.Query{Near: db.Vector(make([]float32, info.Schema.Dim)), K: 1000, Where: where, Select: db.Everything})
			if !note(err) {
				continue
			}
			for _, h := range res.Hits {
				see(&h.Document)
				if where != nil && !filter.Match(where, func(path string) (any, bool) { return filter.Lookup(h.Metadata, path) }) {
					t.Errorf("%v finds %s", where, docText(&h.Document))
				}
			}
			if where == nil && len(res.Hits) != vectors && len(r.errs) == 0 {
				t.Logf("Search gives %d documents, All %d with a vector", len(res.Hits), vectors)
			}
		}
		r.state[info.Name] = docs
	}
	return r
}

// dbError wants an error that callers can tell apart, and no panic behind it.
func dbError(t *testing.T, err error) {
	t.Helper()
	for _, kind := range []error{db.ErrCorrupt, db.ErrVersion, db.ErrNotFound, db.ErrUnknown} {
		if errors.Is(err, kind) {
			return
		}
	}
	t.Errorf("an error of no kind: %v", err)
}

// FuzzOpenDir damages the files of a small database and opens it. Whatever it returns was written
// once, or there is an error. When neither reading nor Check finds anything wrong, it holds exactly
// what it held after one of its batches, and goes on working. The first byte of the script says
// which database, how it is opened, and whether the checksums of changed files are made right: what
// is then read is the forger's, but there must be no panic and no hang either. The first two
// databases have no checksums of the pages of meta.bolt, the third has.
func FuzzOpenDir(f *testing.F) {
	recordings := []recording{load(f, "closed"), load(f, "killed"), load(f, "sealed")}
	for mode := range byte(16) {
		f.Add([]byte{mode})
	}
	for i, r := range recordings {
		names := slices.Sorted(maps.Keys(r.files))
		rng := rand.New(rand.NewPCG(uint64(i), 77))
		for kind := range byte(12) {
			for n, name := range names {
				script := []byte{byte(i)&1 | byte(i)&2<<2 | byte(rng.IntN(4))<<1}
				off := rng.IntN(len(r.files[name]))
				if rng.IntN(2) == 0 {
					off %= 256 // headers
				}
				script = append(script, kind, byte(n), byte(off), byte(off>>8), byte(off>>16), byte(rng.Uint32()), byte(rng.Uint32()))
				if n%3 == int(kind)%3 { // not all of them: they run as tests
					f.Add(script)
				}
			}
		}
	}
	dir := dbDir(f)
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) == 0 || len(script) > 200 {
			t.Skip("nothing new in longer scripts")
		}
		mode := script[0]
		r, readOnly, forged := &recordings[mode&1], mode&2 != 0, mode&4 != 0
		if mode&8 != 0 {
			r = &recordings[2]
		}
		files := damageFiles(r, script[1:], forged)
		files.write(t, dir)
		withinTime(t, func() { openDamaged(t, r, dir, readOnly, forged) })
	})
}

// repairDamaged saves what is intact of a database that does not open. That is sound, and was
// written, but for what the report says is lost.
func repairDamaged(t *testing.T, r *recording, dir string, forged bool) {
	fixed := dir + "-fixed"
	defer os.RemoveAll(fixed)
	report, err := db.Repair(context.Background(), dir, fixed)
	if err != nil {
		dbError(t, err)
		return
	}
	vdb, err := db.Open(fixed, &db.Options{ReadOnly: true})
	if err != nil {
		t.Fatalf("repaired: %v", err)
	}
	lost := map[string]bool{}
	for _, l := range report.Lost {
		lost[l.ID] = true
	}
	got := readAll(t, vdb, func(collection string, d *db.Document) {
		if !forged && !lost[d.ID] && !r.known[collection+" "+d.ID+" "+docText(d)] {
			t.Errorf("repaired, and never written: %q %q %s", collection, d.ID, docText(d))
		}
	})
	checked, err := vdb.Check(context.Background(), db.CheckBytes)
	if err != nil || !checked.OK() || len(got.errs) > 0 {
		t.Errorf("repaired: %v, %v, %v", checked, err, got.errs)
	}
	if err := vdb.Close(); err != nil {
		t.Error(err)
	}
}

func openDamaged(t *testing.T, r *recording, dir string, readOnly, forged bool) {
	ctx := context.Background()
	vdb, err := db.Open(dir, &db.Options{MustExist: true, ReadOnly: readOnly})
	if err != nil {
		dbError(t, err)
		repairDamaged(t, r, dir, forged)
		return
	}
	got := readAll(t, vdb, func(collection string, d *db.Document) {
		if !forged && !r.known[collection+" "+d.ID+" "+docText(d)] {
			t.Errorf("never written: %q %q %s", collection, d.ID, docText(d))
		}
	})
	report, err := vdb.Check(ctx, db.CheckBytes)
	if err != nil {
		t.Errorf("check: %v", err)
	}
	sound := err == nil && report.OK()
	if sound && len(got.errs) > 0 {
		t.Errorf("Check finds nothing, reading gives %v", got.errs)
	}
	if sound && !forged && !slices.ContainsFunc(r.states, func(s state) bool { return gocmp.Equal(s, got.state) }) {
		t.Errorf("not noticed: (-last state +got)\n%s", gocmp.Diff(r.states[len(r.states)-1], got.state))
	}
	if sound && !readOnly && len(got.state) > 0 {
		var names []string
		for name := range got.state {
			names = append(names, name)
		}
		c, err := vdb.Collection(slices.Min(names))
		if err == nil {
			_, err = c.Upsert(ctx, db.Document{ID: "new", Text: "of now"})
		}
		if err == nil {
			err = vdb.Compact(ctx)
		}
		if err != nil {
			t.Errorf("sound, but writing gives %v", err)
		}
	}
	if err := vdb.Close(); err != nil {
		dbError(t, err)
		if sound {
			t.Errorf("sound, but Close gives %v", err)
		}
	}
	if !sound || readOnly || len(got.state) == 0 {
		return
	}
	if vdb, err = db.Open(dir, nil); err != nil {
		t.Fatalf("open again: %v", err)
	}
	again := readAll(t, vdb, func(string, *db.Document) {})
	for _, docs := range again.state {
		delete(docs, "new")
	}
	if diff := gocmp.Diff(got.state, again.state); diff != "" || len(again.errs) > 0 {
		t.Errorf("after reopening: %v (-before +after)\n%s", again.errs, diff)
	}
	if err := vdb.Close(); err != nil {
		t.Error(err)
	}
}

// FuzzOps reads a script as operations on a database: writes, flushes, compactions, restarts, and
// crashes, for which the files of the running database are copied as they are and opened elsewhere.
// A map says what must be there.
func FuzzOps(f *testing.F) {
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 60 {
		script := make([]byte, 20+4*i)
		for j := range script {
			script[j] = byte(rng.Uint32())
		}
		f.Add(script)
	}
	f.Add([]byte{})
	dir := dbDir(f)
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 300 {
			t.Skip("long enough")
		}
		o := &operations{t: t, script: script, dir: dir, docs: map[string]map[string]db.Document{}}
		withinTime(t, o.run)
	})
}

// operations are a script while it runs.
type operations struct {
	t      *testing.T
	script []byte
	dir    string
	images int
	vdb    *db.DB
	docs   map[string]map[string]db.Document // by collection and id

	snap   *db.Snapshot
	frozen state // what snap holds
}

// next takes a number below n from the script.
func (o *operations) next(n int) int {
	if len(o.script) == 0 {
		return 0
	}
	v := int(o.script[0]) % n
	o.script = o.script[1:]
	return v
}

func (o *operations) must(err error) {
	o.t.Helper()
	if err != nil {
		o.t.Fatal(err)
	}
}

// open opens the database without anything in the background, so that its files stand still between
// operations.
func (o *operations) open() {
	var err error
	o.vdb, err = db.Open(o.dir, &db.Options{Compaction: db.Manual})
	o.must(err)
}

func (o *operations) run() {
	base := o.dir
	o.must(os.RemoveAll(base))
	o.dir = filepath.Join(base, "0")
	o.open()
	defer func() {
		o.forget()
		o.must(o.vdb.Close())
	}()
	ctx := context.Background()
	schemas := map[string]db.Schema{"a": {Dim: 3, Metric: db.Dot}, "b": {Metric: db.L2}}
	for len(o.script) > 0 && !o.t.Failed() {
		name := []string{"a", "b"}[o.next(2)]
		c, err := o.vdb.OpenCollection(ctx, name, schemas[name])
		o.must(err)
		if o.docs[name] == nil {
			o.docs[name] = map[string]db.Document{}
		}
		switch docs := o.docs[name]; o.next(18) {
		default:
			batch := &db.Batch{}
			for range 1 + o.next(5) {
				d := o.document()
				if o.next(4) == 0 {
					batch.Delete(name, d.ID)
					delete(docs, d.ID)
					continue
				}
				batch.Upsert(name, d)
				docs[d.ID] = d
			}
			o.must(o.vdb.Apply(ctx, batch))
		case 1:
			d := o.document()
			_, taken := docs[d.ID]
			if _, err := c.Insert(ctx, d); taken != errors.Is(err, db.ErrExists) || !taken && err != nil {
				o.t.Fatalf("insert of %q, taken %v: %v", d.ID, taken, err)
			}
			if !taken {
				docs[d.ID] = d
			}
		case 2:
			p := o.document()
			err := c.Patch(ctx, db.Patch{ID: p.ID, Text: &p.Text, Vector: p.Vector, Unset: []string{"n"}, Set: p.Metadata})
			d, there := docs[p.ID]
			if there == errors.Is(err, db.ErrNotFound) || there && err != nil {
				o.t.Fatalf("patch of %q, there %v: %v", p.ID, there, err)
			}
			if there {
				d.Text, d.Metadata = p.Text, p.Metadata
				if p.Vector != nil {
					d.Vector = p.Vector
				}
				docs[p.ID] = d
			}
		case 3:
			id := fmt.Sprint(o.next(16))
			n, err := c.Delete(ctx, id)
			o.must(err)
			if _, there := docs[id]; there != (n == 1) {
				o.t.Fatalf("deleted %d of %q", n, id)
			}
			delete(docs, id)
		case 4:
			where := filter.Gte("n", o.next(6))
			n, err := c.DeleteWhere(ctx, where)
			o.must(err)
			before := len(docs)
			maps.DeleteFunc(docs, func(_ string, d db.Document) bool { return matches(where, d) })
			if n != before-len(docs) {
				o.t.Fatalf("deleted %d where %v, want %d", n, where, before-len(docs))
			}
		case 5:
			o.must(o.vdb.Drop(ctx, name))
			delete(o.docs, name)
		case 6, 7:
			o.must(o.vdb.Flush(ctx))
		case 8:
			o.must(o.vdb.Compact(ctx))
		case 9:
			o.forget()
			o.must(o.vdb.Close())
			o.open()
		case 10, 11:
			o.crash(base)
		case 12:
			o.search(c, schemas[name].Metric, docs)
		case 13:
			o.forget()
			var err error
			o.snap, err = o.vdb.Snapshot()
			o.must(err)
			o.frozen = o.state()
		}
	}
	o.compare()
	o.crash(base)
	o.compare()
}

func (o *operations) document() db.Document {
	d := db.Document{ID: fmt.Sprint(o.next(16)), Text: strings.Repeat("t", o.next(9)*o.next(30))}
	if n := o.next(6); n > 0 {
		d.Vector = []float32{float32(n), float32(o.next(5)) - 2, 0.5}
	}
	if n := o.next(6); n > 0 {
		d.Metadata = db.Metadata{"n": int64(n)}
	}
	return d
}

func matches(where filter.Expr, d db.Document) bool {
	return filter.Match(where, func(path string) (any, bool) { return filter.Lookup(d.Metadata, path) })
}

// state returns what must be there.
func (o *operations) state() state {
	s := state{}
	for name, docs := range o.docs {
		s[name] = map[string]string{}
		for id, d := range docs {
			s[name][id] = docText(&d)
		}
	}
	return s
}

func (o *operations) same(what string, want state, got reading) {
	o.t.Helper()
	if diff := gocmp.Diff(want, got.state); diff != "" || len(got.errs) > 0 {
		o.t.Fatalf("%s: %v (-want +got)\n%s", what, got.errs, diff)
	}
}

func (o *operations) compare() {
	o.t.Helper()
	o.same("database", o.state(), readAll(o.t, o.vdb, func(string, *db.Document) {}))
	report, err := o.vdb.Check(context.Background(), db.CheckBytes)
	if err != nil || !report.OK() {
		o.t.Fatalf("check: %v %+v", err, report)
	}
}

// forget compares the snapshot, if there is one, and closes it.
func (o *operations) forget() {
	if o.snap == nil {
		return
	}
	got := reading{state: state{}}
	infos, err := o.snap.Collections()
	o.must(err)
	for _, info := range infos {
		c, err := o.snap.Collection(info.Name)
		o.must(err)
		docs := map[string]string{}
		for d, err := range c.All(context.Background(), nil, db.Everything) {
			o.must(err)
			docs[d.ID] = docText(d)
		}
		got.state[info.Name] = docs
	}
	o.same("snapshot", o.frozen, got)
	o.must(o.snap.Close())
	o.snap = nil
}

// crash goes on with a copy of the files as they are now.
func (o *operations) crash(base string) {
	files := readImage(o.t, o.dir)
	o.forget()
	o.must(o.vdb.Close())
	o.must(os.RemoveAll(o.dir))
	o.images++
	o.dir = filepath.Join(base, fmt.Sprint(o.images))
	files.write(o.t, o.dir)
	o.open()
	o.compare()
}

// search compares with the scores of all documents.
func (o *operations) search(c *db.Collection, metric db.Metric, docs map[string]db.Document) {
	info, err := c.Info()
	o.must(err)
	if info.Schema.Dim == 0 {
		return
	}
	vec := db.Vector{float32(o.next(5)) - 2, 1, float32(o.next(3))}
	q := db.Query{Near: vec, K: 1 + o.next(20), Select: db.Everything}
	if n := o.next(8); n < 6 {
		q.Where = filter.Lte("n", n)
	}
	type hit struct {
		id    string
		score float64
	}
	var want, got []hit
	for id, d := range docs {
		if d.Vector == nil || q.Where != nil && !matches(q.Where, d) {
			continue
		}
		score := simd.Dot64(vec, d.Vector)
		if metric == db.L2 {
			score = -simd.L264(vec, d.Vector)
		}
		want = append(want, hit{id, score + 0})
	}
	slices.SortFunc(want, func(a, b hit) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.id, b.id)) })
	res, err := c.Search(context.Background(), q)
	o.must(err)
	for _, h := range res.Hits {
		got = append(got, hit{h.ID, h.Score})
		if d := docs[h.ID]; docText(&d) != docText(&h.Document) {
			o.t.Fatalf("found %s, want %s", docText(&h.Document), docText(&d))
		}
	}
	if !slices.Equal(want[:min(q.K, len(want))], got) || res.Matched != len(want) {
		o.t.Fatalf("%v: %v, matched %d; want %v", q, got, res.Matched, want)
	}
}
