package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/internal/blocks"
	"github.com/vecbolt/vecbolt/internal/boltcheck"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/segment/columns"
	"github.com/vecbolt/vecbolt/segment/graph"
	"github.com/vecbolt/vecbolt/segment/terms"
)

func checkDeep(t *testing.T, vdb *DB) []Problem {
	t.Helper()
	r, err := vdb.Check(t.Context(), CheckDeep)
	if err != nil {
		t.Fatal(err)
	}
	return r.Problems
}

// CheckDeep finds wrong derived files whose checksums hold. CheckBytes does not.
func TestCheckDeep(t *testing.T) {
	opts := &Options{Sync: SyncNever, tests: testOptions{codedBytes: 1, graphSize: 1, trials: 8}, Compaction: Manual}
	vdb := open(t, t.TempDir(), opts)
	for i, metric := range []Metric{Cosine, Dot, L2} {
		c := collection(t, vdb, metric.String(), Schema{Dim: 5, Metric: metric, Text: &TextIndex{Language: "none"}})
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		fill(t, c, 300, func(i int) Document {
			d := Document{ID: fmt.Sprint(i), Text: fmt.Sprintf("word%d and word%d", i%10, i%7), Metadata: Metadata{"n": i, "half": float64(i) / 2, "tags": []any{"x", i, nil}, "m": map[string]any{"k": i}}}
			if i%7 > 0 {
				d.Vector = randomVectors(rng, 1, 5)[0]
			}
			return d
		})
		flush(t, vdb)
		if _, err := c.Delete(t.Context(), "7", "8", "9"); err != nil {
			t.Fatal(err)
		}
		upsert(t, c, Document{ID: "10", Metadata: Metadata{"n": nil}})
		flush(t, vdb)
		upsert(t, c, Document{ID: "0", Text: "in the head"}, Document{ID: "new"})
	}
	if err := vdb.Drop(t.Context(), "dot"); err != nil {
		t.Fatal(err)
	}
	if problems := checkDeep(t, vdb); len(problems) > 0 {
		t.Fatal(problems)
	}
	vdb = reopen(t, vdb, opts)
	if err := vdb.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if problems := checkDeep(t, vdb); len(problems) > 0 {
		t.Fatal(problems)
	}

	// The same files with other contents and valid checksums.
	segments := segmentsOf(vdb)
	s := segments[slices.IndexFunc(segments, func(s *engine.OpenSegment) bool { return s.Info.Dim > 0 && s.Info.Rows > 100 })]
	good := readFiles(t, vdb.engine.Dir)
	replace := func(name string, b []byte) { // by a new file: the old bytes are mapped
		t.Helper()
		temp := filepath.Join(vdb.engine.Dir, engine.TmpDir, "x")
		if err := errors.Join(os.WriteFile(temp, b, 0o600), os.Rename(temp, filepath.Join(vdb.engine.Dir, name))); err != nil {
			t.Fatal(err)
		}
	}
	wrong := func(name, want string, b []byte) {
		t.Helper()
		replace(name, b)
		check(t, vdb)
		problems := checkDeep(t, vdb)
		if len(problems) != 1 || problems[0].File != name || !strings.Contains(problems[0].Detail, want) {
			t.Errorf("%s: %v, want %q", name, problems, want)
		}
		replace(name, good[name])
	}
	b := columns.NewBuilder()
	err := s.EachMetadata(t.Context(), func(row int, m map[string]any) error {
		if row == 5 {
			m["surplus"] = true
		}
		return b.Add(row, m)
	})
	if err != nil {
		t.Fatal(err)
	}
	wrong(s.Cols.Name, `field "surplus" of row 5 is true, but <nil> in the document`, b.Bytes(s.Info.Rows, s.ColumnsIdent()))
	opposite := func(lo, hi int) ([]float32, error) {
		vecs, err := s.Rows(lo, hi)
		vecs = slices.Clone(vecs)
		for i := range vecs {
			vecs[i] = -vecs[i]
		}
		return vecs, err
	}
	var other, third blocks.Memory
	if _, err = codes.Write(&other, s.CodesIdent(), opposite); err != nil {
		t.Fatal(err)
	}
	wrong(s.Codes.Name, "outside the bounds", other)
	if _, err = graph.Write(t.Context(), &third, s.CodesIdent(), opposite, graph.Options{Trials: 8}); err != nil {
		t.Fatal(err)
	}
	wrong(s.Graph.Name, "do not fit its vector", third)
	x := vdb.engine.Analysis(s.Info.Collection).Indexer()
	for range s.Info.Rows {
		if err := x.Add(nil); err != nil {
			t.Fatal(err)
		}
	}
	fourth, err := terms.Build(s.TermsIdent(x.Analysis), terms.Input{Source: x.Index.View(s.Info.Rows)})
	if err != nil {
		t.Fatal(err)
	}
	wrong(s.Terms.File(), "has 0 terms, not", fourth)
	if problems := checkDeep(t, vdb); len(problems) > 0 {
		t.Fatal(problems)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := vdb.Check(ctx, CheckDeep); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// CheckFiles reports the damage of a database that does not open, beyond the error of
// Open.
func TestCheckFiles(t *testing.T) {
	for _, killed := range []bool{false, true} {
		v := newSpecimen(t, killed)
		var vec, log string
		for name := range v.files {
			if strings.HasSuffix(name, ".vec") {
				vec = max(vec, name)
			}
			if strings.HasSuffix(name, ".wal") {
				log = max(log, name)
			}
		}
		flip := func(b []byte, at ...int) []byte {
			b = slices.Clone(b)
			for _, at := range at {
				b[at] ^= 0x10
			}
			return b
		}
		dir := filepath.Join(memDir(t), "db")
		for _, c := range []struct {
			what   string
			damage func(files map[string][]byte)
			want   []string // files with problems
		}{
			{"nothing", func(map[string][]byte) {}, nil},
			{"header of a vector file", func(f map[string][]byte) { f[vec] = flip(f[vec], 20) }, []string{vec}},
			{"vector file is missing", func(f map[string][]byte) { delete(f, vec) }, []string{vec}},
			{"end of a vector file", func(f map[string][]byte) { f[vec] = f[vec][:4120] }, []string{vec}},
			{"both roots and a vector", func(f map[string][]byte) {
				f[engine.MetaName], f[vec] = flip(f[engine.MetaName], 40, 4136), flip(f[vec], 4100)
			}, []string{engine.MetaName, vec}},
			{"no root, no vectors", func(f map[string][]byte) {
				f[engine.MetaName] = nil
				maps.DeleteFunc(f, func(name string, _ []byte) bool { return strings.HasPrefix(name, engine.SegDir) })
			}, []string{engine.MetaName}},
			{"the log and a header", func(f map[string][]byte) {
				if log != "" {
					f[log] = flip(f[log], 30)
				}
				f[vec] = flip(f[vec], 30)
			}, []string{vec, log}},
		} {
			files := maps.Clone(v.files)
			c.damage(files)
			writeFiles(t, dir, files)
			r, err := CheckFiles(t.Context(), dir, CheckDeep)
			if err != nil {
				t.Errorf("%s, %s: %v", v.name, c.what, err)
				continue
			}
			for _, name := range c.want {
				if name != "" && !slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.File == name }) {
					t.Errorf("%s, %s: nothing of %s in %v", v.name, c.what, name, r.Problems)
				}
			}
			for _, p := range r.Problems {
				if !slices.Contains(c.want, p.File) {
					t.Errorf("%s, %s: %v", v.name, c.what, p)
				}
			}
		}
	}
	if _, err := CheckFiles(t.Context(), filepath.Join(t.TempDir(), "none"), CheckBytes); !errors.Is(err, ErrNotFound) {
		t.Errorf("no database: %v", err)
	}
	dir := t.TempDir()
	vdb := open(t, dir, &Options{Exclusive: true})
	if _, err := CheckFiles(t.Context(), dir, CheckBytes); !errors.Is(err, ErrLocked) {
		t.Errorf("in use: %v", err)
	}
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	upsert(t, collection(t, open(t, dir, nil), "c", Schema{}), Document{ID: "a"})
	if report, err := CheckFiles(t.Context(), dir, CheckBytes); err != nil || len(report.Problems) > 0 || report.Documents != 1 {
		t.Errorf("shared: %+v, %v", report, err)
	}
}

