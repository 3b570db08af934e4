package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A line that is too long is a question that fails: the conversation goes on.
func TestChatLongLine(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "cats.md")
	if err := os.WriteFile(page, []byte("Cats purr.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rag := func(in string, args ...string) (status int, stdout, stderr string) {
		var out, said bytes.Buffer
		status = run(t.Context(), append([]string{"rag", "--workspace", filepath.Join(dir, "ws")}, args...), strings.NewReader(in), &out, &said)
		return status, out.String(), said.String()
	}
	if status, _, stderr := rag("", "learn", "pets", "--path", page); status != statusOK {
		t.Fatal(stderr)
	}
	fits := "who purrs?" + strings.Repeat(" ", maxQuestion-len("who purrs?"))
	for _, c := range []struct {
		what, in      string
		answers, long int
	}{
		{"nothing", "", 0, 0},
		{"no long line", "who purrs?\r\n" + fits + "\r\nwho purrs?", 3, 0},
		{"a line too long by one byte", "who purrs?\n" + fits + "?\nwho purrs?\n", 2, 1},
		{"spaces only", fits + "   \n", 0, 1},
		{"a long line", "who purrs?\n" + strings.Repeat("who purrs? ", 100_000) + "\nwho purrs?\n", 2, 1},
		{"a long last line", "who purrs?\n" + strings.Repeat("who purrs? ", 10_000), 1, 1},
		{"long lines only", strings.Repeat(fits+"!\n", 3), 0, 3},
	} {
		want := statusOK
		if c.long > 0 {
			want = statusError
		}
		status, stdout, stderr := rag(c.in, "chat", "pets")
		if n := strings.Count(stdout, "Cats purr."); status != want || n != c.answers {
			t.Errorf("%s: status %d, %d answers, want %d and %d", c.what, status, n, want, c.answers)
		}
		if n := strings.Count(stderr, "vecbolt: a question of more than 65536 bytes\n"); n != c.long {
			t.Errorf("%s: %d long lines reported, want %d: %s", c.what, n, c.long, stderr)
		}
		status, stdout, _ = rag(c.in, "--json", "chat", "pets")
		if n := strings.Count(stdout, "{\"error\":\"a question of more than 65536 bytes\"}\n"); status != want || n != c.long {
			t.Errorf("%s, JSON: status %d, %d errors, want %d and %d", c.what, status, n, want, c.long)
		}
	}
}

// --overlap means the same as the key chunk_overlap: 0 is none, and only without it the default
// applies.
func TestLearnOverlap(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "cats.md")
	if err := os.WriteFile(page, []byte("Cats purr.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rag := func(args ...string) string {
		var out, said bytes.Buffer
		args = append([]string{"rag", "--workspace", filepath.Join(dir, "ws")}, args...)
		if status := run(t.Context(), args, strings.NewReader(""), &out, &said); status != statusOK {
			t.Fatal(args, said.String())
		}
		return strings.TrimSpace(out.String())
	}
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{nil, "64"},
		{[]string{"--overlap", "0"}, "0"},
		{[]string{"--overlap", "-1"}, "0"},
		{[]string{"--overlap", "7"}, "7"},
	} {
		base := "b" + strings.Join(c.flags, "")
		rag(append([]string{"learn", base, "--path", page}, c.flags...)...)
		if got := rag("config", base, "chunk_overlap"); got != c.want {
			t.Errorf("learn %v: chunk_overlap is %s, want %s", c.flags, got, c.want)
		}
	}
}
