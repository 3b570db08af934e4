package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/exchange"
)

// Thrift's compact protocol, as far as a file of one column needs it. A field is the distance of
// its number from the number of the last field, its type, and its value.
func field(step, kind byte, value []byte) []byte { return append([]byte{step<<4 | kind}, value...) }

func thriftInt(v int64) []byte {
	return binary.AppendUvarint(nil, uint64(v<<1)^uint64(v>>63))
}

func int32Field(step byte, v int64) []byte { return field(step, thriftI32, thriftInt(v)) }
func int64Field(step byte, v int64) []byte { return field(step, thriftI64, thriftInt(v)) }

func textField(step byte, s string) []byte {
	return field(step, thriftBinary, append(binary.AppendUvarint(nil, uint64(len(s))), s...))
}

func structure(fields ...[]byte) []byte { return append(bytes.Join(fields, nil), 0) }

func list(kind byte, n uint64, elements []byte) []byte {
	return append(binary.AppendUvarint([]byte{0xf0 | kind}, n), elements...)
}

// A parquetShape is a file with one column "id" of texts, whose parts may lie.
type parquetShape struct {
	schema   []byte // of the footer; nil: a root and the column
	elements uint64 // of the schema
	count    int64  // values of the page
	size     int64  // of the page when decompressed; 0: of data
	codec    int64
	encoding int64
	data     []byte
	rows     int64
}

func (p parquetShape) file() []byte {
	if p.schema == nil {
		root := structure(textField(4, "root"), int32Field(1, 1))
		column := structure(int32Field(1, 6), int32Field(2, 0), textField(1, "id"))
		p.schema, p.elements = append(root, column...), 2
	}
	if p.size == 0 {
		p.size = int64(len(p.data))
	}
	page := append(structure(int32Field(1, 0), int32Field(1, p.size), int32Field(1, int64(len(p.data))),
		field(2, thriftStruct, structure(int32Field(1, p.count), int32Field(1, p.encoding), int32Field(1, 3),
			int32Field(1, 3)))), p.data...)
	chunk := structure(int64Field(2, 4), field(1, thriftStruct, structure(int32Field(1, 6),
		field(1, thriftList, list(thriftI32, 1, thriftInt(p.encoding))),
		field(1, thriftList, list(thriftBinary, 1, []byte("\x02id"))),
		int32Field(1, p.codec), int64Field(1, p.count), int64Field(1, int64(len(page))),
		int64Field(1, int64(len(page))), int64Field(2, 4))))
	group := structure(field(1, thriftList, list(thriftStruct, 1, chunk)), int64Field(1, int64(len(page))),
		int64Field(1, p.rows))
	footer := structure(int32Field(1, 1), field(1, thriftList, list(thriftStruct, p.elements, p.schema)),
		int64Field(1, p.rows), field(1, thriftList, list(thriftStruct, 1, group)))
	return closeParquet(append([]byte(parquetMagic), page...), footer)
}

// closeParquet appends the footer, its length and the magic.
func closeParquet(b, footer []byte) []byte {
	b = append(b, footer...)
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(footer))), parquetMagic...)
}

// readParquet reads a file of these bytes and returns the bytes that were allocated for it.
func readParquet(t *testing.T, name string, b []byte) (docs []*exchange.ImportedDocument, allocated uint64, err error) {
	t.Helper()
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	docs, err = parquetDocuments(t, name)
	runtime.ReadMemStats(&after)
	if err != nil && !errors.Is(err, exchange.ErrFormat) && !isUnread(err) {
		t.Fatalf("error of another kind: %v", err)
	}
	return docs, after.TotalAlloc - before.TotalAlloc, err
}

// isUnread reports whether a file is refused for a codec that is known but not read.
func isUnread(err error) bool {
	return errors.Is(err, db.ErrInvalid) && strings.Contains(err.Error(), ", which is not read: write the file with ")
}

// Codecs that are not read are refused by their names, before any row is read: the file is intact.
func TestParquetCodecs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "codec.parquet")
	for codec, name := range map[int64]string{3: "LZO", 5: "LZ4", 7: "LZ4_RAW"} {
		p := parquetShape{count: 1, rows: 1, codec: codec, data: []byte("\x01\x00\x00\x00a")}
		docs, _, err := readParquet(t, path, p.file())
		want := path + `: column "id" is compressed with ` + name + ", which is not read: write the file with zstd"
		if len(docs) != 0 || err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, exchange.ErrFormat) {
			t.Errorf("codec %d: %d documents, error %v, want %q", codec, len(docs), err, want)
		}
		if _, err := openParquet(path); !isUnread(err) {
			t.Errorf("codec %d: opened with %v", codec, err)
		}
	}
	vectors := writeParquet(t, []struct {
		Vector []float32 `parquet:"vector,list"`
	}{{[]float32{1, 2}}}, parquet.Compression(&parquet.Lz4Raw))
	if _, err := openParquet(vectors); !isUnread(err) || !strings.Contains(err.Error(), `"vector.list.element"`) {
		t.Errorf("vectors in LZ4_RAW: %v", err)
	}
	// A codec of no name may be damage.
	p := parquetShape{count: 1, rows: 1, codec: 99, data: []byte("\x01\x00\x00\x00a")}
	if _, _, err := readParquet(t, path, p.file()); !errors.Is(err, exchange.ErrFormat) {
		t.Errorf("codec 99: %v", err)
	}
}