// TestCheckNamesDamagedPages damages the number of a page of documents, which belongs to no record.
func TestCheckNamesDamagedPages(t *testing.T) {
	dir := t.TempDir()
	vdb := open(t, dir, nil)
	fill(t, collection(t, vdb, "c", Schema{}), 400, func(i int) Document {
		return Document{ID: fmt.Sprint(i), Text: strings.Repeat("text ", 20)}
	})
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	const page = 10
	flip(t, filepath.Join(dir, engine.MetaName), page*boltcheck.PageSize)
	r, err := CheckFiles(t.Context(), dir, CheckBytes)
	if err != nil || r.OK() {
		t.Fatalf("%+v, %v", r, err)
	}
	want := fmt.Sprintf("meta.bolt: page %d, offset %d: page says it is page ", page, page*boltcheck.PageSize)
	if got := r.Problems[0].String(); !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q and a number", got, want)
	}
}

func TestCheckLevel(t *testing.T) {
	dir := t.TempDir()
	vdb := open(t, dir, nil)
	if _, err := vdb.Check(t.Context(), CheckDeep+1); !errors.Is(err, ErrInvalid) {
		t.Errorf("Check: %v", err)
	}
	if _, err := CheckFiles(t.Context(), dir, CheckDeep+1); !errors.Is(err, ErrInvalid) {
		t.Errorf("CheckFiles: %v", err)
	}
	for level, want := range map[CheckLevel]string{CheckBytes: "bytes", CheckDeep: "deep", 2: "CheckLevel(2)"} {
		if got := level.String(); got != want {
			t.Errorf("level %d is %q, want %q", level, got, want)
		}
	}
}

