package db

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/boltcheck"
	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment"
	"github.com/vecbolt/vecbolt/wal"
)

var (
	damages    = flag.Int("damages", 1500, "cases of damage that TestDamage tries of each database; 0: all of them, most with the decoder of the file alone")
	damageFile = flag.String("damagefile", "", "TestDamage: only files whose names contain this")
)

// A specimen is a small database with every kind of content, in its present state and
// earlier ones.
type specimen struct {
	name    string
	files   map[string][]byte
	earlier []map[string][]byte // the files of earlier states
	states  []string            // content of the collections after each batch, the present one last
	known   map[string]bool     // every version of every document
}

func readFiles(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() { // a process that was killed leaves its socket
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil && name != engine.LockName && !strings.Contains(name, "spare") {
			files[filepath.ToSlash(name)], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func writeFiles(t testing.TB, dir string, files map[string][]byte) {
	t.Helper()
	err := os.RemoveAll(dir)
	for _, sub := range []string{engine.SegDir, engine.WALDir, engine.TmpDir} {
		err = errors.Join(err, os.MkdirAll(filepath.Join(dir, sub), 0o700))
	}
	for name, b := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func docString(coll string, d *Document) string {
	return fmt.Sprintf("%s %q %v %q %v", coll, d.ID, d.Vector, d.Text, d.Metadata)
}

// specimenWriter writes a specimen batch by batch.
type specimenWriter struct {
	t   testing.TB
	db  *DB
	now map[string]map[string]Document
	v   *specimen
}

func (w *specimenWriter) batch(fn func(put func(coll string, d Document), drop func(coll, id string))) {
	w.t.Helper()
	b := &Batch{}
	fn(func(coll string, d Document) {
		b.Upsert(coll, d)
		w.now[coll][d.ID] = d
		w.v.known[docString(coll, &d)] = true
	}, func(coll, id string) {
		b.Delete(coll, id)
		delete(w.now[coll], id)
	})
	if err := w.db.Apply(w.t.Context(), b); err != nil {
		w.t.Fatal(err)
	}
	w.v.states = append(w.v.states, w.state())
}

func (w *specimenWriter) state() string {
	var lines []string
	for coll, docs := range w.now {
		for _, d := range docs {
			lines = append(lines, docString(coll, &d))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// smallest builds every kind of derived file for segments of any size, and uses them.
var smallest = Options{tests: testOptions{codedBytes: 1, graphSize: 1, quickSize: 1, walkAlways: true, trials: 8}, Workers: 1}

func reading() *Options {
	opts := smallest
	opts.ReadOnly = true
	return &opts
}

// newSpecimen writes a database with two metrics, columns, codes, graphs, a text index,
// documents without vectors, dead rows, replaced documents and obsolete segments. It is
// either closed, so that pages have checksums, or killed, with the history of a snapshot
// and a log of two files.
func newSpecimen(t testing.TB, killed bool) *specimen {
	t.Helper()
	dir := filepath.Join(memDir(t), "db")
	w := &specimenWriter{t: t, v: &specimen{name: "closed", known: map[string]bool{}}, now: map[string]map[string]Document{"a": {}, "b": {}}}
	opts := smallest
	opts.Compaction = Manual
	w.db = open(t, dir, &opts)
	collection(t, w.db, "a", Schema{Dim: 6, Text: &TextIndex{Language: "none"}})
	collection(t, w.db, "b", Schema{Dim: 3, Metric: L2})
	rng := rand.New(rand.NewPCG(3, 1))
	doc := func(i, version, dim int) Document {
		d := Document{ID: fmt.Sprint("id ", i), Text: strings.Repeat(fmt.Sprintf("version %d of %d. ", version, i), 1+i%4)}
		if i%5 > 0 {
			d.Vector = randomVectors(rng, 1, dim)[0]
		}
		if i%3 > 0 {
			d.Metadata = Metadata{"i": int64(i), "lang": []any{"go", "c"}[i%2], "tags": []any{"x", int64(version)}}
		}
		return d
	}
	type put = func(string, Document)
	type drop = func(string, string)
	for part := range 2 {
		w.batch(func(put put, _ drop) {
			for i := part * 20; i < part*20+20; i++ {
				put("a", doc(i, 0, 6))
				if i%3 == 0 {
					put("b", doc(i, 0, 3))
				}
			}
		})
	}
	flush(t, w.db)
	w.v.earlier = append(w.v.earlier, readFiles(t, dir))
	w.batch(func(put put, drop drop) {
		for i := range 6 {
			put("a", doc(i*6, 1, 6))
			drop("b", fmt.Sprint("id ", i*6))
		}
	})
	if err := w.db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.v.earlier = append(w.v.earlier, readFiles(t, dir))
	if !killed {
		w.batch(func(put put, drop drop) {
			put("a", doc(1, 2, 6))
			drop("a", "id 7")
		})
		if err := w.db.Close(); err != nil {
			t.Fatal(err)
		}
		w.v.files = readFiles(t, dir)
	} else {
		snap, err := w.db.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		defer snap.Close()
		w.batch(func(put put, drop drop) {
			put("a", doc(2, 2, 6))
			drop("a", "id 8")
		})
		flush(t, w.db)
		for i := range 4 {
			w.batch(func(put put, drop drop) {
				put("a", doc(i*5, 3, 6))
				put("b", doc(i*9, 3, 3))
				drop("a", fmt.Sprint("id ", 30+i))
			})
		}
		w.v.name, w.v.files = "killed", readFiles(t, dir)
		w.shortLog(dir)
	}
	// Free space after the last page has no meaning.
	roots, newest, err := boltcheck.Roots(bytes.NewReader(w.v.files[engine.MetaName]), int64(len(w.v.files[engine.MetaName])))
	if err != nil {
		t.Fatal(err)
	}
	w.v.files[engine.MetaName] = w.v.files[engine.MetaName][:roots[newest].Pages*boltcheck.PageSize]
	return w.v
}

// shortLog rewrites the log in short files, the last batch in a second one.
func (w *specimenWriter) shortLog(dir string) {
	w.t.Helper()
	maps.DeleteFunc(w.v.files, func(name string, _ []byte) bool { return strings.HasPrefix(name, engine.WALDir+"/") })
	copied := filepath.Join(memDir(w.t), "log")
	writeFiles(w.t, copied, nil)
	from, err := vfs.Open(dir, nil)
	to, err2 := vfs.Open(copied, nil)
	if err := errors.Join(err, err2); err != nil {
		w.t.Fatal(err)
	}
	defer from.Close()
	defer to.Close()
	id := w.db.engine.Identity
	var log *wal.Log
	_, err = wal.Replay(wal.Options{FS: from, DB: id}, inspect(w.db).State().Applied-1, func(lsn uint64, b []byte) (err error) {
		if log == nil {
			log, err = wal.Create(wal.Options{FS: to, DB: id, FileSize: 16 << 10}, lsn, lsn-1)
		}
		if err == nil && lsn == uint64(len(w.v.states)+2) { // two batches made the collections
			err = log.Rotate()
		}
		if err == nil {
			_, err = log.Append([]wal.Record{{Parts: [][]byte{b}}})
		}
		if err == nil {
			err = log.Sync()
		}
		return err
	})
	if err == nil {
		err = log.Close()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	for name, b := range readFiles(w.t, copied) {
		w.v.files[name] = b
	}
}

// A hurt is one case of damage: other bytes at an offset of a file, or a length to
// truncate it to.
type hurt struct {
	kind string
	file string
	off  int
	new  []byte // nil: truncate
}

func (h hurt) String() string {
	if h.new == nil {
		return fmt.Sprintf("%s: %s at %d", h.kind, h.file, h.off)
	}
	return fmt.Sprintf("%s: %s at %d, % x...", h.kind, h.file, h.off, h.new[:min(4, len(h.new))])
}

// hurts yields every case.
func (v *specimen) hurts() iter.Seq[hurt] {
	return func(yield func(hurt) bool) {
		for _, name := range slices.Sorted(maps.Keys(v.files)) {
			if !strings.Contains(name, *damageFile) {
				continue
			}
			for h := range v.hurtsOf(name) {
				if !yield(h) {
					return
				}
			}
		}
	}
}

// headerBytes is the length of the file header whose every bit is flipped; in meta.bolt,
// of both roots.
const headerBytes = 128

func (v *specimen) hurtsOf(name string) iter.Seq[hurt] {
	b := v.files[name]
	return func(yield func(hurt) bool) {
		rng := rand.New(rand.NewPCG(uint64(len(b)), 5))
		for off, old := range b {
			header := off < headerBytes || name == engine.MetaName && off < 2*boltcheck.PageSize && off%boltcheck.PageSize < headerBytes
			bits := []byte{1 << rng.IntN(8)}
			if header {
				bits = []byte{1, 2, 4, 8, 16, 32, 64, 128}
			}
			for _, bit := range bits {
				if !yield(hurt{"bit", name, off, []byte{old ^ bit}}) {
					return
				}
			}
			random := byte(1 + rng.IntN(255))
			if !yield(hurt{"complement", name, off, []byte{^old}}) || !yield(hurt{"random byte", name, off, []byte{old + random}}) ||
				old != 0 && !yield(hurt{"zero byte", name, off, []byte{0}}) || !yield(hurt{"cut", name, off, nil}) {
				return
			}
		}
		for _, size := range []int{512, 4096} {
			for off := 0; off < len(b); off += size {
				for _, h := range v.sectors(name, off, size, rng) {
					if !bytes.Equal(h.new, b[off:min(off+len(h.new), len(b))]) && !yield(h) {
						return
					}
				}
			}
		}
	}
}

// sectors returns the possible contents of one damaged sector: zeros, garbage, other
// sectors of the same file and of other files, and its own earlier content.
func (v *specimen) sectors(name string, off, size int, rng *rand.Rand) []hurt {
	b := v.files[name]
	n := min(size, len(b)-off)
	kind := fmt.Sprintf(" sector of %d", size)
	garbage := make([]byte, n)
	for i := range garbage {
		garbage[i] = byte(rng.Uint32())
	}
	all := []hurt{{"zero" + kind, name, off, make([]byte, n)}, {"garbage" + kind, name, off, garbage}}
	for other := 0; other+n <= len(b); other += size {
		all = append(all, hurt{"other" + kind, name, off, b[other : other+n]})
	}
	for _, file := range slices.Sorted(maps.Keys(v.files)) {
		if from := v.files[file]; file != name && len(from) >= off+n {
			all = append(all, hurt{"foreign" + kind, name, off, from[off : off+n]})
		}
	}
	for _, earlier := range v.earlier {
		if from := earlier[name]; len(from) >= off+n {
			all = append(all, hurt{"stale" + kind, name, off, from[off : off+n]})
		}
	}
	return all
}

// A patient is a copy of a specimen that one worker damages and restores.
type patient struct {
	t       *testing.T
	v       *specimen
	dir     string
	files   map[string]*os.File
	want    seen
	allowed []seen // the content for a log without its last write
	log     string // records as replayed
	healthy *DB    // opened before any damage, to read with its decoders
	now     atomic.Pointer[hurt]
	results map[string]int
	errors  *atomic.Int64
	walked  atomic.Bool // a graph was searched
}

// maxErrors is the number of failed cases after which the test gives up.
const maxErrors = 20

func (p *patient) errorf(format string, args ...any) {
	p.errors.Add(1)
	p.t.Errorf(format, args...)
}

// seen is the result of reading everything.
type seen struct {
	state   string
	answers string
	errs    []error
}

// look reads a database in every way that touches different files.
func (p *patient) look(vdb *DB) seen {
	var s seen
	var docs, answers []string
	ctx := context.Background()
	note := func(d *Document, coll string) string {
		text := docString(coll, d)
		if !p.v.known[text] {
			p.errorf("%v: never written: %s", p.now.Load(), text)
		}
		return text
	}
	for _, info := range must(vdb.Collections()) {
		c, err := vdb.Collection(info.Name)
		if err != nil {
			s.errs = append(s.errs, err)
			continue
		}
		for d, err := range c.All(ctx, nil, Everything) {
			if err != nil {
				s.errs = append(s.errs, err)
				break
			}
			docs = append(docs, note(d, info.Name))
		}
		page, err := c.List(ctx, ListQuery{Limit: 1000})
		if err == nil {
			answers = append(answers, fmt.Sprint(info.Name, " ", page.Total))
			for _, d := range page.Documents {
				answers = append(answers, d.ID)
			}
		}
		q := Query{Near: Vector{1, 2, 3, 4, 5, 6}[:info.Schema.Dim], K: 100, Select: Everything}
		res, err2 := c.Search(ctx, q)
		if err2 == nil {
			for _, h := range res.Hits {
				note(&h.Document, info.Name)
				answers = append(answers, fmt.Sprint(h.ID, " ", h.Score))
			}
		}
		q.Where, q.K = filter.Eq("lang", "go"), 3
		res, err3 := c.Search(ctx, q)
		if err3 == nil {
			answers = append(answers, fmt.Sprint(res.Matched))
			for _, h := range res.Hits {
				answers = append(answers, fmt.Sprint(h.ID, " ", h.Score))
			}
		}
		// Walks that keep as many rows in view as there are find what is nearest.
		res, err4 := c.Search(ctx, Query{Near: q.Near, K: 3, Accuracy: EF(100)})
		if err4 == nil {
			for _, h := range res.Hits {
				answers = append(answers, fmt.Sprint(h.ID, " ", h.Score))
			}
			if !res.Exact {
				p.walked.Store(true)
			}
		}
		var err5 error
		if info.Schema.Text != nil {
			if res, err5 = c.Search(ctx, Query{Text: "version 2", K: 5}); err5 == nil {
				for _, h := range res.Hits {
					answers = append(answers, fmt.Sprint(h.ID, " ", h.Score))
				}
			}
		}
		for _, err := range []error{err, err2, err3, err4, err5} {
			if err != nil {
				s.errs = append(s.errs, err)
			}
		}
	}
	slices.Sort(docs)
	s.state, s.answers = strings.Join(docs, "\n"), strings.Join(answers, "\n")
	return s
}

func (s seen) same(as seen) bool { return s.state == as.state && s.answers == as.answers }

// typed requires an error that names the damaged file.
func (p *patient) typed(h hurt, err error) {
	var corrupt *CorruptError
	switch {
	case errors.Is(err, ErrVersion) || errors.Is(err, ErrNotFound) && h.new == nil:
	case !errors.As(err, &corrupt) || corrupt.File == "":
		p.errorf("%v: an error of no kind: %v", h, err)
	}
}

// examine opens the damaged database read-only, reads everything, runs Check, and returns
// the effect of the damage.
func (p *patient) examine(h hurt) string {
	vdb, err := Open(p.dir, reading())
	if err != nil {
		p.typed(h, err)
		return "refused by Open"
	}
	defer func() {
		if err := vdb.Close(); err != nil {
			p.errorf("%v: close: %v", h, err)
		}
	}()
	got := p.look(vdb)
	report, err := vdb.Check(context.Background(), CheckBytes)
	if err != nil {
		p.errorf("%v: check: %v", h, err)
		return "failed"
	}
	for _, err := range got.errs {
		p.typed(h, err)
	}
	for _, problem := range report.Problems {
		if problem.File == "" {
			p.errorf("%v: a problem of no file: %v", h, problem)
		}
	}
	right := got.same(p.want)
	switch {
	case len(got.errs) > 0 && report.OK():
		p.errorf("%v: Check finds nothing, reading gives %v", h, got.errs)
	case len(got.errs) > 0:
		return "an error where it is read"
	case right && report.OK():
		return "harmless"
	case right:
		return "reported by Check, answers right"
	case report.OK() && strings.HasPrefix(h.file, engine.WALDir+"/") && slices.ContainsFunc(p.allowed, got.same):
		return "taken for a torn last write"
	}
	p.errorf("%v: silently wrong; Check says %v: (-want +got)\n%s%s", h, report.Problems,
		cmp.Diff(p.want.state, got.state), cmp.Diff(p.want.answers, got.answers))
	return "silently wrong"
}

// live opens the damaged database for writing and continues to write if it can.
func (p *patient) live(h hurt, dir string) string {
	writeFiles(p.t, dir, p.v.files)
	if err := h.inflict(filepath.Join(dir, h.file)); err != nil {
		p.t.Fatal(err)
	}
	opts := smallest
	opts.MustExist = true
	vdb, err := Open(dir, &opts)
	if err != nil {
		p.typed(h, err)
		return "refused by Open"
	}
	got := p.look(vdb)
	ctx := context.Background()
	c, err := vdb.Collection("a")
	if err == nil {
		_, err = c.Upsert(ctx, Document{ID: "new"})
	}
	if err == nil {
		err = vdb.Compact(ctx)
	}
	if err = errors.Join(err, vdb.Close()); err != nil || len(got.errs) > 0 {
		if err != nil {
			p.typed(h, err)
		}
		return "an error where it is used"
	}
	if vdb, err = Open(dir, &opts); err != nil {
		p.typed(h, err)
		return "refused by the next Open"
	}
	defer vdb.Close()
	report, err := vdb.Check(ctx, CheckBytes)
	if err != nil || !report.OK() {
		return "reported by Check"
	}
	if c, err = vdb.Collection("a"); err == nil {
		_, err = c.Delete(ctx, "new")
	}
	if again := p.look(vdb); err != nil || again.state != got.state {
		p.errorf("%v: %v; after reopening: (-before +after)\n%s", h, err, cmp.Diff(got.state, again.state))
	}
	if got.state != p.want.state && !slices.ContainsFunc(p.allowed, func(s seen) bool { return s.state == got.state }) {
		p.errorf("%v: silently wrong for a writer: (-want +got)\n%s", h, cmp.Diff(p.want.state, got.state))
	}
	return "went on"
}

// inflict damages a file.
func (h hurt) inflict(path string) error {
	if h.new == nil {
		return os.Truncate(path, int64(h.off))
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(h.new, int64(h.off))
	return errors.Join(err, f.Close())
}

// In a full run, one of wholeEvery cases is examined by the whole engine, not only by the
// decoder of the file.
const wholeEvery = 12

// decode runs the decoder on the whole damaged file and returns its finding, or the empty
// string if the decoder cannot decide.
func (p *patient) decode(h hurt) string {
	db := p.healthy
	var err error
	switch ext := filepath.Ext(h.file); {
	case h.file == engine.MetaName:
		var store *meta.Store
		store, err = meta.Open(db.engine.FS, engine.MetaName, meta.Options{ReadOnly: true, Verify: p.v.name == "killed"})
		if err == nil {
			var found error
			err = store.Check(context.Background(), func(_ string, _ int64, bucket, key, detail string) {
				found = fmt.Errorf("%s %s: %s", bucket, key, detail)
			})
			err = errors.Join(err, found, store.Close())
		}
	case strings.HasPrefix(h.file, engine.WALDir+"/"):
		var log string
		if log, err = replayed(db); err == nil && log != p.log {
			return ""
		}
	case ext == ".vec":
		err = fs.ErrNotExist // unless it is a segment of the version
		for _, s := range segmentsOf(db) {
			if s.Name() != h.file {
				continue
			}
			var seg *segment.Segment
			if seg, err = segment.Open(db.engine.FS, db.engine.Identity, s.Info); err == nil {
				err = errors.Join(seg.Verify(context.Background()), seg.Close())
			}
		}
	default:
		found := false
		for _, s := range segmentsOf(db) {
			for _, d := range s.Derived {
				if d.File() == h.file {
					found, err = true, d.Check()
				}
			}
		}
		if !found {
			return ""
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ""
	case err != nil:
		return "detected by the decoder of the file"
	}
	return "harmless to the decoder of the file"
}

// replayed returns the records in the log of a database.
func replayed(db *DB) (string, error) {
	var log strings.Builder
	_, err := wal.Replay(wal.Options{FS: db.engine.FS, DB: db.engine.Identity}, inspect(db).State().Applied, func(lsn uint64, b []byte) error {
		fmt.Fprintf(&log, "%d %x\n", lsn, codec.CRC(b))
		return nil
	})
	return log.String(), err
}

// suffer damages a file, examines the database and restores the file. Most cases rely on
// the decoder alone. The whole engine examines a share of them, and every case that the
// decoder cannot decide.
func (p *patient) suffer(h hurt, whole bool) (result string) {
	f, content := p.files[h.file], p.v.files[h.file]
	var err error
	end := len(content)
	if h.new == nil {
		err = f.Truncate(int64(h.off))
	} else {
		_, err = f.WriteAt(h.new, int64(h.off))
		end = min(end, h.off+len(h.new))
	}
	if err == nil {
		p.now.Store(&h)
		if !whole {
			result = p.decode(h)
		}
		if result == "" {
			result = p.examine(h)
		}
		p.now.Store(nil)
		_, err = f.WriteAt(content[h.off:end], int64(h.off))
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return result
}

func newPatient(t *testing.T, v *specimen, errors *atomic.Int64) *patient {
	t.Helper()
	p := &patient{t: t, v: v, dir: filepath.Join(memDir(t), "db"), files: map[string]*os.File{},
		results: map[string]int{}, errors: errors}
	writeFiles(t, p.dir, v.files)
	for name := range v.files {
		f, err := os.OpenFile(filepath.Join(p.dir, name), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		p.files[name] = f
	}
	look := func() seen {
		vdb := open(t, p.dir, reading())
		defer vdb.Close()
		check(t, vdb)
		return p.look(vdb)
	}
	p.want = look()
	p.healthy = open(t, p.dir, reading())
	var err error
	if p.log, err = replayed(p.healthy); err != nil {
		t.Fatal(err)
	}
	if last := v.states[len(v.states)-1]; p.want.state != last || len(p.want.errs) > 0 {
		t.Fatalf("the whole database: %v (-want +got)\n%s", p.want.errs, cmp.Diff(last, p.want.state))
	}
	if !p.walked.Load() {
		t.Fatal("no graph was searched")
	}
	// The last log file holds only the last batch. Read the content without it.
	for name, b := range v.files {
		if strings.HasPrefix(name, engine.WALDir+"/") && name == slices.Max(slices.Collect(maps.Keys(v.files))) {
			if _, err := p.files[name].WriteAt(make([]byte, len(b)-4096), 4096); err != nil {
				t.Fatal(err)
			}
			p.allowed = append(p.allowed, look())
			if _, err := p.files[name].WriteAt(b, 0); err != nil {
				t.Fatal(err)
			}
			if p.allowed[0].state != v.states[len(v.states)-2] {
				t.Fatal("without the last write it is not the state before")
			}
		}
	}
	return p
}

// maxAlloc is the allocation limit of one case: opening, reading, checking.
const maxAlloc = 32 << 20

// allocated returns the total number of bytes allocated on the heap so far.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// TestDamage damages a small database in every way that a disk can: bits and bytes,
// lengths, and sectors of 512 and 4096 bytes that are zeroed, swapped or stale. Each case
// must be harmless, give an error that names the file, or be reported by Check while
// every answer is right. No case may panic, hang, allocate without bounds, or give a
// silently wrong answer.
func TestDamage(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a damaged meta.bolt may stay mapped, and a file that is mapped cannot be cut")
	}
	for _, killed := range []bool{false, true} {
		v := newSpecimen(t, killed)
		t.Run(v.name, func(t *testing.T) {
			kinds, total := map[string]int{}, 0
			for h := range v.hurts() {
				kinds[h.kind]++
				total++
			}
			step := 1
			if *damages > 0 {
				step = max(1, total / *damages) | 1
			}
			patients := make([]*patient, runtime.GOMAXPROCS(0))
			var wait sync.WaitGroup
			var alone sync.RWMutex
			var failed atomic.Int64
			lives := map[string]int{}
			for i := range patients {
				p := newPatient(t, v, &failed)
				patients[i] = p
				wait.Go(func() {
					n := 0
					for h := range v.hurts() {
						n++
						if n%step != 0 || n/step%len(patients) != i || failed.Load() > maxErrors {
							continue
						}
						alone.RLock()
						before := allocated()
						stop := time.AfterFunc(time.Minute, func() { panic(fmt.Sprintf("hangs: %v", h)) })
						p.results[p.suffer(h, *damages > 0 || n%wholeEvery == 0)]++
						stop.Stop()
						much := allocated()-before > maxAlloc
						alone.RUnlock()
						if much { // or another worker allocated
							alone.Lock()
							before := allocated()
							p.suffer(h, true)
							if n := allocated() - before; n > maxAlloc {
								p.errorf("%v: %d bytes allocated", h, n)
							}
							alone.Unlock()
						}
					}
				})
			}
			wait.Wait()
			// Some cases also open for writing.
			n, dir := 0, filepath.Join(memDir(t), "db")
			for h := range v.hurts() {
				if n++; n%(31*step) == 0 && (*damages > 0 || n%(31*wholeEvery) == 0) && failed.Load() <= maxErrors {
					patients[0].now.Store(&h)
					lives[patients[0].live(h, dir)]++
				}
			}
			results, tried := map[string]int{}, 0
			for _, p := range patients {
				for what, n := range p.results {
					results[what] += n
					tried += n
				}
			}
			t.Logf("%d of %d cases of damage", tried, total)
			for _, of := range []map[string]int{kinds, results, lives} {
				for _, what := range slices.Sorted(maps.Keys(of)) {
					t.Logf("%9d  %s", of[what], what)
				}
				t.Log("")
			}
			if tried < 100 || *damageFile == "" && (results["refused by Open"]*200 < tried || results["an error where it is read"]*2000 < tried) {
				t.Error("hardly any damage was noticed")
			}
		})
	}
}

// TestOpenErrors: a commit of Open that fails, because it meets a damaged page or the disk fails,
// is the error of Open. It says nothing of a write whose outcome is unknown: there was none.
func TestOpenErrors(t *testing.T) {
	cold := func(t *testing.T, v *specimen) string {
		dir := filepath.Join(memDir(t), "db")
		writeFiles(t, dir, v.files)
		return dir
	}
	t.Run("damage", func(t *testing.T) {
		v := newSpecimen(t, false)
		file, met := v.files[engine.MetaName], 0
		file[20] ^= 1 // of the older root: Open writes it again
		for off := 2 * boltcheck.PageSize; off < len(file); off += boltcheck.PageSize {
			file[off+24] ^= 1
			vdb, err := Open(cold(t, v), &smallest)
			file[off+24] ^= 1
			if err == nil { // the page is read later
				_ = vdb.Close()
				continue
			}
			met++
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) || corrupt.File != engine.MetaName || corrupt.Offset != int64(off) || errors.Is(err, ErrUnknown) {
				t.Errorf("page %d: %v", off/boltcheck.PageSize, err)
			}
		}
		if met == 0 {
			t.Error("Open reads no page")
		}
	})
	t.Run("disk", func(t *testing.T) {
		v := newSpecimen(t, true)
		for n := 0; ; n++ {
			f := &faulty{kinds: changing, n: n, times: 1, err: syscall.EIO}
			opts := smallest
			opts.tests.hook = f.hook
			vdb, err := Open(cold(t, v), &opts)
			if vdb != nil {
				_ = vdb.Close()
			}
			if len(f.failed) == 0 {
				break
			}
			if err != nil && (!errors.Is(err, syscall.EIO) || errors.Is(err, ErrUnknown)) {
				t.Errorf("%v: %v", f.failed, err)
			}
		}
	})
}

// TestOtherKindsOfFiles puts directories and dangling links in the place of files and directories
// of a database. Open names the path and the kind, Check reports it, and Repair saves other data.
func TestOtherKindsOfFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipped: links need a privilege on this system")
	}
	closed, killed := newSpecimen(t, false), newSpecimen(t, true)
	for _, tt := range []struct {
		v       *specimen
		name    string
		link    bool   // to nothing; otherwise a directory that is not empty
		want    string // of Open; empty if it goes on
		problem bool   // Check reports it, and Repair goes on
	}{
		{v: killed, name: "wal/00000002.wal", want: "corrupt file wal/00000002.wal: a directory", problem: true},
		{v: killed, name: "wal/00000002.wal", link: true, want: "corrupt file wal/00000002.wal: a link to nothing", problem: true},
		{v: killed, name: "wal", link: true, want: "wal: a link to nothing", problem: true},
		{v: closed, name: "wal/00000009.wal", want: "corrupt file wal/00000009.wal: a directory", problem: true},
		{v: closed, name: "wal/spare", want: "wal/spare: a directory"},
		{v: closed, name: "wal/spare", link: true},
		{v: closed, name: "tmp", link: true, want: "tmp: a link to nothing"},
	} {
		t.Run(fmt.Sprintf("%s link=%v", tt.name, tt.link), func(t *testing.T) {
			dir := filepath.Join(memDir(t), "db")
			writeFiles(t, dir, tt.v.files)
			path := filepath.Join(dir, tt.name)
			err := os.RemoveAll(path)
			if tt.link {
				err = errors.Join(err, os.Symlink("nowhere", path))
			} else {
				err = errors.Join(err, os.MkdirAll(filepath.Join(path, "more"), 0o700))
			}
			if err != nil {
				t.Fatal(err)
			}
			report, err := CheckFiles(t.Context(), dir, CheckBytes)
			if err != nil {
				t.Fatalf("check: %v", err)
			}
			if tt.problem != (len(report.Problems) == 1 && report.Problems[0].File == tt.name) {
				t.Errorf("problems: %v", report.Problems)
			}
			saved, err := Repair(t.Context(), dir, dir+".new")
			if err != nil || saved.Documents < 40 || tt.problem != (len(saved.Lost) > 0) {
				t.Errorf("repair: %+v, %v", saved, err)
			}
			vdb, err := Open(dir, &smallest)
			if err == nil {
				err = vdb.Close()
			}
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("open: %v", err)
			}
		})
	}
}

// TestDamagedPageIsOneProblem: a page of meta.bolt that is in the way of many documents is reported
// once, with their number.
func TestDamagedPageIsOneProblem(t *testing.T) {
	dir := t.TempDir()
	vdb := open(t, dir, nil)
	c := collection(t, vdb, "c", Schema{Dim: 1})
	for i := range 300 {
		upsert(t, c, Document{ID: fmt.Sprint("d", i), Text: fmt.Sprint("text ", i), Vector: []float32{1}})
	}
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, engine.MetaName)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[bytes.Index(b, []byte("text 150"))] ^= 1
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, level := range []CheckLevel{CheckBytes, CheckDeep} {
		report, err := CheckFiles(t.Context(), dir, level)
		if err != nil {
			t.Fatal(err)
		}
		var pages []string
		for _, p := range report.Problems {
			if p.File == engine.MetaName && strings.Contains(p.Detail, "page ") {
				pages = append(pages, p.String())
			}
		}
		want := regexp.MustCompile(`^meta\.bolt at offset \d+: page \d+: checksum mismatch; documents that cannot be read: \d\d+$`)
		if len(pages) != 1 || !want.MatchString(pages[0]) {
			t.Errorf("%q", pages)
		}
	}
}
