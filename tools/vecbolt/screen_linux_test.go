package main

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

const hostile = "\x1b]0;owned\x07 \x1b[2J \u009b2J kept\tß\r\nline"

// TestHostileDocuments: a terminal does not obey the texts of documents. Files and pipes have them
// as they are.
func TestHostileDocuments(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "t.vdb")
	const line = `{"id":"a","text":"\u001b]0;owned\u0007 \u001b[2J \u009b2J kept\tß\r\nline"}`
	var stderr bytes.Buffer
	if status := run(t.Context(), []string{"put", dir, "c"}, strings.NewReader(line), io.Discard, &stderr); status != statusOK {
		t.Fatal(stderr.String())
	}
	for _, args := range [][]string{{"get", dir, "c", "a"}, {"--json", "get", dir, "c", "a"}} {
		view, program := pseudoTerminal(t)
		seen := make(chan string)
		go func() {
			var b bytes.Buffer
			_, _ = io.Copy(&b, view) // ends with an error when the other end is closed
			seen <- b.String()
		}()
		if status := run(t.Context(), args, strings.NewReader(""), program, &stderr); status != statusOK {
			t.Fatal(stderr.String())
		}
		program.Close()
		got := <-seen
		if !strings.Contains(got, "ß") || strings.ContainsAny(got, "\x1b\x07\u009b") {
			t.Errorf("%q shows %q", args, got)
		}
		view.Close()
	}
	var piped bytes.Buffer
	if status := run(t.Context(), []string{"get", dir, "c", "a"}, strings.NewReader(""), &piped, &stderr); status != statusOK {
		t.Fatal(stderr.String())
	}
	if want := strings.ReplaceAll(hostile, "\n", "\n            "); !strings.Contains(piped.String(), want) {
		t.Errorf("a pipe has %q, want %q", piped.String(), want)
	}
}

// TestScreen writes texts in parts of every length.
func TestScreen(t *testing.T) {
	const want = "\ufffd]0;owned\ufffd \ufffd[2J \ufffd2J kept\tß\nline"
	for n := 1; n <= len(hostile); n++ {
		var b bytes.Buffer
		s := &screen{Writer: &b}
		for rest := []byte(hostile); len(rest) > 0; {
			part := rest[:min(n, len(rest))]
			rest = rest[len(part):]
			if _, err := s.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		if b.String() != want {
			t.Errorf("in parts of %d bytes: %q", n, b.String())
		}
	}
}
