package main

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/exchange"
	"github.com/vecbolt/vecbolt/internal/errtext"
)

// testdata/notes.parquet was written by pyarrow 26.0.1 with
//
//	import datetime as dt
//	import pyarrow as pa, pyarrow.parquet as pq
//	t = pa.table({
//		"id": pa.array(["a", "b", "c"]),
//		"document": pa.array(["first", "zweites ü", None]),
//		"embedding": pa.array([[1, 0.5], [0, 1], None], pa.list_(pa.float32(), 2)),
//		"lang": pa.array(["go", "de", "go"]).dictionary_encode(),
//		"year": pa.array([2020, None, -3], pa.int16()),
//		"big": pa.array([2**63 - 1, 0, None], pa.int64()),
//		"score": pa.array([0.25, 1.0, None]),
//		"ok": pa.array([True, False, None]),
//		"at": pa.array([dt.datetime(2024, 5, 6, 7, 8, 9, 120000), None, None], pa.timestamp("us", tz="UTC")),
//		"day": pa.array([dt.date(2024, 2, 29), None, None]),
//		"tags": pa.array([["x", "y"], [], None], pa.list_(pa.string())),
//		"metadata": pa.array([{"page": 1, "from": {"file": "a.md"}}, None, {"page": None, "from": None}],
//		                     pa.struct([("page", pa.int32()), ("from", pa.struct([("file", pa.string())]))])),
//		"more": pa.array([[("k", 1), ("l", 2)], None, []], pa.map_(pa.string(), pa.int64())),
//		"raw": pa.array([b"\xff\xfe", None, None], pa.binary()),
//	})
//	pq.write_table(t, "notes.parquet", row_group_size=2, compression="zstd", store_schema=False)
const notesParquet = "testdata/notes.parquet"

func parquetDocuments(t *testing.T, path string) (docs []*exchange.ImportedDocument, err error) {
	t.Helper()
	src, err := openParquet(path)
	if err != nil {
		return nil, err
	}
	for doc, err := range src.Documents(t.Context()) {
		if err != nil {
			return docs, err
		}
		docs = append(docs, doc)
	}
	return docs, nil
}

func writeParquet[T any](t *testing.T, rows []T, o ...parquet.WriterOption) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := parquet.NewGenericWriter[T](f, o...)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// testdata/parts.parquet was written by pyarrow 26.0.1 with
//
//	t = pa.table({"id": pa.array(["a", "b"]), "text": pa.array(["first", "second"])})
//	with pq.ParquetWriter("parts.parquet", t.schema, store_schema=False) as w:
//		for part in [t[:1], t[:0], t[1:]]:
//			w.write_table(part)
//
// The row group without rows has a dictionary, and a data page at offset 0. Rows after it are read.
func TestParquetEmptyRowGroup(t *testing.T) {
	docs, err := parquetDocuments(t, "testdata/parts.parquet")
	if err != nil || len(docs) != 2 {
		t.Fatalf("%d documents, %v", len(docs), err)
	}
	for i, want := range []db.Document{{ID: "a", Text: "first"}, {ID: "b", Text: "second"}} {
		if diff := cmp.Diff(want, docs[i].Document); docs[i].Skip != nil || diff != "" || docs[i].Position.N != int64(i) {
			t.Errorf("%v: %v\n%s", docs[i].Position, docs[i].Skip, diff)
		}
	}
}

// Integers beyond int64 keep their digits, as text.
func TestParquetLargeIntegers(t *testing.T) {
	type row struct {
		ID      uint64            `parquet:"id"`
		N       uint64            `parquet:"n"`
		Decimal [16]byte          `parquet:"decimal,decimal(0:38)"`
		Nested  []uint64          `parquet:"nested,list"`
		Counts  map[uint64]uint64 `parquet:"counts"`
	}
	const most = math.MaxInt64
	path := writeParquet(t, []row{
		{ID: most, N: most, Decimal: [16]byte{8: 0x7f, 15: 1}, Nested: []uint64{0, most}, Counts: map[uint64]uint64{most: most}},
		{ID: most + 2, N: most + 2, Decimal: [16]byte{7: 1}, Nested: []uint64{0, most + 2}, Counts: map[uint64]uint64{most + 2: most + 2}},
	})
	docs, err := parquetDocuments(t, path)
	if err != nil || len(docs) != 2 {
		t.Fatalf("%d documents, %v", len(docs), err)
	}
	for i, want := range []db.Document{
		{ID: "9223372036854775807", Metadata: db.Metadata{"n": int64(most), "decimal": int64(0x7f<<56 + 1), "nested": []any{int64(0), int64(most)},
			"counts": map[string]any{"9223372036854775807": int64(most)}}},
		{ID: "9223372036854775809", Metadata: db.Metadata{"n": "9223372036854775809", "decimal": "18446744073709551616",
			"nested": []any{int64(0), "9223372036854775809"}, "counts": map[string]any{"9223372036854775809": "9223372036854775809"}}},
	} {
		if diff := cmp.Diff(want, docs[i].Document); docs[i].Skip != nil || diff != "" {
			t.Errorf("row %d: %v\n%s", i, docs[i].Skip, diff)
		}
	}
}

