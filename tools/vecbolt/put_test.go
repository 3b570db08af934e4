package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag/vectorize"
)

// A session is a run of the tool whose input and output a test holds.
type session struct {
	in     *io.PipeWriter
	out    *bufio.Scanner
	status chan int
	report bytes.Buffer // complete when there is a status
}

func start(ctx context.Context, t *testing.T, args ...string) *session {
	in, stdin := io.Pipe()
	out, stdout := io.Pipe()
	s := &session{in: stdin, out: bufio.NewScanner(out), status: make(chan int, 1)}
	go func() {
		status := run(ctx, args, in, stdout, &s.report)
		stdout.Close()
		s.status <- status
	}()
	t.Cleanup(func() { stdin.Close() })
	return s
}

// put sends a line and waits for its answer.
func (s *session) put(t *testing.T, line, want string) {
	t.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
	if !s.out.Scan() {
		t.Fatalf("no answer to %s: status %d, %s", line, <-s.status, &s.report)
	}
	if got := s.out.Text(); got != want {
		t.Fatalf("%s is answered with %s, want %s", line, got, want)
	}
}

// crashed returns a copy of a database as a crash would leave it now.
func crashed(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "crashed.vdb")
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() && !e.Type().IsRegular() { // the socket of the process stays behind
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || e.IsDir() {
			return errors.Join(err, os.MkdirAll(filepath.Join(to, name), 0o700))
		}
		b, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(filepath.Join(to, name), b, 0o600))
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func count(t *testing.T, dir, collection string) (n int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if status := run(t.Context(), []string{"count", dir, collection, "--json"}, nil, &stdout, &stderr); status != statusOK {
		t.Fatal(stderr.String())
	}
	if _, err := fmt.Sscanf(stdout.String(), `{"count":%d}`, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Every line is answered before the next one is sent, and answered writes survive.
func TestPutAnswersLineByLine(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "t.vdb")
	s := start(t.Context(), t, "put", dir, "c", "--json")
	for i := range 3 {
		s.put(t, fmt.Sprintf(`{"id":"%d","text":"t","vector":[%d,1]}`, i, i), fmt.Sprintf(`{"id":"%d"}`, i))
		if n := count(t, crashed(t, dir), "c"); n != i+1 {
			t.Fatalf("%d documents after a crash, %d were answered", n, i+1)
		}
	}
	// A backup of a database that was not closed flushes its log first.
	from, to := crashed(t, dir), filepath.Join(t.TempDir(), "copy.vdb")
	var stdout, stderr bytes.Buffer
	if status := run(t.Context(), []string{"backup", from, to}, nil, &stdout, &stderr); status != statusOK {
		t.Fatal(stderr.String())
	}
	if n := count(t, to, "c"); n != 3 {
		t.Fatalf("%d documents in the backup", n)
	}
	if err := s.in.Close(); err != nil {
		t.Fatal(err)
	}
	if status := <-s.status; status != statusOK {
		t.Fatalf("status %d: %s", status, &s.report)
	}
}

// An interrupt ends a put that waits for input; answered writes are there.
func TestPutInterrupted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "t.vdb")
	ctx, interrupt := context.WithCancel(t.Context())
	s := start(ctx, t, "put", dir, "c", "--json")
	s.put(t, `{"id":"a"}`, `{"id":"a"}`)
	interrupt()
	if status := <-s.status; status != statusError || !strings.Contains(s.report.String(), "interrupted") {
		t.Fatalf("status %d: %s", status, &s.report)
	}
	if n := count(t, dir, "c"); n != 1 {
		t.Fatalf("%d documents", n)
	}
}

