package db

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment/columns"
	"github.com/vecbolt/vecbolt/wal"
)

// Every released format version leaves real databases here, made once by that release:
// one that was closed, one whose process was killed, and the answers that both must give.
const compatDir = "testdata/compat"

// writeCompat is for the release that changes a format. It overwrites no files.
var writeCompat = flag.String("write-compat", "", `make the databases of a format version, such as "v1", in `+compatDir)

// The answers that a database must give. JSON keeps them exactly: metadata and numbers
// with types and bits.
type expected struct {
	Collections []expectedCollection `json:"collections"`
}

type expectedCollection struct {
	Name      string             `json:"name"`
	Schema    Schema             `json:"schema"`
	Metadata  string             `json:"metadata"`
	Documents []expectedDocument `json:"documents"` // in write order
	Queries   []expectedQuery    `json:"queries,omitempty"`
}

type expectedDocument struct {
	ID       string `json:"id"`
	Vector   string `json:"vector,omitempty"` // float32 bits
	Text     string `json:"text,omitempty"`
	Metadata string `json:"metadata"`
}

type expectedQuery struct {
	Vector    []float32 `json:"vector"`
	K         int       `json:"k"`
	Where     string    `json:"where,omitempty"`
	Threshold *float64  `json:"threshold,omitempty"`
	Matched   int       `json:"matched"`
	Hits      []string  `json:"hits"` // id, score, bits of the score
}

