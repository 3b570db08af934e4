package exchange

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/docjson"
)

func TestParseDocument(t *testing.T) {
	for _, tt := range []struct {
		in    string
		want  db.Document
		named db.Select
	}{
		{`{}`, db.Document{}, 0},
		{`{"id":"a","text":null,"metadata":null,"vector":null}`, db.Document{ID: "a"}, db.Everything},
		{`{"id":null}`, db.Document{}, 0},
		{`{"_id":-17}`, db.Document{ID: "-17"}, 0},
		{`{"id":12345678901234567,"embedding":[1,2e0]}`, db.Document{ID: "12345678901234567", Vector: []float32{1, 2}}, db.WithVector},
		{`{"vector":[]}`, db.Document{}, db.WithVector},
		{`{"title":"t","metadata":{"x":1}}`, db.Document{Metadata: db.Metadata{"title": "t", "x": int64(1)}}, db.WithMetadata},
		{`{"title":null}`, db.Document{Metadata: db.Metadata{"title": nil}}, db.WithMetadata},
		{`{"\u0069d":"a"}`, db.Document{ID: "a"}, 0},
		{`{"text":null,"document":"b"}`, db.Document{Text: "b"}, db.WithText},
		{`{"content":"b","text":null}`, db.Document{Text: "b"}, db.WithText},
		{`{"text":"","document":"b"}`, db.Document{Metadata: db.Metadata{"document": "b"}}, db.WithText | db.WithMetadata},
		{`{"text":null,"document":null,"content":"c"}`, db.Document{Text: "c", Metadata: db.Metadata{"document": nil}}, db.WithText | db.WithMetadata},
		{`{"vector":null,"values":[1]}`, db.Document{Vector: []float32{1}}, db.WithVector},
		{`{"embedding":null,"values":["a"]}`, db.Document{Metadata: db.Metadata{"values": []any{"a"}}}, db.WithVector | db.WithMetadata},
	} {
		d, named, err := ParseDocument([]byte(tt.in))
		if err != nil || named != tt.named || !reflect.DeepEqual(d, tt.want) {
			t.Errorf("%s: %+v, %b, %v", tt.in, d, named, err)
		}
	}
	for in, say := range map[string]string{
		`{"id":"a","_id":"b"}`:                    "byte 16: key \"_id\"",
		`{"vector":[1],"embedding":[1]}`:          "\"embedding\"",
		`{"x":1,"x":2}`:                           "\"x\"",
		`{"x":1,"metadata":{"x":2}}`:              "inside and outside of the metadata",
		`{"text":null,"text":"a"}`:                "\"text\"",
		`{"text":1}`:                              "a number instead of a string",
		`{"id":true}`:                             "a boolean instead of a string",
		`{"id":1.5}`:                              "neither a string nor an integer",
		`{"metadata":[]}`:                         "an array instead of an object",
		`{"metadata":{"n":99999999999999999999}}`: "does not fit int64",
		`{"vector":{"0":1}}`:                      "an object instead of an array",
		`{"vector":[1,"2"]}`:                      "element 1 at byte 13: a string",
		`{"vector":[1,NaN]}`:                      "element 1 at byte 13",
		`[]`:                                      "an array instead of an object",
		`{"id":"a"} {}`:                           "after the value",
		`{"id":"a"`:                               "EOF",
	} {
		_, _, err := ParseDocument([]byte(in))
		if err == nil || !strings.Contains(strings.Replace(err.Error(), "offset", "byte", 1), say) {
			t.Errorf("%s: %v, want %q", in, err, say)
		}
	}
}