// So it ends every verb that waits for input.
func TestInputInterrupted(t *testing.T) {
	dir, ws := filepath.Join(t.TempDir(), "t.vdb"), t.TempDir()
	for _, args := range [][]string{
		{"put", dir, "c"}, {"rag", "--workspace", ws, "learn", "b", "--path", "-"},
	} {
		var report bytes.Buffer
		in := strings.NewReader(`{"id":"a","vector":[1,0]}`)
		if status := run(t.Context(), args, in, io.Discard, &report); status != statusOK {
			t.Fatal(report.String())
		}
	}
	for _, test := range []struct {
		args  []string
		input string
	}{
		{[]string{"put", dir, "c"}, `{"id":"b"}`},
		{[]string{"import", dir, "c", "-"}, `{"id":"b"}`},
		{[]string{"search", dir, "c", "--vector", "-"}, `[1`},
		{[]string{"rag", "--workspace", ws, "chat", "b"}, "who?"},
		{[]string{"rag", "--workspace", ws, "learn", "b", "--path", "-"}, "more"},
	} {
		ctx, interrupt := context.WithCancel(t.Context())
		s := start(ctx, t, test.args...)
		go func() {
			for s.out.Scan() { // otherwise its output would block it
			}
		}()
		if _, err := io.WriteString(s.in, test.input); err != nil { // which the verb waits behind
			t.Fatal(err)
		}
		interrupt()
		select {
		case status := <-s.status:
			if status != statusError || !strings.HasPrefix(s.report.String(), "vecbolt: interrupted: ") {
				t.Errorf("%q: status %d: %s", test.args, status, &s.report)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%q waits on", test.args)
		}
	}
	if n := count(t, dir, "c"); n != 1 {
		t.Errorf("%d documents, want 1", n)
	}
}

// A verb that ends before it has a document makes neither a database nor a collection.
func TestInputWithoutDocuments(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "t.vdb")
	if status := run(t.Context(), []string{"put", dir, "c"}, strings.NewReader(`{"id":"a"}`), io.Discard, t.Output()); status != statusOK {
		t.Fatal("no database")
	}
	for name, test := range map[string]struct {
		verb, file []string // around the names of the database and the collection
		input      string
		interrupt  bool
	}{
		"import, interrupted": {[]string{"import"}, []string{"-"}, `{"id":"b"}` + "\n" + `{"id":"c"}`, true},
		"import, bad line":    {[]string{"import"}, []string{"-"}, `{"id":`, false},
		"put, interrupted":    {[]string{"put"}, nil, `{"id":`, true},
		"put, bad line":       {[]string{"put"}, nil, `{"id":`, false},
		"put, bad document":   {[]string{"put"}, nil, `{"id":"b","metadata":{"":1}}`, false},
		"put, other vector":   {[]string{"put", "--embed=mock:trigram-v1"}, nil, `{"id":"b","vector":[1]}`, false},
		"import, bad documents": {[]string{"import"}, []string{"-"},
			`{"id":"b","metadata":{"":1}}` + "\n" + `{"id":"c","vector":[1e99]}`, false},
		"import, many bad documents": {[]string{"import"}, []string{"-"},
			strings.Repeat(`{"metadata":{"":1}}`+"\n", 1001), false},
		"import, bad document and line": {[]string{"import"}, []string{"-"}, `{"id":"b","metadata":{"":1}}` + "\n{", false},
		"import, other vector": {[]string{"import", "--embed=mock:trigram-v1"}, []string{"-"},
			`{"id":"b","vector":[1]}`, false},
	} {
		for where, at := range map[string]string{"no database": filepath.Join(t.TempDir(), "new.vdb"), "no collection": dir} {
			t.Run(name+", "+where, func(t *testing.T) {
				ctx, interrupt := context.WithCancel(t.Context())
				defer interrupt()
				s := start(ctx, t, slices.Concat(test.verb, []string{at, "new"}, test.file)...)
				go func() {
					for s.out.Scan() { // otherwise its output would block it
					}
				}()
				if _, err := io.WriteString(s.in, test.input); err != nil {
					t.Fatal(err)
				}
				if test.interrupt {
					interrupt()
				} else {
					s.in.Close()
				}
				if status := <-s.status; status != statusError || test.interrupt != strings.HasPrefix(s.report.String(), "vecbolt: interrupted: ") {
					t.Errorf("status %d: %s", status, &s.report)
				}
				var names bytes.Buffer
				if status := run(t.Context(), []string{"collections", dir}, nil, &names, &names); status != statusOK || strings.Contains(names.String(), "new") {
					t.Errorf("status %d: %s", status, &names)
				}
				if _, err := os.Stat(at); at != dir && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("a database was made, or %v", err)
				}
			})
		}
	}
}

