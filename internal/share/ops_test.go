package share

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

func stored(t testing.TB, d document.Document) []byte {
	t.Helper()
	b, err := document.Append(nil, &d)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// opsPayload builds the payload of a WriteOps by hand, from docs/format/share.md.
type opsPayload struct {
	vectors   []float32
	documents []byte
	names     []string
	count     int // writes, if not one
	write     []byte
	end       []byte
}

func (p opsPayload) bytes() []byte {
	e := codec.Encoder{}
	e.U64(1)
	e.U32(uint32(len(p.vectors)))
	for _, v := range p.vectors {
		e.U32(math.Float32bits(v))
	}
	e.Bytes(p.documents)
	e.Uvarint(uint64(len(p.names)))
	for _, name := range p.names {
		e.String(name)
	}
	e.Uvarint(uint64(max(1, p.count)))
	e.Raw(p.write)
	e.Raw(p.end)
	return e.B
}

// A write of bytes after its kind and flags.
func write(kind, flags uint8, parts ...any) []byte {
	e := codec.Encoder{}
	e.U8(kind)
	e.U8(flags)
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			e.Uvarint(uint64(p))
		case uint32:
			e.U32(p)
		case string:
			e.String(p)
		case []byte:
			e.Bytes(p)
		}
	}
	return e.B
}