// TestJSONLReader reads the same lines in reads of various sizes; complete lines are returned
// without waiting for more.
func TestJSONLReader(t *testing.T) {
	long := strings.Repeat("x", 3*blockSize)
	text := "\xef\xbb\xbf{\"id\":\"a\"}\r\n\n  \n{\"id\":\"b\",\"text\":\"" + long + "\"}\n{\"id\":\"c\"}\n{\"id\":\"d\"}"
	for name, r := range map[string]io.Reader{
		"whole":    strings.NewReader(text),
		"halves":   iotest.HalfReader(strings.NewReader(text)),
		"data+EOF": iotest.DataErrReader(strings.NewReader(text)),
		"bytes":    iotest.OneByteReader(strings.NewReader(text)),
	} {
		reader := NewJSONLReader(r, "in")
		var got []string
		for {
			doc, err := reader.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got = append(got, doc.Document.ID+" "+doc.Position.String())
			if doc.Document.ID == "b" && doc.Document.Text != long {
				t.Errorf("%s: text of %d bytes", name, len(doc.Document.Text))
			}
		}
		if want := "a in: line 1,b in: line 4,c in: line 5,d in: line 6"; strings.Join(got, ",") != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	pr, pw := io.Pipe()
	reader := NewJSONLReader(pr, "pipe")
	for _, id := range []string{"1", "2"} {
		go pw.Write([]byte(`{"id":"` + id + `"}` + "\n"))
		if doc, err := reader.Next(); err != nil || doc.Document.ID != id {
			t.Fatalf("%+v, %v", doc, err)
		}
	}
	broken := io.MultiReader(strings.NewReader("{}\n{\"id\":\"cut"), iotest.ErrReader(io.ErrClosedPipe))
	reader = NewJSONLReader(broken, "broken")
	if _, err := reader.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Next(); err != io.ErrClosedPipe {
		t.Errorf("a failed read gives %v", err)
	}
}

func TestAppendDocumentRefuses(t *testing.T) {
	for _, d := range []db.Document{
		{ID: "\xff"}, {Text: "\xff"}, {Metadata: db.Metadata{"x": math.NaN()}}, {Metadata: db.Metadata{"x": struct{}{}}},
		{Metadata: db.Metadata{"\xff": nil}}, {Vector: []float32{float32(math.Inf(1))}},
	} {
		var out bytes.Buffer
		if err := NewJSONLWriter(&out, 0).Write(&d); err == nil || out.Len() > 0 {
			t.Errorf("%+v: wrote %q, %v", d, out.Bytes(), err)
		}
	}
}

// TestMetadataOfEncodingJSON compares json.Unmarshal into db.Metadata with the reader of imports
// and requests: equal values, types and refusals.
func TestMetadataOfEncodingJSON(t *testing.T) {
	texts := []string{
		`{}`, `{"a":{}}`, `{"a":[]}`, `{"a":null}`, `{"a":-0}`, `{"a":-0.0}`, `{"a":9007199254740993}`, `{"a":1.0,"b":1}`,
		`{"a":9223372036854775807}`, `{"a":9223372036854775808}`, `{"a":-9223372036854775808}`, `{"a":-9223372036854775809}`,
		`{"a":1e400}`, `{"a":-1e400}`, `{"a":1e-400}`, `{"a":18446744073709551616.0}`, `{"a":[1,[2.5,{"b":true}]]}`, `{"a":1,"a":1}`,
		`{"a":{"b":1,"b":2}}`, `{"a.b":1,"a":{"c":1}}`, "{\"a\":\"\xff\"}", `{"\u00e9":"\ud83d\ude00"}`, `{"a":"\ud800"}`, `[]`, `1`, `"a"`,
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		f := math.Float64frombits(rng.Uint64())
		if line, err := docjson.AppendValue(nil, map[string]any{"i": int64(rng.Uint64()), "f": f}); err == nil {
			texts = append(texts, string(line))
		}
	}
	for _, s := range texts {
		want, wantErr := readMetadata(s)
		var got db.Metadata
		err := json.Unmarshal([]byte(s), &got)
		if (err == nil) != (wantErr == nil) {
			t.Errorf("%s: %v, the reader says %v", s, err, wantErr)
		}
		if err != nil {
			continue
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, want %#v", s, got, want)
		}
		written, err := json.Marshal(got)
		if errors.Is(err, db.ErrInvalid) { // a write refuses it too
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if again, err := readMetadata(string(written)); err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("%s: written as %s, read as %#v; %v", s, written, again, err)
		}
	}
}

// readMetadata reads a text that is one object of metadata.
func readMetadata(s string) (m db.Metadata, err error) {
	err = docjson.ReadObject([]byte(`{"m":`+s+`}`), func(_ string, r *docjson.Reader) (err error) {
		m, err = r.Metadata()
		return err
	})
	return m, err
}

// Windows writes the output of commands in UTF-16.
func TestUTF16IsNamed(t *testing.T) {
	for name, text := range map[string]string{
		"little.jsonl": "\xff\xfe{\x00}\x00\r\x00\n\x00", "big.jsonl": "\xfe\xff\x00{\x00}\x00\n",
		"array.json": "\xff\xfe[\x00]\x00", "rows.csv": "\xff\xfei\x00d\x00\n\x001\x00",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			src, err := Open(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, err = range src.Documents(t.Context()) {
			}
			if want := path + ": line 1, byte 0: the text is in UTF-16, and has to be in UTF-8"; err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
}