// A line that fails in the middle of a batch takes none of the lines before it along.
func TestPutBadLineInBatch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "t.vdb")
	vdb, err := db.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	coll, err := vdb.CreateCollection(t.Context(), "c", db.Schema{Dim: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	input := `{"id":"a","vector":[1,2]}
{"id":"b","vector":[1,2]}

{"id":"c","vector":[1,2,3]}
{"id":"d"}
`
	var lines []inputLine
	for line := range documents(t.Context(), strings.NewReader(input), "in").lines {
		lines = append(lines, line)
	}
	var out bytes.Buffer
	n, err := (&putCmd{}).write(t.Context(), &tool{json: true, out: bufio.NewWriter(&out)}, vectorize.New(vectorize.Options{}).Collection(coll), lines)
	if n != 2 || !errors.Is(err, db.ErrDimensionMismatch) || !strings.HasPrefix(err.Error(), "in: line 4: ") ||
		out.String() != "{\"id\":\"a\"}\n{\"id\":\"b\"}\n" {
		t.Fatalf("%d, %v, %s", n, err, &out)
	}
	if n, err := coll.Count(t.Context(), nil); n != 2 || err != nil {
		t.Fatalf("%d documents, %v", n, err)
	}
}

// Of large documents, put reads a few ahead, and writes them in batches of a few.
func TestPutReadsAheadByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, size = 20, 2 << 20
		var input strings.Builder
		for i := range n {
			fmt.Fprintf(&input, `{"id":"%02d","text":"%s"}`+"\n", i, strings.Repeat("x", size))
		}
		a := documents(t.Context(), strings.NewReader(input.String()), "in")
		seen := 0
		for group := range a.grouped(t.Context()) {
			if bytes := len(group) * size; bytes > aheadBytes+size {
				t.Errorf("%d bytes in a batch", bytes)
			}
			for _, line := range group {
				if want := fmt.Sprintf("%02d", seen); line.err != nil || line.Document.ID != want {
					t.Fatalf("%q, %v, want %s", line.Document.ID, line.err, want)
				}
				seen++
			}
			synctest.Wait() // until no more is read while this batch is written
			if bytes := len(a.lines) * size; bytes > aheadBytes+size {
				t.Errorf("%d bytes are read ahead", bytes)
			}
		}
		if seen != n {
			t.Errorf("%d documents, want %d", seen, n)
		}
	})
}

// TestArgumentsAreUTF8: an argument with other bytes names nothing, where it would name something
// else with these bytes replaced.
func TestArgumentsAreUTF8(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "t.vdb")
	if got := run(t.Context(), []string{"put", dir, "c"}, strings.NewReader(`{"id":"a\ufffd","text":"x"}`), io.Discard, io.Discard); got != statusOK {
		t.Fatal(got)
	}
	var said strings.Builder
	if got := run(t.Context(), []string{"delete", dir, "c", "a\xff"}, strings.NewReader(""), io.Discard, &said); got != statusUsage || !strings.Contains(said.String(), `"a\xff" is not UTF-8`) {
		t.Errorf("status %d, %s", got, said.String())
	}
	if got := run(t.Context(), []string{"get", dir, "c", "a\ufffd"}, strings.NewReader(""), io.Discard, io.Discard); got != statusOK {
		t.Errorf("it deleted another document: %d", got)
	}
}
