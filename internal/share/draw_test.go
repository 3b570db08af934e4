package share

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// same compares messages: vectors bit by bit, nil against empty, definitions by their stored form,
// errors by text and matches.
var same = cmp.Options{
	cmpopts.IgnoreUnexported(engine.Op{}),
	cmp.Comparer(func(a, b []float32) bool {
		if len(a) != len(b) || (a == nil) != (b == nil) {
			return false
		}
		for i := range a {
			if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
				return false
			}
		}
		return true
	}),
	cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }),
	cmp.Comparer(func(a, b *engine.Definition) bool {
		if a == nil || b == nil {
			return a == b
		}
		x, err1 := a.Encode()
		y, err2 := b.Encode()
		return err1 == nil && err2 == nil && bytes.Equal(x, y) && a.ID == b.ID && (a.Analysis == nil) == (b.Analysis == nil)
	}),
	cmp.Comparer(func(a, b error) bool {
		if a == nil || b == nil {
			return a == b
		}
		for _, s := range sentinels {
			if errors.Is(a, s) != errors.Is(b, s) {
				return false
			}
		}
		return a.Error() == b.Error()
	}),
}

// fatal is a test or a check of rapid.
type fatal interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// frame returns the frame of a message.
func frame(t fatal, m Message) []byte {
	t.Helper()
	b, err := Append(nil, m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// crosses sends a message and returns what arrives. Sent on, that gives the same frame.
func crosses(t fatal, m Message) Message {
	t.Helper()
	b := frame(t, m)
	in := bytes.NewReader(b)
	got, err := Read(in)
	if err != nil {
		t.Fatal(err)
	}
	if in.Len() > 0 {
		t.Fatalf("%d bytes are left", in.Len())
	}
	if again := frame(t, got); !bytes.Equal(again, b) {
		t.Fatalf("%x is sent on as %x", b, again)
	}
	return got
}

// drawMetadata returns metadata in the types of a read; at level 0 it is nil if it is empty.
func drawMetadata(t *rapid.T, level int) map[string]any {
	n := rapid.IntRange(0, 4).Draw(t, "fields")
	if n == 0 && level == 0 {
		return nil
	}
	m := map[string]any{}
	for range n {
		key := rapid.StringMatching(`[a-z]{1,6}|x\.[0-9]|é{20}`).Draw(t, "key")
		m[key] = drawValue(t, level)
	}
	return m
}

func drawValue(t *rapid.T, level int) any {
	kinds := 5
	if level < 3 {
		kinds = 7
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return rapid.Int64().Draw(t, "int")
	case 3:
		return rapid.Float64().Draw(t, "float") // finite
	case 4:
		return rapid.String().Draw(t, "string")
	case 5:
		list := make([]any, rapid.IntRange(0, 4).Draw(t, "length"))
		for i := range list {
			list[i] = drawValue(t, 3)
		}
		return list
	}
	return drawMetadata(t, level+1)
}

func drawVector(t *rapid.T) []float32 {
	switch n := rapid.IntRange(-1, 6).Draw(t, "dimension"); n {
	case -1:
		return nil
	default:
		v := make([]float32, n)
		for i := range v {
			v[i] = rapid.Float32().Draw(t, "component") // finite
		}
		return v
	}
}

var drawID = rapid.StringMatching(`[ -~]{1,12}|é{1,3}`)

// drawName draws names that collections may have: those that no URL can contain are refused.
var drawName = drawID.Filter(func(s string) bool { return s != "." && s != ".." && s != "/" })

func drawText(t *rapid.T) string { return rapid.StringN(0, 40, -1).Draw(t, "text") }

func drawDefinition(t *rapid.T, coll uint32) *engine.Definition {
	def := &engine.Definition{ID: coll, Name: drawName.Draw(t, "name"), Metadata: drawMetadata(t, 0), Schema: engine.Schema{
		Dim:    rapid.IntRange(0, document.MaxDim).Draw(t, "dim"),
		Metric: fileformat.Metric(rapid.IntRange(0, 2).Draw(t, "metric")),
		Lineage: engine.Lineage{Provider: drawText(t), Model: drawText(t), Chunker: drawText(t),
			Normalized: rapid.Bool().Draw(t, "normalized")},
	}}
	if rapid.Bool().Draw(t, "indexed") {
		index := &engine.TextIndex{Language: rapid.SampledFrom([]string{"english", "german"}).Draw(t, "language")}
		if rapid.Bool().Draw(t, "fields") {
			index.Fields = []string{"title", "a.b"}
		}
		if rapid.Bool().Draw(t, "k1") {
			index.K1 = new(rapid.Float64Range(0, 100).Draw(t, "k1"))
		}
		if rapid.Bool().Draw(t, "b") {
			index.B = new(rapid.Float64Range(0, 1).Draw(t, "b"))
		}
		def.Schema.Text = index
		var err error
		if def.Analysis, err = engine.NewAnalysis(def.Name, index); err != nil {
			t.Fatal(err)
		}
	}
	return def
}

// drawOp returns a put, a patch or a delete.
func drawOp(t *rapid.T) (o engine.Op) {
	if rapid.Bool().Draw(t, "bound") {
		o.Bound, o.Coll = true, rapid.Uint32().Draw(t, "collection")
	} else {
		o.Collection = rapid.SampledFrom([]string{"", "notes", "tasks", "\x00\xff"}).Draw(t, "collection")
	}
	o.ID = drawID.Draw(t, "id")
	o.Kind = engine.OpPut
	switch rapid.IntRange(0, 2).Draw(t, "write") {
	case 0:
		o.Kind = engine.OpDelete
	case 1:
		o.Vec = drawVector(t)
		o.Insert = rapid.Bool().Draw(t, "insert")
		var err error
		d := &document.Document{ID: o.ID, Text: drawText(t), Metadata: drawMetadata(t, 0)}
		if o.Doc, err = document.Append(nil, d); err != nil {
			t.Fatal(err)
		}
	default:
		o.Vec = drawVector(t)
		o.Patch = &engine.Patch{}
		if rapid.Bool().Draw(t, "text") {
			o.Patch.Text = new(drawText(t))
		}
		if rapid.Bool().Draw(t, "set") {
			if o.Patch.Set = drawMetadata(t, 0); o.Patch.Set == nil {
				o.Patch.Set = map[string]any{}
			}
		}
		if rapid.Bool().Draw(t, "unset") {
			o.Patch.Unset = rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "fields")
		}
	}
	return o
}

func drawOps(t *rapid.T) (ops []engine.Op, size int) {
	for range rapid.IntRange(0, 6).Draw(t, "ops") {
		ops = append(ops, drawOp(t))
		size += opSize(&ops[len(ops)-1])
	}
	return ops, size
}

func drawProcess(t *rapid.T) Process {
	word := rapid.StringMatching(`[ -~éß]{0,32}`)
	p := Process{
		PID:     int(rapid.Uint32().Draw(t, "pid")),
		Program: word.Draw(t, "program"), Role: word.Draw(t, "role"), Version: word.Draw(t, "version"),
	}
	if since := rapid.Int64().Draw(t, "since"); since != 0 {
		p.Since = time.Unix(0, since).UTC()
	}
	return p
}

func drawError(t *rapid.T) error {
	return rapid.SampledFrom(errorCases(nil)).Draw(t, "error").err
}

// drawMessage returns a message of a kind.
func drawMessage(t *rapid.T, kind int) Message {
	u64 := func(what string) uint64 { return rapid.Uint64().Draw(t, what) }
	switch kind {
	case kindHello:
		m := Hello{Version: Version, Process: drawProcess(t), ReadOnly: rapid.Bool().Draw(t, "read-only"), Writer: [16]byte{1}}
		copy(m.Writer[1:], rapid.SliceOfN(rapid.Byte(), 15, 15).Draw(t, "writer"))
		m.SyncWithin = time.Duration(rapid.Int64Min(0).Draw(t, "sync within"))
		return m
	case kindWelcome:
		m := Welcome{Version: Version, Process: drawProcess(t), Root: u64("root"), LSN: u64("lsn")}
		m.Applied = m.LSN - rapid.Uint64Max(m.LSN).Draw(t, "behind")
		copy(m.DB[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "db"))
		return m
	case kindRefused:
		return Refused{drawError(t)}
	case kindRecords:
		m := Records{First: rapid.Uint64Range(1, math.MaxUint64-5).Draw(t, "first"),
			Records: rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 1, 50), 1, 5).Draw(t, "records")}
		if rapid.Bool().Draw(t, "resolved") {
			for range m.Records {
				e := codec.Encoder{B: []byte{}}
				for _, num := range rapid.SliceOfN(rapid.Uint64(), 0, 5).Draw(t, "replaced") {
					e.Uvarint(num)
				}
				m.Replaced = append(m.Replaced, e.B)
			}
		}
		return m
	case kindRoot:
		return Root{u64("tx"), u64("applied")}
	case kindDerived:
		return Derived{}
	case kindFrozen:
		return Frozen{u64("lsn")}
	case kindRelease:
		return Release{u64("tx")}
	case kindWriteOps:
		m := WriteOps{Request: u64("request")}
		m.Ops, m.Size = drawOps(t)
		return m
	case kindExclusive:
		return Exclusive{u64("request")}
	case kindGrant:
		return Grant{u64("request"), u64("lsn")}
	case kindDecided:
		m := Decided{Request: u64("request")}
		coll := rapid.Uint32().Draw(t, "collection")
		switch rapid.IntRange(0, 3).Draw(t, "decision") {
		case 0:
			m.Err = true
		case 1:
			m.Ops, _ = drawOps(t)
		case 2:
			m.Ops = []engine.Op{{Kind: engine.OpDefine, Coll: coll, Def: drawDefinition(t, coll)}}
		case 3:
			m.Ops = []engine.Op{{Kind: engine.OpDrop, Coll: coll}}
		}
		return m
	case kindCall:
		return Call{u64("request"), uint8(rapid.IntRange(CallFlush, CallCheckLog).Draw(t, "call"))}
	case kindCancel:
		return Cancel{u64("request")}
	case kindDeciding:
		return Deciding{}
	case kindOutcome:
		return Outcome{u64("request"), u64("of"), u64("seen")}
	case kindResult:
		m := Result{Request: u64("request"), LSN: u64("lsn"), Deleted: rapid.IntMin(0).Draw(t, "deleted")}
		if rapid.Bool().Draw(t, "failed") {
			m.Err = drawError(t)
		}
		for range rapid.IntRange(0, 3).Draw(t, "processes") {
			m.Processes = append(m.Processes, drawProcess(t))
		}
		return m
	}
	return Bye{}
}

