package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/db"
)

// pipe returns the path of a pipe that holds content and then ends.
func pipe(t *testing.T, content string) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	path := fmt.Sprintf("/dev/fd/%d", r.Fd())
	if _, err := os.Stat(path); err != nil {
		w.Close()
		t.Skip("pipes have no paths here:", err)
	}
	go func() {
		defer w.Close()
		_, _ = io.WriteString(w, content) // the test fails if it is not read
	}()
	return path
}

// openPipe returns the path of a pipe that holds content and does not end.
func openPipe(t *testing.T, content string) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	path := fmt.Sprintf("/dev/fd/%d", r.Fd())
	if _, err := os.Stat(path); err != nil {
		t.Skip("pipes have no paths here:", err)
	}
	if _, err := io.WriteString(w, content); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPipes reads every format from a pipe, whose bytes come once, with and without the detection
// of the format.
func TestPipes(t *testing.T) {
	const many = 5000 // more than any buffer holds
	var lines, rows strings.Builder
	var documents, vectors []db.Document
	for i := range many {
		id := fmt.Sprint(i)
		fmt.Fprintf(&lines, `{"id":"%d","text":"t"}`+"\n", i)
		fmt.Fprintf(&rows, "%d,t\n", i)
		documents = append(documents, db.Document{ID: id, Text: "t"})
		vectors = append(vectors, db.Document{ID: id, Vector: []float32{float32(i % 256), 2}})
	}
	array := "[" + strings.ReplaceAll(strings.TrimSpace(lines.String()), "\n", ",") + "]"
	var fvecs, bvecs, npy bytes.Buffer
	fw := NewVecsWriter(&fvecs)
	nw, err := NewNPYWriter(&npy, many, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range vectors {
		bvecs.Write([]byte{2, 0, 0, 0, byte(i), 2})
		if err := errors.Join(fw.Write(d.Vector), nw.Write(d.Vector)); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name, content string
		format        Format
		want          []db.Document
		say           string
	}{
		{"lines", lines.String(), Auto, documents, ""},
		{"lines, named", lines.String(), JSONL, documents, ""},
		{"array", array, Auto, documents, ""},
		{"BEIR", lines.String(), BEIR, documents, ""},
		{"CSV", "id,text\n" + rows.String(), CSV, documents, ""},
		{"fvecs", fvecs.String(), FVecs, vectors, ""},
		{"bvecs", bvecs.String(), BVecs, vectors, ""},
		{"npy", npy.String(), Auto, vectors, ""},
		{"npy, named", npy.String(), NPY, vectors, ""},
		{"nothing", "", JSONL, nil, ""},
		{"no vectors", "", FVecs, nil, ""},
		{"fvecs cut in a row", fvecs.String()[:12*3+6], FVecs, vectors[:3], "offset 36: unexpected EOF: a row of dimension 2 needs 8 bytes, 2 are left"},
		{"fvecs cut before a row", fvecs.String()[:12*3+4], FVecs, vectors[:3], "offset 36: unexpected EOF"},
		{"npy cut", npy.String()[:npy.Len()-1], NPY, vectors[:many-1], "unexpected EOF"},
		{"npy with more", npy.String() + "x", NPY, vectors, "bytes after the 5000 rows"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			src, err := Open(pipe(t, tt.content), &OpenOptions{Format: tt.format})
			if err != nil {
				t.Fatal(err)
			}
			var got []db.Document
			for doc, e := range src.Documents(t.Context()) {
				if err = e; err == nil {
					got = append(got, doc.Document)
				}
			}
			if (err == nil) != (tt.say == "") || err != nil && !strings.Contains(err.Error(), tt.say) {
				t.Errorf("%v, want %q", err, tt.say)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if src.Total() != 0 {
				t.Errorf("total %d", src.Total())
			}
			for _, err := range src.Documents(t.Context()) {
				if !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), "not a regular file") {
					t.Errorf("read again: %v", err)
				}
			}
		})
	}
}

// TestPipeInterrupted: a loop that waits for more of a pipe ends with its context.
func TestPipeInterrupted(t *testing.T) {
	for _, tt := range []struct {
		format  Format
		content string
	}{
		{JSONL, `{"id":"a"`},
		{CSV, "id,text\na,"},
		{FVecs, "\x01\x00\x00\x00"},
	} {
		src, err := Open(openPipe(t, tt.content), &OpenOptions{Format: tt.format})
		if err != nil {
			t.Fatal(err)
		}
		ctx, interrupt := context.WithCancel(t.Context())
		end := make(chan error, 1)
		go func() {
			var last error
			for _, err := range src.Documents(ctx) {
				last = err
			}
			end <- last
		}()
		interrupt()
		select {
		case err := <-end:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", tt.format, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: it waits on", tt.format)
		}
	}
}

// TestPipeLeft: a loop that is left, or meets a line that it cannot read, waits for no more of the
// pipe.
func TestPipeLeft(t *testing.T) {
	for name, content := range map[string]string{"left": `{"id":"a"}` + "\n", "an error": `{"id":}` + "\n"} {
		src, err := Open(openPipe(t, content), &OpenOptions{Format: JSONL})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for range src.Documents(t.Context()) {
				break
			}
		}()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatalf("%s: it waits on", name)
		}
	}
}

// TestPipeOfTruths reads lists of numbers from a pipe.
func TestPipeOfTruths(t *testing.T) {
	rows, err := ReadIVecs(pipe(t, "\x01\x00\x00\x00\x07\x00\x00\x00\x01\x00\x00\x00\x09\x00\x00\x00"))
	if diff := cmp.Diff([][]int32{{7}, {9}}, rows); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

// TestDetectTakesNothing: the first bytes of a pipe are left to its source.
func TestDetectTakesNothing(t *testing.T) {
	path := pipe(t, `{"id":"a"}`)
	if f, err := Detect(path); !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), path) {
		t.Errorf("%q, %v", f, err)
	}
	if r := importAll(t, open(t, 0), path, nil); r.Added != 1 {
		t.Errorf("%+v", r)
	}
}
