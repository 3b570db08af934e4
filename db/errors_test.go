package db

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

var everyStep = flag.Bool("everystep", false, "TestEveryStepFails lets every operation fail, not a sample")

// everything calls every method of a database, each with the next context, and returns
// the errors by call.
func everything(next func() context.Context, vdb *DB, copied string) map[string]error {
	errs := map[string]error{}
	note := func(call string, err error) {
		if err != nil {
			errs[call] = err
		}
	}
	c, err := vdb.Collection("a")
	note("collection", err)
	if err == nil {
		vec := []float32{1, 2, 3, 4, 5, 6}
		for _, q := range []Query{{Near: Vector(vec), K: 3, Select: Everything}, {Near: Stored("id 1"), K: 3}, {Near: Vector(vec), K: 3, Where: filter.Gte("i", 3)},
			{Text: "version", K: 3}, {Text: "version", Near: Vector(vec), K: 3}, {Near: Vector(vec), K: 3, Group: &Group{Field: "lang", Size: 1}},
			{Near: Vector(vec), K: 3, MMR: &MMR{Lambda: 0.5}}, {Near: Examples{Like: []string{"id 1"}, Unlike: []string{"id 2"}}, K: 3},
			{Near: Vector(vec), K: 3, Accuracy: EF(50)}, {Text: "version 3", K: 3, Where: filter.Text("of"), Snippet: 30}} {
			_, err := c.Search(next(), q)
			note("search", err)
			_, err = c.Explain(next(), q, "id 1", "id 38")
			note("explain", err)
		}
		_, err = c.SearchBatch(next(), []Query{{Near: Vector(vec), K: 1}, {Near: Vector(vec), K: 2, Where: filter.Eq("lang", "c")}})
		note("search batch", err)
		_, err = c.SearchFused(next(), []Query{{Near: Vector(vec), K: 2}, {Text: "version 2", K: 3}}, 1, 2)
		note("search fused", err)
		_, err = c.GetMany(next(), []string{"id 1", "id 2", "none"}, Everything)
		note("get", err)
		_, err = c.List(next(), ListQuery{Limit: 5, Where: filter.Ne("lang", "go"), Select: Everything})
		note("list", err)
		_, err = c.Count(next(), filter.Lt("i", 9))
		note("count", err)
		for _, err := range c.GetSeq(next(), []string{"id 1", "none", "id 2"}, Everything) {
			note("get sequence", err)
		}
		for _, err := range c.ListSeq(next(), ListQuery{Where: filter.Ne("lang", "go"), Select: Everything}) {
			note("list sequence", err)
		}
		for _, err := range c.All(next(), filter.Exists("i"), Everything) {
			note("all", err)
		}
		_, err = c.Upsert(next(), Document{ID: "new", Vector: vec, Text: "new", Metadata: Metadata{"i": 100}})
		note("upsert", err)
		note("patch", c.Patch(next(), Patch{ID: "new", Set: Metadata{"i": 101}}))
		note("set metadata", c.SetMetadata(next(), Metadata{"x": 1}))
		_, err = c.DeleteWhere(next(), filter.Gte("i", 100))
		note("delete where", err)
		_, err = c.Delete(next(), "new")
		note("delete", err)
		_, err = c.Load(next(), func(yield func(Document, error) bool) { yield(Document{ID: "loaded"}, nil) }, nil)
		note("load", err)
	}
	snap, err := vdb.Snapshot()
	note("snapshot", err)
	if err == nil {
		frozen, err := snap.Collection("b")
		if note("snapshot", err); err == nil {
			_, err = frozen.Search(next(), Query{Near: Vector{1, 2, 3}, K: 2})
			note("search snapshot", err)
		}
	}
	_, err = vdb.CreateCollection(next(), "fresh", Schema{Dim: 2}, nil)
	note("create", err)
	note("rename", vdb.Rename(next(), "fresh", "stale"))
	note("drop", vdb.Drop(next(), "stale"))
	note("flush", vdb.Flush(next()))
	note("compact", vdb.Compact(next()))
	if err == nil && snap != nil {
		note("close snapshot", snap.Close())
	}
	_, err = vdb.Check(next(), CheckDeep)
	note("check", err)
	note("backup", vdb.Backup(next(), copied))
	if snap != nil {
		snap.Close()
	}
	return errs
}