// examples has a message of each kind, and some more of the large ones.
func examples(t testing.TB) []Message {
	doc := func(d document.Document) []byte {
		b, err := document.Append(nil, &d)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	p := Process{PID: 4711, Program: "vecbolt", Since: time.Unix(1_700_000_000, 0).UTC(), Role: "search", Version: "v1.0.0"}
	ops := []engine.Op{
		{Kind: engine.OpPut, Collection: "notes", ID: "a", Vec: []float32{1, -0.5},
			Doc: doc(document.Document{ID: "a", Text: "Tea.", Metadata: map[string]any{"n": int64(1)}})},
		{Kind: engine.OpPut, Bound: true, Coll: 3, ID: "b", Patch: &engine.Patch{
			Text: new("Milk."), Set: map[string]any{"f": 1.5}, Unset: []string{"n"}}},
		{Kind: engine.OpDelete, Collection: "notes", ID: "c"},
	}
	size := 0
	for i := range ops {
		size += opSize(&ops[i])
	}
	def := &engine.Definition{ID: 7, Name: "tasks", Metadata: map[string]any{"by": "us"},
		Schema: engine.Schema{Dim: 2, Metric: fileformat.L2, Text: &engine.TextIndex{Language: "english", Fields: []string{"title"}}}}
	var err error
	if def.Analysis, err = engine.NewAnalysis(def.Name, def.Schema.Text); err != nil {
		t.Fatal(err)
	}
	return []Message{
		Hello{Version, p, true, [16]byte{1, 2, 3}, time.Second},
		Welcome{Version, [16]byte{1, 2, 3}, p, 8, 20, 22},
		Refused{engine.ErrLocked},
		Records{21, [][]byte{[]byte("one record"), []byte("another")}, nil},
		Records{23, [][]byte{[]byte("one record"), []byte("another")}, [][]byte{{0, 0x80, 1}, {}}},
		Root{9, 22},
		Derived{},
		Frozen{22},
		Release{8},
		WriteOps{1, ops, size},
		WriteOps{Request: 2},
		Exclusive{3},
		Grant{3, 22},
		Decided{3, ops[2:], false},
		Decided{4, []engine.Op{{Kind: engine.OpDefine, Coll: 7, Def: def}}, false},
		Decided{5, []engine.Op{{Kind: engine.OpDrop, Coll: 7}}, false},
		Decided{6, nil, true},
		Call{7, CallProcesses},
		Cancel{7},
		Deciding{},
		Result{Request: 7, LSN: 23, Deleted: 1, Processes: []Process{p, {PID: 1}}},
		Result{Request: 8, Err: &fileformat.CorruptError{File: "wal/00000001.wal", Offset: 4096, Err: fileformat.ErrChecksum}},
		Bye{},
		Outcome{9, 7, 22},
	}
}