// Small files that claim to be large are errors, before anything is allocated for their claims.
func TestParquetBombs(t *testing.T) {
	one := parquetShape{count: 1, rows: 1, data: []byte("\x01\x00\x00\x00a")}
	with := func(change func(*parquetShape)) []byte {
		p := one
		change(&p)
		return p.file()
	}
	valid := one.file()
	name := filepath.Join(t.TempDir(), "bomb.parquet")
	docs, _, err := readParquet(t, name, valid)
	if err != nil || len(docs) != 1 || docs[0].Document.ID != "a" {
		t.Fatal("the file without a lie cannot be read: ", docs, err)
	}
	nest := func(depth int) []byte { return bytes.Repeat([]byte{1<<4 | thriftStruct}, depth) }
	deep := func(levels int) []byte {
		group := structure(textField(4, "g"), int32Field(1, 1))
		return append(bytes.Repeat(group, levels), structure(int32Field(1, 6), int32Field(2, 0), textField(1, "id"))...)
	}
	packed := func(head ...uint64) (b []byte) {
		for _, n := range head {
			b = binary.AppendUvarint(b, n)
		}
		return b
	}
	for _, tt := range []struct {
		name string
		file []byte
		want string
	}{
		{"footer longer than the file", append(binary.LittleEndian.AppendUint32([]byte(parquetMagic), math.MaxUint32), parquetMagic...), "footer of 4294967295 bytes"},
		{"schema of many elements", with(func(p *parquetShape) { p.schema, p.elements = []byte{0}, 1<<31-1 }), "a list of 2147483647 elements"},
		{"metadata of many elements", closeParquet([]byte(parquetMagic), structure(int32Field(1, 1), field(4, thriftList, list(thriftStruct, 1<<62, nil)))), "a list of"},
		{"nested structures", closeParquet([]byte(parquetMagic), nest(1_000_000)), "nested structures"},
		{"nested schema", with(func(p *parquetShape) { p.schema, p.elements = deep(1_000_000), 1_000_001 }), "nested"},
		{"nested schema, a little", with(func(p *parquetShape) { p.schema, p.elements = deep(200), 201 }), "nested"},
		{"schema without its columns", with(func(p *parquetShape) {
			p.schema, p.elements = structure(textField(4, "root"), int32Field(1, math.MaxInt32)), 1
		}), "schema"},
		{"page of many values", with(func(p *parquetShape) { p.count, p.rows = math.MaxInt32, math.MaxInt32 }), "would take"},
		{"rows without values", with(func(p *parquetShape) { p.rows = math.MaxInt64 >> 1 }), "missing"},
		{"gzip of many bytes", with(func(p *parquetShape) { p.codec, p.size = 2, math.MaxInt32 }), "would take"},
		{"snappy of many bytes", with(func(p *parquetShape) {
			p.codec, p.size, p.data = 1, 100, packed(math.MaxInt32)
		}), "instead of 100"},
		{"page of fewer bytes than it says", with(func(p *parquetShape) { p.data = p.data[:4] }), ""},
		{"text longer than its page", with(func(p *parquetShape) { p.data = []byte("\xff\xff\xff\x7fa") }), ""},
		{"packed lengths in one block", with(func(p *parquetShape) {
			p.encoding, p.data = 6, packed(1<<40, 1, 1, 0)
		}), "packed values"},
		{"many packed lengths", with(func(p *parquetShape) { p.encoding, p.data = 6, packed(128, 4, 1<<40, 0) }), "packed values"},
		{"packed length of a long text", with(func(p *parquetShape) {
			p.encoding, p.data = 6, packed(128, 4, 1, uint64(math.MaxInt32)<<1)
		}), "texts of"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, allocated, err := readParquet(t, name, tt.file)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if most := uint64(32<<20) + 100*uint64(len(tt.file)); allocated > most {
				t.Errorf("%d bytes were allocated for a file of %d", allocated, len(tt.file))
			}
		})
	}
	for n := range valid {
		if _, _, err := readParquet(t, name, valid[:n]); err == nil {
			t.Errorf("cut off after %d of %d bytes: no error", n, len(valid))
		}
	}
}

// FuzzParquet reads any bytes as a Parquet file: an error or documents, never a panic, and no more
// memory than the limits of the reader.
func FuzzParquet(f *testing.F) {
	notes, err := os.ReadFile(notesParquet)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(notes)
	for at := 0; at < len(notes); at += 200 {
		other := bytes.Clone(notes)
		other[at] ^= byte(1 << (at / 200 % 8))
		f.Add(other)
	}
	for _, p := range []parquetShape{
		{count: 1, rows: 1, data: []byte("\x01\x00\x00\x00a")},
		{count: 2, rows: 2, encoding: 6, data: []byte("\x80\x01\x04\x02\x02\x00\x00\x00\x00\x00ab")},
		{count: 1, rows: 1, codec: 1, size: 5, data: []byte("\x05\x10\x01\x00\x00\x00a")},
	} {
		f.Add(p.file())
	}
	name := filepath.Join(f.TempDir(), "fuzz.parquet")
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<20 {
			return
		}
		docs, allocated, err := readParquet(t, name, b)
		if allocated > 4*freeMemory+1000*uint64(len(b)) {
			t.Errorf("%d bytes were allocated for a file of %d, which gave %d documents and %v", allocated, len(b), len(docs), err)
		}
	})
}