func existing(t *testing.T, vdb *DB, name string) *Collection {
	t.Helper()
	c, err := vdb.Collection(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The database of a killed process is backed up read-only, including its log.
func TestBackupOfTheKilled(t *testing.T) {
	v := newSpecimen(t, true)
	dir, copied := filepath.Join(memDir(t), "db"), filepath.Join(memDir(t), "copy")
	writeFiles(t, dir, v.files)
	vdb := open(t, dir, &Options{ReadOnly: true})
	if err := vdb.Backup(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]Document{}
	for _, name := range []string{"a", "b"} {
		want[name] = dump(t, existing(t, vdb, name))
	}
	for name, b := range readFiles(t, dir) {
		if !bytes.Equal(b, v.files[name]) {
			t.Errorf("%s has changed", name)
		}
	}
	for _, readOnly := range []bool{true, false, false} {
		backup := open(t, copied, &Options{ReadOnly: readOnly})
		for name, docs := range want {
			if diff := cmp.Diff(docs, dump(t, existing(t, backup, name))); diff != "" {
				t.Errorf("collection %q: (-want +got)\n%s", name, diff)
			}
		}
		if problems := checkDeep(t, backup); len(problems) > 0 {
			t.Error(problems)
		}
		if err := backup.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// A log that was damaged since is not copied as if it were intact.
	log := ""
	for name := range v.files {
		if strings.HasSuffix(name, ".wal") {
			log = max(log, name)
		}
	}
	if err := os.Truncate(filepath.Join(dir, log), 100); err != nil {
		t.Fatal(err)
	}
	if err := vdb.Backup(t.Context(), filepath.Join(memDir(t), "copy")); !errors.Is(err, ErrCorrupt) {
		t.Errorf("backup of a damaged log: %v", err)
	}
}
