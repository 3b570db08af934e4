package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/db"
)

// TestExportOfOneMoment: documents that others write during an export are not in it. A .npy file
// begins with the number of its rows, so that the collection is read twice.
func TestExportOfOneMoment(t *testing.T) {
	vdb, err := db.Open(db.Memory, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	coll, err := vdb.CreateCollection(t.Context(), "c", db.Schema{Dim: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	put := func(id string) {
		if _, err := coll.Upsert(t.Context(), db.Document{ID: id, Vector: []float32{1}}); err != nil {
			t.Error(err)
		}
	}
	put("a")
	var file bytes.Buffer
	written := 0
	out := writerFunc(func(b []byte) (int, error) {
		written++
		put(fmt.Sprintf("during %d", written))
		return file.Write(b)
	})
	c := exportCmd{Out: "-", Format: "npy"}
	const least = 16 // bytes of a bufio.Writer: the header does not wait for the rows
	if err := c.export(t.Context(), &tool{out: bufio.NewWriterSize(out, least), report: io.Discard})(coll); err != nil {
		t.Error(err)
	}
	if written == 0 || !strings.Contains(file.String(), "'shape': (1, 1)") {
		t.Errorf("%d writes, %q", written, &file)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// TestOutFile: an export that fails leaves the file of an earlier one, and nothing beside it.
func TestOutFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out.jsonl")
	if err := os.WriteFile(name, []byte("before"), 0o640); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		keep bool
		want string
	}{{false, "before"}, {true, "after"}} {
		out, err := (&tool{}).create(name)
		if err == nil {
			_, err = io.WriteString(out, "after")
		}
		if err == nil && tt.keep {
			err = keep(out)
		}
		if err != nil {
			t.Fatal(err)
		}
		out.drop()
		if got, err := os.ReadFile(name); err != nil || string(got) != tt.want {
			t.Errorf("%q, %v, want %q", got, err, tt.want)
		}
		if left, err := os.ReadDir(filepath.Dir(name)); err != nil || len(left) != 1 {
			t.Error(left, err)
		}
	}
}

// TestOutFilesTogether: of files that belong together, all take their names or none.
func TestOutFilesTogether(t *testing.T) {
	shut := func(t *testing.T, o *outFile) { // it cannot be completed
		if err := o.file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	block := func(t *testing.T, o *outFile) { // it cannot take its name
		if err := errors.Join(os.RemoveAll(o.name), os.MkdirAll(filepath.Join(o.name, "x"), 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		spoil func(*testing.T, *outFile)
		which int    // of the files
		none  bool   // there are no earlier files
		stays string // in place of the file that was spoilt, if it is another file
	}{
		"whole":                         {nil, 0, false, ""},
		"the first is incomplete":       {shut, 0, false, ""},
		"the second is incomplete":      {shut, 1, false, ""},
		"the first gets no name":        {block, 0, false, "directory"},
		"the second gets no name":       {block, 1, false, "directory"},
		"whole, new":                    {nil, 0, true, ""},
		"new, the second is incomplete": {shut, 1, true, ""},
		"new, the second gets no name":  {block, 1, true, "directory"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var files []*outFile
			for _, name := range []string{"vectors", "documents"} {
				name = filepath.Join(dir, name)
				if !tt.none {
					if err := os.WriteFile(name, []byte("before"), 0o640); err != nil {
						t.Fatal(err)
					}
				}
				out, err := (&tool{}).create(name)
				if err == nil {
					_, err = io.WriteString(out, "after")
				}
				if err != nil {
					t.Fatal(err)
				}
				files = append(files, out)
			}
			if tt.spoil != nil {
				tt.spoil(t, files[tt.which])
			}
			if err := keep(files...); (err != nil) != (tt.spoil != nil) {
				t.Error(err)
			}
			want := map[string]string{"vectors": "after", "documents": "after"}
			switch {
			case tt.spoil != nil && tt.none:
				clear(want)
			case tt.spoil != nil:
				want = map[string]string{"vectors": "before", "documents": "before"}
			}
			for i, out := range files {
				out.drop()
				if i == tt.which && tt.stays != "" {
					want[filepath.Base(out.name)] = tt.stays
				}
			}
			got := map[string]string{}
			left, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range left {
				got[e.Name()] = "directory"
				if !e.IsDir() {
					b, err := os.ReadFile(filepath.Join(dir, e.Name()))
					if err != nil {
						t.Fatal(err)
					}
					got[e.Name()] = string(b)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