// typed prints a metadata value with its type and all bits: 2 and 2.0 differ.
func typed(v any) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(v)
	case float64:
		return strconv.FormatFloat(v, 'x', -1, 64)
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = typed(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case Metadata:
		return typed(map[string]any(v))
	case map[string]any:
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, strconv.Quote(k)+": "+typed(v[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(v) // nil, bool, int64
}

func bits32(v []float32) string {
	var b []byte
	for _, x := range v {
		b = binary.BigEndian.AppendUint32(b, math.Float32bits(x))
	}
	return hex.EncodeToString(b)
}

// describe reads a whole database. It runs the queries of ask and fills in their answers.
func describe(t *testing.T, vdb *DB, ask map[string][]expectedQuery) expected {
	t.Helper()
	var e expected
	for _, info := range must(vdb.Collections()) {
		c := collection(t, vdb, info.Name, info.Schema)
		ec := expectedCollection{Name: info.Name, Schema: info.Schema, Metadata: typed(info.Metadata)}
		for d, err := range c.All(t.Context(), nil, Everything) {
			if err != nil {
				t.Fatal(err)
			}
			ec.Documents = append(ec.Documents, expectedDocument{d.ID, bits32(d.Vector), d.Text, typed(d.Metadata)})
		}
		if len(ec.Documents) != info.Documents {
			t.Errorf("%d documents in %q, which says it has %d", len(ec.Documents), info.Name, info.Documents)
		}
		dump(t, c) // compares all ways of reading
		for _, q := range ask[info.Name] {
			query := Query{Near: Vector(q.Vector), K: q.K, Threshold: q.Threshold}
			if q.Where != "" {
				query.Where = filter.MustParse(q.Where)
			}
			res := find(t, c, query)
			sameHits(t, bruteForce(dump(t, c), info.Schema.Metric, query), res)
			q.Matched, q.Hits = res.Matched, []string{}
			for _, h := range res.Hits {
				q.Hits = append(q.Hits, fmt.Sprintf("%s %v %016x", h.ID, h.Score, math.Float64bits(h.Score)))
			}
			ec.Queries = append(ec.Queries, q)
		}
		e.Collections = append(e.Collections, ec)
	}
	return e
}

// queries returns the queries of an expectation.
func (e expected) queries() map[string][]expectedQuery {
	ask := map[string][]expectedQuery{}
	for _, c := range e.Collections {
		ask[c.Name] = c.Queries
	}
	return ask
}

// TestCompatibility opens the databases of every released format version, read-only and
// for writing, and continues to write.
func TestCompatibility(t *testing.T) {
	ctx := t.Context()
	files, err := filepath.Glob(filepath.Join(compatDir, "*", "*.zip"))
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		version, kind := filepath.Base(filepath.Dir(file)), strings.TrimSuffix(filepath.Base(file), ".zip")
		t.Run(version+"/"+kind, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join(filepath.Dir(file), kind+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var want expected
			if err := json.Unmarshal(b, &want); err != nil {
				t.Fatal(err)
			}
			dir := unzip(t, file)
			verify := func(when string, vdb *DB) {
				t.Helper()
				if diff := cmp.Diff(want, describe(t, vdb, want.queries())); diff != "" {
					t.Errorf("%s: (-want +got)\n%s", when, diff)
				}
				check(t, vdb)
			}
			before := snapshotDir(t, dir)
			vdb := open(t, dir, &Options{ReadOnly: true})
			verify("read-only", vdb)
			if err := vdb.Close(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, snapshotDir(t, dir)); diff != "" {
				t.Error("reading changed files")
			}
			fixed := filepath.Join(t.TempDir(), "repaired")
			r, err := Repair(ctx, dir, fixed)
			if err != nil || len(r.Lost) > 0 || len(r.Problems) > 0 {
				t.Errorf("repair: %+v %v", r, err)
			}

			vdb = open(t, dir, nil)
			verify("for writing", vdb)
			for _, info := range must(vdb.Collections()) {
				c := collection(t, vdb, info.Name, info.Schema)
				upsert(t, c, Document{ID: "of now", Vector: make([]float32, info.Schema.Dim)})
			}
			vdb = reopen(t, vdb, nil)
			for _, info := range must(vdb.Collections()) {
				c := collection(t, vdb, info.Name, info.Schema)
				if n, err := c.Delete(ctx, "of now"); n != 1 || err != nil {
					t.Error(n, err)
				}
			}
			verify("written to", vdb)
			compact(t, vdb)
			verify("compacted", vdb)
			vdb = reopen(t, vdb, &Options{tests: testOptions{codedBytes: 1}})
			compact(t, vdb) // builds codes
			verify("with codes", vdb)
		})
	}
}

// TestWriteCompat writes the databases of the present format version if the flag is set.
func TestWriteCompat(t *testing.T) {
	if *writeCompat == "" {
		t.Skip("-write-compat is not given")
	}
	dst := filepath.Join(compatDir, *writeCompat)
	if err := os.MkdirAll(dst, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"closed", "killed"} {
		dir := t.TempDir()
		vdb := open(t, dir, &Options{Compaction: Manual})
		compatFlushed(t, vdb)
		if kind == "killed" {
			compatLogged(t, vdb)
		}
		e := describe(t, vdb, compatQueries)
		if kind == "killed" {
			vdb.abandon()
		}
		if err := vdb.Close(); err != nil {
			t.Fatal(err)
		}
		b, err := json.MarshalIndent(e, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		create(t, filepath.Join(dst, kind+".json"), append(b, '\n'))
		var buf bytes.Buffer
		w := zip.NewWriter(&buf)
		if err := w.AddFS(os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		create(t, filepath.Join(dst, kind+".zip"), buf.Bytes())
	}
}

func create(t *testing.T, name string, b []byte) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// unzip unpacks a database into a new directory.
func unzip(t *testing.T, file string) string {
	t.Helper()
	r, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	dir := t.TempDir()
	if err := os.CopyFS(dir, r); err != nil {
		t.Fatal(err)
	}
	return dir
}

// compatVector returns a vector without random numbers.
func compatVector(i, dim int) []float32 {
	v := make([]float32, dim)
	for j := range v {
		v[j] = float32((i*31+j*17+i*j)%23-11) / 8
	}
	return v
}

// compatFlushed writes the content that both databases have in segments and meta.bolt.
func compatFlushed(t *testing.T, vdb *DB) {
	ctx := t.Context()
	notes := collection(t, vdb, "notes", Schema{Dim: 8, Lineage: Lineage{Provider: "p", Model: "m", Normalized: true, Chunker: "lines"}})
	points := collection(t, vdb, "points/ürs", Schema{Metric: L2})
	scratch := collection(t, vdb, "scratch", Schema{Metric: Dot})
	if err := notes.SetMetadata(ctx, Metadata{"owner": "somebody", "n": 1, "f": 1.0, "tags": []any{"a", nil}}); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		upsert(t, notes, Document{ID: fmt.Sprintf("n%02d", i), Vector: compatVector(i, 8), Text: strings.Repeat("word ", i%7),
			Metadata: Metadata{"i": i, "even": i%2 == 0, "share": float64(i) / 4, "lang": []string{"go", "c", "de"}[i%3]}})
		upsert(t, points, Document{ID: fmt.Sprint(i), Vector: compatVector(i, 3)})
	}
	upsert(t, scratch, Document{ID: "gone", Vector: []float32{1}})
	flush(t, vdb)
	for i := range 10 { // dead rows
		upsert(t, notes, Document{ID: fmt.Sprintf("n%02d", i*3), Vector: compatVector(100+i, 8), Text: "replaced", Metadata: Metadata{"i": -i}})
	}
	if _, err := notes.Delete(ctx, "n01", "n02"); err != nil {
		t.Fatal(err)
	}
	tiny := math.Float32frombits
	upsert(t, notes,
		Document{ID: "every kind", Vector: compatVector(3, 8), Text: "naïve 漢字 \u2028 text\nin lines", Metadata: Metadata{
			"string": "s", "empty": "", "true": true, "false": false, "null": nil, "zero": 0, "least": int64(math.MinInt64), "most": int64(math.MaxInt64),
			"beyond float": int64(1<<53 + 1), "one": 1, "one point": 1.0, "pi": math.Pi, "tiny": math.SmallestNonzeroFloat64, "huge": math.MaxFloat64,
			"minus zero": math.Copysign(0, -1), "list": []any{"a", 1, 1.5, true, nil}, "no list": []any{}, "map": map[string]any{"deep": map[string]any{"er": []any{"x"}}},
			"no map": map[string]any{}, "dotted.key": "v", "ключ": "значение"}},
		Document{ID: "zero", Vector: make([]float32, 8)},
		Document{ID: "extremes", Vector: []float32{math.MaxFloat32, -math.MaxFloat32, tiny(1), -tiny(1), tiny(1 << 31), 1e-20, 1e20, 0}},
		Document{ID: "text only", Text: "no vector", Metadata: Metadata{"i": 7}},
		Document{ID: strings.Repeat("long ", 204), Vector: compatVector(5, 8)},
		Document{ID: "漢 / \\ \"quoted\""})
	flush(t, vdb)
}

// compatLogged leaves the second database with unfinished work: history of replaced
// documents for a reader, a segment that waits for removal, and batches in the log only.
func compatLogged(t *testing.T, vdb *DB) {
	ctx := t.Context()
	snap, err := vdb.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { snap.Close() })
	notes, points := collection(t, vdb, "notes", Schema{}), collection(t, vdb, "points/ürs", Schema{Metric: L2})
	upsert(t, notes, Document{ID: "n05", Vector: compatVector(55, 8)}, Document{ID: "n07", Text: "lost its vector"})
	if _, err := points.Delete(ctx, "3", "4", "5"); err != nil {
		t.Fatal(err)
	}
	compact(t, vdb)
	upsert(t, points, Document{ID: "6", Vector: compatVector(66, 3)})
	flush(t, vdb)

	text := "patched in the log"
	for _, err := range []error{
		notes.Patch(ctx, Patch{ID: "text only", Text: &text, Vector: compatVector(77, 8), Set: Metadata{"more": true}, Unset: []string{"i"}}),
		notes.SetMetadata(ctx, Metadata{"owner": "somebody else"}),
		vdb.Rename(ctx, "points/ürs", "dots"),
		vdb.Drop(ctx, "scratch"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	late := collection(t, vdb, "late", Schema{Metric: Dot})
	upsert(t, late, Document{ID: "a", Vector: compatVector(1, 5), Metadata: Metadata{"i": 1}}, Document{ID: "b", Vector: compatVector(2, 5)})
	batch := &Batch{}
	batch.Delete("notes", "n10", "n11")
	batch.Upsert("notes", Document{ID: "n12", Vector: compatVector(12, 8), Text: "with a delete"})
	batch.Upsert("dots", Document{ID: "late", Vector: compatVector(9, 3)})
	if err := vdb.Apply(ctx, batch); err != nil {
		t.Fatal(err)
	}

	follower := open(t, vdb.engine.Dir, nil) // its writes say so in the log
	upsert(t, existing(t, follower, "late"), Document{ID: "of a follower", Vector: compatVector(3, 5), Text: "by another process"})
	if n, err := existing(t, follower, "late").Delete(ctx, "b"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if err := follower.Close(); err != nil {
		t.Fatal(err)
	}
}

var compatQueries = map[string][]expectedQuery{
	"notes": {
		{Vector: compatVector(4, 8), K: 10},
		{Vector: compatVector(9, 8), K: 100, Where: `{"even":true}`},
		{Vector: []float32{1, 0, 0, 0, 0, 0, 0, 1e-3}, K: 5, Where: `{"$and":[{"i":{"$gte":5}},{"lang":{"$in":["go","de"]}},{"share":{"$lt":8}}]}`},
		{Vector: compatVector(7, 8), K: 30, Threshold: new(0.5)},
		{Vector: compatVector(3, 8), K: 3, Where: `{"map.deep.er":{"$contains":"x"}}`},
	},
	"points/ürs": {{Vector: compatVector(4, 3), K: 10}, {Vector: []float32{0.1, -0.2, 0.3}, K: 7, Threshold: new(-2.0)}},
	"dots":       {{Vector: compatVector(4, 3), K: 10}, {Vector: []float32{0.1, -0.2, 0.3}, K: 7, Threshold: new(-2.0)}},
	"late":       {{Vector: compatVector(4, 5), K: 10}},
}

// resum updates the checksum that follows the first n bytes of a header.
func resum(header []byte, n int) {
	binary.LittleEndian.PutUint32(header[n:], crc32.Checksum(header[:n], crc32.MakeTable(crc32.Castagnoli)))
}

// Files of a later format version are refused with ErrVersion, not as corruption, and
// left as they are. Columns are derived and rebuilt.
func TestNewerVersions(t *testing.T) {
	file := filepath.Join(compatDir, "v1", "killed.zip")
	// edit changes the newest file that matches a pattern.
	edit := func(t *testing.T, dir, pattern string, change func(b []byte)) string {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, files, err)
		}
		name := files[len(files)-1]
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		change(b)
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	header := func(b []byte) { // of the next version but one: the log has two
		binary.LittleEndian.PutUint32(b[8:], 3)
		resum(b, 4092)
	}
	// record changes a record of the bucket "system" of meta.bolt and updates its
	// checksum.
	record := func(t *testing.T, dir, key string, change func(v []byte)) {
		t.Helper()
		store, err := bbolt.Open(filepath.Join(dir, engine.MetaName), 0o600, &bbolt.Options{PageSize: 4096})
		if err != nil {
			t.Fatal(err)
		}
		err = store.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte("system"))
			v := bytes.Clone(b.Get([]byte(key)))
			change(v)
			covered := slices.Concat([]byte{1, 0, 0, 0, 0}, []byte(key), v)
			resum(covered, len(covered)-4)
			return b.Put([]byte(key), slices.Concat(v[:len(v)-4], covered[len(covered)-4:]))
		})
		if err := errors.Join(err, store.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for name, newer := range map[string]func(t *testing.T, dir string){
		"segment": func(t *testing.T, dir string) { edit(t, dir, "seg/*.vec", header) },
		"log":     func(t *testing.T, dir string) { edit(t, dir, "wal/*.wal", header) },
		"batch": func(t *testing.T, dir string) {
			// Without compaction, which could leave a segment for Open to sweep.
			vdb := open(t, dir, &Options{Compaction: Manual})
			o, last := wal.Options{DB: vdb.engine.Identity}, vdb.engine.Seen()
			lose(t, vdb)
			o.FS = must(vfs.Open(dir, nil))
			defer o.FS.Close()
			log := must(wal.Create(o, last+1, last))
			must(log.Append([]wal.Record{{Parts: [][]byte{{3, 0, 0}}}}))
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
		},
		"meta":             func(t *testing.T, dir string) { record(t, dir, "format", func(v []byte) { v[9] = 3 }) },
		"a record of meta": func(t *testing.T, dir string) { record(t, dir, "state", func(v []byte) { v[0] = 2 }) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := unzip(t, file)
			newer(t, dir)
			before := snapshotDir(t, dir)
			for _, opts := range []*Options{{ReadOnly: true}, nil} {
				vdb, err := Open(dir, opts)
				if vdb != nil {
					vdb.Close()
				}
				if !errors.Is(err, ErrVersion) || errors.Is(err, ErrCorrupt) {
					t.Errorf("%+v: %v", opts, err)
				}
			}
			if _, err := Repair(t.Context(), dir, filepath.Join(t.TempDir(), "new")); !errors.Is(err, ErrVersion) {
				t.Errorf("repair: %v", err)
			}
			after := snapshotDir(t, dir)
			for _, files := range []map[string]string{before, after} {
				delete(files, filepath.Join(dir, engine.LockName))
			}
			if !maps.Equal(before, after) {
				for n, c := range after {
					if before[n] != c {
						t.Errorf("%s: %d bytes before, %d after", n, len(before[n]), len(c))
					}
				}
				for n := range before {
					if _, ok := after[n]; !ok {
						t.Errorf("%s is gone", n)
					}
				}
			}
		})
	}
	t.Run("columns", func(t *testing.T) {
		dir := unzip(t, file)
		name := edit(t, dir, "seg/*.cols", func(b []byte) {
			binary.LittleEndian.PutUint32(b[8:], 3)
			resum(b, len(b)-4)
		})
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := columns.Parse(b, columns.Ident{}); !errors.Is(err, fileformat.ErrVersion) {
			t.Fatal(err)
		}
		for _, opts := range []*Options{{ReadOnly: true}, nil} {
			vdb := open(t, dir, opts)
			n, err := collection(t, vdb, "notes", Schema{}).Count(t.Context(), filter.Eq("even", true))
			if err != nil || n != 13 {
				t.Errorf("%d %v", n, err)
			}
			check(t, vdb)
			if err := vdb.Close(); err != nil {
				t.Fatal(err)
			}
			now, err := os.ReadFile(name)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if kept := bytes.Equal(b, now); kept != (opts != nil) {
				t.Errorf("%+v: the file is kept: %v", opts, kept)
			}
		}
	})
}