// Any single file operation fails while a database recovers, reads, writes, compacts,
// checks and copies. Nothing panics or hangs, the error keeps its cause, and the next
// process finds every document.
func TestEveryStepFails(t *testing.T) {
	v := newSpecimen(t, true)
	want := ""
	dir := filepath.Join(memDir(t), "db")
	var all []string // operations, in order
	digits := regexp.MustCompile("[0-9a-f]+")
	run := func(n int) (count int, failed vfs.Op, errs map[string]error) {
		writeFiles(t, dir, v.files)
		var mu sync.Mutex
		hook := func(op vfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			count++
			if n == 0 {
				all = append(all, fmt.Sprint(op.Kind, " ", digits.ReplaceAllString(op.Name, "0")))
			}
			if count == n {
				failed = op
				return syscall.EIO
			}
			return nil
		}
		opts := smallest
		opts.tests.hook, opts.Compaction = hook, Manual
		errs = map[string]error{}
		for _, readOnly := range []bool{true, false} {
			opts.ReadOnly = readOnly
			vdb, err := Open(dir, &opts)
			if err != nil {
				errs["open"] = err
				continue
			}
			for call, err := range everything(t.Context, vdb, filepath.Join(memDir(t), "copy")) {
				if !readOnly || !errors.Is(err, ErrReadOnly) {
					errs[call] = err
				}
			}
			if err := vdb.Close(); err != nil {
				errs["close"] = err
			}
		}
		return count, failed, errs
	}
	state := func() string {
		vdb := open(t, dir, nil)
		defer vdb.Close()
		check(t, vdb)
		var lines []string
		for _, name := range []string{"a", "b"} {
			for _, d := range dump(t, existing(t, vdb, name)) {
				if d.ID != "new" && d.ID != "loaded" {
					lines = append(lines, docString(name, &d))
				}
			}
		}
		slices.Sort(lines)
		return fmt.Sprint(lines)
	}
	total, _, errs := run(0)
	for call, err := range errs {
		t.Errorf("without a fault: %s: %v", call, err)
	}
	want = state()
	const step = 97 // of the repeated kinds of operations, test every 97th
	runs, told := 0, 0
	for n := 1; n <= total; n++ {
		if slices.Contains(all[:n-1], all[n-1]) && n%step != 0 && !*everyStep {
			continue
		}
		_, failed, errs := run(n)
		runs++
		for call, err := range errs {
			if errors.Is(err, syscall.EIO) {
				told++
				break
			} else if errors.Is(err, ErrInvalid) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnknown) || errors.Is(err, ErrReadOnly) {
				continue
			}
			t.Errorf("operation %d (%v %s): %s: %v", n, failed.Kind, failed.Name, call, err)
		}
		if got := state(); got != want {
			t.Fatalf("operation %d (%v %s): documents are\n%s\nwant\n%s", n, failed.Kind, failed.Name, got, want)
		}
	}
	t.Logf("%d of %d operations failed, %d were told", runs, total, told)
	if told*4 < runs {
		t.Error("few faults were told")
	}
}

// Calls with an ended context, or on a closed database, return that error and do nothing.
func TestEndedAndClosed(t *testing.T) {
	v := newSpecimen(t, false)
	dir := filepath.Join(memDir(t), "db")
	writeFiles(t, dir, v.files)
	vdb := open(t, dir, &Options{tests: testOptions{codedBytes: 1}, Compaction: Manual})
	before := dump(t, existing(t, vdb, "a"))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	errs := everything(func() context.Context { return ended }, vdb, filepath.Join(memDir(t), "copy"))
	for _, call := range []string{"search", "search batch", "get", "all", "upsert", "patch", "delete", "delete where", "load", "create",
		"rename", "drop", "flush", "compact", "check", "backup", "set metadata"} {
		if !errors.Is(errs[call], context.Canceled) && !errors.Is(errs[call], ErrInvalid) {
			t.Errorf("%s with an ended context: %v", call, errs[call])
		}
	}
	if after := dump(t, existing(t, vdb, "a")); len(after) != len(before) {
		t.Errorf("%d documents, %d before", len(after), len(before))
	}
	c := existing(t, vdb, "a")
	snap, err := vdb.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(snap.Close(), snap.Close(), vdb.Close(), vdb.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := snap.Collection("a"); !errors.Is(err, ErrClosed) {
		t.Errorf("closed snapshot: %v", err)
	}
	for call, err := range everything(t.Context, vdb, filepath.Join(memDir(t), "copy")) {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Close: %v", call, err)
		}
	}
	if _, err := c.Get(t.Context(), "id 1", 0); !errors.Is(err, ErrClosed) {
		t.Errorf("get after Close: %v", err)
	}
	if _, err := c.Upsert(t.Context(), Document{ID: "x"}); !errors.Is(err, ErrClosed) {
		t.Errorf("upsert after Close: %v", err)
	}
	_, infos := vdb.Collections()
	_, frozen := snap.Collections()
	_, stats := vdb.Stats()
	_, info := c.Info()
	_, version := c.Version()
	for call, err := range map[string]error{
		"Collections": infos, "Snapshot.Collections": frozen, "Stats": stats, "Info": info, "Version": version,
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Close: %v", call, err)
		}
	}
}

