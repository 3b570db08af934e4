package fuzz_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/internal/codec"
	stored "github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/share"
)

// shareMessages has a message of each kind.
func shareMessages(f *testing.F) []share.Message {
	doc, err := stored.Append(nil, &stored.Document{ID: "a", Text: "Tea.", Metadata: map[string]any{
		"n": int64(1), "f": 0.5, "list": []any{"x", nil}, "map": map[string]any{"y": true}}})
	if err != nil {
		f.Fatal(err)
	}
	ops := []engine.Op{
		{Kind: engine.OpPut, Collection: "notes", ID: "a", Doc: doc, Vec: []float32{1, -0.5}, Insert: true},
		{Kind: engine.OpPut, Bound: true, Coll: 3, ID: "b", Vec: []float32{}, Patch: &engine.Patch{
			Text: new("Milk."), Set: map[string]any{"f": 1.5}, Unset: []string{"n", ""}}},
		{Kind: engine.OpPut, Collection: "tasks", ID: "c", Doc: bytes.Replace(doc, []byte("\xa1a"), []byte("\xa1c"), 1)},
		{Kind: engine.OpDelete, Collection: "notes", ID: "d"},
	}
	def := &engine.Definition{ID: 7, Name: "tasks", Metadata: map[string]any{"by": "us"}, Schema: engine.Schema{
		Dim: 2, Metric: fileformat.L2, Lineage: engine.Lineage{Model: "m", Normalized: true},
		Text: &engine.TextIndex{Language: "english", Fields: []string{"title"}, K1: new(1.5)}}}
	p := share.Process{PID: 4711, Program: "vecbolt", Role: "search", Version: "v1.0.0"}
	damage := &fileformat.CorruptError{File: "wal/00000001.wal", Offset: 4096, Err: fileformat.ErrChecksum}
	return []share.Message{
		share.Hello{Version: share.Version, Process: p, ReadOnly: true, Writer: [16]byte{1, 2, 3},
			SyncWithin: time.Second},
		share.Welcome{Version: share.Version, Process: p, Root: 8, Applied: 20, LSN: 22},
		share.Refused{Err: engine.ErrLocked},
		share.Records{First: 21, Records: [][]byte{[]byte("one record"), []byte("another")}},
		share.Records{First: 23, Records: [][]byte{[]byte("one record")}, Replaced: [][]byte{{0, 0x80, 1}}},
		share.Root{Tx: 9, Applied: 22},
		share.Derived{},
		share.Frozen{LSN: 22},
		share.Release{Tx: 8},
		share.WriteOps{Request: 1, Ops: ops},
		share.Exclusive{Request: 3},
		share.Grant{Request: 3, LSN: 22},
		share.Decided{Request: 3, Ops: ops[3:]},
		share.Decided{Request: 4, Ops: []engine.Op{{Kind: engine.OpDefine, Coll: 7, Def: def}}},
		share.Decided{Request: 5, Ops: []engine.Op{{Kind: engine.OpDrop, Coll: 7}}},
		share.Decided{Request: 6, Err: true},
		share.Call{Request: 7, Kind: share.CallProcesses},
		share.Cancel{Request: 7},
		share.Deciding{},
		share.Result{Request: 7, LSN: 23, Deleted: 1, Processes: []share.Process{p, p}},
		share.Result{Request: 8, Err: damage},
		share.Result{Request: 9, Err: &engine.DimensionError{Collection: "notes", ID: "a", Expected: 2, Got: 3}},
		share.Bye{},
		share.Outcome{Request: 10, Of: 1, Seen: 22},
	}
}

// FuzzMessage reads frames of other processes, with a valid length and checksum on request. A frame
// that is taken is written as the same bytes, and its documents are what package document stores.
func FuzzMessage(f *testing.F) {
	for _, m := range shareMessages(f) {
		b, err := share.Append(nil, m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, false)
		f.Add(b[:len(b)-1], false)
		for _, v := range variants(b, 20) {
			f.Add(v, true)
		}
	}
	f.Add([]byte{}, false)
	f.Add([]byte("\x00\x00\x00\x20\x08\x00\x00\x00\x00too short"), false) // 512 MiB
	allocs := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	f.Fuzz(func(t *testing.T, b []byte, sign bool) {
		const header, sum = 9, 5
		if sign && len(b) >= header {
			b = bytes.Clone(b)
			binary.LittleEndian.PutUint32(b, uint32(len(b)-header))
			binary.LittleEndian.PutUint32(b[sum:], codec.CRC(b[:sum], b[header:]))
		}
		metrics.Read(allocs)
		before := allocs[0].Value.Uint64()
		in := bytes.NewReader(b)
		m, err := share.Read(in)
		metrics.Read(allocs)
		if used := allocs[0].Value.Uint64() - before; used > 2<<20+200*uint64(len(b)) {
			t.Fatalf("%d bytes allocated for %d", used, len(b))
		}
		if err != nil {
			if m != nil || err != io.EOF && err != io.ErrUnexpectedEOF && !errors.Is(err, fileformat.ErrChecksum) &&
				!errors.Is(err, fileformat.ErrFormat) && !errors.Is(err, fileformat.ErrVersion) {
				t.Fatalf("%v, error of no kind: %v", m, err)
			}
			return
		}
		again, err := share.Append(nil, m)
		if err != nil {
			t.Fatalf("%+v cannot be sent on: %v", m, err)
		}
		if taken := b[:len(b)-in.Len()]; !bytes.Equal(again, taken) {
			t.Fatalf("%x is sent on as %x", taken, again)
		}
		var ops []engine.Op
		switch m := m.(type) {
		case share.WriteOps:
			ops = m.Ops
		case share.Decided:
			ops = m.Ops
		}
		for _, o := range ops {
			if len(o.Doc) > 0 {
				if d, err := stored.Decode(o.Doc, stored.All); err != nil || d.ID != o.ID {
					t.Errorf("document %q is put as %q: %v", d.ID, o.ID, err)
				}
			}
		}
	})
}