// TestRefusedWrites has frames with valid checksums that no process sends.
func TestRefusedWrites(t *testing.T) {
	doc := stored(t, document.Document{ID: "a", Metadata: map[string]any{"n": int64(1)}})
	nan := float32(math.NaN())
	names := []string{"notes"}
	def, err := (&engine.Definition{Name: "tasks"}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	const unknown = 1 << 7
	put := func(parts ...any) []byte { return write(engine.OpPut, 0, parts...) }
	valid := opsPayload{documents: doc, names: names, write: put(0, len(doc))}
	for name, c := range map[string]struct {
		p       opsPayload
		decided bool
	}{
		"NaN":                    {p: opsPayload{vectors: []float32{nan}, documents: doc, names: names, write: write(engine.OpPut, flagVector, 0, 1, len(doc))}},
		"infinite":               {p: opsPayload{vectors: []float32{float32(math.Inf(1))}, documents: doc, names: names, write: write(engine.OpPut, flagVector, 0, 1, len(doc))}},
		"too many components":    {p: opsPayload{vectors: make([]float32, document.MaxDim+1), documents: doc, names: names, write: write(engine.OpPut, flagVector, 0, document.MaxDim+1, len(doc))}},
		"vector is missing":      {p: opsPayload{documents: doc, names: names, write: write(engine.OpPut, flagVector, 0, 1, len(doc))}},
		"vector of nobody":       {p: opsPayload{vectors: []float32{1}, documents: doc, names: names, write: put(0, len(doc))}},
		"document is missing":    {p: opsPayload{names: names, write: put(0, len(doc))}},
		"document of nobody":     {p: opsPayload{documents: append(bytes.Clone(doc), doc...), names: names, write: put(0, len(doc))}},
		"no document":            {p: opsPayload{names: names, write: put(0, 0)}},
		"document is cut":        {p: opsPayload{documents: doc[:len(doc)-1], names: names, write: put(0, len(doc)-1)}},
		"document and more":      {p: opsPayload{documents: append(bytes.Clone(doc), 0), names: names, write: put(0, len(doc)+1)}},
		"document of other form": {p: opsPayload{documents: []byte("\x93\xd9\x01a\x80\xa0"), names: names, write: put(0, 6)}},
		"name is missing":        {p: opsPayload{documents: doc, write: put(0, len(doc))}},
		"name of nobody":         {p: opsPayload{documents: doc, names: []string{"notes", "tasks"}, write: put(0, len(doc))}},
		"name out of order":      {p: opsPayload{documents: doc, names: []string{"notes", "tasks"}, write: put(1, len(doc))}},
		"name twice":             {p: opsPayload{documents: doc, names: []string{"notes", "notes"}, write: put(0, len(doc))}},
		"more writes":            {p: opsPayload{documents: doc, names: names, count: 2, write: put(0, len(doc))}},
		"fewer writes":           {p: opsPayload{documents: doc, names: names, write: put(0, len(doc)), end: put(0, 0)}},
		"many writes":            {p: opsPayload{documents: doc, names: names, count: 1 << 40, write: put(0, len(doc))}},
		"bytes left over":        {p: opsPayload{documents: doc, names: names, write: put(0, len(doc)), end: []byte{0}}},
		"unknown flag":           {p: opsPayload{documents: doc, names: names, write: write(engine.OpPut, unknown, 0, len(doc))}},
		"flags of a patch":       {p: opsPayload{documents: doc, names: names, write: write(engine.OpPut, flagText, 0, len(doc))}},
		"flags of a put":         {p: opsPayload{names: names, write: write(engine.OpDelete, flagInsert, 0, "a")}},
		"unknown kind":           {p: opsPayload{write: write(5, 0, uint32(1))}},
		"kind 0":                 {p: opsPayload{write: write(0, 0, uint32(1))}},
		"delete nothing":         {p: opsPayload{names: names, write: write(engine.OpDelete, 0, 0, "")}},
		"delete control":         {p: opsPayload{names: names, write: write(engine.OpDelete, 0, 0, "a\nb")}},
		"delete long":            {p: opsPayload{names: names, write: write(engine.OpDelete, 0, 0, strings.Repeat("x", document.MaxIDLen+1))}},
		"patch nothing":          {p: opsPayload{names: names, write: write(engine.OpPut, flagPatch, 0, "")}},
		"patch what is not":      {p: opsPayload{names: names, write: write(engine.OpPut, flagPatch|flagInsert, 0, "a")}},
		"text not UTF-8":         {p: opsPayload{names: names, write: write(engine.OpPut, flagPatch|flagText, 0, "a", "\xff")}},
		"text too long":          {p: opsPayload{names: names, write: write(engine.OpPut, flagPatch|flagText, 0, "a", strings.Repeat("x", document.MaxTextLen+1))}},
		"fields not a map":       {p: opsPayload{names: names, write: write(engine.OpPut, flagPatch|flagSet, 0, "a", []byte{0xc0})}},
		"fields of other form":   {p: opsPayload{names: names, write: write(engine.OpPut, flagPatch|flagSet, 0, "a", []byte("\x81\xa1a\xcc\x01"))}},
		"fields with operator":   {p: opsPayload{names: names, write: write(engine.OpPut, flagPatch|flagSet, 0, "a", []byte("\x81\xa1$\x01"))}},
		"many fields":            {p: opsPayload{names: names, write: write(engine.OpPut, flagPatch|flagUnset, 0, "a", 1<<40)}},
		"define in a batch":      {p: opsPayload{write: write(engine.OpDefine, 0, uint32(1), def)}},
		"drop in a batch":        {p: opsPayload{write: write(engine.OpDrop, 0, uint32(1))}},
		"two drops": {p: opsPayload{count: 2, write: slices.Concat(write(engine.OpDrop, 0, uint32(1)), write(engine.OpDrop, 0, uint32(2))), end: []byte{0}},
			decided: true},
		"bound drop":              {p: opsPayload{write: write(engine.OpDrop, flagBound, uint32(1)), end: []byte{0}}, decided: true},
		"definition is cut":       {p: opsPayload{write: write(engine.OpDefine, 0, uint32(1), def[:len(def)-1]), end: []byte{0}}, decided: true},
		"definition and more":     {p: opsPayload{write: write(engine.OpDefine, 0, uint32(1), append(bytes.Clone(def), 0xc0)), end: []byte{0}}, decided: true},
		"definition with no name": {p: opsPayload{write: write(engine.OpDefine, 0, uint32(1), bytes.Replace(def, []byte("\xa5tasks"), []byte("\xa0"), 1)), end: []byte{0}}, decided: true},
		"definition of a metric":  {p: opsPayload{write: write(engine.OpDefine, 0, uint32(1), bytes.Replace(def, []byte("\xcc\x00"), []byte("\xcc\x09"), 1)), end: []byte{0}}, decided: true},
		"definition of other form": {p: opsPayload{write: write(engine.OpDefine, 0, uint32(1), bytes.Replace(def, []byte("\xcc\x00"), []byte("\x00"), 1)), end: []byte{0}},
			decided: true},
		"deep definition": {p: opsPayload{write: write(engine.OpDefine, 0, uint32(1), bytes.Repeat([]byte{0x91}, maxDefinition)), end: []byte{0}}, decided: true},
		"long definition": {p: opsPayload{write: write(engine.OpDefine, 0, uint32(1), bytes.Repeat([]byte{0xc0}, maxDefinition+1)), end: []byte{0}}, decided: true},
		"failed, but":     {p: opsPayload{names: names, write: write(engine.OpDelete, 0, 0, "a"), end: []byte{1}}, decided: true},
		"boolean":         {p: opsPayload{names: names, write: write(engine.OpDelete, 0, 0, "a"), end: []byte{2}}, decided: true},
	} {
		t.Run(name, func(t *testing.T) {
			kind := uint8(kindWriteOps)
			if c.decided {
				kind = kindDecided
			}
			b := c.p.bytes()
			used := allocated(func() {
				if m, err := Read(bytes.NewReader(sealed(kind, b))); !errors.Is(err, fileformat.ErrFormat) {
					t.Errorf("%+v, %v", m, err)
				}
			})
			if used > 1<<20+8*uint64(len(b)) {
				t.Errorf("%d bytes allocated for %d", used, len(b))
			}
		})
	}
	if _, err := Read(bytes.NewReader(sealed(kindWriteOps, valid.bytes()))); err != nil {
		t.Errorf("the valid one: %v", err)
	}
	dropped := opsPayload{write: write(engine.OpDrop, 0, uint32(1)), end: []byte{0}}
	if _, err := Read(bytes.NewReader(sealed(kindDecided, dropped.bytes()))); err != nil {
		t.Errorf("the valid drop: %v", err)
	}
}

// Numbers of elements are claims as well, at every place of a message.
func TestLongCounts(t *testing.T) {
	huge := binary.AppendUvarint(nil, 1<<62)
	for _, m := range examples(t) {
		payload := frame(t, m)[headerSize:]
		for at := range payload {
			for _, claim := range [][]byte{huge, {0xff, 0xff, 0xff, 0xff}, {0xff, 0xff, 0xff, 0x7f}, {0xdf, 0, 0xff, 0xff, 0xff}} {
				bad := slices.Concat(payload[:at], claim, payload[min(len(payload), at+len(claim)):])
				used := allocated(func() { _, _ = Read(bytes.NewReader(sealed(m.kind(), bad))) })
				if used > 1<<20 {
					t.Errorf("%T with %x at %d: %d bytes allocated", m, claim, at, used)
				}
			}
		}
	}
}

// TestRefusedMessages has payloads of the other messages that no process sends.
func TestRefusedMessages(t *testing.T) {
	encoded := func(fn func(e *codec.Encoder)) []byte {
		e := codec.Encoder{}
		fn(&e)
		return e.B
	}
	process := func(program string) func(e *codec.Encoder) {
		return func(e *codec.Encoder) {
			e.U32(Version)
			e.U8(0)
			e.Raw([]byte("0123456789abcdef"))
			e.U32(1)
			e.U64(0)
			e.String(program)
			e.String("")
			e.String("")
		}
	}
	for name, c := range map[string]struct {
		kind    uint8
		payload []byte
	}{
		"control in a name": {kindHello, encoded(process("a\x1b[31m"))},
		"name not UTF-8":    {kindHello, encoded(process("a\xff"))},
		"long name":         {kindHello, encoded(process(strings.Repeat("x", maxString+1)))},
		"no writer": {kindHello, encoded(func(e *codec.Encoder) {
			e.U32(Version)
			e.Raw(make([]byte, 1+16+8+4+8+3))
		})},
		"sync within 2^63 ns": {kindHello, encoded(func(e *codec.Encoder) {
			e.U32(Version)
			e.Raw(append(make([]byte, 1), "follower 0123456"...))
			e.U64(1 << 63)
			e.Raw(make([]byte, 4+8+3))
		})},
		"applied above last": {kindWelcome, encoded(func(e *codec.Encoder) { e.U32(Version); e.Raw(make([]byte, 24)); e.U64(2); e.U64(1) })},
		"no reason":          {kindRefused, nil},
		"unknown sentinel":   {kindRefused, encoded(func(e *codec.Encoder) { e.String("x"); e.U64(1 << 63); e.U8(0) })},
		"unknown details":    {kindRefused, encoded(func(e *codec.Encoder) { e.String("x"); e.U64(0); e.U8(4) })},
		"long text":          {kindRefused, encoded(func(e *codec.Encoder) { e.String(strings.Repeat("x", maxErrorText+1)); e.U64(0); e.U8(0) })},
		"deep": {kindRefused, encoded(func(e *codec.Encoder) {
			for range maxNesting + 1 {
				e.String("x")
				e.U64(0)
				e.U8(flagCorrupt)
				e.String("file")
				e.U64(0)
				e.U8(1)
			}
			e.String("x")
			e.U64(0)
			e.U8(0)
		})},
		"huge dimension": {kindRefused, encoded(func(e *codec.Encoder) {
			e.String("x")
			e.U64(0)
			e.U8(flagDimension)
			e.String("")
			e.String("")
			e.Uvarint(1 << 63)
			e.Uvarint(1)
		})},
		"no records":   {kindRecords, encoded(func(e *codec.Encoder) { e.U64(1); e.U8(0); e.Uvarint(0) })},
		"record 0":     {kindRecords, encoded(func(e *codec.Encoder) { e.U64(0); e.U8(0); e.Uvarint(1); e.String("x") })},
		"last record":  {kindRecords, encoded(func(e *codec.Encoder) { e.U64(math.MaxUint64); e.U8(0); e.Uvarint(1); e.String("x") })},
		"empty record": {kindRecords, encoded(func(e *codec.Encoder) { e.U64(1); e.U8(0); e.Uvarint(1); e.String("") })},
		"half a docnum is replaced": {kindRecords, encoded(func(e *codec.Encoder) {
			e.U64(1)
			e.U8(1)
			e.Uvarint(1)
			e.String("x")
			e.String("\x80")
		})},
		"replaces nothing known": {kindRecords, encoded(func(e *codec.Encoder) { e.U64(1); e.U8(1); e.Uvarint(1); e.String("x") })},
		"call 0":                 {kindCall, encoded(func(e *codec.Encoder) { e.U64(1); e.U8(0) })},
		"call 6":                 {kindCall, encoded(func(e *codec.Encoder) { e.U64(1); e.U8(CallCheckLog + 1) })},
		"deleted":                {kindResult, encoded(func(e *codec.Encoder) { e.U64(1); e.U64(1); e.Uvarint(1 << 63); e.U8(0); e.U8(0) })},
		"too many processes": {kindResult, encoded(func(e *codec.Encoder) {
			e.U64(1)
			e.U64(1)
			e.U8(0)
			e.U8(0)
			e.Uvarint(maxProcesses + 1)
			e.Raw(make([]byte, minProcess*(maxProcesses+1)))
		})},
		"something": {kindBye, []byte{0}},
	} {
		if m, err := Read(bytes.NewReader(sealed(c.kind, c.payload))); !errors.Is(err, fileformat.ErrFormat) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}

// Append refuses what Read would refuse, so that a mistake stays in the process that made it.
func TestAppendRefuses(t *testing.T) {
	doc := stored(t, document.Document{ID: "a"})
	def := func(d engine.Definition) []engine.Op {
		return []engine.Op{{Kind: engine.OpDefine, Coll: d.ID, Def: &d}}
	}
	patch := func(p engine.Patch) Message {
		return WriteOps{Ops: []engine.Op{{Kind: engine.OpPut, ID: "a", Patch: &p}}}
	}
	for name, c := range map[string]struct {
		m    Message
		want error // nil: a mistake of the caller
	}{
		"put of nothing":      {WriteOps{Ops: []engine.Op{{Kind: engine.OpPut, ID: "a"}}}, nil},
		"put of both":         {WriteOps{Ops: []engine.Op{{Kind: engine.OpPut, ID: "a", Doc: doc, Patch: &engine.Patch{}}}}, nil},
		"put as another":      {WriteOps{Ops: []engine.Op{{Kind: engine.OpPut, ID: "b", Doc: doc}}}, nil},
		"put of damage":       {WriteOps{Ops: []engine.Op{{Kind: engine.OpPut, ID: "a", Doc: doc[1:]}}}, nil},
		"put of a definition": {WriteOps{Ops: []engine.Op{{Kind: engine.OpPut, ID: "a", Doc: doc, Def: &engine.Definition{}}}}, nil},
		"insert of a patch":   {WriteOps{Ops: []engine.Op{{Kind: engine.OpPut, ID: "a", Insert: true, Patch: &engine.Patch{}}}}, nil},
		"delete and insert":   {WriteOps{Ops: []engine.Op{{Kind: engine.OpDelete, ID: "a", Insert: true}}}, nil},
		"no kind":             {WriteOps{Ops: []engine.Op{{}}}, nil},
		"drop in a batch":     {WriteOps{Ops: []engine.Op{{Kind: engine.OpDrop}}}, nil},
		"two drops":           {Decided{Ops: []engine.Op{{Kind: engine.OpDrop}, {Kind: engine.OpDrop}}}, nil},
		"drop of an id":       {Decided{Ops: []engine.Op{{Kind: engine.OpDrop, ID: "a"}}}, nil},
		"define nothing":      {Decided{Ops: []engine.Op{{Kind: engine.OpDefine}}}, nil},
		"define another":      {Decided{Ops: []engine.Op{{Kind: engine.OpDefine, Coll: 1, Def: &engine.Definition{ID: 2, Name: "x"}}}}, nil},
		"no language":         {Decided{Ops: def(engine.Definition{Name: "x", Schema: engine.Schema{Text: &engine.TextIndex{}}})}, nil},
		"failed, but":         {Decided{Ops: []engine.Op{{Kind: engine.OpDelete, ID: "a"}}, Err: true}, nil},
		"refused for nothing": {Refused{}, nil},
		"call":                {Call{}, nil},
		"deleted":             {Result{Deleted: -1}, nil},
		"processes":           {Result{Processes: make([]Process, maxProcesses+1)}, nil},
		"applied above last":  {Welcome{Applied: 1}, nil},
		"records":             {Records{First: 1}, nil},
		"empty record":        {Records{1, [][]byte{nil}, nil}, nil},
		"replaced by nothing": {Records{1, [][]byte{{1}}, [][]byte{nil, nil}}, nil},
		"not a docnum":        {Records{1, [][]byte{{1}}, [][]byte{{0x80}}}, nil},
		"no writer":           {Hello{}, nil},
		"sync within":         {Hello{Writer: [16]byte{1}, SyncWithin: -1}, nil},
		"process id":          {Hello{Writer: [16]byte{1}, Process: Process{PID: -1}}, nil},
		"time":                {Hello{Writer: [16]byte{1}, Process: Process{Since: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}}, nil},

		"unnamed":      {Decided{Ops: def(engine.Definition{})}, document.ErrInvalid},
		"no id":        {WriteOps{Ops: []engine.Op{{Kind: engine.OpDelete}}}, document.ErrInvalid},
		"NaN":          {WriteOps{Ops: []engine.Op{{Kind: engine.OpPut, ID: "a", Doc: doc, Vec: []float32{float32(math.NaN())}}}}, document.ErrInvalid},
		"text":         {patch(engine.Patch{Text: new("\xff")}), document.ErrInvalid},
		"field":        {patch(engine.Patch{Set: map[string]any{"f": struct{}{}}}), document.ErrInvalid},
		"operator":     {patch(engine.Patch{Set: map[string]any{"$f": 1}}), document.ErrInvalid},
		"long lineage": {Decided{Ops: def(engine.Definition{Name: "x", Schema: engine.Schema{Lineage: engine.Lineage{Model: strings.Repeat("x", maxDefinition)}}})}, errTooLarge},
	} {
		b, err := Append([]byte("before"), c.m)
		if err == nil || string(b) != "before" || c.want != nil && !errors.Is(err, c.want) ||
			c.want == nil && (errors.Is(err, document.ErrInvalid) || errors.Is(err, errTooLarge)) {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

// TestLargestDefinition: followers can change every collection that the limits allow.
func TestLargestDefinition(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	def := &engine.Definition{ID: 1, Name: long(engine.MaxNameLen)}
	def.Schema.Lineage = engine.Lineage{Provider: long(engine.MaxLineageLen), Model: long(engine.MaxLineageLen),
		Chunker: long(engine.MaxLineageLen), Normalized: true}
	def.Schema.Dim, def.Schema.Index = document.MaxDim, engine.IndexSmall
	def.Schema.Text = &engine.TextIndex{Language: "english", K1: new(1.5), B: new(0.5)}
	for i := range engine.MaxTextFields {
		def.Schema.Text.Fields = append(def.Schema.Text.Fields, fmt.Sprintf("%02d", i)+long(filter.MaxPath-2))
	}
	const overhead = 8 // of one field, in msgpack
	def.Metadata = map[string]any{"m": long(document.MaxMetadataLen - overhead)}
	if b, err := document.EncodeMetadata(def.Metadata); err != nil || len(b) != document.MaxMetadataLen {
		t.Errorf("metadata of %d bytes, %v", len(b), err)
	}
	b, err := Append(nil, Decided{Ops: []engine.Op{{Kind: engine.OpDefine, Coll: 1, Def: def}}})
	if err != nil || len(b) > maxDefinition {
		t.Errorf("%d bytes, the limit is %d: %v", len(b), maxDefinition, err)
	}
}

// The limit of a batch is for batches: a decision may delete without limit.
func TestSizeLimit(t *testing.T) {
	ids := slices.Repeat([]engine.Op{{Kind: engine.OpDelete, ID: strings.Repeat("x", document.MaxIDLen)}}, maxOps/document.MaxIDLen)
	if size := opSize(&ids[0]) * len(ids); checkSize(size, false) != nil || checkSize(size+1, true) != nil {
		t.Error("a batch within the limit is refused")
	}
	if err := checkSize(maxOps+1, false); !errors.Is(err, document.ErrInvalid) {
		t.Errorf("a batch above the limit: %v", err)
	}
}

// Values of the types that db takes arrive in the types that it gives.
func TestPatchTypes(t *testing.T) {
	type named map[string]any
	p := &engine.Patch{Set: map[string]any{"int": 1, "u8": uint8(2), "f32": float32(0.5), "list": []string{"a"}, "map": named{"x": []int{1}}}}
	got := crosses(t, WriteOps{Ops: []engine.Op{{Kind: engine.OpPut, ID: "a", Patch: p}}}).(WriteOps)
	want := map[string]any{"int": int64(1), "u8": int64(2), "f32": 0.5, "list": []any{"a"}, "map": map[string]any{"x": []any{int64(1)}}}
	if diff := cmp.Diff(want, got.Ops[0].Patch.Set); diff != "" {
		t.Error(diff)
	}
}

// Documents do not keep the frame in memory, and vectors are not copied.
func TestMemoryOfOps(t *testing.T) {
	doc := stored(t, document.Document{ID: "a", Text: "Tea."})
	op := engine.Op{Kind: engine.OpPut, ID: "a", Doc: doc, Vec: make([]float32, 50_000)}
	b := frame(t, WriteOps{Ops: []engine.Op{op}})
	used := allocated(func() {
		if _, err := Read(bytes.NewReader(b)); err != nil {
			t.Fatal(err)
		}
	})
	if used > 5*uint64(len(b))/2 { // the frame, and what it outgrew
		t.Errorf("%d bytes allocated for a frame of %d", used, len(b))
	}
	payload := b[headerSize:]
	ops, _ := decodeOps(codec.NewDecoder(payload[8:]), false)
	clear(payload)
	if !bytes.Equal(ops[0].Doc, doc) {
		t.Error("the document shares memory with the frame")
	}
	if got := ops[0].Doc; cap(got) != len(got) {
		t.Error("a document can grow into the next one")
	}
}

// What people are shown is cut, and has no control characters.
func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"vecbolt": "vecbolt", "a\x1b[31mb\n": "a[31mb", "a\xffb\u202e": "ab",
		strings.Repeat("é", 40): strings.Repeat("é", 32), "x" + strings.Repeat("é", 40): "x" + strings.Repeat("é", 31),
	} {
		got := crosses(t, Hello{Version: Version, Writer: [16]byte{1}, Process: Process{Program: in, Role: in, Version: in}}).(Hello).Process
		if diff := cmp.Diff(Process{Program: want, Role: want, Version: want}, got); diff != "" {
			t.Errorf("%q: %s", in, diff)
		}
	}
}