// Any bytes as stored documents, metadata or log records are either decoded or refused.
func TestDecodersOfDamage(t *testing.T) {
	doc := Document{ID: "some id", Text: "text", Metadata: Metadata{"null": nil, "t": true, "i": int64(-70000), "f": 1.5, "s": "string",
		"list": []any{"a", int64(1), 2.5, nil, false}, "map": map[string]any{"deep": map[string]any{"n": int64(1 << 40)}}}}
	stored, err := document.Append(nil, doc.stored())
	if err != nil {
		t.Fatal(err)
	}
	def := &engine.Definition{Name: "c", Schema: engine.Schema{Dim: 2}}
	ops := []engine.Op{{Kind: engine.OpDefine, Coll: 1, Def: def}, {Kind: engine.OpPut, Coll: 1, Doc: stored, Vec: []float32{1, 2}},
		{Kind: engine.OpDelete, Coll: 1, ID: "x"}, {Kind: engine.OpDrop, Coll: 1}}
	encode := func(b engine.Batch) []byte {
		parts, err := engine.EncodeRecord(b)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Join(parts, nil)
	}
	record := encode(engine.Batch{First: 5, Ops: ops})
	by := engine.RequestID{Writer: [16]byte{1, 2, 3}, Number: 1 << 40}
	asked := encode(engine.Batch{First: 5, Ops: ops, Request: by})
	for _, want := range []engine.RequestID{{}, by} {
		b, err := engine.DecodeRecord(encode(engine.Batch{First: 5, Ops: ops, Request: want}))
		if err != nil || b.First != 5 || len(b.Ops) != len(ops) || b.Request != want || b.Deleted() != 1 {
			t.Fatalf("%+v, %v", b, err)
		}
	}
	refused := 0
	try := func(what string, good []byte, decode func([]byte) error) {
		t.Helper()
		for at := range good {
			for _, value := range []byte{0, 1, 0x7f, 0x80, 0x90, 0xa1, 0xc0, 0xc1, 0xc3, 0xcf, 0xd3, 0xdd, 0xdf, 0xff, good[at] ^ 1, good[at] + 1} {
				bad := bytes.Clone(good)
				bad[at] = value
				if decode(bad) != nil {
					refused++
				}
			}
			if decode(good[:at]) == nil {
				t.Errorf("%s: %d of %d bytes are enough", what, at, len(good))
			}
		}
		if err := decode(good); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	try("document", stored, func(b []byte) error { _, err := document.Decode(b, document.All); return err })
	decode := func(b []byte) error { _, err := engine.DecodeRecord(b); return err }
	try("record", record, decode)
	try("record of a request", asked, decode)
	bare, err := document.EncodeMetadata(doc.Metadata)
	if err != nil {
		t.Fatal(err)
	}
	try("metadata", bare, func(b []byte) error { _, err := document.DecodeMetadata(b); return err })
	if refused < 500 {
		t.Errorf("only %d refused", refused)
	}
	if decode(append(bytes.Clone(record), 0)) == nil {
		t.Error("record: a byte too many is no error")
	}
	for what, bad := range map[string][]byte{
		"dimension": slices.Concat(record[:0:0], []byte{engine.RecordVersion}, make([]byte, 8), []byte{1, 0, 0, 0, engine.OpPut, 1, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f}),
		"writer":    slices.Concat([]byte{engine.RequestVersion}, make([]byte, 16+8+8+4)),
		"version":   {9}, "kind": slices.Concat([]byte{engine.RecordVersion}, make([]byte, 8), []byte{1, 0, 0, 0, 77, 1, 0, 0, 0}),
	} {
		if err := decode(bad); err == nil || errors.Is(err, codec.ErrShort) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
