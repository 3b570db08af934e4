package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/formattest"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment"
	"github.com/vecbolt/vecbolt/wal"
)

// Wherever a call looks at its context, and that has ended, it says so, and
// leaves a database that is whole.
func TestContextEndsAnywhere(t *testing.T) {
	v := newSpecimen(t, true)
	dir := filepath.Join(memDir(t), "db")
	ended := map[string]int{} // by call: at the latest after so many looks
	for n := 1; n <= 60; n += 1 + n/12 {
		writeFiles(t, dir, v.files)
		opts := smallest
		opts.Compaction = Manual
		vdb := open(t, dir, &opts)
		errs := everything(func() context.Context { return formattest.NewCountdown(t.Context(), n-1) }, vdb, filepath.Join(memDir(t), "copy"))
		for call, err := range errs {
			if !errors.Is(err, context.Canceled) && !errors.Is(err, ErrNotFound) {
				t.Errorf("%s, at look %d: %v", call, n, err)
			}
			ended[call] = n
		}
		check(t, vdb)
		for _, name := range []string{"a", "b"} {
			for id, d := range dump(t, existing(t, vdb, name)) {
				if !v.known[docString(name, &d)] && id != "new" && id != "loaded" {
					t.Errorf("at look %d: never written: %+v", n, d)
				}
			}
		}
		if err := vdb.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, call := range []string{"search", "explain", "list", "all", "delete where", "check", "backup"} {
		if ended[call] < 2 {
			t.Errorf("%s looked at its context %d times at most", call, ended[call])
		}
	}
	for n := 1; n < 30; n += 2 {
		writeFiles(t, dir, v.files)
		ctx := formattest.NewCountdown(t.Context(), n-1)
		if _, err := CheckFiles(ctx, dir, CheckDeep); err != nil && !errors.Is(err, context.Canceled) || err == nil && ctx.Err() != nil && ctx.Left() < -2 {
			t.Errorf("check of files, at look %d: %v", n, err)
		}
		ctx = formattest.NewCountdown(t.Context(), n-1)
		if _, err := Repair(ctx, dir, filepath.Join(memDir(t), "fixed")); err != nil && !errors.Is(err, context.Canceled) || err == nil && ctx.Err() != nil && ctx.Left() < -2 {
			t.Errorf("repair, at look %d: %v", n, err)
		}
	}
}

// Records that do not fit together, though each has its checksum, are noticed:
// by Open, or where they are used, by Check, and by Repair, which saves the
// rest.
func TestInconsistent(t *testing.T) {
	v := newSpecimen(t, false)
	good := map[string]uint64{} // ids of collection a
	var coll meta.Collection
	var state meta.State
	var infos []segment.Info
	dir := filepath.Join(memDir(t), "db")
	change := func(fn func(tx *meta.Tx) error) {
		t.Helper()
		writeFiles(t, dir, v.files)
		fsys, err := vfs.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer fsys.Close()
		store, err := meta.Open(fsys, engine.MetaName, meta.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(store.Update(fn), store.Close()); err != nil {
			t.Fatal(err)
		}
	}
	change(func(tx *meta.Tx) error {
		colls, err := tx.Collections()
		if err != nil {
			return err
		}
		coll = colls[slices.IndexFunc(colls, func(c meta.Collection) bool { return c.Name == "a" })]
		if state, err = tx.State(); err != nil {
			return err
		}
		if infos, err = tx.Segments(); err != nil {
			return err
		}
		return tx.IDs(coll.ID, "", true, func(id string, doc uint64) (bool, error) {
			good[id] = doc
			return true, nil
		})
	})
	encoded := func(d Document) []byte {
		b, err := document.Append(nil, d.stored())
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	schema := func(dim int, text *TextIndex) []byte {
		b, err := (&engine.Definition{ID: coll.ID, Name: "a", Schema: Schema{Dim: dim, Metric: Cosine, Text: text}.engine()}).Encode()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	none := &TextIndex{Language: "none"}
	for _, c := range []struct {
		what    string
		change  func(tx *meta.Tx) error
		refused bool // by Open
		repair  bool // is possible
		lost    int  // entries in the report of a repair
	}{
		{"a document that is none", func(tx *meta.Tx) error { return tx.PutDocument(coll.ID, good["id 3"], []byte{0xc1, 0xff}) }, false, true, 1},
		{"a document whose metadata is none", func(tx *meta.Tx) error {
			b := encoded(Document{ID: "id 4", Metadata: Metadata{"x": "a long string"}})
			return tx.PutDocument(coll.ID, good["id 4"], b[:len(b)-4])
		}, false, true, 1},
		{"a document with the id of another one", func(tx *meta.Tx) error {
			return tx.PutDocument(coll.ID, good["id 3"], encoded(Document{ID: "id 4"}))
		}, false, true, 1},
		{"an id of another document", func(tx *meta.Tx) error { return tx.PutID(coll.ID, "id 3", good["id 4"]) }, false, true, 1},
		{"an id of a document without a row", func(tx *meta.Tx) error {
			next := state
			next.NextDoc++
			return errors.Join(tx.PutDocument(coll.ID, state.NextDoc, encoded(Document{ID: "id 3"})), tx.PutID(coll.ID, "id 3", state.NextDoc), tx.SetState(next))
		}, false, true, 1},
		{"an id that is missing", func(tx *meta.Tx) error { return tx.DeleteID(coll.ID, "id 3") }, false, true, 0},
		{"other metadata than the columns have", func(tx *meta.Tx) error {
			return tx.PutDocument(coll.ID, good["id 3"], encoded(Document{ID: "id 3", Metadata: Metadata{"i": int64(99)}}))
		}, false, true, 0},
		{"another dimension", func(tx *meta.Tx) error { return tx.PutCollection(coll.ID, "a", schema(7, none)) }, false, true, -1},
		{"a definition that is none", func(tx *meta.Tx) error { return tx.PutCollection(coll.ID, "a", []byte{0xc1}) }, true, true, 1},
		{"a language that nobody knows", func(tx *meta.Tx) error {
			return tx.PutCollection(coll.ID, "a", schema(6, &TextIndex{Language: "klingon"}))
		}, true, true, 1},
		{"a segment of no collection", func(tx *meta.Tx) error {
			info := infos[0]
			info.Collection = 77
			return tx.PutSegment(info)
		}, true, true, -1},
	} {
		change(c.change)
		opts := smallest
		opts.Compaction = Manual
		r, err := CheckFiles(t.Context(), dir, CheckDeep)
		if err != nil || r.OK() {
			t.Errorf("%s: CheckFiles finds %v, %v", c.what, r, err)
		}
		vdb, err := Open(dir, &opts)
		if (err != nil) != c.refused || err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: Open says %v", c.what, err)
		}
		if err == nil {
			if report, err := vdb.Check(t.Context(), CheckDeep); err != nil || report.OK() || strings.HasPrefix(report.Problems[0].String(), ":") {
				t.Errorf("%s: %v, %v", c.what, report, err)
			}
			for call, err := range everything(t.Context, vdb, filepath.Join(memDir(t), "copy")) {
				if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrDimensionMismatch) {
					t.Errorf("%s: %s: %v", c.what, call, err)
				}
			}
			if err := vdb.Close(); err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnknown) {
				t.Errorf("%s: close: %v", c.what, err)
			}
		}
		change(c.change)
		fixed := filepath.Join(memDir(t), "fixed")
		report, err := Repair(t.Context(), dir, fixed)
		if (err == nil) != c.repair {
			t.Errorf("%s: repair: %+v, %v", c.what, report, err)
		}
		if err != nil {
			continue
		}
		if len(report.Lost) != c.lost && c.lost >= 0 {
			t.Errorf("%s: lost %+v, want %d", c.what, report.Lost, c.lost)
		}
		vdb = open(t, fixed, &opts)
		check(t, vdb)
		n := must(existing(t, vdb, "a").Info()).Documents
		if n < len(good)-1 && c.lost >= 0 || n == 0 {
			t.Errorf("%s: repair saved %d of %d", c.what, n, len(good))
		}
		for id, d := range dump(t, existing(t, vdb, "a")) {
			if id != d.ID || good[id] == 0 {
				t.Errorf("%s: repair made %+v", c.what, d)
			}
		}
		if err := vdb.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A log record with a valid checksum that is not a valid batch is refused, and the
// rest can be repaired.
func TestInconsistentLog(t *testing.T) {
	ctx := t.Context()
	v := newSpecimen(t, false)
	dir := filepath.Join(memDir(t), "db")
	writeFiles(t, dir, v.files)
	vdb := open(t, dir, &Options{ReadOnly: true})
	id, next, coll, num := vdb.engine.Identity, vdb.engine.Seen()+1, existing(t, vdb, "a").id, inspect(vdb).State().NextDoc
	want := dump(t, existing(t, vdb, "a"))
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	encode := func(first uint64, ops ...engine.Op) []byte {
		parts, err := engine.EncodeRecord(engine.Batch{First: first, Ops: ops})
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Join(parts, nil)
	}
	for _, c := range []struct {
		what   string
		record []byte
		says   string
		lost   int
	}{
		{"no batch", []byte{engine.RecordVersion, 1, 2}, "batch", 1},
		{"of another number", encode(num+5, engine.Op{Kind: engine.OpDelete, Coll: coll, ID: "none"}), "begins with docnum", 0},
		{"of no collection", encode(num, engine.Op{Kind: engine.OpDelete, Coll: 99, ID: "none"}), "writes to unknown collection 99", 1},
		{"a document that is none", encode(num, engine.Op{Kind: engine.OpPut, Coll: coll, ID: "x", Doc: []byte{0xc1}, Num: num}), "", 1},
	} {
		writeFiles(t, dir, v.files)
		fsys, err := vfs.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		log, err := wal.Create(wal.Options{FS: fsys, DB: id}, next, next-1)
		if err != nil {
			t.Fatal(err)
		}
		_, err = log.Append([]wal.Record{{Parts: [][]byte{c.record}}})
		if err := errors.Join(err, log.Sync(), log.Close(), fsys.Close()); err != nil {
			t.Fatal(err)
		}
		files := readFiles(t, dir)
		for _, readOnly := range []bool{true, false} {
			vdb, err := Open(dir, &Options{ReadOnly: readOnly})
			if err == nil {
				vdb.abandon()
				vdb.Close()
				if c.says == "" {
					continue // where it is read
				}
			}
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) || corrupt.File == "" || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", c.what, err)
			}
		}
		writeFiles(t, dir, files)
		for _, p := range must(CheckFiles(ctx, dir, CheckBytes)).Problems {
			if c.says != "" && p.File != engine.WALDir {
				t.Errorf("%s: check: %v", c.what, p)
			}
		}
		fixed := filepath.Join(memDir(t), "fixed")
		r, err := Repair(ctx, dir, fixed)
		if err != nil || len(r.Lost) != c.lost {
			t.Errorf("%s: repair: %+v, %v", c.what, r, err)
			continue
		}
		vdb := open(t, fixed, nil)
		check(t, vdb)
		if got := dump(t, existing(t, vdb, "a")); len(got) != len(want) {
			t.Errorf("%s: repair saved %d of %d", c.what, len(got), len(want))
		}
		if err := vdb.Close(); err != nil {
			t.Error(err)
		}
	}
}

// SyncInterval syncs the log in the background; when that fails, writes stop.
func TestSyncInterval(t *testing.T) {
	synced, failing := make(chan struct{}, 1), make(chan struct{})
	vdb := open(t, t.TempDir(), &Options{Sync: SyncInterval, SyncEvery: time.Millisecond, tests: testOptions{hook: func(op vfs.Op) error {
		if op.Kind != vfs.OpSync || !strings.HasPrefix(op.Name, engine.WALDir+"/") {
			return nil
		}
		select {
		case <-failing:
			return syscall.EIO
		default:
		}
		select {
		case synced <- struct{}{}:
		default:
		}
		return nil
	}}})
	c := collection(t, vdb, "c", Schema{})
	for range 3 { // the first may be of a new file
		upsert(t, c, Document{ID: "x"})
		<-synced
	}
	close(failing)
	for n := 0; ; n++ {
		_, err := c.Upsert(t.Context(), Document{ID: fmt.Sprint(n)})
		if err == nil {
			continue // not yet
		}
		if !errors.Is(err, ErrUnknown) || !errors.Is(err, syscall.EIO) {
			t.Error(err)
		}
		break
	}
	if s := must(vdb.Stats()); s.Failed == "" {
		t.Error("Stats says nothing")
	}
	if _, err := c.Get(t.Context(), "x", Everything); err != nil {
		t.Errorf("reading goes on: %v", err)
	}
}
