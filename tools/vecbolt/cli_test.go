package main

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// docs/cli.md is what the tool says of itself.
func TestDocument(t *testing.T) {
	const name = "../../docs/cli.md"
	t.Setenv("COLUMNS", "100")
	help := func(args ...string) string {
		var stdout, stderr bytes.Buffer
		if status := run(t.Context(), append(args, "--help"), nil, &stdout, &stderr); status != statusOK {
			t.Fatalf("%v: status %d, %s", args, status, &stderr)
		}
		return stdout.String()
	}
	parser, err := newParser(&cli{}, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var doc bytes.Buffer
	doc.WriteString(`# The command-line tool

` + "`go build ./tools/vecbolt`" + ` makes the tool; ` + "`vecbolt demo`" + ` shows what it does. This page is generated from its own
help by a test (` + "`go test ./tools/vecbolt -run TestDocument -update`" + `).

Answers go to standard output; with ` + "`--json`" + ` they are JSON objects, one per line, and nothing else. Messages, progress and
errors go to standard error. The exit status is 0, 1 after an error, and 2 for wrong usage. A file argument of ` + "`-`" + ` is
the standard input or output. Verbs that only read open the database read-only: any number of them may run at once,
but not beside a writer; then one fails at once with "locked by another process".

`)
	fmt.Fprintf(&doc, "```\n%s```\n", help())
	for _, verb := range parser.Model.Children {
		fmt.Fprintf(&doc, "\n## %s\n\n```\n%s```\n", verb.Name, help(verb.Name))
		for _, sub := range verb.Children {
			fmt.Fprintf(&doc, "\n### %s %s\n\n```\n%s```\n", verb.Name, sub.Name, help(verb.Name, sub.Name))
		}
	}
	if *update {
		if err := os.WriteFile(name, doc.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), doc.String()); diff != "" {
		t.Errorf("%s is not what the tool says; run go test ./tools/vecbolt -run TestDocument -update\n%s", name, diff)
	}
}