// Lists, nulls and nested metadata, in files of the library with several row groups.
func TestParquetValues(t *testing.T) {
	type origin struct {
		File string `parquet:"file"`
		Line *int32 `parquet:"line"`
	}
	type row struct {
		ID       int64            `parquet:"_id"`
		Content  *string          `parquet:"content,optional"`
		Values   []float64        `parquet:"values,list"`
		Metadata string           `parquet:"metadata"`
		From     *origin          `parquet:"from,optional"`
		Tags     []string         `parquet:"tags"`
		Counts   map[string]int32 `parquet:"counts"`
	}
	text, line := "first", int32(7)
	rows := []row{
		{1, &text, []float64{1, 0.5}, `{"a":{"b":1.0}}`, &origin{"x", &line}, []string{"p", "q"}, map[string]int32{"n": 2}},
		{2, nil, nil, "", nil, nil, nil},
		{3, &text, []float64{1e300, 0}, "", nil, nil, nil},
		{4, &text, []float64{0, 1}, "[", nil, nil, nil},
		{5, &text, []float64{0, 1}, "null", nil, nil, nil},
	}
	path := writeParquet(t, rows, parquet.MaxRowsPerRowGroup(2), parquet.Compression(&parquet.Snappy))
	docs, err := parquetDocuments(t, path)
	if err != nil || len(docs) != len(rows) {
		t.Fatalf("%d documents, %v", len(docs), err)
	}
	want := db.Document{ID: "1", Text: "first", Vector: []float32{1, 0.5}, Metadata: db.Metadata{
		"a": map[string]any{"b": 1.0}, "from": map[string]any{"file": "x", "line": int64(7)},
		"tags": []any{"p", "q"}, "counts": map[string]any{"n": int64(2)},
	}}
	if diff := cmp.Diff(want, docs[0].Document); diff != "" {
		t.Error(diff)
	}
	if d := docs[1]; d.Skip != nil || d.Document.ID != "2" || d.Document.Text != "" || d.Document.Vector != nil {
		t.Errorf("nulls gave %+v", d)
	}
	if d := docs[2]; !errors.Is(d.Skip, exchange.ErrNotFinite) || d.Position.N != 2 ||
		d.Document.ID != "3" || d.Skip.Error() != `document "3": column "values": element 0: `+exchange.ErrNotFinite.Error() {
		t.Errorf("%v: %v", d.Position, d.Skip)
	}
	if d := docs[3]; !errors.Is(d.Skip, exchange.ErrFormat) || d.Document.ID != "4" {
		t.Errorf("%v: %v", d.Position, d.Skip)
	}
	if d := docs[4]; d.Skip != nil || d.Document.Text != text || d.Carries&db.WithMetadata == 0 {
		t.Errorf("null as metadata gave %+v", d)
	}
}

// Ids that are bytes but no text are errors: each import would give the rows other ids. In other
// columns such values are left out, and an id that is null is made by the database.
func TestParquetBinaryIDs(t *testing.T) {
	type row struct {
		ID  []byte `parquet:"id,optional"`
		Raw []byte `parquet:"raw"`
	}
	path := writeParquet(t, []row{{[]byte("a"), []byte("\xff")}, {[]byte("\xff\x00"), []byte("b")}, {nil, nil}})
	docs, err := parquetDocuments(t, path)
	if err != nil || len(docs) != 3 {
		t.Fatalf("%d documents, %v", len(docs), err)
	}
	if d := docs[0]; d.Skip != nil || d.Document.ID != "a" || len(d.Document.Metadata) != 0 {
		t.Errorf("text: %+v", d)
	}
	const want = `column "id": invalid: the value is neither a text nor a number`
	if d := docs[1]; !errors.Is(d.Skip, db.ErrInvalid) || errtext.Plain(d.Skip.Error()) != want || d.Position.N != 1 {
		t.Errorf("bytes: %v: %v", d.Position, d.Skip)
	}
	if d := docs[2]; d.Skip != nil || d.Document.ID != "" {
		t.Errorf("null: %+v", d)
	}
	uuids := writeParquet(t, []struct {
		ID [16]byte `parquet:"_id"`
	}{{[16]byte{0: 'a'}}})
	if docs, err := parquetDocuments(t, uuids); err != nil || len(docs) != 1 || !errors.Is(docs[0].Skip, db.ErrInvalid) {
		t.Errorf("16 bytes: %v, %v", docs, err)
	}
}

// A damaged file is an error or has other values, but never a panic.
func TestParquetDamage(t *testing.T) {
	b, err := os.ReadFile(notesParquet)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "damaged.parquet")
	read := func(b []byte) error {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := parquetDocuments(t, path)
		if err != nil && (!errors.Is(err, exchange.ErrFormat) && !isUnread(err) || !bytes.Contains([]byte(err.Error()), []byte(path))) {
			t.Fatalf("error without its kind or file: %v", err)
		}
		return err
	}
	for n := 0; n < len(b); n += 101 {
		if read(b[:n]) == nil {
			t.Errorf("cut off after %d bytes: no error", n)
		}
	}
	failed := 0
	for at := 0; at < len(b); at += 7 {
		other := bytes.Clone(b)
		other[at] ^= byte(1 << (at % 8))
		if read(other) != nil {
			failed++
		}
	}
	if failed < len(b)/140 {
		t.Errorf("only %d of %d damaged files are errors", failed, len(b))
	}
}
